"""Interpolation of long wavelengths alone, with a ramp between (Llama 3.1)."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, final

from posenc._core.numeric.ladder import Array, Float32Rungs, Rungs
from posenc.scaling.base import Scaling


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
        self._check_stretch()
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
        return xp.where(slow, f / factor, xp.where(fast, f, (1 - t) * f / factor + t * f))
