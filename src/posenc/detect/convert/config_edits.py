"""What a conversion of weights means for the config beside them."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any, Literal

from posenc.detect.explain import TRAINED, to_hf
from posenc.encodings.table.learned import Learned
from posenc.presets import row as preset_row
from posenc.presets.families import family


def changed_config(
    config: Mapping[str, Any] | None,
    *,
    pairing: str | None,
    attention: str = "",
    tables: Mapping[str, tuple[Any, Any]] | None,
    dialect: Literal["hf4", "hf5"] | None,
) -> tuple[dict[str, Any] | None, list[str]]:
    """The new config, None where nothing in it changes; and remarks for people."""
    if config is None:
        return None, []
    changed, remarks = copy.deepcopy(dict(config)), []
    if pairing is not None:
        silent = (
            f"a config of {changed.get('model_type')!r} has no key for the pairing: code that "
            f"reads the result must pair {pairing}; the metadata of the weights record it"
        )
        remarks = _state_pairing(changed, pairing, attention, "") or [silent]
    for source, target in (tables or {}).values():
        if isinstance(source, Learned) and isinstance(target, Learned):
            remarks += _state_length(changed, source, target)
    if dialect is not None:
        translation = to_hf(changed, dialect)
        changed = translation.config
        remarks += [f"lost in the dialect {dialect}: {sentence}" for sentence in translation.lost]
    return (None if changed == dict(config) else changed), remarks


def _state_pairing(data: dict[str, Any], pairing: str, attention: str, path: str) -> list[str]:
    """Set the key of each family that has one for its pairing."""
    notes, row = [], family(data.get("model_type"))
    rules: Any = () if row is None else row.entries
    if attention:
        rules = [r for rule in rules for r in rule.get("attentions", ()) if r["name"] == attention]
    for choice in (rule.get("rotary") for rule in rules):
        for word, name in choice["cases"].items() if isinstance(choice, Mapping) else ():
            value = preset_row(name).spec.get("pairing", "half")
            if pairing == (value["order"] if isinstance(value, Mapping) else value):
                data[choice["match"]] = json.loads(word)
                notes.append(f"{path}{choice['match']} becomes {word}")
    for key, value in data.items():
        if isinstance(value, dict):
            notes += _state_pairing(value, pairing, attention, f"{path}{key}.")
    return notes


def _state_length(data: dict[str, Any], source: Learned, target: Learned) -> list[str]:
    """Change the key that holds the number of rows, or of positions, of a table that grew."""
    before, after = (next(iter(s.parameters().values())).shape[0] for s in (source, target))
    # Some families count reserved rows, some do not: the number in the config tells.
    numbers = {before: after, source.limits[0]: target.limits[0]}
    for key in TRAINED:
        old = data.get(key)
        if isinstance(old, int) and old in numbers and old != numbers[old]:
            data[key] = numbers[old]
            return [f"{key}={old} becomes {numbers[old]}"]
    return []
