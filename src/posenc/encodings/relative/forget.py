"""Forget gates on attention (Lin et al. 2025)."""

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
class ForgetGates(HeadedRelativeSpec):
    """Forgetting attention (Lin, Nikishin, He and Courville 2025, arXiv:2503.02130).

        scores[h, m, n] = q[m] . k[n] / sqrt(d) + sum over n < l <= m of ln f[h, l]

        f[h, l] = sigmoid(w[h] . x[l] + b[h])

    A slope that each token sets for itself: with the same gate everywhere it is `ALiBi`. Keys after
    the query get 0, and are left to a mask.

    Parameters
    ----------
    dim : int
        Width of what the gates see.
    count : int
        Number of heads.
    start : float
        First value of the biases b; large ones forget little.
    init : Init
        First values of w.

    Raises
    ------
    SpecError
        If a number is below 1.

    Notes
    -----
    x is what is given in the place of the keys; queries play no part. The paper has the input of
    the layer there, the same for all heads: pass that, repeated for each head, to
    `posenc.relative`. Keys must stand in the order of their positions.

    Examples
    --------
    >>> import posenc
    >>> spec = posenc.ForgetGates(64, count=8)
    >>> {name: a.shape for name, a in posenc.init(spec).items()}
    {'weight': (8, 64), 'bias': (8,)}
    """

    dim: int
    _: KW_ONLY
    count: int
    start: float = 0.0
    init: Init = Init(scale=0.02)

    by_head: ClassVar = {"weight": 0, "bias": 0}
    example = Example({"count": 1})
    paper = "lin2025forgetting"
    place = "after"
    sums_over_keys = True

    def parameters(self) -> dict[str, Parameter]:
        """The weights and the bias of each head's gate."""
        return {
            "weight": Parameter((self.count, self.dim), self.init),
            "bias": Parameter((self.count,), Init("constant", scale=self.start)),
        }

    def score(
        self, q: Array, k: Array, at: Places, constants: Constants, *, dtype: Any, xp: Any
    ) -> Array:
        """The logarithms of the gates between key and query, summed from the query on."""
        del q
        weight, bias = (astype(constants[name], dtype, xp) for name in ("weight", "bias"))
        logits = product(k, weight[..., None], xp=xp)[..., 0] + bias[:, None]
        # ln sigmoid(x) without overflow: min(x, 0) - ln(1 + exp(-|x|)).
        low = xp.where(logits < 0, logits, xp.zeros_like(logits))
        kept = (low - xp.log1p(xp.exp(-xp.abs(logits))))[..., None, :]
        kept = xp.where(at.rel <= 0, kept, xp.zeros_like(kept))
        # From the nearest key on, so that sums of neighbours are not differences of large sums.
        summed = xp.cumulative_sum(xp.flip(kept, axis=-1), axis=-1)
        # One more and then cut: export would ask whether one less is a single one.
        longer = xp.concat([xp.zeros_like(summed[..., :1]), summed], axis=-1)
        return xp.flip(longer[..., :-1], axis=-1)
