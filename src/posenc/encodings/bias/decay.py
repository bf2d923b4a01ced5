"""Exponential decay of retention, as a bias in log space (Sun et al. 2023)."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, final

import numpy as np

from posenc._core.numeric.buckets import MOST_HEADS
from posenc.encodings.bias.base import (
    Array,
    Axes,
    BiasSpec,
    Constants,
    astype,
    distance,
    lookup,
    marked,
    not_too_many,
)


@final
@dataclass(frozen=True)
class Decay(BiasSpec):
    """The decay mask of retention, in log space (Sun et al. 2023, arXiv:2307.08621).

        exp(bias[h, m, n]) = gamma[h] ** (m - n)      n <= m
                           = 0                        n > m

        gamma[h] = 1 - 2 ** (-5 - h)

    Parameters
    ----------
    heads : int
        Number H of heads of the whole model.
    recipe : {"powers", "even"}
        `powers`: the formula, one more power of two for each head. `even`: the logarithm of
        1 - gamma falls evenly over the heads from ln(1/32) to ln(1/512), however many there are.

    Raises
    ------
    SpecError
        If there are so many heads that the last no longer decays in float64.

    Notes
    -----
    Retention multiplies its scores by this mask and takes no softmax: `exp` of this bias is the
    mask. Added before a softmax the bias is another model, an ALiBi with the slopes -ln gamma.

    Examples
    --------
    >>> import posenc
    >>> posenc.bias(posenc.Decay(heads=1), [2], 4).round(4)
    array([[[-0.0635, -0.0317,  0.    ,    -inf]]], dtype=float32)
    """

    heads: int
    _: KW_ONLY
    recipe: Literal["powers", "even"] = "powers"

    by_head: ClassVar = {"rates": 0}
    paper = "sun2023retentive"

    def check(self) -> None:
        """Raise `SpecError` when a head would not decay."""
        not_too_many("Decay", "heads", self.heads, MOST_HEADS)
        self._require(
            self.recipe != "powers" or self.heads <= 1000, "heads", "at most 1000 powers of two"
        )

    def constants(self) -> dict[str, np.ndarray]:
        """-ln gamma of each head, without cancellation."""
        lost = 2.0 ** (-5 - np.arange(self.heads))
        if self.recipe == "even":
            lost = np.exp(np.linspace(math.log(1 / 32), math.log(1 / 512), self.heads))
        return {"rates": -np.log1p(-lost)}

    def score(
        self, q: Axes, k: Axes, head: Array, constants: Constants, *, dtype: Any, xp: Any
    ) -> Array:
        """A rate times the distance into the past; minus infinity in the future."""
        rate = astype(lookup(constants["rates"], head, xp=xp), dtype, xp)
        rel = distance(q, k)
        return marked(rate * astype(rel, dtype, xp), rel > 0, -math.inf, xp=xp)
