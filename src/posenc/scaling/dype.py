"""A stretch that fades as an image is denoised (DyPE)."""

from __future__ import annotations

import math
import operator
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, final

from posenc._core.numeric.ladder import FLOAT, Array, Float32Rungs, Number, RungArithmetic, Rungs
from posenc.scaling.base import Scaling
from posenc.scaling.multipliers import beside
from posenc.scaling.yarn import APART, turning_index

LINEAR = (1.25, 0.75)  # turns: pairs with fewer are stretched linearly, with more as in NTK
NONE = 1e-200  # in place of no noise: both ends of a ramp lie behind the last pair
PLAIN = (16.0, 2.0)  # turns: pairs with more are kept


@final
@dataclass(frozen=True)
class DyPE(Scaling):
    """Dynamic position extrapolation, at one noise level (Issachar et al. 2025, arXiv:2510.20766).

        f'[j] = (1 - v) f[j] + v ((1 - u) f[j] / factor ** (2j / (d - 2)) + u f[j] / factor)

    u and v are ramps, linear in the index from 0 to 1: u between the indices of the pairs with 1.25
    and 0.75 turns within the original length, v between those with 16 and 2, all four numbers of
    turns multiplied by noise ** 2. The index of r turns is

        c(r) = d ln(original_length / (2 pi r)) / (2 ln base)

    rounded outward and held within 0 and d / 2. So pure noise is stretched most, and fine detail
    the least. The attention factor is 0.1 ln(factor) + 1 at every level.

    Parameters
    ----------
    factor : float
        At least 1: positions of the axis over `original_length`.
    noise : float
        From 0 (the finished image) to 1 (pure noise): the timestep over 1000, the sigma of flow
        matching. One spec belongs to one level: make one for each step.
    original_length : int
        Positions of the axis in training: 64 for 1024 pixels in Flux.

    Raises
    ------
    SpecError
        If the factor is below 1 or the noise outside 0 to 1.

    Notes
    -----
    This is what the authors call `yarn`; their `ntk` is `NTK(factor ** (2 * noise**2))`.
    Each axis has a factor of its own, in a `PerAxis`; the authors leave an axis that is not longer
    than in training as it was. Where both ends of a ramp lie behind the last pair (noise below 0.03
    in Flux), the formula keeps every pair, as here; the authors' code turns the ramp around there
    and divides by the factor.

    Examples
    --------
    >>> import posenc
    >>> early, late = (posenc.scaling.DyPE(4, noise, original_length=64) for noise in (1, 0.1))
    >>> plain = posenc.RoPE(56, pairing="interleaved")
    >>> ropes = [plain.replace(scaling=rule) for rule in (early, late)]
    >>> [(posenc.frequencies(plain) / posenc.frequencies(rope))[9].round(4) for rope in ropes]
    [np.float64(4.0), np.float64(1.0)]
    """

    factor: float
    noise: float
    _: KW_ONLY
    original_length: int
    geometric: ClassVar[bool] = True

    def check(self) -> None:
        """Raise `SpecError` for a factor, noise or length that is none."""
        self._check_stretch()
        self._require(0 <= self.noise <= 1, "noise", "a level from 0 to 1, such as timestep / 1000")

    def attention_factor(self) -> float:
        """The factor on cosines and sines."""
        return 0.1 * math.log(self.factor) + 1.0

    def _ramp(self, turns: tuple[float, float], rungs: Any, numbers: RungArithmetic) -> Any:
        """The index at which a ramp begins, and over how many it rises."""
        end, kappa = rungs.width // 2, max(self.noise**2, NONE)
        indices = [
            turning_index(r * kappa, self.original_length, rungs.base, rungs.width, numbers)
            for r in turns
        ]
        low, high = math.floor(indices[0]), math.ceil(indices[1])
        low, high = min(max(low, 0), end), min(max(high, 0), end)
        return numbers.number(low), numbers.number(high - low or APART)

    def _ratios(self, rungs: Any, count: int, numbers: RungArithmetic) -> list[Number]:
        """What each frequency is multiplied by."""
        self._require(
            rungs.width > 2, "", "at least 2 pairs to an axis", f"a width of {rungs.width}"
        )
        factor, one = numbers.number(self.factor), numbers.number(1)
        slower = numbers.ln(factor) * 2 / (rungs.width - 2)
        ratios = [numbers.exp(-slower * j) for j in range(count)]
        for turns, kept in ((LINEAR, False), (PLAIN, True)):
            first, span = self._ramp(turns, rungs, numbers)
            shares = [min(max((j - first) / span, 0 * one), one) for j in range(count)]
            ratios = [
                (1 - t) + t * r if kept else (1 - t) * r + t / factor
                for t, r in zip(shares, ratios, strict=True)
            ]
        return ratios

    def scale(self, rungs: Rungs) -> Rungs:
        """The scaled ladder."""
        ratios = self._ratios(rungs, len(rungs.frequencies), rungs.numbers)
        return rungs.with_frequencies([*map(operator.mul, rungs.frequencies, ratios)])

    def float32(self, rungs: Float32Rungs, *, xp: Any) -> Array:
        """The same in float32."""
        return rungs.frequencies * beside(
            tuple(self._ratios(rungs, rungs.index.shape[0], FLOAT)), rungs.frequencies, xp
        )
