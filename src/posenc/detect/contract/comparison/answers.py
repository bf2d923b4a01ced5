"""What an implementation answers for one part of a description, and how that differs."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from posenc import functional
from posenc import positions as positions_
from posenc._core.errors import PosencError
from posenc.detect.contract.checks import factors_of, row_bounds, sequences
from posenc.detect.contract.comparison.diff import Difference
from posenc.detect.contract.comparison.fields import changed, effect, value_of, variants, words
from posenc.detect.contract.comparison.why import FIRST, why
from posenc.detect.contract.contract import Check, Part
from posenc.detect.contract.sides.side import Implementation
from posenc.detect.fit import turns
from posenc.detect.fit import words as sentences
from posenc.detect.fit.departures import departures
from posenc.detect.fit.precision import HALVES, seen
from posenc.detect.fit.tolerances import ROUNDING
from posenc.detect.fit.turns import DENSE, FAR, NEAR
from posenc.detect.subject import CannotAsk, Subject, Survey
from posenc.detect.subject.smallest import SmallestCall
from posenc.detect.subject.survey import SEED, Bench, Call, of_spec
from posenc.encodings.rotary.base import RotarySpec
from posenc.encodings.rotary.xpos import XPos

Told = tuple[list[Difference], str]  # the differences, and how far it was looked; and not
Look = tuple[str, Callable[[], Told]]  # a method, and what asks it
HEADS, MANY = 4, 33  # in the first call, and where few positions are asked
LEFT_OVER = 0.02  # of a rotated query, that no pairing explains: more than bfloat16 rounds
UNEXPLAINED = "others, that no one change explains"
SCATTERED = 48  # positions that are drawn
SECONDS = 10.0  # of a survey
AGAIN = "the first call again"
UNSEEN = "it is not offered, so that no pairing is seen"
METHOD = {"rotary": "rotate", "cos_sin": "cos_sin", "angles": "cos_sin"}


def looks(
    part: Part, code: Implementation, others: Sequence[tuple[str, RotarySpec]]
) -> Iterator[Look]:
    """What a part can be asked of an implementation, method by method."""
    spec: Any = part.spec
    if isinstance(spec, RotarySpec):
        if spec.quarters:
            raise CannotAsk(f"{type(spec).__name__} turns queries apart from keys")
        if not spec.plain and not isinstance(spec, XPos):
            raise CannotAsk(f"angles of {type(spec).__name__} differ by head, or are learned")
        for method, subject in _turning(part, code):
            if method == "frequencies":
                yield method, functools.partial(_frequencies, part, code, others)
            else:
                yield method, _Rotation(part, code, subject, method, others).look
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


def _turning(part: Part, code: Implementation) -> Iterator[tuple[str, Callable[[], Subject]]]:
    """The methods that say how a part turns, each with what gives its subject."""
    spec: Any = part.spec
    options = part, spec.dim, len(spec.axes), None
    if code.methods:
        for method in ("rotate", "cos_sin", "frequencies"):
            if method == "rotate" or method in code.methods:  # without it no pairing is seen
                yield method, functools.partial(code.subject, method, *options)
        return
    subject = code.subject("", *options)
    if subject.kind not in ("rotary", "cos_sin", "angles"):
        raise CannotAsk(f"{code.name} is {subject.how}")
    if subject.kind != "rotary":
        yield "rotate", lambda: _refused(UNSEEN)
    yield METHOD[subject.kind], lambda: subject


def _refused(reason: str) -> Any:
    raise CannotAsk(reason)


def _positions(part: Part, check: Check, code: Implementation) -> Told:
    """Which token stands where: left padding, packed sequences, a cached step."""
    asked = {name: value for name, value in check.data.items() if name != "positions"}
    theirs, mine = code.numbers("position_ids", asked, part=part), check["positions"]
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


# --- what is asked, whatever it is ----------------------------------------------------------------


class _Held(Bench):
    """The one sampler, with what a dtype explains, where frequencies may depend on the length."""

    def __init__(self, subject: Subject, expected: Callable[..., Any], dtype: str) -> None:
        super().__init__(subject, expected, None, np.random.default_rng(SEED))
        self.lengths_count = getattr(expected, "lengths_count", False)
        rounding, unit = self.allowed, 8 * ROUNDING[dtype] if dtype in HALVES else 0.0
        if unit:
            self.allowed = lambda call, want: rounding(call, want) + unit * np.abs(want).max()

    def _turned(self, call: Call) -> list[np.ndarray]:
        return super()._turned(call._replace(kind="") if self.lengths_count else call)

    def places(self, line: np.ndarray) -> np.ndarray:
        """Positions (n,), or (n, axes) whose coordinates differ."""
        return np.asarray(self._on_axes(Call("", line[None])).rows[0])

    def last(self, end: int) -> int:
        """The farthest position that it answers."""
        return self._end(end + 1) - 1


def _end_of(part: Part, code: Implementation) -> int:
    """How far a part is looked at."""
    spec: Any = part.spec
    shape = getattr(code.code, "shape", None)  # of stored rows, or of a square of cells
    if shape is not None and (part.kind == "table" or len(spec.axes) > 1):
        return int(shape[0]) - 1
    return max(part.length - 1, DENSE) if part.length else FAR[-1]


def _calls(last: int) -> Iterator[tuple[str, np.ndarray]]:
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


def _held(
    part: Part, code: Implementation, method: str, bench: _Held, ask: Callable[[np.ndarray], Any]
) -> tuple[list[tuple[str, Any]], list[Difference], Survey, str]:
    """Answers of calls with the first one again, what is missing or remembered, and the survey."""
    end, refused, rows = _end_of(part, code), "", []
    last = bench.last(end)
    answers: list[tuple[str, Any]] = []
    for order, line in _calls(last):
        try:
            with code.refusing(method):
                answers.append((order, ask(bench.places(line))))
        except CannotAsk as error:
            if not answers:
                raise
            refused += f"; not {order or f'positions to {line[-1]:,}'}: {error}"
    if last + 1 < (part.length or 0) and (why := _lacking(bench, part)):
        rows.append(Difference("length", f"{part.length} positions", why))
    found = bench.held(last, SECONDS)
    with contextlib.suppress(CannotAsk), code.refusing(method):
        answers.append((AGAIN, ask(bench.places(np.arange(min(last + 1, FIRST))))))
    return answers, rows, found, refused


def _lacking(bench: _Held, part: Part) -> str:
    """Why not all positions that a part is declared for are there; nothing for our own limits."""
    far = bench.places(np.array([0, part.length - 1]))  # type: ignore[operator]
    try:
        bench._answer(Call("", far[None]))
    except CannotAsk:
        return ""
    except Exception as error:  # noqa: BLE001 - whatever other people's code raises
        text = f"{type(error).__name__}: {' '.join(str(error).split())[:100]}"
        return f"not all of them, in a call to position {part.length - 1:,} ({text})"  # type: ignore[operator]
    return ""


def _shown(call: SmallestCall) -> Difference:
    """A difference that nothing explains, by the smallest call that shows it."""
    field = next((f for f, odd in (("dtype", call.dtype != "float32"), ("heads", call.heads > 1),
                                   ("strides", bool(call.notes))) if odd), "positions")  # fmt: skip
    first = min((p for row in call.positions for p in row), default=None)
    ours, theirs = (f"{number:.6g}" for number in (call.expected, call.received))
    return Difference(field, ours, theirs, call.difference, first, "its worst entry")


def _told(
    rows: list[Difference], bench: _Held, found: Survey, refused: str
) -> tuple[list[Difference], str]:
    """Differences with the smallest call that shows them, and how far it was looked."""
    if found.call is not None:
        rows = rows or [_shown(found.call)]
        rows = [dataclasses.replace(row, call=str(found.call)) for row in rows]
    return rows, f", {bench.subject.how}: {found.reach.words()}{refused}"


# --- rotations ------------------------------------------------------------------------------------


def _frequencies(
    part: Part, code: Implementation, others: Sequence[tuple[str, RotarySpec]]
) -> Told:
    spec: Any = part.spec
    lengths = [512]
    if spec.needs_length and code.takes("frequencies", "length") and spec.lengths:
        lengths = [spec.lengths[0], max(part.length or 0, 2 * spec.lengths[0])]
    rows: list[Difference] = []
    count = 0
    for length in lengths:
        values = code.numbers("frequencies", part=part, length=length)
        count = values.size
        rows += why(spec, [turns.of_frequencies(values, length, code.dtype)], others)
    span = f"of sequences of {' and '.join(map(str, lengths))}" if spec.needs_length else ""
    return rows, f", {count} numbers {span or 'at every length'}"


class _Rotation:
    """One method of an implementation of a rotation."""

    def __init__(
        self, part: Part, code: Implementation, subject: Callable[[], Subject], method: str,
        others: Sequence[tuple[str, RotarySpec]],
    ) -> None:  # fmt: skip
        spec: Any = part.spec
        self.part, self.code, self.method, self.others = part, code, method, others
        self.given, self.spec = subject, spec
        self.fitted: RotarySpec | None = None  # with the pairing and the width vectors turn by
        self.rows: list[Difference] = []

    def look(self) -> Told:
        """What the method answers, held against the spec."""
        self.subject = self.given()
        ask = self._turned if self.subject.kind == "rotary" else self._cosines
        bench = _Held(self.subject, _expected(self.spec, self.subject), self.code.dtype)
        answers, missing, found, refused = _held(self.part, self.code, self.method, bench, ask)
        calls = [call._replace(order=order) for order, call in answers]
        again = calls.pop() if calls[-1].order == AGAIN else calls[0]
        rows = [*self.rows, *missing]
        if not {row.field for row in rows} & {"pairing", "heads"}:  # nothing else can be told then
            rows = [*self.rows, *why(self.fitted or self.spec, calls, self.others), *missing]
        alike = again.values.shape == calls[0].values.shape
        off = np.abs(again.values - (calls[0].values if alike else np.inf)).max(axis=1)
        if np.any(off > 1e-6):  # false for NaN, which is told already
            size = turns.begins(off, again.first)
            rows.append(Difference("state", "the same after other calls", "others", *size))
        return _told(rows, bench, found, refused)

    def _turned(self, places: np.ndarray) -> turns.PairTurns:
        width = self.subject.dim
        heads = MANY if len(places) < 128 else HEADS if len(places) <= FIRST else 1
        x = turns.probes(width, len(places), heads)
        y = self.subject.rotate(x, places)
        spec, values, left = turns.of_rotations(self.fitted or self.spec, x[0], y[0])
        finite = np.isfinite(y).all(axis=(0, 1, 3))
        values = np.where(finite[:, None], values, np.nan)
        if self.fitted is None:
            self.fitted = self._fitted(spec, left) if finite.all() else self.spec
        line = places if places.ndim == 1 else places.max(axis=-1)
        left = np.where(finite, left, 0.0)  # which is told by itself
        coarse = max(1e-5, 4 * ROUNDING[self.code.dtype])
        heads_ = np.flatnonzero(left.max(axis=1) > max(coarse, 4 * np.median(left.max(axis=1))))
        if heads_.size and not self.rows:
            numbers = ", ".join(map(str, heads_[:8])) + ", …" * (heads_.size > 8)
            size = (*turns.begins(left.max(axis=0), line), "a rotated query")
            text = f"otherwise in {numbers} of {len(left)}"
            self.rows.append(Difference("heads", "turned alike", text, *size))
        length = int(places.max()) + 1
        return turns.PairTurns(places, values, length, self.code.dtype, rotated=True)

    def _fitted(self, spec: RotarySpec, left: np.ndarray) -> RotarySpec:
        """The spec with the pairing and width that fit; what is unlike its own is noted."""
        if np.median(left, axis=0).max() > LEFT_OVER:
            row = ("pairing", "one that is known", "turned in no way that is known")
            self.rows.append(Difference(*row, float(left.max()), None, "a rotated query"))
            return self.spec
        for field, mine, theirs, _ in changed(self.spec, spec)[:1]:
            size = (*effect(self.spec, spec)[:2], "a rotated query")
            self.rows.append(Difference(field, words(mine), words(theirs), *size))
        return spec

    def _cosines(self, places: np.ndarray) -> turns.PairTurns:
        cos, sin = self.subject.cos_sin(places)
        ends = np.array(self.spec.channels.channels(self.spec.dim)).T
        if self.subject._one == slice(None) and cos.shape[-1] > max(self.spec.pairs, ends.max()):
            # A channel each, in an order that the spec has: both of a pair are alike.
            if all(np.array_equal(*(t[:, e] for e in ends), equal_nan=True) for t in (cos, sin)):
                self.subject._one = ends[0]
                cos, sin = cos[:, ends[0]], sin[:, ends[0]]
        length = int(places.max()) + 1
        return turns.PairTurns(places, cos + 1j * sin, length, self.code.dtype)


def _expected(spec: Any, subject: Subject) -> Callable[..., Any]:
    """What a rotation answers to the question of a subject, in float64."""
    if not spec.needs_length:
        return of_spec(spec, subject.kind)
    joint = "b" in subject._found.form.place

    def answer(*arguments: np.ndarray) -> Any:
        rows = arguments[-1]
        if joint:
            return of_spec(spec.at(int(rows.max()) + 1), subject.kind)(*arguments)
        each = [of_spec(spec.at(int(row.max()) + 1), subject.kind)(*(a[[b]] for a in arguments))
                for b, row in enumerate(rows)]  # fmt: skip
        if subject.kind == "rotary":
            return np.concatenate(each)
        return tuple(np.concatenate(parts) for parts in zip(*each, strict=True))

    answer.lengths_count = True  # type: ignore[attr-defined]
    return answer


def _logit_scale(part: Part, spec: Any, code: Implementation) -> Told:
    rows: list[Difference] = []
    last = max(part.length - 1, DENSE) if part.length else FAR[-1]
    for _, places in _calls(last):
        fixed = spec.at(length := int(places.max()) + 1)
        mine = fixed.logit_factor * factors_of(part.temperature, places)
        mine = mine * factors_of(fixed.magnitude_of_scores.temperature, places)
        theirs = code.numbers("logit_scale", places, part=part, length=length)
        if theirs.shape not in ((1,), mine.shape):
            counts = f"{theirs.size} numbers for {places.size} positions"
            raise CannotAsk(f"logit_scale returns {counts}")
        off = np.abs(theirs - mine)
        wrong = np.flatnonzero(~(off <= 8 * ROUNDING[code.dtype] * np.abs(mine)))
        if wrong.size and not rows:
            ours, other = (f"{each[wrong[0] % each.size]:.6g}" for each in (mine, theirs))
            size = turns.begins(off, places)
            rows.append(Difference("logit_scale", ours, other, *size, "factors on the scores"))
    return rows, f", in {len([*_calls(last)])} calls to position {last:,}"


# --- rows and biases ------------------------------------------------------------------------------


def _table(part: Part, spec: Any, code: Implementation) -> Told:
    if len(getattr(spec, "axes", ("p",))) > 1:
        raise CannotAsk("a table of several axes is not asked for")
    stored = getattr(code.code, "shape", None)
    if spec.parameters():
        own = [shape for shape in spec.shapes.values() if len(shape) == 2]
        if stored is None or len(own) != 1:
            raise CannotAsk("its rows are learned, and their number is not told")
        ours, theirs = (f"{n} rows of {dim}" for n, dim in (*own, stored))
        rows = [] if ours == theirs else [Difference("length", ours, theirs)]
        return rows, ", the number of rows and their width, as they are learned"

    subject = code.subject("table", part, spec.dim, 1, None)
    if subject.kind not in ("table", "angles"):
        raise CannotAsk(f"{code.name} is {subject.how}")
    bench = _Held(subject, of_spec(spec, "table"), code.dtype)
    bench.allowed = lambda call, want: _room(spec, call.rows, want, code.dtype)

    def ask(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return places, subject.rows(places)

    calls, rows, found, refused = _held(part, code, "table", bench, ask)
    for _, (places, theirs) in calls:
        if fresh := _rows(spec, places, theirs, code.dtype):
            rows = fresh + rows
            break
    return _told(rows, bench, found, refused)


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


def _bias(part: Part, spec: Any, code: Implementation) -> Told:
    params = getattr(code.code, "params", None)
    if spec.parameters() and (params is None or {*params} != {*spec.shapes}):
        raise CannotAsk("its values are learned, and are in the checkpoint")
    for name, values in (params or {}).items():
        if values.shape != spec.shapes[name]:
            ours, theirs = (f"{name} {shape}" for shape in (spec.shapes[name], values.shape))
            return [Difference("heads", ours, theirs, what="biases")], ", its parameters"
    if len(spec.axes) > 1:
        window = getattr(spec, "window", None)
        if window is None:
            raise CannotAsk(f"biases of {', '.join(spec.axes)} are not asked for")
        cells = positions_.grid(window)
        calls, asked = [(cells, cells)], f"every pair of cells of {words(window)}"
    else:
        last = min(DENSE, (part.length or DENSE + 1) - 1)
        line, end = np.arange(last + 1), np.array([last])
        near = np.array([p for p in (0, 1, 2, 7, 8, 9, 20, 63, 130, 300) if p <= last])
        *_, (_, mixed), _ = _calls(min(last, FIRST - 1))
        calls = [(near, near[near <= 130]), (end, line), (line, line[:2]), (mixed, mixed)]
        calls.append(calls[0])  # what it remembers would show
        asked = f"every distance and every query to {last:,}"
    subject = code.subject("bias", part, 64, len(spec.axes), spec.heads)
    rows: list[Difference] = []
    notes: dict[str, None] = {}
    reached = 0
    for q, k in calls:
        try:
            with code.refusing("bias"):
                theirs = subject.bias(q, k)
        except CannotAsk as error:
            if not notes:
                raise
            notes[f"; not {len(q):,} queries of {len(k):,} keys: {error}"] = None
            continue
        reached = max(reached, int(q.max()))
        rows, note = _biases(spec, q, k, theirs, params, code.dtype)
        notes[note] = None
        if rows:
            break
    if any("queries of" in note for note in notes):
        asked = f"some distances and queries to {reached:,}"
    put_in = ", with numbers put in for the weights" if params is not None else ""
    return rows, f", {spec.heads} heads, {asked}{put_in}{''.join(notes)}"


def _biases(
    spec: Any, q: np.ndarray, k: np.ndarray, theirs: np.ndarray, params: Any, dtype: str
) -> tuple[list[Difference], str]:
    def biases_of(one: Any) -> np.ndarray:
        return np.asarray(
            functional.bias(one, q_positions=q, k_positions=k, params=params, dtype="float64")
        )

    def alike(one: np.ndarray, other: np.ndarray, room: Any = 0.0) -> bool:
        off = np.abs(one - other) if one.shape == other.shape else np.array(np.inf)
        return bool(np.all((one == other) | (off <= 1e-5 * (1 + np.abs(other)) + room)))

    causal = q.ndim == 1 and getattr(spec, "direction", "causal") == "causal"
    past = (k <= q[:, None]) if causal else np.ones((len(q), len(k)), bool)
    first = int(k.argmin()) if q.ndim == 1 else 0

    def relative(biases: np.ndarray) -> np.ndarray:
        # What is added to all keys of a query changes no softmax.
        return np.asarray((biases - biases[..., first, None])[:, past])

    def rounding(unit: float) -> np.ndarray:
        # Far keys have large biases, which a side rounds before they are subtracted.
        sizes = np.abs(theirs) + np.abs(theirs[..., first, None])
        return np.asarray(8 * unit * np.where(np.isfinite(sizes), sizes, 0)[:, past])

    mine = biases_of(spec)
    if theirs.shape != mine.shape:
        ours, other = (f"shape {each.shape}" for each in (mine, theirs))
        return [Difference("heads", ours, other, what="biases")], ""
    if alike(mine, theirs):
        return [], ""
    past_mine, past_theirs = relative(mine), relative(theirs)
    room = rounding(ROUNDING[dtype])
    if alike(past_mine, past_theirs, room):
        if causal and not alike(*(b - b[..., first, None] for b in (mine, theirs))):
            return [], "; not the future: it has other biases, which a causal mask hides"
        return [], ""

    def fits(one: Any) -> bool:
        return biases_of(one).shape == theirs.shape and alike(
            relative(biases_of(one)), past_theirs, room
        )

    coarse = (
        ("dtype", f"biases in {dtype}", f"in {half}") for half in HALVES
        if seen(theirs) == half and alike(past_mine, past_theirs, rounding(ROUNDING[half]))
    )  # fmt: skip
    row = next(coarse, None) or _explained(spec, fits) or ("bias", "its own", UNEXPLAINED)
    if row[0] == "bias" and len(q) > 1 and q.ndim == 1:
        ours_, theirs_ = (b[:, 1, 1] - b[:, 1, 0] for b in (mine, theirs))
        if np.all(ours_ != 0) and alike(past_mine * (theirs_ / ours_)[:, None], past_theirs, room):
            slopes = [", ".join(f"{s:.4g}" for s in each[:3]) + ", …" for each in (ours_, theirs_)]
            departed = departures(theirs_, ours_, dtype="float32", doubt=1e-5)
            named = departed.sentences(sentences.slope) if departed else slopes[1:]
            row = ("slopes", slopes[0], named[0])
    off = np.abs(past_mine - past_theirs)
    size = float(np.where(np.isnan(off), np.inf, off).max(initial=0.0))
    return [Difference(*row, size, None, "biases")], ""
