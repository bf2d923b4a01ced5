"""Places on a sphere by real spherical harmonics: no seam and no poles."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from decimal import Decimal
from typing import Any, Literal, NamedTuple, final

import numpy as np

from posenc._core.numeric.ladder import pi
from posenc._core.numeric.matrix import DenseMatrix
from posenc.encodings.table.base import AROUND, Array, Constants, Example, TableSpec, around


@final
@dataclass(frozen=True)
class SphericalHarmonics(TableSpec):
    """Real spherical harmonics of a place (Rußwurm et al. 2024, arXiv:2310.06743).

        row(place)[l, m] = sqrt(2) K[l, |m|] P[l, |m|](cos t) * sin(|m| p)     m < 0
                         =         K[l, 0]   P[l, 0](cos t)                    m = 0
                         = sqrt(2) K[l, m]   P[l, m](cos t)   * cos(m p)       m > 0
        K[l, m] ** 2     = (2 l + 1) / (4 pi) * (l - m)! / (l + m)!
        t = latitude + 90 degrees,  p = longitude + 180 degrees

    for l = 0, 1, … and m = -l … l, with P the associated Legendre functions without the phase of
    Condon and Shortley. Products of sines of longitude and latitude, the usual features of places,
    bunch up at the poles; harmonics do not know where the poles are.

    Parameters
    ----------
    dim : int
        Width of a row, a square: the degrees below sqrt(dim) have dim harmonics.
    unit : {"degrees", "radians"}
        Unit of longitude and latitude.
    sign : {"plain", "condon_shortley"}
        `plain`: the harmonics as above, those of the authors' analytic expressions.
        `condon_shortley`: times (-1) ** m, those of their closed form.

    Raises
    ------
    SpecError
        If the width is no square.

    Notes
    -----
    The angles t and p are those of the authors' code, which measures from the south pole and the
    antimeridian; measured from the north pole and Greenwich, the harmonics of odd degree change
    their sign.

    The dot product of two rows depends on the angle between the places alone: it is the sum of
    (2 l + 1) / (4 pi) * P[l](cos angle) over the degrees.

    Cosines of multiples of an angle come from exact phases; the Legendre functions from the
    recurrence in l with float64 constants. Rows of unit size are right to about 1e-7 * (1 + l) in
    float32.

    Examples
    --------
    >>> import posenc
    >>> spec = posenc.SphericalHarmonics(4)
    >>> posenc.table(spec, [[0.0, 0.0], [90.0, 0.0], [0.0, 90.0]]).round(3) + 0.0
    array([[ 0.282,  0.   ,  0.   , -0.489],
           [ 0.282, -0.489,  0.   ,  0.   ],
           [ 0.282,  0.   , -0.489,  0.   ]], dtype=float32)
    """

    dim: int
    _: KW_ONLY
    unit: Literal["degrees", "radians"] = "degrees"
    sign: Literal["plain", "condon_shortley"] = "plain"

    example = Example({}, around, AROUND, "Its positions are places on a sphere.")
    paper = "russwurm2024locationencoding"
    coordinates = "real"
    axes = ("longitude", "latitude")

    def check(self) -> None:
        """Raise `SpecError` when the width is no square."""
        self._require(
            self.dim >= 1 and self.degrees**2 == self.dim,
            "dim",
            "a square, as the degrees below L have L**2 harmonics",
            todo=f"{self.degrees**2} and {(self.degrees + 1) ** 2} are next." * (self.dim > 0),
        )

    @property
    def degrees(self) -> int:
        """Number L of degrees l = 0 … L - 1."""
        return math.isqrt(max(self.dim, 0))

    @property
    def phases(self) -> DenseMatrix:
        """Multiples of the longitude, 0 to L - 1, and then the latitude."""
        return DenseMatrix(_Multiples(self.unit), 2, self.degrees + 1, "exact")

    def constants(self) -> dict[str, np.ndarray]:
        """The steps of the multiples of the angles."""
        return self.phases.constants()

    def rows(self, positions: Array, constants: Constants, *, dtype: Any, xp: Any) -> Array:
        """The rows of the table: (..., 2) -> (..., dim)."""
        cos, sin = self.phases.cos_sin(positions, constants, dtype=dtype, xp=xp)
        # cos(t) = -sin(latitude), and m half turns of the longitude are a sign.
        x, y = -sin[..., -1], cos[..., -1]
        found: dict[tuple[int, int], Array] = {}
        for m, column in enumerate(_legendre(x, y, self.degrees, xp)):
            turned = math.sqrt(2) * ((-1) ** m if self.sign == "plain" else 1)
            for degree, value in enumerate(column, m):
                if m:
                    found[degree, m] = value * (cos[..., m] * turned)
                    found[degree, -m] = value * (sin[..., m] * turned)
                else:
                    found[degree, 0] = value
        order = [(n, m) for n in range(self.degrees) for m in range(-n, n + 1)]
        return xp.stack([found[key] for key in order], axis=-1)


class _Multiples(NamedTuple):
    """Multiples of the first angle from 0 on, and then the second angle."""

    unit: Literal["degrees", "radians"]

    def matrix(self, axes: int, pairs: int) -> list[list[Decimal]]:  # noqa: ARG002
        """Radians per unit: a row for each angle."""
        unit = pi() / 180 if self.unit == "degrees" else Decimal(1)
        zero, count = Decimal(0), pairs - 1
        return [[m * unit for m in range(count)] + [zero], [zero] * count + [unit]]


def _legendre(x: Array, y: Array, degrees: int, xp: Any) -> list[list[Array]]:
    """K[l, m] P[l, m](x) with y = sqrt(1 - x**2): for each m the values of l = m … degrees - 1.

    Normalised, the recurrence neither overflows nor loses what the factorials would cost.
    """
    columns = []
    diagonal = xp.full_like(x, math.sqrt(1 / (4 * math.pi)))
    for m in range(degrees):
        if m:
            diagonal = diagonal * y * math.sqrt((2 * m + 1) / (2 * m))
        column = [diagonal]
        if m + 1 < degrees:
            column.append(x * diagonal * math.sqrt(2 * m + 3))
        for n in range(m + 2, degrees):
            a = math.sqrt((4 * n * n - 1) / (n * n - m * m))
            b = math.sqrt(((n - 1) ** 2 - m * m) / (4 * (n - 1) ** 2 - 1))
            column.append(a * (x * column[-1] - b * column[-2]))
        columns.append(column)
    return columns
