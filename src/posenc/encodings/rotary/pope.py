"""Magnitude from the content, angle from the position (PoPE)."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, final

import numpy as np

from posenc._core.numeric.arrangement import Arrangement
from posenc._core.numeric.matrix import PhaseMatrix
from posenc.encodings.rotary.base import (
    Array,
    Constants,
    Example,
    Init,
    Ladder,
    PairingField,
    Parameter,
    Role,
    RotarySpec,
    astype,
    bad_argument,
    lift,
    positive,
    width_of,
)

SINGLE = Arrangement()
LADDER = Ladder(denominator="n")
TURN = 2 * math.pi


@final
@dataclass(frozen=True)
class PoPE(RotarySpec):
    """Polar coordinate position embedding (Gopalakrishnan et al. 2025, arXiv:2509.10534).

        q'[c] = softplus(q[c]) exp(i p f[c])
        k'[c] = softplus(k[c]) exp(i (p f[c] + delta[h, c]))        f[c] = base ** (-c / d)

    so that the score of a query at m and a key at n is the sum over channels of

        softplus(q[c]) softplus(k[c]) cos((n - m) f[c] + delta[h, c])

    In a rotation of pairs the angle of a pair of channels is content and position at once. Here
    the content is a size, and the angle is the position's alone.

    Parameters
    ----------
    dim : int
        The rotated width d. Each channel becomes a pair, so that queries and keys are twice as wide
        afterwards.
    heads : int
        Heads of the keys, each with offsets of its own; 1 for offsets that all share.
    pairing : {"half", "interleaved"} or Pairing
        Where the two channels of a pair stand in the result.
    base : float
        10000 in the paper.
    offset : {"zero", "uniform", "none"}
        How the learned offsets delta begin: as zeros, or uniform within a turn below zero. `none`:
        there are none.

    Raises
    ------
    SpecError
        If a number cannot be, or the pairing has blocks.

    Notes
    -----
    The parameter is `delta`, (heads, d), in radians, used within [-2 pi, 0] as by the published
    code. The phases of the positions are exact. There is no inverse, and no cosines and sines to
    hand around: the verb needs positions and roles.

    Examples
    --------
    >>> import numpy as np, posenc
    >>> spec = posenc.PoPE(2, heads=1, pairing="interleaved", offset="none")
    >>> posenc.rotate(spec, np.zeros((1, 2)), offset=1).round(4)
    array([[0.3745, 0.5833, 0.6931, 0.0069]])
    """

    dim: int
    _: KW_ONLY
    heads: int
    pairing: PairingField
    base: float = 10_000.0
    offset: Literal["zero", "uniform", "none"] = "zero"

    example = Example({"heads": 1})
    paper = "gopalakrishnan2025pope"
    by_head: ClassVar = {"delta": 0}
    sided = True  # keys have the offsets

    def check(self) -> None:
        """Raise `SpecError` when the fields contradict each other."""
        width_of("PoPE", dim=self.dim)
        positive("PoPE", base=self.base)
        self._require(
            not self.channels.blocks, "pairing", "a pairing in one block", self.channels.blocks
        )

    @property
    def pairs(self) -> int:
        """Number of pairs: one for each channel."""
        return self.dim

    @property
    def output_dim(self) -> int:
        """Channels that the rotated part has afterwards."""
        return 2 * self.dim

    @property
    def per_head(self) -> int | None:
        """The number of heads, where keys have offsets."""
        return None if self.offset == "none" else self.heads

    @property
    def matrix(self) -> PhaseMatrix:
        """The phases of the pairs."""
        return PhaseMatrix(self.base, LADDER, SINGLE, self.dim, 2 * self.dim, "exact")

    def parameters(self) -> dict[str, Parameter]:
        """The offsets of the keys, where there are any."""
        delta = Parameter((self.heads, self.dim), Init("constant", scale=0.0))
        return {} if self.offset == "none" else {"delta": delta}

    def initial(self, name: str, rng: np.random.Generator) -> np.ndarray:
        """The first offsets, float32."""
        if self.offset == "zero":
            return super().initial(name, rng)
        return (-TURN * rng.random((self.heads, self.dim))).astype(np.float32)

    def turned(
        self,
        x: Array,
        cos: Array,
        sin: Array,
        role: Role,
        constants: Constants,
        *,
        inverse: bool,
        xp: Any,
    ) -> Array:
        """The rotated part of an input, (..., dim) -> (..., 2 dim)."""
        if inverse:
            raise bad_argument(
                "PoPE: inverse", "False", inverse, "It keeps sizes and loses signs: no way back."
            )
        if role == "key" and self.offset != "none":
            delta = astype(constants["delta"], x.dtype, xp)
            delta = xp.where(delta > 0, xp.zeros_like(delta), delta)
            delta = xp.where(delta < -TURN, xp.full_like(delta, -TURN), delta)
            c, s = xp.cos(delta), xp.sin(delta)
            cos, sin = cos * c - sin * s, sin * c + cos * s
        size = xp.logaddexp(x, xp.zeros_like(x))
        return lift(size, cos, sin, self.channels, xp=xp)
