"""Translation-invariant self-attention (Wennberg and Henter 2021)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, final

import numpy as np

from posenc.encodings.bias.base import (
    Array,
    Axes,
    BiasSpec,
    Constants,
    Init,
    Parameter,
    astype,
    at_least,
    distance,
    lookup,
    summed,
)


@final
@dataclass(frozen=True)
class TISA(BiasSpec):
    """Translation-invariant self-attention (Wennberg and Henter 2021, arXiv:2106.01950).

        logits[h, m, n] += sum_s amplitude[s, h] exp(-|sharpness[s, h]| (n - m - offset[s, h])^2)

    A few bumps for each head, each with a place, a height and a width of its own.

    Parameters
    ----------
    heads : int
        Number of heads of the whole model.
    kernels : int
        Number S of bumps of each head.
    amplitude, sharpness : float
        What first amplitudes and sharpnesses are, up to normal noise of a tenth of it.
    offset : float
        Standard deviation of the first offsets.

    Raises
    ------
    SpecError
        If there are no kernels, or too many, or a standard deviation is negative.

    Notes
    -----
    The authors' code takes f(m - n - 1) for f(n - m), the same bumps at other offsets: its offset c
    is -c - 1 here.

    Examples
    --------
    >>> import numpy as np, posenc
    >>> one = np.ones((1, 1))
    >>> params = {"amplitude": 2 * one, "sharpness": one, "offset": -one}
    >>> posenc.bias(posenc.TISA(heads=1, kernels=1), [2], [0, 1, 2], params=params).round(4)
    array([[[0.7358, 2.    , 0.7358]]], dtype=float32)
    """

    heads: int
    _: KW_ONLY
    kernels: int = 5
    amplitude: float = 0.1
    sharpness: float = 0.1
    offset: float = 5.0

    by_head: ClassVar = {"amplitude": 1, "sharpness": 1, "offset": 1}
    paper = "wennberg2021case"

    def check(self) -> None:
        """Raise `SpecError` when a number is out of range."""
        self._require(1 <= self.kernels <= 64, "kernels", "1 to 64")
        at_least("TISA", 0, offset=self.offset)

    def parameters(self) -> dict[str, Parameter]:
        """Height, width and place of each bump."""
        shape = (self.kernels, self.heads)
        return {
            "amplitude": Parameter(shape, Init(scale=0.1)),
            "sharpness": Parameter(shape, Init(scale=0.1)),
            "offset": Parameter(shape, Init(scale=self.offset)),
        }

    def initial(self, name: str, rng: np.random.Generator) -> np.ndarray:
        """Offsets around 0, the others around their mean, as in the authors' code."""
        drawn = super().initial(name, rng)
        if name == "offset":
            return drawn
        return np.asarray(getattr(self, name) * (1 + drawn), dtype=np.float32)

    def score(
        self, q: Axes, k: Axes, head: Array, constants: Constants, *, dtype: Any, xp: Any
    ) -> Array:
        """The sum of the bumps."""
        rel = astype(distance(q, k), dtype, xp)

        def bump(s: int) -> Array:
            height, width, place = (
                astype(lookup(constants[name], head * 0 + s, head, xp=xp), dtype, xp)
                for name in self.shapes
            )
            return height * xp.exp(-xp.abs(width) * (rel - place) ** 2)

        return summed(map(bump, range(self.kernels)))
