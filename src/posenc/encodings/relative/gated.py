"""Buckets of distances behind a gate of the content (Chi et al. 2022)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, final

import numpy as np

from posenc._core.numeric.buckets import bucket_of, check_buckets, direction_thresholds
from posenc.encodings.relative.base import (
    Array,
    Constants,
    Example,
    HeadedRelativeSpec,
    Init,
    Parameter,
    Places,
    astype,
    lookup,
    moveaxis,
    product,
)

COPIES = 4  # of each gate in published parameters, which are summed


@final
@dataclass(frozen=True)
class GatedBuckets(HeadedRelativeSpec):
    """Gated relative position bias (Chi et al. 2022, arXiv:2106.16138; Chen et al. 2022).

        scores[h, m, n] = q[m] . k[n] / sqrt(d) + g[h, m] weight[bucket(n - m), h]

        g[h, m] = 2 + a (b factor[h] - 1)        a, b = sigmoid(W q[m] + w)

    with the bidirectional buckets of `T5`. The gates a (update) and b (reset) are shared by all
    heads, and see the query of each.

    Parameters
    ----------
    dim : int
        Width d of a head.
    count : int
        Number of heads.
    buckets : int
        Number of buckets, both directions together.
    max_distance : int
        Distance from which all share the last bucket of their direction.
    init : Init
        First values of the table and the gates; the factors begin as 1.

    Raises
    ------
    SpecError
        If there are too few buckets, or the largest distance lies below the exact ones.

    Notes
    -----
    Rows 0 to 3 of W belong to a and rows 4 to 7 to b, and are summed, as in the parameters of
    WavLM (Chen et al. 2022, arXiv:2110.13900). Its code shows the gates the input of the layer, cut
    into heads, where the paper has the query: pass that in the place of `q`, as keys play no part.

    Examples
    --------
    >>> import posenc
    >>> spec = posenc.GatedBuckets(64, count=12)
    >>> {name: a.shape for name, a in posenc.init(spec).items()}
    {'weight': (320, 12), 'gate_weight': (8, 64), 'gate_bias': (8,), 'factor': (12,)}
    """

    dim: int
    _: KW_ONLY
    count: int
    buckets: int = 320
    max_distance: int = 800
    init: Init = Init(scale=0.02)

    by_head: ClassVar = {"weight": 1, "factor": 0}
    example = Example({"count": 1})
    paper = "chi2022xlme"
    place = "after"

    def check(self) -> None:
        """Raise `SpecError` when buckets and distances contradict each other."""
        check_buckets("GatedBuckets", self.buckets, self.max_distance, directions=2)

    def constants(self) -> dict[str, np.ndarray]:
        """The least distance in each bucket but the first."""
        return {"thresholds": direction_thresholds(self.buckets // 2, self.max_distance)}

    def parameters(self) -> dict[str, Parameter]:
        """The scalar of each bucket and head, the gates, and a factor for each head."""
        return {
            "weight": Parameter((self.buckets, self.count), self.init),
            "gate_weight": Parameter((2 * COPIES, self.dim), self.init),
            "gate_bias": Parameter((2 * COPIES,), Init("constant", scale=0.0)),
            "factor": Parameter((self.count,), Init("constant", scale=1.0)),
        }

    def score(
        self, q: Array, k: Array, at: Places, constants: Constants, *, dtype: Any, xp: Any
    ) -> Array:
        """The scalar of the bucket, times the gate of the query."""
        del k
        w = {name: astype(constants[name], dtype, xp) for name in self.shapes}
        seen = product(q, xp.matrix_transpose(w["gate_weight"]), xp=xp) + w["gate_bias"]
        update, reset = (
            1 / (1 + xp.exp(-xp.sum(part, axis=-1, keepdims=True)))
            for part in (seen[..., :COPIES], seen[..., COPIES:])
        )
        gate = 2 + update * (reset * w["factor"][:, None, None] - 1)
        size = self.texts["thresholds"][1][0]  # a traced constant does not tell its length
        rel, last = at.rel, self.buckets // 2
        bucket = bucket_of(rel, constants["thresholds"], size, last, xp=xp)
        scalar = moveaxis(lookup(w["weight"], bucket[..., 0, :, :], xp=xp), -1, -3, xp=xp)
        return gate * scalar
