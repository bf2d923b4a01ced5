"""Reflections that each token makes, accumulated along the path (Yang et al. 2025)."""

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
    device_of,
    product,
    solved,
)

TINY = 1e-6  # below the root of the squared length, as in the authors' code


@final
@dataclass(frozen=True)
class PaTH(HeadedRelativeSpec):
    """PaTH attention (Yang et al. 2025, arXiv:2505.16381).

        scores[h, m, n] = q[m] . H[m] H[m - 1] … H[n + 1] k[n] / sqrt(d)

        H[l]    = I - beta[l] w[l] w[l]'
        w[l]    = W[h] k[l] / |W[h] k[l]|          beta[l] = 2 sigmoid(u[h] . k[l] + b[h])

    Each token between key and query reflects or shrinks one direction, which it chooses itself, so
    positions follow from content. Keys after the query are left as they are, for a mask.

    Parameters
    ----------
    dim : int
        Width d of a head.
    count : int
        Number of heads.
    init : Init
        First values of W and u; b begins as 0.

    Raises
    ------
    SpecError
        If a number is below 1.

    Notes
    -----
    The authors' layer forms w and beta from its input, by projections of low rank and a convolution
    over three tokens; here they are formed from the keys. Given the same w and beta, the scores are
    those of `naive_path_attn` of fla-core. Keys must stand in the order of their positions. Memory
    grows with the square of the number of keys, as all pairs of keys meet.

    Examples
    --------
    >>> import posenc
    >>> spec = posenc.PaTH(64, count=8)
    >>> {name: a.shape for name, a in posenc.init(spec).items()}
    {'direction': (8, 64, 64), 'strength': (8, 64), 'bias': (8,)}
    """

    dim: int
    _: KW_ONLY
    count: int
    init: Init = Init(scale=0.02)

    by_head: ClassVar = {"direction": 0, "strength": 0, "bias": 0}
    example = Example({"count": 1})
    paper = "yang2025path"
    sums_over_keys = True

    def parameters(self) -> dict[str, Parameter]:
        """What gives each head its directions and strengths."""
        return {
            "direction": Parameter((self.count, self.dim, self.dim), self.init),
            "strength": Parameter((self.count, self.dim), self.init),
            "bias": Parameter((self.count,), Init("constant", scale=0.0)),
        }

    def score(
        self, q: Array, k: Array, at: Places, constants: Constants, *, dtype: Any, xp: Any
    ) -> Array:
        """What the reflections between key and query add to q . k, all at once."""
        direction, strength, bias = (astype(constants[name], dtype, xp) for name in self.shapes)
        w = product(k, xp.matrix_transpose(direction), xp=xp)
        w = w / xp.sqrt(xp.sum(w * w, axis=-1, keepdims=True) + TINY)
        logits = product(k, strength[..., None], xp=xp)[..., 0] + bias[:, None]
        beta = (2 / (1 + xp.exp(-logits)))[..., None]
        # A product of reflections is I less a sum over chains of tokens, which is a triangular
        # system: (I + L) x = beta w . k, where L holds beta w . w of each token and those before.
        before = xp.tril(beta * product(w, xp.matrix_transpose(w), xp=xp), k=-1)
        system = before + xp.eye(k.shape[-2], dtype=dtype, device=device_of(k))
        after_key = xp.tril(beta * product(w, xp.matrix_transpose(k), xp=xp), k=-1)
        met = product(q, xp.matrix_transpose(w), xp=xp)
        met = xp.where(at.rel <= 0, met, xp.zeros_like(met))
        return -product(met, solved(system, after_key, xp=xp), xp=xp)
