"""The precision of numbers, seen in their digits."""

from __future__ import annotations

import numpy as np

from posenc._core.io.files import rounded
from posenc.detect.fit.tolerances import ROUNDING

HALVES = ("bfloat16", "float16")
GLANCE = 1024  # numbers that nearly always tell
TOLD = 20.0  # bits by which measured numbers must tell a dtype from chance


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
