"""Exact phases: the numeric heart.

A phase is a fraction of a turn, and a turn wraps around. So it is held as a 64-bit integer, 2**64
to the turn. With `step = round(2**64 * frequency / (2 pi))`, worked out once in `decimal`,

    phase(position) = position * step  mod 2**64

and the wrap-around of integer multiplication *is* the range reduction: nothing is lost at any
position. The nearest quadrant is taken off, what remains (at most 1/8 turn) is rounded to a float
once, and a small polynomial gives sine and cosine.

The bounds, for `frequency * position` in exact arithmetic:

    float32   |error| <= 1e-7 absolute and 3e-7 relative, plus 1.8e-19 per position
    float64   |error| <= 4e-16 plus 1.8e-19 per position

The part per position is the rounding of `step`; it reaches 4e-10 at position 2**31.

The polynomial is ours because the libraries' float32 sine differs from one to the next and under
compilation; this one gives the same bits in NumPy, in eager torch and in compiled torch. Where
there are no 64-bit integers (JAX by default) the same integers are formed from 32-bit halves. Where
a compiler takes overflow for impossible (C++, which torch's compiler writes) they are formed from
words whose products do not overflow.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import numpy as np

from posenc._core.arrays.words import MASK, Halves, Words, words
from posenc._core.numeric.ladder import context, pi

Array = Any  # an array of NumPy, torch, JAX or another library of the array API standard

# sin(pi u / 4) / u and cos(pi u / 4) for |u| <= 1, fitted by `tools/fit_cos_sin.py`. The first
# coefficient of the sine is split into a float32 and what that rounding leaves, to keep slow pairs
# to the last bit.
SIN = (
    0.7853981852531433,
    -2.4273130172502988e-08,
    -0.08074543476917805,
    0.0024900069643183295,
    -3.59543992578884e-05,
)
COS = (-0.3084251357928012, 0.015854327515167944, -0.00032594163727223124, 3.531154069761483e-06)
EIGHTH = math.pi / 4  # of a turn, in radians


def steps(frequencies: Iterable[Decimal]) -> np.ndarray:
    """Turns per position as int64 bit patterns, 2**64 to the turn.

    Parameters
    ----------
    frequencies : iterable of Decimal
        Radians per position. Whole turns per position are dropped: they change no integer position.

    Returns
    -------
    numpy.ndarray
        int64, one for each frequency.
    """
    return np.array(
        [(s + 2**63) % 2**64 - 2**63 for s in _turns_per_position(frequencies)], dtype=np.int64
    )


def whole_turns(frequencies: Iterable[Decimal]) -> np.ndarray:
    """What `steps` drops: the whole turns per position, int64, for positions between integers."""
    return np.array([(s + 2**63) >> 64 for s in _turns_per_position(frequencies)], dtype=np.int64)


def _turns_per_position(frequencies: Iterable[Decimal]) -> list[int]:
    arithmetic = context()
    unit = arithmetic.divide(Decimal(2**64), arithmetic.multiply(2, pi()))
    return [int(arithmetic.to_integral_value(arithmetic.multiply(f, unit))) for f in frequencies]


def turns(positions: Array, step: Array | Halves | Words, origin: Any = None) -> Any:
    """The phase matrix, summed over axes, modulo one turn."""
    axes = positions.shape[-1]
    if isinstance(step, Words):
        return _turns_without_overflow(positions, step, origin)
    if not isinstance(step, Halves):
        total = positions[..., 0, None] * step[0, ...]
        for a in range(1, axes):
            total = total + positions[..., a, None] * step[a, ...]
        return total if origin is None else total + origin
    words = multiply(positions[..., 0, None], step.high[0, ...], step.low[0, ...])
    for a in range(1, axes):
        words = add(words, multiply(positions[..., a, None], step.high[a, ...], step.low[a, ...]))
    return words if origin is None else add(words, origin)


def _turns_without_overflow(positions: Array, step: Words, origin: Any) -> Array:
    """The same phases for compilers in which overflow is undefined: no operation overflows.

    A product of signed 32-bit words is at most 2**62 in size. Of what counts in units of 2**32,
    only the last 32 bits matter.
    """
    high: Any = 0
    low: Any = 0
    for a in range(positions.shape[-1]):
        p = words(positions[..., a, None])
        product = p.low * step.low[a, ...]
        crossed = (p.low * step.high[a, ...] & MASK) + (p.high * step.low[a, ...] & MASK)
        high = high + (product >> 32) + crossed
        low = low + (product & MASK)
    return joined(high, low, origin)


def joined(high: Array, low: Array, origin: Words | None) -> Array:
    """`high * 2**32 + low + origin`, modulo a turn, for sums of a few words or masked words."""
    if origin is not None:
        high = high + origin.high + (origin.low >> 32)
        low = low + (origin.low & MASK)
    high = high + (low >> 32)
    return (((high & MASK) ^ 2**31) - 2**31) * 2**32 + (low & MASK)


def multiply(p: Array, high: Array, low: Array) -> Halves:
    """A signed 32-bit position times a 64-bit step, modulo 2**64; every product wraps in int32.

    `p * unsigned(low) >> 32` is formed from 16-bit pieces whose partial products stay in 32 bits.
    """
    p1, p0, s1, s0 = p >> 16, p & 0xFFFF, (low >> 16) & 0xFFFF, low & 0xFFFF
    first = p1 * s0 + ((p0 * s0 >> 16) & 0xFFFF)
    # p0 * s1 is unsigned and may not fit a signed word, so its halves are added apart.
    cross = p0 * s1
    middle = (first & 0xFFFF) + (cross & 0xFFFF)
    carried = p1 * s1 + (first >> 16) + ((cross >> 16) & 0xFFFF) + (middle >> 16)
    return Halves(p * high + carried, p * low)


def add(a: Halves, b: Halves) -> Halves:
    """The sum modulo 2**64; the carry out of the low word is that of its top bits."""
    low = a.low + b.low
    carry = (((a.low & b.low) | ((a.low | b.low) & ~low)) >> 31) & 1
    return Halves(a.high + b.high + carry, low)


def quadrants(turn: Array | Halves) -> tuple[Array, Array | Halves]:
    """The nearest quadrant (modulo 4) and what is left, at most 1/8 turn in size."""
    if isinstance(turn, Halves):
        # Round by the high word alone, as the low one cannot move it across a boundary.
        quadrant = (turn.high + 2**29) >> 30
        return quadrant & 3, Halves(turn.high - (quadrant << 30), turn.low)
    # Half up, in a form that cannot overflow; what is left are the low 62 bits, signed.
    return ((turn >> 61) + 1) >> 1 & 3, (turn << 2) >> 2


def from_residual(residual: Array | Halves, dtype: Any, xp: Any) -> Array:
    """The residual in eighths of a turn, -1 to 1, rounded to `dtype` once."""
    if isinstance(residual, Halves):
        # A low word with its top bit set is negative as int32; the carry makes the sum right again.
        high = residual.high - (residual.low >> 31)
        return xp.astype(high, dtype) * 2.0**-29 + xp.astype(residual.low, dtype) * 2.0**-61
    return xp.astype(residual, dtype) * 2.0**-61


def cos_sin(
    positions: Array,
    step: Array | Halves | Words,
    origin: Array | Halves | Words | None = None,
    *,
    dtype: Any,
    xp: Any,
) -> tuple[Array, Array]:
    """Cosine and sine of exact phases.

    Parameters
    ----------
    positions : array of integers
        (..., axes), int64 (int32 beside `Halves`).
    step : array of int64, Halves, or Words
        (axes, pairs), turns per position as bit patterns.
    origin : like `step`, optional
        (pairs,), the phase of position 0: a shift of positions that cannot overflow.
    dtype : dtype
        `xp.float32` or `xp.float64`; half precision never holds an angle.
    xp : namespace
        An array-API namespace.

    Returns
    -------
    tuple of arrays
        cos, sin: (..., pairs) in `dtype`.
    """
    return evaluate(turns(positions, step, origin), dtype=dtype, xp=xp)


def evaluate(turn: Array | Halves, *, dtype: Any, xp: Any) -> tuple[Array, Array]:
    """Cosine and sine of phases that `turns` gave, in `dtype`."""
    quadrant, residual = quadrants(turn)
    u = from_residual(residual, dtype, xp)
    cos, sin = (xp.cos(u * EIGHTH), xp.sin(u * EIGHTH)) if dtype == xp.float64 else _polynomials(u)
    quadrant = xp.astype(quadrant, xp.int32)
    swapped = (quadrant & 1) == 1
    cos_sign = xp.astype(1 - ((quadrant + 1) & 2), dtype)
    sin_sign = xp.astype(1 - (quadrant & 2), dtype)
    return xp.where(swapped, sin, cos) * cos_sign, xp.where(swapped, cos, sin) * sin_sign


def _polynomials(u: Array) -> tuple[Array, Array]:
    z = u * u
    sin = u * SIN[0] + u * (SIN[1] + z * (SIN[2] + z * (SIN[3] + z * SIN[4])))
    return 1.0 + z * (COS[0] + z * (COS[1] + z * (COS[2] + z * COS[3]))), sin


def classic(positions: Array, frequencies: Array, *, dtype: Any, xp: Any) -> tuple[Array, Array]:
    """Cosine and sine of `float32(position) * float32(frequency)`, with that product's rounding.

    For people who must continue a checkpoint exactly. The error is about half an ulp of the angle:
    1e-4 at position 2**11, 0.06 at 2**20.
    """
    real = xp.astype(positions, xp.float32)
    angles = real[..., 0, None] * frequencies[0, :]
    for a in range(1, positions.shape[-1]):
        angles = angles + real[..., a, None] * frequencies[a, :]
    return xp.astype(xp.cos(angles), dtype), xp.astype(xp.sin(angles), dtype)
