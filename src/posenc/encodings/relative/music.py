"""Relative attention in linear memory (Huang et al. 2019)."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, final

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
    bad_position,
    marked,
    query_products,
)


@final
@dataclass(frozen=True)
class MusicTransformer(HeadedRelativeSpec):
    """Music Transformer's relative attention (Huang et al. 2019, arXiv:1809.04281).

        scores[h, m, n] = (q[h, m] . k[h, n] + q[h, m] . E[h, n - m + L - 1]) / sqrt(d)     n <= m

    All products with E are formed first and then moved into place, the paper's skewing, so memory
    grows with q k and not with q k d. The future gets 0: a mask is to remove it.

    Parameters
    ----------
    dim : int
        Width d of a head.
    count : int
        Number of heads, each with vectors of its own.
    length : int
        Number L of distances with a vector: 0 to L - 1 into the past.
    init : Init
        First values of the vectors.

    Raises
    ------
    SpecError
        If a number is below 1.

    Examples
    --------
    >>> import posenc
    >>> posenc.init(posenc.MusicTransformer(64, count=8, length=100))["weight"].shape
    (8, 100, 64)
    """

    dim: int
    _: KW_ONLY
    count: int
    length: int
    init: Init = Init(scale=0.02)

    by_head: ClassVar = {"weight": 0}
    example = Example({"count": 1, "length": 64})
    paper = "huang2019music"

    def check(self) -> None:
        """Raise `SpecError` when a number is below 1."""
        at_least("MusicTransformer", dim=self.dim, count=self.count, length=self.length)

    def parameters(self) -> dict[str, Parameter]:
        """A vector for each head and distance, the farthest first."""
        return {"weight": Parameter((self.count, self.length, self.dim), self.init)}

    def check_positions(self, q: tuple[Array, ...], k: tuple[Array, ...]) -> None:
        """Raise `PositionError` where a key lies too far in the past."""
        far = q[0] - k[0]
        if far.size and far.max() >= self.length:
            raise bad_position(
                "MusicTransformer: positions",
                f"keys at most {self.length - 1} before their query, as the length is "
                f"{self.length}",
                int(far.max()),
            )

    def score(
        self, q: Array, k: Array, at: Places, constants: Constants, *, dtype: Any, xp: Any
    ) -> Array:
        """Q . E, moved into place; NaN where a key lies too far in the past."""
        del k
        rel = at.rel
        row = rel + (self.length - 1)
        row = xp.where((row >= 0) & (rel <= 0), row, xp.zeros_like(row))
        found = query_products(q, astype(constants["weight"], dtype, xp), row, xp=xp)
        found = xp.where(rel > 0, xp.zeros_like(found), found)
        return marked(found, rel <= -self.length, math.nan, xp=xp)
