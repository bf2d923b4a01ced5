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

from posenc._core.io.files import rounded

ROUNDING: Mapping[str, float] = {
    "float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8,
}  # fmt: skip
# What angles are computed in, by the dtype of an engine.
ANGLES: Mapping[str, float] = {dtype: min(unit, 2.0**-24) for dtype, unit in ROUNDING.items()}
Bounds = dict[str, np.ndarray]
HALVES = ("bfloat16", "float16")
GLANCE = 1024  # numbers that nearly always tell
TOLD = 20.0  # bits by which measured numbers must tell a dtype from chance


def of_angles(angles: np.ndarray, frequencies: np.ndarray, factor: float) -> Bounds:
    """Bounds of cosines and sines, (..., pairs) for each dtype, their factor m included.

        m u (|p f| (4 + |ln f|) + 2), and in half precision that of float32 + m u_half

    `angles` are p f, (..., pairs), before they are reduced to a turn; pairs whose frequency is 0 do
    not turn.
    """
    size = (
        np.abs(angles) * (4 + np.abs(np.log(np.where(frequencies == 0, 1.0, np.abs(frequencies)))))
        + 2
    )
    result = {dtype: factor * unit * size for dtype, unit in ANGLES.items()}
    return result | {
        dtype: result[dtype] + factor * unit
        for dtype, unit in ROUNDING.items()
        if unit > ANGLES[dtype]
    }


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
    width, sizes = queries.shape[-1], np.abs(queries[:, None] * keys).sum(-1)
    q, k = np.abs(queries).sum(-1)[:, None], np.abs(keys).sum(-1)[None, :]
    return {
        dtype: factors
        * (
            q * bound[None, :]
            + k * bound[:, None]
            + width * bound[:, None] * bound[None, :]
            + (width * ANGLES[dtype] + ROUNDING[dtype]) * sizes
        )
        for dtype, bound in bounds.items()
    }


# --- the precision of numbers, seen in their digits -----------------------------------------------


def seen(values: np.ndarray, doubt: float | np.ndarray = 0.0) -> str:
    """The coarsest dtype that has some numbers, each up to a relative doubt if measured."""
    flat = np.ravel([values.real, values.imag] if values.dtype.kind == "c" else values)
    doubts = np.broadcast_to(doubt, flat.shape)
    telling = ~np.isin(np.abs(flat), (0.0, 1.0))  # these are numbers of every dtype
    for dtype in (*HALVES, "float32"):
        bits = -np.log2(np.clip(doubts[telling] / ROUNDING[dtype], 1e-300, 1)).sum()
        if bits >= TOLD and all(_has(dtype, flat[:n], doubts[:n]) for n in (GLANCE, None)):
            return dtype
    return "float64"


def _has(dtype: str, values: np.ndarray, doubt: np.ndarray) -> bool:
    """Whether a dtype has the numbers."""
    near = rounded(values, dtype)
    with np.errstate(invalid="ignore"):  # infinity is a number of every dtype
        return bool(((near == values) | (np.abs(near - values) <= doubt * np.abs(values))).all())


def dtype_of(values: np.ndarray, stored: str) -> str:
    """The dtype that numbers had before they were stored: they may have been widened."""
    if stored not in ROUNDING:
        return "float32"
    return stored if stored in HALVES or not values.size else seen(values)
