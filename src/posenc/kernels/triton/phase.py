"""Exact phases in Triton: the integers and polynomial of `_core.numeric.phase`, for one token each.

Products and shifts of int64 wrap on every GPU as they do in NumPy, so the quadrant and the residual
are the same integers, and the float32 arithmetic after them is in the same order.
"""

from __future__ import annotations

import triton
import triton.language as tl

from posenc._core.numeric.phase import COS, SIN

# Triton takes no other globals than these, and no tuples.
S0, S1, S2, S3, S4 = (tl.constexpr(value) for value in SIN)
C0, C1, C2, C3 = (tl.constexpr(value) for value in COS)
UNIT = tl.constexpr(2.0**-61)  # of a residual, in eighths of a turn


@triton.jit
def turns(
    positions,
    axis_stride,
    steps,
    origins,
    lane,
    mask,
    count,
    AXES: tl.constexpr,
    ORIGIN: tl.constexpr,
):
    """The phases of one token, 2**64 to the turn; `positions` points at its first coordinate."""
    phase = tl.zeros(lane.shape, dtype=tl.int64)
    for axis in tl.static_range(AXES):
        position = tl.load(positions + axis * axis_stride).to(tl.int64)
        phase += position * tl.load(steps + axis * count + lane, mask=mask, other=0)
    if ORIGIN:
        phase += tl.load(origins + lane, mask=mask, other=0)
    return phase


@triton.jit
def position_in_sequence(token, ends, sequences):
    """The distance of a token from the last of the ascending `ends` that it has reached."""
    low = token * 0
    high = low + sequences
    # Halvings of the range that holds the number of ends reached; the first end is 0.
    while low + 1 < high:
        middle = (low + high) // 2
        reached = tl.load(ends + middle).to(tl.int64) <= token
        low = tl.where(reached, middle, low)
        high = tl.where(reached, high, middle)
    return token - tl.load(ends + low).to(tl.int64)


@triton.jit
def quadrant_and_residual(phase):
    """The nearest quadrant (modulo 4) and what is left, at most 1/8 turn in size."""
    return (((phase >> 61) + 1) >> 1) & 3, (phase << 2) >> 2


@triton.jit
def cos_sin(phase):
    """Cosine and sine of phases in float32."""
    quadrant, residual = quadrant_and_residual(phase)
    u = residual.to(tl.float32) * UNIT
    z = u * u
    sin = u * S0 + u * (S1 + z * (S2 + z * (S3 + z * S4)))
    cos = 1.0 + z * (C0 + z * (C1 + z * (C2 + z * C3)))
    quadrant = quadrant.to(tl.int32)
    swapped = (quadrant & 1) == 1
    cos_sign = (1 - ((quadrant + 1) & 2)).to(tl.float32)
    sin_sign = (1 - (quadrant & 2)).to(tl.float32)
    return tl.where(swapped, sin, cos) * cos_sign, tl.where(swapped, cos, sin) * sin_sign
