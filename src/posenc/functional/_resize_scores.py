"""Rows of learned tables at another size: interpolated, or sinusoids that go on."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from posenc._core.arrays.array import (
    Array,
    astype,
    carried,
    compute_dtype,
    device_of,
    library,
    namespace,
)
from posenc._core.arrays.resample import Method, resample
from posenc._core.tracing import compile_time
from posenc.encodings.bias.offset_table import OffsetTable
from posenc.encodings.bias.window import WindowTable
from posenc.encodings.relative.decomposed import Decomposed
from posenc.encodings.table.sinusoidal import Sinusoidal


class Offsets(NamedTuple):
    """How a spec keeps what it learned of offsets."""

    field: str  # of the spec, its size
    size: tuple[int, ...]
    twice: bool  # whether both directions have entries: 2 n - 1 of them, or n
    along: int | None  # the axis of the offsets in the table; None: a table for each axis
    kept: int = 0  # entries at the end that stand for no offset

    def lengths(self, size: tuple[int, ...]) -> tuple[int, ...]:
        """Entries along each axis for a size."""
        return tuple(2 * n - 1 for n in size) if self.twice else size


def offsets_of(spec: Any) -> Offsets | None:
    """The layout of the tables of a spec, or None where it has none of offsets on a grid."""
    if isinstance(spec, WindowTable):
        kept = 3 if spec.extra == "class_token" else 0
        return Offsets("window", spec.window, twice=True, along=0, kept=kept)
    if isinstance(spec, OffsetTable):
        return Offsets("size", spec.size, twice=False, along=1)
    if isinstance(spec, Decomposed):
        return Offsets("size", spec.size, twice=True, along=None)
    return None


def resized(
    layout: Offsets, params: dict[str, Array], size: tuple[int, ...], method: Method
) -> dict[str, Array]:
    """The tables for another size."""
    old, new = layout.lengths(layout.size), layout.lengths(size)
    if layout.along is None:
        # A table for each axis, in the order of the axes: rows of offsets by channels.
        named = zip(params, old, new, strict=True)
        return {name: interpolated(params[name], (a,), (b,), method) for name, a, b in named}
    tables = {}
    for name, table in params.items():
        xp = namespace(table, "resize")
        rows = table if layout.along == 0 else xp.matrix_transpose(table)
        rows = interpolated(rows, old, new, method, last=layout.kept)
        tables[name] = rows if layout.along == 0 else xp.matrix_transpose(rows)
    return tables


def interpolated(
    rows: Array,
    old: tuple[int, ...],
    new: tuple[int, ...],
    method: Method,
    *,
    first: int = 0,
    last: int = 0,
) -> Array:
    """Rows that are a flattened grid, but for the first or the last ones, which are kept."""
    xp = namespace(rows, "resize")
    end, width = rows.shape[0] - last, rows.shape[1]
    grid = astype(rows[first:end, :], compute_dtype(rows.dtype, xp), xp)
    grid = xp.reshape(grid, (*old, width))
    for axis in reversed(range(len(old))):
        grid = resample(grid, axis, new[axis], method, xp=xp)
    grid = astype(xp.reshape(grid, (-1, width)), rows.dtype, xp)
    if not first and not last:
        return grid
    return xp.concat([rows[:first, :], grid, rows[end:, :]], axis=0)


def sinusoid(weight: Array, kept: int, expected: int, xp: Any) -> Array:
    """Sinusoids for the positions past the table, as large as its rows are on the whole."""
    inner = compute_dtype(weight.dtype, xp)
    have, width = weight.shape[0] - kept, weight.shape[-1]
    rows = astype(weight[kept:, :], inner, xp)
    unit = _unit_rows(width, have, expected)
    tail = carried(unit, xp, device_of(weight))
    return astype(astype(tail, inner, xp) * xp.sqrt(xp.mean(rows * rows)), weight.dtype, xp)


@compile_time
def _unit_rows(width: int, first: int, end: int) -> np.ndarray:
    """Rows of sinusoids whose root mean square is 1, float64."""
    plain, numpy = Sinusoidal(width), library(np)
    positions = np.arange(first, end, dtype=np.int64)[:, None]
    rows: np.ndarray = plain.rows(positions, plain.arrays, dtype=numpy.float64, xp=numpy)
    size = math.sqrt(float(np.square(rows).mean())) if rows.size else 1.0
    return rows / size
