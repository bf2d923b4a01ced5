"""Which ladder, and which rule on it, gives these frequencies.

A list of frequencies is a curve log f[j]. A plain ladder is a straight line; scalings that extend a
context keep its fast end, move its slow end down by the logarithm of a factor, and join both by a
ramp. So lines are laid through the ends, and what they leave open is solved for. Nothing is looked
up but the handful of bases that are tried where the numbers cannot tell two unknowns apart.

Each explanation is rebuilt by the code that computes it for models, to 50 digits, and kept only if
every frequency lies within its tolerance.

Numbers depart from those of a rule by rounding, by direction, or in few of them.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from posenc._core.errors import PosencError
from posenc._core.numeric.arrangement import Arrangement
from posenc._core.numeric.ladder import Ladder
from posenc._core.numeric.matrix import PhaseMatrix
from posenc.detect.fit import words
from posenc.detect.fit.ladders import (
    MARGIN,
    MOST_PAIRS,
    RULE,
    Guess,
    other_spacings,
    plain,
    real_bits,
)
from posenc.detect.fit.ramps import pieces, searched
from posenc.detect.fit.tolerances import HALVES, ROUNDING
from posenc.scaling import Proportional, Scaling

SINGLE = 2.0**-24


class Departures(NamedTuple):
    """What keeps numbers from being those of a rule."""

    rounding: str = ""  # the dtype that they were rounded to
    backward: tuple[int, ...] = ()  # numbers of the other sign
    odd: tuple[tuple[int, float], ...] = ()  # a number that is another, and its factor
    moved: tuple[tuple[int, int], ...] = ()  # a number that is that of another place

    @property
    def others(self) -> tuple[int, ...]:
        """The numbers that are others, but for rounding."""
        return (*self.backward, *(j for j, _ in (*self.moved, *self.odd)))

    def sentences(self, *, slopes: bool = False) -> tuple[str, ...]:
        """The same in words, of pairs or of slopes."""
        say, odd = (words.of_slopes, words.slope) if slopes else (words.say, words.speed)
        return (
            *(say("rounding", dtype) for dtype in (self.rounding,) if dtype),
            *(words.moved(self.moved, say) for _ in self.moved[:1]),
            *(words.backward(self.backward, say) for _ in self.backward[:1]),
            *(odd(number, factor) for number, factor in self.odd),
        )


def few(count: int) -> int:
    """How many of some numbers may be others, and the rest be a rule nevertheless."""
    return max(1, min(words.FEW, count // 4))


def tolerance_of(frequencies: np.ndarray, eps: float, arithmetic: float = SINGLE) -> np.ndarray:
    """The relative error to expect of frequencies that code computed and stored."""
    return 1.01 * eps + arithmetic * (
        3 + np.abs(np.log(np.where(frequencies > 0, frequencies, 1.0)))
    )


def tolerances(sizes: np.ndarray, dtype: str, doubt: float | np.ndarray) -> Iterator[np.ndarray]:
    """The relative errors to allow frequencies of a dtype: double precision first as what it is."""
    for eps in dict.fromkeys((ROUNDING[dtype], max(ROUNDING[dtype], SINGLE))):
        tiniest = SINGLE / 2 / np.maximum(sizes, SINGLE) if dtype == "float16" else 0.0
        yield tolerance_of(sizes, eps, min(eps, SINGLE)) + tiniest + doubt


def departures(
    values: np.ndarray, rule: np.ndarray, *, dtype: str, doubt: float | np.ndarray = 0.0
) -> Departures | None:
    """How numbers depart from a rule; None where more than few of them are others."""
    size, own = np.abs(values), np.arange(len(rule))
    order = own.copy()  # by size, in the order that the rule has
    order[np.argsort(-size, kind="stable")] = np.argsort(-np.abs(rule), kind="stable")
    for most, place in ((0, own), (0, order), (few(len(rule)), own)):
        wanted = np.abs(rule[place])
        for kind in dict.fromkeys(("" if dtype in HALVES else dtype, dtype)):
            *_, room = tolerances(size, kind or "float32", doubt)
            odd = np.flatnonzero(_off(size, wanted, room))
            if len(odd) <= most and wanted[odd].all():
                moved = np.flatnonzero(_off(size, np.abs(rule), room) & (place != own))
                return Departures(
                    kind if kind in HALVES else "",
                    tuple(
                        np.flatnonzero(
                            (np.sign(values) * np.sign(rule[place]) < 0) & (room < 1)
                        ).tolist()
                    ),
                    tuple((int(j), float(size[j] / wanted[j])) for j in odd),
                    tuple((int(j), int(place[j])) for j in moved),
                )
    return None


def _off(size: np.ndarray, wanted: np.ndarray, room: np.ndarray) -> np.ndarray:
    return np.asarray(np.abs(size - wanted) > room * np.maximum(size, wanted))


# --- rules ----------------------------------------------------------------------------------------


BLOCKS = 8  # of which each is left out to find one that is off
SUSPECTS = (2, 5, 8)  # numbers that are left out to find few that are off
TINY = 1e-300


class FrequencyFit(NamedTuple):
    """One explanation of a list of frequencies."""

    base: float
    ladder: Ladder
    scaling: tuple[Scaling, ...]
    residual: float  # largest |rebuilt / given - 1|
    evidence: float  # bits that the frequencies spell out
    description: float  # bits of base, ladder and scaling
    ratio: float  # between neighbours of the plain ladder
    remarks: tuple[str, ...]
    rungs: np.ndarray  # what it gives
    room: np.ndarray  # the relative error that was allowed; beyond 1 of what was left out

    def dearer(self, bits: float) -> FrequencyFit:
        """The same with more to be said."""
        return self._replace(description=self.description + bits)

    @property
    def margin(self) -> float:
        """Bits by which the frequencies say more than the explanation."""
        return self.evidence - self.description


def explained(
    values: np.ndarray,
    *,
    dtype: str,
    doubt: float | np.ndarray = 0.0,
    margin: float = MARGIN,
) -> tuple[FrequencyFit, ...]:
    """What explains frequencies to the precision that they have, the cheapest to state first.

    A rule that all follow comes before a rule that all but one follow, and both, if they are sure,
    before a list. `doubt` is the relative error of measured ones, and `margin` the least number of
    bits by which they must say more than what explains them. Signs count for nothing: `departures`
    tells them.
    """
    size = np.abs(np.asarray(values, dtype=np.float64))
    room = list(tolerances(size, dtype, doubt))
    sure = max(margin, MARGIN)
    searches: tuple[Any, ...] = (
        (functools.partial(fit_frequencies, lists=False), sure),
        (_exchanged, sure),
        (_but_few, sure),
        (fit_frequencies, margin),
    )
    options = (
        tuple(fit for fit in search(size, tolerance) if fit.margin >= least)
        for search, least in searches
        for tolerance in room
    )
    return next(filter(None, options), ())


def _exchanged(f: np.ndarray, tolerance: np.ndarray) -> tuple[FrequencyFit, ...]:
    """Rules that the frequencies follow from the fastest to the slowest, where these are mixed."""
    order = np.argsort(-f, kind="stable")
    moved = (order != np.arange(len(f))).sum()
    fits = fit_frequencies(f[order], tolerance[order], lists=False) if moved else ()
    return tuple(fit.dearer(moved * math.log2(len(f))) for fit in fits)


def _but_few(f: np.ndarray, tolerance: np.ndarray) -> tuple[FrequencyFit, ...]:
    """Rules that all frequencies but few follow: some are left out, and show which are off."""
    blocks = _suspects(f) if BLOCKS <= len(f) <= MOST_PAIRS else ()
    options = filter(None, (_others(block, f, tolerance) for block in blocks))
    return min(options, key=lambda fits: fits[0].description, default=())


def _others(block: np.ndarray, f: np.ndarray, tolerance: np.ndarray) -> tuple[FrequencyFit, ...]:
    """Rules that all follow but the fewest of those that a rule of the rest shows to be off."""
    for fit in _without(block, f, tolerance)[:1]:
        order = np.argsort(-np.abs(f - fit.rungs) / (tolerance * fit.rungs + TINY))
        for most in range(1, few(len(f)) + 1):
            odd = order[:most]
            cost = sum(math.log2(len(f)) + real_bits(room) for room in tolerance[odd].tolist())
            fits = [one for one in _without(odd, f, tolerance) if one.rungs[odd].all()]
            if fits:
                return tuple(one.dearer(cost) for one in fits)
    return ()


def _suspects(f: np.ndarray) -> Iterator[np.ndarray]:
    """What may be off: the frequencies without which the curve bends least, and each part of it."""
    rest = np.flatnonzero(f > 0)
    left: list[int] = []
    line = np.log(np.where(f > 0, f, 1.0))
    while len(rest) > words.FEW and len(left) < SUSPECTS[-1]:
        bends = [
            np.abs(np.diff(np.diff(line[x]) / np.diff(x))).sum()
            for x in (np.delete(rest, k) for k in range(len(rest)))
        ]
        left.append(int(rest[np.argmin(bends)]))
        rest = np.setdiff1d(rest, left)
        if len(left) in SUSPECTS:
            yield np.array(left)
    parts = np.array_split(np.arange(len(f)), BLOCKS)
    yield from parts
    yield from map(np.concatenate, itertools.pairwise(parts))  # neighbours may lie across an end


def _without(block: np.ndarray, f: np.ndarray, tolerance: np.ndarray) -> tuple[FrequencyFit, ...]:
    """Rules that the other frequencies follow."""
    rest = np.setdiff1d(np.flatnonzero(f > 0), block)
    if len(rest) < 2:
        return ()
    bridged, room = f.copy(), tolerance.copy()
    bridged[block] = np.exp(np.interp(block, rest, np.log(f[rest])))
    room[block] = np.inf
    return fit_frequencies(bridged, room, lists=False)


def fit_frequencies(
    frequencies: np.ndarray,
    tolerance: float | np.ndarray,
    *,
    lists: bool = True,
) -> tuple[FrequencyFit, ...]:
    """Every explanation that rebuilds all frequencies, the cheapest to state first.

    Without `lists` these are rules: no factor for each of them.
    """
    f = np.asarray(frequencies, dtype=np.float64)
    if f.ndim != 1 or not len(f) or not np.isfinite(f).all() or (f < 0).any() or not f[0] > 0:
        return ()
    tol = np.maximum(np.broadcast_to(np.asarray(tolerance, dtype=np.float64), f.shape), 1e-14)
    # A number near the smallest of its dtype says nothing of its logarithm.
    tol = np.where(tol > 0.2, 30.0, tol)
    kept = len(f) if (f > 0).all() else int(np.argmax(f == 0))
    if f[kept:].any():
        return ()
    evidence = float(np.maximum(-np.log2(2 * tol[:kept]), 0).sum()) + (len(f) - kept)
    fits: dict[tuple[object, ...], FrequencyFit] = {}
    for guess in _guesses(f[:kept], tol[:kept], len(f), lists=lists):
        fit = _rebuilt(guess, f, tol, evidence)
        if fit is not None:
            fits[fit[:3]] = min((fits.get(fit[:3], fit), fit), key=lambda one: one.description)
    return tuple(sorted(fits.values(), key=lambda fit: fit.description))


def _rebuilt(guess: Guess, f: np.ndarray, tol: np.ndarray, evidence: float) -> FrequencyFit | None:
    count = len(f)
    try:
        rungs = PhaseMatrix(
            guess.base,
            guess.ladder,
            Arrangement(),
            count,
            2 * count,
            "exact",
            "integer",
            guess.scaling,
        ).frequencies()
        unscaled = guess.ladder.rungs(guess.base, count=count, width=2 * count)
    except (PosencError, ArithmeticError):
        return None
    rebuilt = np.array([float(rung) for rung in rungs])
    nonzero = f > 0
    off = np.abs(rebuilt[nonzero] / f[nonzero] - 1)
    if rebuilt[~nonzero].any() or (off > tol[nonzero]).any():
        return None
    return FrequencyFit(
        guess.base,
        guess.ladder,
        guess.scaling,
        float(off[tol[nonzero] < 1].max(initial=0.0)),
        evidence,
        guess.bits,
        float(unscaled[1] / unscaled[0]) if count > 1 else 1.0,
        guess.remarks,
        rebuilt,
        tol,
    )


def _guesses(f: np.ndarray, tol: np.ndarray, count: int, *, lists: bool) -> Iterator[Guess]:
    """Explanations of the pairs that turn, the first of `count`."""
    still: tuple[Scaling, ...] = () if len(f) == count else (Proportional(len(f) / count),)
    bits = RULE + math.log2(count) if still else 0.0
    straight = list(plain(f, tol, count))
    for guess in straight:
        yield guess._replace(scaling=(*still, *guess.scaling), bits=guess.bits + bits)
    if straight or still:
        return
    yield from other_spacings(f, tol)
    if 2 < len(f) <= MOST_PAIRS:
        yield from pieces(f, tol)
        yield from searched(f, tol) if lists else ()


def nearest_ladder(f: np.ndarray) -> tuple[float, float, float]:
    """The nearest plain ladder: first, ratio, and the largest relative distance."""
    j = np.arange(len(f), dtype=np.float64)
    slope, level = np.polyfit(j, np.log(f), 1) if len(f) > 1 else (0.0, math.log(f[0]))
    return math.exp(level), math.exp(slope), float(np.abs(np.exp(level + slope * j) / f - 1).max())
