"""The fields of a rotary embedding, each from wherever a config says it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from posenc import registry
from posenc._core.annotations import show
from posenc._core.errors import suggest
from posenc._core.reading import Origin
from posenc._core.spec.spec import Value
from posenc.detect.explain.config.modelling_file import Modelling
from posenc.detect.explain.config.view import (
    BASES,
    LISTED,
    NAMES,
    THETA_KEYS,
    Keys,
    Notes,
    UnsettledError,
    noted,
    unsettled_if,
)
from posenc.detect.explain.rotary.class_groups import Layers
from posenc.presets import row as preset_row
from posenc.presets.families import ClassDefaults, ReadRule


class Given(NamedTuple):
    """What the caller of the reader says himself."""

    pairing: str | None = None
    base: float | None = None
    file: Modelling | None = None  # the code that runs instead of the class


@noted
def base_of(
    keys: Keys, params: Keys, layer: Layers, rule: ReadRule, *, given: Given, notes: Notes
) -> float | None:
    """The base, from wherever it is; an error where it is nowhere or two places disagree."""
    if given.base is not None:
        notes.source("base", "caller", "base")
        return given.base
    found: dict[str, float] = {}
    known: ClassDefaults = rule["class"]
    if layer.of_class:
        notes.source("base", "class", layer.base[0] if layer.base else "")
        return None if layer.base is None else float(layer.base[1])
    if layer.base is not None:
        found = dict([layer.base])
        if layer.base[0] == keys.where(LISTED):
            params.first(THETA_KEYS)  # which the list stands before
    else:
        found |= {params.where(k): n for k in THETA_KEYS if (n := params.number(k)) is not None}
        if not layer.nested or not found:
            found |= {
                keys.where(key): value
                for key in rule.get("base_keys", BASES)
                if (value := keys.evaluate(key)) is not None
            }
    told = " and ".join(f"{key}={value:g}" for key, value in found.items())
    unsettled_if(len(set(found.values())) > 1, f"{told} contradict each other")
    unsettled_if(
        bool(found) and None in (params.data.get(key, 0) for key in THETA_KEYS),
        f"{params.where(THETA_KEYS[0])} is null, beside {told}: state the base once",
    )
    plain = "" if found else " ".join(k for k in rule.get("base_keys", BASES) if "." not in k)
    # A base of one layer stands before the others.
    inner = params.wrong(THETA_KEYS) if layer.base is None else None
    unsettled_if(
        (wrong := inner or keys.wrong(NAMES.findall(plain))) is not None, f"{wrong} is not a number"
    )
    if found:
        key, value = next(iter(found.items()))
        unsettled_if(value <= 0, f"{key}={value:g} is no base: it must be positive")
        notes.source("base", keys.origin(key), key)
        if known.version and key in map(keys.where, rule.get("author_code_keys", ())):
            notes.warning(
                f"{key}={value:g} is read by its authors' code alone: the class in transformers "
                f"{known.version} takes {known.base:g}"
            )
        return float(value)
    if "base" in rule:
        notes.source("base", "preset", "fixed in the code of the family")
        return float(rule["base"])
    base = None if known.kinds else known.base
    if params.data:
        base = None if "" in known.must_state_base else known.base_given or base
    # A null is not left out: the class takes it for the base.
    null = any(key in params.data for key in THETA_KEYS) or any(k in keys.data for k in BASES)
    other = params.misspelled("rope_theta") or keys.misspelled("rope_theta")
    if base is None or null or other is not None:
        todo = "Many models use 10000, many do not: pass base="
        raise UnsettledError(
            f"{keys.where('rope_theta')} is missing: no base is stated, neither there nor in the "
            f"rotary parameters. {todo if other is None else f'Did you mean {other!r}?'}"
        )
    notes.source("base", "class", f"rope_theta={base:.10g}, transformers {known.version}")
    notes.remark(
        f"{keys.where('rope_theta')} is left out: {base:.10g}, the default of the class in "
        f"transformers {known.version}"
    )
    return float(base)


def template_of(
    keys: Keys, params: Keys, rule: ReadRule, given: Given, notes: Notes
) -> dict[str, Any]:
    """The spec without what the config says: pairing, arrangement, other conventions."""
    name = _chosen(keys, params, rule, notes)
    template: dict[str, Any] = {"type": "RoPE"}
    if name is not None:
        # Numbers of a row are examples of its family: the config's count.
        template = _without(preset_row(name).spec, "base", "scaling")
        for field in ("pairing", "arrangement", "ladder", "magnitude"):
            if field in template:
                notes.source(field, "preset", name)
        if template.get("magnitude") is not None:
            template["magnitude"] = _without(
                template["magnitude"], "temperature", "attention_factor"
            )
    if given.pairing is not None:
        _pair(template, given.pairing, "caller", "pairing", notes)
    elif (file := given.file) is not None and file.pairing:
        # The code that runs.
        row = template.get("pairing")
        known = row.get("order") if isinstance(row, Mapping) else row
        if known not in (None, file.pairing):
            notes.warning(
                f"{file.name} pairs channels {file.pairing!r}, the row of the family {known!r}: "
                "the plan follows the file, as auto_map names it"
            )
        if known != file.pairing:
            _pair(template, file.pairing, "file", file.name, notes)
    elif "pairing" not in template:
        notes.error(
            "the pairing of channels is never stated in a config, and the family is not known: "
            'pass pairing="half" (most models) or pairing="interleaved"'
        )
        template["pairing"] = "half"
    return template


def _without(row: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key not in keys}


def _pair(template: dict[str, Any], order: str, origin: Origin, where: str, notes: Notes) -> None:
    """Write another order of channels; which of them turn stays what the row says."""
    row = template.get("pairing")
    template["pairing"] = {**row, "order": order} if isinstance(row, Mapping) else order
    notes.sources = [s for s in notes.sources if s.field != "pairing"]
    notes.source("pairing", origin, where)


def _chosen(keys: Keys, params: Keys, rule: ReadRule, notes: Notes) -> str | None:
    preset = rule.get("preset")
    if not isinstance(preset, Mapping):
        return preset
    value, where = keys.get(preset["match"]), keys.where(preset["match"])
    value = params.get(preset["match"]) if value is None else value
    word = json.dumps(value)
    names: Mapping[str, str] = preset["cases"]
    if value is None and "absent" in preset:
        return str(preset["absent"])
    if word not in names:
        short, listed = word[:80], ", ".join(names)
        notes.error(f"{where}={short} is none of {listed}. {suggest(short, names)}")
        return next(iter(names.values()))
    notes.source("pairing", "config", where)
    return names[word]


@noted
def with_sections(
    keys: Keys,
    params: Keys,
    rule: ReadRule,
    *,
    template: dict[str, Any],
    pairs: int,
    notes: Notes,
) -> None:
    """Sizes of the sections of M-RoPE, from the config or from the row."""
    sections = rule.get("mrope_section")
    arrangement = dict(template.get("arrangement", {}))
    if sections is None:
        key = next((key for key in ("mrope_section", "xdrope_section") if key in params), None)
        if key is not None:
            raise UnsettledError(
                f"{params.where(key)} asks for sections of several axes, and the family that would "
                "say how axes share the ladder is not known"
            )
        return
    for key in ("mrope_interleaved", "interleaved"):
        flag = params.get(key)
        if flag is not None and bool(flag) != (arrangement.get("rule") == "cyclic"):
            notes.error(
                f"{params.where(key)}={flag}, while the family deals {arrangement.get('rule')!r}"
            )
    sizes, first = sections.get("default"), sections["keys"][0]
    places = [(key, one) for key in sections["keys"] for one in (params, keys) if key in one]
    for key, source in places:
        sizes = source.get(key)
        notes.source("arrangement.sizes", "config", source.where(key))
    unsettled_if(sizes is None, f"{params.where(first)} is missing")
    if not places:
        notes.source("arrangement.sizes", "preset", first)
    unsettled_if(
        not (isinstance(sizes, list) and all(type(size) is int and size >= 0 for size in sizes)),
        f"{first}={show(sizes)} is not a list of sizes",
    )
    if arrangement.get("rule") == "cyclic" and sum(sizes) != pairs:
        dealt = _dealt(sizes, pairs)
        notes.warning(
            f"the sections {sizes} add up to {sum(sizes)}, and {pairs} pairs turn: the first axis "
            f"takes what the others leave, which makes {dealt}"
        )
        sizes = dealt
    template["arrangement"] = {**arrangement, "sizes": sizes}


def _dealt(sizes: list[int], pairs: int) -> list[int]:
    """Pairs of each axis when axes take turns up to their sizes, and the first takes the rest."""
    axes = len(sizes)
    counts = [len(range(i, min(axes * size, pairs), axes)) for i, size in enumerate(sizes)]
    return [pairs - sum(counts[1:]), *counts[1:]]


@noted
def temperature_of(
    keys: Keys, params: Keys, rule: ReadRule, where: str, notes: Notes
) -> Value | None:
    """The factor on scores that grows with the position."""
    if (asked := rule.get("temperature")) is None:
        return None
    if asked["layers"] != where or ("only_if" in asked and not keys.get(asked["only_if"])):
        for key in (key for key in asked.values() if isinstance(key, str)):
            params.get(key)  # it is of other layers, or of none
        return None
    values: dict[str, Any] = {"type": "Temperature", "rule": asked["rule"]}
    missing: list[str] = []
    for field in ("length", "strength", "start"):
        if field not in asked:
            continue
        value: Any = asked[field]
        if isinstance(value, str):
            source = params if value in params else keys
            key, value = value, source.number(value)
            if value is None:
                missing.append(key)
            else:
                notes.source(f"temperature.{field}", source.origin(key), source.where(key))
        values[field] = value
    if missing:
        notes.warning(
            f"{' and '.join(map(params.where, missing))} missing: read in part, because the class "
            "multiplies queries by a factor that grows with the position, and has no number "
            "without; the plan has no such factor"
        )
        return None
    whole = {field: int(values[field]) for field in ("length", "start") if field in values}
    return registry.from_json(json.dumps(values | whole))
