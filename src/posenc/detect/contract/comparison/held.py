"""A subject held against what is expected of it: how far it agrees, and what tells why not.

For rows of tables and biases that is the one change of the spec that explains others.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from posenc import functional, positions as positions_
from posenc.detect.contract.checks import row_bounds
from posenc.detect.contract.comparison.diff import Difference
from posenc.detect.contract.comparison.fields import explained_by, words
from posenc.detect.contract.comparison.why import FIRST
from posenc.detect.contract.contract import Part
from posenc.detect.contract.sides.side import Implementation
from posenc.detect.fit import tolerances, turns
from posenc.detect.fit.frequencies import departures
from posenc.detect.subject import CannotAsk, Subject, Survey, refuse_if
from posenc.detect.subject.ask import WIDTH
from posenc.detect.subject.plan import Call
from posenc.detect.subject.reach import of_spec
from posenc.detect.subject.smallest import WRITES, SmallestCall
from posenc.detect.subject.survey import SEED, Bench

STILL, NONE = "the answers do not depend on positions", "no finite numbers"
TOLD = {"heads", "pairing", "numbers"}  # fields that say what is wrong with such answers
SCATTERED, SECONDS = 48, 10.0  # positions drawn; of a survey
UNEXPLAINED = "others, that no one change explains"


class Held(Bench):
    """The one sampler, with room for what is computed in halves."""

    def __init__(self, subject: Subject, expected: Callable[..., Any], dtype: str) -> None:
        super().__init__(subject, expected, None, np.random.default_rng(SEED))
        rounding, unit = self.allowed, 8 * tolerances.ROUNDING[dtype]
        if dtype in tolerances.HALVES:
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
    ask: Callable[[np.ndarray], turns.PairTurns],
    explain: Callable[[list[turns.PairTurns]], list[Difference]],
) -> Told:  # fmt: skip
    """A survey between two equal calls; where it differs, what explains the numbers of some."""
    first = np.arange(min(FIRST, part.length or FIRST))
    calls = bench.subject.calls
    before = _answered(bench, ask, first)
    bench.before += bench.subject.calls - calls  # its reach counts calls of its own
    choice, last = bench.held(end_of(part, code), SECONDS), bench.end - 1
    first = first[: last + 1]
    after = _answered(bench, ask, first)
    if after is None and choice.call is None:
        with code.refusing(method):
            ask(bench.places(first))
    rows = _remembered(before, after)
    if not rows and not choice.agrees:
        seen = [
            call._replace(order=order)
            for order, line in calls_to(last)
            if (call := _answered(bench, ask, line))
        ]
        rows = explain(seen)
        rows = rows if {row.field for row in rows} & TOLD else _still(seen) or rows
    if last + 1 < (part.length or 0) and (lacks := _lacking(bench, part)):
        rows.append(Difference("length", f"{part.length} positions", lacks))
    return stated(rows, bench.subject.how, choice)


def _still(calls: list[turns.PairTurns]) -> list[Difference]:
    """What is wrong with answers that are the same everywhere."""
    near = calls[0].values if calls else np.arange(2)
    still = len(near) > 1 and np.array_equal(near[1:], near[:-1])
    return [Difference("positions", "by position", STILL)] if still else []


def stated(rows: list[Difference], how: str, choice: Survey) -> Told:
    """Differences with the smallest call that shows them, and the reach of a survey."""
    if choice.call is not None:
        rows = [_nearer(row, choice.call) for row in rows or [_shown(choice.call)]]
    return Told(rows, f", {how}: {choice.reach.words()}", choice.reach.refused)


def _nearer(row: Difference, call: SmallestCall) -> Difference:
    """A difference with the smallest call, which may stand before the positions that explain it."""
    begins_ = row.position
    if begins_ is not None and call.begins is not None and call.difference >= turns.CONSIDERABLE:
        begins_ = min(begins_, int(call.begins))
    return dataclasses.replace(row, call=str(call), position=begins_)


def _answered(
    bench: Held, ask: Callable[[np.ndarray], turns.PairTurns], line: np.ndarray
) -> turns.PairTurns | None:
    """What is answered of positions; None where that is refused."""
    with contextlib.suppress(Exception):
        return ask(bench.places(line))
    return None


def _remembered(before: turns.PairTurns | None, after: turns.PairTurns | None) -> list[Difference]:
    """A difference of equal calls, with all others between them."""
    if before is None or after is None or len(before.values) != len(after.values):
        return []
    alike = before.values.shape == after.values.shape
    off = np.abs(after.values - (before.values if alike else np.inf)).max(axis=1)
    if not np.any(off > 1e-6):  # false for NaN, which is told by itself
        return []
    begin = turns.begins(off, after.first)
    return [Difference("state", "the same after other calls", "others", *begin)]


def end_of(part: Part, code: Implementation) -> int:
    """The farthest position at which a part is looked at."""
    spec: Any = part.spec
    shape = getattr(code.code, "shape", None)  # of stored rows, or of a square of cells
    if shape is not None and (part.kind == "table" or len(spec.axes) > 1):
        return int(shape[0]) - 1
    return max(part.length - 1, turns.DENSE) if part.length else turns.FAR[-1]


def calls_to(last: int) -> Iterator[tuple[str, np.ndarray]]:
    """Positions whose answers tell what explains a difference, near ones first."""
    line, rng = np.arange(min(last, turns.DENSE) + 1), np.random.default_rng(1)
    yield "", line[:FIRST]
    if last >= FIRST:
        yield "", line
    if last > turns.DENSE:
        yield "", last - line[::-1]
    places = np.r_[turns.NEAR, 2 ** np.arange(21) - 1, rng.integers(0, last + 1, SCATTERED)]
    places = rng.permutation(np.r_[places[places < last], last])
    yield "in another order", np.r_[places, places[:9]]
    yield "the last one alone", np.array([last])


def _lacking(bench: Held, part: Part) -> str:
    """Why not all positions that a part is declared for are there; nothing for our own limits."""
    last = (part.length or 0) - 1
    try:
        bench._answer(Call("", bench.places(np.array([0, last]))[None]))
    except CannotAsk as error:
        says = f"not all of them, in a call to position {last:,} ({str(error)[:120]})"
        return says if error.__cause__ else ""
    return ""


def _shown(call: SmallestCall) -> Difference:
    """A difference that nothing explains, by the smallest call that shows it."""
    odd = {"keys": "in the key that it returns" in call.notes, "dtype": call.dtype != "float32",
           "heads": call.heads > 1, "strides": "not contiguous" in call.notes}  # fmt: skip
    field = next((name for name, holds in odd.items() if holds), "positions")
    first = None if call.begins is None or not call.positions else int(call.begins)
    if WRITES in call.notes:
        return Difference("positions", "as they came", "written into", None, first)
    sides = (f"{call.expected:.6g}", f"{call.received:.6g}")
    return Difference(field, *sides, call.difference, first, "entries")


# --- rows of tables and biases --------------------------------------------------------------------


def table(part: Part, spec: Any, code: Implementation) -> Told:
    """Rows of an implementation, or how many are stored where they are learned."""
    refuse_if(len(getattr(spec, "axes", ("p",))) > 1, "tables of several axes are not compared")
    stored = getattr(code.code, "shape", None)
    if spec.parameters():
        own = [shape for shape in spec.shapes.values() if len(shape) == 2]
        learned = "its rows are learned; an array of them is compared by its shape, code is not"
        learned += ": hand over its function of input_ids" * inspect.isroutine(code.code)
        refuse_if(stored is None or len(own) != 1, learned)
        ours, theirs = (f"{n} rows of {dim}" for n, dim in (*own, stored))
        rows = [] if ours == theirs else [Difference("length", ours, theirs)]
        return Told(rows, ", the number of rows and their width, as they are learned")
    subject = code.subject("table", part, spec.dim, 1, None)
    refuse_if(subject.kind not in ("table", "angles"), f"{code.name} is {subject.how}")
    bench = Held(subject, of_spec(spec, "table"), code.dtype)
    bench.allowed = lambda call, wanted: _room(spec, call.rows, wanted, code.dtype)

    def explained(calls: list[turns.PairTurns]) -> list[Difference]:
        return next(
            filter(None, (_rows(spec, call.positions, call.values, code.dtype) for call in calls)),
            [],
        )

    return held(
        part, code, "table", bench,
        lambda places: turns.PairTurns(places, subject.rows(places), len(places)), explained,
    )  # fmt: skip


def _room(spec: Any, places: np.ndarray, rows: np.ndarray, dtype: str) -> np.ndarray:
    """What explains differences of rows (..., dim) at positions (...)."""
    bounds = row_bounds(spec, places.reshape(-1, 1), rows.reshape(-1, rows.shape[-1]))
    if not bounds:
        return np.full(rows.shape, 1e-4 * max(1.0, float(np.abs(rows).max())))
    return np.broadcast_to((turns.ROOM * bounds[dtype]).reshape(*places.shape, 1), rows.shape)


def _rows(spec: Any, places: np.ndarray, theirs: np.ndarray, dtype: str) -> list[Difference]:
    """The change of a table that explains its rows; none where they are its own."""

    def rows_at(one: Any, places: np.ndarray) -> np.ndarray:
        return np.asarray(functional.table(one, places, dtype="float64"))

    mine = rows_at(spec, places)
    if theirs.shape != mine.shape:
        return [Difference("dim", f"{mine.shape[1]} columns", f"shape {theirs.shape}", what="rows")]
    off = np.abs(theirs - mine).max(axis=1)
    room = _room(spec, places, mine, dtype)[:, 0]
    if np.all(off <= room):
        return []
    size = (*turns.begins(off, places), "rows")
    wrong = ~(off <= room)
    some_ = np.r_[0 : min(12, len(places)), len(places) // 2, len(places) - 1]
    few = np.unique(np.r_[some_, np.flatnonzero(wrong)[:8]])
    near, some, room = places[few], theirs[few], room[few, None]
    for shift in sorted(range(-8, 9), key=abs)[1:]:
        moved = turns.attempt(rows_at, spec, np.abs(near + shift))
        if moved is not None and np.all((np.abs(moved - some) <= room)[near + shift >= 0]):
            text = f"that of position p {'+' if shift > 0 else '-'} {abs(shift)}"
            return [Difference("positions", "the row of position p", text, *size)]

    def fits(other: Any) -> bool:
        candidate = rows_at(other, near)
        return candidate.shape == some.shape and bool(np.all(np.abs(candidate - some) <= room))

    count = f"at {wrong.sum():,} of {wrong.size:,} positions"
    other = explained_by(spec, fits) or ("table", "its own rows", f"{UNEXPLAINED}, {count}")
    return [Difference(*other, *size)]


def bias(part: Part, spec: Any, code: Implementation) -> Told:
    """Biases of an implementation, up to what changes no softmax and a causal mask hides."""
    params = getattr(code.code, "params", None)
    refuse_if(
        spec.parameters() and (params is None or {*params} != {*spec.shapes}),
        "its values are learned, and are in the checkpoint",
    )
    for name, values in (params or {}).items():
        if values.shape != spec.shapes[name]:
            ours, theirs = (f"{name} {shape}" for shape in (spec.shapes[name], values.shape))
            return Told([Difference("heads", ours, theirs, what="biases")], ", its parameters")
    subject = code.subject("bias", part, WIDTH, len(spec.axes), spec.heads)
    refuse_if(subject.kind != "bias", f"{code.name} is {subject.how}")
    bench = _Softmax(subject, spec, params, code.dtype)
    calls, asked = _pairs(part, spec)
    rows: list[Difference] = []
    refused: list[str] = []
    hidden: dict[str, None] = {}
    for q, k in calls:
        try:
            with code.refusing("bias"):
                answer = subject.bias(q, k)
        except CannotAsk as error:
            if len(refused) + 1 == len(calls):
                raise
            refused.append(f"{len(q):,} queries of {len(k):,} keys: {error}")
            continue
        note, rows = bench.told(q, k, answer)
        hidden |= dict.fromkeys(filter(None, [note]))
        if rows:
            break
    told_ = f"{spec.heads} heads, {asked if not refused else 'some distances and queries'}" + (
        ", with numbers put in for the weights" if params is not None else ""
    )
    if len(spec.axes) > 1:
        return Told(rows, f", {subject.how}: {told_}", (*hidden, *refused))
    # Code of a model makes all biases before those that it is asked for.
    end = (
        FIRST - 1 if params is not None else min(turns.DENSE, (part.length or turns.DENSE + 1) - 1)
    )
    rows, reach, more = stated(rows, subject.how, bench.held(end, SECONDS))
    return Told(rows, f"{reach}; {told_}", (*hidden, *refused, *more))


def _pairs(part: Part, spec: Any) -> tuple[list[tuple[np.ndarray, np.ndarray]], str]:
    """Queries and keys whose biases tell what explains a difference."""
    if len(spec.axes) > 1:
        if (window := getattr(spec, "window", None)) is None:
            raise CannotAsk(f"biases of {', '.join(spec.axes)} are not asked for")
        cells = positions_.grid(window)
        return [(cells, cells)], f"every pair of cells of {words(window)}"
    last = min(turns.DENSE, (part.length or turns.DENSE + 1) - 1)
    line, end = np.arange(last + 1), np.array([last])
    near = np.array([p for p in (0, 1, 2, 7, 8, 9, 20, 63, 130, 300) if p <= last])
    (_, mixed), _ = [*calls_to(min(last, FIRST - 1))][-2:]
    calls = [(near, near[near <= 130]), (end, line), (line, line[:2]), (mixed, mixed)]
    return [*calls, calls[0]], f"every distance and every query to {last:,}"


class _Softmax(Held):
    """Biases as a softmax sees them: beside that of the first key, and of the past alone."""

    def __init__(self, subject: Subject, spec: Any, params: Any, dtype: str) -> None:
        self.spec, self.params, self.coarse_as = spec, params, dtype
        super().__init__(subject, functools.partial(self._biases, spec), dtype)
        self.sizes: Any = 0.0
        self.allowed = lambda _, wanted: self._room(wanted, self.sizes, dtype)

    def _biases(self, spec: Any, q: np.ndarray, k: np.ndarray) -> np.ndarray:
        return np.asarray(functional.bias(spec, q, k, params=self.params, dtype="float64"))

    @staticmethod
    def _room(wanted: np.ndarray, sizes: Any, dtype: str) -> np.ndarray:
        """Far keys have large biases, which a side rounds before they are subtracted."""
        return np.asarray(1e-5 * (1 + np.abs(wanted)) + 8 * tolerances.ROUNDING[dtype] * sizes)

    def _apart(
        self, call: Call, outs: list[np.ndarray], wants: list[np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        q, k = call.rows[0], call.keys[0]  # type: ignore[index]
        if outs[0].shape == wants[0].shape:
            (*outs, one), (*wants, other) = (self._seen(n[0], q, k) for n in (outs, wants))
            self.sizes = np.maximum(one, other)
        return super()._apart(call, outs, wants)

    def _seen(
        self, biases: np.ndarray, q: np.ndarray, k: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Biases, and the numbers that they are differences of.

        What is added to all keys of a query changes no softmax.
        """
        causal = q.ndim == 1 and getattr(self.spec, "direction", "causal") == "causal"
        first = biases[..., int(k.argmin()) if q.ndim == 1 else 0, None]
        with np.errstate(invalid="ignore"):
            moved = np.where(k <= q[:, None] if causal else True, biases - first, 0.0)
        sizes = np.abs(biases) + np.abs(first)
        return moved, np.where(np.isfinite(sizes), sizes, 0.0)

    def told(
        self, q: np.ndarray, k: np.ndarray, theirs: np.ndarray
    ) -> tuple[str, list[Difference]]:
        """What a causal mask hides of other biases, or the change that explains them."""
        mine = self.expected(q, k)
        if theirs.shape != mine.shape:
            ours, other = (f"shape {each.shape}" for each in (mine, theirs))
            return "", [Difference("heads", ours, other, what="biases")]
        (past, _), (seen_, sizes) = (self._seen(each, q, k) for each in (mine, theirs))

        def fits(biases: np.ndarray, dtype: str = self.coarse_as) -> bool:
            off = np.abs(biases - seen_)
            return bool(np.all((biases == seen_) | (off <= self._room(seen_, sizes, dtype))))

        def explains(one: Any) -> bool:
            biases = self._biases(one, q, k)
            return biases.shape == mine.shape and fits(self._seen(biases, q, k)[0])

        if fits(past):
            apart = np.abs(np.subtract(*(b - b[..., :1] for b in (mine, theirs))))
            alike = (mine == theirs) | (apart <= self._room(mine, sizes, self.coarse_as))
            note = "the future: it has other biases, which a causal mask hides"
            return note * (not np.all(alike)), []
        coarse = (
            ("dtype", f"biases in {self.coarse_as}", f"in {half}") for half in tolerances.HALVES
            if tolerances.seen(theirs) == half and fits(past, half)
        )  # fmt: skip
        row = next(coarse, None) or explained_by(self.spec, explains)
        if row is None and len(q) > 1 and q.ndim == 1:
            row = _slopes(mine, theirs, lambda factors: fits(past * factors[:, None, None]))
        off = np.abs(past - seen_)
        size = float(np.where(np.isnan(off), np.inf, off).max(initial=0.0))
        return "", [Difference(*(row or ("bias", "its own", UNEXPLAINED)), size, None, "biases")]


def _slopes(
    mine: np.ndarray, theirs: np.ndarray, fits: Callable[[np.ndarray], bool]
) -> tuple[str, str, str] | None:
    """Other slopes, where they explain all biases."""
    ours, other = (b[:, 1, 1] - b[:, 1, 0] for b in (mine, theirs))
    if not np.all(ours != 0) or not fits(other / ours):
        return None
    slopes = [", ".join(f"{s:.4g}" for s in each[:3]) + ", …" for each in (ours, other)]
    departed = departures(other, ours, dtype="float32", doubt=1e-5)
    return "slopes", slopes[0], departed.sentences(slopes=True)[0] if departed else slopes[1]
