"""The slopes of linear biases, for any number of heads."""

from __future__ import annotations

from typing import Literal

import numpy as np

from posenc._core.spec.checks import not_too_many

MOST_HEADS = 2**16

Recipe = Literal["paper", "geometric"]


def slopes_of(heads: int, recipe: Recipe, max_bias: float) -> np.ndarray:
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
