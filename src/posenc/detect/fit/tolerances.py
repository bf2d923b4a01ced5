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

ROUNDING: Mapping[str, float] = {
    "float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8,
}  # fmt: skip
# What angles are computed in, by the dtype of an engine.
ANGLES: Mapping[str, float] = {dtype: min(unit, 2.0**-24) for dtype, unit in ROUNDING.items()}
Bounds = dict[str, np.ndarray]


def of_angles(angles: np.ndarray, frequencies: np.ndarray, factor: float) -> Bounds:
    """Bounds of cosines and sines, (..., pairs) for each dtype, their factor m included.

        m u (|p f| (4 + |ln f|) + 2), and in half precision that of float32 + m u_half

    `angles` are p f, (..., pairs), before they are reduced to a turn; pairs whose frequency is 0 do
    not turn.
    """
    turning = np.where(frequencies == 0, 1.0, np.abs(frequencies))
    size = np.abs(angles) * (4 + np.abs(np.log(turning))) + 2
    result = {dtype: factor * unit * size for dtype, unit in ANGLES.items()}
    halves = ((dtype, unit) for dtype, unit in ROUNDING.items() if unit > ANGLES[dtype])
    return result | {dtype: result[dtype] + factor * unit for dtype, unit in halves}


def of_turned(bounds: Mapping[str, np.ndarray], factor: float) -> Bounds:
    """Bounds of what is turned, entries up to 1: two products and their sum, 2 (b + 3 m u)."""
    return {dtype: 2 * (bound + 3 * factor * ROUNDING[dtype]) for dtype, bound in bounds.items()}


def of_scores(
    queries: np.ndarray, keys: np.ndarray, bounds: Mapping[str, np.ndarray], factors: np.ndarray
) -> Bounds:
    """Bounds of products of turned queries and keys, (positions, width), summed in float32.

    `bounds` are those of their entries, (positions,) for each dtype, and `factors`, (positions, 1),
    those on the scores of each query.
    """
    width, sizes = queries.shape[-1], np.abs(queries) @ np.abs(keys).T
    q, k = np.abs(queries).sum(-1)[:, None], np.abs(keys).sum(-1)[None, :]
    result = {}
    for dtype, bound in bounds.items():
        off = q * bound[None, :] + k * bound[:, None] + width * bound[:, None] * bound[None, :]
        result[dtype] = factors * (off + (width * ANGLES[dtype] + ROUNDING[dtype]) * sizes)
    return result
