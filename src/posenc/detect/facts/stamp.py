"""The stamp of a conversion: which pairing the files of a model were written in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from posenc._core.errors import DataError
from posenc._core.io.checkpoints import RECORD
from posenc._core.io.checkpoints.safetensors_model import record_of
from posenc._core.io.headers import Layout
from posenc._core.reading import Layer, Note, Reading, Source
from posenc.detect.explain import PAIRINGS
from posenc.detect.facts.fact import Contradiction, Fact
from posenc.encodings.rotary.base import RotarySpec
from posenc.presets.families import projection_names

ALL = "*"  # the pattern of all tensors but those of an attention inside a layer
AGAIN = "Convert the model again, from the files as they were."
UNWRITTEN = "none"  # the pairing of files without a record, beside those that have one


def of_records(layouts: Mapping[str, Layout]) -> Iterator[Fact]:
    """The pairing of each pattern of names that a file records; each value once."""
    records = {file: _pairings(layout) for file, layout in layouts.items() if layout.tensors}
    patterns = dict.fromkeys(pattern for pairings in records.values() for pattern in pairings)
    for pattern in patterns:
        files: dict[str, str] = {}
        for file, pairings in records.items():
            files.setdefault(pairings.get(pattern, UNWRITTEN), file)
        for order, file in files.items():
            rests_on = f"the record of a conversion in {file}"
            yield Fact("pairing", order, source="stamp", rests_on=rests_on, layer=pattern)


def _pairings(layout: Layout) -> dict[str, str]:
    """The recorded pairings of a file, by patterns of names."""
    try:
        record = record_of(layout.metadata)
    except DataError:
        return {ALL: "what cannot be read"}
    parts, whole = record.get("pairing_of"), record.get("pairing")
    parts = parts if isinstance(parts, dict) else {} if parts is None else {ALL: [parts]}
    pairings = ({} if whole is None else {ALL: whole}) | parts
    return {p: o if o in PAIRINGS else repr(o)[:40] for p, o in pairings.items()}


def is_inside(name: str) -> bool:
    """Whether a tensor, or a pattern of names, is of an attention inside a layer."""
    return any(word in projection_names().inside for word in re.split(r"[./]", name))


def conflicts(stamp: tuple[Fact, ...]) -> Iterator[Contradiction]:
    """Files of one model that record different conversions, and records of no pairing."""
    first: dict[str, Fact] = {}
    for fact in stamp:
        one = first.setdefault(fact.layer, fact)
        if one is not fact:
            yield Contradiction(one, fact, AGAIN)
        elif fact.value not in (*PAIRINGS, UNWRITTEN):
            either = Fact("pairing", " or ".join(PAIRINGS), source="format", rests_on="the format")
            yield Contradiction(either, fact, AGAIN)


def stamped(plan: Reading, stamp: tuple[Fact, ...]) -> Reading:
    """A plan with the pairings that were recorded; a note where it is open whose they are."""
    orders = {fact.layer: fact.value for fact in reversed(stamp) if fact.value in PAIRINGS}
    turning = [entry for entry in plan if isinstance(entry.spec, RotarySpec)]
    parts = {entry.layer.rpartition(".")[0] for entry in turning if not entry.attention}
    # A pattern of some names goes before that of all.
    best = [
        max((p for p in orders if _covers(p, e, len(parts))), key=len, default="") for e in plan
    ]
    pairs = zip(plan, best, strict=True)
    layers = tuple(_recorded(entry, orders[p]) if p else entry for entry, p in pairs)
    notes = (
        Note("warning", f"a conversion recorded that {pattern} pairs {orders[pattern]}; which "
             "layers these are is not known here")
        for pattern in orders if pattern not in (*best, ALL)
    )  # fmt: skip
    return plan.replace(layers=layers, notes=(*plan.notes, *notes))


def _recorded(entry: Layer, order: str) -> Layer:
    """An entry in the pairing that was recorded for it."""
    spec: Any = entry.spec
    source = Source("pairing", origin="record", where=RECORD)
    sources = tuple(source if s.field == "pairing" else s for s in entry.sources)
    return entry.replace(
        spec=spec.replace(pairing=spec.channels.replace(order=order)), sources=sources
    )


def _covers(pattern: str, entry: Layer, parts: int) -> bool:
    """Whether the names of a pattern are those of an entry's queries and keys."""
    if not isinstance(entry.spec, RotarySpec):
        return False
    if entry.attention:
        return pattern == f"*.{entry.attention}.*"
    part = entry.layer.partition(".")[0]
    words = ("language", part) if part == "text" else (part,)
    named = parts < 2 or pattern == ALL or any(word in pattern for word in words)
    return named and not is_inside(pattern)
