"""From angles back to the coordinate that made them, without trying coordinates one by one.

Each pair says where the coordinate is up to whole turns: coarsely and with few turns if it is slow,
finely and with many if it is fast. So begin with the slowest, list its turns, and let pair after
pair correct the list and strike out what contradicts it (a Kalman filter with one state):

    r = wrap(angle - f p)     V = sigma**2 + f**2 var     cost += r**2 / V
    p += (f var / V) r        var *= sigma**2 / V

Where even the slowest pair has too many turns, differences of neighbours turn slower still: the
beats between pairs, beats between beats, and so on, each with more noise than the last.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np

TURN = 2 * math.pi
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
INTEGER = Angle(TURN, (0.0,), 1e-5)


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
    while len(slow) > order + 1 and abs(slowest.frequency) * span / TURN >= FEW:
        order += 1
        frequency = angle = squares = 0.0
        for k, a in enumerate(slow[: order + 1]):
            weight = (-1) ** k * math.comb(order, k)
            frequency += weight * a.frequency
            angle += weight * a.options[0]
            squares += (weight * a.sigma) ** 2
        if not 1e-13 <= abs(frequency) < 0.7 * abs(slowest.frequency) or math.sqrt(squares) > 0.3:
            break
        slowest = Angle(frequency, (math.remainder(angle, TURN),), math.sqrt(squares))
        beats.append(slowest)
    return beats[::-1]


def _begin(
    angle: Angle, low: float, high: float, drift: float, most: int
) -> tuple[np.ndarray, np.ndarray]:
    """Every coordinate in the range that the first angle allows; none if too many."""
    f = angle.frequency
    least, last = sorted((low * f / TURN, high * f / TURN))
    reach = 0.5 + 4 * angle.sigma / TURN
    begin, end = math.floor(least - reach), math.ceil(last + reach)
    if (end - begin) * len(angle.options) > most:
        return np.empty(0), np.empty(0)
    laps = np.arange(begin, end + 1, dtype=np.float64) * TURN
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
    laps = math.floor(3 * abs(f) * math.sqrt(_most(variance)) / TURN + 0.5)
    if len(p) * (2 * laps + 1) * len(angle.options) > 4 * most:
        return p[:0], variance[:0], cost[:0]
    candidates = []
    for option in angle.options:
        r = option - f * p
        r -= np.rint(r * (1 / TURN)) * TURN
        for lap in range(-laps, laps + 1):
            moved = r + lap * TURN
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
