"""Numbers as files: all that a picture shows, in .npz and .csv; a table that somebody else made."""

from __future__ import annotations

import csv
import io
import math
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from posenc._core.errors import bad_argument, bad_data, refuse_data
from posenc._core.io.checkpoints import MOST_ENTRIES, Array, open_store
from posenc._core.spec.spec import Value
from posenc.encodings.table.learned import Learned
from posenc.plot.columns import TableSource
from posenc.plot.rows import view_of


def arrays(data: Any) -> dict[str, np.ndarray]:
    """Every array of a picture's data by its name: `tile.values`, `curves.0.mean`."""
    return {name: value for name, value in _leaves(data, "") if isinstance(value, np.ndarray)}


def facts(data: Any) -> dict[str, Any]:
    """Every number and word of a picture's data by its name."""
    plain = (str, int, float, bool, type(None))
    return {name: value for name, value in _leaves(data, "") if isinstance(value, plain)}


def _leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, TableSource | Value):
        return
    front = f"{name}." if name else ""
    if is_dataclass(value) and not isinstance(value, type):
        # What every picture has comes last: its title and its caption.
        for field in sorted(fields(value), key=attrgetter("kw_only")):
            yield from _leaves(getattr(value, field.name), front + field.name)
    elif isinstance(value, tuple) and value and not all(isinstance(v, str) for v in value):
        for place, item in enumerate(value):
            yield from _leaves(item, f"{front}{place}")
    elif isinstance(value, np.generic):
        yield name, value.item()
    else:
        yield name, value


def to_npz(data: Any) -> bytes:
    """Every array of a picture's data in one file."""
    return archive(arrays(data))


def archive(named: Mapping[str, np.ndarray]) -> bytes:
    """Arrays as `numpy.savez_compressed` writes them, with the same bytes each time."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as members:
        for name, value in named.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, np.ascontiguousarray(value), allow_pickle=False)
            # A member without a date: that of the format's beginning.
            entry = zipfile.ZipInfo(f"{name}.npy")
            entry.compress_type = zipfile.ZIP_DEFLATED
            members.writestr(entry, member.getvalue())
    return buffer.getvalue()


def to_csv(name: str, data: Any) -> bytes:
    """The main table of a picture, in the fewest digits that read back as the same numbers."""
    (header, rows), text = view_of(name).rows(data), io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_cell(entry) for entry in row] for row in rows)
    return text.getvalue().encode()


def _cell(entry: Any) -> Any:
    plain = entry.item() if isinstance(entry, np.generic) else entry
    return "" if isinstance(plain, float) and plain != plain else plain  # noqa: PLR0124 - NaN


# --- a table from a file --------------------------------------------------------------------------

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
