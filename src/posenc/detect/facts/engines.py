"""What an engine makes of the rotary parameters of a config, by a table of its own numbers.

The table has one release of each engine, and types of models whose classes were run; of another
release, type or key nothing is known. An engine's reading is the config with the keys that it
reads and the rule that it follows: what `posenc.from_hf` makes of that is what the engine computes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from importlib import metadata
from typing import Any, NamedTuple

from posenc._core.errors import bad_argument, bad_data, refuse_data
from posenc.detect.explain import to_hf
from posenc.presets.families import ClassDefaults, class_defaults, engines
from posenc.presets.row_types_gguf import EngineFamily, EngineRule

ENGINE, DICTIONARY = "engine:", "rope_parameters"
TOGETHER = ("mscale", "mscale_all_dim")  # tried together: engines take one alone otherwise
OUTSIDE = ("mrope_section", "mrope_interleaved", "partial_rotary_factor")  # no part of a rule
RULE = ("rope_type", "type")
PLACES = {"rope_parameters", "rope_scaling", "rope_theta"}
TABLES = {name.lower(): name for name in ("vLLM", "SGLang", "llama.cpp")}


class EngineReading(NamedTuple):
    """What an engine makes of a config."""

    release: str  # the engine and its release
    source: str  # the file and class of it that was run or read
    config: dict[str, Any] | None  # with what is read; None where that is not known
    why: str = ""  # it is not known
    changes: tuple[str, ...] = ()  # what becomes of rules and keys on the way
    window: int | str | None = None  # by how much its windows are longer, or "none"; or not known
    scaled: bool = True  # whether its softmax scale grows with a scaling as ours does


def asked(text: str, caller: str, known: Collection[str]) -> tuple[str, str]:
    """The engine and the path of a config: `NAME=CONFIG`, or `NAME` for one that is elsewhere.

    `NAME@RELEASE` asks for a release; else the installed one is meant, or that of the table.
    """
    called, path = [*re.split("[= ]", text.removeprefix(ENGINE), maxsplit=1), ""][:2]
    engine, named, release = called.partition("@")
    text = f"{ENGINE}{called}{'=' if path else ''}{path}"
    if engine not in known:
        expected = f"engine:NAME or engine:NAME=CONFIG with one of {', '.join(known)}"
        raise bad_argument(caller, expected, repr(text))
    if table := engines().get(TABLES.get(engine, "")):
        check_release(f"{caller}: {text}", engine, table["release"], release)
    elif named:
        raise bad_argument(caller, f"{engine} without a release", repr(text))
    return engine, path


def check_release(caller: str, engine: str, known: str, release: str) -> None:
    """Refuse another release than the table is of: one that is named, or else is installed."""
    installed = next((one.version for one in metadata.distributions(name=engine)), known)
    refuse_data(
        (release or installed) != known,
        caller,
        f"{engine} {known}, of which the table is",
        release or f"{installed}, which is installed",
        f"posenc knows nothing of other releases; engine:{engine}@{known} asks for this one.",
    )


def known_reading(engine: str, config: Mapping[str, Any], caller: str) -> EngineReading:
    """What an engine makes of a config, where that is known."""
    reading = as_read(engine, config)
    if reading.config is None:
        raise bad_data(caller, f"a config of which is known what {engine} makes", reading.why)
    return reading


def release_of(engine: str) -> str:
    """The engine with the release that its table is of."""
    return f"{engine} {engines()[engine]['release']}"


def places(config: Mapping[str, Any]) -> list[str]:
    """Where the rotations of the text may stand: the config itself or a part, as they do now."""
    parts = (k for k, v in config.items() if isinstance(v, dict) and "model_type" in v)
    return sorted(["", *parts], key=lambda path: PLACES.isdisjoint(inner(config, path)))


def inner(config: Mapping[str, Any], path: str) -> dict[str, Any]:
    """The config itself, or a part of it."""
    return {**config[path]} if path else {**config}


def family_of(engine: str, config: Mapping[str, Any]) -> EngineFamily | None:
    """The row of an engine for the type of a config; one without types stands for all."""
    kind, rows = str(config.get("model_type")), engines()[engine]["families"]
    return next((row for row in rows if kind in row["sources"] or not row["sources"]), None)


def as_read(engine: str, config: Mapping[str, Any]) -> EngineReading:
    """What an engine makes of a config of transformers, in either dialect."""
    whole = to_hf(config, "hf5").config
    path = places(whole)[0]
    part = inner(whole, path)
    row, kind = family_of(engine, part), part.get("model_type")
    release = release_of(engine)
    if row is None:
        return EngineReading(
            release, "", None, f"what it makes of models of type {str(kind)[:80]} is not known"
        )
    source = row["sources"].get(str(kind), "its class")
    absent = {key: v for key, v in row.get("absent", {}).items() if key not in part}
    reduced, changes = {}, [f"it takes {v!r} for {key}" for key, v in absent.items()]
    for place, stated in dictionaries(part).items():
        named = f"{place}: " if place else ""
        name = rule_name(stated)
        rule = _rule_of(engine, row, part, place, stated)
        if why := _unknown(rule, name, stated):
            return EngineReading(release, source, None, named + why)
        reduced[place] = {
            k: int(v) if k in rule.get("integers", ()) else v
            for k, v in stated.items()
            if k in rule["reads"]
        } | {"rope_type": rule["follows"]}
        passed = [key for key in stated if key not in (*rule["reads"], *RULE)]
        changes += [f"{named}it passes over {', '.join(passed)}"] if passed else []
        if rule["follows"] != name:
            changes.append(f"{named}it makes {rule['follows']} of {name}")
    read = part | absent | ({DICTIONARY: reduced.get("", reduced)} if part.get(DICTIONARY) else {})
    table = engines()[engine]
    return EngineReading(
        release, source, {**whole, path: read} if path else read, "", tuple(changes),
        table.get("windows", {}).get(str(kind)), kind in table.get("scales", ()),
    )  # fmt: skip


def dictionaries(config: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The rotary parameters of a config or of its class: all, or those of each type of layer."""
    defaults = class_defaults(config.get("model_type")) or ClassDefaults()
    whole = config.get(DICTIONARY) or defaults.kinds or defaults.parameters
    kinds = {name: part for name, part in whole.items() if isinstance(part, Mapping)}
    stated = kinds or {"": whole}
    return {
        name: {key: value for key, value in part.items() if value is not None}
        for name, part in stated.items()
    }


