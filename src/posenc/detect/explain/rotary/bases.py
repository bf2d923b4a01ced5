"""A number for each layer: the bases of layers, or which of them turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc.detect.explain.config.view import Keys, Notes, is_number
from posenc.detect.explain.spellings import LISTED
from posenc.presets.families import ClassDefaults, ReadRule


def bases_of(
    keys: Keys, rule: ReadRule, count: int, notes: Notes
) -> tuple[list[tuple[str, float]] | None, list[bool] | None]:
    """A base for each layer, 0 or null for one that does not turn; or which layers turn alone."""
    class_: ClassDefaults = rule["class"]
    read = bool(class_.bases) or class_.reads is None
    if not read and keys.data.get(LISTED):
        keys.get(LISTED)
        notes.warning(
            f"{keys.where(LISTED)} is not read by the class in transformers {class_.version}, "
            "which has one base for all layers that turn; other code may read it"
        )
    listed = numbers_of(keys, (*((LISTED,) if read else ()), "rope_theta"), count, notes)
    if listed is None:
        return None, None
    where, values = listed[0], [float(value or 0) for value in listed[1]]
    if where != keys.where(LISTED):
        return [(where, value) for value in values], None
    bases = {"rope_theta": keys.number("rope_theta")} | {
        f"{name}.rope_theta": Keys(inner).number("rope_theta")
        for name in ("rope_parameters", "rope_scaling")
        if isinstance(inner := keys.data.get(name), Mapping)
    }
    others = {key: base for key, base in bases.items() if base and {base} != {*values} - {0.0}}
    differing = " and ".join(f"{keys.where(key)}={base:g}" for key, base in others.items())
    if class_.bases == "switch":
        if differing or not (any(bases.values()) or {*values} <= {0.0, class_.base}):
            notes.warning(
                f"{where} says which layers turn: the numbers in it are not read as bases by the "
                f"class in transformers {class_.version}; other code may"
            )
        return None, [value != 0 for value in values]
    if differing and not class_.version:
        notes.error(
            f"{differing} and {where} differ, and the family is not known: in some the list is the "
            "base of each layer, in others it says which layers turn. Keep one of them"
        )
    elif differing:
        notes.warning(f"{where} is used, not {differing}")
    return [(where, value) for value in values], None


def numbers_of(
    keys: Keys, names: tuple[str, ...], count: int, notes: Notes
) -> tuple[str, list[float | None]] | None:
    """The first of some keys that has a number for each layer, and its numbers."""
    for name in names:
        listed, where = keys.data.get(name, keys.defaults.get(name)), keys.where(name)
        if not isinstance(listed, list) or not listed:
            continue
        keys.get(name)
        if len(listed) < count:
            notes.error(f"{where} has {len(listed)} entries for {count} layers")
        elif not all(value is None or is_number(value) for value in listed):
            notes.error(f"{where} is not a list of numbers")
        else:
            return where, counted(where, listed, count, notes)
    return None


def counted(where: str, listed: list[Any], count: int, notes: Notes) -> list[Any]:
    """A list without what is longer than there are layers, and a note of it."""
    if len(listed) > count:
        notes.remark(
            f"{where} has {len(listed)} entries for {count} layers: what is behind the last one is "
            "of layers that predict further tokens, which are in no entry"
        )
    return listed[:count]
