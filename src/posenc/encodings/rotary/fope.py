"""Rotations by Fourier series in place of single waves (FoPE)."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from decimal import Decimal, localcontext
from typing import Any, ClassVar, Literal, final

import numpy as np

from posenc._core.numeric.phase import cos_sin, steps
from posenc.encodings.rotary.base import (
    Array,
    Constants,
    Example,
    HeadedRotarySpec,
    Init,
    Ladder,
    PairingField,
    Parameter,
    Role,
    astype,
    at_least,
    bad_argument,
    context,
    device_of,
    pi,
    positive,
    product,
)


@final
@dataclass(frozen=True)
class FoPE(HeadedRotarySpec):
    """Fourier position embedding (Hua et al. 2024, arXiv:2412.17739).

        cos[h, p, j] = sum over i of  cos(p f[i]) * cos_weight[h, i, j]
        sin[h, p, j] = sum over i of  sin(p f[i]) * sin_weight[h, i, j]
        f[i]         = base ** (-2i / d),  only those of at least 2 pi / length

    Linear layers and nonlinearities spread what is at one frequency over others, so each pair has
    a series of waves instead of one. Frequencies that do not finish a turn within the trained
    length are left out, and their pairs stand still.

    Parameters
    ----------
    dim : int
        The rotated width d, a multiple of 4.
    heads : int
        Heads, each with weights of its own; 1 for weights that all share.
    pairing : {"half", "interleaved"} or Pairing
        Which channels form a pair; "half" in the published code.
    length : int
        The trained length.
    base : float
        10000 in the paper.
    gain : float
        Spread of the first weights around the wave of each pair itself: normal numbers of deviation
        gain * sqrt(2 / (s (r + heads))) for r waves and s pairs that turn.
    still : {"doubled", "plain"}
        Pairs beyond those that turn: `doubled` gives them 1 for both cosine and sine as the
        published code does, so that they count twice in a score. `plain` leaves them alone.

    Raises
    ------
    SpecError
        If a width cannot be, or no frequency is left.

    Notes
    -----
    As published, at most half of the pairs turn: min(waves, d / 4). The parameters are `cos_weight`
    and `sin_weight`, (heads, waves, turning pairs). Phases are exact before they are weighted.

    Series do not turn pairs by an angle: lengths change, there is no inverse, and a score depends
    on both positions, not on their difference alone, unless the weights are those of single waves.

    Examples
    --------
    >>> import numpy as np, posenc
    >>> spec = posenc.FoPE(8, heads=2, pairing="half", length=512)
    >>> {name: array.shape for name, array in posenc.init(spec).items()}
    {'cos_weight': (2, 2, 2), 'sin_weight': (2, 2, 2)}
    """

    dim: int
    _: KW_ONLY
    heads: int
    pairing: PairingField
    length: int
    base: float = 10_000.0
    gain: float = 0.3
    still: Literal["doubled", "plain"] = "doubled"

    example = Example({"heads": 1, "length": 512})
    paper = "hua2025fope"
    by_head: ClassVar = {"cos_weight": 0, "sin_weight": 0}

    def check(self) -> None:
        """Raise `SpecError` when the fields contradict each other."""
        self._require(self.dim >= 4 and self.dim % 4 == 0, "dim", "a multiple of 4")
        positive("FoPE", base=self.base)
        self._require(
            self.length >= 7,
            "length",
            "at least 7 positions, which the fastest wave needs for a turn",
        )
        at_least("FoPE", 0, gain=self.gain)
        self.channels.sizes(self.pairs)

    @property
    def waves(self) -> tuple[Decimal, ...]:
        """The frequencies that finish a turn within the trained length."""
        with localcontext(context()):
            least = 2 * pi() / self.length
            rungs = Ladder().rungs(self.base, count=self.pairs, width=self.dim)
            return tuple(f for f in rungs if f >= least)

    def constants(self) -> dict[str, np.ndarray]:
        """The steps of the waves."""
        return {"step": steps(self.waves)[None, :]}

    def parameters(self) -> dict[str, Parameter]:
        """The weights of the waves, of cosines and of sines."""
        count = len(self.waves)
        shape = (self.heads, count, min(count, self.dim // 4))
        return {name: Parameter(shape, Init()) for name in ("cos_weight", "sin_weight")}

    def initial(self, name: str, rng: np.random.Generator) -> np.ndarray:
        """The first weights, float32: one wave each, and a spread around it."""
        heads, waves, turning = self.shapes[name]
        deviation = self.gain * math.sqrt(2 / (turning * (waves + heads)))
        weights = deviation * rng.standard_normal((heads, waves, turning))
        apart = -(-waves // turning)
        for j in range(turning):
            if j * apart < waves:
                weights[:, j * apart, j] += 1
        return weights.astype(np.float32)

    def phasors(
        self, positions: Array, constants: Constants, *, dtype: Any, xp: Any
    ) -> tuple[Array, Array]:
        """Weighted cosines and sines: (..., 1) -> two arrays (..., pairs)."""
        cos, sin = cos_sin(positions, constants["step"], dtype=dtype, xp=xp)
        cos = _weighted(cos, astype(constants["cos_weight"], dtype, xp), xp)
        sin = _weighted(sin, astype(constants["sin_weight"], dtype, xp), xp)
        rest = (*cos.shape[:-1], self.pairs - cos.shape[-1])
        one = xp.ones(rest, dtype=dtype, device=device_of(cos))
        still = one if self.still == "doubled" else xp.zeros_like(one)
        return xp.concat([cos, one], axis=-1), xp.concat([sin, still], axis=-1)

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
        """The rotated part of an input: (..., dim) -> (..., dim)."""
        if inverse:
            raise bad_argument(
                "FoPE: inverse",
                "False",
                inverse,
                "It sums waves and turns by no angle: no way back.",
            )
        return super().turned(x, cos, sin, role, constants, inverse=False, xp=xp)


def _weighted(waves: Array, weight: Array, xp: Any) -> Array:
    """Waves (..., waves) times weights of one head, or of heads where the input has them."""
    if len(weight.shape) == 2:
        return product(waves, weight, xp=xp)
    if len(weight.shape) == 4:  # heads before the sequence: (heads, 1, waves, pairs)
        return product(waves, weight[:, 0, ...], xp=xp)
    if len(waves.shape) > 1 and waves.shape[-2] != 1:
        raise bad_argument(
            "FoPE: positions",
            "one position for all heads of a token, as x has (seq, heads, dim)",
            f"{waves.shape[-2]} of a token",
        )
    heads, count, pairs = weight.shape
    side_by_side = xp.reshape(xp.permute_dims(weight, (1, 0, 2)), (count, heads * pairs))
    found = product(waves[..., 0, :], side_by_side, xp=xp)
    return xp.reshape(found, (*found.shape[:-1], heads, pairs))
