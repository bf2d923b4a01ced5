"""What an implementation answers for one part of a description, and how that differs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from posenc import functional
from posenc._core.errors import PosencError
from posenc.detect.contract import turns
from posenc.detect.contract.checks import factors_of, row_bounds
from posenc.detect.contract.contract import Part
from posenc.detect.contract.diff import Difference
from posenc.detect.contract.fields import changed, effect, value_of, variants, words
from posenc.detect.contract.side import CannotSay, Implementation
from posenc.detect.contract.tolerances import ROUNDING
from posenc.detect.contract.turns import DENSE, FIRST, ROOM, PairTurns
from posenc.detect.contract.why import why
from posenc.encodings.rotary.base import RotarySpec
from posenc.encodings.rotary.xpos import XPos

__all__ = ["looks"]

Told = tuple[list[Difference], str]  # the differences, and how far it was looked
Look = tuple[str, Callable[[], Told]]  # a method, and what asks it
HEADS = 4
LEFT_OVER = 0.02  # of a rotated query, that no pairing explains: more than bfloat16 rounds
UNEXPLAINED = "others, that no one change explains"


def looks(
    part: Part, code: Implementation, others: Sequence[tuple[str, RotarySpec]]
) -> Iterator[Look]:
    """What a part can be asked of an implementation, method by method."""
    spec: Any = part.spec
    if isinstance(spec, RotarySpec):
        if not spec.plain and not isinstance(spec, XPos):
            raise CannotSay(f"angles of {type(spec).__name__} differ by head, or are learned")
        for method in ("rotate", "cos_sin", "frequencies"):
            if method == "rotate" or method in code.methods:  # without it no pairing is seen
                yield method, _Rotation(part, code, method, others).look
        scaled = part.temperature is not None or spec.magnitude_of_scores.temperature is not None
        if "logit_scale" in code.methods or scaled or spec.logit_factor != 1:
            yield "logit_scale", lambda: _logit_scale(part, spec, code)
    elif part.kind == "table":
        yield "table", lambda: _table(part, spec, code)
    elif part.kind == "bias":
        yield "bias", lambda: _bias(part, spec, code)
    else:
        raise CannotSay(f"a {part.kind} encoding needs content, and is not asked for")


def _explained(spec: Any, fits: Callable[[Any], bool]) -> tuple[str, str, str] | None:
    """The field whose change fits, and what it is on both sides."""
    for field, said, other in variants(spec):
        with contextlib.suppress(PosencError):
            if fits(other):
                return field, value_of(spec, field), said
    return None


def _called(
    part: Part, axes: int, ask: Callable[[np.ndarray], Any], last: int | None = None
) -> tuple[list[Any], list[Difference], str]:
    """The answers of calls that reach ever farther, what is missing below the declared length."""
    answers: list[Any] = []
    reach = ""
    for where in turns.reaches(part, axes, last):
        end = int(where.max())
        try:
            answers.append(ask(where))
        except CannotSay as error:
            if not answers:
                raise
            if end < (part.length or 0):
                lacks = f"not all of them, in a call to position {end:,} ({error})"
                return answers, [Difference("length", f"{part.length} positions", lacks)], reach
            break
        if len(where) > 1:
            dense = f"every position to {min(end, DENSE):,}"
            reach = dense if end <= DENSE else f"{dense} and from {end - DENSE:,} to {end:,}"
    return answers, [], reach


# --- rotations ------------------------------------------------------------------------------------


class _Rotation:
    """One method of an implementation of a rotation."""

    def __init__(
        self, part: Part, code: Implementation, method: str,
        others: Sequence[tuple[str, RotarySpec]],
    ) -> None:  # fmt: skip
        spec: Any = part.spec
        self.part, self.code, self.method, self.others = part, code, method, others
        self.spec: RotarySpec = spec
        self.fitted: RotarySpec | None = None  # with the pairing and the width vectors turn by
        self.rows: list[Difference] = []

    def look(self) -> Told:
        """What the method answers, held against the spec."""
        if self.method == "frequencies":
            return self._frequencies()
        ask = self._turned if self.method == "rotate" else self._cosines
        calls, missing, reach = _called(self.part, len(self.spec.axes), ask)
        rows = [*self.rows, *missing]
        if not {row.field for row in rows} & {"pairing", "heads"}:  # nothing else can be told then
            rows = [*self.rows, *why(self.fitted or self.spec, calls, self.others), *missing]
        with contextlib.suppress(CannotSay):
            first, again = calls[0], ask(calls[0].positions)
            off = np.abs(again.values - first.values).max(axis=1)
            if np.any(off > 1e-6):  # false for NaN, which is told already
                same, other = "the same after a longer sequence", f"others after {reach}"
                size = turns.begins(np.nan_to_num(off), first.first)
                rows.append(Difference("state", same, other, *size))
        heads = f"{HEADS} heads" if self.method == "rotate" else "one head"
        lengths = ", ".join(f"{call.length:,}" for call in calls) if self.spec.needs_length else ""
        reach += f", in sequences of {lengths}" if lengths else ""
        pairs = f"{calls[0].values.shape[1]} pairs of {heads} as {self.code.dtype}"
        return rows, f"{pairs}, {reach}, and the first call again"

    def _frequencies(self) -> Told:
        spec, lengths = self.spec, [512]
        if spec.needs_length and self.code.takes("frequencies", "length") and spec.lengths:
            lengths = [spec.lengths[0], max(self.part.length or 0, 2 * spec.lengths[0])]
        rows: list[Difference] = []
        count = 0
        for length in lengths:
            values = self.code.ask("frequencies", part=self.part, length=length).reshape(-1)
            count = values.size
            rows += why(spec, [turns.of_frequencies(values, length, self.code.dtype)], self.others)
        told = f"of sequences of {' and '.join(map(str, lengths))}" if spec.needs_length else ""
        return rows, f"{count} numbers {told or 'at every length'}"

    def _turned(self, where: np.ndarray) -> PairTurns:
        length = int(where.max()) + 1
        width = int(getattr(self.code.code, "head_dim", 0) or self.spec.dim)
        x = turns.probes(width, len(where), 2 if len(where) > FIRST else HEADS)
        y = self.code.ask("rotate", x, where, part=self.part, length=length)
        if y.shape != x.shape:
            raise CannotSay(f"rotate returns {y.shape} for {x.shape}")
        spec, values, left = turns.of_rotations(self.fitted or self.spec, x[0], y[0])
        finite = np.isfinite(y).all(axis=(0, 1, 3))
        values = np.where(finite[:, None], values, np.nan)
        if self.fitted is None:
            self.fitted = self.spec
            if finite.all():
                self._fit(spec, left, where)
        return PairTurns(where, values, length, self.code.dtype, rotated=True)

    def _fit(self, spec: RotarySpec, left: np.ndarray, where: np.ndarray) -> None:
        """Note the pairing that fits, and heads that are not turned as most are."""
        line = where if where.ndim == 1 else where.max(axis=-1)
        if np.median(left, axis=0).max() > LEFT_OVER:
            told = ("pairing", "one that is known", "turned in no way that is known")
            self.rows.append(Difference(*told, float(left.max()), None, "a rotated query"))
            return
        self.fitted = spec
        for field, mine, theirs, _ in changed(self.spec, spec)[:1]:
            size = (*effect(self.spec, spec)[:2], "a rotated query")
            self.rows.append(Difference(field, words(mine), words(theirs), *size))
        coarse = max(1e-5, 4 * ROUNDING[self.code.dtype])
        heads = np.flatnonzero(left.max(axis=1) > max(coarse, 4 * np.median(left.max(axis=1))))
        if heads.size:
            said = f"otherwise in {', '.join(map(str, heads.tolist()))} of {len(left)}"
            size = (*turns.begins(left.max(axis=0), line), "a rotated query")
            self.rows.append(Difference("heads", "turned alike", said, *size))

    def _cosines(self, where: np.ndarray) -> PairTurns:
        length, pairs = int(where.max()) + 1, self.spec.pairs
        answer = self.code.ask("cos_sin", where, part=self.part, length=length)
        cos, sin = (t.reshape(-1, t.shape[-1]) for t in answer)
        half = cos.shape[-1] // 2
        if cos.shape[-1] != pairs and np.array_equal(cos[:, :half], cos[:, half:], equal_nan=True):
            cos, sin = cos[:, :half], sin[:, :half]
        elif cos.shape[-1] != pairs and np.array_equal(cos[:, ::2], cos[:, 1::2], equal_nan=True):
            cos, sin = cos[:, ::2], sin[:, ::2]
        if cos.shape != sin.shape or len(cos) != len(where):
            raise CannotSay(
                f"cos_sin returns {cos.shape} and {sin.shape} for {len(where)} positions"
            )
        return PairTurns(where, cos + 1j * sin, length, self.code.dtype)


def _logit_scale(part: Part, spec: Any, code: Implementation) -> Told:
    where = next(turns.reaches(part, 1))
    length = int(where[-1]) + 1
    fixed = spec.at(length)
    mine = fixed.logit_factor * factors_of(part.temperature, where)
    mine = mine * factors_of(fixed.magnitude_of_scores.temperature, where)
    theirs = code.ask("logit_scale", where, part=part, length=length).reshape(-1)
    if theirs.shape not in ((1,), mine.shape):
        raise CannotSay(f"logit_scale returns {theirs.size} numbers for {where.size} positions")
    off, room = np.abs(theirs - mine), 8 * ROUNDING[code.dtype] * np.abs(mine)
    rows = []
    if not np.all(off <= room):
        at = int(np.argmax(~(off <= room)))
        said = [f"{each[at % each.size]:.6g}" for each in (mine, theirs)]
        size = (*turns.begins(np.nan_to_num(off), where), "factors on the scores")
        rows = [Difference("logit_scale", *said, *size)]
    return rows, f"every position to {where[-1]:,}"


# --- rows and biases ------------------------------------------------------------------------------


def _table(part: Part, spec: Any, code: Implementation) -> Told:
    if len(getattr(spec, "axes", ("p",))) > 1:
        raise CannotSay("a table of several axes is not asked for")
    stored = getattr(code.code, "shape", None)
    if spec.parameters():
        length, start = getattr(spec, "length", None), getattr(spec, "start", 0)
        if stored is None or not isinstance(length, int):
            raise CannotSay("its rows are learned, and their number is not told")
        ours, theirs = (f"{n} rows of {dim}" for n, dim in ((length + start, spec.dim), stored))
        rows = [] if ours == theirs else [Difference("length", ours, theirs)]
        return rows, "the number of rows and their width, as they are learned"

    def ask(where: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return where, code.ask("table", where, part=part)

    calls, rows, reach = _called(part, 1, ask, None if stored is None else stored[0] - 1)
    for where, theirs in calls:
        rows = _rows(spec, where, theirs, code.dtype) + rows
        if rows:
            break
    return rows, f"{calls[0][1].shape[-1]} columns, {reach}"


def _rows(spec: Any, where: np.ndarray, theirs: np.ndarray, dtype: str) -> list[Difference]:
    """The change of a table that explains its rows; none where they are its own."""

    def rows_at(one: Any, places: np.ndarray) -> np.ndarray:
        return np.asarray(functional.table(one, places, dtype="float64"))

    mine = rows_at(spec, where)
    if theirs.shape != mine.shape:
        return [Difference("dim", f"{mine.shape[1]} columns", f"shape {theirs.shape}", what="rows")]
    off = np.abs(theirs - mine).max(axis=1)
    bounds = row_bounds(spec, where[:, None], mine)
    room = ROOM * bounds[dtype] if bounds else 1e-4 * max(1.0, float(np.abs(mine).max()))
    room = np.broadcast_to(room, off.shape)
    if np.all(off <= room):
        return []
    size = (*turns.begins(np.where(np.isfinite(off), off, np.inf), where), "rows")
    wrong = ~(off <= room)
    few = np.unique(np.r_[0:12, len(where) // 2, np.flatnonzero(wrong)[:8], len(where) - 1])
    near, some, room = where[few], theirs[few], room[few, None]
    for shift in sorted(range(-8, 9), key=abs)[1:]:
        with contextlib.suppress(PosencError):
            moved = np.abs(rows_at(spec, np.abs(near + shift)) - some)
            if np.all((moved <= room)[near + shift >= 0]):
                said = f"that of position p {'+' if shift > 0 else '-'} {abs(shift)}"
                return [Difference("positions", "the row of position p", said, *size)]

    def fits(other: Any) -> bool:
        made = rows_at(other, near)
        return made.shape == some.shape and bool(np.all(np.abs(made - some) <= room))

    other = _explained(spec, fits)
    if other is None:
        count = f"at {wrong.sum():,} of {wrong.size:,} positions"
        other = ("table", "its own rows", f"{UNEXPLAINED}, {count}")
    return [Difference(*other, *size)]


def _bias(part: Part, spec: Any, code: Implementation) -> Told:
    if spec.parameters():
        raise CannotSay("its values are learned, and are in the checkpoint")
    last = min(DENSE, (part.length or DENSE + 1) - 1)
    line, end = np.arange(last + 1), np.array([last])
    near = np.array([p for p in (0, 1, 2, 7, 8, 9, 20, 63, 130, 300) if p <= last])
    calls = [(near, near[near <= 130]), (end, line), (line, line[:2])]
    rows: list[Difference] = []
    told = ""
    for q, k in calls:
        theirs = code.ask("bias", q, k, part=part)
        rows, ahead = _biases(spec, q, k, theirs)
        told = told or ahead
        if rows:
            break
    reach = f"{theirs.shape[0]} heads, every distance and every query to {last:,}"
    return rows, reach + told


def _biases(
    spec: Any, q: np.ndarray, k: np.ndarray, theirs: np.ndarray
) -> tuple[list[Difference], str]:
    def made(one: Any) -> np.ndarray:
        return np.asarray(functional.bias(one, q_positions=q, k_positions=k, dtype="float64"))

    def alike(one: np.ndarray, other: np.ndarray) -> bool:
        return one.shape == other.shape and np.allclose(one, other, rtol=1e-5, atol=1e-5)

    past = k[None, :] <= q[:, None]

    def relative(biases: np.ndarray) -> np.ndarray:
        # What is added to all keys of a query changes no softmax.
        return np.asarray((biases - biases[..., :1])[:, past])

    mine = made(spec)
    if theirs.shape != mine.shape:
        shapes = (f"shape {each.shape}" for each in (mine, theirs))
        return [Difference("heads", *shapes, what="biases")], ""
    if alike(mine, theirs):
        return [], ""
    ours, given = relative(mine), relative(theirs)
    if alike(ours, given):
        return [], ", but for the future and what is the same for all keys of a query"
    other = _explained(
        spec, lambda one: made(one).shape == theirs.shape and alike(relative(made(one)), given)
    )
    if other is None:
        other = ("bias", "its own", UNEXPLAINED)
        first, second = (b[:, 1, 1] - b[:, 1, 0] for b in (mine, theirs)) if len(q) > 1 else (0, 0)
        if np.all(first != 0) and alike(ours * (second / first)[:, None], given):
            slopes = [", ".join(f"{s:.4g}" for s in each[:3]) + ", …" for each in (first, second)]
            other = ("slopes", *slopes)
    size = float(np.max(np.abs(ours - given)))
    return [Difference(*other, size, what="biases")], ""
