"""What an implementation answers for one part of a description, and how that differs."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from posenc import functional
from posenc import positions as positions_
from posenc._core.errors import PosencError
from posenc.detect.contract.checks import factors_of, row_bounds, sequences
from posenc.detect.contract.comparison.calls import AGAIN, FIRST, called, scattered
from posenc.detect.contract.comparison.diff import Difference
from posenc.detect.contract.comparison.fields import changed, effect, value_of, variants, words
from posenc.detect.contract.comparison.why import why
from posenc.detect.contract.contract import Check, Part
from posenc.detect.contract.sides.side import CannotSay, Implementation
from posenc.detect.fit import turns
from posenc.detect.fit import words as sentences
from posenc.detect.fit.departures import departures
from posenc.detect.fit.precision import HALVES, seen
from posenc.detect.fit.tolerances import ROUNDING
from posenc.detect.fit.turns import DENSE
from posenc.encodings.rotary.base import RotarySpec
from posenc.encodings.rotary.xpos import XPos

Told = tuple[list[Difference], str]  # the differences, and how far it was looked; and not
Look = tuple[str, Callable[[], Told]]  # a method, and what asks it
HEADS, MANY = 4, 33  # in the first call, and where few positions are asked
LEFT_OVER = 0.02  # of a rotated query, that no pairing explains: more than bfloat16 rounds
UNEXPLAINED = "others, that no one change explains"


def looks(
    part: Part, code: Implementation, others: Sequence[tuple[str, RotarySpec]]
) -> Iterator[Look]:
    """What a part can be asked of an implementation, method by method."""
    spec: Any = part.spec
    if isinstance(spec, RotarySpec):
        if spec.quarters:
            raise CannotSay(f"{type(spec).__name__} turns queries apart from keys")
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
        self.layout: Any = None  # the channels of cosines that stand for the same pairs
        self.rows: list[Difference] = []

    def look(self) -> Told:
        """What the method answers, held against the spec."""
        if self.method == "frequencies":
            return self._frequencies()
        ask = self._turned if self.method == "rotate" else self._cosines
        axes = len(self.spec.axes)
        side = getattr(self.code.code, "side", 1) if axes > 1 else 0  # of a square of cells
        answers, missing, reach = called(self.part, axes, ask, side - 1 if side > 1 else None)
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
        if self.spec.needs_length:
            lengths = dict.fromkeys(call.length for call in calls)
            reach = f"in sequences of {', '.join(f'{length:,}' for length in lengths)}, {reach}"
        heads = f"{MANY} heads" if self.method == "rotate" else "one head"
        return rows, f", {calls[0].values.shape[1]} pairs of {heads} as {self.code.dtype}, {reach}"

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

    def _turned(self, places: np.ndarray) -> turns.PairTurns:
        length = int(places.max()) + 1
        width = int(getattr(self.code.code, "head_dim", 0) or self.spec.dim)
        heads = MANY if len(places) < 128 else HEADS if len(places) <= FIRST else 1
        x = turns.probes(width, len(places), heads)
        y = self.code.ask("rotate", x, places, part=self.part, length=length)
        if y.shape != x.shape:
            raise CannotSay(f"rotate returns {y.shape} for {x.shape}")
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
        length, pairs = int(places.max()) + 1, self.spec.pairs
        answer = self.code.ask("cos_sin", places, part=self.part, length=length)
        cos, sin = (t.reshape(-1, t.shape[-1]) for t in answer)
        if cos.shape != sin.shape or len(cos) != len(places):
            text = f"cos_sin returns {answer[0].shape} and {answer[1].shape}"
            raise CannotSay(f"{text} for {len(places)} positions")
        values = cos + 1j * sin
        if cos.shape[-1] != pairs:
            # A channel each: halves, neighbours, or as the spec has them; the first call tells.
            for layout in self._layouts(cos.shape[-1]) if self.layout is None else [self.layout]:
                first, second = (values[:, channels] for channels in layout)
                if np.array_equal(first, second, equal_nan=True):
                    self.layout, values = layout, first
                    break
        return turns.PairTurns(places, values, length, self.code.dtype)

    def _layouts(self, width: int) -> list[Any]:
        index, ends = np.arange(width), np.array(self.spec.channels.channels(self.spec.dim)).T
        pairs = [(index[: width // 2], index[width // 2 :]), (index[::2], index[1::2])]
        return [*pairs, ends] if width > ends.max() else pairs


def _logit_scale(part: Part, spec: Any, code: Implementation) -> Told:
    rows: list[Difference] = []

    def ask(places: np.ndarray) -> None:
        fixed = spec.at(length := int(places.max()) + 1)
        mine = fixed.logit_factor * factors_of(part.temperature, places)
        mine = mine * factors_of(fixed.magnitude_of_scores.temperature, places)
        theirs = code.ask("logit_scale", places, part=part, length=length).reshape(-1)
        if theirs.shape not in ((1,), mine.shape):
            raise CannotSay(
                f"logit_scale returns {theirs.size} numbers for {places.size} positions"
            )
        off = np.abs(theirs - mine)
        wrong = np.flatnonzero(~(off <= 8 * ROUNDING[code.dtype] * np.abs(mine)))
        if wrong.size and not rows:
            ours, other = (f"{each[wrong[0] % each.size]:.6g}" for each in (mine, theirs))
            size = turns.begins(off, places)
            rows.append(Difference("logit_scale", ours, other, *size, "factors on the scores"))

    _, missing, reach = called(part, 1, ask)
    return rows or missing, f", {reach}"


# --- rows and biases ------------------------------------------------------------------------------


def _table(part: Part, spec: Any, code: Implementation) -> Told:
    if len(getattr(spec, "axes", ("p",))) > 1:
        raise CannotSay("a table of several axes is not asked for")
    stored = getattr(code.code, "shape", None)
    if spec.parameters():
        own = [shape for shape in spec.shapes.values() if len(shape) == 2]
        if stored is None or len(own) != 1:
            raise CannotSay("its rows are learned, and their number is not told")
        ours, theirs = (f"{n} rows of {dim}" for n, dim in (*own, stored))
        rows = [] if ours == theirs else [Difference("length", ours, theirs)]
        return rows, ", the number of rows and their width, as they are learned"

    def ask(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return places, code.ask("table", places, part=part)

    calls, rows, reach = called(part, 1, ask, None if stored is None else stored[0] - 1)
    for _, (places, theirs) in calls:
        if fresh := _rows(spec, places, theirs, code.dtype):
            rows = fresh + rows
            break
    return rows, f", {calls[0][1][1].shape[-1]} columns, {reach}"


def _rows(spec: Any, places: np.ndarray, theirs: np.ndarray, dtype: str) -> list[Difference]:
    """The change of a table that explains its rows; none where they are its own."""

    def rows_at(one: Any, places: np.ndarray) -> np.ndarray:
        return np.asarray(functional.table(one, places, dtype="float64"))

    mine = rows_at(spec, places)
    if theirs.shape != mine.shape:
        return [Difference("dim", f"{mine.shape[1]} columns", f"shape {theirs.shape}", what="rows")]
    off = np.abs(theirs - mine).max(axis=1)
    bounds = row_bounds(spec, places[:, None], mine)
    room = turns.ROOM * bounds[dtype] if bounds else 1e-4 * max(1.0, float(np.abs(mine).max()))
    room = np.broadcast_to(room, off.shape)
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
        raise CannotSay("its values are learned, and are in the checkpoint")
    for name, values in (params or {}).items():
        if values.shape != spec.shapes[name]:
            ours, theirs = (f"{name} {shape}" for shape in (spec.shapes[name], values.shape))
            return [Difference("heads", ours, theirs, what="biases")], ", its parameters"
    if len(spec.axes) > 1:
        window = getattr(spec, "window", None)
        if window is None:
            raise CannotSay(f"biases of {', '.join(spec.axes)} are not asked for")
        cells = positions_.grid(window)
        calls, asked = [(cells, cells)], f"every pair of cells of {words(window)}"
    else:
        last = min(DENSE, (part.length or DENSE + 1) - 1)
        line, end = np.arange(last + 1), np.array([last])
        near = np.array([p for p in (0, 1, 2, 7, 8, 9, 20, 63, 130, 300) if p <= last])
        (_, mixed), _ = scattered(min(last, FIRST), 1)
        calls = [(near, near[near <= 130]), (end, line), (line, line[:2]), (mixed, mixed)]
        calls.append(calls[0])  # what it remembers would show
        asked = f"every distance and every query to {last:,}"
    rows: list[Difference] = []
    notes: dict[str, None] = {}
    reached = 0
    for q, k in calls:
        try:
            theirs = code.ask("bias", q, k, part=part)
        except CannotSay as error:
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
