"""Two sides, part by part: which parts belong together, and how each pair of them differs."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from posenc._core.spec import Spec
from posenc.detect.contract.answers import ask, ask_part
from posenc.detect.contract.asked import CannotSay
from posenc.detect.contract.checks import sequences
from posenc.detect.contract.contract import Part
from posenc.detect.contract.effect import effect
from posenc.detect.contract.fields import PLACES, changed, numbers, words
from posenc.detect.contract.matching import layer_words, matched
from posenc.detect.contract.seen import NEAR, Finding
from posenc.detect.contract.side import Side
from posenc.encodings.rotary.base import RotarySpec
from posenc.encodings.rotary.rope import RoPE

__all__ = ["Found", "compared"]

Row = tuple[str, Finding]


@dataclass
class Found:
    """What a comparison gathers; `ours` is the side that comes first."""

    differences: list[Row] = field(default_factory=list)
    looked: list[str] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)

    def turned(self) -> Found:
        """With the sides exchanged."""
        rows = [(w, d._replace(ours=d.theirs, theirs=d.ours)) for w, d in self.differences]
        return Found(rows, self.looked, self.unseen)


def compared(a: Side, b: Side) -> Found:
    """How two sides differ; the first has specs if one of them has."""
    found = Found()
    if not a.describes:
        _two_answers(a, b, found)
    elif b.describes:
        _two_descriptions(a, b, found)
    else:
        _answers(a, b, found)
    return found


# --- two descriptions -----------------------------------------------------------------------------


def _two_descriptions(a: Side, b: Side, found: Found) -> None:
    for where, mine, theirs in matched(a, b):
        if mine is None or theirs is None:
            there, name = (theirs, a) if mine is None else (mine, b)
            assert there is not None  # noqa: S101 - one of them is there
            if not name.whole or (there.kind == "none"):
                found.unseen.append(f"{where}: {name.name} says nothing of it")
                continue
            told = (_what(mine), _what(theirs))
            found.differences.append((where, Finding("layers", *told)))
            continue
        _two_parts(where, mine, theirs, found)
    # Layers that are mistaken for each other come first, and near positions before far ones.
    found.differences.sort(key=lambda row: row[1].field != "layers")


def _what(part: Part | None) -> str:
    if part is None:
        return "nothing"
    if part.spec is None:
        return f"the convolution {part.convolution}" if part.convolution else "no positions"
    return words(part.spec)


def _two_parts(where: str, a: Part, b: Part, found: Found) -> None:
    if a.spec is None or b.spec is None:
        if _what(a) == _what(b):
            found.looked.append(f"{where}: {_what(a)}, on both sides")
        else:
            found.differences.append((where, Finding("layers", _what(a), _what(b))))
        return
    if a.kind != b.kind:
        found.differences.append((where, Finding("kind", _what(a), _what(b))))
        return
    for name, mine, theirs, swapped in changed(a.spec, b.spec):
        size, position, what = effect(a.spec if swapped is None else swapped, b.spec)
        row = Finding(name, words(mine), words(theirs), size, position, what)
        found.differences.append((where, row))
    for name in ("positions", "temperature", "window", "scale"):
        mine, theirs = getattr(a, name), getattr(b, name)
        if mine is not None and theirs is not None and mine != theirs:
            found.differences.append((where, Finding(name, words(mine), words(theirs))))
        elif (mine is None) != (theirs is None):
            if name in ("temperature", "scale"):
                found.differences.append((where, Finding(name, words(mine), words(theirs))))
            else:
                found.unseen.append(f"{where}: {name}, which one side states alone")
    found.looked.append(f"{where}: {_looked(a.spec)}")
    if a.length != b.length and None not in (a.length, b.length):
        found.unseen.append(
            f"{where}: declared for {a.length} and {b.length} positions, which changes no angle"
        )


def _looked(spec: Spec) -> str:
    if isinstance(spec, RoPE):
        lengths = "at a short and a long length" if spec.needs_length else "at every length"
        return (
            f"each field of the spec; the frequencies of {spec.pairs} pairs in float64, {lengths}; "
            f"factors, pairing and channels"
        )
    if numbers(spec) is not None:
        return f"each field of the spec; numbers in float64 to distance or position {PLACES[-1]}"
    return "each field of the spec, no numbers"


# --- a description and answers --------------------------------------------------------------------


def _answers(a: Side, b: Side, found: Found) -> None:
    assert b.answers is not None  # noqa: S101 - it does not describe
    for part in a.parts:
        if part.spec is None:
            found.unseen.append(f"{part.name}: {_what(part)}, which {b.name} was not asked about")
            continue
        try:
            others = [
                (p.name, p.spec) for p in a.parts
                if p is not part and isinstance(p.spec, RotarySpec) and p.spec != part.spec
            ]  # fmt: skip
            rows, looked, unseen = ask_part(part, b.answers(part), others)
        except CannotSay as error:
            found.unseen.append(f"{part.name}: {error}")
            continue
        found.differences += [(_where(part), row) for row in rows]
        found.looked += [f"{part.name}: {line}" for line in looked]
        found.unseen += [f"{part.name}: {line}" for line in unseen]
    _sequences(a, b, found)
    found.differences.sort(key=lambda row: row[1].field != "layers")


def _where(part: Part) -> str:
    return part.name if part.layers is None else f"{part.name} ({layer_words(part.layers)})"


def _sequences(a: Side, b: Side, found: Found) -> None:
    """Which token stands where: left padding, packed sequences, a cached step."""
    assert b.answers is not None  # noqa: S101 - it does not describe
    names = {part.name: part for part in a.parts}
    silent: dict[str, None] = {}
    for check in sequences(a.parts):
        part, case = names.get(check.part, a.parts[0]), str(check["case"])
        given = {k: v for k, v in check.to_dict().items() if k != "positions"}
        try:
            asked = b.answers(part)
            if "position_ids" not in asked.methods:
                silent[case] = None
                continue
            theirs = ask(asked, "position_ids", given, part=part).reshape(-1)
        except CannotSay as error:
            found.unseen.append(f"{check.part}: positions of {case}: {error}")
            continue
        mine = np.asarray(check["positions"]).reshape(-1)
        counted = np.ones(mine.size, bool)
        if "mask" in check:  # what padding gets is nobody's business
            counted = np.asarray(check["mask"]).reshape(-1).astype(bool)
        found.looked.append(f"{check.part}: positions of {case}")
        if theirs.shape != mine.shape or np.any(theirs[counted] != mine[counted]):
            told = [words(tuple(p.astype(int).tolist())) for p in (mine, theirs)]
            row = Finding("positions", f"{case}: {told[0]}", told[1])
            found.differences.append((check.part, row))
    if silent:
        found.unseen.append(f"positions of {', '.join(silent)}: no position_ids is offered")


# --- two that only answer -------------------------------------------------------------------------


def _two_answers(a: Side, b: Side, found: Found) -> None:
    assert a.answers is not None  # noqa: S101 - neither describes
    assert b.answers is not None  # noqa: S101
    part = Part("attention", kind="rotary")
    for method, given in (("frequencies", ()), ("cos_sin", (NEAR,)), ("table", (NEAR,))):
        try:
            answers = [
                np.asarray(ask(side.answers(part), method, *given, part=part))  # type: ignore[misc]
                for side in (a, b)
            ]
        except CannotSay as error:
            found.unseen.append(f"{method}: {error}")
            continue
        one, two = answers
        if one.shape != two.shape:
            found.differences.append(("both", Finding("dim", str(one.shape), str(two.shape))))
            continue
        found.looked.append(f"{method}, to position {NEAR[-1]}")
        off = np.abs(one - two)
        if not np.all(off <= 1e-4):
            told = ("the numbers of A", "those of B, and no spec to name the field by")
            found.differences.append(
                ("both", Finding(method, *told, float(np.nanmax(off)), what="numbers"))
            )
