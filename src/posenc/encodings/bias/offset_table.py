"""A learned scalar for each distance along each axis (Graham et al. 2021)."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, final

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
    lookup,
    marked,
)
from posenc.encodings.bias.window import check_window, numbered, outside_window


@final
@dataclass(frozen=True)
class OffsetTable(BiasSpec):
    """Attention biases by absolute offsets (Graham et al. 2021, arXiv:2104.01136).

        logits[h, m, n] += weight[h, |m_r - n_r| M_c + |m_c - n_c|]

    with m and n the coordinates of query and key, and M_r x M_c the grid. Left and right share a
    scalar, as do up and down. Queries of a layer that reduces the grid stand at every other cell:
    that is a matter of their positions.

    Parameters
    ----------
    heads : int
        Number of heads of the whole model.
    size : tuple of int
        Lengths of the grid along each axis: (row, column), (time, row, column), or one.
    init : Init
        First values of the table, zeros in the authors' code.

    Raises
    ------
    SpecError
        If the grid has no lengths, more than three, or one below 1.

    Examples
    --------
    >>> import posenc
    >>> spec = posenc.OffsetTable(heads=4, size=(7, 7))
    >>> {name: array.shape for name, array in posenc.init(spec).items()}
    {'weight': (4, 49)}
    """

    heads: int
    _: KW_ONLY
    size: tuple[int, ...]
    init: Init = Init("constant", scale=0.0)

    by_head: ClassVar = {"weight": 0}
    example = Example({"size": (8, 8), "init": Init(scale=1.0)})
    paper = "graham2021levit"

    def check(self) -> None:
        """Raise `SpecError` when the grid is none."""
        check_window("OffsetTable", self.size, of="size")

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the axes of a position."""
        return AXES[len(self.size)]

    def parameters(self) -> dict[str, Parameter]:
        """The scalar of each distance and head."""
        return {"weight": Parameter((self.heads, math.prod(self.size)), self.init)}

    def check_positions(self, q: Axes, k: Axes) -> None:
        """Raise `PositionError` where an offset leaves the grid."""
        outside_window("OffsetTable: positions", q, k, self.size, False)

    def score(
        self, q: Axes, k: Axes, head: Array, constants: Constants, *, dtype: Any, xp: Any
    ) -> Array:
        """The scalar of the distances; NaN where there is none."""
        far = [xp.abs(m - n) for m, n in zip(q, k, strict=True)]
        cell, outside = numbered(far, [*self.size], xp=xp)
        found = astype(lookup(constants["weight"], head, cell, xp=xp), dtype, xp)
        return marked(found, outside, math.nan, xp=xp)
