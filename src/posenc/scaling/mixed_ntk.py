"""NTK-aware scaling with a radix for every digit (Su 2023)."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, final

from posenc._core.numeric.ladder import Array, Float32Rungs, Rungs
from posenc._core.spec.checks import positive
from posenc.scaling.base import Scaling


@final
@dataclass(frozen=True)
class MixedNTK(Scaling):
    """NTK-RoPE-fixed and NTK-RoPE-mixed (Su 2023, kexue.fm/archives/9706).

        fixed   f'[j] = (base * factor) ** (-2j/d) / factor ** (2/d)
        mixed   f'[j] = f[j] / exp(a * (j + 1) ** power),   a = ln(factor) / (d/2) ** power

    Both divide the slowest frequency by exactly the factor; `fixed` is `mixed` with power 1.

    Parameters
    ----------
    factor : float
        At least 1.
    power : float
        1 for `fixed`; 0.625 in the article for `mixed`.

    Examples
    --------
    >>> import posenc
    >>> rope = posenc.RoPE(4, pairing="half", scaling=posenc.scaling.MixedNTK(4))
    >>> posenc.frequencies(rope)
    array([0.5   , 0.0025])
    """

    factor: float
    _: KW_ONLY
    power: float = 1.0
    geometric: ClassVar[bool] = False

    def check(self) -> None:
        """Raise `SpecError` for a factor below 1 or a power that is not positive."""
        self._check_stretch()
        positive("MixedNTK", power=self.power)

    def scale(self, rungs: Rungs) -> Rungs:
        """The scaled ladder."""
        number, ln, exp, _ = rungs.numbers
        power = number(self.power)
        strength = ln(number(self.factor)) * exp(-power * ln(number(rungs.width) / 2))
        pairs = [(f, ln(number(j))) for j, f in enumerate(rungs.frequencies, start=1)]
        return rungs.with_frequencies([f * exp(-strength * exp(power * log)) for f, log in pairs])

    def float32(self, rungs: Float32Rungs, *, xp: Any) -> Array:
        """The same in float32."""
        strength = math.log(self.factor) / (rungs.width / 2) ** self.power
        return rungs.frequencies / xp.exp(strength * (rungs.index + 1.0) ** self.power)
