"""How far an engine may be off that computes angles in float32: the bounds of `docs/golden.md`.

A frequency f = base ** -x that is computed in a dtype with unit roundoff u is off by (3 + |ln f|) u
of itself: its exponent was rounded, which ln f multiplies, and there is a power, a quotient and a
scale. The product with a position is one more rounding, the cosine and its factor are two. An
engine in half precision rounds the result of float32 once more; one that holds the frequency, the
position or the angle in half precision is off by more, and not within these bounds.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

__all__ = ["HALVES", "UNITS", "of_angles", "of_scores", "of_turned"]

UNITS: Mapping[str, float] = {"float64": 2.0**-53, "float32": 2.0**-24}
HALVES: Mapping[str, float] = {"float16": 2.0**-11, "bfloat16": 2.0**-8}


def of_angles(angles: np.ndarray, frequencies: np.ndarray, factor: float) -> dict[str, np.ndarray]:
    """Bounds of cosines and sines, by dtype.

        float32    m u (|p f| (4 + |ln f|) + 2)        halves    that of float32 + m u_half

    Parameters
    ----------
    angles : ndarray
        (..., pairs), position times frequency, before it is reduced to a turn.
    frequencies : ndarray
        (pairs,), radians per position; 0 for pairs that do not turn.
    factor : float
        The factor m on cosines and sines.

    Returns
    -------
    dict of str to ndarray
        (..., pairs) for each dtype.
    """
    turning = np.where(frequencies == 0, 1.0, np.abs(frequencies))
    size = np.abs(angles) * (4 + np.abs(np.log(turning))) + 2
    made = {dtype: factor * unit * size for dtype, unit in UNITS.items()}
    return made | {dtype: made["float32"] + factor * unit for dtype, unit in HALVES.items()}


def of_turned(bounds: Mapping[str, np.ndarray], factor: float) -> dict[str, np.ndarray]:
    """Bounds of what is turned, of entries up to 1 in size: two products and their sum.

    2 (tolerance + 3 m u)
    """
    units = {**UNITS, **HALVES}
    return {dtype: 2 * (bound + 3 * factor * units[dtype]) for dtype, bound in bounds.items()}


def of_scores(
    queries: np.ndarray, keys: np.ndarray, bounds: Mapping[str, np.ndarray], factors: np.ndarray
) -> dict[str, np.ndarray]:
    """Bounds of products of turned queries and keys that are summed in float32 or better.

    Parameters
    ----------
    queries, keys : ndarray
        (positions, width), turned.
    bounds : mapping of str to ndarray
        Of their entries, (positions,) for each dtype.
    factors : ndarray
        (positions, 1), the factors on the scores of each query.

    Returns
    -------
    dict of str to ndarray
        (positions, positions) for each dtype.
    """
    width = queries.shape[-1]
    sizes = np.abs(queries) @ np.abs(keys).T
    q, k = np.abs(queries).sum(-1)[:, None], np.abs(keys).sum(-1)[None, :]
    made = {}
    for dtype, bound in bounds.items():
        summed = width * UNITS.get(dtype, UNITS["float32"])
        unit = UNITS.get(dtype) or HALVES[dtype]
        off = q * bound[None, :] + k * bound[:, None] + width * bound[:, None] * bound[None, :]
        made[dtype] = factors * (off + (summed + unit) * sizes)
    return made
