"""The facts of a plan that was read: what each of its entries says, and from where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from posenc._core.io.checkpoints import read_header
from posenc._core.reading import Layer, Reading
from posenc.detect.explain import COUNT_KEYS, TRAINED, Keys, has_window, part_at
from posenc.detect.facts.arrays import stated
from posenc.detect.facts.fact import Fact, FactSource, Name
from posenc.encodings.rotary.base import RotarySpec

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
        if (count := Keys(data).first(COUNT_KEYS)) is not None and count[1] >= 1:
            key = f"config key {count[0]}"
            yield Fact("layers", int(count[1]), source="config", rests_on=key, layer=part)
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
            own = entry.indices if layers is None else layers
            yield replace(_read("window", window, entry, keys, WINDOWS), layers=own)


def head_width(entry: Layer, config: Mapping[str, Any]) -> int | None:
    """The width of a head, where a part of it turns, by the key that the plan names."""
    own = [source for source in entry.sources if source.field in ("head", "dim", "share")]
    if not isinstance(entry.spec, RotarySpec) or len(own) < 2:
        return None
    return int(Keys(part_at(config, entry.layer)[1]).evaluate(own[0].where) or 0) or None


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
    source: FactSource = "config" if key else "class"
    rests_on = f"config key {key}" if key else f"the class default of {words[0]}"
    return replace(stated(name, value, entry), source=source, rests_on=rests_on)
