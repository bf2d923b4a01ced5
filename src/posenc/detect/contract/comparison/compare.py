"""Two sides, part by part: which parts belong together, and how each pair of them differs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from posenc._core.errors import PosencError
from posenc._core.grouping import grouped
from posenc.detect.contract.comparison.answers import looks
from posenc.detect.contract.comparison.diff import Comparison, Difference
from posenc.detect.contract.comparison.fields import changed, effect, looked_at, words
from posenc.detect.contract.comparison.held import NONE, STILL
from posenc.detect.contract.contract import Part
from posenc.detect.contract.sides.side import Comparand, Implementation
from posenc.detect.fit.turns import DENSE
from posenc.detect.subject import CannotAsk, Subject, refuse_if
from posenc.detect.subject.reach import UNIT
from posenc.detect.subject.survey import survey
from posenc.encodings.rotary.base import RotarySpec

# A field of `Comparison`, and what is added to it.
Row = tuple[str, Any]
# A method -> the kind of part that it answers for, and the kinds of subjects that have it.
METHODS: tuple[tuple[str, Any, tuple[str, ...]], ...] = (
    ("rotate", "rotary", ("rotary",)),
    ("cos_sin", "rotary", ("cos_sin", "angles")),
    ("table", "table", ("table",)),
    ("bias", "bias", ("bias",)),
)
# What code answers in every form that is tried, where that is no encoding, and what it says.
IDLE = {
    "equal tokens come out equal": STILL, "all positions get the same numbers": STILL, NONE: NONE,
}  # fmt: skip
SHARED = "it takes no `layer`, and several parts have one; choose one by `layers`"


def comparison(a: Comparand, b: Comparand) -> Comparison:
    """How two sides differ."""
    # The side with the specs comes first, as it has the names of the fields.
    swapped = a.answers is not None and b.answers is None
    first, second = (b, a) if swapped else (a, b)
    compare = _answers if second.answers is not None else _two_descriptions
    rows: dict[str, list[Any]] = {"rows": [], "compared": [], "not_compared": []}
    with np.errstate(all="ignore"):  # a side may have NaN and infinities, which are told
        for name, value in (_two_answers if first.answers is not None else compare)(first, second):
            rows[name].append(value)
        for name, value in _traced(first, second, rows["rows"]):
            rows[name].append(value)
    # Layers that are mistaken for each other come first, and near positions before far ones.
    rows["rows"].sort(key=lambda row: row.field != "layers")
    if swapped:
        rows["rows"] = [dataclasses.replace(row, a=row.b, b=row.a) for row in rows["rows"]]
    return Comparison(
        a.name,
        b.name,
        **{name: tuple(dict.fromkeys(values)) for name, values in rows.items()},
        remarks=tuple(dict.fromkeys((*a.remarks, *b.remarks))),
    )


def _differ(
    label: str, field: str, a: str, b: str, size: tuple[Any, Any, str] = (None, None, "cos and sin")
) -> Row:
    """A difference, without numbers where it has no size."""
    return "rows", Difference(field, a, b, *size, label)


# --- two descriptions -----------------------------------------------------------------------------


def _two_descriptions(a: Comparand, b: Comparand) -> Iterator[Row]:
    for label, mine, theirs in _matched(a, b):
        if mine is not None and theirs is not None:
            yield from _two_parts(label, mine, theirs)
            continue
        side, there = (a, theirs) if mine is None else (b, mine)
        if not side.whole or (there is not None and there.kind == "none"):
            yield "not_compared", f"{label}: {side.name} does not state it"
        else:
            yield _differ(label, "layers", _what(mine), _what(theirs))


def _what(part: Part | None) -> str:
    if part is None:
        return "no encoding"
    if part.spec is None:
        return f"the convolution {part.convolution}" if part.convolution else "no positions"
    return words(part.spec)


def _two_parts(label: str, a: Part, b: Part) -> Iterator[Row]:
    if a.spec is None or b.spec is None or a.kind != b.kind:
        field = "layers" if a.spec is None or b.spec is None else "kind"
        alike = "compared", f"{label}: {_what(a)}, on both sides"
        yield alike if _what(a) == _what(b) else _differ(label, field, _what(a), _what(b))
        return
    one, two = a.spec, b.spec
    if a.permuted != b.permuted and isinstance(one, RotarySpec) and isinstance(two, RotarySpec):
        yield "compared", f"{label}: {_reordered(b if b.permuted else a)}"
        one, two = _in_order(a, one), _in_order(b, two)
    for name, mine, theirs, other in changed(one, two):
        size = effect(one if other is None else other, two)
        yield _differ(label, name, words(mine), words(theirs), size)
    for name in ("positions", "temperature", "window", "scale"):
        mine, theirs = getattr(a, name), getattr(b, name)
        if name == "window":
            mine, theirs = ("the whole sequence" if p.whole else p.window for p in (a, b))
        if mine == theirs:
            continue
        if name in ("temperature", "scale") or (mine is not None and theirs is not None):
            yield _differ(label, name, words(mine), words(theirs))
        else:
            yield "not_compared", f"{label}: {name}, which only one side states"
    yield "compared", f"{label}: {looked_at(a.spec)}"
    if a.length != b.length and None not in (a.length, b.length):
        yield (
            "not_compared",
            f"{label}: the declared lengths, {a.length:,} and {b.length:,}, which change no angle",
        )


def _reordered(part: Part) -> str:
    spec: Any = part.spec
    return (
        f"pairing.order: {part.permuted}, reordered to {spec.channels.order} on one side, with the "
        "channels of queries and keys"
    )


def _in_order(part: Part, spec: RotarySpec) -> RotarySpec:
    """A rotation in the order of channels that the weights had before they were written."""
    return spec.replace(pairing=spec.channels.replace(order=part.permuted or spec.channels.order))


# --- answers --------------------------------------------------------------------------------------


def _answers(a: Comparand, b: Comparand) -> Iterator[Row]:
    for part in a.parts:
        yield from (("not_compared", f"{part.name}: {reason}") for reason in part.left_out)
        if part.spec is None:
            yield _silent(part, a, b)
            continue
        if b.narrowed is not None and isinstance(part.spec, RotarySpec):
            part, why = b.narrowed(part)  # noqa: PLW2901 - the same part, as it can be asked of
            yield from (("not_compared", f"{part.name}: {text}") for text in [why] if text)
        label = part.name if part.layers is None else f"{part.name} ({_layers(part.layers)})"
        try:
            assert b.answers is not None  # noqa: S101 - it does not describe
            codes = b.answers(part, [p.name for p in a.parts])
            for code in codes:
                yield from _answers_of(
                    part, a, b, code, f"{label}, {code.name}" if len(codes) > 1 else label
                )
        except CannotAsk as error:
            yield _unasked(label, part.name, error)
    yield from (
        ("not_compared", f"{path}, which stands for no part of {a.name}") for path in b.unasked()
    )


def _silent(part: Part, a: Comparand, b: Comparand) -> Row:
    """A part without positions: whether the other side turns queries there, if it tells."""
    if b.turning is None or part.kind != "none":
        return (
            "not_compared",
            f"{part.name}: {_what(part)}, and nothing was asked of {b.name} there",
        )
    places = b.turning(part, [p.name for p in a.parts])
    if not places:
        return "compared", f"{part.name}: no positions: nothing turns queries there in a run"
    return _differ(part.name, "layers", _what(part), f"a rotation ({', '.join(places)})")


def _answers_of(
    part: Part, a: Comparand, b: Comparand, code: Implementation, label: str
) -> Iterator[Row]:
    unlike = [p for p in a.parts if p.kind == part.kind and p.spec != part.spec]
    others = [(p.name, p.spec) for p in unlike if isinstance(p.spec, RotarySpec)]
    fields: set[str] = set()
    for method, look in looks(part, code, others):
        if unlike and b.shared and code.keeps(method):
            yield "not_compared", f"{part.name}: {method}: {SHARED}"
            continue
        try:
            rows, reach, refused = look()
        except CannotAsk as error:
            yield _unasked(label, f"{part.name}: {method}", error)
            continue
        yield "compared", f"{part.name}: {method}{reach}"
        yield from (("not_compared", f"{part.name}: {method}, {what}") for what in refused)
        for row in rows:
            if row.field == "pairing.order" and row.b == part.permuted:
                yield "compared", f"{part.name}: {_reordered(part)}"
            elif row.field not in fields or method not in code.methods:
                yield "rows", dataclasses.replace(row, where=label)
        fields |= {row.field for row in rows}
        if "state" in fields:
            break  # what it remembers would be in every other answer


def _traced(a: Comparand, b: Comparand, rows: Sequence[Difference]) -> Iterator[Row]:
    """What attentions do in a run, which no buffer tells."""
    if b.traced is None or a.model is None or not a.whole:
        return
    try:
        trace = b.traced(a.model)
    except PosencError as error:
        yield "not_compared", f"what its attentions do in a run: {error}"
        return
    several = grouped(
        ((finding.field, finding.expected, finding.found), finding)
        for finding in trace.findings
        if finding.tensor != "scores" or finding.field == "scale"  # biases have been asked for
    )
    for (field, expected, seen), findings in several.items():
        tensors = " and ".join(dict.fromkeys(finding.tensor for finding in findings))
        label = f"{_layers(sorted({finding.layer for finding in findings}))}, {tensors}"
        if field not in {row.field for row in rows}:
            yield _differ(label, field, expected, seen)
    yield "compared", f"what {len(trace.layers)} attentions do to queries, keys and scores in a run"
    yield from (("not_compared", text) for text in trace.unseen)


def _unasked(label: str, what: str, error: CannotAsk) -> Row:
    """Code that cannot be asked; what answers all positions alike is told from it."""
    says = next((IDLE[w] for w in IDLE if error.answered and w in str(error)), None)
    if says is None:
        return "not_compared", f"{what}: {error}"
    return _differ(label, "positions", "by position", says)


def _two_answers(a: Comparand, b: Comparand) -> Iterator[Row]:
    for method, kind, kinds in METHODS:
        part = Part("attention", kind=kind)
        try:
            ours, theirs = ([*side.answers(part, ())] for side in (a, b))  # type: ignore[misc]
            if len(ours) == len(theirs):
                for codes in zip(ours, theirs, strict=True):
                    yield from _two_codes(method, codes, part, kinds)
                continue
            mine, other = (f"numbers of {len(n)} kinds" if len(n) > 1 else "the same numbers"
                      for n in (ours, theirs))  # fmt: skip
            yield _differ("both", "layers", mine, other)
        except CannotAsk as error:
            yield "not_compared", f"{method}: {error}"


def _asked(code: Implementation, part: Part, method: str, kinds: tuple[str, ...]) -> Subject:
    """What answers a question; code whose methods have no names tells what it answers."""
    subject = code.subject(method, part, None, 1, None)
    refuse_if(subject.kind not in kinds, f"{subject.name} is {subject.how}")
    return subject


def _two_codes(
    method: str, codes: tuple[Implementation, ...], part: Part, kinds: tuple[str, ...]
) -> Iterator[Row]:
    """One held against what the other answers, to the last row that both have."""
    one, two = (_asked(code, part, method, kinds) for code in codes)
    stored = part.kind == "table" and [c.code.shape[0] for c in codes if hasattr(c.code, "shape")]
    end = min(stored or [DENSE + 1])
    choice = survey(two, _answer_of(one), end=end - 1, allowed=_within, gaps=True)
    yield "compared", f"{method}, {two.how}: {choice.reach.words()}"
    if stored and end < max(stored):
        yield "not_compared", f"{method}: rows from {end:,} on, which only one side has"
    if choice.call is not None:
        size = (choice.difference, None, "numbers", "both", str(choice.call))
        yield "rows", Difference(method, "its numbers", "others", *size)


def _answer_of(subject: Subject) -> Callable[..., Any]:
    """What is expected by somebody's own answers."""
    if subject.kind == "rotary":
        return lambda x, rows: subject.rotate(x, rows, dtype="float64")
    answers: dict[str, Callable[..., Any]] = {"bias": subject.bias, "table": subject.rows}
    return answers.get(subject.kind, subject.cos_sin)


