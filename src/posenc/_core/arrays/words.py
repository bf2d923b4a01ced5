"""64-bit integers in words of 32 bits, where products of 64 bits would overflow or are absent."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

MASK = 0xFFFFFFFF
Array = Any  # an array of NumPy, torch, JAX or another library of the array API standard


class Halves(NamedTuple):
    """64-bit integers as two arrays of signed 32-bit ones: `high * 2**32 + unsigned(low)`."""

    high: Array
    low: Array


class Words(NamedTuple):
    """64-bit integers as two signed 32-bit words in arrays of int64: `high * 2**32 + low`."""

    high: Array
    low: Array


def halves(step: np.ndarray) -> Halves:
    """Split int64 steps into int32 words, the low one to be read as unsigned."""
    return Halves((step >> 32).astype(np.int32), step.astype(np.int32))


def words(x: Array) -> Words:
    """Split int64 integers; nothing overflows on the way."""
    return Words((x >> 32) + ((x >> 31) & 1), ((x & MASK) ^ 2**31) - 2**31)
