"""Functional interpolation of relative positions (Li et al. 2024)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, final

from posenc._core.arrays.lookups import moveaxis
from posenc.encodings.bias.base import (
    Array,
    Axes,
    BiasSpec,
    Constants,
    Init,
    Parameter,
    astype,
    distance,
    positive,
    product,
)


@final
@dataclass(frozen=True)
class FIRE(BiasSpec):
    """Functional interpolation for relative positions (Li et al. 2024, arXiv:2310.04418).

        logits[h, m, n] += f_h(psi(m - n) / psi(max(L, m)))       psi(x) = ln(|c x| + 1)

    with a learned c, a learned threshold L, and a perceptron f of one hidden layer. The distance is
    measured against the position of the query, so it is no function of m - n alone.

    Parameters
    ----------
    heads : int
        Number of heads of the whole model.
    width : int
        Width of the hidden layer.
    c : float
        First value of c.
    threshold : float
        First value of L; what is learned is a factor on it that begins as 1.
    epsilon : float
        Added to the denominator.
    init : Init
        First values of the perceptron's weights and biases.

    Raises
    ------
    SpecError
        If a number is not positive.

    Examples
    --------
    >>> import posenc
    >>> spec = posenc.FIRE(heads=8)
    >>> posenc.bias(spec, 4, params=posenc.init(spec)).shape
    (8, 4, 4)
    """

    heads: int
    _: KW_ONLY
    width: int = 32
    c: float = 0.1
    threshold: float = 512.0
    epsilon: float = 1e-6
    init: Init = Init("uniform", scale=1.0)

    by_head: ClassVar = {"head_weight": 0, "head_bias": 0}
    paper = "li2024functional"
    pointwise = False  # a perceptron runs for each entry

    def check(self) -> None:
        """Raise `SpecError` when a number is not positive."""
        positive("FIRE", width=self.width, c=self.c, threshold=self.threshold, epsilon=self.epsilon)

    def parameters(self) -> dict[str, Parameter]:
        """The two numbers of the distance and the weights of the perceptron."""
        return {
            "c": Parameter((), Init("constant", scale=self.c)),
            "threshold_factor": Parameter((), Init("constant", scale=1.0)),
            "hidden_weight": Parameter((self.width,), self.init),
            "hidden_bias": Parameter((self.width,), self.init),
            "head_weight": Parameter((self.heads, self.width), self.init),
            "head_bias": Parameter((self.heads,), self.init),
        }

    def score(
        self, q: Axes, k: Axes, head: Array, constants: Constants, *, dtype: Any, xp: Any
    ) -> Array:
        """A perceptron of the normalised distance; `head` counts all heads in order."""
        del head
        p = {name: astype(constants[name], dtype, xp) for name in self.shapes}
        far = astype(distance(q, k), dtype, xp)
        threshold = xp.abs(p["threshold_factor"]) * self.threshold
        m = astype(q[0], dtype, xp)
        reach = xp.where(m > threshold, m, threshold)
        x = xp.log1p(xp.abs(p["c"] * far)) / (xp.log1p(xp.abs(p["c"] * reach)) + self.epsilon)
        hidden = x[..., 0, :, :, None] * p["hidden_weight"] + p["hidden_bias"]
        hidden = xp.where(hidden > 0, hidden, xp.zeros_like(hidden))
        entries = product(hidden, xp.matrix_transpose(p["head_weight"]), xp=xp)
        return moveaxis(entries, -1, -3, xp=xp) + p["head_bias"][:, None, None]
