"""What a picture shows as files of numbers: every array in a .npz, one table in a .csv."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from posenc._core.spec.spec import Value
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
        for field in fields(value):
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
