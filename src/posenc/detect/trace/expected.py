"""What each attention is expected to do: by a config, a plan, a spec, facts, or another trace."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from posenc._core.errors import ArgumentError, DataError, PosencError, mismatch
from posenc._core.reading import Layer, Reading
from posenc._core.spec.plan import Plan
from posenc._core.spec.spec import Spec
from posenc.detect.contract.contract import Contract, Part
from posenc.detect.contract.make import described
from posenc.detect.explain import from_hf
from posenc.detect.facts import Facts
from posenc.detect.trace.result import Trace
from posenc.encodings.bias.base import BiasSpec
from posenc.encodings.rotary.base import RotarySpec


class Expected(NamedTuple):
    """What one layer is expected to do about positions."""

    rotary: RotarySpec | None = None
    bias: BiasSpec | None = None
    scale: float | None = None  # where it is stated; or else what is usual
    window: int | None = None
    stated: bool = True  # whether anything is of rotations
    windows_stated: bool = False
    tempered: bool = False  # whether scores have a factor that depends on the position
    others: tuple[tuple[str, RotarySpec], ...] = ()
    why: str = ""  # what keeps it from being compared
    relative: bool = False


class Expectations:
    """What the layers of a model are expected to do, part by part."""

    def __init__(
        self, name: str, parts: Mapping[str, Any], notes: Sequence[str] = (), *, read: bool = False
    ) -> None:
        self.name, self.parts, self.notes = name, parts, tuple(notes)
        self.read = read  # of a config, which need not state what its class does to scores

    def of(self, part: str, number: int) -> Expected:
        """The expectation of a layer of a part."""
        source = self.parts[part]
        if isinstance(source, Expected):
            return source
        if callable(source):
            return source(number)
        if isinstance(source, list):
            return source[number] if number < len(source) else Expected(stated=False)
        return _of_entries(source, number)


def expectations(expected: Any, model: Any) -> Expectations:
    """What a model is held against; where nothing is handed over, its config."""
    if expected is None:
        config = getattr(model, "config", None)
        if config is None:
            return Expectations("", {"": Expected(stated=False)})
        try:
            return _of_reading(from_hf(config, on_error="report"), "its config")
        except PosencError as error:
            note = f"what it is held against, because its config cannot be read: {error}"
            return Expectations("", {"": Expected(stated=False)}, [note])
    if isinstance(expected, (str, Path)):
        # A config that leaves something open is read below, as far as it can be.
        with contextlib.suppress(DataError):
            expected = described(expected, "trace: expected")
    if isinstance(expected, Contract):
        inside = {part.name.partition("#")[0].rpartition(".")[0] for part in expected.parts}
        return Expectations("the contract", {
            name: functools.partial(_of_parts, [p for p in expected.parts if _inside(p, name)])
            for name in sorted(inside)
        })  # fmt: skip
    if isinstance(expected, Trace):
        return Expectations("another trace", {"": [_of_traced(one) for one in expected.layers]})
    if isinstance(expected, Spec):
        return Expectations(type(expected).__name__, {"": _of_specs([expected])})
    if isinstance(expected, Plan):
        return Expectations("the plan", {"": [_of_specs([*e.specs]) for e in expected]})
    if isinstance(expected, Facts):
        return _of_reading(expected.reading, "the facts")
    if isinstance(expected, Reading):
        return _of_reading(expected, "the reading")
    if not isinstance(expected, (Mapping, str, Path)) and not hasattr(expected, "to_dict"):
        sides = "a config, a plan, a spec, facts, or another trace"
        raise ArgumentError(mismatch("trace: expected", sides, type(expected).__name__))
    return _of_reading(from_hf(expected, on_error="report"), "the config")


def _of_specs(specs: list[Spec]) -> Expected:
    rotary = next((s for s in specs if isinstance(s, RotarySpec)), None)
    bias = next((s for s in specs if isinstance(s, BiasSpec)), None)
    return Expected(rotary, bias)


def _inside(part: Part, name: str) -> bool:
    """Whether a part is the main attention of the layers of this part of a model."""
    plain = part.name.partition("#")[0]
    return plain.rpartition(".")[0] == name and ":" not in plain


def _of_parts(parts: Sequence[Part], number: int) -> Expected:
    """What the parts of a contract say of a layer."""
    own = [part for part in parts if part.layers is None or number in part.layers]
    read = _of_specs([part.spec for part in own if part.spec is not None])
    window = next((part.window for part in own if part.window is not None), None)
    return read._replace(
        scale=next((part.scale for part in own if part.scale is not None), None), window=window,
        windows_stated=window is not None or any(part.whole for part in own),
        tempered=any(part.temperature is not None for part in own),
    )  # fmt: skip


def _of_traced(layer: Any) -> Expected:
    spec = layer.query.spec
    rotary = spec if isinstance(spec, RotarySpec) else None
    stated = rotary is not None or not layer.query.why
    return Expected(
        rotary, scale=layer.scale, window=layer.window, stated=stated, windows_stated=True
    )


def _of_reading(reading: Reading, name: str) -> Expectations:
    several = any("." in entry.layer for entry in reading)
    parts: dict[str, list[Layer]] = {}
    for entry in reading:
        part = entry.layer.partition(".")[0] if several else ""
        parts.setdefault(part, []).extend(() if entry.attention else (entry,))
    read = {part: Reading(tuple(own)) for part, own in parts.items()}
    notes = [f"part of its config: {text}" for text in reading.errors]
    return Expectations(name, read or {"": Expected(stated=False)}, notes, read=True)


def _of_entries(reading: Reading, number: int) -> Expected:
    own = reading.at(number)
    rotary = next((e for e in own if isinstance(e.spec, RotarySpec)), None)
    bias = next((e.spec for e in own if isinstance(e.spec, BiasSpec)), None)
    every = [(e.label, e.spec) for e in reading if isinstance(e.spec, RotarySpec)]
    spec: Any = None if rotary is None else rotary.spec
    window, stated = None, False
    for entry in own:
        for size, layers in entry.windows:
            if layers is None or number in layers:
                window, stated = size, True
    scale = next((e.scale for e in own if e.scale is not None), None)
    return Expected(
        spec, bias, scale, window, bool(own) or not every, stated,
        any(e.logit_scale is not None for e in own),
        tuple((label, other) for label, other in every if other != spec),
        relative=any(e.kind == "relative" for e in own),
    )  # fmt: skip
