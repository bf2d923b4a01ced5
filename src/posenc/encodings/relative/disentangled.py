"""Disentangled attention of DeBERTa (He et al. 2021)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, final

import numpy as np

from posenc._core.numeric.buckets import LARGEST, log_thresholds, padded
from posenc.encodings.relative.base import (
    Array,
    Constants,
    Example,
    HeadedRelativeSpec,
    Init,
    Parameter,
    Places,
    astype,
    at_least,
    clipped,
    key_products,
    query_products,
    rank,
)


@final
@dataclass(frozen=True)
class Disentangled(HeadedRelativeSpec):
    """Disentangled attention (He, Liu, Gao and Chen 2021, arXiv:2006.03654).

        scores[h, m, n] = (q[m] . k[n] + q[m] . K[h, d] + k[n] . Q[h, d]) / sqrt(3 d)

        d = bucket(m - n) + span       cut to 0 .. 2 span - 1

    The last term has the direction of the authors' code; the paper writes bucket(n - m) there. With
    buckets, distances above buckets / 2 are counted in logarithms, rounded up, by exact integers.

    Parameters
    ----------
    dim : int
        Width d of a head.
    count : int
        Number of heads.
    max_distance : int
        Distances from -max_distance to max_distance - 1 are told apart.
    buckets : int, optional
        Number of buckets in each direction; a distance each where there is none.
    terms : {"c2p", "p2c", "c2p_p2c"}
        Content to position, position to content, or both; the scores are divided by the root of
        d times one more than their number.
    direction : {"code", "paper"}
        Which distance the last term takes.
    init : Init
        First values of the vectors.

    Raises
    ------
    SpecError
        If buckets and distances contradict each other.

    Notes
    -----
    K and Q are tables projected for each head. Where a model projects one table by matrices of its
    own, or by those of the content, pass the products as parameters.

    Examples
    --------
    >>> import posenc
    >>> spec = posenc.Disentangled(64, count=12, max_distance=512, buckets=256)
    >>> posenc.init(spec)["key"].shape
    (12, 512, 64)
    """

    dim: int
    _: KW_ONLY
    count: int
    max_distance: int
    buckets: int | None = None
    terms: Literal["c2p", "p2c", "c2p_p2c"] = "c2p_p2c"
    direction: Literal["code", "paper"] = "code"
    init: Init = Init(scale=0.02)

    by_head: ClassVar = {"key": 0, "query": 0}
    example = Example({"count": 1, "max_distance": 16})
    paper = "he2021deberta"

    def check(self) -> None:
        """Raise `SpecError` when buckets and distances contradict each other."""
        at_least("Disentangled", dim=self.dim, count=self.count, max_distance=self.max_distance)
        self._require(self.max_distance < LARGEST, "max_distance", "less than 2**31 - 1")
        if self.buckets is None:
            return
        self._require(
            self.buckets % 2 == 0 and 4 <= self.buckets <= 2048,
            "buckets",
            "even, 4 to 2048",
        )
        self._require(
            self.max_distance - 1 > self.buckets // 2,
            "max_distance",
            f"more than {self.buckets // 2 + 1}, as half the buckets hold a distance each",
        )

    @property
    def span(self) -> int:
        """Rows of the tables in each direction."""
        return self.max_distance if self.buckets is None else self.buckets

    @property
    def scale(self) -> float:
        """1 / sqrt(d (1 + terms))."""
        return float(1 / (self.dim * (2 + self.terms.count("_"))) ** 0.5)

    def constants(self) -> dict[str, np.ndarray]:
        """The least distance in each bucket but the first."""
        if self.buckets is None:
            return {}
        middle = self.buckets // 2
        above = log_thresholds(middle, self.max_distance - 1, middle - 1, middle, strict=True)
        return {"thresholds": padded([*range(1, middle + 1), *above])}

    def parameters(self) -> dict[str, Parameter]:
        """The vectors of each head and distance, that meet queries and keys."""
        table = Parameter((self.count, 2 * self.span, self.dim), self.init)
        names = {"c2p": ("key",), "p2c": ("query",), "c2p_p2c": ("key", "query")}
        return dict.fromkeys(names[self.terms], table)

    def _row(self, rel: Array, constants: Constants, xp: Any) -> Array:
        """The row of each distance."""
        if self.buckets is not None:
            size = self.texts["thresholds"][1][0]  # a traced constant does not tell its length
            far = rank(constants["thresholds"], xp.abs(rel), size, xp=xp)
            rel = xp.where(rel < 0, -far, far)
        return clipped(rel, -self.span, self.span - 1, xp=xp) + self.span

    def score(
        self, q: Array, k: Array, at: Places, constants: Constants, *, dtype: Any, xp: Any
    ) -> Array:
        """Q . K[d] + k . Q[d]."""
        total: Any = 0.0
        rel = -at.rel
        if "c2p" in self.terms:
            row = self._row(rel, constants, xp)
            total = query_products(q, astype(constants["key"], dtype, xp), row, xp=xp)
        if "p2c" in self.terms:
            row = self._row(rel if self.direction == "code" else -rel, constants, xp)
            total = total + key_products(k, astype(constants["query"], dtype, xp), row, xp=xp)
        return total
