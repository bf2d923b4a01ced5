"""Places on a plane seen by grid cells: waves along three directions 120 degrees apart."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from decimal import Decimal
from typing import Any, Literal, NamedTuple, final

import numpy as np

from posenc._core.numeric.ladder import Ladder
from posenc._core.numeric.matrix import DenseMatrix
from posenc.encodings.table.base import Array, Constants, Example, TableSpec, columns, positive


@final
@dataclass(frozen=True)
class GridCells(TableSpec):
    """Multi-scale grid cells (Mai et al. 2020, Space2Vec, arXiv:2003.00824).

        row(x)[s, k] = sin(<x, u[k]> / r[s]),  cos(<x, u[k]> / r[s])
        u[k]         = (cos(2 pi k / 3), sin(2 pi k / 3))        k = 0, 1, 2
        r[s]         = shortest * (longest / shortest) ** (s / (S - 1))

    The sum of three waves 120 degrees apart repeats on a hexagonal lattice, as the grid cells of
    mammals fire. This is the paper's `theory`; its `grid`, with waves along the axes themselves, is
    `Fourier`.

    Parameters
    ----------
    dim : int
        Width of a row: 6 for each of the S scales.
    shortest, longest : float
        Scales r of the first and the last waves, in units of the coordinates: wavelengths over
        2 pi.
    space : tuple of str
        Names of the two coordinates.
    phase : {"exact", "float32"}
        `float32` repeats the classic arithmetic, `float32(x) * float32(f)`, and its error.

    Raises
    ------
    SpecError
        If the width is no multiple of 6, or a scale is not positive.

    Notes
    -----
    Channels stand scale by scale, direction by direction, sine before cosine. With exact phases,
    float32 rows are right to 1.5e-7 for positions as they are given, at any size of them.

    The squared distance of two rows is 2 * sum of (1 - cos(<x - y, u[k]> / r[s])): it depends on
    the displacement alone.

    Examples
    --------
    >>> import posenc
    >>> spec = posenc.GridCells(6, shortest=1.0, longest=1.0)
    >>> posenc.table(spec, [[1.0, 0.0]]).round(3)
    array([[ 0.841,  0.54 , -0.479,  0.878, -0.479,  0.878]], dtype=float32)
    """

    dim: int
    _: KW_ONLY
    shortest: float
    longest: float
    space: tuple[str, str] = ("x", "y")
    phase: Literal["exact", "float32"] = "exact"

    example = Example(
        {"dim": 66, "shortest": 0.05, "longest": 1.0},
        lambda: np.linspace((0, 0), (1, 1), 64),
        "points from corner to corner",
        "Its positions are places of a plane.",
    )
    paper = "mai2020space2vec"
    coordinates = "real"

    def check(self) -> None:
        """Raise `SpecError` when the width or a scale cannot be."""
        self._require(
            self.dim >= 6 and self.dim % 6 == 0,
            "dim",
            "a multiple of 6, three waves of two channels for each scale",
        )
        positive("GridCells", "a positive length", shortest=self.shortest, longest=self.longest)
        self._require(self.space[0] != self.space[1], "space", "two distinct names")

    @property
    def pairs(self) -> int:
        """Number of (sine, cosine) pairs: three for each scale."""
        return self.dim // 2

    @property
    def matrix(self) -> DenseMatrix:
        """The phases of the pairs."""
        return DenseMatrix(_GridWaves(self.shortest, self.longest), 2, self.pairs, self.phase)

    def rows(self, positions: Array, constants: Constants, *, dtype: Any, xp: Any) -> Array:
        """The rows of the table: (..., 2) -> (..., dim)."""
        cos, sin = self.matrix.cos_sin(positions, constants, dtype=dtype, xp=xp)
        return columns(cos, sin, "interleaved", self.dim, (self.pairs,), xp=xp)


class _GridWaves(NamedTuple):
    """The frequencies of waves along three directions, scale by scale."""

    shortest: float
    longest: float

    def matrix(self, axes: int, pairs: int) -> list[list[Decimal]]:
        """The frequencies in radians per unit: two rows of `pairs`."""
        shortest, longest = Decimal(self.shortest), Decimal(self.longest)
        count = pairs // 3
        ladder = Ladder(denominator="n-1").rungs(longest / shortest, count=count, width=2 * count)
        half, height = Decimal("0.5"), Decimal(3).sqrt() / 2
        directions = ((Decimal(1), Decimal(0)), (-half, height), (-half, -height))
        return [[u[a] * f / shortest for f in ladder for u in directions] for a in range(axes)]
