"""Verbs about frequencies: what a sinusoidal spec says of itself, in float64 NumPy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from posenc._core.array import dtype_name, integers, library
from posenc._core.errors import ArgumentError, SpecError, mismatch
from posenc._core.resolution import first_collision
from posenc._core.spec import Spec
from posenc._core.tracing import compile_time
from posenc.encodings.table.base import columns
from posenc.encodings.table.sinusoidal import Sinusoidal
from posenc.functional._table import table
from posenc.functional.arguments import name_of
from posenc.functional.tokens import with_axes

__all__ = ["frequencies", "resolution", "shift", "similarity", "wavelengths"]


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
    found = _sinusoidal(spec, "frequencies").matrix.frequencies()
    return np.array(found, dtype=object).astype(np.float64)


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
def shift(spec: Sinusoidal, k: int | Sequence[int]) -> np.ndarray:
    """The linear operator that moves every row of a table by `k` positions.

        PE(p + k) = S(k) PE(p)   for every p

    S is block-diagonal up to the order of the channels: each pair is turned by its frequency times
    k. Vaswani et al. (2017) chose sinusoids for this property.

    Parameters
    ----------
    spec : Sinusoidal
        A sinusoidal table whose sines all have their cosines.
    k : int, or sequence of int
        The shift; one number per axis for specs of several axes.

    Returns
    -------
    numpy.ndarray
        (dim, dim), float64.

    Raises
    ------
    SpecError
        If a sine of the table has no cosine (an odd width that is not zero-padded): no linear
        operator exists then.

    Examples
    --------
    >>> import posenc
    >>> pe = posenc.Sinusoidal(8)
    >>> moved = posenc.shift(pe, 3) @ posenc.table(pe, [40], dtype="float64")[0]
    >>> bool(abs(moved - posenc.table(pe, [43], dtype="float64")[0]).max() < 1e-14)
    True
    """
    spec = _whole(spec, "shift")
    cos, sin = _angles(spec, np.asarray(k), "shift: k")
    if cos.ndim != 1:
        received = f"shape {np.shape(k)}"
        raise ArgumentError(mismatch("shift: k", "one shift for the whole table", received))
    sines, cosines = _channels(spec)
    moved = np.zeros((spec.dim, spec.dim))
    moved[sines, sines] = cos
    moved[sines, cosines] = sin
    moved[cosines, sines] = -sin
    moved[cosines, cosines] = cos
    return moved


@compile_time
def similarity(spec: Sinusoidal, offsets: Any) -> np.ndarray:
    """The dot product of two rows as a function of their distance.

        PE(p) . PE(p + k) = table_scale ** 2 * sum_j cos(f[j] k)

    Parameters
    ----------
    spec : Sinusoidal
        A sinusoidal table whose sines all have their cosines.
    offsets : int or array of integers
        The distances k, of shape (...); (..., axes) for specs of several axes.

    Returns
    -------
    numpy.ndarray
        (...), float64, summed without loss.

    Raises
    ------
    SpecError
        If a sine has no cosine: the product then depends on the position as well.
    DTypeError
        If the offsets are not integers.

    Examples
    --------
    >>> import posenc
    >>> posenc.similarity(posenc.Sinusoidal(64), [0, 1, 10]).round(3)
    array([32.   , 30.917, 21.052])
    """
    spec = _whole(spec, "similarity")
    cos, _ = _angles(spec, np.asarray(offsets), "similarity: offsets")
    flat = cos.reshape(-1, cos.shape[-1])
    sums = np.array([math.fsum(row) for row in flat.tolist()]).reshape(cos.shape[:-1])
    return sums * spec.magnitude.table(spec.dim) ** 2


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


def _whole(spec: Any, verb: str) -> Sinusoidal:
    if not isinstance(spec, Sinusoidal):
        raise ArgumentError(mismatch(verb, "a sinusoidal table", name_of(spec)))
    if not spec.whole:
        todo = "Use an even dim, or odd='zero_pad'."
        received = f"dim={spec.dim} with odd={spec.odd!r} and cos_shift={spec.ladder.cos_shift}"
        raise SpecError(
            mismatch(verb, "a cosine of the same frequency for each sine", received, todo)
        )
    return spec


def _angles(spec: Sinusoidal, k: np.ndarray, caller: str) -> tuple[np.ndarray, np.ndarray]:
    """Cosine and sine of k times the frequencies, float64, whatever the start and phase."""
    xp = library(np)
    plain = spec.replace(phase="exact", arrangement=spec.arrangement.replace(start=0, pad=None))
    where = with_axes(plain.axes, integers(k, xp=xp, caller=caller), f"{caller}: positions")
    found: tuple[np.ndarray, np.ndarray] = plain.matrix.cos_sin(
        where, plain.arrays, dtype=xp.float64, xp=xp
    )
    return found


def _channels(spec: Sinusoidal) -> tuple[np.ndarray, np.ndarray]:
    """The channel of each pair's sine and of its cosine."""
    xp = library(np)
    pairs = np.arange(spec.pairs, dtype=np.int64)
    order, blocks = spec.order, spec.arrangement.blocks(spec.pairs)
    numbered = columns(2 * pairs + 2, 2 * pairs + 1, order, spec.dim, blocks, xp=xp)
    place = {int(value): channel for channel, value in enumerate(numbered)}
    sines = np.array([place[2 * j + 1] for j in range(spec.pairs)], dtype=np.int64)
    cosines = np.array([place[2 * j + 2] for j in range(spec.pairs)], dtype=np.int64)
    return sines, cosines
