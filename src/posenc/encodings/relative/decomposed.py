"""Relative positions decomposed along the axes of a grid (Li et al. 2022)."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, final

import numpy as np

from posenc._core.positions.grid import AXES
from posenc.encodings.relative.base import (
    Array,
    Constants,
    Example,
    Init,
    Parameter,
    Places,
    RelativeSpec,
    astype,
    bad_position,
    marked,
    query_products,
    summed,
    within,
)


@final
@dataclass(frozen=True)
class Decomposed(RelativeSpec):
    """Decomposed relative positions (Li et al. 2022, arXiv:2112.01526, section 4.1).

        scores[m, n] += q[m] . R_row[m_row - n_row] + q[m] . R_column[m_column - n_column]

    with a vector for each offset along each axis, shared by all heads.

    Parameters
    ----------
    dim : int
        Width of a head.
    size : tuple of int
        Lengths of the grid: (row, column), or (time, row, column). Offsets from 1 - length to
        length - 1 have a vector.
    added : {"after", "before"}
        Whether the product is added after the scores are divided by sqrt(d), as published, or
        before.
    init : Init
        First values of the vectors.

    Raises
    ------
    SpecError
        If the grid has no lengths, more than three, or one below 1.

    Examples
    --------
    >>> import posenc
    >>> spec = posenc.Decomposed(64, size=(14, 10))
    >>> {name: a.shape for name, a in posenc.init(spec).items()}
    {'row': (27, 64), 'column': (19, 64)}
    """

    dim: int
    _: KW_ONLY
    size: tuple[int, ...]
    added: Literal["after", "before"] = "after"
    init: Init = Init("constant", scale=0.0)

    example = Example({"size": (8, 8), "init": Init(scale=1.0)})
    paper = "li2022mvitv2"

    def check(self) -> None:
        """Raise `SpecError` when the grid is none."""
        self._require(
            len(self.size) in AXES and min(self.size) >= 1, "size", "1 to 3 lengths of at least 1"
        )

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the axes of a position."""
        return AXES[len(self.size)]

    def parameters(self) -> dict[str, Parameter]:
        """A vector for each offset, along each axis."""
        return {
            name: Parameter((2 * size - 1, self.dim), self.init)
            for name, size in zip(self.axes, self.size, strict=True)
        }

    def check_positions(self, q: tuple[Array, ...], k: tuple[Array, ...]) -> None:
        """Raise `PositionError` where an offset has no vector."""
        for name, size, m, n in zip(self.axes, self.size, q, k, strict=True):
            far = np.abs(m - n)
            if far.size and far.max() >= size:
                raise bad_position(
                    "Decomposed: positions",
                    f"offsets of {name!r} below {size}, as the size is {self.size}",
                    int(far.max()),
                )

    def score(
        self, q: Array, k: Array, at: Places, constants: Constants, *, dtype: Any, xp: Any
    ) -> Array:
        """The products along each axis; NaN where an offset has no vector."""
        del k

        def products(name: str, size: int, m: Array, n: Array) -> Array:
            row, outside = within(m - n + (size - 1), 2 * size - 1, xp=xp)
            entries = query_products(q, astype(constants[name], dtype, xp), row, xp=xp)
            return marked(entries, outside, math.nan, xp=xp)

        return summed(map(products, self.axes, self.size, at.q, at.k))
