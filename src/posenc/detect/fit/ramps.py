"""Rules that extend a context by slowing the slow pairs, with a ramp up to the fast ones.

Lines through both ends give the base and the factor; what each pair between them keeps gives the
ramp. YaRN's ramp is linear in the index of the pair, that of Llama 3 in the turns it completes.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from posenc._core.numeric.ladder import Ladder
from posenc.detect.fit.ladders import (
    BASES,
    RULE,
    Base,
    Guess,
    bases,
    bits_of,
    cheapest,
    line,
    real_bits,
    roundest,
    stated,
    stated_within,
    through_one,
)
from posenc.scaling import Llama3, Multipliers, Scaling, YaRN

LARGEST_LENGTH = 2**31
FACTORS = (2.0, 4.0, 8.0, 16.0, 32.0, 40.0, 64.0)  # of models, where numbers hardly tell it
VAGUE = 0.02  # relative room for a factor beyond which these are tried
LEAST_SEARCHED = 8  # numbers of few digits divide into each other by accident
ANY = (-math.inf, math.inf)  # slopes


def pieces(f: np.ndarray, tol: np.ndarray) -> Iterator[Guess]:
    """Rules that keep fast pairs, slow the others by one factor, and ramp between."""
    log_f, count = np.log(f), len(f)
    fast, slow = _longest(log_f, tol), _longest(log_f[::-1], tol[::-1])
    seen = {1.0}
    # The first points of a ramp may still pass for the line, and would bend it.
    for less in (0, 1, 2):
        slopes = _common_slopes(log_f, tol, max(fast - less, 1), max(slow - less, 1))
        if slopes is None:
            continue
        least, most = slopes[0] - 1e-9, slopes[1] + 1e-9
        options = [b for b in bases([(slopes, count, 2 * count)]) if b.denominator == "d/2"][:1]
        usual = [b for b in BASES if least <= -math.log(b) / count <= most]
        for base in (*options, *(Base(b, "d/2", 1 + bits_of(b), True) for b in usual)):
            if base.value > 1 and base.value not in seen:
                seen.add(base.value)
                yield from _ramps(f, tol, base, slow)


def _longest(log_f: np.ndarray, tol: np.ndarray) -> int:
    """How many of the first frequencies lie on one line: by halving."""
    x = np.arange(len(log_f), dtype=np.float64)
    return 2 + bisect.bisect_left(
        range(3, len(log_f) + 1),
        True,
        key=lambda n: line(x[:n], log_f[:n], tol[:n]) is None,
    )


def _common_slopes(
    log_f: np.ndarray, tol: np.ndarray, fast: int, slow: int
) -> tuple[float, float] | None:
    begun = through_one(log_f[:fast], tol[:fast]) if fast > 1 else ANY
    if begun is None or max(fast, slow) < 2:
        return None
    ended = line(np.arange(slow, dtype=np.float64), log_f[-slow:], tol[-slow:]) if slow > 1 else ANY
    if ended is None:
        return None
    # A short end may hold a ramp rather than the line; the long one is asked alone then.
    low, high = max(begun[0], ended[0]), min(begun[1], ended[1])
    longer = begun if fast >= slow else ended
    return (low, high) if low <= high else longer


class _Ramp(NamedTuple):
    """How far each pair has been slowed: 0 to 1, with its error."""

    t: np.ndarray
    error: np.ndarray
    plain: np.ndarray
    base: float
    pairs: int

    @property
    def inside(self) -> np.ndarray:
        """The pairs between both ends."""
        return np.flatnonzero((self.t > self.error) & (self.t < 1 - self.error))


def _ramps(f: np.ndarray, tol: np.ndarray, base: Base, slow: int) -> Iterator[Guess]:
    count = len(f)
    plain = np.exp(-math.log(base.value) * np.arange(count) / count)
    for factor, cost in _factors(plain / f, tol, slow):
        share = 1 - 1 / factor
        ramp = _Ramp((1 - f / plain) / share, 2 * tol * f / plain / share, plain, base.value, count)
        bits = base.bits + cost + RULE
        # A rule takes less to state than a list of the pairs that it slows, if they are many.
        each = 6 + math.log2(count) - np.log2(2 * tol[ramp.t > ramp.error])
        most = each.sum() if count >= LEAST_SEARCHED else math.inf
        for guess in (*_by_index(ramp, factor, bits), *_by_turns(ramp, factor, bits)):
            if guess.bits - base.bits < most:
                yield guess


def _factors(slowed: np.ndarray, tol: np.ndarray, slow: int) -> Iterator[tuple[float, float]]:
    """By how much the slow end may have been slowed, and the bits to write it."""
    for ending in {slow, max(slow - 1, 1), max(slow // 2, 1), 1}:
        low = float((slowed[-ending:] * (1 - tol[-ending:])).max())
        high = float((slowed[-ending:] * (1 + tol[-ending:])).min())
        if max(low, 1) < high * (1 - VAGUE):
            yield from ((usual, bits_of(usual)) for usual in FACTORS if low < usual < high)
        elif low <= high and high > 1 + 1e-6:
            yield stated_within(max(low, 1 + 1e-9), high)


def _by_index(ramp: _Ramp, factor: float, bits: float) -> Iterator[Guess]:
    """YaRN as its code has it: linear in the index between two bounds."""
    inside, last = ramp.inside, 2 * ramp.pairs - 1
    kept = np.flatnonzero((ramp.t <= ramp.error) & (ramp.error < 1))
    if not len(kept):
        return
    for low, high in _whole_bounds(ramp, inside, int(kept[-1]), last):
        for length, fast, cost, remark in _lengths_of_bounds(ramp, low, high, last):
            yield Guess(
                ramp.base,
                Ladder(),
                (YaRN(factor, original_length=length, beta_fast=fast),),
                bits + cost,
                (remark,),
            )
    if len(inside) >= 3:
        yield from _broken_bounds(ramp, inside, factor, bits)


def _whole_bounds(
    ramp: _Ramp, inside: np.ndarray, kept: int, last: int
) -> Iterator[tuple[int, int]]:
    j = np.arange(ramp.pairs)
    if not len(inside):
        yield from ((kept, kept + 1), (kept, kept))
        return
    if len(inside) >= 2:
        ends = inside[[0, -1]]
        slope = (ramp.t[ends[1]] - ramp.t[ends[0]]) / (ends[1] - ends[0])
        if slope <= 0:
            return
        begin = ends[0] - ramp.t[ends[0]] / slope
        lows = range(max(0, math.floor(begin) - 1), math.ceil(begin) + 2)
        spans = [1 / slope + low - begin for low in lows]
    else:
        lows = range(max(0, kept - 1), kept + 1)
        spans = [(inside[0] - low) / ramp.t[inside[0]] for low in lows]
    for low, span in zip(lows, spans, strict=True):
        for high in {math.floor(low + span), math.ceil(low + span), round(low + span)}:
            if low < high <= last:
                blend = np.clip((j - low) / (high - low), 0, 1)
                if (np.abs(blend - ramp.t) <= 2 * ramp.error + 1e-9).all():
                    yield low, high


def _lengths_of_bounds(
    ramp: _Ramp, low: int, high: int, last: int
) -> Iterator[tuple[int, float, float, str]]:
    """Original length and fast beta whose rounded bounds are these, for a slow beta of 1."""

    def at(index: float) -> float:
        return 2 * math.pi * ramp.base ** (min(index, 300 * ramp.pairs) / ramp.pairs)

    # c(beta) = n ln(length / (2 pi beta)) / ln base is rounded down for the fast bound, up for the
    # slow one, and held within 0 and d - 1.
    fast_from, fast_to = (0.0 if low == 0 else at(low)), at(low + 1)
    slow_from, slow_to = at(high - 1), (math.inf if high >= last else at(high))
    for usual in (32.0, None):
        begin, end = (
            (slow_from, slow_to)
            if usual is None
            else (max(slow_from, fast_from * usual), min(slow_to, fast_to * usual))
        )
        # A round whole number of positions.
        least, most = max(math.floor(begin) + 1, 2), math.floor(min(end, LARGEST_LENGTH))
        if least > most:
            continue
        length = int(cheapest(least, most) or least)
        slowest = length / fast_to
        fast = usual or cheapest(
            max(slowest, 1 + 1e-9), length / fast_from if fast_from else 64 * slowest
        )
        if fast is not None and fast > 1:
            whole = f"from {math.ceil(begin)} to {most}"
            yield (
                length,
                fast,
                bits_of(length) + (0.0 if usual else 3 + bits_of(fast)),
                f"the bounds of the ramp are rounded: original_length is {whole}",
            )
            return


def _broken_bounds(ramp: _Ramp, inside: np.ndarray, factor: float, bits: float) -> Iterator[Guess]:
    """The same where the bounds are not rounded: both can be solved for."""
    slopes = line(inside.astype(np.float64), ramp.t[inside], ramp.error[inside])
    if slopes is None or slopes[0] <= 0:
        return
    middle, t = float(inside.mean()), float(ramp.t[inside].mean())
    slope, spread = sum(slopes) / 2, (slopes[1] - slopes[0]) / 2
    low, high = middle - t / slope, middle + (1 - t) / slope
    if low < 0 or high > 2 * ramp.pairs - 1:
        return
    # An error of the bounds, in indices, is one of the length in logarithms.
    error = max(
        ((spread / slope) * (high - low) + float(ramp.error[inside].max()) / slope)
        * math.log(ramp.base)
        / ramp.pairs,
        1e-9,
    )
    length = 2 * math.pi * ramp.base ** (high / ramp.pairs)
    if not 2 <= length <= LARGEST_LENGTH:
        return
    tidy, cost = stated(length, error)
    cost = cost if tidy == round(tidy) else real_bits(error)
    fast, written = stated(round(tidy) / (2 * math.pi * ramp.base ** (low / ramp.pairs)), error)
    if fast > 1:
        yield Guess(
            ramp.base,
            Ladder(),
            (YaRN(factor, original_length=round(tidy), beta_fast=fast, rounding="none"),),
            bits + (cost + 2 + written),
        )


def _by_turns(ramp: _Ramp, factor: float, bits: float) -> Iterator[Guess]:
    """The rule of Llama 3, and YaRN as its paper has it: linear in the turns of a pair."""
    kept = 1 - ramp.t
    for high in (4.0, 32.0, *_other_turns(ramp, kept)):
        # kept = (length f / 2 pi - 1) / (high - 1), at each pair within the ramp.
        begin, end = np.clip(_length_by_turns(ramp, kept, high), 1, LARGEST_LENGTH).tolist()
        if begin >= end:
            continue
        length, cost = stated_within(begin, end)
        whole = round(length)
        cost = cost if whole == length else real_bits((end - begin) / (end + begin))
        cost += 0 if high == 4.0 else 3 + bits_of(high)
        scaling: Scaling = (
            YaRN(factor, original_length=whole, ramp="turns")
            if high == 32.0
            else Llama3(factor, original_length=whole, high_freq_factor=high)
        )
        yield Guess(ramp.base, Ladder(), (scaling,), bits + cost)


def _other_turns(ramp: _Ramp, kept: np.ndarray) -> Iterator[float]:
    """A round number of turns up to which a ramp goes that is not one of the usual ones."""
    if len(ramp.inside) < 2:
        return
    ends = ramp.inside[[0, -1]]
    f = ramp.plain[ends]
    slope = (kept[ends[0]] - kept[ends[1]]) / (f[0] - f[1])
    level = kept[ends[0]] - slope * f[0]
    if slope > 0 and level < 0:
        high = roundest(1 - 1 / level, 4 * float(ramp.error[ends].max()) / abs(level))
        if high not in (None, 4.0, 32.0):
            yield high


def _length_by_turns(ramp: _Ramp, kept: np.ndarray, high: float) -> tuple[float, float]:
    """The lengths under which every pair is kept as far as it is."""
    unit = 2 * math.pi / ramp.plain
    ends = (np.clip(kept + error, 0, 1) for error in (-ramp.error, ramp.error))
    least, most = (unit * (1.0 + share * (high - 1.0)) for share in ends)
    # A pair at an end of the ramp bounds the length on one side only.
    least = np.where(kept <= ramp.error, 0.0, least)
    most = np.where(kept >= 1 - ramp.error, np.inf, most)
    return float(least.max()), float(most.min())


def searched(f: np.ndarray, tol: np.ndarray) -> Iterator[Guess]:
    """A divisor for each frequency, written with few decimals, on a base of models."""
    count = len(f)
    if count < LEAST_SEARCHED:
        return
    for base in BASES:
        divisors = np.exp(-math.log(base) * np.arange(count) / count) / f
        if divisors.max() > 1e4 or divisors.min() < 1e-2:
            continue
        for decimals in (2, 3, 4):
            values = np.round(divisors, decimals)
            # Where most pairs are left alone, a few are off.
            if (
                (values <= 0).any()
                or (values == 1).mean() > 0.5
                or (np.abs(values / divisors - 1) > tol).any()
            ):
                continue
            each = math.log2(max(float(values.max()), 2.0) * 10**decimals)
            if each * count > -np.log2(2 * np.minimum(tol, 0.5)).sum():
                continue
            yield Guess(
                base,
                Ladder(),
                (Multipliers(tuple(values.tolist()), use="divide"),),
                1 + bits_of(base) + RULE + each * count,
            )
            break
