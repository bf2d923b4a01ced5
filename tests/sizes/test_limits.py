"""Each limit of a reader from both sides: the largest honest file passes, the bomb does not."""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import posenc
from posenc._core.errors import DataError
from posenc._core.io import files, inputs
from posenc._core.io.headers import MOST_TENSORS
from tests.sizes.other_formats import make_bin
from tests.sizes.test_sizes import MEMORY, cost

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, makes sparse files")
slow = pytest.mark.slow("_core/io", "_core/io/checkpoints")
EXPERTS = 48 * 128 * 3 * 4  # tensors of Qwen3-30B-A3B in 4 bits, as one file


def safetensors(path: Path, header: str | bytes, size: int = 0) -> Path:
    """A file of a header, and so many bytes of holes behind it."""
    text = header.encode() if isinstance(header, str) else header
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + size)
    return path


def tensor(shape: list[int], begin: int, end: int) -> dict[str, Any]:
    return {"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}


# --- .safetensors ---------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [2**28, 2**32, 2**40, 2**44])
def test_offsets_as_far_as_a_file_reaches(at: int, tmp_path: Path) -> None:
    header = {"a": tensor([at // 8192, 4096], 0, at), "b": tensor([3, 4], at, at + 24)}
    if at == 2**44:  # longer than the files of this system may be: as far as it goes
        header = {"a": tensor([2**28, 4096], 0, 2**41), "b": tensor([3, 4], 2**41, 2**41 + 24)}
        at = 2**41
    path = safetensors(tmp_path / "a.safetensors", json.dumps(header), at + 24)
    found = files.read_layout(path).pick("b")
    assert found.end - found.begin == 24
    assert found.end == path.stat().st_size


@pytest.mark.parametrize(
    "offsets", [[0, 2**63], [-8, 0], [8, 0], [0, 8.0], [0, True], [0, 0, 8], [0], "08"]
)
def test_offsets_that_are_none(offsets: Any, tmp_path: Path) -> None:
    entry = {"dtype": "F32", "shape": [2], "data_offsets": offsets}
    path = safetensors(tmp_path / "a.safetensors", json.dumps({"a": entry}), 8)
    with pytest.raises(DataError, match="data_offsets"):
        files.read_layout(path)


@slow
def test_a_file_of_experts_is_read_and_one_of_more_tensors_is_not(tmp_path: Path) -> None:
    entry = '"model.layers.%d.mlp.experts.%d.down_proj.weight_packed":%s'

    def made(count: int) -> Path:
        listed = (entry % (i % 48, i, json.dumps(tensor([0, 4], 0, 0))) for i in range(count))
        return safetensors(tmp_path / f"{count}.safetensors", "{" + ",".join(listed) + "}")

    path = made(EXPERTS)
    found, _, memory = cost(lambda: files.read_layout(path))
    assert len(found.tensors) == EXPERTS
    assert memory < MEMORY
    with pytest.raises(DataError, match=f"at most {MOST_TENSORS:,} tensors in a file"):
        files.read_layout(made(MOST_TENSORS + 1))


@slow
def test_metadata_as_long_as_the_format_allows(tmp_path: Path) -> None:
    """99 MB of a text with marks of JSON in it, but not what a wide letter makes of as much."""
    tags = "tag: 3, [1], " * (99_000_000 // 13)
    path = safetensors(tmp_path / "a.safetensors", json.dumps({"__metadata__": {"tags": tags}}))
    del tags
    found, _, memory = cost(lambda: files.read_layout(path))
    assert len(found.metadata["tags"]) == 98_999_992
    assert memory < MEMORY
    del found
    wide = b'{"__metadata__":{"a":"' + "😀".encode() + b"a" * 90_000_000 + b'"}}'
    path = safetensors(path, wide)
    del wide
    with pytest.raises(DataError, match="in memory"):
        cost(lambda: files.read_layout(path))


def test_a_header_that_is_none_is_not_read(tmp_path: Path) -> None:
    path = safetensors(tmp_path / "a.safetensors", b"", 2**33)
    with path.open("r+b") as file:
        file.write(struct.pack("<Q", 10**8))

    def refused() -> None:
        with pytest.raises(DataError, match="JSON object"):
            files.read_layout(path)

    _, read, memory = cost(refused)
    assert (read < 2**20, memory < 2**24) == (True, True)


@pytest.mark.parametrize(
    ("text", "most", "passes"),
    [
        ('{"a":"' + ":,[{" * 9 + '"}', 2, True),
        ('{"a":"' + '\\",:' * 9 + '"}', 2, True),
        ('{"a":' + "[" * 9 + "]" * 9 + "}", 2, False),
        ('{"a' + ",:" * 9, 2, False),  # a text without an end is no JSON
        ('""' * 9 + ",,,", 2, False),
    ],
)
def test_marks_inside_texts_are_no_values(text: str, most: int, *, passes: bool) -> None:
    kind = inputs.FileKind("a text", 100, most)
    if passes:
        assert inputs.parse(text, "test", kind)
    else:
        with pytest.raises(DataError, match="values|JSON"):
            inputs.parse(text, "test", kind)


# --- indexes --------------------------------------------------------------------------------------


@slow
def test_an_index_of_300_000_tensors_is_read_and_a_longer_one_is_not(tmp_path: Path) -> None:
    from posenc._core.io.checkpoints.safetensors_model import read_index

    name = "model.layers.%d.mlp.experts.%d.down_proj.weight_packed"

    def made(count: int) -> Path:
        places = {
            name % (i % 48, i): f"model-{i % 40:05d}-of-00040.safetensors" for i in range(count)
        }
        path = tmp_path / "model.safetensors.index.json"
        path.write_text(json.dumps({"metadata": {}, "weight_map": places}))
        return path

    path = made(48 * 512 * 3 * 4)  # Qwen3-Next-80B-A3B in 4 bits
    index, _, memory = cost(lambda: read_index(path, "test"))
    assert len(index["weight_map"]) == 294_912
    assert memory < MEMORY
    del index
    with pytest.raises(DataError, match="an index of files of at most"):
        read_index(made(600_000), "test")


# --- torch.save -----------------------------------------------------------------------------------


@slow
def test_a_pickle_of_20_000_tensors_is_read_and_one_of_more_steps_is_not(tmp_path: Path) -> None:
    """Switch-Base-256 has 6,200; one tensor takes 33 steps."""
    name = "decoder.block.%d.layer.2.mlp.experts.expert_%d.wi.weight"
    contents = {name % (i % 12, i): ("float16", (1, 1), None) for i in range(20_000)}
    made = make_bin(tmp_path / "a.bin", contents)
    found, _, memory = cost(lambda: posenc.identify(made))
    assert found.arrays == 20_000
    assert memory < MEMORY
    contents = {f"{i}": ("float16", (1, 1), None) for i in range(34_000)}
    with pytest.raises(DataError, match="operations|tensors|directory"):
        posenc.identify(make_bin(tmp_path / "b.bin", contents))


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "uint16"])
def test_tensors_without_a_storage_of_their_own_are_listed(dtype: str, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    rotary = 1 / 10000 ** (torch.arange(32, dtype=torch.float32) / 32)
    tensors = {"q.weight": torch.zeros(4, 6).to(getattr(torch, dtype)), "inv_freq": rotary}
    torch.save(tensors, tmp_path / "a.bin")
    found = posenc.identify(tmp_path / "a.bin")
    assert (found.arrays, [f.verdict for f in found]) == (2, ["claimed"])
    [finding] = posenc.identify(tmp_path / "a.bin", name="q.weight")
    assert (finding.verdict, finding.dtype, finding.shape) == ("unread", dtype, (4, 6))


# --- numbers that are read ------------------------------------------------------------------------


@pytest.mark.costly
def test_wide_tables_are_still_found(tmp_path: Path) -> None:
    """The glance at wide matrices is short; tables as wide as any are found by it."""
    from safetensors.numpy import save_file

    wide = posenc.table(posenc.Sinusoidal(16384), 16).astype("f4")
    halves = posenc.table(posenc.Sinusoidal(2048, order="sin_cos"), 40).astype("f4")
    noise = np.random.default_rng(0).standard_normal((40, 4096)).astype("f4")
    save_file({"a": wide, "b": halves, "c": noise}, tmp_path / "a.safetensors")
    found = {f.name: f.verdict for f in posenc.identify(tmp_path / "a.safetensors")}
    assert found == {"a": "claimed", "b": "claimed"}
