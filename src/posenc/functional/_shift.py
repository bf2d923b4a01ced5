"""What two rows of a sinusoidal table have to do with each other, in float64 NumPy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from posenc._core.arrays.array import library
from posenc._core.arrays.coordinates import integers
from posenc._core.errors import ArgumentError, SpecError, mismatch
from posenc._core.tracing import compile_time
from posenc.encodings.table.base import columns
from posenc.encodings.table.sinusoidal import Sinusoidal
from posenc.functional.arguments.common import name_of
from posenc.functional.arguments.tokens import with_axes


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
    rows = with_axes(plain.axes, integers(k, xp=xp, caller=caller), f"{caller}: positions")
    both: tuple[np.ndarray, np.ndarray] = plain.matrix.cos_sin(
        rows, plain.arrays, dtype=xp.float64, xp=xp
    )
    return both


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
