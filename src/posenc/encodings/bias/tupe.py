"""Untied products of learned positions (Ke, He and Liu 2021)."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, final

from posenc.encodings.bias.base import (
    Array,
    Axes,
    BiasSpec,
    Constants,
    Example,
    Init,
    Parameter,
    astype,
    bad_position,
    lookup,
    marked,
    product,
    widest,
)

EPSILON = 1e-5  # of the normalisation of the position vectors


@final
@dataclass(frozen=True)
class TUPE(BiasSpec):
    """Untied positional encoding, absolute form (Ke, He and Liu 2021, arXiv:2006.15595).

        logits[h, m, n] += (U_Q[h] p_m + a[h]) . (U_K[h] p_n + b[h]) / sqrt(2 d / H)

    with position vectors p that are learned and normalised. The content scores are to be divided by
    sqrt(2 d / H) as well. The relative form adds a `T5` bias to this one.

    Parameters
    ----------
    heads : int
        Number H of heads of the whole model.
    dim : int
        Width d of the model.
    length : int
        Number of positions.
    class_position : {"tied", "untied"}
        `untied`: position 0 is a class token; one scalar from it to every position, and another
        from every position to it, in place of the products. They are products of the first two
        vectors with themselves; position n then has vector n + 1.
    init : Init
        First values of the position vectors and matrices.

    Raises
    ------
    SpecError
        If the width is not divisible by the heads, or there are no positions.

    Notes
    -----
    The products are formed in float64 and rounded once: a float32 bias is right to 2e-6 of
    max(1, |bias|). JAX without `jax_enable_x64` forms them in float32, with an error of up to 1e-4
    where products of some hundreds cancel.

    Examples
    --------
    >>> import posenc
    >>> spec = posenc.TUPE(heads=2, dim=8, length=16)
    >>> posenc.bias(spec, 5, params=posenc.init(spec)).shape
    (2, 5, 5)
    """

    heads: int
    _: KW_ONLY
    dim: int
    length: int
    class_position: Literal["tied", "untied"] = "untied"
    init: Init = Init(scale=0.02)

    by_head: ClassVar = {
        "query_weight": 0,
        "query_bias": 0,
        "key_weight": 0,
        "key_bias": 0,
    }
    example = Example({"dim": 64, "length": 64})
    paper = "ke2021rethinking"

    def check(self) -> None:
        """Raise `SpecError` when widths and heads do not fit."""
        self._require(
            self.dim >= 1 and self.dim % self.heads == 0,
            "dim",
            f"a width divisible by {self.heads} heads",
        )
        self._require(self.length >= 1, "length", "at least 1 position")

    def parameters(self) -> dict[str, Parameter]:
        """Position vectors, their normalisation, and the two projections."""
        rows = self.length + (self.class_position == "untied")
        each, zeros = self.dim // self.heads, Init("constant", scale=0.0)
        matrix = Parameter((self.heads, each, self.dim), self.init)
        shift = Parameter((self.heads, each), zeros)
        return {
            "position": Parameter((rows, self.dim), self.init),
            "norm_weight": Parameter((self.dim,), Init("constant", scale=1.0)),
            "norm_bias": Parameter((self.dim,), zeros),
            "query_weight": matrix,
            "query_bias": shift,
            "key_weight": matrix,
            "key_bias": shift,
        }

    def check_positions(self, q: Axes, k: Axes) -> None:
        """Raise `PositionError` where a position has no vector."""
        for p in (q[0], k[0]):
            if p.size and (p.min() < 0 or p.max() >= self.length):
                worst = int(p.max() if p.max() >= self.length else p.min())
                raise bad_position(
                    "TUPE: positions",
                    f"0 to {self.length - 1}, as the length is {self.length}",
                    worst,
                )

    def prepare(self, constants: Constants, *, dtype: Any, xp: Any) -> Constants:
        """The products of all pairs of vectors: (heads, length, length)."""
        # A score is a sum of products that cancel, so each rounding would count many times.
        wide = widest(constants["position"], dtype, xp)
        w = {name: astype(constants[name], wide, xp) for name in self.shapes}
        p = w["position"] - xp.mean(w["position"], axis=-1, keepdims=True)
        spread = xp.sqrt(xp.mean(p * p, axis=-1, keepdims=True) + EPSILON)
        p = p / spread * w["norm_weight"] + w["norm_bias"]
        q, k = (
            product(p, xp.matrix_transpose(w[f"{side}_weight"]), xp=xp)
            + w[f"{side}_bias"][:, None, :]
            for side in ("query", "key")
        )
        score = product(q / math.sqrt(2 * self.dim / self.heads), xp.matrix_transpose(k), xp=xp)
        return {"score": astype(score, dtype, xp)}

    def score(
        self, q: Axes, k: Axes, head: Array, constants: Constants, *, dtype: Any, xp: Any
    ) -> Array:
        """The product of the two positions; NaN where one has no vector."""
        del dtype
        (m,), (n,) = q, k
        outside = (m < 0) | (n < 0) | (m >= self.length) | (n >= self.length)
        m, n = (xp.where(outside, xp.zeros_like(p), p) for p in (m, n))
        if self.class_position == "untied":
            to_others, to_it = m == 0, (m != 0) & (n == 0)
            m, n = m + 1, n + 1
            m, n = (xp.where(to_others, xp.zeros_like(p), p) for p in (m, n))
            m, n = (xp.where(to_it, xp.ones_like(p), p) for p in (m, n))
        return marked(lookup(constants["score"], head, m, n, xp=xp), outside, math.nan, xp=xp)
