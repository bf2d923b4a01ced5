"""The facts of a plan that was read: what each of its entries says, and from where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from posenc._core.reading import Layer, Reading
from posenc.detect.explain import COUNT_KEYS, Keys
from posenc.detect.facts.arrays import stated
from posenc.detect.facts.fact import Fact
from posenc.encodings.rotary.base import RotarySpec


def of_plan(plan: Reading, config: Mapping[str, Any] | None) -> Iterator[Fact]:
    """Specs, pairings, windows and lengths of a plan, entry by entry; layers of a config."""
    count = None if config is None else Keys(config).first(COUNT_KEYS)
    if count is not None:
        yield Fact("layers", int(count[1]), source="config", rests_on=f"config key {count[0]}")
    for entry in plan:
        yield from _of_entry(entry)


def _of_entry(entry: Layer) -> Iterator[Fact]:
    if entry.spec is not None:
        every = {source.field.partition(".")[0] for source in entry.sources}
        yield stated("spec", entry.spec, entry, *every)
    if isinstance(entry.spec, RotarySpec):
        yield stated("pairing", entry.spec.channels.order, entry, "pairing")
    if entry.length is not None:
        yield Fact(
            "length",
            entry.length,
            source="config",
            rests_on="the declared length",
            layer=entry.label,
        )
    for size, own in entry.windows:
        rests_on = "config key sliding_window, as the class reads it"
        yield Fact(
            "window",
            size,
            source="config",
            rests_on=rests_on,
            layer=entry.label,
            layers=own or entry.indices,
        )
