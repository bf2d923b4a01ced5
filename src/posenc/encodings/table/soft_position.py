"""Coordinates through a learned linear map (Slot Attention)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, final

import numpy as np

from posenc.encodings.table.base import (
    Array,
    Constants,
    Example,
    Init,
    Parameter,
    TableSpec,
    astype,
    distinct,
    summed,
    width_of,
)


@final
@dataclass(frozen=True)
class SoftPosition(TableSpec):
    """Soft position embedding (Locatello et al. 2020, arXiv:2006.15055).

        PE(x) = [x | 1 - x] W + b        x in [0, 1] for each coordinate

    so that each channel grows linearly towards the sides of the image that it has learned.

    Parameters
    ----------
    dim : int
        Width of the table.
    space : tuple of str
        Names of the coordinates.
    features : {"both_ways", "plain"}
        `both_ways`: the coordinates and their distances from 1, as above. `plain`: the coordinates
        alone, with which later code of the authors maps [-1, 1].
    init : Init
        First values of the matrix; the shift begins as zeros.

    Raises
    ------
    SpecError
        If the width is not positive, or names repeat.

    Notes
    -----
    The parameters are `weight`, (features, dim), and `bias`, (dim,); gradients flow to them and to
    the coordinates. Coordinates are used as they are: `posenc.positions.grid` normalises.

    Examples
    --------
    >>> import numpy as np, posenc
    >>> params = {"weight": np.eye(4), "bias": np.zeros(4)}
    >>> posenc.table(posenc.SoftPosition(4), [[0.25, 0.5]], params=params)
    array([[0.25, 0.5 , 0.75, 0.5 ]], dtype=float32)
    """

    dim: int
    _: KW_ONLY
    space: tuple[str, ...] = ("y", "x")
    features: Literal["both_ways", "plain"] = "both_ways"
    init: Init = Init("normal", scale=0.02)

    example = Example(
        {"init": Init(scale=1.0)},
        lambda: np.linspace((0, 0), (1, 1), 64),
        "points from corner to corner",
    )
    paper = "locatello2020slot"
    coordinates = "real"

    def check(self) -> None:
        """Raise `SpecError` when the width or the names cannot be."""
        width_of("SoftPosition", dim=self.dim)
        distinct("SoftPosition", space=self.space)

    def parameters(self) -> dict[str, Parameter]:
        """The matrix and the shift."""
        inputs = len(self.space) * (2 if self.features == "both_ways" else 1)
        return {
            "weight": Parameter((inputs, self.dim), self.init),
            "bias": Parameter((self.dim,), Init("constant", scale=0.0)),
        }

    def rows(self, positions: Array, constants: Constants, *, dtype: Any, xp: Any) -> Array:
        """The rows of the table: (..., axes) -> (..., dim)."""
        weight = astype(constants["weight"], dtype, xp)
        x = astype(positions, dtype, xp)
        inputs = xp.concat([x, 1 - x] if self.features == "both_ways" else [x], axis=-1)
        # A few coordinates: sums of products, as matrix units would round them to half precision.
        terms = [inputs[..., i, None] * weight[i, :] for i in range(weight.shape[0])]
        return summed([astype(constants["bias"], dtype, xp), *terms])
