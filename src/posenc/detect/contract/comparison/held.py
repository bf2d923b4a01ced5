"""A subject held against what is expected of it: how far it agrees, and what tells why not."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from posenc.detect.contract.comparison.diff import Difference
from posenc.detect.contract.comparison.why import FIRST
from posenc.detect.contract.contract import Part
from posenc.detect.contract.sides.side import Implementation
from posenc.detect.fit.tolerances import HALVES, ROUNDING
from posenc.detect.fit.turns import CONSIDERABLE, DENSE, FAR, NEAR, PairTurns, begins
from posenc.detect.subject import CannotAsk, Subject, Survey
from posenc.detect.subject.plan import Call
from posenc.detect.subject.smallest import SmallestCall
from posenc.detect.subject.survey import SEED, Bench

SCATTERED = 48  # positions that are drawn
SECONDS = 10.0  # of a survey
STILL, NONE = "the answers do not depend on positions", "no finite numbers"
TOLD = {"heads", "pairing", "numbers"}  # fields that say what is wrong with such answers


class Held(Bench):
    """The one sampler, with room for what is computed in halves."""

    def __init__(self, subject: Subject, expected: Callable[..., Any], dtype: str) -> None:
        super().__init__(subject, expected, None, np.random.default_rng(SEED))
        rounding, unit = self.allowed, 8 * ROUNDING[dtype]
        if dtype in HALVES:
            self.allowed = lambda call, wanted: rounding(call, wanted) + unit * np.abs(wanted).max()

    def _end(self, end: int) -> int:
        self.end = super()._end(end)
        return self.end

    def places(self, line: np.ndarray) -> np.ndarray:
        """Positions (n,), or (n, axes) whose coordinates differ."""
        return np.asarray(self._on_axes(Call("", line[None])).rows[0])


class Told(NamedTuple):
    """What was found of a part: differences, how far it was looked, and what was refused."""

    rows: list[Difference]
    reach: str = ""
    refused: tuple[str, ...] = ()


def held(
    part: Part, code: Implementation, method: str, bench: Held,
    ask: Callable[[np.ndarray], PairTurns],
    explain: Callable[[list[PairTurns]], list[Difference]],
) -> Told:  # fmt: skip
    """A survey between two equal calls; where it differs, what explains the numbers of some."""
    first = np.arange(min(FIRST, part.length or FIRST))
    calls = bench.subject.calls
    before = _answered(bench, ask, first)
    bench.before += bench.subject.calls - calls  # its reach counts calls of its own
    choice = bench.held(end_of(part, code), SECONDS)
    last = bench.end - 1
    after = _answered(bench, ask, first[: last + 1])
    if after is None and choice.call is None:
        with code.refusing(method):
            ask(bench.places(first[: last + 1]))
    rows = _remembered(before, after)
    if not rows and not choice.agrees:
        answers = ((order, _answered(bench, ask, line)) for order, line in calls_to(last))
        seen = [call._replace(order=order) for order, call in answers if call]
        rows = explain(seen)
        rows = rows if {row.field for row in rows} & TOLD else _still(seen) or rows
    lacks = _lacking(bench, part) if last + 1 < (part.length or 0) else ""
    if lacks:
        rows.append(Difference("length", f"{part.length} positions", lacks))
    return stated(rows, bench.subject.how, choice)


def _still(calls: list[PairTurns]) -> list[Difference]:
    """What is wrong with answers that are the same everywhere."""
    near = calls[0].values if calls else np.arange(2)
    alike = len(near) > 1 and np.array_equal(near[1:], near[:-1])
    return [Difference("positions", "by position", STILL)] if alike else []


def stated(rows: list[Difference], how: str, choice: Survey) -> Told:
    """Differences with the smallest call that shows them, and the reach of a survey."""
    if choice.call is not None:
        rows = rows or [_shown(choice.call)]
        rows = [_nearer(row, choice.call) for row in rows]
    return Told(rows, f", {how}: {choice.reach.words()}", choice.reach.refused)


def _nearer(row: Difference, call: SmallestCall) -> Difference:
    """A difference with the smallest call, which may stand before the positions that explain it."""
    first, begins_ = min(p for line in call.positions or ((0,),) for p in line), row.position
    if call.positions and begins_ is not None and call.difference >= CONSIDERABLE:
        begins_ = min(begins_, first)
    return dataclasses.replace(row, call=str(call), position=begins_)


def _answered(
    bench: Held, ask: Callable[[np.ndarray], PairTurns], line: np.ndarray
) -> PairTurns | None:
    """What is answered of positions; None where that is refused."""
    with contextlib.suppress(Exception):
        return ask(bench.places(line))
    return None


def _remembered(before: PairTurns | None, after: PairTurns | None) -> list[Difference]:
    """A difference of equal calls, with all others between them."""
    if before is None or after is None or len(before.values) != len(after.values):
        return []
    alike = before.values.shape == after.values.shape
    off = np.abs(after.values - (before.values if alike else np.inf)).max(axis=1)
    if not np.any(off > 1e-6):  # false for NaN, which is told by itself
        return []
    size = begins(off, after.first)
    return [Difference("state", "the same after other calls", "others", *size)]


def end_of(part: Part, code: Implementation) -> int:
    """The farthest position at which a part is looked at."""
    spec: Any = part.spec
    shape = getattr(code.code, "shape", None)  # of stored rows, or of a square of cells
    if shape is not None and (part.kind == "table" or len(spec.axes) > 1):
        return int(shape[0]) - 1
    return max(part.length - 1, DENSE) if part.length else FAR[-1]


def calls_to(last: int) -> Iterator[tuple[str, np.ndarray]]:
    """Positions whose answers tell what explains a difference, near ones first."""
    line, rng = np.arange(min(last, DENSE) + 1), np.random.default_rng(1)
    yield "", line[:FIRST]
    if last >= FIRST:
        yield "", line
    if last > DENSE:
        yield "", last - line[::-1]
    places = np.r_[NEAR, 2 ** np.arange(21) - 1, rng.integers(0, last + 1, SCATTERED)]
    places = rng.permutation(np.r_[places[places < last], last])
    yield "in another order", np.r_[places, places[:9]]
    yield "the last one alone", np.array([last])


def _lacking(bench: Held, part: Part) -> str:
    """Why not all positions that a part is declared for are there; nothing for our own limits."""
    last = (part.length or 0) - 1
    try:
        bench._answer(Call("", bench.places(np.array([0, last]))[None]))
    except CannotAsk as error:
        text = str(error)[:120]
        return f"not all of them, in a call to position {last:,} ({text})" * bool(error.__cause__)
    return ""


def _shown(call: SmallestCall) -> Difference:
    """A difference that nothing explains, by the smallest call that shows it."""
    odd = {"keys": "in the key that it returns" in call.notes, "dtype": call.dtype != "float32",
           "heads": call.heads > 1, "strides": "not contiguous" in call.notes}  # fmt: skip
    field = next((name for name, holds in odd.items() if holds), "positions")
    first = min((p for row in call.positions for p in row), default=None)
    ours, theirs = (f"{number:.6g}" for number in (call.expected, call.received))
    return Difference(field, ours, theirs, call.difference, first, "its worst entry")
