"""Fourier features of a blurred point: sinusoids averaged over a Gaussian (mip-NeRF)."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from decimal import Decimal
from typing import Any, NamedTuple, final

import numpy as np

from posenc._core.numeric.ladder import Ladder
from posenc._core.numeric.matrix import DenseMatrix
from posenc.encodings.table.base import (
    Array,
    Constants,
    Example,
    TableSpec,
    astype,
    bad_position,
    columns,
    concrete,
    marked,
    positive,
    summed,
)


@final
@dataclass(frozen=True)
class IntegratedFourier(TableSpec):
    """Integrated positional encoding (Barron et al. 2021, arXiv:2103.13415).

        row(mean, v) = E[ sin(f[j] x[a]) | cos(f[j] x[a]) ]     x[a] ~ N(mean[a], v[a])
                     = exp(-f[j]**2 v[a] / 2) * [ sin(f[j] mean[a]) | cos(f[j] mean[a]) ]

    Frequencies that the blur averages out fade instead of aliasing. Without a variance it is
    `Fourier` in the order band by band.

    Parameters
    ----------
    dim : int
        Width of a row, twice the number of bands times the number of coordinates.
    space : tuple of str
        Names of the coordinates. A position has the means first, then the variances in the same
        order: (x, y, z, x_variance, y_variance, z_variance).
    base : float
        Of a geometric ladder.
    ladder : Ladder
        The frequencies of the bands, the same for each coordinate; 1, 2, 4, … in the paper.

    Raises
    ------
    SpecError
        If the width is not a multiple of twice the coordinates, or a ladder does not fit.

    Notes
    -----
    Channels are the sines, then the cosines; within each half the bands stand outside and the
    coordinates inside. The phases of the means are exact, as those of `Fourier` are. A negative
    variance raises `PositionError`, and gives NaN where positions cannot be looked at. The width of
    a covariance that is not diagonal plays no part: the paper's code, too, reads its diagonal.

    Examples
    --------
    >>> import posenc
    >>> spec = posenc.IntegratedFourier(4, space=("x",))
    >>> posenc.table(spec, [[0.5, 0.0], [0.5, 2.0]]).round(3)
    array([[0.479, 0.841, 0.878, 0.54 ],
           [0.176, 0.015, 0.323, 0.01 ]], dtype=float32)
    """

    dim: int
    _: KW_ONLY
    space: tuple[str, ...] = ("x", "y", "z")
    base: float = 10_000.0
    ladder: Ladder = Ladder(spacing="octave")

    example = Example(
        {"space": ("x",)},
        lambda: np.stack([np.full(64, 0.5), np.linspace(0, 1, 64) ** 4], axis=-1),
        "one mean with variances from 0 to 1",
        "Its positions are regions of space, with a variance.",
    )
    paper = "barron2021mipnerf"
    coordinates = "real"

    def check(self) -> None:
        """Raise `SpecError` when the width and the coordinates do not fit."""
        names = self.space
        self._require(
            len(names) > 0 and len(set(self.axes)) == len(self.axes),
            "space",
            "distinct names, none of them that of a variance",
            names,
        )
        self._require(
            self.dim >= 2 and self.dim % (2 * len(names)) == 0,
            "dim",
            f"a multiple of {2 * len(names)}, two channels for each coordinate and band",
        )
        positive("IntegratedFourier", base=self.base)
        self._require(
            not self.ladder.cos_shift,
            "ladder",
            "one frequency for the sine and cosine of a band",
            f"cos_shift={self.ladder.cos_shift}",
        )

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the axes of a position: the means, then the variances."""
        return (*self.space, *(f"{name}_variance" for name in self.space))

    @property
    def pairs(self) -> int:
        """Number of (sine, cosine) pairs."""
        return self.dim // 2

    @property
    def matrix(self) -> DenseMatrix:
        """The phases of the means."""
        return DenseMatrix(_Bands(self.base, self.ladder), len(self.space), self.pairs, "exact")

    def constants(self) -> dict[str, np.ndarray]:
        """The steps of the pairs, and the rate at which a variance damps each of them."""
        frequencies = np.array(self.matrix.frequencies(), dtype=object).astype(np.float64)
        return self.matrix.constants() | {"damping": frequencies**2 / 2}

    def rows(self, positions: Array, constants: Constants, *, dtype: Any, xp: Any) -> Array:
        """The rows of the table: (..., axes) -> (..., dim)."""
        count = len(self.space)
        self._check_known(positions)
        variance = astype(positions[..., count:], dtype, xp)
        damping = astype(constants["damping"], dtype, xp)
        exponent = summed([variance[..., a, None] * damping[a, :] for a in range(count)])
        size = marked(xp.exp(-exponent), exponent < 0, math.nan, xp=xp)
        cos, sin = self.matrix.cos_sin(positions[..., :count], constants, dtype=dtype, xp=xp)
        return columns(cos * size, sin * size, "sin_cos", self.dim, (self.pairs,), xp=xp)

    def _check_known(self, positions: Array) -> None:
        known = concrete(positions)
        if known is None or not known.size:
            return
        least = known[..., len(self.space) :].min()
        if least < 0:
            raise bad_position(
                "IntegratedFourier: positions", "variances of at least 0, after the means", least
            )


class _Bands(NamedTuple):
    """The frequencies of bands outside and coordinates inside."""

    base: float
    ladder: Ladder

    def matrix(self, axes: int, pairs: int) -> list[list[Decimal]]:
        """The frequencies in radians per unit: a row for each coordinate."""
        count = pairs // axes
        rungs = self.ladder.rungs(self.base, count=count, width=2 * count)
        zero = Decimal(0)
        return [[f if a == b else zero for f in rungs for b in range(axes)] for a in range(axes)]
