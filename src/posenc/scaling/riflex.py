"""A slower intrinsic frequency, so that longer films do not repeat themselves (RIFLEx)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

from posenc._core.numeric.ladder import Array, Float32Rungs, Rungs
from posenc.scaling.base import Scaling

SHARE = 0.9  # of a turn, in the authors' code: "a few videos may repeat in the tail frames"


@final
@dataclass(frozen=True)
class RIFLEx(Scaling):
    """Riflex, for videos longer than those of training (Zhao et al. 2025, arXiv:2502.15894).

        f'[k - 1] = 0.9 * 2 pi / length        all others stay

    The frequency whose period is that in which generated films begin to repeat themselves makes
    nine tenths of a turn within the new length. It is a rule for the axis of time alone: put it
    into `PerAxis`.

    Parameters
    ----------
    k : int
        Which frequency of the axis, counted from 1 as the authors do; 4 for HunyuanVideo and 2 for
        CogVideoX-5B in their scripts, who find it by looking at films.
    length : int
        New length in positions of the axis: frames after the VAE, not frames of the film.

    Raises
    ------
    SpecError
        If k or the length is below 1; from `posenc.RoPE`, if the axis has fewer than k pairs.

    Examples
    --------
    >>> import posenc
    >>> rope = posenc.RoPE(8, base=256, pairing="interleaved", scaling=posenc.scaling.RIFLEx(3, 66))
    >>> posenc.frequencies(rope).round(5)
    array([1.     , 0.25   , 0.08568, 0.01562])
    """

    k: int
    length: int

    def check(self) -> None:
        """Raise `SpecError` for a frequency or length below 1."""
        self._require(self.k >= 1, "k", "the number of a frequency, counted from 1")
        self._require(self.length >= 1, "length", "at least 1 position")

    def scale(self, rungs: Rungs) -> Rungs:
        """The scaled ladder."""
        self._require_pair(len(rungs.frequencies))
        frequencies, number = [*rungs.frequencies], rungs.numbers.number
        frequencies[self.k - 1] = 9 * 2 * rungs.numbers.pi() / (10 * number(self.length))
        return rungs.with_frequencies(frequencies)

    def _require_pair(self, count: int) -> None:
        """Raise unless an axis has the k-th frequency."""
        self._require(self.k <= count, "k", f"one of the {count} frequencies of its axis")

    def float32(self, rungs: Float32Rungs, *, xp: Any) -> Array:
        """The same in float32."""
        self._require_pair(rungs.index.shape[0])
        slower = xp.ones_like(rungs.frequencies) * (SHARE * 2 * math.pi / self.length)
        return xp.where(rungs.index == self.k - 1, slower, rungs.frequencies)
