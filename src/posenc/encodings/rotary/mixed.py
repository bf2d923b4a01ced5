"""Rotations by learned frequencies: a matrix of its own for every head (RoPE-Mixed)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, final

import numpy as np

from posenc.encodings.rotary.base import (
    Array,
    Constants,
    Example,
    Init,
    PairingField,
    Parameter,
    SpatialRotarySpec,
    distinct,
    even_width,
    positive,
)


@final
@dataclass(frozen=True)
class MixedRoPE(SpatialRotarySpec):
    """RoPE-Mixed (Heo et al. 2024, arXiv:2403.13298): each pair turns by a learned mix of the axes.

        angle[h, p, j] = sum over axes a of  position[p, a] * frequencies[h, a, j]

    Parameters
    ----------
    dim : int
        The rotated width, even.
    heads : int
        Heads, each with a matrix of its own; 1 for a matrix that all share.
    pairing : {"half", "interleaved"} or Pairing
        Which channels form a pair.
    space : tuple of str
        Names of the axes of a position.
    base : float
        Of the magnitudes at initialisation, `base ** (-j / n)` for each of `directions` directions;
        10 in the paper.
    init : {"rotated", "axial", "normal"}
        `rotated`: the first half of the pairs along a random direction of the first two axes, the
        second half along the perpendicular (the paper's). `axial`: equal shares along each axis.
        `normal`: independent Gaussian entries.

    Raises
    ------
    SpecError
        If the width is odd, or the pairs cannot be shared out.

    Notes
    -----
    The parameters are `{"frequencies": (heads, axes, pairs)}`, and gradients flow to them. The
    angle is a product of floats: in float32 the error of cos and sin is about
    1.2e-7 * (1 + |angle|), so this is for grids, not for the millionth token.

    Examples
    --------
    >>> import numpy as np, posenc
    >>> spec = posenc.MixedRoPE(4, heads=1, pairing="half")
    >>> params = {"frequencies": np.ones((1, 2, 2))}
    >>> posenc.rotate(spec, np.ones((1, 1, 4)), positions=[[1, 2]], params=params).round(3)
    array([[[-1.131, -1.131, -0.849, -0.849]]])
    """

    dim: int
    _: KW_ONLY
    heads: int
    pairing: PairingField
    space: tuple[str, ...] = ("x", "y")
    base: float = 10.0
    init: Literal["rotated", "axial", "normal"] = "rotated"

    example = Example({"heads": 1})
    paper = "heo2024ropevit"
    by_head: ClassVar = {"frequencies": 0}

    def check(self) -> None:
        """Raise `SpecError` when the fields contradict each other."""
        even_width("MixedRoPE", dim=self.dim)
        positive("MixedRoPE", base=self.base)
        names = self.space
        distinct("MixedRoPE", "distinct names", space=names)
        self._require(
            self.init != "rotated" or (len(names) == 2 and self.pairs % 2 == 0),
            "init='rotated'",
            "two axes and an even number of pairs",
            f"{names} and {self.pairs}",
        )
        self._require(
            self.init != "axial" or self.pairs % len(names) == 0,
            "init='axial'",
            f"a number of pairs divisible by {len(names)}",
            self.pairs,
        )
        self.channels.sizes(self.pairs)

    def parameters(self) -> dict[str, Parameter]:
        """The frequencies of each head; they begin as `init` says."""
        shape = (self.heads, len(self.space), self.pairs)
        return {"frequencies": Parameter(shape, Init("normal", scale=1.0))}

    def initial(self, name: str, rng: np.random.Generator) -> np.ndarray:  # noqa: ARG002
        """The first frequencies, float32: (heads, axes, pairs)."""
        return self._initial(rng).astype(np.float32)

    def _initial(self, rng: np.random.Generator) -> np.ndarray:
        axes = len(self.space)
        if self.init == "normal":
            return rng.normal(size=(self.heads, axes, self.pairs))
        share = self.pairs // axes
        sizes = self.base ** (-np.arange(share) / share)
        if self.init == "axial":
            return np.broadcast_to(
                np.kron(np.eye(axes), sizes), (self.heads, axes, self.pairs)
            ).copy()
        turned = rng.uniform(0, 2 * np.pi, size=(self.heads, 1))
        angle = np.concatenate([turned, turned + np.pi / 2], axis=1).repeat(share, axis=1)
        return np.stack([np.cos(angle), np.sin(angle)], axis=1) * np.tile(sizes, 2)

    def phasors(
        self, positions: Array, constants: Constants, *, dtype: Any, xp: Any
    ) -> tuple[Array, Array]:
        """Cosines and sines of the angles: (..., axes) -> two arrays (..., pairs)."""
        return mixed_phasors(positions, constants["frequencies"], dtype=dtype, xp=xp)


def mixed_phasors(
    positions: Array, frequencies: Array, *, dtype: Any, xp: Any
) -> tuple[Array, Array]:
    """Cosines and sines of learned directions times positions.

    (..., axes) and (..., axes, pairs) -> two arrays (..., pairs)
    """
    frequencies, real = xp.astype(frequencies, dtype), xp.astype(positions, dtype)
    angles = real[..., 0, None] * frequencies[..., 0, :]
    for a in range(1, positions.shape[-1]):
        angles = angles + real[..., a, None] * frequencies[..., a, :]
    return xp.cos(angles), xp.sin(angles)
