"""Contextual positions (Golovneva et al. 2024)."""

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
    along,
    astype,
    at_least,
    product,
)


@final
@dataclass(frozen=True)
class CoPE(RelativeSpec):
    """Contextual position encoding (Golovneva et al. 2024, arXiv:2405.18719).

        gate[m, j] = sigmoid(q[m] . k[j])       p[m, n] = sum over n <= j <= m of gate[m, j]

        scores[m, n] += q[m] . e[p[m, n]]

    A position is what the gates count between key and query. It is cut to the last vector, and
    between two whole numbers the two products are mixed. Keys after the query count nothing, and
    their scores are left to a mask.

    Parameters
    ----------
    dim : int
        Width d of a head.
    length : int
        Number of vectors e, shared by all heads.
    gates : {"scaled", "raw"}
        Whether the gates see q . k / sqrt(d), as the scores do, or q . k.
    init : Init
        First values of the vectors, zeros in the authors' code.

    Raises
    ------
    SpecError
        If a number is below 1.

    Notes
    -----
    Keys must stand in the order of their positions. The positions themselves say only which keys
    lie in the past of a query.

    Examples
    --------
    >>> import posenc
    >>> posenc.init(posenc.CoPE(64, length=32))["weight"].shape
    (32, 64)
    """

    dim: int
    _: KW_ONLY
    length: int
    gates: Literal["scaled", "raw"] = "scaled"
    init: Init = Init("constant", scale=0.0)

    example = Example({"length": 16, "init": Init(scale=1.0)})
    paper = "golovneva2024contextual"
    place = "after"
    sums_over_keys = True

    def check(self) -> None:
        """Raise `SpecError` when a number is below 1."""
        at_least("CoPE", dim=self.dim, length=self.length)

    def parameters(self) -> dict[str, Parameter]:
        """The vector of each whole position."""
        return {"weight": Parameter((self.length, self.dim), self.init)}

    def score(
        self, q: Array, k: Array, at: Places, constants: Constants, *, dtype: Any, xp: Any
    ) -> Array:
        """Q . e at the positions that the gates count."""
        logits = product(q, xp.matrix_transpose(k), xp=xp)
        logits = logits * self.scale if self.gates == "scaled" else logits
        gate = xp.where(at.rel <= 0, 1 / (1 + xp.exp(-logits)), xp.zeros_like(logits))
        counted = xp.flip(xp.cumulative_sum(xp.flip(gate, axis=-1), axis=-1), axis=-1)
        last = xp.full_like(counted, float(self.length - 1))
        p = xp.where(counted < last, counted, last)
        below = xp.floor(p)
        products = product(q, xp.matrix_transpose(astype(constants["weight"], dtype, xp)), xp=xp)
        lower = along(products, xp.astype(below, at.rel.dtype), xp=xp)
        upper = along(products, xp.astype(xp.ceil(p), at.rel.dtype), xp=xp)
        return upper * (p - below) + lower * (1 - (p - below))
