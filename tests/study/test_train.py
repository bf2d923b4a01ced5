"""Training a cell: the same bits twice, honest ends, files that other tools can read."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the model is torch's")
pytest.importorskip("safetensors", reason="trained models are saved with it")

import posenc  # noqa: E402
from posenc_study.cell import Cell  # noqa: E402
from posenc_study.generation.search import greedy  # noqa: E402
from posenc_study.model.inputs import Tokens  # noqa: E402
from posenc_study.tasks import TASKS  # noqa: E402
from posenc_study.tasks.base import Task  # noqa: E402
from posenc_study.training.run import Run  # noqa: E402
from posenc_study.training.saved import load  # noqa: E402
from posenc_study.training.train import Outcome, train  # noqa: E402

TINY: dict[str, Any] = {
    "steps": 3,
    "batch": 4,
    "width": 16,
    "heads": 2,
    "layers": 2,
    "hidden": 16,
    "examples": 6,
}
SCRIPT = """
import sys
from posenc_study.cell import Cell
from posenc_study.training.train import train
outcome = train(Cell.from_json(sys.argv[1]))
for row in outcome.rows:
    print(row["metric"], row["bucket"], row["value"].hex())
print(outcome.final_loss.hex())
"""


def cell(task: str, encoding: str, seed: int = 0, **settings: Any) -> Cell:
    return Cell.of(task, encoding, seed=seed, settings={**TINY, **settings})


def bits(outcome: Outcome) -> list[str]:
    rows = [f"{row['metric']} {row['bucket']} {row['value'].hex()}" for row in outcome.rows]
    return [*rows, outcome.final_loss.hex()]


@pytest.mark.parametrize("name", sorted(TASKS))
def test_every_task_trains(name: str) -> None:
    changes = {"tuning": 2} if name == "rope-scaling" else {}
    outcome = train(cell(name, "rope-ntk" if changes else "alibi", **changes))
    assert outcome.verdict == "finished"
    assert outcome.steps == 3
    ends = {f"{factor:g}L" for factor in TASKS[name]().factors}
    buckets = {row["bucket"] for row in outcome.rows}
    assert buckets >= ends
    assert buckets == ends or name.startswith("extension")  # also at each half length
    metrics = {row["metric"] for row in outcome.rows}
    assert TASKS[name].metric in metrics
    assert ("nats-tuned" in metrics) == (name == "rope-scaling")
    assert all(math.isfinite(row["value"]) for row in outcome.rows)
    assert all(set(row) == {"metric", "bucket", "length", "value"} for row in outcome.rows)


@pytest.mark.costly
def test_a_cell_has_the_same_bits_in_two_processes() -> None:
    one = cell("order", "randomised-rope", seed=3, steps=6)
    command = [sys.executable, "-c", SCRIPT, one.to_json()]
    done = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    threads = torch.get_num_threads()
    assert done == bits(train(one))
    assert torch.get_num_threads() == threads
    assert done != bits(train(cell("order", "randomised-rope", seed=4, steps=6)))


@pytest.mark.costly
def test_batches_are_the_same_for_every_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, list[torch.Tensor]] = {}
    for encoding in ("none", "learned", "randomised-sinusoidal", "t5"):
        kept = seen.setdefault(encoding, [])
        original = Task.batch

        def batch(
            self: Task, seed: int, step: int, kept: Any = kept, original: Any = original
        ) -> Any:
            found = original(self, seed, step)
            kept.append(found.target.ids)
            return found

        with monkeypatch.context() as patch:
            patch.setattr(Task, "batch", batch)
            train(cell("order", encoding, factors="1"))
    first, *others = seen.values()
    assert len(first) == 3
    for other in others:
        assert all(torch.equal(a, b) for a, b in zip(first, other, strict=True))


def test_drawn_positions_change_with_the_step_and_stay_in_range() -> None:
    run = Run(cell("reverse", "randomised-rope"))
    batch = run.task.batch(0, 0)
    one, other, again = (run.placed(batch, step) for step in (0, 1, 0))
    assert one.source is not None
    for tokens in (one.target, one.source):
        assert tokens.at is not None
        assert (tokens.at.diff() > 0).all()
        assert tokens.at.max() < 2 * run.task.longest
    assert not torch.equal(one.target.at, other.target.at)
    assert not torch.equal(one.target.at[:5], one.source.at[:5])
    assert torch.equal(one.target.at, again.target.at)


@pytest.mark.costly
def test_training_lowers_the_loss() -> None:
    """A task that one token decides: the loss must come near the entropy of its source."""
    outcome = train(cell("markov", "rope", steps=150, rate=0.01, symbols=3, length=16, batch=32))
    before = train(cell("markov", "rope", steps=1, symbols=3, length=16, batch=32))
    (excess,) = (r["value"] for r in outcome.rows if (r["metric"], r["bucket"]) == ("excess", "1L"))
    assert before.final_loss > 1.0
    assert excess < 0.25


@pytest.mark.costly
def test_without_positions_half_of_the_answers_are_right_exactly() -> None:
    outcome = train(cell("order", "none", steps=60, examples=200, rate=0.01, width=32))
    found = {(row["metric"], row["bucket"]): row["value"] for row in outcome.rows}
    assert {found["apart", bucket] for bucket in ("1L", "1.5L", "2L", "4L")} == {0.0}
    # Where the answer is one of the two names, it is right for one of the two sentences.
    assert found["accuracy", "1L"] <= 0.5
    told = train(cell("order", "sinusoidal", steps=60, examples=200, rate=0.01, width=32))
    (apart,) = (r["value"] for r in told.rows if (r["metric"], r["bucket"]) == ("apart", "1L"))
    assert apart > 0


def test_divergence_is_an_outcome() -> None:
    outcome = train(cell("order", "rope", steps=40, rate=1e30, warmup=1, clip=1e30))
    assert outcome.verdict == "diverged"
    assert not outcome.rows
    assert outcome.steps < 40  # it stops there
    assert not math.isfinite(outcome.final_loss)


def test_stretched_rotations_are_for_long_tests_only() -> None:
    run = Run(cell("text-lm", "rope-ntk"))
    assert run.model_at(64) is run.model
    longer = run.model_at(128)
    spec = longer.scheme.decoder[0].specs[0]
    assert spec.scaling == (posenc.scaling.NTK(2.0),)
    for name, p in longer.named_parameters():
        assert torch.equal(p, run.model.get_parameter(name))
    plain = Run(cell("text-lm", "rope"))
    assert plain.model_at(512) is plain.model


# --- files ----------------------------------------------------------------------------------------

SAVED = ("none", "sinusoidal", "learned", "concatenated", "rope", "t5", "kerple", "transformer-xl")


@pytest.mark.parametrize("encoding", SAVED)
@pytest.mark.costly
def test_a_saved_model_comes_back(encoding: str, tmp_path: Path) -> None:
    one = cell("reverse", encoding, factors="1")
    outcome = train(one, save=tmp_path / "model")
    run = load(tmp_path / "model")
    assert run.cell == one
    assert sum(p.numel() for p in run.model.parameters()) == outcome.parameters
    source = Tokens(torch.tensor([[4, 9, 6]]))
    start = torch.tensor([[1]])
    fresh = Run(one)
    said = greedy(run.model, start, steps=4, source=source)
    assert said == greedy(load(tmp_path / "model").model, start, steps=4, source=source)
    assert said != greedy(fresh.model, start, steps=4, source=source)


def test_the_spec_is_in_the_file(tmp_path: Path) -> None:
    train(cell("order", "t5", factors="1"), save=tmp_path)
    with (tmp_path / "model.safetensors").open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        metadata = json.loads(file.read(size))["__metadata__"]
    plan = posenc.from_json(metadata["encoder"])
    assert isinstance(plan, posenc.Plan)
    assert isinstance(plan[0].specs[0], posenc.T5)
    assert Cell.from_json(metadata["cell"]).encoding == "t5"


@pytest.mark.costly
def test_the_detective_reads_trained_models(tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    folder = tmp_path / "sinusoidal"
    train(cell("reverse", "sinusoidal", factors="1"), save=folder)
    found = posenc.identify(folder / "model.safetensors").findings
    assert [(f.verdict, f.spec) for f in found] == [("claimed", posenc.Sinusoidal(16))] * 2
    vector = load_file(folder / "model.safetensors")["decoder.pos_embed.pe"][7]
    assert posenc.locate(found[0].spec, vector).position == 7

    folder = tmp_path / "rope"
    train(cell("reverse", "rope", width=32, factors="1"), save=folder)
    found = posenc.identify(folder / "model.safetensors").findings
    assert {f.verdict for f in found} == {"claimed"}
    assert {f.spec for f in found} == {posenc.RoPE(16, pairing="half")}
    paired = posenc.detect_pairing(folder)
    assert paired.pairing in ("half", "unknown")  # three steps teach the weights nothing yet

    folder = tmp_path / "learned"
    train(cell("order", "learned", factors="1"), save=folder)
    (only,) = posenc.identify(folder / "model.safetensors").findings
    assert only.verdict == "unknown"


def test_files_that_are_no_models(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    with pytest.raises(posenc.DataError, match="a folder with a model"):
        load(tmp_path)
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(posenc.DataError, match="expected a .npy or .safetensors file"):
        load(tmp_path)
    save_file({"x": np.zeros(3, "float32")}, path)
    with pytest.raises(posenc.DataError, match="no cell inside"):
        load(tmp_path)
    train(cell("order", "t5", factors="1"), save=tmp_path)
    run = load(tmp_path)
    metadata = {
        "cell": run.cell.to_json(),
        "encoder": posenc.to_json(run.model.scheme.encoder),
        "decoder": posenc.to_json(run.model.scheme.decoder),
    }
    save_file({"embedding.weight": np.zeros((30, 16), "float32")}, path, metadata=metadata)
    with pytest.raises(posenc.DataError, match="the weights of its cell"):
        load(tmp_path)
    other = {**metadata, "encoder": metadata["decoder"]}
    save_file({"embedding.weight": np.zeros((30, 16), "float32")}, path, metadata=other)
    with pytest.raises(posenc.DataError, match="the plan of the encoder"):
        load(tmp_path)
