"""The facts of a plan that was read: what each of its entries says, and from where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from posenc._core.io.checkpoints import read_header
from posenc._core.reading import Layer, Reading
from posenc.detect.explain import COUNT_KEYS, Keys, has_window, part_at
from posenc.detect.facts.arrays import stated
from posenc.detect.facts.fact import Fact, Name
from posenc.encodings.rotary.base import RotarySpec

WINDOWS = ("sliding_window", "attention_chunk_size", "local_attention")
HEADER = {"block_count": COUNT_KEYS[0], "attention.sliding_window": WINDOWS[0]}


def header_config(path: Path) -> dict[str, Any]:
    """What a GGUF header says of layers, in the words of a config."""
    keys = read_header(path).keys
    start = keys.get("general.architecture")
    return {name: keys.get(f"{start}.{key}") for key, name in HEADER.items()}


def of_plan(plan: Reading, config: Mapping[str, Any]) -> Iterator[Fact]:
    """Specs, pairings, windows and lengths of a plan, entry by entry; layers of a config."""
    count = Keys(config).first(COUNT_KEYS)
    if count is not None:
        yield Fact("layers", int(count[1]), source="config", rests_on=f"config key {count[0]}")
    for entry in plan:
        every = {source.field.partition(".")[0] for source in entry.sources}
        if entry.spec is not None:
            yield stated("spec", entry.spec, entry, *every)
        if isinstance(entry.spec, RotarySpec):
            yield stated("pairing", entry.spec.channels.order, entry, "pairing")
        if entry.permuted:
            yield stated("permuted", entry.permuted, entry, "pairing")
        if entry.length is not None:
            yield _of_key("length", entry.length, entry, "the declared length")
        yield from _windows(entry, Keys(part_at(config, entry.layer)[1]))


def _windows(entry: Layer, keys: Keys) -> Iterator[Fact]:
    """What layers see: as their class reads it, or by a key where the plan alone says so."""
    for size, layers in entry.windows:
        told = _of_key("window", size, entry, f"config key {WINDOWS[0]}, as the class reads it")
        yield replace(told, layers=layers or entry.indices)
    stated = keys.first(WINDOWS) if has_window(entry) and not entry.windows else None
    if stated is not None and stated[1] >= 1:
        yield _of_key("window", int(stated[1]), entry, f"config key {stated[0]}")


def _of_key(name: Name, value: Any, entry: Layer, rests_on: str) -> Fact:
    layer, layers = entry.label, entry.indices
    return Fact(name, value, source="config", rests_on=rests_on, layer=layer, layers=layers)
