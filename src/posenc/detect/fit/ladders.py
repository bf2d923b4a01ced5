"""What numbers cost to write, and ladders behind frequencies: what a line of logarithms is called.

A rule explains data when stating it takes fewer bits than the data spell out. 10000 is cheap to
state, 9137.42 is not: a fit that ends at 10000 to eight digits was no accident.

The numbers fix the ratio between neighbours. What base and denominator make it, and whether a shift
of the line is a first frequency, a factor or a grown base, is told by which of them is round.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from posenc._core.numeric.ladder import Ladder
from posenc.scaling import NTK, Linear, MixedNTK, Scaling

MARGIN = 20.0  # bits by which evidence must exceed description: one accident in a million tables
GUARD = 4.0  # bits by which a round number must be cheaper than the digits it stands for
FEW_DIGITS = 1e-3  # relative error beyond which all digits of a number are accidents
EXACT = 1e-15  # float64 knows no number better
# Denominators in the order in which they are believed: (as written, bits).
DENOMINATORS = (("d/2", 1.0), ("n-1", 2.0), ("d", 6.0), ("d/4", 6.0), ("d/2-0.5", 6.0))
# Bases of models, for rules whose numbers fix only a product of base and factor.
BASES = (1e4, 5e5, 1e6, 1e5, 5e6, 1e7, 1.5e5, 1.6e5, 2e6, 8e6, 1e8, 1e9, 100.0, 1000.0, 2.5e5)
RULE = 4.0  # bits to name a scaling
TRIED = 4.0  # bits for having tried many bases until a factor was round
SURELY_ROUND = 14.0  # bits
MOST_PAIRS = 1024  # for what compares all pairs of frequencies


def bits_of(value: float) -> float:
    """Bits to write a number: its digits, a power of two, or a multiple of pi; 53 for any other."""
    value = abs(value)
    if value in (0.0, 1.0):
        return 1.0
    return (
        math.inf
        if not math.isfinite(value)
        else min(_decimal_bits(value), _binary_bits(value), 4 + _decimal_bits(value / math.pi))
    )


def real_bits(error: float) -> float:
    """Bits to write a number of no roundness to a relative error, sign and size included."""
    return 6 - math.log2(2 * max(error, EXACT))


def roundest(value: float, error: float) -> float | None:
    """The cheapest number within a relative error, unless its roundness may be an accident."""
    return roundest_within(value * (1 - error), value * (1 + error))


def roundest_within(low: float, high: float) -> float | None:
    """The cheapest number from `low` to `high`, unless its roundness may be an accident."""
    best = cheapest(low, high)
    sure = best is not None and bits_of(best) + GUARD <= real_bits((high - low) / (high + low))
    return best if sure else None


def cheapest(low: float, high: float) -> float | None:
    """The number from `low` to `high` that is cheapest to write, however few its digits."""
    if not 0 < low <= high < math.inf:
        return None
    least, most = low * (1 - EXACT), high * (1 + EXACT)
    return min(
        [v for v in _candidates((low + high) / 2) if least <= v <= most], key=bits_of, default=None
    )


def stated(value: float, error: float) -> tuple[float, float]:
    """The round number that is meant, else the number itself; and the bits to write it."""
    return stated_within(value * (1 - error), value * (1 + error))


def stated_within(low: float, high: float) -> tuple[float, float]:
    """The same of a number from `low` to `high`; the cheapest, where there are few digits."""
    tidy, error = roundest_within(low, high), (high - low) / (high + low)
    if tidy is not None:
        return tidy, bits_of(tidy)
    few = cheapest(low, high) if error > FEW_DIGITS else None
    return few or (low + high) / 2, real_bits(error)


def bend_bits(lines: np.ndarray, allowed: float | np.ndarray) -> np.ndarray:
    """Bits of entries beyond rows that go on as the last two did, with some slack for each."""
    return np.asarray(
        np.log2(np.maximum(np.abs(lines[2:] - 2 * lines[1:-1] + lines[:-2]) / (8 * allowed), 1))
    )


def _candidates(value: float) -> list[float]:
    units, exponent = (1.0, math.pi), math.floor(math.log2(value))
    decimals = (float(f"{value / u:.{digits}e}") * u for u in units for digits in range(13))
    return [
        1.0,
        *decimals,
        *(math.ldexp(round(math.ldexp(value, -n)), n) for n in range(exponent, exponent - 7, -1)),
    ]


def _decimal_bits(value: float) -> float:
    for digits in range(13):
        text = f"{value:.{digits}e}"
        if abs(float(text) - value) <= EXACT * value:
            return (
                3
                + (digits + 1) * math.log2(10)
                + math.log2(1 + abs(int(text.partition("e")[2]))) / 2
            )
    return 53.0


def _binary_bits(value: float) -> float:
    mantissa, exponent = math.frexp(value)
    odd = math.ldexp(mantissa, 6)  # an integer below 64 for the numbers meant here
    if odd != round(odd):
        return 53.0
    whole = int(odd)
    while whole % 2 == 0:
        whole //= 2
    return 4 + 2 * math.log2(whole) + math.log2(1 + abs(exponent)) / 2


# --- ladders --------------------------------------------------------------------------------------


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
        by = Ladder(denominator=name)
        slopes = [(float(by.divisor(count=n, width=width)), both) for both, n, width in ladders]
        if any(divisor <= 0 or max(map(abs, both)) * divisor > 200 for divisor, both in slopes):
            continue
        ends = [[math.exp(-slope * divisor) for slope in both] for divisor, both in slopes]
        low, high = max(map(min, ends)), min(map(max, ends))
        if low > high:
            continue
        round_one, exact = roundest_within(low, high), real_bits((high - low) / (high + low))
        if name not in ("d/2", "n-1") and round_one is not None:
            # Of so many denominators, one may make a number round by accident.
            round_one = round_one if bits_of(round_one) + GUARD + bits <= exact else None
        if round_one is not None and round_one != 1:
            options.append(Base(round_one, name, bits + bits_of(round_one), True))
        # A number of many digits may be round by accident.
        doubtful = round_one is None or bits_of(round_one) >= SURELY_ROUND
        if doubtful and name in ("d/2", "n-1"):
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
            yield Guess(
                base.value,
                Ladder(denominator=base.denominator),
                (),
                base.bits,
                same_ladders(base, options),
            )
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
            yield Guess(
                base, Ladder(), (NTK(factor),), 1 + bits_of(base) + bits_of(factor) + RULE + TRIED
            )


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
        yield Guess(
            base, Ladder(), (MixedNTK(factor),), 1 + bits_of(base) + RULE + bits_of(factor) + TRIED
        )


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
