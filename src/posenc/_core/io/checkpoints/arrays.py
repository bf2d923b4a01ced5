"""An array in a file, and the arrays of one file."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from posenc._core.errors import DataError, bad_argument, bad_data, suggest

MOST_ENTRIES = 2**22  # numbers that are read at a time
STORED = {
    "float64": "<f8",
    "float32": "<f4",
    "float16": "<f2",
    "bfloat16": "<u2",
    "int64": "<i8",
    "int32": "<i4",
    "int16": "<i2",
    "int8": "|i1",
    "uint8": "|u1",
    "bool": "|b1",
    "complex64": "<c8",
}


class Array(NamedTuple):
    """An array of a file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    fetch: Callable[[int, int], np.ndarray] | None  # entries from, to; None where it cannot be read
    why_not: str = ""

    @property
    def size(self) -> int:
        """Number of entries."""
        return math.prod(self.shape)

    def read(self, begin: int = 0, end: int | None = None) -> np.ndarray:
        """Entries `begin` to `end` in C order, as numbers to compute with."""
        end = self.size if end is None else min(end, self.size)
        if self.fetch is None:
            raise DataError(f"{self.name[:80]}: {self.why_not}")
        if end - begin > MOST_ENTRIES:
            raise bad_data(
                f"{self.name[:80]}: entries at a time", f"at most {MOST_ENTRIES}", end - begin
            )
        return self.fetch(begin, end)

    def whole(self) -> np.ndarray:
        """All entries, in their shape; for the caller to have looked at the size."""
        if self.fetch is None:
            raise DataError(f"{self.name[:80]}: {self.why_not}")
        return self.fetch(0, self.size).reshape(self.shape)


class ArrayStore(NamedTuple):
    """The arrays of one file, or of the files of one model."""

    path: Path
    format: str
    arrays: Mapping[str, Array]
    facts: Mapping[str, Any]  # what a header says besides, such as the base in a GGUF file
    remarks: tuple[str, ...] = ()

    def pick(self, name: str) -> Array:
        """The array of that name."""
        if name not in self.arrays:
            raise bad_argument(
                str(self.path),
                "the name of a tensor",
                repr(name),
                suggest(name, sorted(self.arrays)[:1000]),
            )
        return self.arrays[name]
