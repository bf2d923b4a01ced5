"""What an engine makes of the rotary parameters that are written for it, by a table of its code."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from posenc.presets.families import class_defaults, engines

DICTIONARY = "rope_parameters"
TOGETHER = ("mscale", "mscale_all_dim")  # engines take one alone, transformers takes both or none
OUTSIDE = ("mrope_section", "mrope_interleaved", "partial_rotary_factor")  # no part of a rule


def release_of(engine: str) -> str:
    """The engine with the release whose code the table was read from."""
    return f"{engine} {engines()[engine]['release']}"


def family_of(engine: str, config: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The row of an engine for a config, by a key that decides or by its type; None for neither."""
    kind, rows = config.get("model_type"), engines()[engine]["families"]
    keys = {*config}
    named = (
        row for row in rows if kind in row["model_types"] or keys & {*row.get("config_keys", ())}
    )
    return next(named, next((row for row in rows if not row["model_types"]), None))


def warnings_of(engine: str, config: Mapping[str, Any]) -> list[str]:
    """Keys of a config that other releases of the engine read otherwise."""
    since, row = engines()[engine]["since"], family_of(engine, config) or {}
    parts = _dictionaries(config).values()
    stated = [key for key in since["keys"] if any(key in part for part in parts)]
    return [f"{', '.join(stated)}: {since['text']}."] if stated and "reads" not in row else []


def read_by(engine: str, config: Mapping[str, Any]) -> dict[str, Any] | None:
    """The config with what the engine reads of its rotary parameters; None where that is not known.

    What the engine makes of it is then what the reader of this package makes of the result.
    """
    row = family_of(engine, config)
    reduced = {}
    for place, parameters in _dictionaries(config).items():
        kind, keys = _read(engine, row, config, parameters)
        if row is None or keys is None:
            return None
        whole = row.get("integers", ())
        stay = {key: value for key, value in parameters.items() if key in keys}
        reduced[place] = {key: int(v) if key in whole else v for key, v in stay.items()}
        reduced[place]["rope_type"] = kind
    return {**config, DICTIONARY: reduced.get("", reduced)}


def _read(
    engine: str,
    row: Mapping[str, Any] | None,
    config: Mapping[str, Any],
    parameters: Mapping[str, Any],
) -> tuple[str, Collection[str] | None]:
    """The rule that an engine follows, and the keys that it reads for it; None for no such."""
    kind = parameters.get("rope_type", "default")
    if row is None or row.get("as_transformers"):
        defaults = class_defaults(config.get("model_type"))
        reads = defaults.reads.rules.get(kind) if defaults and defaults.reads else None
        return kind, None if reads is None else {*OUTSIDE, *reads}
    kind = row.get("default_rope_type" if kind == "default" else "rope_type", kind)
    alone = kind == "yarn" and len([key for key in TOGETHER if parameters.get(key)]) == 1
    table = engines()[engine]
    of_rule = row.get("reads", table["reads"].get(kind)) if kind != "default" else OUTSIDE
    return kind, None if of_rule is None or alone else {*table["always_read"], *of_rule}


def _dictionaries(config: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The rotary parameters of a config: its own, or those of each type of layer."""
    whole = config.get(DICTIONARY) or {}
    return {name: part for name, part in whole.items() if isinstance(part, dict)} or {"": whole}
