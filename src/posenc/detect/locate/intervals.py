"""What the digits of a number say: an interval, as digits are rounded or cut."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np

from posenc._core.arrays.array import dtype_name
from posenc._core.errors import ArgumentError, mismatch

_NUMBER = re.compile(r"\s*([+-]?(?:\d{1,40}\.?\d{0,40}|\.\d{1,40}))(?:[eE]([+-]?\d{1,3}))?\s*")
# Bits of the significand, the hidden one included.
BITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}


class Interval(NamedTuple):
    """Where a value lies, both ways of reading it."""

    text: str  # as it was given
    low: Decimal
    high: Decimal
    cut: tuple[Decimal, Decimal] | None  # where digits were cut off; None for machine numbers
    places: int | None  # digits after the point

    @property
    def middle(self) -> float:
        """The value as a float."""
        return float((self.low + self.high) / 2)

    def scaled(self, factor: float) -> Interval:
        """The interval of the value times a factor."""
        by = Decimal(factor)
        cut = None if self.cut is None else (self.cut[0] * by, self.cut[1] * by)
        return self._replace(low=self.low * by, high=self.high * by, cut=cut)

    def read_as_cut(self) -> Interval:
        """The other reading in the place of the first."""
        assert self.cut is not None, "only digits are cut"  # noqa: S101 - for the type checker
        return self._replace(low=self.cut[0], high=self.cut[1])


def read_value(value: Any, caller: str) -> Interval:
    """The interval that a number with its digits stands for.

    A text and a Python number are read by their digits; a number of an array by its dtype.
    """
    if isinstance(value, Decimal):
        value = str(value)
    if isinstance(value, np.generic) or (hasattr(value, "dtype") and not isinstance(value, str)):
        return _machine(value, caller)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        value = repr(value)
    match = _NUMBER.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        expected = "a number with its digits, such as '0.488814'"
        raise ArgumentError(mismatch(caller, expected, repr(value)))
    digits = Decimal(match[1]).scaleb(int(match[2] or 0))
    exponent = digits.as_tuple().exponent
    assert isinstance(exponent, int), "finite"  # noqa: S101 - for the type checker
    unit = Decimal(1).scaleb(exponent)
    low, high = sorted((digits, digits + unit.copy_sign(digits))) if digits else (-unit, unit)
    half = unit / 2
    return Interval(value.strip(), digits - half, digits + half, (low, high), max(0, -exponent))


def _machine(value: Any, caller: str) -> Interval:
    """A number that was rounded to a dtype: half a step to either side."""
    name = dtype_name(value.dtype)
    if name not in BITS or getattr(value, "shape", ()) not in ((), (1,)):
        received = f"{name} of shape {tuple(getattr(value, 'shape', ()))}"
        raise ArgumentError(mismatch(caller, f"one number of {' or '.join(BITS)}", received))
    number = float(value)
    if not np.isfinite(number):
        raise ArgumentError(mismatch(caller, "a finite number", number))
    _, exponent = np.frexp(number)
    step = Decimal(2) ** max(int(exponent) - BITS[name], -149)
    exact = Decimal(number)
    return Interval(f"{number:.9g}", exact - step / 2, exact + step / 2, None, None)
