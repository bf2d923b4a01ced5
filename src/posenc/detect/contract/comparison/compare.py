"""Two sides, part by part: which parts belong together, and how each pair of them differs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from posenc.detect.contract.comparison.answers import MANY, looks
from posenc.detect.contract.comparison.calls import FIRST
from posenc.detect.contract.comparison.diff import Comparison, Difference
from posenc.detect.contract.comparison.fields import changed, effect, looked_at, words
from posenc.detect.contract.contract import Part
from posenc.detect.contract.sides.side import METHODS, CannotSay, Comparand, Implementation
from posenc.detect.fit.turns import DENSE, probes
from posenc.encodings.rotary.base import RotarySpec

# A field of `Comparison`, and what is added to it.
Row = tuple[str, Any]
SHARED = "it takes no `layer`, and several parts have one; choose one by `layers`"


def comparison(a: Comparand, b: Comparand) -> Comparison:
    """How two sides differ."""
    # The side with the specs comes first, as it has the names of the fields.
    swapped = a.answers is not None and b.answers is None
    first, second = (b, a) if swapped else (a, b)
    compare = _answers if second.answers is not None else _two_descriptions
    rows: dict[str, list[Any]] = {"differences": [], "compared": [], "not_compared": []}
    with np.errstate(all="ignore"):  # a side may have NaN and infinities, which are told
        for name, value in (_two_answers if first.answers is not None else compare)(first, second):
            rows[name].append(value)
    # Layers that are mistaken for each other come first, and near positions before far ones.
    rows["differences"].sort(key=lambda row: row.field != "layers")
    if swapped:
        turned = [dataclasses.replace(row, a=row.b, b=row.a) for row in rows["differences"]]
        rows["differences"] = turned
    result = {name: tuple(dict.fromkeys(values)) for name, values in rows.items()}
    differences = result.pop("differences")
    return Comparison(a.name, b.name, rows=differences, **result, remarks=(*a.remarks, *b.remarks))


def _differ(label: str, field: str, a: str, b: str) -> Row:
    """A difference without numbers."""
    return "differences", Difference(field, a, b, where=label)


# --- two descriptions -----------------------------------------------------------------------------


def _two_descriptions(a: Comparand, b: Comparand) -> Iterator[Row]:
    for label, mine, theirs in _matched(a, b):
        if mine is not None and theirs is not None:
            yield from _two_parts(label, mine, theirs)
            continue
        side, there = (a, theirs) if mine is None else (b, mine)
        if not side.whole or (there is not None and there.kind == "none"):
            yield "not_compared", f"{label}: {side.name} says nothing of it"
        else:
            yield _differ(label, "layers", _what(mine), _what(theirs))


def _what(part: Part | None) -> str:
    if part is None:
        return "nothing"
    if part.spec is None:
        return f"the convolution {part.convolution}" if part.convolution else "no positions"
    return words(part.spec)


def _two_parts(label: str, a: Part, b: Part) -> Iterator[Row]:
    if a.spec is None or b.spec is None or a.kind != b.kind:
        field = "layers" if a.spec is None or b.spec is None else "kind"
        alike = "compared", f"{label}: {_what(a)}, on both sides"
        yield alike if _what(a) == _what(b) else _differ(label, field, _what(a), _what(b))
        return
    for name, mine, theirs, other in changed(a.spec, b.spec):
        size = effect(a.spec if other is None else other, b.spec)
        yield "differences", Difference(name, words(mine), words(theirs), *size, label)
    for name in ("positions", "temperature", "window", "scale"):
        mine, theirs = getattr(a, name), getattr(b, name)
        if name == "window":
            mine, theirs = ("the whole sequence" if p.whole else p.window for p in (a, b))
        if mine == theirs:
            continue
        if name in ("temperature", "scale") or (mine is not None and theirs is not None):
            yield _differ(label, name, words(mine), words(theirs))
        else:
            yield "not_compared", f"{label}: {name}, which one side states alone"
    yield "compared", f"{label}: {looked_at(a.spec)}"
    if a.length != b.length and None not in (a.length, b.length):
        lengths = f"declared for {a.length} and {b.length} positions"
        yield "not_compared", f"{label}: {lengths}, which changes no angle"


# --- answers --------------------------------------------------------------------------------------


def _answers(a: Comparand, b: Comparand) -> Iterator[Row]:
    for part in a.parts:
        for reason in part.left_out:
            yield "not_compared", f"{part.name}: {reason}"
        if part.spec is None:
            yield "not_compared", f"{part.name}: {_what(part)}, which {b.name} was not asked of"
            continue
        label = part.name if part.layers is None else f"{part.name} ({_layers(part.layers)})"
        try:
            assert b.answers is not None  # noqa: S101 - it does not describe
            codes = b.answers(part, [p.name for p in a.parts])
            for code in codes:
                place = f"{label}, {code.name}" if len(codes) > 1 else label
                yield from _answers_of(part, a, b, code, place)
        except CannotSay as error:
            yield "not_compared", f"{part.name}: {error}"
    for path in b.unasked():
        yield "not_compared", f"{path}, which stands for no part of {a.name}"


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
            differences, reach = look()
        except CannotSay as error:
            if code.strict and error.__cause__ is not None:
                raise error.__cause__ from None
            yield "not_compared", f"{part.name}: {method}: {error}"
            continue
        reach, *refused = reach.split("; not ")
        yield "compared", f"{part.name}: {method}{reach}"
        for what in refused:
            yield "not_compared", f"{part.name}: {method}, {what}"
        for row in differences:
            if row.field not in fields or method not in code.methods:
                yield "differences", dataclasses.replace(row, where=label)
        fields |= {row.field for row in differences}
        if "state" in fields:
            break  # what it remembers would be in every other answer


def _two_answers(a: Comparand, b: Comparand) -> Iterator[Row]:
    for method, kind in {
        **dict.fromkeys(METHODS[:3], "rotary"),
        "table": "table",
        "bias": "bias",
    }.items():
        part: Any = Part("attention", kind=kind)  # type: ignore[arg-type]
        for last in (DENSE, FIRST - 1, 63):  # tables may end
            try:
                asked, reach = _questions(method, last)
                one, two = (_all_of(side, part, method, asked) for side in (a, b))
                break
            except CannotSay as error:
                reason = error
        else:
            yield "not_compared", f"{method}: {reason}"
            continue
        if len(one) != len(two):
            counts = [len(every) for every in (one, two)]
            kinds = (f"numbers of {n} kinds" if n > 1 else "the same numbers" for n in counts)
            yield _differ("both", "layers", *kinds)
            continue
        shapes = [", ".join(str(numbers.shape) for numbers in every) for every in (one, two)]
        if shapes[0] != shapes[1]:
            yield _differ("both", "dim", *shapes)
            continue
        yield "compared", f"{method}{reach}"
        off = np.array([np.abs(mine - theirs).max() for mine, theirs in zip(one, two, strict=True)])
        if not np.all(off <= 1e-4):
            size = (float(np.where(np.isnan(off), np.inf, off).max()), None, "numbers", "both")
            yield "differences", Difference(method, "its numbers", "others", *size)


def _questions(method: str, last: int) -> tuple[list[Any], str]:
    """What two sides without specs are both asked, and that in words."""
    line, some = np.arange(last + 1), np.random.default_rng(0).permutation(last + 1)[:64]
    if method == "frequencies":
        return [()], ""
    if method == "bias":
        return [(line[:FIRST], line[:FIRST]), (some, some)], f", positions to {last:,}"
    turned = [(probes(64, len(p), heads), p) for p, heads in ((line, 1), (some, MANY))]
    reach = f", every position to {last:,}, and some in another order"
    return turned if method == "rotate" else [(line,), (some,)], reach


def _all_of(side: Comparand, part: Part, method: str, asked: Any) -> list[np.ndarray]:
    """What each implementation of a side answers, one after the other."""
    assert side.answers is not None  # noqa: S101 - it does not describe
    answers = [
        [code.ask(method, *each, part=part) for each in asked] for code in side.answers(part, ())
    ]
    return [np.concatenate([np.ravel(numbers) for numbers in every]) for every in answers]


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
        one, two = ours.get(place, []), theirs.get(place, [])
        by_layer = any(part.layers is not None for part in (*one, *two))
        yield from (_by_layer if by_layer else _by_name)(one, two, whole=a.whole)


def _types(places: dict[Place, list[Part]], inside: str) -> set[str]:
    return {p.name.rpartition(".")[2] for place, parts in places.items() for p in parts
            if place[0] == inside}  # fmt: skip


def _by_place(side: Comparand) -> dict[Place, list[Part]]:
    """(part of the model, attention inside a layer, kind of place) -> its parts."""
    places: dict[Place, list[Part]] = {}
    kinds = {"table": "rows", "convolution": "rows", "rotary": "layers", "none": "layers"}
    for part in side.parts:
        name, _, attention = part.name.partition("#")[0].partition(":")
        kind = kinds.get(part.kind, part.kind)
        places.setdefault((name.rpartition(".")[0], attention, kind), []).append(part)
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
    for part in left:
        yield part.name, ours[0] if len(ours) == 1 and not whole else None, part


def _by_layer(ours: list[Part], theirs: list[Part], *, whole: bool) -> Iterator[Pair]:
    groups: dict[tuple[Part | None, Part | None], list[int]] = {}
    for layer in range(1 + max(i for p in (*ours, *theirs) for i in p.layers or (0,))):
        groups.setdefault((_at(ours, layer), _at(theirs, layer)), []).append(layer)
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
    shown = ", ".join(ranges[:6]) + (", …" if len(ranges) > 6 else "")
    return f"layer{'' if len(layers) == 1 else 's'} {shown}"
