"""Relative segments (Yang et al. 2019)."""

from __future__ import annotations

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
    product,
)


@final
@dataclass(frozen=True)
class RelativeSegments(HeadedRelativeSpec):
    """Relative segment encodings (Yang et al. 2019, arXiv:1906.08237, section 2.5).

        scores[h, m, n] += (q[m] + b[h]) . s[h, segment(m) != segment(n)]

    A position is here the number of a segment, such as a sentence. What counts is whether two
    tokens are of one segment, so a model may meet more segments than it was trained on.

    Parameters
    ----------
    dim : int
        Width d of a head.
    count : int
        Number of heads.
    common : int, optional
        A number of tokens that are of one segment with all others, such as a class token.
    init : Init
        First values of the vectors; b begins as zeros.

    Raises
    ------
    SpecError
        If a number is below 1.

    Examples
    --------
    >>> import posenc
    >>> spec = posenc.RelativeSegments(64, count=8)
    >>> {name: a.shape for name, a in posenc.init(spec).items()}
    {'bias': (8, 64), 'weight': (8, 2, 64)}
    """

    dim: int
    _: KW_ONLY
    count: int
    common: int | None = None
    init: Init = Init(scale=0.02)

    by_head: ClassVar = {"bias": 0, "weight": 0}
    example = Example(
        {"count": 1, "init": Init(scale=1.0)}, unsuited="Its positions are numbers of segments."
    )
    paper = "yang2019xlnet"
    axes = ("segment",)

    def parameters(self) -> dict[str, Parameter]:
        """A bias on the query, and the vectors of the same segment and of another."""
        return {
            "bias": Parameter((self.count, self.dim), Init("constant", scale=0.0)),
            "weight": Parameter((self.count, 2, self.dim), self.init),
        }

    def score(
        self, q: Array, k: Array, at: Places, constants: Constants, *, dtype: Any, xp: Any
    ) -> Array:
        """The product with one of two vectors."""
        del k
        bias, weight = (astype(constants[name], dtype, xp) for name in ("bias", "weight"))
        both = product(q + bias[:, None, :], xp.matrix_transpose(weight), xp=xp)
        (m,), (n,) = at.q, at.k
        other = m != n
        if self.common is not None:
            other = other & (m != self.common) & (n != self.common)
        return xp.where(other, both[..., 1:], both[..., :1])
