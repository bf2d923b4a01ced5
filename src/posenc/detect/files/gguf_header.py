"""The header of a GGUF file: its keys, and where its tensors lie; no tensor is read.

A file is `GGUF`, a version, two counts, that many keys with typed values, and that many tensors
with name, shape, type and offset. Everything is little-endian. Lists longer than `LONGEST_LIST`,
such as vocabularies, are stepped over and kept as their length.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from posenc._core.errors import DataError, explain

__all__ = ["Header", "Tensor", "read_header", "read_tensor"]

MAGIC = b"GGUF"
VERSIONS = (2, 3)
LONGEST_LIST = 4096
LONGEST_TEXT = 2**24
LARGEST_HEADER = 2**25  # bytes that are kept; vocabularies are stepped over
MOST_KEYS = 2**16
MOST_TENSORS = 2**20
STRING, ARRAY = 8, 9
# Type number -> struct format of one value.
FORMATS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
FLOAT32 = 0
ALIGNMENT = "general.alignment"


class Tensor(NamedTuple):
    """Where a tensor lies."""

    shape: tuple[int, ...]
    type: int
    offset: int


class Header(NamedTuple):
    """Keys and tensors of a file."""

    keys: dict[str, Any]
    tensors: dict[str, Tensor]
    data: int  # where the tensors begin


class _Cursor:
    def __init__(self, file: IO[bytes], size: int, name: str) -> None:
        self.file, self.size, self.name = file, size, name
        self.taken = 0

    def take(self, count: int) -> bytes:
        if count < 0 or self.file.tell() + count > self.size:
            raise DataError(f"{self.name}: the header ends before it is complete")
        self.taken += count
        if self.taken > LARGEST_HEADER:
            raise DataError(
                explain(self.name, f"a header of {LARGEST_HEADER} bytes", "a longer one")
            )
        return self.file.read(count)

    def number(self, code: str) -> Any:
        return struct.unpack("<" + code, self.take(struct.calcsize("<" + code)))[0]

    def text(self) -> str:
        length = self.number("Q")
        if length > LONGEST_TEXT:
            raise DataError(explain(self.name, f"texts up to {LONGEST_TEXT} bytes", length))
        return str(self.take(length), "utf-8", errors="replace")

    def value(self, kind: int, depth: int = 0) -> Any:
        if kind in FORMATS:
            return self.number(FORMATS[kind])
        if kind == STRING:
            return self.text()
        if kind == ARRAY and depth < 4:
            return self.list(depth)
        raise DataError(explain(self.name, "a type of value that the format has", kind))

    def list(self, depth: int) -> Any:
        kind, count = self.number("I"), self.number("Q")
        if count <= LONGEST_LIST:
            return [self.value(kind, depth + 1) for _ in range(count)]
        if kind in FORMATS:
            self.skip(count * struct.calcsize("<" + FORMATS[kind]))
            return count
        for _ in range(count):
            if kind != STRING:
                self.value(kind, depth + 1)
            else:
                self.skip(self.number("Q"))
        return count

    def skip(self, count: int) -> None:
        if self.file.tell() + count > self.size:
            raise DataError(f"{self.name}: the header ends before it is complete")
        self.file.seek(count, 1)


def read_header(path: Path) -> Header:
    """The header of the file at `path`.

    Raises
    ------
    DataError
        If the file is no GGUF file, or its header does not hold together.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        cursor = _Cursor(file, size, path.name)
        if size < 24 or cursor.take(4) != MAGIC:
            raise DataError(
                explain(path.name, "a file that begins with GGUF", f"{size} bytes without")
            )
        version = cursor.number("I")
        if version not in VERSIONS:
            got = "big-endian data" if version in (2 << 24, 3 << 24) else version
            raise DataError(explain(path.name, f"GGUF version {VERSIONS[0]} or {VERSIONS[1]}", got))
        tensor_count, key_count = cursor.number("Q"), cursor.number("Q")
        if key_count > MOST_KEYS or tensor_count > MOST_TENSORS:
            raise DataError(
                f"{path.name}: {key_count} keys and {tensor_count} tensors are too many"
            )
        keys = {}
        for _ in range(key_count):
            key = cursor.text()
            keys[key] = cursor.value(cursor.number("I"))
        tensors = {}
        for _ in range(tensor_count):
            name = cursor.text()
            rank = cursor.number("I")
            if rank > 8:
                raise DataError(explain(f"{path.name}: {name[:80]}", "at most 8 axes", rank))
            shape = tuple(cursor.number("Q") for _ in range(rank))
            tensors[name] = Tensor(shape, cursor.number("I"), cursor.number("Q"))
        end = file.tell()
    alignment = keys.get(ALIGNMENT, 32)
    if not isinstance(alignment, int) or alignment < 1:
        raise DataError(explain(f"{path.name}: {ALIGNMENT}", "a positive number", alignment))
    return Header(keys, tensors, -(-end // alignment) * alignment)


def read_tensor(path: Path, header: Header, name: str, longest: int = 2**16) -> np.ndarray | None:
    """A short tensor of float32 numbers; None where the file has none of that name."""
    tensor = header.tensors.get(name)
    if tensor is None:
        return None
    count = int(np.prod(tensor.shape, dtype=object)) if tensor.shape else 0
    if tensor.type != FLOAT32 or not 0 < count <= longest:
        want = f"at most {longest} float32 numbers"
        raise DataError(explain(f"{path.name}: {name}", want, f"{count} of type {tensor.type}"))
    with path.open("rb") as file:
        file.seek(header.data + tensor.offset)
        raw = file.read(4 * count)
    if len(raw) != 4 * count:
        raise DataError(f"{path.name}: {name} lies beyond the end of the file")
    values = np.frombuffer(raw, dtype="<f4").astype(np.float64)
    if not np.isfinite(values).all():
        raise DataError(f"{path.name}: {name} holds numbers that are not finite")
    return values
