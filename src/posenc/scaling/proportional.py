"""Partial rotation on the ladder of the whole head: the slow pairs do not turn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, final

from posenc._core.numeric.ladder import Array, Float32Rungs, Rungs
from posenc.scaling.base import Scaling


@final
@dataclass(frozen=True)
class Proportional(Scaling):
    """Proportional RoPE, or p-RoPE (Barbero et al. 2024, arXiv:2410.06205).

        f'[j] = f[j]  for j < floor(fraction * d / 2),  else 0

    The exponents keep dividing by the full width d, and so do the pairs: this is not a narrower
    rotation.

    Parameters
    ----------
    fraction : float
        From 0 to 1: the share of pairs that turn.

    Examples
    --------
    >>> import posenc
    >>> scaling = posenc.scaling.Proportional(0.5)
    >>> posenc.frequencies(posenc.RoPE(8, pairing="half", scaling=scaling))
    array([1. , 0.1, 0. , 0. ])
    """

    fraction: float
    stretches: ClassVar[bool] = False

    def check(self) -> None:
        """Raise `SpecError` for a fraction outside 0 to 1."""
        self._require(0 <= self.fraction <= 1, "fraction", "from 0 to 1")

    def turning(self, width: int) -> int:
        """The number of pairs that turn, rounded as floats are, so that 0.7 of 10 is 7."""
        return int(self.fraction * width // 2)

    def scale(self, rungs: Rungs) -> Rungs:
        """The scaled ladder."""
        kept, zero = self.turning(rungs.width), rungs.numbers.number(0)
        return rungs.with_frequencies(
            [f if j < kept else zero for j, f in enumerate(rungs.frequencies)]
        )

    def float32(self, rungs: Float32Rungs, *, xp: Any) -> Array:
        """The same in float32."""
        kept = self.turning(rungs.width)
        return xp.concat([rungs.leading(kept), xp.zeros_like(rungs.frequencies[kept:])])
