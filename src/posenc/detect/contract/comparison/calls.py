"""For which positions a side is asked: near ones, far ones, other orders, a token alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from posenc.detect.contract.comparison.diff import Difference
from posenc.detect.contract.contract import Part
from posenc.detect.contract.sides.side import CannotSay
from posenc.detect.fit.turns import DENSE, FAR, NEAR

FIRST = 512  # a sequence short enough for every model
SCATTERED = 48  # positions that are drawn
AGAIN = "the first call again"


def called(
    part: Part, axes: int, ask: Callable[[np.ndarray], Any], last: int | None = None
) -> tuple[list[tuple[str, Any]], list[Difference], str]:
    """The answers of calls, each with its order, what is missing below the length, and the reach.

    The calls reach ever farther; then come other orders, a token alone, and the first one again.
    """
    answers: list[tuple[str, Any]] = []
    missing: list[Difference] = []
    reach, refused, farthest = "", "", 0
    first: np.ndarray | None = None
    calls = list(_reaches(part, axes, last))
    while calls:
        places = calls.pop(0)
        end = int(places.max())
        try:
            answers.append(("", ask(places)))
        except CannotSay as error:
            if not answers:
                raise
            if end < (part.length or 0):
                lacks = f"not all of them, in a call to position {end:,} ({error})"
                missing = [Difference("length", f"{part.length} positions", lacks)]
                break
            # A table of rows may end before: at 4,096, 2,048 or 1,024 of them.
            shorter = 2 ** int(np.log2(end))
            calls = [places[:shorter]] if FIRST < shorter < len(places) <= DENSE + 1 else []
            continue
        farthest, first = max(farthest, end), places if first is None else first
        if len(places) > 1:
            dense = f"every position to {min(end, DENSE):,}"
            reach = dense if end <= DENSE else f"{dense} and from {end - DENSE:,} to {end:,}"
    assert first is not None  # noqa: S101 - a call was answered
    for order, places in (*scattered(farthest, axes), (AGAIN, first)):
        try:
            answers.append((order, ask(places)))
            reach += f", {order.partition(',')[0]}"
        except CannotSay as error:
            refused += f"; not {order.partition(',')[0]}: {error}"
    return answers, missing, reach + refused


def _reaches(part: Part, axes: int, last: int | None = None) -> Iterator[np.ndarray]:
    """Positions of each call, (n,) or (n, axes): all that are near, and runs that end far away.

    The ends are `last`, or what the part is declared for. Where a scaling begins stands alone.
    """
    end = part.length or 0 if last is None else last + 1
    line, rng = np.arange(DENSE + 1), np.random.default_rng(0)
    begin = part.original_length or 0
    first = min(FIRST, end or FIRST)
    ends = {first - 1, begin - 1, begin, end - 1, DENSE, *FAR}
    for far in sorted(p for p in ends if p >= first - 1):
        if end and far >= end and (far > DENSE or last is not None):
            continue
        if far in (begin - 1, begin) and far not in (first - 1, end - 1, DENSE):
            places = np.array([far])
        elif far <= DENSE:
            places = line[: far + 1]
        else:  # whatever repeats within DENSE positions shows in the run
            powers = 2 ** np.arange(12, 20)
            places = np.r_[powers - 1, powers, powers + 1, rng.integers(DENSE, far, FIRST)]
            places = np.r_[0, np.unique(places[places < far - DENSE]), line + far - DENSE]
        yield _on_axes(places, axes)


def scattered(last: int, axes: int) -> Iterator[tuple[str, np.ndarray]]:
    """What else is asked below a position that was answered: other orders, and a token alone."""
    rng = np.random.default_rng(1)
    places = np.r_[NEAR, 2 ** np.arange(21) - 1, rng.integers(0, last + 1, SCATTERED)]
    places = rng.permutation(np.r_[places[places < last], last])
    yield "in another order, some of them twice", _on_axes(np.r_[places, places[:9]], axes)
    yield "the last one alone", _on_axes(np.array([last]), axes)


def _on_axes(places: np.ndarray, axes: int) -> np.ndarray:
    """Positions whose coordinates on several axes differ from each other."""
    moved = [places[np.arange(places.size) * (2 * k + 1) % places.size] for k in range(axes)]
    return places if axes == 1 else np.stack(moved, axis=-1)
