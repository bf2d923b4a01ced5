"""Fourier features with learned frequencies, mixed by a small network (Li et al. 2021)."""

from __future__ import annotations

import math
import sys
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, final

import numpy as np

from posenc._core.arrays.array import is_jax, is_torch
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
    summed,
)

END = 6.0  # beyond it the error function is 1 to the last bit of float64
# Chebyshev coefficients of erf(x) / x as a function of x ** 2 in [0, END ** 2], the first halved:
# interpolation at 60 nodes in 60 digits, cut where what follows is below 1e-17.
CHEBYSHEV = (
    0.367449818042992,
    -0.31346560667104406,
    0.18068036754729297,
    -0.10948259780540116,
    0.06650028321506818,
    -0.0397628416152263,
    0.023194768790993588,
    -0.013132045071459708,
    0.007193664033012412,
    -0.003805440047020257,
    0.0019417349790361435,
    -0.0009550486382425634,
    0.00045268145600345204,
    -0.00020677121401621907,
    9.103378630424625e-05,
    -3.864376344861996e-05,
    1.5824027438876403e-05,
    -6.253838171562172e-06,
    2.386845548862012e-06,
    -8.802851959574693e-07,
    3.1392692693417673e-07,
    -1.0832563596400346e-07,
    3.619311734690902e-08,
    -1.1716764549277863e-08,
    3.6776422490784716e-09,
    -1.119956011908256e-09,
    3.3112128776045585e-10,
    -9.510584528579965e-11,
    2.655426660738333e-11,
    -7.2116504210327656e-12,
    1.9061956015534205e-12,
    -4.906644970425955e-13,
    1.2306392983660209e-13,
    -3.009145261936385e-14,
    7.177145113765522e-15,
    -1.6706262049115716e-15,
    3.797008593690607e-16,
    -8.430385922536826e-17,
    1.8293595456022488e-17,
)


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
        self._require(
            self.groups >= 1 and len(self.space) > 0 and len(self.space) % self.groups == 0,
            "groups",
            "a number that divides that of the coordinates",
        )
        self._require(len(set(self.space)) == len(self.space), "space", "distinct names")
        self._require(
            self.dim >= 1 and self.dim % self.groups == 0,
            "dim",
            f"a multiple of the {self.groups} groups",
        )
        self._require(
            self.features >= 2 and self.features % 2 == 0,
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
        angle = summed([x[..., a, None] * known["frequencies"][a, :] for a in range(share)])
        features = xp.concat([xp.cos(angle), xp.sin(angle)], axis=-1)
        features = features * math.sqrt(1 / self.features)
        form = "erf" if self.activation == "gelu" else "tanh"
        hidden = _gelu(product(features, known["weight1"], xp=xp) + known["bias1"], form, xp=xp)
        rows = product(hidden, known["weight2"], xp=xp) + known["bias2"]
        return xp.reshape(rows, (*positions.shape[:-1], self.dim))


def _erf(x: Array, *, xp: Any) -> Array:
    """The error function, to 1e-15 in float64."""
    if is_torch(x):
        return sys.modules["torch"].erf(x)
    if is_jax(x):
        return sys.modules["jax"].scipy.special.erf(x)
    wide = xp.clip(xp.astype(x, xp.float64), -END, END)
    u = wide * wide * (4 / END**2) - 2  # twice the variable of the polynomials
    after, last = xp.zeros_like(wide), xp.zeros_like(wide)
    for coefficient in CHEBYSHEV[:0:-1]:
        last, after = coefficient + u * last - after, last
    return xp.astype(wide * (CHEBYSHEV[0] + u * last / 2 - after), x.dtype)


def _gelu(x: Array, form: str, *, xp: Any) -> Array:
    """X times the normal distribution at x: exact ("erf"), or by the usual "tanh" formula."""
    if form == "erf":
        return x * (0.5 + 0.5 * _erf(x * math.sqrt(0.5), xp=xp))
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
    return 0.5 * x * (1 + xp.tanh(inner))
