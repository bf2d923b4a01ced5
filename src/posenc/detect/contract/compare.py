"""Two sides, part by part: which parts belong together, and how each pair of them differs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from posenc.detect.contract.answers import looks
from posenc.detect.contract.checks import sequences
from posenc.detect.contract.contract import Part
from posenc.detect.contract.diff import Comparison, Difference
from posenc.detect.contract.fields import changed, effect, looked_at, words
from posenc.detect.contract.side import CannotSay, Comparand, Implementation
from posenc.encodings.rotary.base import RotarySpec

__all__ = ["comparison"]


class _Gathered:
    """What a comparison gathers, of a side that describes, `a`, and another."""

    def __init__(self) -> None:
        self.differences: list[Difference] = []
        self.compared: list[str] = []
        self.not_compared: list[str] = []

    def differ(self, where: str, field: str, a: str, b: str) -> None:
        """Add a difference without numbers."""
        self.differences.append(Difference(field, a, b, where=where))


def comparison(a: Comparand, b: Comparand) -> Comparison:
    """How two sides differ."""
    rows = _Gathered()
    # The side with the specs comes first, as it has the names of the fields.
    swapped = a.answers is not None and b.answers is None
    first, second = (b, a) if swapped else (a, b)
    if first.answers is not None:
        _two_answers(first, second, rows)
    elif second.answers is None:
        _two_descriptions(first, second, rows)
    else:
        _answers(first, second, rows)
    # Layers that are mistaken for each other come first, and near positions before far ones.
    differences = sorted(rows.differences, key=lambda row: row.field != "layers")
    if swapped:
        differences = [dataclasses.replace(row, a=row.b, b=row.a) for row in differences]
    return Comparison(
        a.name, b.name, differences=tuple(differences), compared=tuple(rows.compared),
        not_compared=tuple(dict.fromkeys(rows.not_compared)), remarks=(*a.remarks, *b.remarks),
    )  # fmt: skip


# --- two descriptions -----------------------------------------------------------------------------


def _two_descriptions(a: Comparand, b: Comparand, rows: _Gathered) -> None:
    for where, mine, theirs in _matched(a, b):
        if mine is not None and theirs is not None:
            _two_parts(where, mine, theirs, rows)
            continue
        side, there = (a, theirs) if mine is None else (b, mine)
        if not side.whole or (there is not None and there.kind == "none"):
            rows.not_compared.append(f"{where}: {side.name} says nothing of it")
        else:
            rows.differ(where, "layers", _what(mine), _what(theirs))


def _what(part: Part | None) -> str:
    if part is None:
        return "nothing"
    if part.spec is None:
        return f"the convolution {part.convolution}" if part.convolution else "no positions"
    return words(part.spec)


def _two_parts(where: str, a: Part, b: Part, rows: _Gathered) -> None:
    if a.spec is None or b.spec is None or a.kind != b.kind:
        if _what(a) == _what(b):
            rows.compared.append(f"{where}: {_what(a)}, on both sides")
        else:
            field = "layers" if a.spec is None or b.spec is None else "kind"
            rows.differ(where, field, _what(a), _what(b))
        return
    for name, mine, theirs, other in changed(a.spec, b.spec):
        size = effect(a.spec if other is None else other, b.spec)
        rows.differences.append(Difference(name, words(mine), words(theirs), *size, where))
    for name in ("positions", "temperature", "window", "scale"):
        mine, theirs = getattr(a, name), getattr(b, name)
        if mine == theirs:
            continue
        if name in ("temperature", "scale") or (mine is not None and theirs is not None):
            rows.differ(where, name, words(mine), words(theirs))
        else:
            rows.not_compared.append(f"{where}: {name}, which one side states alone")
    rows.compared.append(f"{where}: {looked_at(a.spec)}")
    if a.length != b.length and None not in (a.length, b.length):
        lengths = f"declared for {a.length} and {b.length} positions"
        rows.not_compared.append(f"{where}: {lengths}, which changes no angle")


# --- a description and answers --------------------------------------------------------------------


def _answers(a: Comparand, b: Comparand, rows: _Gathered) -> None:
    for part in a.parts:
        rows.not_compared += [f"{part.name}: {reason}" for reason in part.left_out]
        if part.spec is None:
            rows.not_compared.append(f"{part.name}: {_what(part)}, which {b.name} was not asked of")
            continue
        where = part.name if part.layers is None else f"{part.name} ({_layers(part.layers)})"
        others = [
            p for p in a.parts if p is not part and p.kind == part.kind and p.spec != part.spec
        ]
        rotary = [(p.name, p.spec) for p in others if isinstance(p.spec, RotarySpec)]
        try:
            code = _code(b, part)
            for method, look in looks(part, code, rotary):
                name = f"{part.name}: {method}"
                if others and method in code.methods and _shared(b, code, method):
                    told = "it takes no `layer`, and several parts have one; choose one by `layers`"
                    rows.not_compared.append(f"{name}: {told}")
                    continue
                try:
                    differences, reach = look()
                except CannotSay as error:
                    if code.strict and error.__cause__ is not None:
                        raise error.__cause__ from None
                    rows.not_compared.append(f"{name}: {error}")
                    continue
                known = {(row.where, row.field) for row in rows.differences}
                rows.differences += [
                    dataclasses.replace(row, where=where)
                    for row in differences if (where, row.field) not in known
                ]  # fmt: skip
                rows.compared.append(f"{name}, {reach}")
                if any(row.field == "state" for row in differences):
                    break  # what it remembers would be in every other answer
        except CannotSay as error:
            rows.not_compared.append(f"{part.name}: {error}")
    _sequences(a, b, rows)


def _code(side: Comparand, part: Part) -> Implementation:
    assert side.answers is not None  # noqa: S101 - it does not describe
    return side.answers(part)


def _shared(side: Comparand, code: Implementation, method: str) -> bool:
    """Whether one answer would stand for parts that are not alike."""
    return side.shared and not code.takes(method, "layer")


def _sequences(a: Comparand, b: Comparand, rows: _Gathered) -> None:
    """Which token stands where: left padding, packed sequences, a cached step."""
    parts = {part.name: part for part in a.parts}
    silent: dict[str, None] = {}
    for check in sequences(a.parts):
        part, case = parts[check.part], str(check["case"])
        asked = {k: v for k, v in check.data.items() if k != "positions"}
        try:
            code = _code(b, part)
            if "position_ids" not in code.methods:
                silent[case] = None
                continue
            theirs = code.ask("position_ids", asked, part=part).reshape(-1)
        except CannotSay as error:
            rows.not_compared.append(f"{check.part}: position_ids ({case}): {error}")
            continue
        mine, counted = check["positions"], np.ones(check["positions"].size, bool)
        if "mask" in check:  # what padding gets is nobody's business
            counted = check["mask"] == 1
        begins = ""
        if "shift" in check and theirs.shape == mine.shape:
            # A rotation or a bias sees distances alone: a row may begin to count anywhere.
            begins = ", from wherever a row begins to count"
            shape = tuple(check["shape"])
            first = counted.reshape(shape).argmax(-1)[..., None]
            moved = np.take_along_axis((theirs - mine).reshape(shape), first, -1)
            theirs = (theirs.reshape(shape) - moved).reshape(-1)
        rows.compared.append(f"{check.part}: position_ids ({case}){begins}")
        if theirs.shape != mine.shape or np.any(theirs[counted] != mine[counted]):
            told = [words(tuple(p.astype(int).tolist())) for p in (mine, theirs)]
            rows.differ(check.part, "positions", f"{case}: {told[0]}", told[1])
    if silent:
        rows.not_compared.append(f"positions of {', '.join(silent)}: no position_ids is offered")


def _two_answers(a: Comparand, b: Comparand, rows: _Gathered) -> None:
    part, where = Part("attention", kind="rotary"), np.arange(512)
    for method, given in (("frequencies", ()), ("cos_sin", (where,)), ("table", (where,))):
        try:
            one, two = (
                np.asarray(_code(side, part).ask(method, *given, part=part)) for side in (a, b)
            )
        except CannotSay as error:
            rows.not_compared.append(f"{method}: {error}")
            continue
        if one.shape != two.shape:
            rows.differ("both", "dim", str(one.shape), str(two.shape))
            continue
        rows.compared.append(f"{method}, every position to {where[-1]}")
        off = np.abs(one - two)
        if not np.all(off <= 1e-4):
            size = (float(np.nanmax(off)), None, "numbers", "both")
            rows.differences.append(Difference(method, "its numbers", "others", *size))


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
    runs: list[list[int]] = []
    for layer in layers:
        if runs and layer == runs[-1][-1] + 1:
            runs[-1].append(layer)
        else:
            runs.append([layer])
    told = [str(r[0]) if len(r) == 1 else f"{r[0]}–{r[-1]}" for r in runs]
    shown = ", ".join(told[:6]) + (", …" if len(told) > 6 else "")
    return f"layer{'' if len(layers) == 1 else 's'} {shown}"
