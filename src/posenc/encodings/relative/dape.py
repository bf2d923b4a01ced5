"""Data-adaptive positions (Zheng et al. 2024)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, final

import numpy as np

from posenc._core.numeric.buckets import Recipe, slopes_of
from posenc.encodings.relative.base import (
    Array,
    Constants,
    Example,
    Init,
    Parameter,
    Places,
    RelativeSpec,
    astype,
    at_least,
    bad_argument,
    moveaxis,
    positive,
    product,
)

SLOPE = 0.01  # of the rectifier, for negative numbers


@final
@dataclass(frozen=True)
class DAPE(RelativeSpec):
    """Data-adaptive positional encoding over ALiBi (Zheng et al. 2024, arXiv:2405.14722).

        scores[m, n] = x + b + W_2 g(W_1 (x, b) + c_1) + c_2

        x[h] = q[h, m] . k[h, n] / sqrt(d)        b[h] = -slope[h] max(m - n, 0)

    where x and b hold a number for each head, and g is a leaky rectifier: the bias of a pair is
    corrected by what all heads think of it.

    Parameters
    ----------
    dim : int
        Width d of a head.
    count : int
        Number of heads. All must be there: the perceptron mixes them.
    width : int
        Width of the hidden layer.
    recipe : {"paper", "geometric"}
        Slopes for head counts that are no power of two, as for `ALiBi`.
    max_bias : float
        The exponent of the last slope.
    init : Init
        First values of the weights.

    Raises
    ------
    SpecError
        If a number is not positive.

    Notes
    -----
    The paper puts other biases in the place of b as well: KERPLE and FIRE.

    Examples
    --------
    >>> import posenc
    >>> {name: a.shape for name, a in posenc.init(posenc.DAPE(64, count=8)).items()}
    {'hidden_weight': (32, 16), 'hidden_bias': (32,), 'head_weight': (8, 32), 'head_bias': (8,)}
    """

    dim: int
    _: KW_ONLY
    count: int
    width: int = 32
    recipe: Recipe = "paper"
    max_bias: float = 8.0
    init: Init = Init(scale=0.02)

    example = Example({"count": 1, "init": Init(scale=1.0)})
    paper = "zheng2024dape"
    place = "after"

    def check(self) -> None:
        """Raise `SpecError` when a number is not positive."""
        at_least("DAPE", dim=self.dim, count=self.count, width=self.width)
        positive("DAPE", max_bias=self.max_bias)

    def constants(self) -> dict[str, np.ndarray]:
        """The slope of each head."""
        return {"slopes": slopes_of(self.count, self.recipe, self.max_bias)}

    def parameters(self) -> dict[str, Parameter]:
        """The two layers of the perceptron."""
        zeros = Init("constant", scale=0.0)
        return {
            "hidden_weight": Parameter((self.width, 2 * self.count), self.init),
            "hidden_bias": Parameter((self.width,), zeros),
            "head_weight": Parameter((self.count, self.width), self.init),
            "head_bias": Parameter((self.count,), zeros),
        }

    def score(
        self, q: Array, k: Array, at: Places, constants: Constants, *, dtype: Any, xp: Any
    ) -> Array:
        """The bias and its correction."""
        if q.shape[-3] != self.count:
            raise bad_argument(
                "relative(DAPE): q",
                f"all {self.count} heads, as the perceptron mixes them",
                f"{q.shape[-3]} heads",
            )
        w = {name: astype(constants[name], dtype, xp) for name in self.shapes}
        x = product(q, xp.matrix_transpose(k), xp=xp) * self.scale
        rel = astype(at.rel, dtype, xp)
        slopes = astype(constants["slopes"], dtype, xp)[:, None, None]
        bias = slopes * xp.where(rel < 0, rel, xp.zeros_like(rel)) + xp.zeros_like(x)
        both = moveaxis(xp.concat([x, bias], axis=-3), -3, -1, xp=xp)
        hidden = product(both, xp.matrix_transpose(w["hidden_weight"]), xp=xp) + w["hidden_bias"]
        hidden = xp.where(hidden > 0, hidden, SLOPE * hidden)
        out = product(hidden, xp.matrix_transpose(w["head_weight"]), xp=xp) + w["head_bias"]
        return bias + moveaxis(out, -1, -3, xp=xp)
