"""What the digits of a number say, and positions at which phases and angles are as they are seen.

Digits are rounded or cut: a number is an interval of sines, so an arc of phases.

A phase is `position * step` modulo 2**64, so the question is for which multiples of an integer the
remainder lies between two bounds. Euclid's algorithm answers it: modulo `a` the question repeats
itself with smaller numbers, so the next position costs some 60 divisions, however far it lies.

From angles back to the coordinate that made them, no coordinate is tried by itself either. Each
pair says where the coordinate is up to whole turns: coarsely and with few turns if it is slow,
finely and with many if it is fast. So begin with the slowest, list its turns, and let pair after
pair correct the list and strike out what contradicts it (a Kalman filter with one state):

    r = wrap(angle - f p)     V = sigma**2 + f**2 var     cost += r**2 / V
    p += (f var / V) r        var *= sigma**2 / V

Where even the slowest pair has too many turns, differences of neighbours turn slower still: the
beats between pairs, beats between beats, and so on, each with more noise than the last.
"""

from __future__ import annotations

import heapq
import itertools
import math
import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any, Literal, NamedTuple

import numpy as np

from posenc._core.arrays.array import dtype_name
from posenc._core.errors import bad_argument, refuse
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


def hits(step: int, arcs: Iterable[Arc], low: int, high: int) -> Iterator[int]:
    """Positions from `low` to `high` whose phase lies in one of the arcs."""
    # Position -p has the phase that p has backwards: the mirror of an arc is met by the same
    # multiples.
    lines = [
        _sizes(step, (sign * start - (sign < 0) * length) % TURN, length, begin, end, sign)
        for start, length in arcs
        for sign, begin, end in ((1, max(low, 0), high), (-1, max(-high, 1), -low))
    ]
    for size, sign in heapq.merge(*lines):
        yield sign * size


def _sizes(
    step: int, start: int, length: int, begin: int, end: int, sign: int
) -> Iterator[tuple[int, int]]:
    """Positions from `begin` to `end` whose phase lies in an arc, each with a sign."""
    while begin <= end:
        low = (start - step * begin) % TURN
        # Where the arc goes around, the phase of `begin` itself lies in it.
        more = 0 if low + length >= TURN else first(step % TURN, TURN, low, low + length)
        if more is None or begin + more > end:
            return
        yield begin + more, sign
        begin += more + 1


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
    near, far = digits - unit / 2, digits + unit / 2
    return Interval(value.strip(), near, far, (low, high), max(0, -exponent))


def _machine(value: Any, caller: str) -> Interval:
    """A number that was rounded to a dtype: half a step to either side."""
    name = dtype_name(value.dtype)
    shape = tuple(getattr(value, "shape", ()))
    refuse((name not in BITS or shape not in ((), (1,)), caller,
            f"one number of {' or '.join(BITS)}", f"{name} of shape {shape}"))  # fmt: skip
    number = float(value)
    refuse((not np.isfinite(number), caller, "a finite number", number))
    step = Decimal(2) ** max(int(np.frexp(number)[1]) - BITS[name], -149)
    exact = Decimal(number)
    return Interval(f"{number:.9g}", exact - step / 2, exact + step / 2, None, None)


# --- angles ---------------------------------------------------------------------------------------


MOST = 1 << 22  # candidates at a time
KEPT = 1 << 17  # of them, once it is said which integers they are
SURE = 0.02  # how far off a coordinate may be before it is taken for the nearest integer
FEW = 1 << 14  # turns of the first reading that need no beats
WORST_COST = 60.0  # beyond that of the best: e**-30 as likely
EARLY = 12  # angles after which outliers would have added up
NOISIEST = 0.8  # radians; an angle less certain than that says little, and its wraps confuse


class Angle(NamedTuple):
    """A measured angle: `options` (one, or two for a sine without its cosine) and its noise."""

    frequency: float  # radians per position
    options: tuple[float, ...]
    sigma: float


# That a coordinate is an integer is one more angle: it makes a whole turn from each to the next.
INTEGER = Angle(math.tau, (0.0,), 1e-5)


