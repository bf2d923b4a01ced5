"""`convert` asks the weights before it writes: what they contradict, and what it lets through."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from click.testing import CliRunner
from safetensors.numpy import load_file, save_file

import posenc
from posenc._core.errors import DataError
from posenc.cli import app
from posenc.detect.facts.weights import evidence
from tests.detect.checkpoints import config_of, folder_of, interleaved_from_half, loaded, weights_of

TRAINED = Path(__file__).parents[2] / "golden" / "pairing_half.safetensors"
STATED = posenc.Projections(stored="interleaved")


def config(model_type: str = "llama", **more: Any) -> dict[str, Any]:
    made = config_of(2, 2, 64, 64, model_type=model_type, **more)
    del made["partial_rotary_factor"]
    return made


def turned(weights: dict[str, np.ndarray], *parts: str) -> dict[str, np.ndarray]:
    """Those tensors whose names hold one of the parts, with their heads in neighbours."""
    made = dict(weights)
    for name in weights:
        if any(part in name for part in parts):
            heads = [interleaved_from_half(list(h), 0, 64) for h in np.split(weights[name], 2)]
            made[name] = np.concatenate([np.stack(head) for head in heads])
    return made


def queries_and_keys() -> tuple[str, ...]:
    names = [name for name in load_file(TRAINED) if "q_proj" in name or "k_proj" in name]
    assert len(names) == 4
    return tuple(names)


@pytest.mark.parametrize(
    ("asked", "shards", "dry"), [("half", 1, False), ("interleaved", 3, False), ("half", 3, True)]
)
def test_weights_against_the_config_stop_it(
    tmp_path: Path, asked: Any, shards: int, dry: bool
) -> None:
    weights = turned(load_file(TRAINED), *queries_and_keys())
    source = folder_of(tmp_path / "m", weights, config(), shards=shards)
    with pytest.raises(DataError) as caught:
        posenc.convert(source, None if dry else tmp_path / "new", pairing=asked)
    for words in ("says half, the weights say interleaved", "similarity z = -", "balance z = -",
                  "--stored half or interleaved", "|z| = 4.5"):  # fmt: skip
        assert words in str(caught.value)
    assert [p.name for p in tmp_path.iterdir()] == ["m"]
    assert posenc.detect_pairing(source).pairing == "unknown"


def test_the_other_direction(tmp_path: Path) -> None:
    source = folder_of(tmp_path / "m", load_file(TRAINED), config("helium"))
    with pytest.raises(DataError, match="says interleaved, the weights say half"):
        posenc.convert(source, tmp_path / "new", pairing="half")


@pytest.mark.costly
def test_twice_after_the_record_was_lost(tmp_path: Path) -> None:
    source = folder_of(tmp_path / "m", load_file(TRAINED), config())
    first = posenc.convert(source, tmp_path / "new", pairing="interleaved")
    assert first.checked()[0].startswith("verified: scores of 4 heads in 2 layers")
    assert "stated by the config: model_type 'llama'; the weights agree" in first.checked()[1]
    save_file(loaded(tmp_path / "new"), tmp_path / "new" / "model.safetensors")
    with pytest.raises(DataError, match="--stored"):
        posenc.convert(tmp_path / "new", tmp_path / "again", pairing="interleaved")
    back = posenc.convert(tmp_path / "new", tmp_path / "back", pairing="half", layout=STATED)
    assert "stated by the caller; the weights agree" in back.checked()[1]
    before, after = load_file(TRAINED), loaded(tmp_path / "back")
    assert {k: v.tobytes() for k, v in before.items()} == {k: v.tobytes() for k, v in after.items()}


def test_what_the_caller_states_is_followed_and_the_weights_are_told(tmp_path: Path) -> None:
    source = folder_of(tmp_path / "m", load_file(TRAINED), config())
    options = ["--pairing", "half", "--stored", "interleaved"]
    result = CliRunner().invoke(app, ["convert", str(source), str(tmp_path / "n"), *options])
    assert result.exit_code == 0, result.output
    assert "the source is interleaved: the caller says interleaved, the weights say half" in (
        result.output
    )


@pytest.mark.parametrize("part", ["layers.1.", "k_proj"])
def test_some_one_way_and_some_the_other(tmp_path: Path, part: str) -> None:
    names = [name for name in queries_and_keys() if part in name]
    assert len(names) == 2
    source = folder_of(tmp_path / "m", turned(load_file(TRAINED), *names), config())
    with pytest.raises(DataError) as caught:
        posenc.convert(source, tmp_path / "new", pairing="interleaved")
    assert "look half" in str(caught.value)
    assert "look interleaved" in str(caught.value)
    assert posenc.detect_pairing(source).pairing == "unknown"
    unknown = posenc.detect_pairing(source, config=config("mine"))
    assert unknown.pairing == "unknown"


@pytest.mark.costly
def test_one_layer_of_many(tmp_path: Path) -> None:
    layers = 12
    weights = {
        f"model.layers.{i}.self_attn.{n}_proj.weight": load_file(TRAINED)[name]
        for n in "qk"
        for name in queries_and_keys()[:2]
        if f"{n}_proj" in name
        for i in range(layers)
    }
    at = ("layers.7.",)
    stated = config() | {"num_hidden_layers": layers}
    source = folder_of(tmp_path / "m", turned(weights, *at), stated)
    with pytest.raises(DataError, match=r"layers\.7\.\S+ -\S+ look interleaved"):
        posenc.convert(source, pairing="interleaved")
    honest = posenc.detect_pairing(folder_of(tmp_path / "honest", weights, stated))
    assert honest.pairing == "half"


@pytest.mark.costly
def test_a_file_without_a_config(tmp_path: Path) -> None:
    """A rotation is described, which states a pairing among other things: `stored` states it."""
    path = tmp_path / "a.safetensors"
    save_file(turned(load_file(TRAINED), *queries_and_keys()), path)
    layout = posenc.Projections(heads=2, rope=posenc.RoPE(64, pairing="half"))
    with pytest.raises(DataError, match="--stored"):
        posenc.convert(path, pairing="interleaved", layout=layout)
    made = posenc.convert(path, pairing="half", layout=layout._replace(stored="interleaved"))
    assert made.evidence.claim == "interleaved"


def test_queries_alone(tmp_path: Path) -> None:
    path = tmp_path / "model-00001-of-00002.safetensors"
    weights = turned(load_file(TRAINED), *queries_and_keys())
    save_file({name: w for name, w in weights.items() if "k_proj" not in name}, path)
    with pytest.raises(DataError, match="the weights say interleaved"):
        posenc.convert(path, pairing="interleaved", config=config())


def test_weights_that_are_silent(tmp_path: Path) -> None:
    source = folder_of(tmp_path / "m", weights_of(2, 2, 64), config())
    made = posenc.convert(source, tmp_path / "new", pairing="interleaved")
    assert "the weights do not tell (similarity z = " in made.checked()[1]
    assert json.loads(json.dumps(made.to_dict()))["evidence"]["weights"]["claim"] == "unknown"


def test_an_adapter_is_no_evidence(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    at = "base_model.model.model.layers.0.self_attn"
    weights = {
        f"{at}.{n}_proj.lora_{side}.weight": rng.standard_normal(shape, dtype="float32")
        for n in "qk"
        for side, shape in (("A", (4, 12)), ("B", (128, 4)))
    }
    source = folder_of(tmp_path / "m", weights, config())
    made = posenc.convert(source, tmp_path / "new", pairing="interleaved")
    assert "no head of queries or keys could be measured" in made.checked()[-1]


@pytest.mark.costly
def test_large_models_are_read_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """512 heads of queries in all; what is about to be written is read in every layer."""
    read: list[tuple[str, int]] = []
    rng = np.random.default_rng(0)
    held = set(range(126))

    class Weight(NamedTuple):
        heads: int
        kind: str = "weight"

        def of(self, part: str) -> range:
            return range(self.heads if part == "q" else 8)

    class Layer(NamedTuple):
        name: str
        tensors: tuple[Weight, ...]
        adapter: bool = False

    def groups(layer: Layer, most: int) -> Iterator[Any]:
        read.append((layer.name, most))
        values = rng.standard_normal((16, 4)) * (int(layer.name) in held)
        yield from [evidence.Group(values[None], values, None, ())] * most

    def model(layers: int, heads: int) -> Any:
        read.clear()
        return [Layer(str(n), (Weight(heads),)) for n in range(layers)]

    monkeypatch.setattr(evidence, "groups", groups)
    evidence.measured(model(126, 128))
    assert read == [(str(n), 1) for n in range(0, 126, 4)]
    evidence.measured(model(126, 128), every=True)
    assert read == [(str(n), 1) for n in range(126)]
    evidence.measured(model(32, 32))
    assert read == [(str(n), 4) for n in range(32)]
    held = {7, 125}  # the others hold nothing, so they are passed over
    found = evidence.measured(model(126, 128))
    assert {n for n, _ in read} == {str(n) for n in range(126)}
    assert evidence.summed([m for own in found.values() for m in own]).groups == 2


@pytest.mark.parametrize(
    "record",
    [
        {"pairing": ["interleaved"]},
        {"pairing": "Interleaved"},
        {"pairing": ""},
        {"pairing_of": "interleaved"},
        {"pairing_of": {"*": "sideways"}},
        {"pairing": "half", "pairing_of": {"*.indexer.*": None}},
    ],
)
def test_a_record_that_is_not_understood_is_not_passed_over(
    tmp_path: Path, record: dict[str, Any]
) -> None:
    source = folder_of(tmp_path / "m", load_file(TRAINED), config())
    metadata = {"posenc.conversion": json.dumps(record)}
    save_file(load_file(TRAINED), source / "model.safetensors", metadata=metadata)
    for verb in (posenc.detect_pairing, lambda m: posenc.convert(m, pairing="interleaved")):
        with pytest.raises(DataError, match="half or interleaved by the format"):
            verb(source)
    stated = posenc.Projections(stored="half")
    made = posenc.convert(source, tmp_path / "new", pairing="interleaved", layout=stated)
    assert made.pairing == ("half", "interleaved")
    assert posenc.detect_pairing(tmp_path / "new").pairing == "interleaved"


@pytest.mark.parametrize("record", [{}, {"tables": {}}, {"pairing": "half"}, {"dialect": "hf4"}])
def test_a_record_of_something_else_is_let_through(tmp_path: Path, record: dict[str, Any]) -> None:
    source = folder_of(tmp_path / "m", load_file(TRAINED), config())
    metadata = {"posenc.conversion": json.dumps(record)}
    save_file(load_file(TRAINED), source / "model.safetensors", metadata=metadata)
    assert posenc.detect_pairing(source).pairing == "half"
