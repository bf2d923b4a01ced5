"""Attention with linear biases (Press, Smith and Lewis 2022)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, final

import numpy as np

from posenc._core.errors import refuse_data
from posenc._core.numeric.buckets import Recipe, slopes_of
from posenc.encodings.bias.base import (
    Array,
    Axes,
    BiasSpec,
    Constants,
    Init,
    Parameter,
    astype,
    distance,
    lookup,
    positive,
)


@final
@dataclass(frozen=True)
class ALiBi(BiasSpec):
    """Attention with linear biases (Press, Smith and Lewis 2022, arXiv:2108.12409).

        logits[h, m, n] += slope[h] * -|n - m|        slope[h] = 2 ** (-max_bias (h + 1) / H)

    Parameters
    ----------
    heads : int
        Number H of heads of the whole model.
    recipe : {"paper", "geometric", "learned"} or tuple of float
        Where H is no power of two, `paper` follows the authors' code: the slopes for the power of
        two below H, then every other slope for the power above; `geometric` keeps the formula.
        `learned`: their logarithms are a parameter, `log_slopes`, which begins with the paper's.
        Or the slopes themselves, one of at least 0 for each head.
    form : {"symmetric", "causal", "key_only"}
        `symmetric`: -|n - m|. `causal`: the same in the past and 0 in the future, which a mask is
        to remove. `key_only`: +n, which differs from them by a constant in each row, and so not at
        all after a causal softmax.
    max_bias : float
        The exponent of the last slope, 8 in the paper.
    biased : int, optional
        Number of heads that have a slope; the heads after them have none. All by default.
    added : {"after", "before"}
        Whether the bias is added to the scores after they are divided by sqrt(d), or before.

    Raises
    ------
    SpecError
        If a number is not positive, or more heads are biased than there are.

    Examples
    --------
    >>> import posenc
    >>> posenc.bias(posenc.ALiBi(heads=2), [2], [0, 1, 2])
    array([[[-0.125     , -0.0625    ,  0.        ]],
    <BLANKLINE>
           [[-0.0078125 , -0.00390625,  0.        ]]], dtype=float32)
    >>> posenc.ALiBi(heads=2).slopes
    array([0.0625    , 0.00390625])
    >>> posenc.bias(posenc.ALiBi(heads=1, recipe=(0.3,)), [2], [0, 1, 2])
    array([[[-0.6, -0.3,  0. ]]], dtype=float32)
    """

    heads: int
    _: KW_ONLY
    recipe: Recipe | Literal["learned"] | tuple[float, ...] = "paper"
    form: Literal["symmetric", "causal", "key_only"] = "symmetric"
    max_bias: float = 8.0
    biased: int | None = None
    added: Literal["after", "before"] = "after"

    by_head: ClassVar = {"slopes": 0, "log_slopes": 0}
    paper = "press2022train"

    def check(self) -> None:
        """Raise `SpecError` when a number is out of range."""
        positive("ALiBi", max_bias=self.max_bias)
        self._require(
            self.biased is None or 0 <= self.biased <= self.heads,
            "biased",
            f"0 to {self.heads} heads",
        )
        self._require(
            self.recipe != "learned" or self.biased in (None, self.heads),
            "biased",
            "every head biased where slopes are learned",
        )
        if not isinstance(self.recipe, tuple):
            return
        self._require(
            len(self.recipe) == self.heads and min(self.recipe) >= 0,
            "recipe",
            f"{self.heads} slopes of at least 0, one for each head",
        )
        self._require(
            (self.max_bias, self.biased) == (8.0, None),
            "recipe",
            "slopes without max_bias and biased, which they replace",
            repr(self),
        )

    @staticmethod
    def of_older(data: Mapping[str, Any]) -> Mapping[str, Any]:
        """The fields of a JSON in which `slopes` stood beside `recipe`."""
        new = {key: value for key, value in data.items() if key != "slopes"}
        if data.get("slopes", "fixed") == "fixed":
            return new
        paper = "slopes of the recipe 'paper' where they are learned or given"
        refuse_data(new.get("recipe", "paper") != "paper", "ALiBi", paper, str(new.get("recipe")))
        return new | {"recipe": data["slopes"]}

    @property
    def slopes(self) -> np.ndarray:
        """The slope of each head, (heads,), float64; the first values where they are learned."""
        return self.arrays["slopes"]

    def constants(self) -> dict[str, np.ndarray]:
        """The slope of each head."""
        if isinstance(self.recipe, tuple):
            return {"slopes": np.array(self.recipe)}
        count = self.heads if self.biased is None else self.biased
        chosen = slopes_of(count, self.recipe, self.max_bias)
        return {"slopes": np.concatenate([chosen, np.zeros(self.heads - count)])}

    def parameters(self) -> dict[str, Parameter]:
        """The logarithms of the slopes, where they are learned."""
        slopes = Parameter((self.heads,), Init("constant", scale=0.0))
        return {"log_slopes": slopes} if self.recipe == "learned" else {}

    def initial(self, name: str, rng: np.random.Generator) -> np.ndarray:
        """The logarithms of the slopes of the paper."""
        del name, rng
        return np.log(self.arrays["slopes"]).astype(np.float32)

    def prepare(self, constants: Constants, *, dtype: Any, xp: Any) -> Constants:
        """The slopes, fixed or learned."""
        if self.recipe != "learned":
            return {"slopes": astype(constants["slopes"], dtype, xp)}
        return {"slopes": xp.exp(astype(constants["log_slopes"], dtype, xp))}

    def score(
        self, q: Axes, k: Axes, head: Array, constants: Constants, *, dtype: Any, xp: Any
    ) -> Array:
        """A slope times a distance."""
        slope = lookup(constants["slopes"], head, xp=xp)
        if self.form == "key_only":
            return slope * astype(k[0], dtype, xp)
        rel = astype(distance(q, k), dtype, xp)
        if self.form == "causal":
            return slope * xp.where(rel < 0, rel, xp.zeros_like(rel))
        return slope * xp.where(rel > 0, -rel, rel)
