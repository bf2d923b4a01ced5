"""Verbs about frequencies: what a sinusoidal spec says of itself, in float64 NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from posenc._core.arrays.array import dtype_name
from posenc._core.errors import ArgumentError, SpecError, mismatch
from posenc._core.numeric.resolution import first_collision
from posenc._core.spec.spec import Spec
from posenc._core.tracing import compile_time
from posenc.encodings.table.sinusoidal import Sinusoidal
from posenc.functional._table import table
from posenc.functional.arguments.common import name_of


@compile_time
def frequencies(spec: Spec) -> np.ndarray:
    """The frequency of each pair, in radians per position.

        f[j] = first * base ** (-j / denominator)

    Parameters
    ----------
    spec : Spec
        An encoding with sinusoidal phases.

    Returns
    -------
    numpy.ndarray
        (pairs,), float64, each rounded once from 50 digits; 0 for pairs that do not turn. Where
        pairs mix axes, (axes, pairs).

    Raises
    ------
    SpecError
        If the encoding has no frequencies.

    Examples
    --------
    >>> import posenc
    >>> posenc.frequencies(posenc.Sinusoidal(6, base=1000)).round(3)
    array([1.  , 0.1 , 0.01])
    """
    exact = _sinusoidal(spec, "frequencies").matrix.frequencies()
    return np.array(exact, dtype=object).astype(np.float64)


@compile_time
def wavelengths(spec: Spec) -> np.ndarray:
    """The wavelength of each pair, in positions: 2 pi / frequency.

    Parameters
    ----------
    spec : Spec
        An encoding with sinusoidal phases.

    Returns
    -------
    numpy.ndarray
        (pairs,), float64; infinite for pairs that do not turn. Where pairs mix axes, the distance
        between crests, straight across them.

    Raises
    ------
    SpecError
        If the encoding has no frequencies.

    Examples
    --------
    The slowest pair of width d does not reach 2 pi base, as is often said, but its power (d-2)/d:

    >>> import posenc
    >>> posenc.wavelengths(posenc.Sinusoidal(4)).round(2)
    array([  6.28, 628.32])
    """
    f = frequencies(spec)
    with np.errstate(divide="ignore"):
        return 2 * math.pi / (np.abs(f) if f.ndim == 1 else np.hypot.reduce(f, axis=0))


@compile_time
def resolution(spec: Sinusoidal, dtype: Any = "float32", *, limit: int = 2**22) -> Any:
    """The first two positions whose rows are the same numbers in a dtype.

    Two rows are indistinguishable when every entry rounds to the same value. Positions p and q can
    only be so when their distance turns every pair by almost whole turns, so distances are sieved
    with integer phases first, and only the few that pass are compared row by row.

    Parameters
    ----------
    spec : Sinusoidal
        A sinusoidal table of one axis.
    dtype : {"float32", "float16", "bfloat16", "float64"}
        The dtype that rows are rounded to.
    limit : int
        Positions 0 to limit - 1 are searched.

    Returns
    -------
    tuple of int, or None
        (p, q) with p < q, the pair of smallest q, or None where every
        row below the limit is distinct.

    Raises
    ------
    SpecError
        If the spec has several axes or is no sinusoidal table.
    ArgumentError
        If the limit is not between 2 and 2**31.

    Examples
    --------
    >>> import posenc
    >>> posenc.resolution(posenc.Sinusoidal(512), "bfloat16") is None
    True
    """
    spec = _sinusoidal(spec, "resolution")
    if not isinstance(spec, Sinusoidal) or len(spec.axes) != 1 or spec.phase != "exact":
        expected = "a sinusoidal table of one axis with exact phases"
        raise SpecError(mismatch("resolution", expected, repr(spec)))
    if spec.ladder.cos_shift:
        expected = "a cosine of the same frequency for each sine"
        raise SpecError(mismatch("resolution", expected, f"cos_shift={spec.ladder.cos_shift}"))
    name = dtype if isinstance(dtype, str) else dtype_name(dtype)
    if isinstance(limit, bool) or not isinstance(limit, int) or not 2 <= limit <= 2**31:
        raise ArgumentError(mismatch("resolution: limit", "from 2 to 2**31", limit))
    complete = spec.arrays["step"][0, : spec.dim // 2]
    scale = spec.magnitude.table(spec.dim)
    return first_collision(lambda p: table(spec, p, dtype="float64"), complete, name, limit, scale)


def _sinusoidal(spec: Any, verb: str) -> Any:
    if not isinstance(spec, Spec):
        raise ArgumentError(mismatch(verb, "a spec such as posenc.Sinusoidal(512)", name_of(spec)))
    if not hasattr(spec, "matrix"):
        raise SpecError(mismatch(verb, "an encoding with sinusoidal phases", name_of(spec)))
    return spec
