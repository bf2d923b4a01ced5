"""How far each head looks, learned (Sukhbaatar et al. 2019)."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, final

from posenc.encodings.bias.base import (
    Array,
    Axes,
    BiasSpec,
    Constants,
    Example,
    Init,
    Parameter,
    astype,
    at_least,
    distance,
    lookup,
    marked,
)


@final
@dataclass(frozen=True)
class AdaptiveSpan(BiasSpec):
    """Adaptive attention span, in log space (Sukhbaatar et al. 2019, arXiv:1905.07799).

        exp(bias[h, m, n]) = clip((ramp + z[h] - (m - n)) / ramp, 0, 1)        z = length span[h]

    The weights of a softmax are multiplied by a mask that falls from 1 to 0 over a ramp, and
    divided by their sum: that is a bias of its logarithm. Keys after the query get 0, and are left
    to a mask.

    Parameters
    ----------
    heads : int
        Number of heads of the whole model.
    length : int
        The longest span, which what is learned is a fraction of.
    ramp : int
        Length of the ramp.
    start : float
        First value of the fraction.

    Raises
    ------
    SpecError
        If a length is below 1, or the fraction is not between 0 and 1.

    Notes
    -----
    Published code counts from the key before the query, whose distance is 0 there: shift its keys
    by one. It also adds 1e-8 to the sum of the weights, and keeps the fractions between 0 and 1
    after each step of training.

    Examples
    --------
    >>> import numpy as np, posenc
    >>> spec = posenc.AdaptiveSpan(heads=1, length=8, ramp=2)
    >>> bias = posenc.bias(spec, [4], 5, params={"span": np.array([0.25])})
    >>> np.exp(bias)
    array([[[0. , 0.5, 1. , 1. , 1. ]]], dtype=float32)
    """

    heads: int
    _: KW_ONLY
    length: int
    ramp: int = 32
    start: float = 0.0

    by_head: ClassVar = {"span": 0}
    example = Example({"length": 64, "start": 0.25})
    paper = "sukhbaatar2019adaptive"

    def check(self) -> None:
        """Raise `SpecError` when a number is out of range."""
        at_least("AdaptiveSpan", length=self.length, ramp=self.ramp)
        self._require(0 <= self.start <= 1, "start", "a number from 0 to 1")

    def parameters(self) -> dict[str, Parameter]:
        """The span of each head, as a fraction of the longest."""
        return {"span": Parameter((self.heads,), Init("constant", scale=self.start))}

    def score(
        self, q: Axes, k: Axes, head: Array, constants: Constants, *, dtype: Any, xp: Any
    ) -> Array:
        """The logarithm of the mask; minus infinity beyond the ramp."""
        span = astype(lookup(constants["span"], head, xp=xp), dtype, xp) * self.length
        left = (astype(distance(q, k), dtype, xp) + span + self.ramp) / self.ramp
        on_ramp = (left > 0) & (left < 1)
        # Off the ramp the logarithm sees 1, so that its gradient there is 0 and not infinite.
        kept = xp.where(on_ramp, left, xp.ones_like(left))
        return marked(xp.log(kept), left <= 0, -math.inf, xp=xp)
