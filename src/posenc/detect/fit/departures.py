"""How numbers depart from those of a rule: by rounding, by direction, or in one of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from posenc.detect.fit import words
from posenc.detect.fit.tolerances import HALVES, ROUNDING

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