def _within(_: np.ndarray, wanted: np.ndarray, __: np.ndarray, dtype: str) -> np.ndarray:
    """What two implementations may be apart."""
    return np.asarray((1e-4 + 8 * UNIT[dtype]) * np.maximum(1.0, np.abs(wanted).max()))


# --- which parts act in the same layers -----------------------------------------------------------

Place = tuple[str, str, str]
Pair = tuple[str, Part | None, Part | None]


def _matched(a: Comparand, b: Comparand) -> Iterator[Pair]:
    """Parts that act in the same layers, with these layers in words."""
    ours, theirs = _by_place(a), _by_place(b)
    # A config of the text alone is held against the text of a whole model.
    for mine, other, whole in ((ours, theirs, b), (theirs, ours, a)):
        extra = {place[0] for place in other} - {place[0] for place in mine}
        if {place[0] for place in mine} == {""} and extra and "" not in {p[0] for p in other}:
            like = max(extra, key=lambda p: len(_types(mine, "") & _types(other, p)))
            if not whole.whole or _types(mine, "") & _types(other, like):
                for place in list(mine):
                    mine[like, *place[1:]] = mine.pop(place)
    for place in dict.fromkeys((*ours, *theirs)):
        both = ours.get(place, []), theirs.get(place, [])
        by_layer = any(part.layers is not None for parts in both for part in parts)
        yield from (_by_layer if by_layer else _by_name)(*both, whole=a.whole)