def solve(
    angles: list[Angle],
    low: float,
    high: float,
    *,
    of: Literal["integers", "reals"] = "integers",
    drift: float = 0.0,
    most: int = MOST,
) -> np.ndarray:
    """The coordinates between two bounds that explain angles, the best first; none if too many."""
    usable = sorted(
        (a for a in angles if a.frequency and a.sigma < NOISIEST), key=lambda a: abs(a.frequency)
    )
    if not usable:
        return np.empty(0)
    plan = [*_beats(usable, high - low), *usable]
    p, variance = _begin(plan[0], low, high, drift, most)
    cost = np.zeros_like(p)
    queue = [*plan[1:], INTEGER][::-1] if of == "integers" else plan[:0:-1]
    squares = 0
    while queue and len(p):
        # As soon as it can be said which integer, it is said: where all wavelengths are multiples
        # of one, nothing else tells a candidate from the others.
        angle = queue.pop(0 if INTEGER in queue and math.sqrt(_most(variance)) < SURE else -1)
        p, variance, cost = _step(
            angle, p, variance, cost, drift=0.0 if angle is INTEGER else drift, most=most
        )
        edge = 1 + 4 * math.sqrt(_most(variance))
        squares += 1
        # So few squares of unit noise do not add up to more, once in a million.
        early = squares + 5 * math.sqrt(2 * squares) + 15 if squares <= EARLY else math.inf
        worst = min(float(cost.min(initial=math.inf)) + WORST_COST, early)
        keep = (cost < worst) & (p > low - edge) & (p < high + edge)
        p, variance, cost = p[keep], _picked(variance, keep), cost[keep]
        if len(p) > KEPT and INTEGER not in queue:
            best = np.argpartition(cost, KEPT)[:KEPT]
            p, variance, cost = p[best], _picked(variance, best), cost[best]
    return p[np.argsort(cost, kind="stable")]


def _beats(angles: list[Angle], span: float) -> list[Angle]:
    """Differences of the slowest angles, the slowest first, where they are needed."""
    slow = [a for a in angles if len(a.options) == 1]
    beats: list[Angle] = []
    order, slowest = 0, angles[0]
    while len(slow) > order + 1 and abs(slowest.frequency) * span / math.tau >= FEW:
        order += 1
        frequency = angle = squares = 0.0
        for k, a in enumerate(slow[: order + 1]):
            weight = (-1) ** k * math.comb(order, k)
            frequency += weight * a.frequency
            angle += weight * a.options[0]
            squares += (weight * a.sigma) ** 2
        if not 1e-13 <= abs(frequency) < 0.7 * abs(slowest.frequency) or math.sqrt(squares) > 0.3:
            break
        slowest = Angle(frequency, (math.remainder(angle, math.tau),), math.sqrt(squares))
        beats.append(slowest)
    return beats[::-1]


def _begin(
    angle: Angle, low: float, high: float, drift: float, most: int
) -> tuple[np.ndarray, np.ndarray]:
    """Every coordinate in the range that the first angle allows; none if too many."""
    f = angle.frequency
    least, last = sorted((low * f / math.tau, high * f / math.tau))
    reach = 0.5 + 4 * angle.sigma / math.tau
    begin, end = math.floor(least - reach), math.ceil(last + reach)
    if (end - begin) * len(angle.options) > most:
        return np.empty(0), np.empty(0)
    laps = np.arange(begin, end + 1, dtype=np.float64) * math.tau
    p = np.concatenate([(laps + option) / f for option in angle.options])
    p = p[(p > low - 1 - 5 * angle.sigma / abs(f)) & (p < high + 1 + 5 * angle.sigma / abs(f))]
    variance = np.array([(angle.sigma / f) ** 2])
    return p, variance + (drift * p) ** 2 if drift else variance


def _step(
    angle: Angle,
    p: np.ndarray,
    variance: np.ndarray,
    cost: np.ndarray,
    *,
    drift: float,
    most: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What is left, and where it moves, once one more angle is known; nothing if too many."""
    f, noise = angle.frequency, angle.sigma**2
    if drift:
        noise = noise + (drift * f * p) ** 2  # type: ignore[assignment]
    total = noise + f * f * variance
    # Where the list is less certain than a turn of this angle, each lap is a candidate of its own.
    laps = math.floor(3 * abs(f) * math.sqrt(_most(variance)) / math.tau + 0.5)
    if len(p) * (2 * laps + 1) * len(angle.options) > 4 * most:
        return p[:0], variance[:0], cost[:0]
    candidates = []
    for option in angle.options:
        r = option - f * p
        r -= np.rint(r * (1 / math.tau)) * math.tau
        for lap in range(-laps, laps + 1):
            moved = r + lap * math.tau
            candidates.append((p + (f * variance / total) * moved, cost + moved**2 / total))
    after = variance * (noise / total)
    if len(candidates) == 1:
        return candidates[0][0], after, candidates[0][1]
    q, c = (np.concatenate(parts) for parts in zip(*candidates, strict=True))
    after = np.tile(after, len(candidates)) if len(after) > 1 else after
    keep = c < c.min() + WORST_COST
    return q[keep], _picked(after, keep), c[keep]


def _most(variance: np.ndarray) -> float:
    return float(variance.max()) if len(variance) else 0.0


def _picked(variance: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    return variance[chosen] if len(variance) > 1 else variance
