"""Phases of real positions, in the same integers as those of whole ones.

A real position is a whole number and a fraction, x = n + r with |r| <= 1/2. The whole part turns by
`n * step` as ever. The fraction is a fixed-point number, `r = high * 2**-32 + low * 2**-63`, and a
frequency is whole turns and a step, `frequency / 2 pi = whole + step * 2**-64`, so that

    r * frequency / 2 pi * 2**64  =  high * whole * 2**32  +  high * step * 2**-32
                                   + low * whole * 2       +  low * step * 2**-63

is a sum of integer products that wrap around at a turn. No angle is ever a float, and a frequency
of thousands of turns per position costs nothing. With the frequency f in radians per position,

    float32   |error| <= 1.5e-7             + 2e-19 |x| + 6e-20 |f|
    float64   |error| <= 4e-16 + 2e-18      + 2e-19 |x| + 6e-20 |f|

for the position *as it was given*: a float32 position is itself known to 6e-8 |x| only.

Integer arithmetic has no derivative. `differentiable` gives the results one that is right to all
orders and leaves their bits alone.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from posenc._core.arrays.array import device_of, has_int64, is_jax, is_torch, limits, marked
from posenc._core.arrays.words import MASK, Halves, Words, words as split
from posenc._core.numeric.phase import Array, add, evaluate, joined, multiply, whole_turns


def constants(frequencies: np.ndarray) -> dict[str, np.ndarray]:
    """What `cos_sin` needs besides the steps, from `Decimal` frequencies of shape (axes, pairs)."""
    whole = np.array([whole_turns(row) for row in frequencies])
    constants = {"slope": frequencies.astype(np.float64).astype(np.float32)}
    return {**constants, "whole": whole} if whole.any() else constants


def cos_sin(
    positions: Array,
    step: Array | Halves | Words,
    whole: Array | Halves | Words | None,
    slope: Array,
    origin: Array | Halves | Words | None = None,
    *,
    dtype: Any,
    xp: Any,
) -> tuple[Array, Array]:
    """Cosine and sine of the phases of real positions."""
    within = xp.abs(positions) < float(limits(xp)[1] + 1)

    def exact(x: Array) -> tuple[Array, Array]:
        cos, sin = evaluate(
            turns(xp.where(within, x, xp.zeros_like(x)), step, whole, origin, xp=xp),
            dtype=dtype,
            xp=xp,
        )
        wrong = _wrong(within, dtype, xp)
        return cos + wrong, sin + wrong

    return differentiable(exact, positions, slope, dtype=dtype, xp=xp)


def _wrong(within: Array, dtype: Any, xp: Any) -> Array:
    """NaN for a row with a coordinate that no integer can hold, else 0: (..., 1)."""
    zero = xp.zeros(within.shape[:-1], dtype=dtype, device=device_of(within))
    return marked(zero, ~xp.all(within, axis=-1), math.nan, xp=xp)[..., None]


def turns(
    positions: Array,
    step: Array | Halves | Words,
    whole: Array | Halves | Words | None,
    origin: Any = None,
    *,
    xp: Any,
) -> Array | Halves:
    """The phases of real positions, summed over axes, modulo one turn: (..., pairs)."""
    total = _of_axis(positions[..., 0, None], _row(step, 0), _row(whole, 0), xp)
    for a in range(1, positions.shape[-1]):
        total = _sum(total, _of_axis(positions[..., a, None], _row(step, a), _row(whole, a), xp))
    if isinstance(total, Words):
        return joined(total.high, total.low, origin)
    return total if origin is None else _sum(total, origin)


def _sum(a: Any, b: Any) -> Any:
    if isinstance(a, Words):
        return Words(a.high + b.high, a.low + b.low)
    return add(a, b) if isinstance(a, Halves) else a + b


def _row(words: Any, a: int) -> Any:
    if isinstance(words, (Halves, Words)):
        return type(words)(words.high[a, ...], words.low[a, ...])
    return None if words is None else words[a, ...]


def _of_axis(x: Array, step: Any, whole: Any, xp: Any) -> Any:
    n, high, low = _fixed_point(x, xp)
    if isinstance(step, Halves):
        return _of_halves(n, high, low, step, whole)
    if isinstance(step, Words):
        return _without_overflow(n, high, low, step, whole)
    upper, lower = step >> 32, step & MASK
    turn = n * step + high * upper + (high * lower >> 32) + (low * upper >> 31)
    return turn if whole is None else turn + high * whole * 2**32 + low * whole * 2


def _fixed_point(x: Array, xp: Any) -> tuple[Array, Array, Array]:
    """The whole number n and the words of the fraction: x = n + high / 2**32 + low / 2**63."""
    integer = xp.int64 if has_int64(xp) else xp.int32
    nearest = xp.round(x)
    fraction = x - nearest
    # Rounding half to even leaves +1/2, whose high word would not fit 32 bits; -1/2 does.
    up = xp.astype(fraction >= 0.5, x.dtype)
    nearest, fraction = nearest + up, fraction - up
    scaled = fraction * 2.0**32
    high = xp.round(scaled)
    return (
        xp.astype(nearest, integer),
        xp.astype(high, integer),
        xp.astype(xp.round((scaled - high) * 2.0**31), integer),
    )


def _without_overflow(n: Array, high: Array, low: Array, step: Words, whole: Words | None) -> Words:
    """The same sum where overflow is undefined, in two parts that `joined` puts together.

    Every factor is a signed 32-bit word, so that no product exceeds 2**62 in size. `high` can be
    2**31 for a float64 just below 1/2, which changes nothing.
    """
    p = split(n)
    product = p.low * step.low
    upper = (product >> 32) + (p.low * step.high & MASK) + (p.high * step.low & MASK)
    lower = product & MASK
    fraction = high * step.high + (high * step.low >> 32) + (low * step.high >> 31)
    upper, lower = upper + (fraction >> 32), lower + (fraction & MASK)
    if whole is None:
        return Words(upper, lower)
    rest = low * whole.low * 2
    upper = upper + (high * whole.low & MASK) + (low * whole.high * 2 & MASK)
    return Words(upper + (rest >> 32), lower + (rest & MASK))


def _of_halves(n: Array, high: Array, low: Array, step: Halves, whole: Halves | None) -> Halves:
    """The same sum from 32-bit words, every product as in `phase.multiply`."""
    turn = multiply(n, step.high, step.low)
    turn = add(turn, _signed_product(high, step.high))
    turn = add(turn, _extended(multiply(high, step.low * 0, step.low).high))
    turn = add(turn, _extended(_doubled(_signed_product(low, step.high)).high))
    if whole is None:
        return turn
    turn = add(turn, Halves(high * whole.low, high * 0))
    return add(turn, _doubled(multiply(low, whole.high, whole.low)))


def _signed_product(p: Array, q: Array) -> Halves:
    """All 64 bits of the product of two signed words."""
    return multiply(p, q >> 31, q)


def _extended(word: Array) -> Halves:
    """A signed word as a 64-bit integer."""
    return Halves(word >> 31, word)


def _doubled(words: Halves) -> Halves:
    return add(words, words)


# --- derivatives ----------------------------------------------------------------------------------


def differentiable(
    exact: Callable[[Array], tuple[Array, Array]], x: Array, slope: Array, *, dtype: Any, xp: Any
) -> tuple[Array, Array]:
    """`exact(x)`, cosines and sines of `x @ slope`, with their derivatives where one is asked for.

    The values are the exact ones, bit for bit. Each derivative multiplies by `slope` in float.
    """
    if is_jax(x):
        return _jax(exact, x, slope, dtype)
    cos, sin = exact(x)
    if not (is_torch(x) and _torch_needs(x)):
        return cos, sin
    # cos(a + d) and sin(a + d) with d = 0, whose derivative is that of the angle.
    angle = _angle(xp.astype(x, dtype), slope, dtype, xp)
    d = angle - angle.detach()
    cos, sin = cos.detach(), sin.detach()
    return cos * xp.cos(d) - sin * xp.sin(d), sin * xp.cos(d) + cos * xp.sin(d)


def _angle(x: Array, slope: Array, dtype: Any, xp: Any) -> Array:
    slope = xp.astype(slope, dtype)
    total = x[..., 0, None] * slope[0, ...]
    for a in range(1, x.shape[-1]):
        total = total + x[..., a, None] * slope[a, ...]
    return total


def _torch_needs(x: Any) -> bool:
    """Whether a derivative of a tensor may be asked for: backward, forward, or by a transform."""
    torch = sys.modules["torch"]
    # Inside a level of forward differentiation any tensor may carry a derivative, and what a
    # transform has wrapped cannot be asked.
    forward = torch.autograd.forward_ad._current_level >= 0
    if x.requires_grad or forward or torch.compiler.is_compiling():
        return bool(x.requires_grad or forward)
    return bool(torch._C._functorch.is_functorch_wrapped_tensor(x))


def _jax(
    exact: Callable[[Array], tuple[Array, Array]], x: Array, slope: Array, dtype: Any
) -> tuple[Array, Array]:
    jax = sys.modules["jax"]

    @jax.custom_jvp  # type: ignore[untyped-decorator]
    def function(x: Array) -> tuple[Array, Array]:
        return exact(x)

    @function.defjvp  # type: ignore[untyped-decorator]
    def rule(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Any, Any]:
        cos, sin = function(*primals)
        turned = _angle(tangents[0].astype(dtype), slope, dtype, jax.numpy)
        return (cos, sin), (-sin * turned, cos * turned)

    return function(x)
