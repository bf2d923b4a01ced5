"""What an implementation answers for one part of a description, and how that differs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from posenc.detect.contract.checks import factors_of, sequences
from posenc.detect.contract.comparison.diff import Difference
from posenc.detect.contract.comparison.fields import changed, effect, words
from posenc.detect.contract.comparison.held import Held, Told, bias, calls_to, end_of, held, table
from posenc.detect.contract.comparison.why import FIRST, why
from posenc.detect.contract.contract import Check, Part
from posenc.detect.contract.sides.side import Implementation
from posenc.detect.fit import tolerances, turns
from posenc.detect.fit.words import share
from posenc.detect.subject import CannotAsk, Subject, refuse_if
from posenc.detect.subject.reach import of_spec
from posenc.encodings.rotary.base import RotarySpec
from posenc.encodings.rotary.xpos import XPos

Look = tuple[str, Callable[[], Told]]  # a method, and what asks it
HEADS, MANY = 4, 33  # in the first call, and where few positions are asked
LEFT_OVER = 0.02  # of a rotated query, that no pairing explains: more than bfloat16 rounds


def looks(
    part: Part, code: Implementation, others: Sequence[tuple[str, RotarySpec]]
) -> Iterator[Look]:
    """What a part can be asked of an implementation, method by method."""
    spec: Any = part.spec
    if isinstance(spec, RotarySpec):
        refuse_if(spec.quarters, f"{type(spec).__name__} turns queries apart from keys")
        refuse_if(
            not spec.plain and not isinstance(spec, XPos),
            f"angles of {type(spec).__name__} differ by head, or are learned",
        )
        for method, subject in _turning(part, code):
            if method == "frequencies":
                yield method, functools.partial(_frequencies, part, code, others)
            else:
                yield method, _Rotation(part, code, subject, method, others).look
        scaled = part.temperature is not None or spec.magnitude_of_scores.temperature is not None
        if "logit_scale" in code.methods or scaled or spec.logit_factor != 1:
            yield "logit_scale", lambda: _logit_scale(part, spec, code)
    elif part.kind in ("table", "bias"):
        look = table if part.kind == "table" else bias
        yield part.kind, functools.partial(look, part, spec, code)
    else:
        yield "scores", lambda: _refused(f"a {part.kind} encoding needs content")
    cases = {str(check["case"]): check for check in sequences((part,))}
    if "position_ids" in code.methods:
        yield from (
            (f"position_ids ({case})", functools.partial(_positions, part, check, code))
            for case, check in cases.items()
        )
    elif cases:
        yield (
            f"position_ids ({', '.join(cases)})",
            lambda: _refused("it has no method of that name"),
        )


def _turning(part: Part, code: Implementation) -> Iterator[tuple[str, Callable[[], Subject]]]:
    """The methods that say how a part turns, each with what gives its subject."""
    spec: Any = part.spec
    options = part, spec.dim, len(spec.axes), None
    if code.methods:
        methods = {"rotate": None} | code.methods  # without the first no pairing is seen
        yield from (
            (method, functools.partial(code.subject, method, *options))
            for method in ("rotate", "cos_sin", "frequencies") if method in methods
        )  # fmt: skip
        return
    subject = code.subject("", *options)
    refuse_if(subject.kind not in ("rotary", "cos_sin", "angles"), f"{code.name} is {subject.how}")
    if subject.kind != "rotary":
        yield (
            "rotate",
            lambda: _refused("the code offers no rotation, so how it pairs channels is not seen"),
        )
    yield "rotate" if subject.kind == "rotary" else "cos_sin", lambda: subject


def _refused(reason: str) -> Any:
    raise CannotAsk(reason)


def _positions(part: Part, check: Check, code: Implementation) -> Told:
    """Which token stands where: left padding, packed sequences, a cached step."""
    asked = {name: value for name, value in check.data.items() if name != "positions"}
    spec: Any = part.spec
    start, pad = (getattr(spec, name, None) or 0 for name in ("start", "pad"))
    # Code of a model numbers the rows of a table, and knows the token of padding.
    start, more = (start, {"pad": pad}) if code.counts else (0, {})
    theirs = code.numbers("position_ids", asked | more, part=part)
    mine = check["positions"] + start
    # What padding gets is nobody's business.
    begins = f", as rows of the table, the first token in row {start}" if start else ""
    counted = check["mask"] == 1 if "mask" in check else np.ones(mine.size, bool)
    if "shift" in check and theirs.shape == mine.shape:
        # A rotation or a bias sees distances alone: a row may begin to count anywhere.
        begins, shape = ", from wherever a row begins to count", tuple(check["shape"])
        first = counted.reshape(shape).argmax(-1)[..., None]
        moved = np.take_along_axis((theirs - mine).reshape(shape), first, -1)
        theirs = (theirs.reshape(shape) - moved).reshape(-1)
    if theirs.shape == mine.shape and np.all(theirs[counted] == mine[counted]):
        return Told([], begins)
    ours, other = (words(tuple(p.astype(int).tolist())) for p in (mine, theirs))
    if not code.counts:
        return Told([Difference("positions", f"{check['case']}: {ours}", other)], begins)
    unit, last = "rows" if start else "positions", check["shape"][-1]  # of the row without padding
    off = (theirs - mine)[-last:] if theirs.shape == mine.shape else np.zeros(1)
    count = off[0] * (np.ptp(off) == 0)
    way = "low" if count < 0 else "high"
    low = f": {abs(count):.0f} too {way} where nothing is padded" * bool(count)
    row = Difference("position_ids", f"{check['case']}: {unit} {ours}", f"{unit} {other}{low}")
    return Told([row], begins)


# --- rotations ------------------------------------------------------------------------------------


def _frequencies(
    part: Part, code: Implementation, others: Sequence[tuple[str, RotarySpec]]
) -> Told:
    spec: Any = part.spec
    lengths = [512]
    if spec.needs_length and code.takes("frequencies", "length") and spec.lengths:
        lengths = [spec.lengths[0], max(part.length or 0, 2 * spec.lengths[0])]
    values = [code.numbers("frequencies", part=part, length=length) for length in lengths]
    calls = map(turns.of_frequencies, values, lengths, [code.dtype] * len(lengths))
    rows = [row for seen in calls for row in why(spec, [seen], others)]
    span = f"of sequences of {' and '.join(map(str, lengths))}" if spec.needs_length else ""
    return Told(rows, f", {values[-1].size} numbers {span or 'at every length'}")


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
        bench = Held(self.subject, _expected(self.spec, self.subject), self.code.dtype)
        return held(self.part, self.code, self.method, bench, ask, self._explained)

    def _explained(self, calls: list[turns.PairTurns]) -> list[Difference]:
        """What differs; nothing can be told beside another pairing."""
        if {row.field for row in self.rows} & {"pairing", "heads"}:
            return self.rows
        return [*self.rows, *why(self.fitted or self.spec, calls, self.others)]

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
        coarse = max(1e-5, 4 * tolerances.ROUNDING[self.code.dtype])
        heads_ = np.flatnonzero(left.max(axis=1) > max(coarse, 4 * np.median(left.max(axis=1))))
        if heads_.size and not self.rows:
            numbers = ", ".join(map(str, heads_[:8])) + ", …" * (heads_.size > 8)
            size = (*turns.begins(left.max(axis=0), line), "rotated queries")
            self.rows.append(
                Difference("heads", "turned alike", f"otherwise in {numbers} of {len(left)}", *size)
            )
        return turns.PairTurns(places, values, int(places.max()) + 1, self.code.dtype, rotated=True)

    def _fitted(self, spec: RotarySpec, left: np.ndarray) -> RotarySpec:
        """The spec with the pairing and width that fit; what is unlike its own is noted."""
        if np.median(left, axis=0).max() > LEFT_OVER:
            self.rows.append(Difference(
                "pairing", words(self.spec.channels), "turned in no way that is known",
                float(left.max()), None, "rotated queries",
            ))  # fmt: skip
            return self.spec
        for field, mine, theirs, _ in changed(self.spec, spec)[:1]:
            text = share(theirs, self.subject.dim) if field == "dim" else words(theirs)
            size = (*effect(self.spec, spec)[:2], "rotated queries")
            self.rows.append(Difference(field, words(mine), text, *size))
        return spec

    def _cosines(self, places: np.ndarray) -> turns.PairTurns:
        cos, sin = self.subject.cos_sin(places)
        ends = np.array(self.spec.channels.channels(self.spec.dim)).T
        if (
            isinstance(self.subject._one, slice)
            and self.subject._one == slice(None)
            and cos.shape[-1] > ends.max() >= self.spec.pairs
            and all(np.array_equal(t[:, ends[0]], t[:, ends[1]]) for t in (cos, sin))
        ):
            self.subject._one = ends[0]  # a channel each, in the order that the spec has
            cos, sin = cos[:, ends[0]], sin[:, ends[0]]
        return turns.PairTurns(places, cos + 1j * sin, int(places.max()) + 1, self.code.dtype)


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

    answer.of_length = True  # type: ignore[attr-defined]
    return answer


def _logit_scale(part: Part, spec: Any, code: Implementation) -> Told:
    rows: list[Difference] = []
    last = end_of(part, code)
    for _, places in calls_to(last):
        fixed = spec.at(length := int(places.max()) + 1)
        mine = (
            fixed.logit_factor
            * factors_of(part.temperature, places)
            * factors_of(fixed.magnitude_of_scores.temperature, places)
        )
        theirs = code.numbers("logit_scale", places, part=part, length=length)
        refuse_if(
            theirs.shape not in ((1,), mine.shape),
            f"logit_scale returns {theirs.size} numbers for {places.size} positions",
        )
        off = np.abs(theirs - mine)
        wrong = np.flatnonzero(~(off <= 8 * tolerances.ROUNDING[code.dtype] * np.abs(mine)))
        if wrong.size and not rows:
            ours, other = (f"{each[wrong[0] % each.size]:.6g}" for each in (mine, theirs))
            rows.append(
                Difference(
                    "logit_scale", ours, other, *turns.begins(off, places), "factors on the scores"
                )
            )
    return Told(rows, f", in {len([*calls_to(last)])} calls to position {last:,}")
