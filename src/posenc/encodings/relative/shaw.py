"""Relative positions as vectors on keys and values (Shaw, Uszkoreit and Vaswani 2018)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, final

from posenc.encodings.relative.base import (
    Array,
    Constants,
    Example,
    Init,
    Parameter,
    Places,
    RelativeSpec,
    astype,
    key_products,
    query_products,
    weighted_rows,
)


@final
@dataclass(frozen=True)
class Shaw(RelativeSpec):
    """Relative position representations (Shaw, Uszkoreit and Vaswani 2018, arXiv:1803.02155).

        scores[m, n] = q[m] . (k[n] + a_K[r]) / sqrt(d)      r = clip(n - m, -clip, clip)
        out[m]       = sum_n weight[m, n] (v[n] + a_V[r])

    The vectors are shared by all heads.

    Parameters
    ----------
    dim : int
        Width d of a head.
    clip : int or (int, int)
        Largest distance that has a vector of its own, or the first and the last distance.
    acts_on : {"keys", "keys_values", "keys_queries"}
        `keys_queries`: the same vectors meet keys as well, + k[n] . a[r].
    outside : {"clamp", "zero"}
        What distances beyond the clip get: the vector at the clip, or none.
    distance : {"key-query", "query-key"}
        The sign of r: n - m as in the paper, or m - n.
    added : {"before", "after"}
        Whether the product is divided by sqrt(d) with the scores, or added to them afterwards.
    init : Init
        First values of the vectors.

    Raises
    ------
    SpecError
        If there are no distances, or 0 is not among them.

    Examples
    --------
    >>> import posenc
    >>> {name: a.shape for name, a in posenc.init(posenc.Shaw(64, clip=16)).items()}
    {'keys': (33, 64), 'values': (33, 64)}
    """

    dim: int
    _: KW_ONLY
    clip: int | tuple[int, int]
    acts_on: Literal["keys", "keys_values", "keys_queries"] = "keys_values"
    outside: Literal["clamp", "zero"] = "clamp"
    distance: Literal["key-query", "query-key"] = "key-query"
    added: Literal["before", "after"] = "before"
    init: Init = Init(scale=0.02)

    example = Example({"clip": 16})
    paper = "shaw2018self"

    def check(self) -> None:
        """Raise `SpecError` when there are no distances."""
        first, last = self.ends
        self._require(
            first <= 0 <= last,
            "clip",
            "a distance of at least 0, or the first and last one around 0",
        )

    @property
    def ends(self) -> tuple[int, int]:
        """The first and the last distance with a vector."""
        return (-self.clip, self.clip) if isinstance(self.clip, int) else self.clip

    def parameters(self) -> dict[str, Parameter]:
        """A vector for each distance, on keys and on values."""
        first, last = self.ends
        table = Parameter((last - first + 1, self.dim), self.init)
        return {"keys": table, "values": table} if self.on_values else {"keys": table}

    @property
    def clipping(self) -> tuple[tuple[int, int], bool]:
        """The ends of the distances, and whether those are query - key."""
        return self.ends, self.distance == "query-key"

    def _within(self, x: Array, at: Places, xp: Any) -> Array:
        """What belongs to distances, and zeros beyond the clip where those have no vectors."""
        if self.outside == "clamp":
            return x
        (first, last), r = self.ends, -at.rel if self.distance == "query-key" else at.rel
        return xp.where((r < first) | (r > last), xp.zeros_like(x), x)

    def score(
        self, q: Array, k: Array, at: Places, constants: Constants, *, dtype: Any, xp: Any
    ) -> Array:
        """Q . a_K[r], and with `keys_queries` k . a_K[r]."""
        row, table = self.rows(at, xp), astype(constants["keys"], dtype, xp)
        total = query_products(q, table, row, xp=xp)
        if self.acts_on == "keys_queries":
            total = total + key_products(k, table, row, xp=xp)
        return self._within(total, at, xp)

    def values(
        self, weights: Array, at: Places, constants: Constants, *, dtype: Any, xp: Any
    ) -> Array:
        """Weighted vectors, sum_n weight[m, n] a_V[r]: one product for each query."""
        row, weights = self.rows(at, xp), self._within(weights, at, xp)
        return weighted_rows(weights, astype(constants["values"], dtype, xp), row, xp=xp)
