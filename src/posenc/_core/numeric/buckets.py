"""What biases are made of: slopes of lines, and buckets of distances by exact thresholds.

A rule of the form

    bucket(n) = n                                                  n < exact
    bucket(n) = exact + floor(steps * ln(n / exact) / ln(limit / exact))     above

reaches exact + j at the least n with n ** steps >= limit ** j * exact ** (steps - j). That is a
comparison of integers, so its solution is exact in any dtype of the model; published code takes
float logarithms.

Piecewise buckets of offsets on an image (Wu et al. 2021) are

    bucket(x) = round(x)                                                            |x| <= alpha
    bucket(x) = sign(x) min(beta, round(alpha + ln(|x| / alpha) / ln(gamma / alpha) (beta - alpha)))

They rise with |x|, so they are the count of the thresholds that |x| has reached. Thresholds are
found once, by bisection in float64; distances never become floats.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from posenc._core.arrays.array import clipped
from posenc._core.arrays.lookups import rank
from posenc._core.errors import bad_spec
from posenc._core.spec.checks import not_too_many

LARGEST = 2**31 - 1
FARTHEST = 2**15 - 1  # offsets beyond it share the last bucket, and their squares fit 32 bits
Method = Literal["euclidean", "quantised", "cross", "product"]


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
        n = root(value // divisor, steps)
        reached = n**steps * divisor > value if strict else n**steps * divisor >= value
        thresholds.append(n if reached else n + 1)
    return thresholds


def padded(thresholds: list[int]) -> np.ndarray:
    """Thresholds as int32, filled up to 2**s - 1 with a number that no distance reaches."""
    size = (1 << len(thresholds).bit_length()) - 1
    return np.array(
        [min(t, LARGEST) for t in thresholds] + [LARGEST] * (size - len(thresholds)), dtype=np.int32
    )


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
        raise bad_spec(
            f"{caller}: max_{prefix}distance",
            f"more than the {exact} distances that have a bucket each, less than 2**31 - 1",
            max_distance,
        )


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
    return padded(
        [
            *range(1, exact),
            *log_thresholds(exact, max_distance, side - exact, side - exact, strict=False),
        ]
    )


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
    return rank(thresholds, xp.abs(rel), size, xp=xp) + (xp.astype(rel > 0, rel.dtype) * later)


# --- piecewise buckets ----------------------------------------------------------------------------


def check_piecewise(caller: str, alpha: float, beta: float, gamma: float) -> None:
    """Raise `SpecError` unless 0 < alpha < beta, alpha < gamma, and the last bucket is near."""
    if not (0 < alpha < beta <= 512 and alpha < gamma and math.isfinite(gamma / alpha)):
        raise bad_spec(
            caller, "0 < alpha < beta <= 512 and alpha < gamma", f"{alpha}, {beta}, {gamma}"
        )
    if _reaching(int(beta), alpha, beta, gamma, euclidean=False) > FARTHEST:
        raise bad_spec(f"{caller}: gamma", f"buckets that end before {FARTHEST:,} cells", gamma)


def bucket_count(method: Method, beta: float) -> int:
    """Number of buckets of a table; those of `cross` are for each of two tables."""
    side = 2 * int(beta) + 1
    return side * side if method == "product" else side


def piecewise_thresholds(method: Method, alpha: float, beta: float, gamma: float) -> np.ndarray:
    """The least value in each bucket but 0: of |x|, or of the squared distance."""
    buckets, euclidean = range(1, int(beta) + 1), method == "euclidean"
    return padded([_reaching(j, alpha, beta, gamma, euclidean) for j in buckets])


def _reaching(bucket: int, alpha: float, beta: float, gamma: float, euclidean: bool) -> int:
    """The least integer whose bucket is at least `bucket`."""

    def reaches(x: int) -> bool:
        # A squared distance s has the rounded root r where s > r^2 - r, as no root is a half.
        r = (math.isqrt(4 * x) + 1) // 2 if euclidean else x
        if r <= alpha:
            return r >= bucket
        y = alpha + math.log(r / alpha) / math.log(gamma / alpha) * (beta - alpha)
        return min(round(y), beta) >= bucket

    return bisect_left(range(FARTHEST**2 + 1), True, key=reaches)


def buckets_2d(
    rows: Any,
    columns: Any,
    method: Method,
    thresholds: Any,
    *,
    size: int,
    last: int,
    xp: Any,
) -> Mapping[str, Any]:
    """The buckets of offsets, query - key along rows and columns, by the table they belong to."""
    rows, columns = (clipped(x, -FARTHEST, FARTHEST, xp=xp) for x in (rows, columns))

    def signed(x: Any) -> Any:
        bucket = rank(thresholds, xp.abs(x), size, xp=xp)
        return xp.where(x < 0, -bucket, bucket) + last

    if method == "cross":
        return {"rows": signed(rows), "columns": signed(columns)}
    return (
        {"weight": signed(rows) * (2 * last + 1) + signed(columns)}
        if method == "product"
        else {"weight": rank(thresholds, rows * rows + columns * columns, size, xp=xp) + last}
    )


# --- slopes ---------------------------------------------------------------------------------------

MOST_HEADS = 2**16
Recipe = Literal["paper", "geometric"]


def slopes_of(heads: int, recipe: str, max_bias: float) -> np.ndarray:
    """Slopes of linear biases, one for each head.

        slope[h] = 2 ** (-max_bias (h + 1) / H)

    Parameters
    ----------
    heads : int
        H.
    recipe : {"paper", "geometric"}
        Whether H that is no power of two takes the slopes of the power below, and then every other
        one of the power above, or has the formula all the same.
    max_bias : float
        8 in the paper.

    Returns
    -------
    numpy.ndarray
        float64, (heads,).
    """
    not_too_many("slopes", "heads", heads, MOST_HEADS)
    whole = heads if recipe == "geometric" else 1 << max(heads.bit_length() - 1, 0)
    power, above = (2.0 ** (-max_bias * np.arange(1, n + 1) / n) for n in (whole, 2 * whole))
    return np.concatenate([power, above[0::2]])[:heads]
