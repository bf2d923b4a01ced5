"""A GGUF file beside the config that it was made of: silent where they are one model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import posenc
from posenc._core.io.checkpoints import Header
from posenc.detect.facts.weights.projections import counted_blocks
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


def blocks(folder: Path, *numbers: int, words: bool = True, **keys: Any) -> Path:
    """A file with blocks of these numbers, whose header counts four."""
    tensors = {f"blk.{n}.attn_q.weight": np.ones((2, 2), np.float32) for n in numbers}
    tensors |= {"token_embd.weight": np.ones((2, 2), np.float32)} if words else {}
    return written(folder / "a.gguf", "qwen2", tensors, words=5, **{**BASIC, **keys})


@pytest.mark.parametrize(
    ("numbers", "keys", "says"),
    [
        ((0, 1, 2), {}, "but 3 by the names of tensors: none begins with blk.3."),
        ((0, 1, 3), {}, "but 3 by the names of tensors: none begins with blk.2."),
        ((1, 2, 3), {}, "none begins with blk.0."),
        ((0, 1, 2, 3, 4), {"nextn_predict_layers": 1}, "but 5 by the names of tensors, up to blk."),
        ((0, 1, 2, 3, 4), {"words": False}, "up to blk.4."),
    ],
)  # fmt: skip
def test_blocks_that_the_header_does_not_count_stop_every_tool(
    tmp_path: Path, numbers: tuple[int, ...], keys: dict[str, Any], says: str
) -> None:
    file = blocks(tmp_path, *numbers, **keys)
    (found,) = posenc.facts(file).contradictions
    assert found.text.startswith("layers: 4 by key qwen2.block_count, ")
    assert says in found.text
    for verb in (posenc.explain, posenc.golden, lambda one: posenc.diff(one, CONFIG)):
        with pytest.raises(posenc.DataError) as caught:
            verb(file)
        assert f": {found.text}" in str(caught.value)
    assert found.text in posenc.extend(file, factor=2).notes
    assert [fault.text for fault in posenc.doctor(file).faults] == [found.text]


@pytest.mark.parametrize(
    ("numbers", "keys"),
    [
        ((0, 1, 2, 3), {}),
        ((), {}),
        ((0, 2), {"words": False}),
        ((0, 1, 2), {"nextn_predict_layers": 1}),
        ((0, 1, 2, 3), {"nextn_predict_layers": 1}),
        ((3,), {"nextn_predict_layers": 1}),
        ((0, 2, 3), {"attention__head_count": [8, 0, 8, 8]}),
    ],
)
def test_blocks_that_may_be_absent(
    tmp_path: Path, numbers: tuple[int, ...], keys: dict[str, Any]
) -> None:
    """Those of a part of a model, those that predict further tokens, and those without heads."""
    assert posenc.facts(blocks(tmp_path, *numbers, **keys)).contradictions == ()


@pytest.mark.parametrize(("key", "value", "stops"), [
    ("split.count", 2, False), ("split.count", 1, True), ("split.count", "2", True),
    ("a.block_count", "4", False), ("a.block_count", 2**62, True),
    ("a.nextn_predict_layers", 3, False), ("a.nextn_predict_layers", 2, True),
])  # fmt: skip
def test_the_first_of_several_files_may_lack_the_others_blocks(
    key: str, value: object, stops: bool
) -> None:
    keys = {"general.architecture": "a", "a.block_count": 4, key: value}
    tensors: Any = dict.fromkeys(["token_embd.weight", "blk.0.ffn.weight", f"blk.{'9' * 5000}.x"])
    assert (counted_blocks(Header(keys, tensors, 0)) is not None) == stops
