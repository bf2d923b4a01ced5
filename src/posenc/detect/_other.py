"""Entries that do not turn: tables, biases, convolutions, and none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from posenc import presets, registry
from posenc._core.errors import PosencError
from posenc._core.reading import Layer
from posenc._core.spec import Spec
from posenc.detect._keys import Keys
from posenc.detect._notes import Notes

__all__ = ["read_other"]


def read_other(keys: Keys, rule: Mapping[str, Any], name: str, notes: Notes) -> list[Layer]:
    """The entry of a rule that is not rotary; none, with a note, where it cannot be said."""
    label = ".".join(part for part in (name, str(rule.get("name", ""))) if part) or "model"
    own = Notes(label)
    entry = _entry(keys, rule, label, own)
    notes.notes += own.notes
    return [] if entry is None else [entry]


def _entry(keys: Keys, rule: Mapping[str, Any], label: str, notes: Notes) -> Layer | None:
    if "refuse" in rule:
        notes.error(f"{rule['refuse']}")
        return None
    if "none" in rule:
        return Layer(label, sources=tuple(notes.sources))
    if "convolution" in rule:
        return Layer(label, convolution=rule["convolution"])
    if "table" in rule:
        return _table(keys, rule, label, notes)
    return _spec(keys, rule, label, notes)


def _table(keys: Keys, rule: Mapping[str, Any], label: str, notes: Notes) -> Layer | None:
    width = _number(keys, rule["width"])
    if width is None:
        notes.error(f"{keys.path or 'the config'}: {' or '.join(rule['width'])} is missing")
        return None
    try:
        spec = presets.preset(rule["table"], width)
    except PosencError as error:
        notes.error(str(error))
        return None
    notes.source("dim", "config", rule["width"][0])
    notes.source("order", "preset", rule["table"])
    return Layer(label, spec=spec, sources=tuple(notes.sources))


def _spec(keys: Keys, rule: Mapping[str, Any], label: str, notes: Notes) -> Layer | None:
    """A spec whose fields are constants or, as `{"key": NAME}`, keys of the config."""
    template = rule["spec"]
    if template["type"] not in registry.SPECS:
        notes.warning(
            f"{label} has a {template['type']} encoding, which this version cannot express"
        )
        return None
    filled: dict[str, Any] = {}
    for field, value in template.items():
        if not (isinstance(value, Mapping) and set(value) <= {"key", "default", "plus"}):
            filled[field] = value
            continue
        names = value["key"] if isinstance(value["key"], list) else [value["key"]]
        number = _number(keys, names)
        if number is None:
            if "default" not in value:
                notes.error(f"{keys.where(names[0])} is missing")
                return None
            number = value["default"]
            notes.source(field, "preset", names[0])
        else:
            notes.source(field, "config", names[0])
        filled[field] = number + value.get("plus", 0)
    try:
        spec = registry.from_json(json.dumps(filled))
    except PosencError as error:
        notes.error(str(error))
        return None
    if not isinstance(spec, Spec):
        return None
    return Layer(label, spec=spec, sources=tuple(notes.sources))


def _number(keys: Keys, expressions: list[str]) -> int | None:
    for expression in expressions:
        value = keys.evaluate(expression)
        if value is not None:
            return int(value)
    return None
