"""Ladders behind frequencies: straight lines through their logarithms, and what a line is called.

The numbers fix the ratio between neighbours. What base and denominator make it, and whether a shift
of the line is a first frequency, a factor or a grown base, is told by which of them is round.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from posenc._core.numeric.ladder import Ladder
from posenc.detect.fit.description_length import (
    GUARD,
    bits_of,
    real_bits,
    roundest,
    roundest_within,
    stated,
    stated_within,
)
from posenc.scaling.base import Scaling
from posenc.scaling.linear import Linear
from posenc.scaling.mixed_ntk import MixedNTK
from posenc.scaling.ntk import NTK

# Denominators in the order in which they are believed: (as written, bits).
DENOMINATORS = (("d/2", 1.0), ("n-1", 2.0), ("d", 6.0), ("d/4", 6.0), ("d/2-0.5", 6.0))
# Bases of models, for rules whose numbers fix only a product of base and factor.
BASES = (1e4, 5e5, 1e6, 1e5, 5e6, 1e7, 1.5e5, 1.6e5, 2e6, 8e6, 1e8, 1e9, 100.0, 1000.0, 2.5e5)
RULE = 4.0  # bits to name a scaling
TRIED = 4.0  # bits for having tried many bases until a factor was round
SURELY_ROUND = 14.0  # bits
MOST_PAIRS = 1024  # for what compares all pairs of frequencies


class Guess(NamedTuple):
    """An explanation that has not been rebuilt yet."""

    base: float
    ladder: Ladder
    scaling: tuple[Scaling, ...]
    bits: float
    remarks: tuple[str, ...] = ()


def line(x: np.ndarray, y: np.ndarray, error: np.ndarray) -> tuple[float, float] | None:
    """The slopes that some line has which meets all of y ± error: from, to; None without such.

    A line of slope b does exactly if no two points contradict it, so the answer is an intersection
    of intervals, one for each two points.
    """
    low, high = -math.inf, math.inf
    reach = len(x) if len(x) <= MOST_PAIRS else 64
    for lag in range(1, reach):
        step, rise = x[lag:] - x[:-lag], y[lag:] - y[:-lag]
        slack = error[lag:] + error[:-lag]
        low = max(low, float(((rise - slack) / step).max()))
        high = min(high, float(((rise + slack) / step).min()))
        if low > high:
            return None
    if reach < len(x):  # the long levers too
        rise, slack, step = y[-1] - y[0], error[-1] + error[0], x[-1] - x[0]
        low, high = max(low, (rise - slack) / step), min(high, (rise + slack) / step)
    return (low, high) if low <= high else None


def through_one(log_f: np.ndarray, tol: np.ndarray) -> tuple[float, float] | None:
    """The same for lines that begin at 0: ladders whose first frequency is 1."""
    j = np.arange(1, len(log_f))
    if abs(log_f[0]) > tol[0] or not len(j):
        return None
    low = float(((log_f[1:] - tol[1:]) / j).max())
    high = float(((log_f[1:] + tol[1:]) / j).min())
    return (low, high) if low <= high else None


def _heights(log_f: np.ndarray, tol: np.ndarray, slope: float) -> tuple[float, float]:
    """The values at 0 of lines of that slope that meet all points; reversed if none does."""
    level = log_f - slope * np.arange(len(log_f))
    return float((level - tol).max()), float((level + tol).min())


class Base(NamedTuple):
    """A base and the denominator it goes with."""

    value: float
    denominator: str
    bits: float
    round: bool


def bases(ladders: list[tuple[tuple[float, float], int, int]]) -> list[Base]:
    """What the base may be, for each denominator; round ones first, then the plainest."""
    options = []
    for name, bits in DENOMINATORS:
        low, high = 0.0, math.inf
        for slopes, count, width in ladders:
            divisor = float(Ladder(denominator=name).divisor(count=count, width=width))
            if divisor <= 0 or max(abs(s) for s in slopes) * divisor > 200:
                low, high = 1.0, 0.0
                break
            least, most = sorted(math.exp(-slope * divisor) for slope in slopes)
            low, high = max(low, least), min(high, most)
        if low > high:
            continue
        round_one, exact = roundest_within(low, high), real_bits((high - low) / (high + low))
        if name not in ("d/2", "n-1") and round_one is not None:
            # Of so many denominators, one may make a number round by accident.
            round_one = round_one if bits_of(round_one) + GUARD + bits <= exact else None
        if round_one is not None and round_one != 1:
            options.append(Base(round_one, name, bits + bits_of(round_one), True))
        # A number of many digits may be round by accident.
        sure = round_one is not None and bits_of(round_one) < SURELY_ROUND
        if not sure and name in ("d/2", "n-1"):
            options.append(Base(math.sqrt(low * high), name, bits + exact, False))
    return sorted(options, key=lambda base: (not base.round, base.bits))


def same_ladders(base: Base, options: list[Base]) -> tuple[str, ...]:
    """Sentences that say so of the others: the numbers fix base ** (1 / denominator) alone."""
    return tuple(
        f"base {other.value:.10g} with denominator {other.denominator} is the same ladder"
        for other in options
        if other is not base
    )


def plain(f: np.ndarray, tol: np.ndarray, count: int) -> Iterator[Guess]:
    """The guesses of one ladder, linear or NTK scaled, through all frequencies."""
    log_f = np.log(f)
    if len(f) == 1:
        first = roundest(float(f[0]), float(tol[0]))
        if first is not None:
            yield Guess(1e4, Ladder(first=first), (), bits_of(first))
        return
    slopes = through_one(log_f, tol)
    if slopes is not None:
        options = bases([(slopes, count, 2 * count)])
        for base in options:
            ladder = Ladder(denominator=base.denominator)
            yield Guess(base.value, ladder, (), base.bits, same_ladders(base, options))
        yield from _grown_bases(slopes, count)
        return
    slopes = line(np.arange(len(f), dtype=np.float64), log_f, tol)
    if slopes is None:
        return
    for base in bases([(slopes, count, 2 * count)]):
        yield from _other_firsts(base, log_f, tol, count)
    if abs(sum(slopes) / 2 - math.log(2)) <= slopes[1] - slopes[0] + 1e-12:
        low, high = _heights(log_f, tol, math.log(2))
        first = roundest_within(math.exp(low), math.exp(high)) if low <= high else None
        if first is not None:
            yield Guess(1e4, Ladder(spacing="octave", first=first), (), 4 + bits_of(first))
    yield from _mixed(log_f, tol, slopes, count)


def _grown_bases(slopes: tuple[float, float], count: int) -> Iterator[Guess]:
    """NTK: a round base grown by a round factor."""
    low, high = sorted(math.exp(-slope * count) for slope in slopes)
    if count < 2 or not math.isfinite(high):
        return
    power = (count - 1) / count
    for base in [base for base in BASES if base < low]:
        factor = roundest_within((low / base) ** power, (high / base) ** power)
        if factor is not None and factor > 1:
            bits = 1 + bits_of(base) + bits_of(factor) + RULE + TRIED
            yield Guess(base, Ladder(), (NTK(factor),), bits)


def _other_firsts(base: Base, log_f: np.ndarray, tol: np.ndarray, count: int) -> Iterator[Guess]:
    """Ladders of a known ratio that begin elsewhere than at 1."""
    ladder = Ladder(denominator=base.denominator)
    slope = -math.log(base.value) / float(ladder.divisor(count=count, width=2 * count))
    low, high = _heights(log_f, tol, slope)
    if low > high:
        if base.round:
            return
        low = high = (low + high) / 2
    if low <= slope <= high:
        yield Guess(base.value, ladder.replace(start=1.0), (), base.bits + 4)
    elif low + high < 0:
        factor, bits = stated_within(math.exp(-high), math.exp(-low))
        yield Guess(base.value, ladder, (Linear(factor),), base.bits + RULE + bits)
    else:
        first, bits = stated_within(math.exp(low), math.exp(high))
        yield Guess(base.value, ladder.replace(first=first), (), base.bits + 3 + bits)


def _mixed(
    log_f: np.ndarray, tol: np.ndarray, slopes: tuple[float, float], count: int
) -> Iterator[Guess]:
    """NTK with a radix for every digit: f[j] = (base * s) ** (-j/n) / s ** (1/n)."""
    low, high = _heights(log_f, tol, sum(slopes) / 2)
    width = max(high - low, 0.0) / 2 + (slopes[1] - slopes[0]) * len(log_f) / 2
    middle = (low + high) / 2
    if middle >= 0 or middle * count < -60:
        return
    factor = roundest_within(
        math.exp(-(middle + width) * count), math.exp(-(middle - width) * count)
    )
    if factor is None or factor <= 1:
        return
    base = roundest_within(*sorted(math.exp(-s * count) / factor for s in slopes))
    if base is not None:
        bits = 1 + bits_of(base) + RULE + bits_of(factor) + TRIED
        yield Guess(base, Ladder(), (MixedNTK(factor),), bits)


def other_spacings(f: np.ndarray, tol: np.ndarray) -> Iterator[Guess]:
    """Evenly spaced frequencies."""
    slopes = line(np.arange(len(f), dtype=np.float64), f, tol * f)
    if len(f) < 4 or slopes is None or slopes[0] <= 0 <= slopes[1]:
        return
    slope = sum(slopes) / 2
    low, high = _heights(f, tol * f, slope)
    middle, reach = (low + high) / 2, abs(high - low) / 2 + len(f) * (slopes[1] - slopes[0]) / 2
    ends = (middle, middle + slope * (len(f) - 1))
    if min(ends) > 0:
        (first, one), (last, two) = (stated(end, max(reach / end, 1e-12)) for end in ends)
        yield Guess(1e4, Ladder(spacing="linear", first=first, last=last), (), 4.0 + one + two)
