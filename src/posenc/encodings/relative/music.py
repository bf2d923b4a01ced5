"""Relative attention in linear memory (Huang et al. 2019)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, final

from posenc._core.arrays.array import Array, astype, marked, product
from posenc._core.arrays.lookups import along
from posenc._core.errors import bad_position
from posenc._core.spec.checks import at_least
from posenc._core.spec.example import Example
from posenc._core.spec.parameters import Init
from posenc._core.spec.spec import Parameter
from posenc.encodings.relative.base import HeadedRelativeSpec, Places


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

    by_head: ClassVar[Mapping[str, int]] = {"weight": 0}
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
            expected = f"keys at most {self.length - 1} before their query, as the length is"
            raise bad_position(
                "MusicTransformer: positions", f"{expected} {self.length}", int(far.max())
            )

    def score(
        self, q: Array, k: Array, at: Places, constants: Mapping[str, Array], *, dtype: Any, xp: Any
    ) -> Array:
        """Q . E, moved into place; NaN where a key lies too far in the past."""
        del k
        rel = at.rel
        row = rel + (self.length - 1)
        inside = (row >= 0) & (rel <= 0)
        row = xp.where(inside, row, xp.zeros_like(row))
        table = xp.matrix_transpose(astype(constants["weight"], dtype, xp))
        found = along(product(q, table, xp=xp), row, xp=xp)
        found = xp.where(rel > 0, xp.zeros_like(found), found)
        return marked(found, rel <= -self.length, math.nan, xp=xp)
