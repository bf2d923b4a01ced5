"""Rotary parameters of one part of a config, made into entries of a plan."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from posenc import registry
from posenc._core.annotations import show
from posenc._core.errors import PosencError
from posenc._core.reading import Layer
from posenc._core.spec.spec import Value
from posenc.detect.explain.config.unread_keys import (
    BESIDE,
    Sizes,
    followed,
    inside,
    outside,
    passed_over,
)
from posenc.detect.explain.config.view import (
    ABSOLUTE,
    BASES,
    DICTIONARIES,
    FRACTIONS,
    LISTED,
    LOCAL_BASES,
    ORIGINAL_KEYS,
    TRAINED,
    WIDEST,
    Keys,
    Notes,
    UnsettledError,
    is_length,
    noted,
    unsettled_if,
)
from posenc.detect.explain.layers.groups import layers_of
from posenc.detect.explain.layers.non_rotary import positions_of
from posenc.detect.explain.rotary.class_groups import Layers
from posenc.detect.explain.rotary.fields import (
    Given,
    base_of,
    temperature_of,
    template_of,
    with_sections,
)
from posenc.detect.explain.rotary.scaling_rules import Asked, Lengths, read_scaling, rope_type
from posenc.detect.explain.rotary.widths import even, head_of, width_of
from posenc.encodings.rotary.base import RotarySpec
from posenc.presets import fill
from posenc.presets.families import ReadRule


def has_rotary(keys: Keys) -> bool:
    """Whether a config says anything that only a rotary embedding needs."""
    return any(
        key in keys for key in (*DICTIONARIES, *BASES, LISTED, *LOCAL_BASES, *FRACTIONS, *ABSOLUTE)
    )


def trained_length(keys: Keys) -> tuple[str, int] | None:
    """The key and value of the longest position the model was made for."""
    return next(
        ((keys.where(key), n) for key in TRAINED if (n := keys.integer(key)) and is_length(n)), None
    )


def _rules(params: Mapping[str, Any]) -> set[Any]:
    """The rules that a dictionary names, by either key."""
    return {json.dumps(params[key]) for key in ("type", "rope_type") if key in params}


def parameters(keys: Keys, notes: Notes) -> Keys:
    """The dictionary of rotary parameters, of either dialect; empty where there is none."""
    found = {key: keys.get(key) for key in reversed(DICTIONARIES)}
    for key, value in found.items():
        if value is not None and not isinstance(value, Mapping):
            notes.error(f"{keys.where(key)}={show(value)} is not a dictionary")
    new, old = (v if isinstance(v, Mapping) else None for v in found.values())
    where = keys.where("rope_parameters")
    if new and old:
        for name in sorted(set(new) & set(old)):
            if new[name] != old[name]:
                notes.error(
                    f"{where}.{name}={show(new[name])} and rope_scaling.{name}={show(old[name])} "
                    "contradict each other"
                )
        # transformers 5 takes rope_scaling for the whole of rope_parameters where both are there.
        alone = [
            name
            for name in sorted(set(new) - set(old))
            if not (name in ("type", "rope_type") and _rules(old) == _rules(new))
            and keys.get(name) != new[name]
        ]
        if alone:
            notes.error(
                f"{' and '.join(f'{where}.{name}={show(new[name])}' for name in alone)} and a "
                f"rope_scaling without {', '.join(alone)} contradict each other: "
                "transformers takes rope_scaling alone where both are stated. Keep one of them"
            )
        new = {**old, **new}
        if "rope_type" in new and old.get("type") == new["rope_type"]:
            new.pop("type", None)
    # An empty one is stated: the class fills in no other.
    return (
        Keys(new or {"rope_type": "default"}, where)
        if new or (new is not None and not old)
        else Keys(old or {}, keys.where("rope_scaling"))
    )


def read_rotary(keys: Keys, rule: ReadRule, name: str, given: Given, notes: Notes) -> list[Layer]:
    """The entries of a part whose layers turn queries and keys."""
    keys, rule = outside(keys, rule, notes)
    params = parameters(keys, notes)
    layers = layers_of(keys, params, rule, notes) or []
    if notes.failed:
        return []
    entries = []
    sizes: list[Sizes] = []
    for layer in layers:
        label = ".".join(part for part in (name, layer.name or rule.get("name", "")) if part)
        own = Notes(label or "attention", notes.notes)
        entry = _entry(keys, params, layer, rule, notes=own, given=given, sizes=sizes)
        if entry is not None:
            entries.append(entry)
            outer = {**rule, "partial_because": "", "temperature": None}
            for row in rule.get("attentions", ()):
                if row["name"] in layer.inner:
                    whole = {**outer, **row, "preset": row["rotary"]}
                    own = Notes(entry.layer or "attention", notes.notes)
                    inner = _inside(keys, params, layer, whole, notes=own, given=given)
                    entries += [] if inner is None else [inner]
    passed_over(keys, rule, sizes, notes)
    return entries


@noted
def _inside(
    keys: Keys, params: Keys, layer: Layers, rule: Any, *, notes: Notes, given: Given
) -> Layer | None:
    """An attention inside a layer: it turns where the main one does, by the same angles."""
    name, given = rule["name"], given._replace(pairing=None)
    if rule["partial_because"]:
        notes.warning(f"{name}: read in part, because {rule['partial_because']}")
    head = next(
        (key for key in rule["head_size"] if keys.evaluate(key) is not None), rule["head_size"][0]
    )
    if (wide := keys.evaluate(head)) is None:
        notes.error(f"{keys.where(head)} is missing: how wide a head of the {name} is")
    else:
        notes.source("head", keys.origin(head), head)
    heads = next((key for key in rule["head_count"] if keys.evaluate(key) is not None), None)
    if heads is not None:
        notes.source("heads", keys.origin(heads), heads)
    entry = _entry(keys, params, layer, rule, notes=notes, given=given, sizes=[])
    if wide is None or entry is None:
        return None
    if isinstance(entry.spec, RotarySpec) and entry.spec.dim > wide:
        raise UnsettledError(
            f"{keys.where(head)}={wide:g}: {entry.spec.dim} channels of a head of the {name} turn"
        )
    return entry.replace(attention=name)


@noted
def _entry(
    keys: Keys,
    params: Keys,
    layer: Layers,
    rule: ReadRule,
    *,
    notes: Notes,
    given: Given,
    sizes: list[Sizes],
) -> Layer | None:
    if not layer.turns:
        return Layer(
            notes.layer,
            indices=layer.indices,
            logit_scale=temperature_of(keys, params, rule, "without_rope", notes),
            sources=tuple(notes.sources),
        )
    kind = rope_type(layer.params, notes) if layer.scaled else "default"
    own = layer.params
    if kind is not None:
        own, kind = inside(layer.params, params, kind, rule, notes)
        layer = layer._replace(params=own)
    base = base_of(keys, own, layer, rule, given=given, notes=notes)
    head = head_of(keys, layer, rule, notes)
    width = None if head is None else width_of(keys, layer, head, kind=kind, rule=rule, notes=notes)
    template = template_of(keys, own, rule, given, notes)
    if kind is None or width is None:
        return None
    unsettled_if(
        width > WIDEST,
        f"a rotated width of {width:g} is more than any model has ({WIDEST:,} at most)",
    )
    sizes.append(Sizes(base, head, width))
    passed_over(own, rule, sizes[-1:], notes)
    dim, ladder = even(width, notes)
    if ladder is not None and kind in ("dynamic", "ntk", "proportional"):
        notes.warning(
            f"read in part, because {kind!r} counts with the rotated width, which is {width} in "
            f"the code and {dim} in the plan"
        )
    with_sections(keys, own, rule, template=template, pairs=dim // 2, notes=notes)
    temperature = temperature_of(keys, own, rule, "with_rope", notes)
    lengths = _lengths(keys, rule, kind)
    asked = Asked()
    if layer.scaled:
        try:
            asked = read_scaling(own, kind, lengths, dim // 2, notes)
        except PosencError as error:
            notes.error(f"{own.path}: {error}")
    if notes.failed or base is None:
        return None
    spec = _build(dim, base, ladder, template=template, asked=asked, temperature=temperature)
    return Layer(
        notes.layer,
        spec=spec,
        indices=layer.indices,
        length=lengths.trained,
        positions=positions_of(keys, rule, spec, notes),
        sources=tuple(notes.sources),
    )


def _lengths(keys: Keys, rule: ReadRule, kind: str) -> Lengths:
    """What the config says of lengths beside its rotary parameters, if its class reads it."""
    key, length = trained_length(keys) or (keys.where(TRAINED[0]), None)
    reads, original = followed(rule, kind), ORIGINAL_KEYS[0]
    inner = reads is not None and BESIDE + original not in reads
    return Lengths(length, key, None if inner else keys.integer(original), keys.where(original))


def _build(
    dim: int,
    base: float,
    ladder: Mapping[str, Any] | None,
    *,
    template: dict[str, Any],
    asked: Asked,
    temperature: Value | None,
) -> Any:
    magnitude = dict(template.pop("magnitude", {"type": "RotaryMagnitude"}))
    if asked.attention_factor is not None:
        magnitude["attention_factor"] = asked.attention_factor
    if temperature is not None:
        magnitude["temperature"] = temperature.to_dict()
    if ladder is not None:
        template["ladder"] = {**template.get("ladder", {"type": "Ladder"}), **ladder}
    filled = {**fill(template, {"dim": dim}), "dim": dim, "base": base, "magnitude": magnitude}
    if asked.scaling:
        filled["scaling"] = [value.to_dict() for value in asked.scaling]
    return registry.from_json(json.dumps(filled))
