"""Quadratic positions, which make attention a convolution (Cordonnier et al. 2020)."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, final

import numpy as np

from posenc.encodings.bias.base import (
    Array,
    Axes,
    BiasSpec,
    Constants,
    Example,
    Init,
    Parameter,
    astype,
    lookup,
    positive,
)


@final
@dataclass(frozen=True)
class Quadratic(BiasSpec):
    """Quadratic encoding (Cordonnier, Loukas and Jaggi 2020, arXiv:1911.03584).

        centre    logits[h, m, n] += -alpha[h] |n - m - centre[h]|^2
        free      logits[h, m, n] += weight[h] . (r_r, r_c, r_r^2 + r_c^2) + shift[h]     r = n - m

    with m and n cells of an image. Each head looks at the neighbour that its centre names, the more
    sharply the larger alpha; the second form is the first with its coefficients set free.

    Parameters
    ----------
    heads : int
        Number of heads of the whole model.
    form : {"centre", "free"}
        What is learned.
    sharpness : float
        First value of alpha.

    Raises
    ------
    SpecError
        If the sharpness is not positive.

    Notes
    -----
    The centres begin as the cells of a square around the query, one for each head, as a convolution
    has them. Gated positional self-attention (d'Ascoli et al. 2021, arXiv:2103.10697) takes the
    free form, and mixes its softmax with that of the content by a gate for each head: that needs
    both softmaxes, and is the caller's.

    Examples
    --------
    >>> import posenc
    >>> posenc.init(posenc.Quadratic(heads=9))["centre"][:4].tolist()
    [[-1.0, -1.0], [0.0, -1.0], [1.0, -1.0], [-1.0, 0.0]]
    """

    heads: int
    _: KW_ONLY
    form: Literal["centre", "free"] = "centre"
    sharpness: float = 1.0

    by_head: ClassVar = {"alpha": 0, "centre": 0, "weight": 0, "shift": 0}
    example = Example(unsuited="Its positions are cells of a grid.")
    paper = "cordonnier2020relationship"
    axes = ("row", "column")

    def check(self) -> None:
        """Raise `SpecError` when a number is out of range."""
        positive("Quadratic", sharpness=self.sharpness)

    def parameters(self) -> dict[str, Parameter]:
        """A place and a sharpness for each head, or the coefficients."""
        first, zeros = (Init("constant", scale=scale) for scale in (self.sharpness, 0.0))
        if self.form == "centre":
            return {
                "alpha": Parameter((self.heads,), first),
                "centre": Parameter((self.heads, 2), zeros),
            }
        return {
            "weight": Parameter((self.heads, 3), first),
            "shift": Parameter((self.heads,), zeros),
        }

    def initial(self, name: str, rng: np.random.Generator) -> np.ndarray:
        """Heads on the cells of a square around the query."""
        side = math.isqrt(self.heads - 1) + 1
        middle = (side - 1) / 2 if side % 2 == 0 else side // 2
        columns, rows = np.divmod(np.arange(self.heads), side)
        cells = np.stack([rows, columns], axis=-1) - middle
        if name == "centre":
            return cells.astype(np.float32)
        if name == "weight":
            # -alpha |r - c|^2 without its constant, which no softmax sees.
            whole = np.concatenate([2 * cells, np.full((self.heads, 1), -1.0)], axis=-1)
            return np.asarray(self.sharpness * whole, dtype=np.float32)
        return super().initial(name, rng)

    def score(
        self, q: Axes, k: Axes, head: Array, constants: Constants, *, dtype: Any, xp: Any
    ) -> Array:
        """The square of the distance to the centre, or the polynomial."""
        rows, columns = (astype(n - m, dtype, xp) for m, n in zip(q, k, strict=True))

        def of(name: str, *place: int) -> Array:
            index = (head, *(head * 0 + p for p in place))
            return astype(lookup(constants[name], *index, xp=xp), dtype, xp)

        if self.form == "centre":
            rows, columns = rows - of("centre", 0), columns - of("centre", 1)
            return -of("alpha") * (rows * rows + columns * columns)
        square = rows * rows + columns * columns
        linear = of("weight", 0) * rows + of("weight", 1) * columns
        return linear + of("weight", 2) * square + of("shift")
