"""Rotations along directions spread evenly over a sphere, each head with its own."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from decimal import Decimal
from statistics import NormalDist
from typing import ClassVar, NamedTuple, final

import numpy as np

from posenc._core.numeric.matrix import DenseMatrix
from posenc.encodings.rotary.base import (
    Example,
    Ladder,
    PairingField,
    SpatialRotarySpec,
    distinct,
    even_width,
    positive,
)


@final
@dataclass(frozen=True)
class GoldenGateRoPE(SpatialRotarySpec):
    """Golden gate RoPE (Xiong 2025, "On n-dimensional rotary positional embeddings").

        angle[h, p, j] = f[j] * <position[p], u[h, j]>
        f[j]           = lowest * (highest / lowest) ** (j / (n - 1))
        u[h, j]        = z / |z|,  z[a] = normal quantile of (i phi ** -(a + 1) mod 1)

    for i = 1, 2, … through the pairs of head 0, head 1 and so on, and phi the root of
    phi ** (axes + 1) = phi + 1, the golden ratio for one axis, as ten steps of a fixed-point
    iteration from 2 find it. Directions follow each other as the fractions of multiples of the
    golden ratio do, so that they cover the sphere without gaps or clusters, where axial rotations
    look along the axes alone.

    Parameters
    ----------
    dim : int
        The rotated width, even.
    heads : int
        Heads, each with directions of its own; 1 for directions that all share.
    pairing : {"half", "interleaved"} or Pairing
        Which channels form a pair.
    lowest, highest : float
        Frequencies of the first and the last turning pair, in radians per unit of position.
    still : float
        Share of the pairs, the first ones, that do not turn.
    space : tuple of str
        Names of the axes of a position.

    Raises
    ------
    SpecError
        If the width is odd, or a number does not belong to its range.

    Notes
    -----
    Positions may be real. Phases are exact: cosines and sines are right to 1.5e-7 in float32 for
    the directions in float64, from which the float32 ones of published code differ by 3e-8.

    Examples
    --------
    >>> import numpy as np, posenc
    >>> spec = posenc.GoldenGateRoPE(4, heads=2, pairing="half", lowest=1.0, highest=10.0)
    >>> posenc.rotate(spec, np.ones((2, 1, 4)), positions=[[0.5, 0.25]]).round(3)
    array([[[ 0.335, -0.043,  1.374, -1.414]],
    <BLANKLINE>
           [[ 1.187, -0.008,  0.768,  1.414]]])
    """

    dim: int
    _: KW_ONLY
    heads: int
    pairing: PairingField
    lowest: float
    highest: float
    still: float = 0.0
    space: tuple[str, ...] = ("x", "y")

    example = Example({"heads": 1, "lowest": 0.01, "highest": 1.0})
    paper = "xiong2025ndrope"
    by_head: ClassVar = {"step": 1, "whole": 1, "slope": 1}

    def check(self) -> None:
        """Raise `SpecError` when the fields contradict each other."""
        even_width("GoldenGateRoPE", dim=self.dim)
        positive("GoldenGateRoPE", "a positive frequency", lowest=self.lowest, highest=self.highest)
        self._require(0 <= self.still <= 1, "still", "a share from 0 to 1")
        distinct("GoldenGateRoPE", space=self.space)
        self.channels.sizes(self.pairs)

    @property
    def matrix(self) -> DenseMatrix:
        """The phases of the pairs of all heads, head by head."""
        waves = _DirectionWaves(self.lowest, self.highest, self.still, self.heads)
        return DenseMatrix(waves, len(self.space), self.heads * self.pairs, "exact")

    def constants(self) -> dict[str, np.ndarray]:
        """The steps of the pairs of each head: (axes, heads, pairs)."""
        shape = (len(self.space), self.heads, self.pairs)
        return {name: array.reshape(shape) for name, array in self.matrix.constants().items()}


class _DirectionWaves(NamedTuple):
    """Rising frequencies along directions that follow each other through the heads."""

    lowest: float
    highest: float
    still: float
    heads: int

    def matrix(self, axes: int, pairs: int) -> list[list[Decimal]]:
        """The frequencies in radians per unit: a row for each axis, head by head."""
        count = pairs // self.heads
        resting = round(self.still * count)
        ratio = Decimal(self.lowest) / Decimal(self.highest)
        turning = count - resting
        rungs = Ladder(denominator="n-1").rungs(ratio, count=turning, width=2 * turning)
        sizes = [Decimal(0)] * resting + [Decimal(self.lowest) * f for f in rungs]
        along = [_direction(i + 1, axes) for i in range(pairs)]
        return [
            [sizes[i % count] * Decimal(u[a]) for i, u in enumerate(along)] for a in range(axes)
        ]


def _direction(i: int, axes: int) -> list[float]:
    """The i-th direction: a quasi-random point through the normal distribution."""
    phi = 2.0
    for _ in range(10):  # ten, and no more: published frequencies have what error is left
        phi = (1 + phi) ** (1 / (axes + 1))
    normal = NormalDist()
    z = [normal.inv_cdf(math.fmod(i * (1 / phi) ** (a + 1), 1.0)) for a in range(axes)]
    size = math.hypot(*z)
    return [value / size for value in z]
