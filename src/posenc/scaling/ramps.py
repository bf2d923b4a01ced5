"""Interpolation by wavelength, with a ramp or a growing radix between: YaRN, Llama 3.1, MrRoPE."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, final

from posenc._core.arrays.array import concrete
from posenc._core.numeric.ladder import FLOAT, Array, Float32Rungs, Number, RungArithmetic, Rungs
from posenc.scaling.base import Scaling, require_factor, require_length

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
        length, last = numbers.number(self.original_length), numbers.number(width - 1)

        def index(turns: float) -> Number:
            wavelengths = numbers.ln(length / (numbers.number(turns) * 2 * numbers.pi()))
            return width * wavelengths / (2 * numbers.ln(base))

        low, high = index(self.beta_fast), index(self.beta_slow)
        if self.rounding == "outward":
            low, high = numbers.number(math.floor(low)), numbers.number(math.ceil(high))
        low, high = max(low, numbers.number(0)), min(high, last)
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


@final
@dataclass(frozen=True)
class Llama3(Scaling):
    """Wavelength-dependent interpolation (Grattafiori et al. 2024, arXiv:2407.21783).

        turns = original_length * f / (2 pi)
        t     = clamp((turns - low_freq_factor) / (high_freq_factor - low_freq_factor), 0, 1)
        f'    = f * (t + (1 - t) / factor)

    Parameters
    ----------
    factor : float
        At least 1: what the slow frequencies are divided by.
    original_length : int
        Length of training before the extension.
    low_freq_factor, high_freq_factor : float
        Pairs that complete fewer turns than the first are interpolated, pairs that complete more
        than the second are kept. Where they are equal there is no ramp between: a pair that
        completes fewer turns is interpolated, any other kept.

    Examples
    --------
    >>> import posenc
    >>> scaling = posenc.scaling.Llama3(8, original_length=8192)
    >>> rope = posenc.RoPE(128, base=500_000, pairing="half", scaling=scaling)
    >>> plain = posenc.RoPE(128, base=500_000, pairing="half")
    >>> (posenc.frequencies(plain) / posenc.frequencies(rope))[[0, -1]]
    array([1., 8.])
    """

    factor: float
    _: KW_ONLY
    original_length: int
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0

    def check(self) -> None:
        """Raise `SpecError` when the fields contradict each other."""
        require_factor(self.factor, "Llama3")
        require_length(self.original_length, "Llama3")
        low, high = self.low_freq_factor, self.high_freq_factor
        self._require(
            0 < low <= high, "", "0 < low_freq_factor <= high_freq_factor", f"{low} and {high}"
        )

    def scale(self, rungs: Rungs) -> Rungs:
        """The scaled ladder."""
        number = rungs.numbers.number
        low, high = number(self.low_freq_factor), number(self.high_freq_factor)
        factor, length = number(self.factor), number(self.original_length)
        scaled = []
        for f in rungs.frequencies:
            turns = length * f / (2 * rungs.numbers.pi())
            t = (
                number(int(turns >= low))
                if low == high
                else min(max((turns - low) / (high - low), number(0)), number(1))
            )
            scaled.append(f * (t + (1 - t) / factor))
        return rungs.with_frequencies(scaled)

    def float32(self, rungs: Float32Rungs, *, xp: Any) -> Array:
        """The same in float32."""
        f, factor, length = rungs.frequencies, self.factor, self.original_length
        low, high = self.low_freq_factor, self.high_freq_factor
        wavelength = 2 * math.pi / f
        slow, fast = wavelength > length / low, wavelength < length / high
        if low == high:
            return xp.where(slow, f / factor, f)
        t = (length / wavelength - low) / (high - low)
        between = (1 - t) * f / factor + t * f
        return xp.where(slow, f / factor, xp.where(fast, f, between))


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
