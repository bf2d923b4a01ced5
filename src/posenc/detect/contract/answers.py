"""What an implementation answers for one part of a description, and how that differs."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from posenc import functional
from posenc._core.errors import PosencError
from posenc.detect.contract import turns
from posenc.detect.contract.checks import factors_of, row_bounds, sequences
from posenc.detect.contract.contract import Check, Part
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
        yield "scores", lambda: _refused(f"a {part.kind} encoding needs content")
    cases = {str(check["case"]): check for check in sequences((part,))}
    if "position_ids" in code.methods:
        for case, check in cases.items():
            yield f"position_ids ({case})", functools.partial(_positions, part, check, code)
    elif cases:
        yield f"position_ids ({', '.join(cases)})", lambda: _refused("it is not offered")


def _refused(reason: str) -> Told:
    raise CannotSay(reason)


def _positions(part: Part, check: Check, code: Implementation) -> Told:
    """Which token stands where: left padding, packed sequences, a cached step."""
    asked = {name: value for name, value in check.data.items() if name != "positions"}
    theirs, mine = code.ask("position_ids", asked, part=part).reshape(-1), check["positions"]
    begins, counted = "", np.ones(mine.size, bool)
    if "mask" in check:  # what padding gets is nobody's business
        counted = check["mask"] == 1
    if "shift" in check and theirs.shape == mine.shape:
        # A rotation or a bias sees distances alone: a row may begin to count anywhere.
        begins, shape = ", from wherever a row begins to count", tuple(check["shape"])
        first = counted.reshape(shape).argmax(-1)[..., None]
        moved = np.take_along_axis((theirs - mine).reshape(shape), first, -1)
        theirs = (theirs.reshape(shape) - moved).reshape(-1)
    if theirs.shape == mine.shape and np.all(theirs[counted] == mine[counted]):
        return [], begins
    ours, other = (words(tuple(p.astype(int).tolist())) for p in (mine, theirs))
    return [Difference("positions", f"{check['case']}: {ours}", other)], begins


def _explained(spec: Any, fits: Callable[[Any], bool]) -> tuple[str, str, str] | None:
    """The field whose change fits, and what it is on both sides."""
    for field, text, other in variants(spec):
        with contextlib.suppress(PosencError):
            if fits(other):
                return field, value_of(spec, field), text
    return None


def _called(
    part: Part, axes: int, ask: Callable[[np.ndarray], Any], last: int | None = None
) -> tuple[list[Any], list[Difference], str]:
    """The answers of calls that reach ever farther, what is missing below the declared length."""
    answers: list[Any] = []
    reach = ""
    calls = list(turns.reaches(part, axes, last))
    while calls:
        places = calls.pop(0)
        end = int(places.max())
        try:
            answers.append(ask(places))
        except CannotSay as error:
            if not answers:
                raise
            if end < (part.length or 0):
                lacks = f"not all of them, in a call to position {end:,} ({error})"
                return answers, [Difference("length", f"{part.length} positions", lacks)], reach
            # A table of rows may end before: at 4,096, 2,048 or 1,024 of them.
            shorter = 2 ** int(np.log2(end))
            calls = [places[:shorter]] if FIRST < shorter < len(places) <= DENSE + 1 else []
            continue
        if len(places) > 1:
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
        return rows, f", {pairs}, {reach}, and the first call again"

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
        span = f"of sequences of {' and '.join(map(str, lengths))}" if spec.needs_length else ""
        return rows, f", {count} numbers {span or 'at every length'}"

    def _turned(self, places: np.ndarray) -> PairTurns:
        length = int(places.max()) + 1
        width = int(getattr(self.code.code, "head_dim", 0) or self.spec.dim)
        x = turns.probes(width, len(places), 1 if len(places) > FIRST else HEADS)
        y = self.code.ask("rotate", x, places, part=self.part, length=length)
        if y.shape != x.shape:
            raise CannotSay(f"rotate returns {y.shape} for {x.shape}")
        spec, values, left = turns.of_rotations(self.fitted or self.spec, x[0], y[0])
        finite = np.isfinite(y).all(axis=(0, 1, 3))
        values = np.where(finite[:, None], values, np.nan)
        if self.fitted is None:
            self.fitted = self.spec
            if finite.all():
                self._fit(spec, left, places)
        return PairTurns(places, values, length, self.code.dtype, rotated=True)

    def _fit(self, spec: RotarySpec, left: np.ndarray, places: np.ndarray) -> None:
        """Note the pairing that fits, and heads that are not turned as most are."""
        line = places if places.ndim == 1 else places.max(axis=-1)
        if np.median(left, axis=0).max() > LEFT_OVER:
            row = ("pairing", "one that is known", "turned in no way that is known")
            self.rows.append(Difference(*row, float(left.max()), None, "a rotated query"))
            return
        self.fitted = spec
        for field, mine, theirs, _ in changed(self.spec, spec)[:1]:
            size = (*effect(self.spec, spec)[:2], "a rotated query")
            self.rows.append(Difference(field, words(mine), words(theirs), *size))
        coarse = max(1e-5, 4 * ROUNDING[self.code.dtype])
        heads = np.flatnonzero(left.max(axis=1) > max(coarse, 4 * np.median(left.max(axis=1))))
        if heads.size:
            text = f"otherwise in {', '.join(map(str, heads.tolist()))} of {len(left)}"
            size = (*turns.begins(left.max(axis=0), line), "a rotated query")
            self.rows.append(Difference("heads", "turned alike", text, *size))

    def _cosines(self, places: np.ndarray) -> PairTurns:
        length, pairs = int(places.max()) + 1, self.spec.pairs
        answer = self.code.ask("cos_sin", places, part=self.part, length=length)
        cos, sin = (t.reshape(-1, t.shape[-1]) for t in answer)
        half = cos.shape[-1] // 2
        if cos.shape[-1] != pairs and np.array_equal(cos[:, :half], cos[:, half:], equal_nan=True):
            cos, sin = cos[:, :half], sin[:, :half]
        elif cos.shape[-1] != pairs and np.array_equal(cos[:, ::2], cos[:, 1::2], equal_nan=True):
            cos, sin = cos[:, ::2], sin[:, ::2]
        if cos.shape != sin.shape or len(cos) != len(places):
            raise CannotSay(
                f"cos_sin returns {cos.shape} and {sin.shape} for {len(places)} positions"
            )
        return PairTurns(places, cos + 1j * sin, length, self.code.dtype)


def _logit_scale(part: Part, spec: Any, code: Implementation) -> Told:
    places = next(turns.reaches(part, 1))
    length = int(places[-1]) + 1
    fixed = spec.at(length)
    mine = fixed.logit_factor * factors_of(part.temperature, places)
    mine = mine * factors_of(fixed.magnitude_of_scores.temperature, places)
    theirs = code.ask("logit_scale", places, part=part, length=length).reshape(-1)
    if theirs.shape not in ((1,), mine.shape):
        raise CannotSay(f"logit_scale returns {theirs.size} numbers for {places.size} positions")
    off, room = np.abs(theirs - mine), 8 * ROUNDING[code.dtype] * np.abs(mine)
    rows = []
    if not np.all(off <= room):
        at = int(np.argmax(~(off <= room)))
        ours, other = (f"{each[at % each.size]:.6g}" for each in (mine, theirs))
        size = turns.begins(np.nan_to_num(off), places)
        rows = [Difference("logit_scale", ours, other, *size, "factors on the scores")]
    return rows, f", every position to {places[-1]:,}"


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
        return rows, ", the number of rows and their width, as they are learned"

    def ask(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return places, code.ask("table", places, part=part)

    calls, rows, reach = _called(part, 1, ask, None if stored is None else stored[0] - 1)
    for places, theirs in calls:
        rows = _rows(spec, places, theirs, code.dtype) + rows
        if rows:
            break
    return rows, f", {calls[0][1].shape[-1]} columns, {reach}"


def _rows(spec: Any, places: np.ndarray, theirs: np.ndarray, dtype: str) -> list[Difference]:
    """The change of a table that explains its rows; none where they are its own."""

    def rows_at(one: Any, places: np.ndarray) -> np.ndarray:
        return np.asarray(functional.table(one, places, dtype="float64"))

    mine = rows_at(spec, places)
    if theirs.shape != mine.shape:
        return [Difference("dim", f"{mine.shape[1]} columns", f"shape {theirs.shape}", what="rows")]
    off = np.abs(theirs - mine).max(axis=1)
    bounds = row_bounds(spec, places[:, None], mine)
    room = ROOM * bounds[dtype] if bounds else 1e-4 * max(1.0, float(np.abs(mine).max()))
    room = np.broadcast_to(room, off.shape)
    if np.all(off <= room):
        return []
    size = (*turns.begins(np.where(np.isfinite(off), off, np.inf), places), "rows")
    wrong = ~(off <= room)
    few = np.unique(np.r_[0:12, len(places) // 2, np.flatnonzero(wrong)[:8], len(places) - 1])
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


def _bias(part: Part, spec: Any, code: Implementation) -> Told:
    if spec.parameters():
        raise CannotSay("its values are learned, and are in the checkpoint")
    last = min(DENSE, (part.length or DENSE + 1) - 1)
    line, end = np.arange(last + 1), np.array([last])
    near = np.array([p for p in (0, 1, 2, 7, 8, 9, 20, 63, 130, 300) if p <= last])
    calls = [(near, near[near <= 130]), (end, line), (line, line[:2])]
    rows: list[Difference] = []
    note = ""
    for q, k in calls:
        theirs = code.ask("bias", q, k, part=part)
        rows, ahead = _biases(spec, q, k, theirs)
        note = note or ahead
        if rows:
            break
    reach = f", {theirs.shape[0]} heads, every distance and every query to {last:,}"
    return rows, reach + note


def _biases(
    spec: Any, q: np.ndarray, k: np.ndarray, theirs: np.ndarray
) -> tuple[list[Difference], str]:
    def biases_of(one: Any) -> np.ndarray:
        return np.asarray(functional.bias(one, q_positions=q, k_positions=k, dtype="float64"))

    def alike(one: np.ndarray, other: np.ndarray) -> bool:
        return one.shape == other.shape and np.allclose(one, other, rtol=1e-5, atol=1e-5)

    past = k[None, :] <= q[:, None]

    def relative(biases: np.ndarray) -> np.ndarray:
        # What is added to all keys of a query changes no softmax.
        return np.asarray((biases - biases[..., :1])[:, past])

    mine = biases_of(spec)
    if theirs.shape != mine.shape:
        ours, other = (f"shape {each.shape}" for each in (mine, theirs))
        return [Difference("heads", ours, other, what="biases")], ""
    if alike(mine, theirs):
        return [], ""
    past_mine, past_theirs = relative(mine), relative(theirs)
    if alike(past_mine, past_theirs):
        return [], ", but for the future and what is the same for all keys of a query"

    def fits(one: Any) -> bool:
        return biases_of(one).shape == theirs.shape and alike(relative(biases_of(one)), past_theirs)

    row = _explained(spec, fits) or ("bias", "its own", UNEXPLAINED)
    if row[0] == "bias" and len(q) > 1:
        first, second = (b[:, 1, 1] - b[:, 1, 0] for b in (mine, theirs))
        if np.all(first != 0) and alike(past_mine * (second / first)[:, None], past_theirs):
            slopes = [", ".join(f"{s:.4g}" for s in each[:3]) + ", …" for each in (first, second)]
            row = ("slopes", slopes[0], slopes[1])
    size = float(np.max(np.abs(past_mine - past_theirs)))
    return [Difference(*row, size, None, "biases")], ""
