"""Cosines and sines of exact phases by mpmath, as float64 and as the part that float64 leaves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from mpmath import mp, mpf

DIGITS = 70


def cos_sin(
    positions: Sequence[int], base: float, denominator: float, pairs: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """cos and sin of position * base ** (-pair / denominator): (positions, pairs), longdouble."""
    shape = (len(positions), len(pairs))
    cos, sin = np.empty(shape, dtype=np.longdouble), np.empty(shape, dtype=np.longdouble)
    with mp.workdps(DIGITS):
        frequencies = [mpf(base) ** (-mpf(j) / mpf(denominator)) for j in pairs]
        for row, position in enumerate(positions):
            for column, frequency in enumerate(frequencies):
                c, s = mp.cos_sin(position * frequency)
                cos[row, column], sin[row, column] = extended(c), extended(s)
    return cos, sin


def extended(value: mpf) -> np.longdouble:
    """A longdouble: the nearest float64 plus what it leaves."""
    head = float(value)
    return np.longdouble(head) + np.longdouble(float(value - mpf(head)))
