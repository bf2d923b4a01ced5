"""Buckets of distances: exact thresholds in integers, where published code takes float logarithms.

A rule of the form

    bucket(n) = n                                                  n < exact
    bucket(n) = exact + floor(steps * ln(n / exact) / ln(limit / exact))     above

reaches exact + j at the least n with n ** steps >= limit ** j * exact ** (steps - j). That is a
comparison of integers, so its solution is exact in any dtype of the model.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc._core.arrays.lookups import rank
from posenc._core.errors import bad_spec

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
    """The least n that pass limit ** j * exact ** (steps - j) for j = 0 to count - 1."""
    thresholds = []
    for j in range(count):
        # For j > steps that is a fraction: both sides are multiplied by exact ** (j - steps).
        value = limit**j * exact ** max(steps - j, 0)
        divisor = exact ** max(j - steps, 0)
        whole = value // divisor
        n = root(whole, steps)
        reached = n**steps * divisor > value if strict else n**steps * divisor >= value
        thresholds.append(n if reached else n + 1)
    return thresholds


def padded(thresholds: list[int]) -> np.ndarray:
    """Thresholds as int32, filled up to 2**s - 1 with a number that no distance reaches."""
    size = (1 << len(thresholds).bit_length()) - 1
    filled = [min(t, LARGEST) for t in thresholds] + [LARGEST] * (size - len(thresholds))
    return np.array(filled, dtype=np.int32)


def check_buckets(
    caller: str, buckets: int, max_distance: int, *, directions: int, prefix: str = ""
) -> None:
    """Raise `SpecError` unless distances up to a limit fit the buckets of all directions."""
    least = 2 * directions
    if not least <= buckets <= 2048:
        words = "both directions" if directions == 2 else "one direction"
        raise bad_spec(f"{caller}: {prefix}buckets", f"{least} to 2048 for {words}", buckets)
    exact = buckets // directions // 2
    if not exact < max_distance < LARGEST:
        expected = f"more than the {exact} distances that have a bucket each, less than 2**31 - 1"
        raise bad_spec(f"{caller}: max_{prefix}distance", expected, max_distance)


def direction_thresholds(side: int, max_distance: int) -> np.ndarray:
    """The least distance in each bucket of one direction, but the first.

    Parameters
    ----------
    side : int
        Buckets of the direction. Half of them hold a distance each; the others grow geometrically.
    max_distance : int
        Where the last bucket begins to take all.

    Returns
    -------
    numpy.ndarray
        int32, filled up to 2**s - 1 entries with a number that no distance reaches.
    """
    exact = side // 2
    above = log_thresholds(exact, max_distance, side - exact, side - exact, strict=False)
    return padded([*range(1, exact), *above])


def bucket_of(rel: Any, thresholds: Any, size: int, later: int | None, *, xp: Any) -> Any:
    """The bucket of each distance rel = key - query, by the thresholds of one direction.

    Parameters
    ----------
    rel : array of integers
        Distances.
    thresholds : array of int32
        What `direction_thresholds` gives; of `size` entries, which a tracer does not tell.
    size : int
        Number of thresholds.
    later : int or None
        Added to the buckets of keys after the query; None where those share bucket 0.
    xp : namespace
        An array-API namespace.

    Returns
    -------
    array of integers
        Of the shape and dtype of `rel`.
    """
    if later is None:
        return rank(thresholds, -rel, size, xp=xp)
    moved = xp.astype(rel > 0, rel.dtype) * later
    return rank(thresholds, xp.abs(rel), size, xp=xp) + moved
