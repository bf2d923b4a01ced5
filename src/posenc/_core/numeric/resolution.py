"""Where the rows of a table stop being distinct."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from posenc._core.errors import bad_dtype

# Stored bits of the significand, smallest step near zero, largest number.
DTYPES = {
    "float64": (52, 2.0**-1074, 2.0**1023),
    "float32": (23, 2.0**-149, 2.0**127),
    "float16": (10, 2.0**-24, 2.0**15),
    "bfloat16": (7, 2.0**-133, 2.0**127),
}
DISTANCES = 1 << 18  # at a time: bounds memory


def rounded(values: np.ndarray, dtype: str) -> np.ndarray:
    """float64 values rounded to a dtype, as integers that are equal when the results are."""
    if dtype != "bfloat16":
        return values.astype(dtype).view(f"u{np.dtype(dtype).itemsize}")
    single = values.astype(np.float32)
    bits = single.view(np.uint32).astype(np.int64)
    # Rounding twice may differ from once by an ulp; where float32 landed on a tie, undo it.
    tie = (bits & 0xFFFF) == 0x8000
    bits += np.where(tie, np.sign(np.abs(values) - np.abs(single)).astype(np.int64), 0)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def first_collision(
    rows: Callable[[np.ndarray], np.ndarray],
    step: np.ndarray,
    dtype: str,
    limit: int,
    scale: float = 1.0,
) -> tuple[int, int] | None:
    """The pair p < q < limit of smallest q whose rows round alike, or None."""
    if dtype not in DTYPES:
        raise bad_dtype("resolution: dtype", " or ".join(DTYPES), repr(dtype))
    if len(step) == 0:
        return _by_sorting(rows, dtype, limit)
    reach = _reach(dtype, abs(scale))
    best: tuple[int, int] | None = None
    for begin in range(1, limit, DISTANCES):
        distances = np.arange(begin, min(begin + DISTANCES, limit), dtype=np.int64)
        for turn in step:
            distances = distances[np.abs(distances * turn) <= reach]
        for distance in distances.tolist():
            end = limit if best is None else best[1]
            if distance >= end:
                return best
            best = _at_distance(rows, distance, dtype, end) or best
    return best


def _reach(dtype: str, scale: float) -> int:
    """How far two phases may differ when both their functions round alike, in 2**-64 turn.

    Two numbers v and w that round alike differ by at most one step, |v| 2**-bits; so the chord
    between the two points of the circle is at most 2**-bits, and the arc is hardly longer.
    """
    bits, tiny, huge = DTYPES[dtype]
    if scale >= huge or scale * 2.0**-bits <= tiny:
        return 2**63 - 1  # overflow or underflow: the sieve can exclude nothing
    return int(2.0 ** (64 - bits) / (2 * np.pi) * 1.05 + 2.0**62 * tiny / scale) + (1 << 12)


def _by_sorting(
    rows: Callable[[np.ndarray], np.ndarray], dtype: str, limit: int
) -> tuple[int, int] | None:
    """The same without a pair to sieve by: rows of one or two numbers, all of them compared."""
    keys = rounded(rows(np.arange(limit, dtype=np.int64)), dtype)
    order = np.lexsort(keys.T[::-1])
    alike = (keys[order[1:]] == keys[order[:-1]]).all(axis=1)
    if not alike.any():
        return None
    # The sort is stable, so neighbours that are alike stand in order of position.
    later = order[1:][alike]
    best = int(np.argmin(later))
    return int(order[:-1][alike][best]), int(later[best])


def _at_distance(
    rows: Callable[[np.ndarray], np.ndarray], distance: int, dtype: str, end: int
) -> tuple[int, int] | None:
    """The first p with rows p and p + distance alike, p + distance < end."""
    block = 1 << 12
    for begin in range(0, end - distance, block):
        p = np.arange(begin, min(begin + block, end - distance), dtype=np.int64)
        alike = (rounded(rows(p), dtype) == rounded(rows(p + distance), dtype)).all(axis=1)
        if alike.any():
            first = int(p[np.argmax(alike)])
            return first, first + distance
    return None
