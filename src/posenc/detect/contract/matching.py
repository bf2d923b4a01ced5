"""Which parts of two descriptions act in the same layers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from posenc.detect.contract.contract import Part
from posenc.detect.contract.side import Side

__all__ = ["layer_words", "matched"]


def matched(a: Side, b: Side) -> Iterator[tuple[str, Part | None, Part | None]]:
    """Parts that act in the same layers, with these layers in words."""
    ours, theirs = _by_place(a), _by_place(b)
    # A config of the text alone is held against the text of a whole model.
    for mine, other, whole in ((ours, theirs, b), (theirs, ours, a)):
        extra = {place[0] for place in other} - {place[0] for place in mine}
        if {place[0] for place in mine} == {""} and extra and "" not in {p[0] for p in other}:
            like = max(extra, key=lambda p: len(_names(mine, "") & _names(other, p)))
            if not whole.whole or _names(mine, "") & _names(other, like):
                for place in list(mine):
                    mine[like, *place[1:]] = mine.pop(place)
    for place in dict.fromkeys((*ours, *theirs)):
        yield from _in_place(ours.get(place, []), theirs.get(place, []), a)


Place = tuple[str, str, str]


def _names(places: dict[Place, list[Part]], inside: str) -> set[str]:
    return {p.name.rpartition(".")[2] for place, parts in places.items() for p in parts
            if place[0] == inside}  # fmt: skip


def _by_place(side: Side) -> dict[Place, list[Part]]:
    """(part of the model, attention inside a layer, kind of place) -> its parts."""
    found: dict[Place, list[Part]] = {}
    for part in side.parts:
        name, _, attention = part.name.partition("#")[0].partition(":")
        where = "rows" if part.kind in ("table", "convolution") else "layers"
        kind = part.kind if where == "layers" and part.kind != "none" else where
        kind = "layers" if kind in ("rotary", "none") else kind
        found.setdefault((name.rpartition(".")[0], attention, kind), []).append(part)
    return found


def _in_place(
    ours: list[Part], theirs: list[Part], a: Side
) -> Iterator[tuple[str, Part | None, Part | None]]:
    if all(p.layers is None for p in (*ours, *theirs)):
        names = {part.name: part for part in theirs}
        left = list(theirs)
        pairs: list[tuple[Part, Part | None]] = []
        for part in ours:
            other = names.get(part.name)
            if other is None and len(ours) == len(theirs) == 1:
                other = theirs[0]
            if other is None and not a.whole:
                other = next((p for p in left if p.kind == part.kind), None)
            if other in left:
                left.remove(other)
            pairs.append((part, other))
        for part, other in pairs:
            yield part.name if a.whole else (other or part).name, part, other
        for part in left:
            mine = ours[0] if len(ours) == 1 and not a.whole else None
            yield part.name, mine, part
        return
    count = 1 + max(i for p in (*ours, *theirs) for i in p.layers or (0,))
    groups: dict[tuple[Part | None, Part | None], list[int]] = {}
    for layer in range(count):
        mine, other = _at(ours, layer), _at(theirs, layer)
        groups.setdefault((mine, other), []).append(layer)
    for (mine, other), layers in groups.items():
        if mine is not None or other is not None:
            name = (mine or other).name  # type: ignore[union-attr]
            if not a.whole and other is not None:
                name = other.name
            yield f"{name} ({layer_words(layers)})", mine, other


def _at(parts: Sequence[Part], layer: int) -> Part | None:
    return next((p for p in parts if p.layers is None or layer in p.layers), None)


def layer_words(layers: Sequence[int]) -> str:
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
