"""Linear biases by distance on a grid (Fuller, Millard and Green 2023)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, final

import numpy as np

from posenc._core.numeric.buckets import Recipe, slopes_of
from posenc.encodings.bias.base import (
    Array,
    Axes,
    BiasSpec,
    Constants,
    Example,
    astype,
    lookup,
    positive,
)


@final
@dataclass(frozen=True)
class ALiBi2D(BiasSpec):
    """Linear biases by Euclidean distance (Fuller, Millard and Green 2023, arXiv:2311.00566).

        logits[h, m, n] += -slope[h] sqrt((m_r - n_r)^2 + (m_c - n_c)^2)

    with the slopes of `ALiBi`. Symmetric, and defined on a grid of any size.

    Parameters
    ----------
    heads : int
        Number H of heads of the whole model.
    recipe : {"paper", "geometric"}
        Slopes where H is no power of two, as for `ALiBi`.
    max_bias : float
        The exponent of the last slope.
    extra : {"none", "class_token"}
        Whether a position whose first coordinate is negative is a token outside the grid, which
        gets and gives no bias.

    Raises
    ------
    SpecError
        If a number is not positive.

    Examples
    --------
    >>> import posenc
    >>> posenc.bias(posenc.ALiBi2D(heads=1, max_bias=1), [[0, 0]], [[0, 0], [3, 4]])
    array([[[-0. , -2.5]]], dtype=float32)
    """

    heads: int
    _: KW_ONLY
    recipe: Recipe = "paper"
    max_bias: float = 8.0
    extra: Literal["none", "class_token"] = "none"

    by_head: ClassVar = {"slopes": 0}
    example = Example(unsuited="Its positions are cells of a grid.")
    paper = "fuller2023croma"
    axes = ("row", "column")

    def check(self) -> None:
        """Raise `SpecError` when a number is out of range."""
        positive("ALiBi2D", max_bias=self.max_bias)

    def constants(self) -> dict[str, np.ndarray]:
        """The slope of each head."""
        return {"slopes": slopes_of(self.heads, self.recipe, self.max_bias)}

    def score(
        self, q: Axes, k: Axes, head: Array, constants: Constants, *, dtype: Any, xp: Any
    ) -> Array:
        """A slope times a distance; no bias where a class token takes part."""
        rows, columns = (astype(n - m, dtype, xp) for m, n in zip(q, k, strict=True))
        far = xp.sqrt(rows * rows + columns * columns)
        entries = -astype(lookup(constants["slopes"], head, xp=xp), dtype, xp) * far
        if self.extra == "none":
            return entries
        return xp.where((q[0] < 0) | (k[0] < 0), xp.zeros_like(entries), entries)
