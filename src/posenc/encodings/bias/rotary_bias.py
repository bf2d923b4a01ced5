"""A product of two turned vectors as a bias (Ma et al. 2023)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, final

import numpy as np

from posenc._core.numeric.matrix import pair_steps
from posenc._core.numeric.phase import cos_sin
from posenc.encodings.bias.base import (
    Array,
    Axes,
    BiasSpec,
    Constants,
    Example,
    Init,
    Parameter,
    astype,
    distance,
    even_width,
    positive,
)

AT_ONCE = 8  # pairs whose phases are held at the same time


@final
@dataclass(frozen=True)
class RotaryBias(BiasSpec):
    """Rotary relative position bias (Ma et al. 2023, arXiv:2209.10655).

        logits[h, m, n] += R(m) alpha[h] . R(n) beta[h]
                         = sum_j a[h, j] cos((n - m) f_j) + b[h, j] sin((n - m) f_j)

    where R(m) turns the pairs of a learned vector as rotary embeddings do, with the frequencies
    f_j = base ** (-2j / d). So the bias is a learned sum of waves of the distance, without a table
    and without a longest length; phases are exact at any position.

    Parameters
    ----------
    heads : int
        Number of heads of the whole model, 1 in the paper.
    dim : int
        Width d of the two vectors, even. Channels j and j + d/2 are a pair.
    base : float
        As for sinusoidal tables.
    init : Init
        First values of the vectors.

    Raises
    ------
    SpecError
        If the width is odd or a number is not positive.

    Examples
    --------
    >>> import numpy as np, posenc
    >>> params = {"alpha": np.array([[1.0, 0.0]]), "beta": np.array([[0.0, 1.0]])}
    >>> posenc.bias(posenc.RotaryBias(heads=1, dim=2), [0], 3, params=params).round(4)
    array([[[ 0.    , -0.8415, -0.9093]]], dtype=float32)
    """

    heads: int
    _: KW_ONLY
    dim: int
    base: float = 10_000.0
    init: Init = Init(scale=0.02)

    by_head: ClassVar = {"alpha": 0, "beta": 0}
    example = Example({"dim": 16, "init": Init(scale=1.0)})
    paper = "ma2023mega"
    pointwise = False  # an entry is a sum over all pairs

    def check(self) -> None:
        """Raise `SpecError` when a number is out of range."""
        even_width("RotaryBias", dim=self.dim)
        positive("RotaryBias", base=self.base)

    def constants(self) -> dict[str, np.ndarray]:
        """The steps of the pairs, a few at a time."""
        step = pair_steps(self.base, self.dim)
        return {
            f"step_{j}": step[:, j : j + AT_ONCE].copy() for j in range(0, self.dim // 2, AT_ONCE)
        }

    def parameters(self) -> dict[str, Parameter]:
        """The two vectors of each head."""
        vector = Parameter((self.heads, self.dim), self.init)
        return {"alpha": vector, "beta": vector}

    def prepare(self, constants: Constants, *, dtype: Any, xp: Any) -> Constants:
        """The amplitudes of cosines and sines: (heads, pairs)."""
        alpha, beta = (astype(constants[name], dtype, xp) for name in self.shapes)
        half = self.dim // 2
        a1, a2, b1, b2 = alpha[:, :half], alpha[:, half:], beta[:, :half], beta[:, half:]
        return {**constants, "cosines": a1 * b1 + a2 * b2, "sines": a2 * b1 - a1 * b2}

    def score(
        self, q: Axes, k: Axes, head: Array, constants: Constants, *, dtype: Any, xp: Any
    ) -> Array:
        """The sum of the waves; `head` counts all heads in order."""
        del head
        rel = distance(q, k)[..., None]
        total: Any = 0.0
        pairs = self.dim // 2
        for begin in range(0, pairs, AT_ONCE):
            cos, sin = cos_sin(rel, constants[f"step_{begin}"], dtype=dtype, xp=xp)
            part = slice(begin, min(begin + AT_ONCE, pairs))
            a, b = (constants[name][:, None, None, part] for name in ("cosines", "sines"))
            total = total + xp.sum(a * cos + b * sin, axis=-1)
        return total
