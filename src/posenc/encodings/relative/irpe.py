"""Relative positions of images that meet the content (Wu et al. 2021)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, final

import numpy as np

from posenc._core.numeric.buckets import (
    Method,
    bucket_count,
    buckets_2d,
    check_piecewise,
    piecewise_thresholds,
)
from posenc.encodings.relative.base import (
    Array,
    Constants,
    Example,
    Init,
    Parameter,
    Places,
    RelativeSpec,
    astype,
    gather,
    key_products,
    query_products,
    summed,
    weighted_vectors,
)


@final
@dataclass(frozen=True)
class IRPE(RelativeSpec):
    """Image relative position encoding, contextual mode (Wu et al. 2021, arXiv:2107.14222).

        scores[m, n] = (q[m] . k[n] + q[m] . a_K[b(m - n)] + k[n] . a_Q[b(n - m)]) / sqrt(d)
        out[m]       = sum_n weight[m, n] (v[n] + a_V[b(m - n)])

    with m and n cells of an image and the buckets b of `IRPEBias`; for `cross` each vector is the
    sum of one for rows and one for columns. The vectors are shared by all heads.

    Parameters
    ----------
    dim : int
        Width d of a head.
    method : {"product", "cross", "euclidean", "quantised"}
        How two offsets choose a vector.
    alpha, beta, gamma : float
        Where logarithms begin, the last bucket, and what distance it stands for; 1, 2 and 8 times
        1.9 in the authors' code.
    acts_on : {"keys", "keys_queries", "keys_queries_values"}
        What has vectors; those of keys meet queries, and those of queries meet keys.
    extra : {"none", "class_token"}
        Whether the tables end in one more vector, of all pairs with a class token. A position whose
        first coordinate is negative is that token.
    init : Init
        First values of the vectors.

    Raises
    ------
    SpecError
        If alpha, beta and gamma are out of order.

    Examples
    --------
    >>> import posenc
    >>> {name: a.shape for name, a in posenc.init(posenc.IRPE(64, method="cross")).items()}
    {'keys_rows': (7, 64), 'keys_columns': (7, 64)}
    """

    dim: int
    _: KW_ONLY
    method: Method = "product"
    alpha: float = 1.9
    beta: float = 3.8
    gamma: float = 15.2
    acts_on: Literal["keys", "keys_queries", "keys_queries_values"] = "keys"
    extra: Literal["none", "class_token"] = "none"
    init: Init = Init("constant", scale=0.0)

    example = Example({"init": Init(scale=1.0)}, unsuited="Its positions are cells of a grid.")
    paper = "wu2021rethinking"
    axes = ("row", "column")

    def check(self) -> None:
        """Raise `SpecError` when the buckets are none."""
        check_piecewise("IRPE", self.alpha, self.beta, self.gamma)

    def constants(self) -> dict[str, np.ndarray]:
        """The least distance in each bucket but the first."""
        return {"thresholds": piecewise_thresholds(self.method, self.alpha, self.beta, self.gamma)}

    def parameters(self) -> dict[str, Parameter]:
        """The vector of each bucket, for each of the sides that have them."""
        count = bucket_count(self.method, self.beta) + (self.extra == "class_token")
        table = Parameter((count, self.dim), self.init)
        parts = ("_rows", "_columns") if self.method == "cross" else ("",)
        return {f"{side}{part}": table for side in self.acts_on.split("_") for part in parts}

    def _buckets(
        self, at: Places, thresholds: Array, sign: int, xp: Any
    ) -> list[tuple[str, Array]]:
        """The buckets of sign (m - n), by the ending of the table they belong to."""
        found = buckets_2d(
            sign * (at.q[0] - at.k[0]),
            sign * (at.q[1] - at.k[1]),
            self.method,
            thresholds,
            size=self.texts["thresholds"][1][0],  # a traced constant does not tell its length
            last=int(self.beta),
            xp=xp,
        )
        if self.extra == "class_token":
            special = (at.q[0] < 0) | (at.k[0] < 0)
            count = bucket_count(self.method, self.beta)
            found = {key: xp.where(special, xp.full_like(b, count), b) for key, b in found.items()}
        return [("" if key == "weight" else f"_{key}", b) for key, b in found.items()]

    def score(
        self, q: Array, k: Array, at: Places, constants: Constants, *, dtype: Any, xp: Any
    ) -> Array:
        """Q . a_K, and k . a_Q."""
        total: Any = 0.0
        for end, bucket in self._buckets(at, constants["thresholds"], 1, xp):
            table = astype(constants[f"keys{end}"], dtype, xp)
            total = total + query_products(q, table, bucket, xp=xp)
        if self.acts_on == "keys":
            return total
        for end, bucket in self._buckets(at, constants["thresholds"], -1, xp):
            table = astype(constants[f"queries{end}"], dtype, xp)
            total = total + key_products(k, table, bucket, xp=xp)
        return total

    def values(
        self, weights: Array, at: Places, constants: Constants, *, dtype: Any, xp: Any
    ) -> Array:
        """Weighted vectors, sum_n weight[m, n] a_V: one product for each query."""
        vectors = summed(
            gather(astype(constants[f"values{end}"], dtype, xp), bucket[..., 0, :, :], xp=xp)
            for end, bucket in self._buckets(at, constants["thresholds"], 1, xp)
        )
        return weighted_vectors(weights, vectors, xp=xp)
