"""Interpolation by wavelength with a ramp between, and a sharper softmax (YaRN)."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, final

from posenc._core.numeric.ladder import FLOAT, Array, Float32Rungs, Number, RungArithmetic, Rungs
from posenc.scaling.base import Scaling

APART = 0.001  # between bounds of the ramp that fall together: it becomes a step


@final
@dataclass(frozen=True)
class YaRN(Scaling):
    """Yet another RoPE extension (Peng et al. 2023, arXiv:2309.00071).

        f'[j] = f[j] * (1 - t[j]) + f[j] / factor * t[j]

    The paper's ramp is linear in the turns a pair completes within the original length,

        t = 1 - clamp((turns - beta_slow) / (beta_fast - beta_slow), 0, 1)

    the authors' code, which is what models were trained with, has one linear in the index,

        c(r) = d ln(original_length / (2 pi r)) / (2 ln base)
        t    = clamp((j - low) / (high - low), 0, 1)       low, high = c(beta_fast), c(beta_slow)

    with both bounds held within 0 and d - 1. The attention factor is m(mscale) / m(mscale_all_dim),
    where m(k) = 0.1 k ln(factor) + 1; where it acts is a field of `RotaryMagnitude`.

    Parameters
    ----------
    factor : float
        At least 1: what the slow frequencies are divided by.
    original_length : int
        Length of training before the extension.
    beta_fast, beta_slow : float
        Pairs with more turns than the first are kept, those with fewer than the second stretched.
        Where they are equal, the ramp of the index is what rounding makes of one bound, or a step.
    ramp : {"index", "turns"}
        The ramp of the code, or of the paper.
    rounding : {"outward", "none"}
        Whether the bounds of the index ramp are rounded outward to whole indices.
    mscale, mscale_all_dim : float
        See above. With `RotaryMagnitude(logit_factor="scaling")` the softmax scale is multiplied by
        m(mscale_all_dim) ** 2 as well.

    Examples
    --------
    >>> import posenc
    >>> scaling = posenc.scaling.YaRN(32, original_length=4096)
    >>> rope = posenc.RoPE(64, base=150_000, pairing="half", scaling=scaling)
    >>> plain = posenc.RoPE(64, base=150_000, pairing="half")
    >>> (posenc.frequencies(plain) / posenc.frequencies(rope))[[0, -1]].round(12)
    array([ 1., 32.])
    >>> round(scaling.attention_factor(), 4)
    1.3466
    """

    factor: float
    _: KW_ONLY
    original_length: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    ramp: Literal["index", "turns"] = "index"
    rounding: Literal["outward", "none"] = "outward"
    mscale: float = 1.0
    mscale_all_dim: float = 0.0
    geometric: ClassVar[bool] = True

    def check(self) -> None:
        """Raise `SpecError` when the fields contradict each other."""
        self._check_stretch()
        slow, fast = self.beta_slow, self.beta_fast
        self._require(
            0 < slow < fast or (0 < slow == fast and self.ramp == "index"),
            "",
            "0 < beta_slow < beta_fast, or equal with the ramp of the index",
            f"{slow} and {fast}",
        )

    def _m(self, k: float) -> float:
        return 0.1 * k * math.log(self.factor) + 1.0 if self.factor > 1 else 1.0

    def attention_factor(self) -> float:
        """The factor on cosines and sines."""
        return self._m(self.mscale) / self._m(self.mscale_all_dim)

    def logit_factor(self) -> float:
        """The factor on the softmax scale."""
        return self._m(self.mscale_all_dim) ** 2

    def bounds(self, base: Number, width: int, numbers: RungArithmetic) -> tuple[Number, Number]:
        """The indices between which the ramp of the code rises."""
        low, high = (
            turning_index(turns, self.original_length, base, width, numbers)
            for turns in (self.beta_fast, self.beta_slow)
        )
        if self.rounding == "outward":
            low, high = numbers.number(math.floor(low)), numbers.number(math.ceil(high))
        low, high = max(low, numbers.number(0)), min(high, numbers.number(width - 1))
        self._require(
            low <= high,
            "original_length",
            "a length in which some pair completes more than beta_slow turns",
        )
        return (low, high + numbers.number(APART)) if low == high else (low, high)

    def share(self, rungs: Rungs) -> list[Number]:
        """How far each rung is interpolated: the t above, from 0 to 1."""
        zero, one = rungs.numbers.number(0), rungs.numbers.number(1)
        if self.ramp == "turns":
            number = rungs.numbers.number
            slow, fast = number(self.beta_slow), number(self.beta_fast)
            unit = number(self.original_length) / (2 * rungs.numbers.pi())
            raw = [(f * unit - slow) / (fast - slow) for f in rungs.frequencies]
            return [one - min(max(t, zero), one) for t in raw]
        low, high = self.bounds(rungs.base, rungs.width, rungs.numbers)
        return [
            min(max((j - low) / (high - low), zero), one) for j in range(len(rungs.frequencies))
        ]

    def scale(self, rungs: Rungs) -> Rungs:
        """The scaled ladder."""
        factor = rungs.numbers.number(self.factor)
        pairs = zip(rungs.frequencies, self.share(rungs), strict=True)
        return rungs.with_frequencies([f * (1 - t) + f / factor * t for f, t in pairs])

    def float32(self, rungs: Float32Rungs, *, xp: Any) -> Array:
        """The same in float32."""
        if self.ramp == "turns":
            turns = rungs.frequencies * (self.original_length / (2 * math.pi))
            kept = xp.clip((turns - self.beta_slow) / (self.beta_fast - self.beta_slow), 0.0, 1.0)
        else:
            low, high = self.bounds(rungs.base, rungs.width, FLOAT)
            kept = 1 - xp.clip((rungs.index - low) / (high - low), 0.0, 1.0)
        return (1.0 / (self.factor * rungs.periods)) * (1 - kept) + rungs.frequencies * kept


def turning_index(
    turns: float, length: int, base: Number, width: int, numbers: RungArithmetic
) -> Number:
    """The index, a fraction, of the pair that makes so many turns within a length."""
    number = numbers.number
    wavelengths = numbers.ln(number(length) / (number(turns) * 2 * numbers.pi()))
    return width * wavelengths / (2 * numbers.ln(base))
