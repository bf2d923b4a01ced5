"""What the digits of a number say, and positions at which a phase falls into an arc, in order.

Digits are rounded or cut: a number is an interval of sines, so an arc of phases.

A phase is `position * step` modulo 2**64, so the question is for which multiples of an integer the
remainder lies between two bounds. Euclid's algorithm answers it: modulo `a` the question repeats
itself with smaller numbers, so the next position costs some 60 divisions, however far it lies.
"""

from __future__ import annotations

import heapq
import itertools
import math
import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np

from posenc._core.arrays.array import dtype_name
from posenc._core.errors import bad_argument
from posenc._core.numeric.ladder import context

TURN = 1 << 64
Arc = tuple[int, int]  # from, length: of phases, 2**64 to the turn
# What float64 may lose on the way from a value to its phase, in those units.
SLACK = 1 << 13
_NUMBER = re.compile(r"\s*([+-]?(?:\d{1,40}\.?\d{0,40}|\.\d{1,40}))(?:[eE]([+-]?\d{1,3}))?\s*")
# Bits of the significand, the hidden one included.
BITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}


def first(step: int, modulus: int, low: int, high: int) -> int | None:
    """The least x >= 0 with low <= step * x mod modulus <= high, or None."""
    if low == 0:
        return 0
    if step == 0:
        return None
    if 2 * step > modulus:  # count backwards: the remainders shrink faster
        step, low, high = modulus - step, modulus - high, modulus - low
    x = -(-low // step)
    if step * x <= high:
        return x
    # No multiple lies there in the first lap. After y laps one does if step divides into the arc:
    # the same question modulo the step.
    y = first(modulus % step, step, -high % step, -low % step)
    return None if y is None else -(-(low + modulus * y) // step)


def _next(step: int, arc: Arc, begin: int) -> int | None:
    """The least position >= begin whose phase lies in the arc."""
    start, length = arc
    low = (start - step * begin) % TURN
    if low + length >= TURN:  # the phase of `begin` itself lies in it
        return begin
    more = first(step % TURN, TURN, low, low + length)
    return None if more is None else begin + more


def hits(step: int, arcs: Iterable[Arc], low: int, high: int) -> Iterator[int]:
    """Positions from `low` to `high` whose phase lies in one of the arcs."""
    heads: list[tuple[int, int, int, Arc]] = []  # (size, sign, step, arc) of the next hit of each
    for arc in arcs:
        if high >= 0:
            heads.append((max(low, 0) - 1, 1, step, arc))
        if low < 0:
            # Position -p has the phase that p has backwards.
            heads.append((max(-high, 1) - 1, -1, step, ((-arc[0] - arc[1]) % TURN, arc[1])))
    # The mirror of an arc is met by the same multiples.
    queue = list(filter(None, (_advanced(head, low, high) for head in heads)))
    heapq.heapify(queue)
    while queue:
        size, sign, *_ = head = heapq.heappop(queue)
        yield sign * size
        after = _advanced(head, low, high)
        if after is not None:
            heapq.heappush(queue, after)


def _advanced(
    head: tuple[int, int, int, Arc], low: int, high: int
) -> tuple[int, int, int, Arc] | None:
    size, sign, step, arc = head
    position = _next(step, arc, size + 1)
    limit = high if sign > 0 else -low
    return None if position is None or position > limit else (position, sign, step, arc)


def arcs_of(function: str, low: Decimal, high: Decimal, reach: int) -> tuple[Arc, ...]:
    """The phases at which a sine or cosine lies between two values."""
    if high < -1 or low > 1 or low > high:
        return ()
    slack = SLACK + reach // 2
    begin, end = _arcsine(max(low, Decimal(-1))), _arcsine(min(high, Decimal(1)))
    quarter = 0 if function == "sin" else TURN // 4  # cos x = sin(x + a quarter)
    rising = (begin - quarter - slack, end - begin + 2 * slack)
    falling = (TURN // 2 - end - quarter - slack, end - begin + 2 * slack)
    # Near the extremes the two arcs meet: one arc, or everything.
    meeting = rising[0] + rising[1] >= falling[0]
    joined = [(rising[0], falling[0] + falling[1] - rising[0])] if meeting else [rising, falling]
    last = joined[-1]
    if last[0] + last[1] >= joined[0][0] + TURN:
        if len(joined) == 1:
            return ((0, TURN),)
        joined = [(falling[0], rising[0] + TURN + rising[1] - falling[0])]
    return tuple((start % TURN, length) for start, length in joined)


def _arcsine(value: Decimal) -> int:
    """Arc sine in units of phase, -TURN/4 to TURN/4; the root keeps digits near the extremes."""
    arithmetic = context()
    rest = arithmetic.multiply(1 - value, 1 + value).sqrt(arithmetic)
    return round(math.atan2(float(value), float(rest)) / (2 * math.pi) * TURN)


def density(arcs: Iterable[Arc]) -> float:
    """The share of all positions whose phase lies in one of the arcs."""
    return sum(length for _, length in arcs) / TURN


def both(one: Iterable[Arc], other: Iterable[Arc]) -> tuple[Arc, ...]:
    """The phases that lie in an arc of each."""
    shared = (
        (max(a, c), min(b, d))
        for (a, b), (c, d) in itertools.product(_segments(one), _segments(other))
    )
    return tuple((begin, end - begin) for begin, end in shared if begin <= end)


def _segments(arcs: Iterable[Arc]) -> Iterator[tuple[int, int]]:
    """First and last phase of each arc, cut at 0."""
    for start, length in arcs:
        if start + length < TURN:
            yield start, start + length
        else:
            yield start, TURN - 1
            yield 0, min(start, start + length - TURN)


# --- digits ---------------------------------------------------------------------------------------


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


def refuse(*rows: tuple[Any, ...]) -> None:
    """Raise for the first row that begins with a truth: caller, expected, received, what to do."""
    for bad, *words in rows:
        if bad:
            raise bad_argument(*words)


def read_value(value: Any, caller: str) -> Interval:
    """The interval that a number with its digits stands for.

    A text and a Python number are read by their digits; a number of an array by its dtype.
    """
    value = str(value) if isinstance(value, Decimal) else value
    if isinstance(value, np.generic) or (hasattr(value, "dtype") and not isinstance(value, str)):
        return _machine(value, caller)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        value = repr(value)
    match = _NUMBER.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise bad_argument(caller, "a number with its digits, such as '0.488814'", repr(value))
    digits = Decimal(match[1]).scaleb(int(match[2] or 0))
    exponent = digits.as_tuple().exponent
    assert isinstance(exponent, int), "finite"  # noqa: S101 - for the type checker
    unit = Decimal(1).scaleb(exponent)
    low, high = sorted((digits, digits + unit.copy_sign(digits))) if digits else (-unit, unit)
    ends = digits - unit / 2, digits + unit / 2
    return Interval(value.strip(), *ends, (low, high), max(0, -exponent))


def _machine(value: Any, caller: str) -> Interval:
    """A number that was rounded to a dtype: half a step to either side."""
    name = dtype_name(value.dtype)
    shape = tuple(getattr(value, "shape", ()))
    one = name in BITS and shape in ((), (1,))
    refuse((not one, caller, f"one number of {' or '.join(BITS)}", f"{name} of shape {shape}"))
    number = float(value)
    refuse((not np.isfinite(number), caller, "a finite number", number))
    step = Decimal(2) ** max(int(np.frexp(number)[1]) - BITS[name], -149)
    exact = Decimal(number)
    return Interval(f"{number:.9g}", exact - step / 2, exact + step / 2, None, None)
