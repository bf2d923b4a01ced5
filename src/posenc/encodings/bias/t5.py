"""Biases by logarithmic buckets of distance (Raffel et al. 2020)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, final

import numpy as np

from posenc._core.arrays.coordinates import integers
from posenc._core.numeric.buckets import bucket_of, check_buckets, direction_thresholds
from posenc.encodings.bias.base import (
    Array,
    Axes,
    BiasSpec,
    Constants,
    Example,
    Init,
    Parameter,
    astype,
    distance,
    library,
    lookup,
)


@final
@dataclass(frozen=True)
class T5(BiasSpec):
    """A learned scalar for each bucket of distances (Raffel et al. 2020, arXiv:1910.10683).

        logits[h, m, n] += weight[bucket(n - m), h]

        bucket(-r) = r                                        r < E
        bucket(-r) = E + floor((B - E) ln(r / E) / ln(D / E))     E <= r, at most B - 1

    with E = B / 2 and B buckets. Both directions have half the buckets each, those of keys after
    the query last; else keys after the query share bucket 0. Thresholds are exact integers.

    Parameters
    ----------
    heads : int
        Number of heads of the whole model.
    buckets : int
        Number of buckets, both directions together.
    max_distance : int
        Distance D from which all share the last bucket of their direction.
    direction : {"bidirectional", "causal"}
        Whether both directions are told apart (encoders), or only the past (decoders).
    layers : {"shared", "own"}
        Whether one table serves every layer of a stack, as in the paper, or each has its own.
    added : {"after", "before"}
        Whether the bias is added after the scores are divided by sqrt(d), or before. Where they are
        not divided at all, as in the paper, there is no difference.
    init : Init
        First values of the table.

    Raises
    ------
    SpecError
        If there are too few buckets, or the largest distance lies below the exact ones.

    Examples
    --------
    >>> import posenc
    >>> posenc.T5(heads=8).bucket([-200, -9, -1, 0, 1, 9]).tolist()
    [15, 8, 1, 0, 17, 24]
    """

    heads: int
    _: KW_ONLY
    buckets: int = 32
    max_distance: int = 128
    direction: Literal["bidirectional", "causal"] = "bidirectional"
    layers: Literal["shared", "own"] = "shared"
    added: Literal["after", "before"] = "after"
    init: Init = Init(scale=0.02)

    by_head: ClassVar = {"weight": 1}
    example = Example({"init": Init(scale=1.0)})
    paper = "raffel2020exploring"

    def check(self) -> None:
        """Raise `SpecError` when buckets and distances contradict each other."""
        check_buckets(
            "T5",
            self.buckets,
            self.max_distance,
            directions=2 if self.direction == "bidirectional" else 1,
        )

    @property
    def _side(self) -> int:
        """Buckets of one direction."""
        return self.buckets // 2 if self.direction == "bidirectional" else self.buckets

    def constants(self) -> dict[str, np.ndarray]:
        """The least distance in each bucket but the first."""
        return {"thresholds": direction_thresholds(self._side, self.max_distance)}

    def parameters(self) -> dict[str, Parameter]:
        """The scalar of each bucket and head."""
        return {"weight": Parameter((self.buckets, self.heads), self.init)}

    def bucket(self, rel: Any) -> np.ndarray:
        """The buckets of distances rel = key - query, integers of any shape."""
        xp = library(np)
        rel = integers(rel, xp=xp, caller="T5.bucket: rel")
        return np.asarray(self._bucket(rel, self.arrays["thresholds"], xp=xp))

    def _bucket(self, rel: Array, thresholds: Array, *, xp: Any) -> Array:
        size = self.texts["thresholds"][1][0]  # a traced constant does not tell its length
        later = self._side if self.direction == "bidirectional" else None
        return bucket_of(rel, thresholds, size, later, xp=xp)

    def score(
        self, q: Axes, k: Axes, head: Array, constants: Constants, *, dtype: Any, xp: Any
    ) -> Array:
        """The scalar of the bucket."""
        bucket = self._bucket(distance(q, k), constants["thresholds"], xp=xp)
        return astype(lookup(constants["weight"], bucket, head, xp=xp), dtype, xp)
