"""Products of sinusoidal positions as a bias (Chi et al. 2023)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, final

import numpy as np

from posenc._core.numeric.buckets import MOST_HEADS
from posenc._core.numeric.ladder import Ladder
from posenc._core.numeric.matrix import pair_steps
from posenc._core.numeric.phase import cos_sin
from posenc.encodings.bias.base import (
    Array,
    Axes,
    BiasSpec,
    Constants,
    astype,
    distance,
    even_width,
    not_too_many,
    positive,
)

AT_ONCE = 8  # pairs whose phases are held at the same time


@final
@dataclass(frozen=True)
class Sandwich(BiasSpec):
    """Sandwich: the product of two sinusoidal positions (Chi et al. 2023, arXiv:2212.10356).

        logits[h, m, n] += sum_j cos((m - n) base ** (-2j / d)) / (8 (h + 1) / H)

    with j from 0 to d/2 - 1. Sums of exact phases, so it keeps its digits at any distance.

    Parameters
    ----------
    heads : int
        Number H of heads of the whole model.
    dim : int
        Width d of the sinusoidal positions, even; a choice of its own, not that of the model.
    base : float
        As for sinusoidal tables.
    ladder : Ladder
        Rule of the frequencies. `Ladder(start=1)` counts j from 1 to d/2, as one public reading of
        the paper does; it also takes the sum less d/2, which a softmax does not see.
    compression : float
        The divisor of the last head.

    Raises
    ------
    SpecError
        If the width is odd or a number is not positive.

    Examples
    --------
    >>> import posenc
    >>> posenc.bias(posenc.Sandwich(heads=8, dim=4), [0], [0, 1], heads=(7, 8)).round(4)
    array([[[0.25  , 0.1925]]], dtype=float32)
    """

    heads: int
    _: KW_ONLY
    dim: int = 128
    base: float = 10_000.0
    ladder: Ladder = Ladder()
    compression: float = 8.0

    by_head: ClassVar = {"divisors": 0}
    paper = "chi2023dissecting"
    pointwise = False  # an entry is a sum over all pairs

    def check(self) -> None:
        """Raise `SpecError` when a number is out of range."""
        not_too_many("Sandwich", "heads", self.heads, MOST_HEADS)
        even_width("Sandwich", dim=self.dim)
        positive("Sandwich", base=self.base, compression=self.compression)
        self._require(
            not self.ladder.cos_shift, "ladder.cos_shift", "0, as the sum has cosines alone"
        )

    def constants(self) -> dict[str, np.ndarray]:
        """The steps of the pairs, a few at a time, and the divisor of each head."""
        step = pair_steps(self.base, self.dim, self.ladder)
        parts = {
            f"step_{j}": step[:, j : j + AT_ONCE].copy() for j in range(0, self.dim // 2, AT_ONCE)
        }
        return parts | {"divisors": np.arange(1, self.heads + 1) * self.compression / self.heads}

    def score(
        self, q: Axes, k: Axes, head: Array, constants: Constants, *, dtype: Any, xp: Any
    ) -> Array:
        """The sum of the cosines, over the divisor of each head in order."""
        del head
        rel = distance(q, k)[..., None]
        total: Any = 0.0
        for begin in range(0, self.dim // 2, AT_ONCE):
            cos, _ = cos_sin(rel, constants[f"step_{begin}"], dtype=dtype, xp=xp)
            total = total + xp.sum(cos, axis=-1)
        return total / astype(constants["divisors"], dtype, xp)[:, None, None]
