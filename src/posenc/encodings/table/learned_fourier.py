"""Fourier features with learned frequencies, mixed by a small network (Li et al. 2021)."""

from __future__ import annotations

import math
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
    at_least,
    not_too_many,
    positive,
    product,
)
from posenc.encodings.table.special import gelu


@final
@dataclass(frozen=True)
class LearnedFourier(TableSpec):
    """Learnable Fourier features (Li et al. 2021, arXiv:2106.02795).

        r(x)  = [ cos(x W_r) | sin(x W_r) ] / sqrt(features)
        PE(x) = GeLU(r(x) W_1 + b_1) W_2 + b_2

    With several groups the coordinates of each group, in turn, go through the same network, and the
    results stand side by side: the corners of a box, say, as two groups of two coordinates.

    Parameters
    ----------
    dim : int
        Width of the table, a multiple of the groups.
    features : int
        Number of Fourier features, even.
    hidden : int
        Width of the hidden layer.
    space : tuple of str
        Names of the coordinates, group by group.
    groups : int
        Number of groups of coordinates.
    gamma : float
        The frequencies begin as normal numbers of standard deviation 1 / gamma.
    activation : {"gelu", "gelu_tanh"}
        The normal distribution itself, or its approximation by a hyperbolic tangent.

    Raises
    ------
    SpecError
        If a width cannot be, or the groups do not divide it.

    Notes
    -----
    The parameters are `frequencies` (coordinates of a group, features / 2), `weight1`, `bias1`,
    `weight2` and `bias2`; matrices stand as in the equations, inputs first. The matrices begin as
    uniform numbers within 1 / sqrt(inputs), the shifts as zeros. Coordinates may be integers,
    float32 or float64. Angles are products of floats: 1.2e-7 * (1 + `|angle|`) in float32.

    Examples
    --------
    >>> import posenc
    >>> spec = posenc.LearnedFourier(8, features=4, hidden=6)
    >>> params = posenc.init(spec, seed=0)
    >>> posenc.table(spec, [[0.5, 0.25]], params=params).shape
    (1, 8)
    """

    dim: int
    _: KW_ONLY
    features: int
    hidden: int
    space: tuple[str, ...] = ("x", "y")
    groups: int = 1
    gamma: float = 1.0
    activation: Literal["gelu", "gelu_tanh"] = "gelu"

    example = Example(
        {"features": 32, "hidden": 32, "gamma": 0.1},
        lambda: np.linspace((0, 0), (1, 1), 64),
        "points from corner to corner",
    )
    paper = "li2021learnable"
    coordinates = "real"

    def check(self) -> None:
        """Raise `SpecError` when a width cannot be."""
        self._refuse(
            self.groups < 1 or not self.space or len(self.space) % self.groups,
            "groups",
            "a number that divides that of the coordinates",
        )
        self._refuse(len(set(self.space)) != len(self.space), "space", "distinct names")
        self._refuse(
            self.dim < 1 or self.dim % self.groups, "dim", f"a multiple of the {self.groups} groups"
        )
        self._refuse(
            self.features < 2 or self.features % 2,
            "features",
            "an even number, a cosine and a sine for each frequency",
        )
        at_least("LearnedFourier", hidden=self.hidden)
        not_too_many("LearnedFourier", "features and hidden units", self.features + self.hidden)
        positive("LearnedFourier", gamma=self.gamma)

    def parameters(self) -> dict[str, Parameter]:
        """The frequencies and the two layers of the network."""
        share, outputs = len(self.space) // self.groups, self.dim // self.groups

        def within(inputs: int) -> Init:
            return Init("uniform", scale=1 / math.sqrt(inputs))

        zeros = Init("constant", scale=0.0)
        spread = Init("normal", scale=1 / self.gamma)
        return {
            "frequencies": Parameter((share, self.features // 2), spread),
            "weight1": Parameter((self.features, self.hidden), within(self.features)),
            "bias1": Parameter((self.hidden,), zeros),
            "weight2": Parameter((self.hidden, outputs), within(self.hidden)),
            "bias2": Parameter((outputs,), zeros),
        }

    def rows(self, positions: Array, constants: Constants, *, dtype: Any, xp: Any) -> Array:
        """The rows of the table: (..., axes) -> (..., dim)."""
        known = {name: astype(constants[name], dtype, xp) for name in self.shapes}
        x = astype(positions, dtype, xp)
        share = len(self.space) // self.groups
        x = xp.reshape(x, (*x.shape[:-1], self.groups, share))
        frequencies = known["frequencies"]
        angle = x[..., 0, None] * frequencies[0, :]
        for a in range(1, share):
            angle = angle + x[..., a, None] * frequencies[a, :]
        features = xp.concat([xp.cos(angle), xp.sin(angle)], axis=-1)
        features = features * math.sqrt(1 / self.features)
        form = "erf" if self.activation == "gelu" else "tanh"
        hidden = gelu(product(features, known["weight1"], xp=xp) + known["bias1"], form, xp=xp)
        rows = product(hidden, known["weight2"], xp=xp) + known["bias2"]
        return xp.reshape(rows, (*positions.shape[:-1], self.dim))
