"""A GGUF file beside the config that it was made of: silent where they are one model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import posenc
from tests.detect.explain.test_gguf import BASIC, written

CONFIG: dict[str, Any] = {
    "hidden_size": 512, "num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 64,
    "num_hidden_layers": 4, "max_position_embeddings": 8192, "rope_theta": 5e5,
}  # fmt: skip
# Architectures whose converter reorders halves, with the model type that it takes.
PERMUTED = {"llama": "llama", "olmo": "olmo", "granite": "granite"}


@pytest.mark.parametrize("arch", PERMUTED)
def test_what_the_converter_reordered_is_said_and_is_no_difference(
    tmp_path: Path, arch: str
) -> None:
    file = written(tmp_path / "a.gguf", arch, words=5, **BASIC)
    found = posenc.diff({**CONFIG, "model_type": PERMUTED[arch]}, file)
    assert found.differences == ()
    assert any("half, reordered to interleaved on one side" in row for row in found.compared)
    assert posenc.facts(file).of("permuted", "attention")[0].value == "half"
    golden = tmp_path / "a.json"
    posenc.golden(file).save(golden)
    assert posenc.diff(golden, {**CONFIG, "model_type": PERMUTED[arch]}).differences == ()
    both = posenc.diff(golden, file)
    assert both.differences == ()
    assert not any("reordered" in row for row in both.compared)


def test_half_beside_interleaved_alone_silences_nothing(tmp_path: Path) -> None:
    neighbours = {**CONFIG, "model_type": "helium"}
    named = lambda found: [d.field for d in found.differences]  # noqa: E731
    qwen = written(tmp_path / "a.gguf", "qwen2", words=5, **BASIC)
    assert posenc.facts(qwen).of("permuted") == ()
    assert named(posenc.diff(neighbours, qwen)) == ["pairing.order"]
    # Of a family that pairs neighbours by nature nothing is reordered.
    ernie = written(tmp_path / "b.gguf", "ernie4_5", words=5, **BASIC)
    assert named(posenc.diff(neighbours, ernie)) == []
    assert named(posenc.diff({**CONFIG, "model_type": "llama"}, ernie)) == ["pairing.order"]
    # What was reordered from halves is not the model that pairs neighbours.
    llama = written(tmp_path / "c.gguf", "llama", words=5, **BASIC)
    assert named(posenc.diff(neighbours, llama)) == ["pairing.order"]
    assert named(posenc.diff({**CONFIG, "model_type": "llama", "rope_theta": 1e4}, llama)) == [
        "base"
    ]


@pytest.mark.costly
def test_what_was_reordered_is_no_difference_of_code_either(tmp_path: Path) -> None:
    file = written(tmp_path / "a.gguf", "llama", words=5, **BASIC)
    for order, base, fields in (("half", 5e5, []), ("half", 1e4, ["base"])):
        rope = posenc.RoPE(64, pairing=order, base=base)  # type: ignore[arg-type]
        found = posenc.diff(file, lambda x, positions, rope=rope: posenc.rotate(
            rope, x, positions=positions))  # fmt: skip
        assert [row.field for row in found.differences] == fields
        assert any("half, reordered to interleaved on one side" in row for row in found.compared)


def test_windows_of_a_header_are_in_the_contract(tmp_path: Path) -> None:
    """As its config has them: half of a window behind a query is none."""
    keys = {**BASIC, "attention__sliding_window": 64}
    file = written(tmp_path / "a.gguf", "gemma3", words=5, **{**keys, "block_count": 12})
    parts = posenc.golden(file).parts
    assert [(part.window, part.layers) for part in parts] == [
        (64, (0, 1, 2, 3, 4, 6, 7, 8, 9, 10)), (None, (5, 11)),
    ]  # fmt: skip
    assert [fact.value for fact in posenc.facts(file).of("window")] == [64, None]
    half = written(tmp_path / "b.gguf", "modern-bert", words=5, **keys)
    assert {part.window for part in posenc.golden(half).parts} == {None}
