"""Relative positions of images as scalars (Wu et al. 2021)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, final

import numpy as np

from posenc._core.numeric.buckets import (
    Method,
    bucket_count,
    buckets_2d,
    check_piecewise,
    piecewise_thresholds,
)
from posenc.encodings.bias.base import (
    Array,
    Axes,
    BiasSpec,
    Constants,
    Example,
    Init,
    Parameter,
    astype,
    lookup,
    summed,
)


@final
@dataclass(frozen=True)
class IRPEBias(BiasSpec):
    """Image relative position encoding, bias mode (Wu et al. 2021, arXiv:2107.14222).

        euclidean   logits[h, m, n] += weight[h, g(round(|m - n|))]
        quantised   logits[h, m, n] += weight[h, g(|m - n|^2)]
        cross       logits[h, m, n] += rows[h, g(m_r - n_r)] + columns[h, g(m_c - n_c)]
        product     logits[h, m, n] += weight[h, (g(m_r - n_r), g(m_c - n_c))]

        g(x) = round(x)                                                           |x| <= alpha
        g(x) = sign(x) min(beta, round(alpha + ln(|x| / alpha) (beta - alpha) / ln(gamma / alpha)))

    with m and n cells of an image. The contextual mode is `IRPE`.

    Parameters
    ----------
    heads : int
        Number of heads of the whole model.
    method : {"product", "cross", "euclidean", "quantised"}
        How two offsets choose a scalar.
    alpha, beta, gamma : float
        Where logarithms begin, the last bucket, and what distance it stands for; 1, 2 and 8 times
        1.9 in the authors' code.
    extra : {"none", "class_token"}
        Whether the tables end in one more entry, of all pairs with a class token. A position whose
        first coordinate is negative is that token.
    init : Init
        First values of the tables.

    Raises
    ------
    SpecError
        If alpha, beta and gamma are out of order.

    Examples
    --------
    >>> import posenc
    >>> spec = posenc.IRPEBias(heads=4)
    >>> posenc.init(spec)["weight"].shape
    (4, 49)
    """

    heads: int
    _: KW_ONLY
    method: Method = "product"
    alpha: float = 1.9
    beta: float = 3.8
    gamma: float = 15.2
    extra: Literal["none", "class_token"] = "none"
    init: Init = Init("constant", scale=0.0)

    by_head: ClassVar = {"weight": 0, "rows": 0, "columns": 0}
    example = Example({"init": Init(scale=1.0)}, unsuited="Its positions are cells of a grid.")
    paper = "wu2021rethinking"
    axes = ("row", "column")

    def check(self) -> None:
        """Raise `SpecError` when the buckets are none."""
        check_piecewise("IRPEBias", self.alpha, self.beta, self.gamma)

    def constants(self) -> dict[str, np.ndarray]:
        """The least distance in each bucket but the first."""
        return {"thresholds": piecewise_thresholds(self.method, self.alpha, self.beta, self.gamma)}

    def parameters(self) -> dict[str, Parameter]:
        """The scalar of each head and bucket."""
        count = bucket_count(self.method, self.beta) + (self.extra == "class_token")
        table = Parameter((self.heads, count), self.init)
        return {"rows": table, "columns": table} if self.method == "cross" else {"weight": table}

    def score(
        self, q: Axes, k: Axes, head: Array, constants: Constants, *, dtype: Any, xp: Any
    ) -> Array:
        """The scalar of the bucket, or the sum of two."""
        found = buckets_2d(
            q[0] - k[0],
            q[1] - k[1],
            self.method,
            constants["thresholds"],
            size=self.texts["thresholds"][1][0],  # a traced constant does not tell its length
            last=int(self.beta),
            xp=xp,
        )
        if self.extra == "class_token":  # the last bucket where it takes part
            special, last = (q[0] < 0) | (k[0] < 0), bucket_count(self.method, self.beta)
            found = {key: xp.where(special, xp.full_like(b, last), b) for key, b in found.items()}
        return summed(
            astype(lookup(constants[name], head, bucket, xp=xp), dtype, xp)
            for name, bucket in found.items()
        )
