"""A learned scalar for each offset within a window (Liu et al. 2021)."""

from __future__ import annotations

import math
from abc import ABC
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, final

import numpy as np

from posenc._core.positions.grid import AXES
from posenc.encodings.bias.base import (
    Array,
    Axes,
    BiasSpec,
    Constants,
    Example,
    Init,
    Parameter,
    astype,
    bad_position,
    bad_spec,
    lookup,
    marked,
    not_too_many,
    within,
)


def check_window(caller: str, window: tuple[int, ...], *, of: str = "window") -> None:
    """Raise `SpecError` unless a window has one to three lengths of at least 1."""
    if len(window) not in AXES or min(window) < 1:
        raise bad_spec(f"{caller}: {of}", "1 to 3 lengths of at least 1", window)
    not_too_many(f"{caller}: {of}", "offsets", math.prod(2 * size - 1 for size in window))


def numbered(cells: list[Array], sizes: list[int], *, xp: Any) -> tuple[Array, Array]:
    """The number of a cell of a grid, the last axis fastest, and where there is none."""
    number: Any = None
    outside: Any = None
    for place, size in zip(cells, sizes, strict=True):
        cell, bad = within(place, size, xp=xp)
        number = cell if number is None else number * size + cell
        outside = bad if outside is None else outside | bad
    return number, outside


def cells(q: Axes, k: Axes, window: tuple[int, ...], *, xp: Any) -> tuple[Array, Array]:
    """The number of the offset query - key, the last axis fastest, and where there is none."""
    offsets = [m - n + (size - 1) for m, n, size in zip(q, k, window, strict=True)]
    return numbered(offsets, [2 * size - 1 for size in window], xp=xp)


def outside_window(caller: str, q: Axes, k: Axes, window: tuple[int, ...], free: Any) -> None:
    """Raise `PositionError` where known offsets, but for the `free` entries, leave the window."""
    for name, m, n, size in zip(AXES[len(window)], q, k, window, strict=True):
        rel = np.where(free, 0, m - n)
        if rel.size and np.abs(rel).max() >= size:
            raise bad_position(
                caller,
                f"offsets of {name!r} from {1 - size} to {size - 1}, as the window is {window}",
                int(rel.flat[np.abs(rel).argmax()]),
            )


class WindowSpec(BiasSpec, ABC):
    """Biases by the offset within a window: rows of a table that is learned, or worked out."""

    window: tuple[int, ...]

    def check(self) -> None:
        """Raise `SpecError` when the window is none."""
        check_window(type(self).__name__, self.window)

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the axes of a position."""
        return AXES[len(self.window)]

    def check_positions(self, q: Axes, k: Axes) -> None:
        """Raise `PositionError` where an offset leaves the window."""
        outside_window(f"{type(self).__name__}: positions", q, k, self.window, False)

    def score(
        self, q: Axes, k: Axes, head: Array, constants: Constants, *, dtype: Any, xp: Any
    ) -> Array:
        """The entry of the table of offsets and heads; NaN where an offset leaves the window."""
        del dtype
        cell, outside = cells(q, k, self.window, xp=xp)
        return marked(lookup(constants["weight"], cell, head, xp=xp), outside, math.nan, xp=xp)


@final
@dataclass(frozen=True)
class WindowTable(WindowSpec):
    """Relative position bias of a window (Liu et al. 2021, arXiv:2103.14030).

        logits[h, m, n] += weight[cell(m - n), h]

        cell(r, c) = (r + M_r - 1) (2 M_c - 1) + c + M_c - 1

    with m and n the coordinates of query and key, and M_r x M_c the window. An image model that
    attends over the whole image has that as its window. With a class token the table ends in three
    more entries: the class token to others, others to it, and to itself.

    Parameters
    ----------
    heads : int
        Number of heads of the whole model.
    window : tuple of int
        Lengths of the window along each axis: (row, column), (time, row, column), or one.
    extra : {"none", "class_token"}
        Whether the table has the three entries of a class token. A position whose first coordinate
        is negative is that token.
    init : Init
        First values of the table.

    Raises
    ------
    SpecError
        If the window has no lengths, more than three, or one below 1.

    Examples
    --------
    >>> import posenc
    >>> spec = posenc.WindowTable(heads=4, window=(7, 7))
    >>> {name: array.shape for name, array in posenc.init(spec).items()}
    {'weight': (169, 4)}
    """

    heads: int
    _: KW_ONLY
    window: tuple[int, ...]
    extra: Literal["none", "class_token"] = "none"
    init: Init = Init(scale=0.02)

    by_head: ClassVar = {"weight": 1}
    example = Example({"window": (8, 8), "init": Init(scale=1.0)})
    paper = "liu2021swin"

    @property
    def _cells(self) -> int:
        return math.prod(2 * size - 1 for size in self.window)

    def parameters(self) -> dict[str, Parameter]:
        """The scalar of each offset and head."""
        count = self._cells + (3 if self.extra == "class_token" else 0)
        return {"weight": Parameter((count, self.heads), self.init)}

    def check_positions(self, q: Axes, k: Axes) -> None:
        """Raise `PositionError` where an offset leaves the window."""
        free = (q[0] < 0) | (k[0] < 0) if self.extra == "class_token" else False
        outside_window("WindowTable: positions", q, k, self.window, free)

    def score(
        self, q: Axes, k: Axes, head: Array, constants: Constants, *, dtype: Any, xp: Any
    ) -> Array:
        """The scalar of the offset; NaN where there is none."""
        cell, outside = cells(q, k, self.window, xp=xp)
        if self.extra == "class_token":
            asks, is_asked = q[0] < 0, k[0] < 0
            special = asks | is_asked
            other = xp.astype(is_asked, cell.dtype)
            entry = self._cells + xp.where(asks, 2 * other, other)
            cell = xp.where(special, entry, cell)
            outside = outside & ~special
        found = astype(lookup(constants["weight"], cell, head, xp=xp), dtype, xp)
        return marked(found, outside, math.nan, xp=xp)
