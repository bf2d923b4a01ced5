"""Encodings that somebody else made: a table of numbers in a file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from posenc._core.errors import bad_argument, bad_data, refuse_data
from posenc._core.io.checkpoints import MOST_ENTRIES, Array, open_store
from posenc.encodings.table.learned import Learned

MOST_NUMBERS = 1 << 25  # the largest published table has 25 million
FLOATS = ("float64", "float32", "float16", "bfloat16")


class TableFile(NamedTuple):
    """A table from a file, as a learned encoding."""

    spec: Learned
    params: dict[str, np.ndarray]
    origin: str


def read_table(path: str | Path, name: str | None = None) -> TableFile:
    """The table of a file as a learned encoding with its parameters."""
    with open_store(path) as store:
        array = store.pick(name) if name is not None else _only(store.arrays, str(path))
        caller, shape = f"{path}: {array.name[:80]!r}", _sides(array)
        refuse_data(
            len(shape) != 2 or min(shape) < 1,
            caller,
            "a table of shape (positions, dim)",
            f"shape {tuple(array.shape)}",
        )
        refuse_data(
            array.dtype not in FLOATS, caller, f"numbers of {', '.join(FLOATS)}", array.dtype
        )
        refuse_data(
            math.prod(shape) > MOST_NUMBERS,
            caller,
            f"at most {MOST_NUMBERS:,} numbers",
            f"shape {shape}",
        )
        values = _read(array).reshape(shape)
    wrong = np.argwhere(~np.isfinite(values))
    if len(wrong):
        place = wrong[0].tolist()
        raise bad_data(caller, "finite numbers", f"{values[tuple(place)]} at {place}")
    return TableFile(
        Learned(shape[1], length=shape[0]), {"weight": values}, f"{array.name} of {Path(path).name}"
    )


def _only(arrays: Mapping[str, Array], path: str) -> Array:
    tables = {a.name: a for a in arrays.values() if a.dtype in FLOATS and len(_sides(a)) == 2}
    if len(tables) == 1:
        return next(iter(tables.values()))
    names = sorted(tables)
    listed = ", ".join(names[:10]) + (f", … ({len(names)} in all)" if len(names) > 10 else "")
    raise bad_argument(
        path,
        "one table of (positions, dim)",
        f"several: {listed}" if names else "none",
        "Name one.",
    )


def _sides(array: Array) -> tuple[int, ...]:
    """The shape of an array without the leading sides of 1 that a table does not need."""
    shape = tuple(array.shape)
    while len(shape) > 2 and shape[0] == 1:
        shape = shape[1:]
    return shape


def _read(array: Array) -> np.ndarray:
    numbers = np.empty(array.size, dtype=np.float32)
    for begin in range(0, array.size, MOST_ENTRIES):
        numbers[begin : begin + MOST_ENTRIES] = array.read(begin, begin + MOST_ENTRIES)
    return numbers