def rule_name(stated: Mapping[str, Any]) -> str:
    """The rule of rotary parameters, by either key."""
    return str(next((stated[key] for key in RULE if key in stated), "default"))


def _rule_of(
    engine: str,
    row: EngineFamily,
    config: Mapping[str, Any],
    place: str,
    stated: Mapping[str, Any],
) -> EngineRule:
    """What is known of the rotary parameters that a config states in the layers of a kind."""
    name = rule_name(stated)
    if row.get("as_transformers"):
        defaults = class_defaults(config.get("model_type"))
        reads = defaults.reads.rules.get(name) if defaults and defaults.reads else None
        return {"follows": name, "reads": [*OUTSIDE, *reads], "passes": [*stated]} if reads else {}
    number = row["rules"].get(name)
    rule: EngineRule = {} if number is None else engines()[engine]["rules"][number]
    return rule["kinds"].get(place, {}) if "kinds" in rule else rule


def _unknown(rule: EngineRule, name: str, stated: Mapping[str, Any]) -> str:
    """Why it is not known what an engine makes of rotary parameters; empty where it is."""
    if "stops" in rule:
        return f"it stops at the rule {name!r} ({rule['stops']})"
    if "follows" not in rule:
        return f"what it makes of the rule {name!r} is not known"
    if lacking := [key for key in rule.get("needs", ()) if key not in stated]:
        return f"it makes {rule['follows']!r} of the rule {name!r}, and stops without {lacking[0]}"
    tried = {*rule["reads"], *rule.get("passes", ()), *RULE} - {*rule.get("unlike", ())}
    other = [key for key in stated if key not in tried]
    # It may read a share that stands outside the dictionary.
    other += {"partial_rotary_factor"} & {*stated} - {*rule["reads"]}
    both = [key for key in TOGETHER if stated.get(key)]
    alone = {*TOGETHER} & {*rule["reads"]} and rule["follows"] == "yarn" and len(both) == 1
    if other or alone:
        return f"what it makes of {', '.join(dict.fromkeys(other or both))} is not known"
    return ""


def warnings_of(engine: str, config: Mapping[str, Any]) -> list[str]:
    """Keys of a config that other releases of the engine read otherwise."""
    row, since = family_of(engine, config), engines()[engine].get("since")
    if row is None or since is None or config.get("model_type") in since["except_types"]:
        return []
    read = {
        key
        for place, stated in dictionaries(config).items()
        for key in _rule_of(engine, row, config, place, stated).get("reads", ())
        if key in stated
    }
    keys = [key for key in since["keys"] if key in read]
    return [f"{', '.join(keys)}: {since['text']}."] if keys else []
