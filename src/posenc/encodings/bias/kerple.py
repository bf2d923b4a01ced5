"""Kernelised biases (Chi et al. 2022)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, final

import numpy as np

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
)


@final
@dataclass(frozen=True)
class KERPLE(BiasSpec):
    """Kernelised relative positions (Chi et al. 2022, arXiv:2205.09921).

        log      logits[h, m, n] += -r1[h] ln(1 + r2[h] |m - n|)      r1, r2 > 0
        power    logits[h, m, n] += -r1[h] |m - n| ** r2[h]           r1 > 0, 0 < r2 <= 2

    Both are conditionally positive definite kernels of the distance. The parameters are kept within
    those bounds as they are read, from `least` on.

    Parameters
    ----------
    heads : int
        Number of heads of the whole model.
    form : {"log", "power"}
        The kernel.
    least : float
        Smallest value that r1 and r2 are read as, 0.01 in the authors' code.

    Raises
    ------
    SpecError
        If `least` is not positive.

    Examples
    --------
    >>> import numpy as np, posenc
    >>> params = {"r1": np.ones(1), "r2": np.ones(1)}
    >>> posenc.bias(posenc.KERPLE(heads=1), [2], [0, 1, 2], params=params).round(4)
    array([[[-1.0986, -0.6931, -0.    ]]], dtype=float32)
    """

    heads: int
    _: KW_ONLY
    form: Literal["log", "power"] = "log"
    least: float = 0.01

    by_head: ClassVar = {"r1": 0, "r2": 0}
    paper = "chi2022kerple"

    def check(self) -> None:
        """Raise `SpecError` when a bound is out of range."""
        self._require(0 < self.least < 2, "least", "a number between 0 and 2")

    def parameters(self) -> dict[str, Parameter]:
        """The two numbers of each head."""
        half = Init("uniform", scale=1.0)
        return {"r1": Parameter((self.heads,), half), "r2": Parameter((self.heads,), half)}

    def initial(self, name: str, rng: np.random.Generator) -> np.ndarray:
        """Uniform from 0: to 2 for the factor of `log` and the power, to 1 for the others."""
        widest = 2.0 if name == ("r1" if self.form == "log" else "r2") else 1.0
        return (widest * rng.random(self.heads)).astype(np.float32)

    def prepare(self, constants: Constants, *, dtype: Any, xp: Any) -> Constants:
        """The numbers within their bounds."""
        r1, r2 = (astype(constants[name], dtype, xp) for name in ("r1", "r2"))
        r1, r2 = (xp.where(r < self.least, xp.full_like(r, self.least), r) for r in (r1, r2))
        if self.form == "power":
            r2 = xp.where(r2 > 2, xp.full_like(r2, 2.0), r2)
        return {"r1": r1, "r2": r2}

    def score(
        self, q: Axes, k: Axes, head: Array, constants: Constants, *, dtype: Any, xp: Any
    ) -> Array:
        """A kernel of the distance."""
        r1, r2 = (lookup(constants[name], head, xp=xp) for name in ("r1", "r2"))
        far = astype(xp.abs(distance(q, k)), dtype, xp)
        if self.form == "log":
            return -r1 * xp.log1p(r2 * far)
        # 0 ** r2 is 0 for every r2; torch's second derivative of it is NaN.
        here = far == 0
        power = xp.where(here, xp.ones_like(far), far) ** r2
        return -r1 * xp.where(here, xp.zeros_like(power), power)
