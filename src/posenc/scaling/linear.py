"""Position interpolation: every frequency divided by one factor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

from posenc._core.numeric.ladder import Array, Float32Rungs, Rungs
from posenc.scaling.base import Scaling, require_factor, stretch


@final
@dataclass(frozen=True)
class Linear(Scaling):
    """Position interpolation (Chen et al. 2023, arXiv:2306.15595).

        f'[j] = f[j] / factor

    Parameters
    ----------
    factor : float or tuple of float
        At least 1; one for each axis where they differ.

    Examples
    --------
    >>> import posenc
    >>> rope = posenc.RoPE(4, pairing="half", scaling=posenc.scaling.Linear(4))
    >>> posenc.frequencies(rope)
    array([0.25  , 0.0025])
    """

    factor: float | tuple[float, ...]

    def check(self) -> None:
        """Raise `SpecError` for factors below 1."""
        require_factor(self.factor, "Linear")

    def scale(self, rungs: Rungs) -> Rungs:
        """The scaled ladder."""
        factor = rungs.numbers.number(stretch(self.factor, rungs.axis, "Linear"))
        return rungs.with_frequencies([f / factor for f in rungs.frequencies])

    def float32(self, rungs: Float32Rungs, *, xp: Any) -> Array:  # noqa: ARG002
        """The same in float32."""
        return rungs.frequencies / stretch(self.factor, rungs.axis, "Linear")
