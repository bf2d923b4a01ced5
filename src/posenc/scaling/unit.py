"""Positions that count parts of a position."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, final

from posenc._core.numeric.ladder import Array, Float32Rungs, Rungs
from posenc.scaling.base import Scaling


@final
@dataclass(frozen=True)
class Unit(Scaling):
    """What one step of an integer position is worth.

        f'[j] = f[j] * unit

    So halves (the centres of cells), sixteenths (V2PE in InternVL) and thirtieths of a second are
    as exact as whole positions, where a float would be rounded. It extends nothing. Beside other
    rules it comes last, as these compare wavelengths with lengths in whole positions.

    Parameters
    ----------
    unit : str, int or Fraction
        A positive fraction, kept as text in lowest terms: "1/16".

    Raises
    ------
    SpecError
        If it is none.

    Examples
    --------
    >>> import numpy as np, posenc
    >>> halves = posenc.RoPE(4, pairing="half", scaling=posenc.scaling.Unit("1/2"))
    >>> cos, sin = posenc.cos_sin(halves, [1, 2, 3])
    >>> bool(abs(sin[:, 0] - np.sin([0.5, 1, 1.5])).max() < 1e-7)
    True
    """

    unit: str
    stretches: ClassVar[bool] = False
    comes_last: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if isinstance(self.unit, (int, Fraction)) and not isinstance(self.unit, bool):
            object.__setattr__(self, "unit", str(self.unit))
        super().__post_init__()

    def check(self) -> None:
        """Raise `SpecError` for what is no fraction in lowest terms."""
        self._require(
            re.fullmatch(r"[1-9]\d{0,11}(/[1-9]\d{0,11})?", self.unit) is not None
            and str(Fraction(self.unit)) == self.unit,
            "unit",
            "a positive fraction, such as '1/16' or '2'",
            repr(self.unit),
            "Write it in lowest terms, as text or as a fractions.Fraction.",
        )

    def scale(self, rungs: Rungs) -> Rungs:
        """The scaled ladder."""
        above, below = map(rungs.numbers.number, Fraction(self.unit).as_integer_ratio())
        return rungs.with_frequencies([f * above / below for f in rungs.frequencies])

    def float32(self, rungs: Float32Rungs, *, xp: Any) -> Array:  # noqa: ARG002
        """The same in float32, where code has the same bits from positions that are no integers."""
        above, below = Fraction(self.unit).as_integer_ratio()
        self._require(
            not (above & (above - 1) or below & (below - 1)),
            "unit",
            "a power of two under phase='float32', or phase='exact'",
        )
        return rungs.frequencies * (above / below)
