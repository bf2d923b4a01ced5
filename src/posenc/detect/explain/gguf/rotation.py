"""The rotation of a type of layers of a GGUF file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from posenc import registry
from posenc._core.errors import PosencError
from posenc._core.reading import Layer
from posenc._core.spec.spec import Spec
from posenc.detect.explain.config.view import Keys, is_number
from posenc.detect.explain.gguf.layers import LayerKind
from posenc.detect.explain.gguf.scaling import HeaderFile, scaling_of, short_number
from posenc.detect.explain.notes import Notes
from posenc.encodings.rotary.magnitude import Temperature
from posenc.presets import fill
from posenc.presets import row as preset_row

DEFAULT_BASE = 10_000.0  # of the format: files leave the key out for it


def temperature_of(file: HeaderFile, kind: LayerKind, notes: Notes) -> Temperature | None:
    """A factor on the scores of the layers of a type that grows with the position."""
    told = file.rule.get("temperature")
    if told is None or (told.get("in") == "without positions") == kind.turns:
        return None
    keys = file.keys
    strength = told.get("strength") or short_number(keys, "attention.temperature_scale")
    if not strength or (told.get("in") and kind.window is None):
        return None
    length = told.get("length") or next(
        (found for key in told["lengths"] if (found := keys.integer(key))), None
    )
    if length is None or length < 2:
        notes.error(f"{keys.where(told['lengths'][0])} is missing: where the temperature begins")
        return None
    return Temperature(
        rule="log_floor", length=length, strength=strength, start=told.get("start", 0)
    )


def rotation_of(file: HeaderFile, name: str, local: bool, outer: Notes) -> Layer | None:
    """The entry of a type of layers, with a window or without; None where it is not settled."""
    notes = Notes(name)
    rule = file.rule
    template: dict[str, Any] = {"type": "RoPE"}
    if "rotary" in rule:
        template = {
            k: v for k, v in preset_row(rule["rotary"]).spec.items() if k not in ("base", "scaling")
        }
        notes.source("pairing", "preset", rule["rotary"])
    if file.pairing is not None:
        template["pairing"] = {"type": "Pairing", "order": file.pairing}
        notes.source("pairing", "caller", "pairing")
    dim = _dim(file, local, notes)
    base = _base(file, local, notes)
    entry = None
    if dim is not None and "pairing" in template:
        _sections(file.keys, rule, template, dim // 2, notes)
        magnitude = {**template.get("magnitude", {"type": "RotaryMagnitude"})}
        scaling = scaling_of(file, local, dim // 2, magnitude, notes)
        filled = {**template, "dim": dim, "base": base, "magnitude": magnitude}
        if scaling:
            filled["scaling"] = scaling
        entry = None if notes.failed else _built(file.keys, filled, dim, notes)
    outer.notes += [note for note in notes.notes if note not in outer.notes]
    return entry


def _built(keys: Keys, filled: dict[str, Any], dim: int, notes: Notes) -> Layer | None:
    try:
        spec = registry.from_json(json.dumps(fill(filled, {"dim": dim})))
    except PosencError as error:
        notes.error(str(error))
        return None
    if not isinstance(spec, Spec):
        return None
    length = keys.integer("context_length")
    return Layer(notes.layer, spec=spec, length=length, sources=tuple(notes.sources))


def _dim(file: HeaderFile, local: bool, notes: Notes) -> int | None:
    keys, rule = file.keys, file.rule
    options = ["rope.dimension_count", "attention.key_length"]
    if local:
        options = ["rope.dimension_count_swa", *options]
    found = keys.first(rule.get("width", options))
    if found is not None:
        notes.source("dim", "config", keys.where(found[0]))
        share = 1 if local else rule.get("share", 1)
        return int(found[1] * share)
    if (head := _head(keys)) is not None:
        notes.source("dim", "config", "embedding_length // attention.head_count")
        return head
    notes.error(
        f"{keys.where('rope.dimension_count')} is missing, and nothing else gives the width"
    )
    return None


def _base(file: HeaderFile, local: bool, notes: Notes) -> float:
    keys, rule = file.keys, file.rule
    if file.base is not None:
        notes.source("base", "caller", "base")
        return float(file.base)
    key, fallback = "rope.freq_base", "rope.freq_base"
    if local and rule["windows"]["base"] != "full":
        key = "rope.freq_base_swa"
        fallback = key if rule["windows"]["base"] == "own" else fallback
    key = key if key in keys else fallback
    value = short_number(keys, key)
    if "fixed" in rule:
        if value not in (None, DEFAULT_BASE):
            notes.warning(f"{keys.where(key)}={value:g}: llama.cpp takes {DEFAULT_BASE:g} here")
        value = DEFAULT_BASE
    if value is None:
        notes.warning(f"{keys.where(key)} is missing: {DEFAULT_BASE:g} is the format's default")
        notes.source("base", "format", keys.where(key))
        return DEFAULT_BASE
    if value <= 0:
        notes.error(f"{keys.where(key)}={value:g} is no base: it must be positive")
    notes.source("base", "config", keys.where(key))
    alpha = short_number(keys, "rope.scaling.alpha") if "alpha" in rule else None
    head = keys.integer("attention.key_length") or _head(keys) if alpha else None
    if alpha and head and head > 2:
        notes.source("base", "config", keys.where("rope.scaling.alpha"))
        return float(value * alpha ** (head / (head - 2)))
    return float(value)


def _head(keys: Keys) -> int | None:
    """The width of a head, where no key states it."""
    width, heads = keys.integer("embedding_length"), keys.get("attention.head_count")
    heads = heads[0] if isinstance(heads, list) and heads else heads
    return width // int(heads) if width and is_number(heads) and heads >= 1 else None


def _sections(
    keys: Keys, rule: Mapping[str, Any], template: dict[str, Any], pairs: int, notes: Notes
) -> None:
    key = "rope.dimension_sections"
    sizes = keys.get(key)
    if "sections" not in rule:
        if isinstance(sizes, list) and any(sizes) and "arrangement" not in template:
            notes.remark(f"{keys.where(key)}={sizes} is not read for text of this architecture")
        return
    if not isinstance(sizes, list) or len(sizes) < 3:
        notes.error(f"{keys.where(key)} is missing")
        return
    if any(sizes[3:]):
        notes.error(f"{keys.where(key)}={sizes} has a fourth axis, which this family has not")
        return
    notes.source("arrangement.sizes", "config", keys.where(key))
    template["arrangement"] = {**template["arrangement"], "sizes": sizes[:3]}
    lost = [
        pair
        for pair in range(pairs if rule["sections"] == "cyclic" else 0)
        if is_number(sizes[pair % 3]) and pair >= 3 * sizes[pair % 3]
    ]
    if lost:
        notes.warning(
            f"{keys.where(key)}={sizes}: llama.cpp gives pairs {', '.join(map(str, lost))} the "
            "fourth position, which is 0 for text; the plan gives them time, as the model was made"
        )
