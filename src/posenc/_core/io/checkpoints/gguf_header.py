"""The header of a GGUF file: its keys, and where its tensors lie; no tensor is read.

A file is `GGUF`, a version, two counts, that many keys with typed values, and that many tensors
with name, shape, type and offset. Everything is little-endian. Lists longer than `LONGEST_LIST`,
such as vocabularies, are stepped over and kept as their length.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from posenc._core.errors import DataError, bad_data, refuse_data
from posenc._core.io import files, inputs
from posenc._core.io.headers import MOST_TENSORS

MAGIC = b"GGUF"
VERSIONS = (2, 3)
LONGEST_LIST = 4096
LONGEST_TEXT = 2**24
LARGEST_HEADER = 2**25  # bytes that are kept; vocabularies are stepped over
MOST_KEYS = 2**16
MOST_VALUES = 2**21  # of lists: a text that is stepped over counts once
KEPT = 8  # what a value counts that is kept
PIECE = 2**18  # bytes per read
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


class GgufTensor(NamedTuple):
    """Where a tensor lies."""

    shape: tuple[int, ...]
    type: int
    offset: int


class Header(NamedTuple):
    """Keys and tensors of a file."""

    keys: dict[str, Any]
    tensors: dict[str, GgufTensor]
    data: int  # where the tensors begin


class _Cursor:
    """The bytes of a header in order, read in pieces, and what may still be made of them."""

    def __init__(self, file: IO[bytes], size: int, name: str) -> None:
        self.file, self.size, self.name = file, size, name
        self.piece, self.at, self.end = b"", 0, 0  # the piece, the place in it, its end in the file
        self.bytes, self.values = LARGEST_HEADER, MOST_VALUES

    @property
    def place(self) -> int:
        """How far it has come in the file."""
        return self.end - len(self.piece) + self.at

    def skip(self, count: int) -> None:
        """Step over bytes."""
        place = self.place + count
        if place > self.size:
            raise DataError(f"{self.name}: the header ends before it is complete")
        if place <= self.end:
            self.at += count
        else:
            self.piece, self.at, self.end = b"", 0, place

    def load(self, count: int) -> None:
        """Have at least so many bytes in the piece."""
        self.end = self.file.seek(self.place)
        self.piece, self.at = self.file.read(max(count, PIECE)) or b"", 0
        self.end += len(self.piece)
        if len(self.piece) < count:
            raise DataError(f"{self.name}: the header ends before it is complete")

    def take(self, count: int) -> bytes:
        """Bytes that are kept."""
        self.bytes -= count
        if self.bytes < 0:
            raise bad_data(self.name, f"a header of {LARGEST_HEADER:,} bytes", "a longer one")
        if self.at + count > len(self.piece):
            self.load(count)
        self.at += count
        return self.piece[self.at - count : self.at]

    def spend(self, count: int) -> None:
        """Count values before they are read."""
        self.values -= count
        if self.values < 0:
            raise bad_data(self.name, f"at most {MOST_VALUES:,} values in lists", "more")

    def number(self, code: str) -> Any:
        return self.numbers(code, 1)[0]

    def numbers(self, code: str, count: int) -> tuple[Any, ...]:
        return struct.unpack(f"<{count}{code}", self.take(count * struct.calcsize(f"<{code}")))

    def text(self) -> str:
        length = self.number("Q")
        if length > LONGEST_TEXT:
            raise bad_data(self.name, f"texts up to {LONGEST_TEXT:,} bytes", length)
        return str(self.take(length), "utf-8", errors="replace")

    def value(self, kind: int, depth: int = 0) -> Any:
        if kind in FORMATS:
            return self.number(FORMATS[kind])
        if kind == STRING:
            return self.text()
        if kind == ARRAY and depth < 4:
            return self.list(depth)
        raise bad_data(self.name, "a type of value that the format has", kind)

    def list(self, depth: int) -> Any:
        kind, count = self.number("I"), self.number("Q")
        if count > LONGEST_LIST and kind in FORMATS:
            self.skip(count * struct.calcsize("<" + FORMATS[kind]))
            return count
        if count > LONGEST_LIST and kind == STRING:
            self.spend(count)
            self.skip_texts(count)
            return count
        self.spend(KEPT * count)
        if kind in FORMATS:
            return list(self.numbers(FORMATS[kind], count))
        return (
            [self.value(kind, depth + 1) for _ in range(count)] if count <= LONGEST_LIST else count
        )

    def skip_texts(self, count: int) -> None:
        """Step over texts, of which vocabularies have hundreds of thousands."""
        unpack = struct.Struct("<Q").unpack_from
        for _ in range(count):
            if self.at + 8 > len(self.piece):
                self.load(8)
            (length,) = unpack(self.piece, self.at)
            self.at += 8
            if self.at + length <= len(self.piece):
                self.at += length
            else:
                self.skip(length)


def read_header(path: Path) -> Header:
    """The header of the file at `path`."""
    with inputs.opened(path) as file:
        return read_open_header(path, file)


def read_open_header(path: Path, file: IO[bytes]) -> Header:
    """Read a header as `read_header` does, from a file that is open."""
    size = inputs.state_of(file).size
    cursor = _Cursor(file, size, path.name)
    refuse_data(
        size < 24 or cursor.take(4) != MAGIC,
        path.name,
        "a file that begins with GGUF",
        f"{size} bytes without",
    )
    version = cursor.number("I")
    refuse_data(
        version not in VERSIONS,
        path.name,
        f"GGUF version {VERSIONS[0]} or {VERSIONS[1]}",
        "big-endian data" if version in (2 << 24, 3 << 24) else version,
    )
    tensor_count, key_count = cursor.number("Q"), cursor.number("Q")
    if key_count > MOST_KEYS or tensor_count > MOST_TENSORS:
        raise DataError(f"{path.name}: {key_count} keys and {tensor_count} tensors are too many")
    keys: dict[str, Any] = {}
    for _ in range(key_count):
        key = _new(cursor, keys)
        keys[key] = cursor.value(cursor.number("I"))
    tensors: dict[str, GgufTensor] = {}
    for _ in range(tensor_count):
        name = _new(cursor, tensors)
        rank = cursor.number("I")
        refuse_data(rank > 8, f"{path.name}: {name[:80]}", "at most 8 axes", rank)
        tensors[name] = GgufTensor(
            cursor.numbers("Q", rank), cursor.number("I"), cursor.number("Q")
        )
    alignment = keys.get(ALIGNMENT, 32)
    refuse_data(
        type(alignment) is not int or alignment < 1,
        f"{path.name}: {ALIGNMENT}",
        "a positive number",
        repr(alignment)[:80],
    )
    return Header(keys, tensors, -(-cursor.place // alignment) * alignment)


def _new(cursor: _Cursor, names: Mapping[str, Any]) -> str:
    name = cursor.text()
    refuse_data(name in names, cursor.name, "each name once", f"{name[:80]!r} more than once")
    return name


def read_tensor(path: Path, header: Header, name: str, longest: int = 2**16) -> np.ndarray | None:
    """A short tensor of float32 numbers; None where the file has none of that name."""
    tensor = header.tensors.get(name)
    if tensor is None:
        return None
    count = int(np.prod(tensor.shape, dtype=object)) if tensor.shape else 0
    refuse_data(
        tensor.type != FLOAT32 or not 0 < count <= longest,
        f"{path.name}: {name}",
        f"at most {longest} float32 numbers",
        f"{count} of type {tensor.type}",
    )
    begin = header.data + tensor.offset
    with inputs.opened(path) as file:
        if begin + 4 * count > inputs.state_of(file).size:
            raise DataError(f"{path.name}: {name} lies beyond the end of the file")
        values = files.read(file, begin, count, "<f4").astype(np.float64)
    if not np.isfinite(values).all():
        raise DataError(f"{path.name}: {name} holds numbers that are not finite")
    return values
