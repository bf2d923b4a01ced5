"""A searched factor for every frequency, one set for short sequences and one for long."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, final

from posenc._core.numeric.ladder import Array, Float32Rungs, Rungs
from posenc.scaling.base import Scaling
from posenc.scaling.multipliers import beside, require_count


@final
@dataclass(frozen=True)
class LongRoPE(Scaling):
    """LongRoPE (Ding et al. 2024, arXiv:2402.13753).

        f'[j] = f[j] / short[j]   for sequences up to original_length, else   f[j] / long[j]
        attention factor          sqrt(1 + ln(factor) / ln(original_length))

    The two sets give different angles at every position. The length is therefore an argument of
    every verb, never state: choose it once for a sequence, or move cached keys with
    `posenc.rerotate` when it passes the original length. LongRoPE2 (Shang et al. 2025,
    arXiv:2502.20082) is the case short = (1, …): the model's own frequencies up to the original
    length, and searched divisors beyond.

    Parameters
    ----------
    short, long : tuple of float
        Divisors, one for each rung.
    original_length : int
        Length of training before the extension.
    factor : float
        Extended length over original length; it acts on the attention factor alone.
    short_factor, long_factor : float, optional
        Attention factors of each set, where a model gives them instead of the formula.
    length : int, optional
        Fixes the length. `spec.at(length)` sets it.

    Examples
    --------
    >>> import posenc
    >>> scaling = posenc.scaling.LongRoPE((1, 1), (1, 4), original_length=4096, factor=4)
    >>> rope = posenc.RoPE(4, pairing="half", scaling=scaling)
    >>> posenc.frequencies(rope.at(4096)), posenc.frequencies(rope.at(4097))
    (array([1.  , 0.01]), array([1.    , 0.0025]))
    """

    short: tuple[float, ...]
    long: tuple[float, ...]
    _: KW_ONLY
    original_length: int
    factor: float = 1.0
    short_factor: float | None = None
    long_factor: float | None = None
    length: int | None = None

    def check(self) -> None:
        """Raise `SpecError` when the fields contradict each other."""
        self._check_stretch()
        short, long = len(self.short), len(self.long)
        self._require(short == long, "", "as many short as long divisors", f"{short} and {long}")
        least = min(self.short + self.long, default=1)
        self._require(least > 0, "", "positive divisors", least)
        self._require(
            self.factor <= 1 or self.original_length > 1,
            "original_length",
            "at least 2 positions",
            1,
        )

    @property
    def lengths(self) -> tuple[int, int | None] | None:
        """The first and last length with frequencies of their own: the last short, the first long.

        Two lengths of one set are one spec, so that a growing sequence makes no new constants.
        """
        first = self.original_length
        return None if self.length is not None else (first, first + 1)

    @property
    def _is_long(self) -> bool:
        return self.length is not None and self.length > self.original_length

    def attention_factor(self) -> float:
        """The factor on cosines and sines."""
        stated = self.long_factor if self._is_long else self.short_factor
        if stated is not None or self.factor <= 1:
            return 1.0 if stated is None else stated
        return math.sqrt(1 + math.log(self.factor) / math.log(self.original_length))

    @property
    def divisors(self) -> tuple[float, ...]:
        """The set for the length."""
        return self.long if self._is_long else self.short

    def scale(self, rungs: Rungs) -> Rungs:
        """The scaled ladder."""
        require_count(self.divisors, len(rungs.frequencies), "LongRoPE")
        pairs = zip(rungs.frequencies, self.divisors, strict=True)
        return rungs.with_frequencies([f / rungs.numbers.number(v) for f, v in pairs])

    def float32(self, rungs: Float32Rungs, *, xp: Any) -> Array:
        """The same in float32."""
        return 1.0 / (beside(self.divisors, rungs.frequencies, xp) * rungs.periods)
