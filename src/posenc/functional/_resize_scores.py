"""Tables of offsets for windows and grids of another size, by interpolation."""

from __future__ import annotations

from typing import Any, NamedTuple

from posenc._core.array import astype, compute_dtype, namespace
from posenc._core.resample import Method, resample
from posenc.encodings.bias.offset_table import OffsetTable
from posenc.encodings.bias.window import WindowTable
from posenc.encodings.relative.decomposed import Decomposed

__all__ = ["Offsets", "offsets_of", "resized"]

Array = Any


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
    layout: Offsets, given: dict[str, Array], size: tuple[int, ...], method: Method
) -> dict[str, Array]:
    """The tables for another size."""
    old, new = layout.lengths(layout.size), layout.lengths(size)
    if layout.along is None:
        # A table for each axis, in the order of the axes: rows of offsets by channels.
        named = zip(given, old, new, strict=True)
        return {name: _grid(given[name], (a,), (b,), 0, method) for name, a, b in named}
    made = {}
    for name, table in given.items():
        xp = namespace(table, "resize")
        rows = table if layout.along == 0 else xp.matrix_transpose(table)
        rows = _grid(rows, old, new, layout.kept, method)
        made[name] = rows if layout.along == 0 else xp.matrix_transpose(rows)
    return made


def _grid(
    rows: Array, old: tuple[int, ...], new: tuple[int, ...], kept: int, method: Method
) -> Array:
    """Rows that are a flattened grid, but for the last ones, which are kept."""
    xp = namespace(rows, "resize")
    count, width = rows.shape[0] - kept, rows.shape[1]
    grid = xp.reshape(astype(rows[:count, :], compute_dtype(rows.dtype, xp), xp), (*old, width))
    for axis in reversed(range(len(old))):
        grid = resample(grid, axis, new[axis], method, xp=xp)
    made = astype(xp.reshape(grid, (-1, width)), rows.dtype, xp)
    return xp.concat([made, rows[count:, :]], axis=0) if kept else made
