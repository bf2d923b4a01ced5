"""The facts of a plan that was read, and the pairing that a conversion recorded in the files.

What each entry of the plan says, and from where; and the stamp of a conversion: which pairing the
files of a model were written in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from posenc._core.errors import DataError
from posenc._core.io.checkpoints import RECORD, read_header
from posenc._core.io.checkpoints.safetensors_model import record_of
from posenc._core.io.headers import Layout
from posenc._core.reading import Layer, Note, Reading, Source
from posenc.detect.explain import COUNT_KEYS, PAIRINGS, TRAINED, Keys, has_window, part_at
from posenc.detect.facts.arrays import stated
from posenc.detect.facts.fact import Contradiction, Fact, Name
from posenc.encodings.rotary.base import RotarySpec
from posenc.presets.families import projection_names

ALL = "*"  # the pattern of all tensors but those of an attention inside a layer
AGAIN = "Convert the model again, from the files as they were."
UNWRITTEN = "none"  # the pairing of files without a record, beside those that have one

CHUNK = "attention_chunk_size"
WINDOWS = ("sliding_window", CHUNK, "local_attention")
UNKNOWN = "a window; its size is not stated"
HEADER = {
    "block_count": COUNT_KEYS[0],
    "attention.sliding_window": WINDOWS[0],
    "context_length": TRAINED[0],
}


def header_config(path: Path) -> dict[str, Any]:
    """What a GGUF header says of layers, in the words of a config."""
    keys = read_header(path).keys
    start = keys.get("general.architecture")
    return {name: keys.get(f"{start}.{key}") for key, name in HEADER.items()}


def of_plan(plan: Reading, config: Mapping[str, Any]) -> Iterator[Fact]:
    """Specs, pairings, windows and lengths of a plan, entry by entry; layers of each part."""
    parts = dict(part_at(config, name) for name in ("", *(entry.layer for entry in plan)))
    for part, data in parts.items():
        key, count = Keys(data).first(COUNT_KEYS) or ("", 0)
        if count >= 1:
            yield Fact(
                "layers", int(count), source="config", rests_on=f"config key {key}", layer=part
            )
    for entry in plan:
        every = {source.field.partition(".")[0] for source in entry.sources}
        if entry.spec is not None:
            yield stated("spec", entry.spec, entry, *every)
        if isinstance(entry.spec, RotarySpec):
            yield stated("pairing", entry.spec.channels.order, entry, "pairing")
        if entry.permuted:
            yield stated("permuted", entry.permuted, entry, "pairing")
        keys = Keys(part_at(config, entry.layer)[1])
        if entry.length is not None:
            yield _read("length", entry.length, entry, keys, TRAINED)
        for window, layers in entry.windows or _windows(entry, keys):
            yield replace(
                _read("window", window, entry, keys, WINDOWS),
                layers=entry.indices if layers is None else layers,
            )


def head_width(entry: Layer, config: Mapping[str, Any]) -> int | None:
    """The width of a head, where a part of it turns, by the key that the plan names."""
    own = [source for source in entry.sources if source.field in ("head", "dim", "share")]
    if not isinstance(entry.spec, RotarySpec) or len(own) < 2:
        return None
    return width_at(Keys(part_at(config, entry.layer)[1]), own[0].where) or None


def width_at(keys: Keys, where: str) -> int | None:
    """The width of a head by what a source names, if it can be worked out again."""
    width = keys.evaluate(where) if re.fullmatch(r"[^\W\d_][\w \t/*+()-]*", where) else None
    return None if width is None else int(width)


def _windows(entry: Layer, keys: Keys) -> Iterator[tuple[object, tuple[int, ...] | None]]:
    """What a config says of windows where the plan does not: a chunk may be of no layer of it."""
    size = keys.first(WINDOWS if has_window(entry) else (CHUNK,)) or ("", 0)
    number = int(size[1]) if size[1] >= 1 else None
    if has_window(entry):
        yield number or UNKNOWN, None
    elif number and isinstance(entry.spec, RotarySpec):
        yield number, ()


def _read(name: Name, value: Any, entry: Layer, keys: Keys, words: tuple[str, ...]) -> Fact:
    """A number of a config, by the key that is there; else what its class takes for it."""
    key = next((word for word in words if keys.data.get(word) is not None), "")
    rests_on = f"config key {key}" if key else f"the class default of {words[0]}"
    return replace(
        stated(name, value, entry), source="config" if key else "class", rests_on=rests_on
    )


# --- the stamp of a conversion --------------------------------------------------------------------


def of_records(layouts: Mapping[str, Layout]) -> Iterator[Fact]:
    """The pairing of each pattern of names that a file records; each value once."""
    records = {file: _pairings(layout) for file, layout in layouts.items() if layout.tensors}
    for pattern in dict.fromkeys(pattern for pairings in records.values() for pattern in pairings):
        files: dict[str, str] = {}
        for file, pairings in records.items():
            files.setdefault(pairings.get(pattern, UNWRITTEN), file)
        for order, file in files.items():
            yield Fact(
                "pairing",
                order,
                source="stamp",
                rests_on=f"the record of a conversion in {file}",
                layer=pattern,
            )


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
        if (one := first.setdefault(fact.layer, fact)) is not fact:
            yield Contradiction(one, fact, AGAIN)
        elif fact.value not in (*PAIRINGS, UNWRITTEN):
            yield Contradiction(
                replace(fact, value=" or ".join(PAIRINGS), source="format", rests_on="the format"),
                fact,
                AGAIN,
            )


def stamped(plan: Reading, stamp: tuple[Fact, ...]) -> Reading:
    """A plan with the pairings that were recorded; a note where it is open whose they are."""
    orders = {fact.layer: fact.value for fact in reversed(stamp) if fact.value in PAIRINGS}
    parts = {
        entry.layer.rpartition(".")[0]
        for entry in plan
        if isinstance(entry.spec, RotarySpec) and not entry.attention
    }
    # A pattern of some names goes before that of all.
    best = [
        max((p for p in orders if _covers(p, e, len(parts))), key=len, default="") for e in plan
    ]
    layers = tuple(
        _recorded(entry, orders[p]) if p else entry for entry, p in zip(plan, best, strict=True)
    )
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
    own = parts < 2 or pattern == ALL or any(word in pattern for word in words)
    return own and not is_inside(pattern)
