"""Positions at which a phase falls into an arc, in order, without looking at the others.

A phase is `position * step` modulo 2**64, so the question is for which multiples of an integer the
remainder lies between two bounds. Euclid's algorithm answers it: modulo `a` the question repeats
itself with smaller numbers, so the next position costs some 60 divisions, however far it lies.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator
from decimal import Decimal

from posenc._core.numeric.ladder import context

TURN = 1 << 64
Arc = tuple[int, int]  # from, length: of phases, 2**64 to the turn
# What float64 may lose on the way from a value to its phase, in those units.
SLACK = 1 << 13


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
    if length >= TURN:
        return begin
    low = (start - step * begin) % TURN
    if low + length >= TURN:  # the phase of `begin` itself lies in it
        return begin
    more = first(step % TURN, TURN, low, low + length)
    return None if more is None else begin + more


def hits(step: int, arcs: Iterable[Arc], low: int, high: int) -> Iterator[int]:
    """Positions from `low` to `high` whose phase lies in one of the arcs."""
    heads: list[tuple[int, int, int, Arc]] = []  # (size, sign, step, arc) of the next hit of each
    for arc in arcs:
        mirrored = (-arc[0] - arc[1]) % TURN, arc[1]
        if high >= 0:
            heads.append((max(low, 0) - 1, 1, step, arc))
        if low < 0:
            # Position -p has the phase that p has backwards.
            heads.append((max(-high, 1) - 1, -1, step, mirrored))
    # The mirror of an arc is met by the same multiples.
    waiting = [_advanced(head, low, high) for head in heads]
    queue = [head for head in waiting if head is not None]
    heapq.heapify(queue)
    while queue:
        size, sign, turn, arc = heapq.heappop(queue)
        yield sign * size
        after = _advanced((size, sign, turn, arc), low, high)
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
    joined = [rising, falling]
    if rising[0] + rising[1] >= falling[0]:
        joined = [(rising[0], falling[0] + falling[1] - rising[0])]
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
    arcs = []
    for a, b in _segments(one):
        for c, d in _segments(other):
            if max(a, c) <= min(b, d):
                arcs.append((max(a, c), min(b, d) - max(a, c)))
    return tuple(arcs)


def _segments(arcs: Iterable[Arc]) -> Iterator[tuple[int, int]]:
    """First and last phase of each arc, cut at 0."""
    for start, length in arcs:
        if start + length < TURN:
            yield start, start + length
        else:
            yield start, TURN - 1
            yield 0, min(start, start + length - TURN)
