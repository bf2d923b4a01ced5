"""Piecewise buckets of offsets on an image (Wu et al. 2021), in integers.

    bucket(x) = round(x)                                                            |x| <= alpha
    bucket(x) = sign(x) min(beta, round(alpha + ln(|x| / alpha) / ln(gamma / alpha) (beta - alpha)))

It rises with |x|, so it is the count of the thresholds that |x| has reached. Thresholds are found
once, by bisection in float64; distances never become floats.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from posenc._core.arrays.lookups import rank
from posenc._core.errors import bad_spec
from posenc._core.numeric.buckets import padded

Method = Literal["euclidean", "quantised", "cross", "product"]
FARTHEST = 2**15 - 1  # offsets beyond it share the last bucket, and their squares fit 32 bits


def check_piecewise(caller: str, alpha: float, beta: float, gamma: float) -> None:
    """Raise `SpecError` unless 0 < alpha < beta, alpha < gamma, and the last bucket is near."""
    if not (0 < alpha < beta <= 512 and alpha < gamma and math.isfinite(gamma / alpha)):
        raise bad_spec(
            caller, "0 < alpha < beta <= 512 and alpha < gamma", f"{alpha}, {beta}, {gamma}"
        )
    if _reaching(int(beta), alpha, beta, gamma, euclidean=False) > FARTHEST:
        raise bad_spec(f"{caller}: gamma", f"buckets that end before {FARTHEST} cells", gamma)


def bucket_count(method: Method, beta: float) -> int:
    """Number of buckets of a table; those of `cross` are for each of two tables."""
    side = 2 * int(beta) + 1
    return side * side if method == "product" else side


def piecewise_thresholds(method: Method, alpha: float, beta: float, gamma: float) -> np.ndarray:
    """The least value in each bucket but 0: of |x|, or of the squared distance."""
    euclidean = method == "euclidean"
    last = int(beta)
    return padded([_reaching(j, alpha, beta, gamma, euclidean) for j in range(1, last + 1)])


def _reaching(bucket: int, alpha: float, beta: float, gamma: float, euclidean: bool) -> int:
    """The least integer whose bucket is at least `bucket`."""

    def reaches(x: int) -> bool:
        # A squared distance s has the rounded root r where s > r^2 - r, as no root is a half.
        r = (math.isqrt(4 * x) + 1) // 2 if euclidean else x
        if r <= alpha:
            return r >= bucket
        y = alpha + math.log(r / alpha) / math.log(gamma / alpha) * (beta - alpha)
        return min(round(y), beta) >= bucket

    low, high = 0, 1
    while not reaches(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return high


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
    rows, columns = (_within(x, xp) for x in (rows, columns))

    def signed(x: Any) -> Any:
        bucket = rank(thresholds, xp.abs(x), size, xp=xp)
        return xp.where(x < 0, -bucket, bucket) + last

    if method == "cross":
        return {"rows": signed(rows), "columns": signed(columns)}
    if method == "product":
        return {"weight": signed(rows) * (2 * last + 1) + signed(columns)}
    square = rows * rows + columns * columns
    return {"weight": rank(thresholds, square, size, xp=xp) + last}


def _within(x: Any, xp: Any) -> Any:
    x = xp.where(x > FARTHEST, xp.full_like(x, FARTHEST), x)
    return xp.where(x < -FARTHEST, xp.full_like(x, -FARTHEST), x)
