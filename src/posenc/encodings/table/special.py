"""Functions that the array API standard lacks."""

from __future__ import annotations

import math
import sys
from typing import Any

from posenc._core.arrays.array import Array, is_jax, is_torch

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


def erf(x: Array, *, xp: Any) -> Array:
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


def gelu(x: Array, form: str, *, xp: Any) -> Array:
    """X times the normal distribution at x: exact ("erf"), or by the usual "tanh" formula."""
    if form == "erf":
        return x * (0.5 + 0.5 * erf(x * math.sqrt(0.5), xp=xp))
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
    return 0.5 * x * (1 + xp.tanh(inner))
