"""Rows of tables and biases of an implementation, and the one change that explains others."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from posenc import functional
from posenc import positions as positions_
from posenc._core.errors import PosencError
from posenc.detect.contract.checks import row_bounds
from posenc.detect.contract.comparison.diff import Difference
from posenc.detect.contract.comparison.fields import value_of, variants, words
from posenc.detect.contract.comparison.held import SECONDS, Held, Told, calls_to, held, stated
from posenc.detect.contract.comparison.why import FIRST
from posenc.detect.contract.contract import Part
from posenc.detect.contract.sides.side import Implementation
from posenc.detect.fit import turns
from posenc.detect.fit import words as sentences
from posenc.detect.fit.departures import departures
from posenc.detect.fit.tolerances import HALVES, ROUNDING, seen
from posenc.detect.fit.turns import DENSE, PairTurns
from posenc.detect.subject import CannotAsk, Subject
from posenc.detect.subject.plan import Call
from posenc.detect.subject.tally import of_spec

WIDTH = 64  # of heads, where a bias is asked for
UNEXPLAINED = "others, that no one change explains"


def _explained(spec: Any, fits: Callable[[Any], bool]) -> tuple[str, str, str] | None:
    """The field whose change fits, and what it is on both sides."""
    for field, text, other in variants(spec):
        with contextlib.suppress(PosencError):
            if fits(other):
                return field, value_of(spec, field), text
    return None


def table(part: Part, spec: Any, code: Implementation) -> Told:
    """Rows of an implementation, or how many are stored where they are learned."""
    if len(getattr(spec, "axes", ("p",))) > 1:
        raise CannotAsk("a table of several axes is not asked for")
    stored = getattr(code.code, "shape", None)
    if spec.parameters():
        own = [shape for shape in spec.shapes.values() if len(shape) == 2]
        if stored is None or len(own) != 1:
            raise CannotAsk("its rows are learned, and their number is not told")
        ours, theirs = (f"{n} rows of {dim}" for n, dim in (*own, stored))
        rows = [] if ours == theirs else [Difference("length", ours, theirs)]
        return Told(rows, ", the number of rows and their width, as they are learned")

    subject = code.subject("table", part, spec.dim, 1, None)
    if subject.kind not in ("table", "angles"):
        raise CannotAsk(f"{code.name} is {subject.how}")
    bench = Held(subject, of_spec(spec, "table"), code.dtype)
    bench.allowed = lambda call, wanted: _room(spec, call.rows, wanted, code.dtype)

    def ask(places: np.ndarray) -> PairTurns:
        return PairTurns(places, subject.rows(places), len(places))

    def explained(calls: list[PairTurns]) -> list[Difference]:
        each = (_rows(spec, call.positions, call.values, code.dtype) for call in calls)
        return next(filter(None, each), [])

    return held(part, code, "table", bench, ask, explained)


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
        with contextlib.suppress(PosencError):
            moved = np.abs(rows_at(spec, np.abs(near + shift)) - some)
            if np.all((moved <= room)[near + shift >= 0]):
                text = f"that of position p {'+' if shift > 0 else '-'} {abs(shift)}"
                return [Difference("positions", "the row of position p", text, *size)]

    def fits(other: Any) -> bool:
        candidate = rows_at(other, near)
        return candidate.shape == some.shape and bool(np.all(np.abs(candidate - some) <= room))

    count = f"at {wrong.sum():,} of {wrong.size:,} positions"
    other = _explained(spec, fits) or ("table", "its own rows", f"{UNEXPLAINED}, {count}")
    return [Difference(*other, *size)]


def bias(part: Part, spec: Any, code: Implementation) -> Told:
    """Biases of an implementation, up to what changes no softmax and a causal mask hides."""
    params = getattr(code.code, "params", None)
    if spec.parameters() and (params is None or {*params} != {*spec.shapes}):
        raise CannotAsk("its values are learned, and are in the checkpoint")
    for name, values in (params or {}).items():
        if values.shape != spec.shapes[name]:
            ours, theirs = (f"{name} {shape}" for shape in (spec.shapes[name], values.shape))
            row = Difference("heads", ours, theirs, what="biases")
            return Told([row], ", its parameters")
    subject = code.subject("bias", part, WIDTH, len(spec.axes), spec.heads)
    if subject.kind != "bias":
        raise CannotAsk(f"{code.name} is {subject.how}")
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
    told_ = f"{spec.heads} heads, {asked if not refused else 'some distances and queries'}"
    told_ += ", with numbers put in for the weights" if params is not None else ""
    if len(spec.axes) > 1:
        return Told(rows, f", {subject.how}: {told_}", (*hidden, *refused))
    # Code of a model makes all biases before those that it is asked for.
    end = FIRST - 1 if params is not None else min(DENSE, (part.length or DENSE + 1) - 1)
    choice = bench.held(end, SECONDS)
    rows, reach, more = stated(rows, subject.how, choice)
    return Told(rows, f"{reach}; {told_}", (*hidden, *refused, *more))


def _pairs(part: Part, spec: Any) -> tuple[list[tuple[np.ndarray, np.ndarray]], str]:
    """Queries and keys whose biases tell what explains a difference."""
    if len(spec.axes) > 1:
        window = getattr(spec, "window", None)
        if window is None:
            raise CannotAsk(f"biases of {', '.join(spec.axes)} are not asked for")
        cells = positions_.grid(window)
        return [(cells, cells)], f"every pair of cells of {words(window)}"
    last = min(DENSE, (part.length or DENSE + 1) - 1)
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
        return np.asarray(1e-5 * (1 + np.abs(wanted)) + 8 * ROUNDING[dtype] * sizes)

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
            return "" if np.all(alike) else note, []
        coarse = (
            ("dtype", f"biases in {self.coarse_as}", f"in {half}") for half in HALVES
            if seen(theirs) == half and fits(past, half)
        )  # fmt: skip
        row = next(coarse, None) or _explained(self.spec, explains)
        if row is None and len(q) > 1 and q.ndim == 1:
            row = _slopes(mine, theirs, lambda factors: fits(past * factors[:, None, None]))
        off = np.abs(past - seen_)
        size = float(np.where(np.isnan(off), np.inf, off).max(initial=0.0))
        row = row or ("bias", "its own", UNEXPLAINED)
        return "", [Difference(*row, size, None, "biases")]


def _slopes(
    mine: np.ndarray, theirs: np.ndarray, fits: Callable[[np.ndarray], bool]
) -> tuple[str, str, str] | None:
    """Other slopes, where they explain all biases."""
    ours, other = (b[:, 1, 1] - b[:, 1, 0] for b in (mine, theirs))
    if not np.all(ours != 0) or not fits(other / ours):
        return None
    slopes = [", ".join(f"{s:.4g}" for s in each[:3]) + ", …" for each in (ours, other)]
    departed = departures(other, ours, dtype="float32", doubt=1e-5)
    named = departed.sentences(sentences.slope) if departed else slopes[1:]
    return "slopes", slopes[0], named[0]
