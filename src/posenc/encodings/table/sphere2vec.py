"""Places on a sphere by products of waves of longitude and latitude at many scales."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from decimal import Decimal
from typing import Any, Literal, NamedTuple, final

import numpy as np

from posenc._core.numeric.ladder import Ladder, pi
from posenc._core.numeric.matrix import DenseMatrix
from posenc.encodings.table.base import (
    AROUND,
    Array,
    Constants,
    Example,
    TableSpec,
    around,
    positive,
)

WIDTHS = {"sphereC": 3, "sphereC+": 6, "sphereM": 5, "sphereM+": 8}


@final
@dataclass(frozen=True)
class Sphere2Vec(TableSpec):
    """Sphere2Vec (Mai et al. 2023, arXiv:2306.17624).

        sphereC(p, l)[s] = sin P, cos P cos L, cos P sin L
        sphereM(p, l)[s] = sin P, cos P cos l, cos p cos L, cos P sin l, cos p sin L
        P = p / r[s],  L = l / r[s],  r[s] = shortest * (longest / shortest) ** (s / (S - 1))

    for latitude p and longitude l. `sphereC+` and `sphereM+` have sin P, cos P, sin L, cos L in
    front of what follows sin P: the features of a plane besides. At scale 1 the row of `sphereC` is
    the place as a point in space, so that rows near each other are places near each other.

    Parameters
    ----------
    dim : int
        Width of a row: 3, 6, 5 or 8 for each of the S scales, by `mixing`.
    mixing : {"sphereC", "sphereC+", "sphereM", "sphereM+"}
        Which products a scale has.
    shortest, longest : float
        Scales r of the first and the last waves; numbers without a unit.
    unit : {"degrees", "radians"}
        Unit of longitude and latitude.

    Raises
    ------
    SpecError
        If the width does not fit the products, or a scale is not positive.

    Notes
    -----
    Channels stand scale by scale. The phases are exact, so float32 rows are right to 3e-7 for
    positions as they are given.

    Examples
    --------
    >>> import posenc
    >>> spec = posenc.Sphere2Vec(3, mixing="sphereC", shortest=1.0, longest=1.0)
    >>> posenc.table(spec, [[90.0, 0.0], [0.0, 30.0]]).round(3)
    array([[0.   , 0.   , 1.   ],
           [0.5  , 0.866, 0.   ]], dtype=float32)
    """

    dim: int
    _: KW_ONLY
    mixing: Literal["sphereC", "sphereC+", "sphereM", "sphereM+"]
    shortest: float
    longest: float
    unit: Literal["degrees", "radians"] = "degrees"

    example = Example(
        {"mixing": "sphereM+", "shortest": 0.1, "longest": 1.0},
        around,
        AROUND,
        "Its positions are places on a sphere.",
    )
    paper = "mai2023sphere2vec"
    coordinates = "real"
    axes = ("longitude", "latitude")

    def check(self) -> None:
        """Raise `SpecError` when the width or a scale cannot be."""
        share = WIDTHS[self.mixing]
        self._require(
            self.dim >= share and self.dim % share == 0,
            "dim",
            f"a multiple of {share}, the products of a scale of {self.mixing}",
        )
        positive("Sphere2Vec", "a positive scale", shortest=self.shortest, longest=self.longest)

    @property
    def scales(self) -> int:
        """Number S of scales."""
        return self.dim // WIDTHS[self.mixing]

    @property
    def phases(self) -> DenseMatrix:
        """The longitude at every scale and as it is, then the latitude likewise."""
        waves = _AngleWaves(self.shortest, self.longest, self.unit)
        return DenseMatrix(waves, 2, 2 * (self.scales + 1), "exact")

    def constants(self) -> dict[str, np.ndarray]:
        """The steps of the angles."""
        return self.phases.constants()

    def rows(self, positions: Array, constants: Constants, *, dtype: Any, xp: Any) -> Array:
        """The rows of the table: (..., 2) -> (..., dim)."""
        cos, sin = self.phases.cos_sin(positions, constants, dtype=dtype, xp=xp)
        count = self.scales
        lon_cos, lon_sin = cos[..., :count], sin[..., :count]
        lat_cos, lat_sin = cos[..., count + 1 : -1], sin[..., count + 1 : -1]
        features = [lat_sin]
        if self.mixing in ("sphereC+", "sphereM+"):
            features += [lat_cos, lon_sin, lon_cos]
        if self.mixing in ("sphereC", "sphereC+"):
            features += [lat_cos * lon_cos, lat_cos * lon_sin]
        else:
            lon_cos1, lon_sin1 = cos[..., count, None], sin[..., count, None]
            lat_cos1 = cos[..., -1, None]
            features += [lat_cos * lon_cos1, lat_cos1 * lon_cos]
            features += [lat_cos * lon_sin1, lat_cos1 * lon_sin]
        rows = xp.stack(features, axis=-1)
        return xp.reshape(rows, (*rows.shape[:-2], self.dim))


class _AngleWaves(NamedTuple):
    """Each angle at every scale and then as it is, the first angle before the second."""

    shortest: float
    longest: float
    unit: Literal["degrees", "radians"]

    def matrix(self, axes: int, pairs: int) -> list[list[Decimal]]:  # noqa: ARG002
        """Radians per unit: a row for each angle."""
        unit = pi() / 180 if self.unit == "degrees" else Decimal(1)
        shortest, longest = Decimal(self.shortest), Decimal(self.longest)
        count = pairs // 2 - 1
        ladder = Ladder(denominator="n-1").rungs(longest / shortest, count=count, width=2 * count)
        waves = [unit * f / shortest for f in ladder] + [unit]
        still = [Decimal(0)] * (count + 1)
        return [waves + still, still + waves]
