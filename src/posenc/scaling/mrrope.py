"""A larger radix for the middle digits of a position (MrRoPE)."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, final

from posenc._core.arrays.array import concrete
from posenc._core.numeric.ladder import Array, Float32Rungs, Rungs
from posenc.scaling.base import Scaling


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
        self._check_stretch()
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
        return rungs.with_frequencies(
            [
                f / rungs.numbers.exp(log * e)
                for f, e in zip(rungs.frequencies, exponents, strict=True)
            ]
        )

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
