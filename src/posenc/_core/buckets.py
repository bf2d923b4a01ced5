"""Buckets of distances: exact thresholds in integers, where published code takes float logarithms.

A rule of the form

    bucket(n) = n                                                  n < exact
    bucket(n) = exact + floor(steps * ln(n / exact) / ln(limit / exact))     above

reaches exact + j at the least n with n ** steps >= limit ** j * exact ** (steps - j). That is a
comparison of integers, so its solution is exact in any dtype of the model.
"""

from __future__ import annotations

import numpy as np

__all__ = ["log_thresholds", "padded", "root"]

LARGEST = 2**31 - 1


def root(value: int, degree: int) -> int:
    """The largest integer r with r ** degree <= value."""
    low, high = 0, 1 << (value.bit_length() // degree + 1)
    while high - low > 1:
        middle = (low + high) // 2
        if middle**degree <= value:
            low = middle
        else:
            high = middle
    return low


def log_thresholds(exact: int, limit: int, steps: int, count: int, *, strict: bool) -> list[int]:
    """The least n that pass limit ** j * exact ** (steps - j) for j = 0 to count - 1.

    Parameters
    ----------
    exact, limit : int
        The ends of the logarithmic part.
    steps : int
        Buckets between them.
    count : int
        Number of thresholds.
    strict : bool
        Whether n ** steps must be greater, as for rules that round up, rather than at least equal.

    Returns
    -------
    list of int
        Rising.
    """
    found = []
    for j in range(count):
        # For j > steps that is a fraction: both sides are multiplied by exact ** (j - steps).
        value = limit**j * exact ** max(steps - j, 0)
        divisor = exact ** max(j - steps, 0)
        whole = value // divisor
        n = root(whole, steps)
        reached = n**steps * divisor > value if strict else n**steps * divisor >= value
        found.append(n if reached else n + 1)
    return found


def padded(thresholds: list[int]) -> np.ndarray:
    """Thresholds as int32, filled up to 2**s - 1 with a number that no distance reaches."""
    size = (1 << len(thresholds).bit_length()) - 1
    filled = [min(t, LARGEST) for t in thresholds] + [LARGEST] * (size - len(thresholds))
    return np.array(filled, dtype=np.int32)
