"""Ladders on their way through scalings: generic over the kind of number.

A scaling is arithmetic on a handful of numbers. It is written once, against `RungArithmetic`, and
runs in 50-digit decimals where phases need it, in floats for pictures, and in whatever a test
brings along.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple, Protocol

from posenc._core.numeric.ladder import pi

Array = Any
Number = Any  # Decimal, float, or a test's own


class RungArithmetic(Protocol):
    """The functions that scalings need beside `+ - * / <`; `math.floor` must accept the numbers."""

    def number(self, value: float) -> Number:
        """A float or integer, exactly."""

    def ln(self, value: Number) -> Number:
        """The natural logarithm."""

    def exp(self, value: Number) -> Number:
        """The exponential."""

    def pi(self) -> Number:
        """Half a turn in radians."""


class _Decimals:
    """Runs in the decimal context of its caller."""

    def number(self, value: float) -> Decimal:
        return Decimal(value)

    def ln(self, value: Decimal) -> Decimal:
        return value.ln()

    def exp(self, value: Decimal) -> Decimal:
        return value.exp()

    def pi(self) -> Decimal:
        return pi()


class _Floats:
    def number(self, value: float) -> float:
        return float(value)

    def ln(self, value: float) -> float:
        return math.log(value)

    def exp(self, value: float) -> float:
        return math.exp(value)

    def pi(self) -> float:
        return math.pi


DECIMAL: RungArithmetic = _Decimals()
FLOAT: RungArithmetic = _Floats()


class Rungs(NamedTuple):
    """The ladder of one axis, while scalings act on it.

    Parameters
    ----------
    frequencies : tuple of numbers
        Radians per position.
    base : number
        What the ladder was built with.
    width : int
        Channels that it serves: the d of the papers.
    axis : int
        Which axis of the positions, for scalings with a factor for each.
    numbers : RungArithmetic
        Their arithmetic: `Decimal` of 50 digits, or float64.
    """

    frequencies: tuple[Number, ...]
    base: Number
    width: int
    axis: int
    numbers: RungArithmetic

    def with_frequencies(self, frequencies: list[Number]) -> Rungs:
        """The same ladder with other frequencies."""
        return self._replace(frequencies=tuple(frequencies))


class Float32Rungs(NamedTuple):
    """The same in the float32 arithmetic of the array library that the caller uses.

    Parameters
    ----------
    frequencies : array
        (rungs,).
    periods : array
        (rungs,): base ** (2j/d), of which the frequencies are the reciprocals.
    index : array
        (rungs,): 0, 1, … as float32.
    base : float
        What the ladder was built with.
    width : int
        Channels that it serves.
    axis : int
        Which axis of the positions.
    leading : callable
        k -> the first k frequencies of the plain ladder, computed alone.
    """

    frequencies: Array
    periods: Array
    index: Array
    base: float
    width: int
    axis: int
    leading: Callable[[int], Array]


class Rescaling(Protocol):
    """What a phase matrix asks of a scaling."""

    def rebase(self, base: Number, width: int, axis: int, numbers: RungArithmetic) -> Number:
        """The base to build the ladder with."""

    def scale(self, rungs: Rungs) -> Rungs:
        """The scaled ladder."""

    def float32(self, rungs: Float32Rungs, *, xp: Any) -> Array:
        """The scaled frequencies by the float32 expression of published code."""
