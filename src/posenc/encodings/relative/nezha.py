"""Functional relative positions (Wei et al. 2019)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, final

import numpy as np

from posenc._core.numeric.matrix import pair_steps
from posenc._core.numeric.phase import cos_sin
from posenc.encodings.relative.base import (
    Array,
    Constants,
    Places,
    RelativeSpec,
    astype,
    at_least,
    even_width,
    not_too_many,
    positive,
    query_products,
    weighted_rows,
)


@final
@dataclass(frozen=True)
class NEZHA(RelativeSpec):
    """Functional relative positional encoding (Wei et al. 2019, arXiv:1909.00204).

        scores[m, n] = q[m] . (k[n] + a[r]) / sqrt(d)        r = clip(n - m, -clip, clip)
        out[m]       = sum_n weight[m, n] (v[n] + a[r])

        a[r][2j] = sin((r + start) f_j)    a[r][2j + 1] = cos((r + start) f_j)

    with f_j = base ** (-2j / d): the vectors of `Shaw`, computed and not learned, the same for all
    heads, keys and values.

    Parameters
    ----------
    dim : int
        Width d of a head, even.
    clip : int
        Largest distance that has a vector of its own.
    base : float
        As for sinusoidal tables.
    counts_from : {"first", "zero"}
        Whether the sines count from the first distance, as the authors' code has it (start = clip),
        or from 0 as in the paper (start = 0).

    Raises
    ------
    SpecError
        If the width is odd, or a number is out of range.

    Examples
    --------
    >>> import numpy as np, posenc
    >>> q = np.ones((1, 1, 2))
    >>> posenc.relative(posenc.NEZHA(2, clip=1), q, np.ones((1, 3, 2)), [0], [0, 1, 9]).round(4)
    array([[[1.3818, 0.4932, 0.4932]]])
    """

    dim: int
    _: KW_ONLY
    clip: int = 64
    base: float = 10_000.0
    counts_from: Literal["first", "zero"] = "first"

    paper = "wei2019nezha"
    on_values = True

    def check(self) -> None:
        """Raise `SpecError` when a number is out of range."""
        even_width("NEZHA", dim=self.dim)
        at_least("NEZHA", clip=self.clip)
        positive("NEZHA", base=self.base)

    def constants(self) -> dict[str, np.ndarray]:
        """The vector of each distance."""
        not_too_many("NEZHA", "numbers in vectors", (2 * self.clip + 1) * self.dim)
        first = 0 if self.counts_from == "first" else -self.clip
        rows = np.arange(first, first + 2 * self.clip + 1, dtype=np.int64)[:, None]
        cos, sin = cos_sin(rows, pair_steps(self.base, self.dim), dtype=np.float64, xp=np)
        return {"vectors": np.stack([sin, cos], axis=-1).reshape(len(rows), self.dim)}

    @property
    def clipping(self) -> tuple[tuple[int, int], bool]:
        """The ends of the distances, which are key - query."""
        return (-self.clip, self.clip), False

    def score(
        self, q: Array, k: Array, at: Places, constants: Constants, *, dtype: Any, xp: Any
    ) -> Array:
        """Q . a[r]."""
        del k
        return query_products(q, astype(constants["vectors"], dtype, xp), self.rows(at, xp), xp=xp)

    def values(
        self, weights: Array, at: Places, constants: Constants, *, dtype: Any, xp: Any
    ) -> Array:
        """Weighted vectors, sum_n weight[m, n] a[r]: one product for each query."""
        vectors = astype(constants["vectors"], dtype, xp)
        return weighted_rows(weights, vectors, self.rows(at, xp), xp=xp)
