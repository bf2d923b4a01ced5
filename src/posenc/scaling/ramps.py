"""Ramps from pair to pair, between bounds in turns (YaRN, DyPE, MrRoPE)."""

from __future__ import annotations

import math
import operator
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, final

from posenc._core.arrays.array import concrete
from posenc._core.numeric.ladder import FLOAT, Array, Float32Rungs, Number, RungArithmetic, Rungs
from posenc.scaling.base import Scaling, require_factor, require_length
from posenc.scaling.frequencies import beside

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
        require_factor(self.factor, "YaRN")
        require_length(self.original_length, "YaRN")
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
        require_factor(self.factor, "DyPE")
        require_length(self.original_length, "DyPE")
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
        ratios = (*self._ratios(rungs, rungs.index.shape[0], FLOAT),)
        return rungs.frequencies * beside(ratios, rungs.frequencies, xp)


@final
@dataclass(frozen=True)
class MrRoPE(Scaling):
    """Mixed-radix RoPE (Tian et al. 2026, arXiv:2601.22181).

    Each pair is a digit of the position, and the radix of the digits between two pairs grows:

        f'[j] = f[j] / factor ** e[j]       t = clamp(j - low, 0, n)       n = high - low
        e[j]  = t (t + 1) / (n (n + 1))     progressive: MrRoPE-Pro
        e[j]  = t / n                       uniform: MrRoPE-Uni

    `low` is the last pair with more than `beta_fast` turns within the original length, `high` the
    first with fewer than `beta_slow`. The attention factor is that of YaRN, 0.1 ln(factor) + 1.

    Parameters
    ----------
    factor : float
        At least 1: what the slow frequencies are divided by.
    original_length : int
        Length of training before the extension.
    radix : {"progressive", "uniform"}
        How the radix grows from pair to pair.
    beta_fast, beta_slow : float
        Turns: see above.

    Raises
    ------
    SpecError
        If every pair completes `beta_slow` turns, so that `high` does not exist.

    Notes
    -----
    Where no pair completes `beta_fast` turns, `low` is 0. The authors' code was not to be had: the
    formula is that of the paper, in the form of two independent reproductions of it.

    Examples
    --------
    >>> import posenc
    >>> scaling = posenc.scaling.MrRoPE(16, original_length=8192)
    >>> rope = posenc.RoPE(128, base=500_000, pairing="half", scaling=scaling)
    >>> plain = posenc.RoPE(128, base=500_000, pairing="half")
    >>> (posenc.frequencies(plain) / posenc.frequencies(rope))[[18, 27, 35]].round(4)
    array([ 1.    ,  2.2602, 16.    ])
    """

    factor: float
    _: KW_ONLY
    original_length: int
    radix: Literal["progressive", "uniform"] = "progressive"
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    geometric: ClassVar[bool] = True

    def check(self) -> None:
        """Raise `SpecError` when the fields contradict each other."""
        require_factor(self.factor, "MrRoPE")
        require_length(self.original_length, "MrRoPE")
        slow, fast = self.beta_slow, self.beta_fast
        self._require(0 < slow < fast, "", "0 < beta_slow < beta_fast", f"{slow} and {fast}")

    def attention_factor(self) -> float:
        """The factor on cosines and sines."""
        return 0.1 * math.log(self.factor) + 1.0

    def scale(self, rungs: Rungs) -> Rungs:
        """The scaled ladder."""
        number = rungs.numbers.number
        unit = number(self.original_length) / (2 * rungs.numbers.pi())
        turns = [f * unit for f in rungs.frequencies]
        low = max(sum(t > number(self.beta_fast) for t in turns) - 1, 0)
        high = sum(t >= number(self.beta_slow) for t in turns)
        self._require_slow(high, len(turns))
        log, span = rungs.numbers.ln(number(self.factor)), max(high - low, 1)
        steps = [min(max(j - low, 0), span) for j in range(len(turns))]
        exponents = (number(self._share(t, span)[0]) / self._share(t, span)[1] for t in steps)
        pairs = zip(rungs.frequencies, exponents, strict=True)
        return rungs.with_frequencies([f / rungs.numbers.exp(log * e) for f, e in pairs])

    def _require_slow(self, turning: int, pairs: int) -> None:
        """Raise unless some pair completes fewer than `beta_slow` turns."""
        self._require(
            turning != pairs,
            "original_length",
            f"a length in which some pair completes fewer than {self.beta_slow:g} turns",
        )

    def _share(self, step: Any, span: Any) -> tuple[Any, Any]:
        """Numerator and denominator of the exponent of a pair."""
        return (step, span) if self.radix == "uniform" else (step * (step + 1), span * (span + 1))

    def float32(self, rungs: Float32Rungs, *, xp: Any) -> Array:
        """The same in float32."""
        turns = rungs.frequencies * (self.original_length / (2 * math.pi))
        one = xp.ones_like(turns)
        fast = xp.sum(xp.where(turns > self.beta_fast, one, 0 * one))
        high = xp.sum(xp.where(turns >= self.beta_slow, one, 0 * one))
        known = concrete(high)
        if known is not None:
            self._require_slow(int(known), turns.shape[0])
        low = xp.where(fast > 0, fast - 1, 0 * fast)
        span = xp.where(high > low, high - low, low - low + 1)
        steps = rungs.index - low
        steps = xp.where(steps > 0, steps, 0 * steps)
        above, below = self._share(xp.where(steps < span, steps, span * one), span)
        return rungs.frequencies / self.factor ** (above / below)