def _types(places: dict[Place, list[Part]], inside: str) -> set[str]:
    return {p.name.rpartition(".")[2] for place, parts in places.items() for p in parts
            if place[0] == inside}  # fmt: skip


def _by_place(side: Comparand) -> dict[Place, list[Part]]:
    """(part of the model, attention inside a layer, kind of place) -> its parts."""
    places: dict[Place, list[Part]] = {}
    kinds = {"table": "rows", "convolution": "rows", "rotary": "layers", "none": "layers"}
    for part in side.parts:
        name, _, attention = part.name.partition("#")[0].partition(":")
        place = name.rpartition(".")[0], attention, kinds.get(part.kind, part.kind)
        places.setdefault(place, []).append(part)
    return places


def _by_name(ours: list[Part], theirs: list[Part], *, whole: bool) -> Iterator[Pair]:
    names, left = {part.name: part for part in theirs}, list(theirs)
    for part in ours:
        other = names.get(part.name)
        if other is None and len(ours) == len(theirs) == 1:
            other = theirs[0]
        if other is None and not whole:
            other = next((p for p in left if p.kind == part.kind), None)
        if other in left:
            left.remove(other)
        yield part.name if whole else (other or part).name, part, other
    alone = ours[0] if len(ours) == 1 and not whole else None
    yield from ((part.name, alone, part) for part in left)


def _by_layer(ours: list[Part], theirs: list[Part], *, whole: bool) -> Iterator[Pair]:
    count = 1 + max(i for p in (*ours, *theirs) for i in p.layers or (0,))
    groups = grouped(((_at(ours, layer), _at(theirs, layer)), layer) for layer in range(count))
    for (mine, other), layers in groups.items():
        part = (mine or other) if whole or other is None else other
        if part is not None:
            yield f"{part.name} ({_layers(layers)})", mine, other


def _at(parts: Sequence[Part], layer: int) -> Part | None:
    return next((p for p in parts if p.layers is None or layer in p.layers), None)


def _layers(layers: Sequence[int]) -> str:
    """Layers in words, as ranges."""
    numbers = np.array(layers, dtype=np.int64)
    runs = np.split(numbers, np.flatnonzero(np.diff(numbers) != 1) + 1)
    ranges = [str(r[0]) if len(r) == 1 else f"{r[0]}–{r[-1]}" for r in runs if len(r)]
    word = "layer" if len(layers) == 1 else "layers"
    return f"{word} {', '.join(ranges[:6])}{', …' * (len(ranges) > 6)}"
