"""Position interpolation: every frequency divided by one factor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

from posenc._core.numeric.ladder import Array, Float32Rungs, Rungs
from posenc.scaling.per_axis import EachAxis


@final
@dataclass(frozen=True)
class Linear(EachAxis):
    """Position interpolation (Chen et al. 2023, arXiv:2306.15595).

        f'[j] = f[j] / factor

    Parameters
    ----------
    factor : float
        At least 1. A tuple, one for each axis, gives a `PerAxis` of such rules, None where it is 1.

    Examples
    --------
    >>> import posenc
    >>> rope = posenc.RoPE(4, pairing="half", scaling=posenc.scaling.Linear(4))
    >>> posenc.frequencies(rope)
    array([0.25  , 0.0025])
    """

    factor: float

    def scale(self, rungs: Rungs) -> Rungs:
        """The scaled ladder."""
        factor = rungs.numbers.number(self.factor)
        return rungs.with_frequencies([f / factor for f in rungs.frequencies])

    def float32(self, rungs: Float32Rungs, *, xp: Any) -> Array:  # noqa: ARG002
        """The same in float32."""
        return rungs.frequencies / self.factor
