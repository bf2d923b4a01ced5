"""Half or interleaved: statistics by plain loops, trained weights, and what may not be claimed."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from safetensors.numpy import load_file, save_file

import posenc
from posenc._core.io import headers
from posenc.cli import app
from posenc.detect.facts import verbs
from posenc.detect.facts.weights import evidence, pairing
from tests.detect.checkpoints import config_of, folder_of, weights_of

ROOT = Path(__file__).parents[3]
TRAINED = Path(__file__).parents[2] / "golden" / "pairing_half.safetensors"
ROWS = [
    json.loads(line)
    for line in (ROOT / "docs" / "data" / "pairing.jsonl").read_text("utf-8").splitlines()[1:]
]
# The snapshot of 200 steps of `tools/measure/pairing_models.py train FOLDER wide-half`: 2 layers of
# 2 heads of 64 channels, which turn in halves.
LAYOUT = posenc.Projections(heads=2, rope=posenc.RoPE(64, pairing="half"))


# --- statistics -----------------------------------------------------------------------------------


def every_order(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    """The statistic, and its z value by all orders of the channels, in plain loops."""
    n = len(a)

    def total(order: tuple[int, ...]) -> float:
        pairs = ((i, j) for i in range(n) for j in range(n) if i != j)
        return sum(a[order[i], order[j]] * b[i, j] for i, j in pairs)

    all_of_them = [total(order) for order in itertools.permutations(range(n))]
    mean = sum(all_of_them) / len(all_of_them)
    variance = sum((x - mean) ** 2 for x in all_of_them) / len(all_of_them)
    found = total(tuple(range(n)))
    return mean, found / math.sqrt(variance)


def test_z_is_that_of_all_orders() -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((6, 6))
    a = a + a.T
    b = rng.standard_normal((6, 6))
    b = b + b.T
    np.fill_diagonal(b, 0)
    b[~np.eye(6, dtype=bool)] -= b.sum() / 30
    mean, z = every_order(a, b)
    assert abs(mean) < 1e-9
    assert abs(evidence._z(a, b) - z) < 1e-9


def test_z_of_the_balance() -> None:
    charge = np.random.default_rng(1).standard_normal(6)
    pairs = np.zeros((6, 6))
    for i, j in ((0, 1), (2, 3), (4, 5)):
        pairs[i, j] = pairs[j, i] = 1
    for i, j in ((0, 3), (1, 4), (2, 5)):
        pairs[i, j] = pairs[j, i] = -1
    _, z = every_order(np.outer(charge, charge), pairs)
    assert abs(evidence._balance(charge) - z) < 1e-9


def test_opposite_charges_of_a_pair() -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal(16)
    halves = np.concatenate([a, -a])
    neighbours = np.stack([a, -a], axis=1).reshape(-1)
    assert evidence._balance(halves) > 2
    assert evidence._balance(neighbours) < -2


def test_similarity_that_falls_with_the_distance_of_pairs() -> None:
    place = np.concatenate([np.arange(8), np.arange(8)])
    halves = -np.abs(place[:, None] - place[None, :]).astype(float)
    order = np.arange(16).reshape(2, 8).T.reshape(-1)
    assert evidence._similarity(halves) > 3
    assert evidence._similarity(halves[np.ix_(order, order)]) < -3


def test_ranks_share_places() -> None:
    matrix = np.array([[9.0, 5, 5], [5, 9, 1], [5, 1, 9]])
    assert (evidence._ranks(matrix) == [[0, 0.5, 0.5], [0.5, 0, -1], [0.5, -1, 0]]).all()


@pytest.mark.parametrize(("norm", "counted"), [("", 4), ("head", 2), ("full", 4)])
def test_a_gain_of_all_heads_is_one_observation(tmp_path: Path, norm: str, counted: int) -> None:
    from posenc._core.io.checkpoints.safetensors_model import open_checkpoint
    from posenc.detect.facts.weights.heads import read_model
    from posenc.detect.facts.weights.projections import find

    source = folder_of(tmp_path / "a", weights_of(4, 2, 8, norm=norm), config_of(4, 2, 8, 8))
    opened = open_checkpoint(source, config=None, caller="test")
    model = read_model(
        opened, posenc.from_hf(source, pairing="half"), posenc.Projections(stored="half"), "test"
    )
    attentions = find(opened, model, "test")
    found = [group.charge for a in attentions for group in evidence.groups(a)]
    assert len(found) == 4
    assert sum(charge is not None for charge in found) == counted
    if norm:
        tensors = load_file(source / "model.safetensors")
        at = "model.layers.0.self_attn"
        q, k = (tensors[f"{at}.{n}_norm.weight"].astype(float).reshape(-1, 8) for n in "qk")
        want = (q[:2] ** 2).sum(0) - k[0] ** 2  # the first head of keys and its two of queries
        assert np.allclose(found[0], want if norm == "full" else q[0] ** 2 - k[0] ** 2)


# --- trained weights ------------------------------------------------------------------------------


@pytest.mark.costly
def test_trained_weights_and_the_same_in_the_other_order(tmp_path: Path) -> None:
    found = posenc.detect_pairing(TRAINED, layout=LAYOUT)
    assert (found.pairing, found.decided_by, found.claim) == ("half", "weights", "half")
    assert found.weights.similarity > 10
    assert found.weights.balance > pairing.THRESHOLD
    assert found.weights.groups == 4
    posenc.convert(TRAINED, tmp_path / "a.safetensors", pairing="interleaved", layout=LAYOUT)
    # Without the record of the conversion, which would say it.
    save_file(load_file(tmp_path / "a.safetensors"), tmp_path / "b.safetensors")
    turned = posenc.detect_pairing(tmp_path / "b.safetensors", layout=LAYOUT)
    assert (turned.pairing, turned.decided_by) == ("interleaved", "weights")
    assert turned.weights.similarity < -10
    assert turned.weights.balance < -pairing.THRESHOLD


@pytest.mark.parametrize(
    ("heads", "rotated", "name"), [(4, 32, "wider"), (2, 32, "wider"), (1, 128, "narrower")]
)
def test_a_width_that_is_wrong_is_not_a_claim(heads: int, rotated: int, name: str) -> None:
    layout = posenc.Projections(heads=heads, rope=posenc.RoPE(rotated, pairing="half"))
    found = posenc.detect_pairing(TRAINED, layout=layout)
    assert (found.pairing, found.claim) == ("unknown", "unknown")
    assert getattr(found.weights, name) > pairing.DOUBT
    assert f"look {name} than was stated" in found.why
    if name == "wider":  # half of a head in halves looks like neighbours
        assert found.weights.similarity < -pairing.THRESHOLD


def test_the_measured_models() -> None:
    """The data follow from the thresholds, and no claim is wrong where the widths are right."""
    wrong = []
    for row in ROWS:
        z = evidence.Evidence(*(row[k] for k in evidence.Evidence._fields))
        assert pairing.claimed(z) == row["claim"], row["name"]
        if row["claim"] not in ("unknown", row["pairing"]):
            wrong.append((row["pairing"], row.get("declared")))
    # Two heads without positions, taken for one, are what the documentation warns of.
    assert set(wrong) <= {("none", "half the heads")}
    assert len(wrong) <= 0.01 * len(ROWS)
    settled = [r for r in ROWS if r["step"] >= 400 and r["pairing"] != "none" and "losses" in r]
    assert len(settled) >= 20
    assert sum(row["claim"] == row["pairing"] for row in settled) >= 0.9 * len(settled)
    without = [row for row in ROWS if row["pairing"] == "none" and "losses" in row]
    assert len(without) >= 20
    assert max(max(abs(r["similarity"]), abs(r["balance"])) for r in without) < 4


def test_random_weights_say_nothing(tmp_path: Path) -> None:
    for seed in range(5):
        weights = weights_of(4, 2, 32, seed=seed, bias=True, norm="head")
        save_file(weights, tmp_path / f"{seed}.safetensors")
        layout = posenc.Projections(heads=4, rope=posenc.RoPE(32, pairing="half"))
        found = posenc.detect_pairing(tmp_path / f"{seed}.safetensors", layout=layout)
        assert found.pairing == "unknown"
        assert found.decided_by == "nothing"


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_constant_weights_say_nothing(tmp_path: Path, value: float) -> None:
    weights = {f"layers.0.{n}_proj.weight": np.full((32, 4), value) for n in "qk"}
    save_file(weights, tmp_path / "a.safetensors")
    layout = posenc.Projections(heads=2, rope=posenc.RoPE(16, pairing="half"))
    found = posenc.detect_pairing(tmp_path / "a.safetensors", layout=layout)
    assert found.pairing == "unknown"
    assert found.weights[:2] == (0.0, 0.0)


def test_what_is_not_measured(tmp_path: Path) -> None:
    """Adapters, and numbers of eight bits that NumPy cannot read."""
    trained = load_file(TRAINED)
    adapter = {k.replace("proj.weight", "proj.lora_B.weight"): v for k, v in trained.items()}
    save_file(adapter, tmp_path / "adapter.safetensors")
    found = posenc.detect_pairing(tmp_path / "adapter.safetensors", layout=LAYOUT)
    assert (found.pairing, found.weights.groups) == ("unknown", 0)
    tensors = {name: ("float8_e4m3", value.shape) for name, value in trained.items()}
    data = b"".join(value.astype(np.int8).tobytes() for value in trained.values())
    header = headers.safetensors_header(tensors)
    (tmp_path / "small.safetensors").write_bytes(header + data)
    found = posenc.detect_pairing(tmp_path / "small.safetensors", layout=LAYOUT)
    assert (found.pairing, found.weights.groups) == ("unknown", 0)


# --- what is stated, and probes -------------------------------------------------------------------


def known(tmp_path: Path, model_type: str, **more: Any) -> Path:
    """The trained weights beside the config of a family."""
    config = config_of(2, 2, 64, 64, model_type=model_type, **more)
    del config["partial_rotary_factor"]
    return folder_of(tmp_path / "model", load_file(TRAINED), config)


def test_the_config_comes_first(tmp_path: Path) -> None:
    found = posenc.detect_pairing(known(tmp_path, "llama"))
    assert (found.pairing, found.decided_by, found.stated) == ("half", "config", "half")
    assert found.source == "the config: model_type 'llama'"
    assert "the weights agree" in found.why


def test_weights_that_contradict_the_config_make_it_unknown(tmp_path: Path) -> None:
    source = known(tmp_path, "helium")
    found = posenc.detect_pairing(source)
    assert (found.stated, found.claim) == ("interleaved", "half")
    assert (found.pairing, found.decided_by) == ("unknown", "nothing")
    assert "a loss probe settles it" in found.why
    losses = {"half": 2.0, "interleaved": 2.5}
    settled = posenc.detect_pairing(source, probe=losses.__getitem__)
    assert (settled.pairing, settled.decided_by) == ("half", "probe")
    assert settled.losses == losses
    assert settled.why == "the loss is 0.50 nats lower with half, against what is stated"


def test_the_record_of_a_conversion_comes_before_the_config(tmp_path: Path) -> None:
    source = known(tmp_path, "llama")
    posenc.convert(source, tmp_path / "new", pairing="interleaved")
    found = posenc.detect_pairing(tmp_path / "new")
    assert (found.pairing, found.decided_by) == ("interleaved", "record")
    assert "the weights agree" in found.why


def test_an_unknown_family_is_measured(tmp_path: Path) -> None:
    found = posenc.detect_pairing(known(tmp_path, "mine"))
    assert (found.pairing, found.decided_by, found.stated) == ("half", "weights", "")


@pytest.mark.parametrize(("gap", "answer"), [(0.2, "half"), (-0.2, "interleaved"), (0.02, None)])
def test_probes_of_weights_that_say_nothing(tmp_path: Path, gap: float, answer: str) -> None:
    weights = weights_of(4, 2, 32)
    save_file(weights, tmp_path / "a.safetensors")
    layout = posenc.Projections(heads=4, rope=posenc.RoPE(32, pairing="half"))
    losses = {"half": 2.0, "interleaved": 2.0 + gap}
    found = posenc.detect_pairing(
        tmp_path / "a.safetensors", layout=layout, probe=losses.__getitem__
    )
    assert found.pairing == (answer or "unknown")
    assert found.decided_by == ("probe" if answer else "nothing")


def test_logits_stand_for_a_loss() -> None:
    logits = np.log(np.array([[0.5, 0.25, 0.25], [0.1, 0.8, 0.1]])) + 7
    want = -(math.log(0.25) + math.log(0.8)) / 2
    assert abs(verbs._loss((logits, np.array([2, 1])), "half") - want) < 1e-12
    for value in ((logits, np.array([1])), "low", math.nan, None):
        with pytest.raises(posenc.ArgumentError, match="detect_pairing: probe"):
            verbs._loss(value, "half")


def test_what_is_not_understood(tmp_path: Path) -> None:
    weights = {"blocks.0.attn.mix.weight": np.zeros((16, 12), np.float32)}
    source = folder_of(tmp_path / "a", weights, config_of(2, 2, 8, 8))
    layout = posenc.Projections(heads=2, rope=posenc.RoPE(8, pairing="half"))
    with pytest.raises(posenc.DataError, match=r"names such as q_proj.*blocks.0.attn.mix.weight"):
        posenc.detect_pairing(source, layout=layout)
    with pytest.raises(posenc.DataError, match=r"names such as q_proj.*blocks.0.attn.mix.weight"):
        posenc.detect_pairing(source)
    bare = folder_of(tmp_path / "b", weights_of(2, 2, 8))
    with pytest.raises(posenc.DataError, match=r"a config beside it, got none"):
        posenc.detect_pairing(bare)


# --- the command ----------------------------------------------------------------------------------


@pytest.mark.costly
def test_the_command() -> None:
    arguments = ["pairing", str(TRAINED), "--heads", "2", "--rotary", "64"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert result.output.startswith("half: the weights say so (similarity z = ")
    assert "stated: nothing" in result.output
    result = CliRunner().invoke(app, [*arguments, "--json"])
    found = json.loads(result.output)
    assert found == posenc.detect_pairing(TRAINED, layout=LAYOUT).to_dict()
    assert found["weights"]["threshold"] == 4.5


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nowhere"], 2, "is not there"),
        ([str(TRAINED), "--stored", "half"], 2, "No such option '--stored'"),
        ([str(TRAINED)], 1, "a config beside it"),
        (
            [str(TRAINED), "--heads", "3", "--rotary", "4"],
            1,
            "3 heads by what the caller says, but 128 rows",
        ),
    ],
)
def test_mistakes_of_the_command_line(arguments: list[str], code: int, message: str) -> None:
    result = CliRunner().invoke(app, ["pairing", *arguments])
    assert result.exit_code == code, result.output
    assert message in result.output
    assert "Traceback" not in result.output
