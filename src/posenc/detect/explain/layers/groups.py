"""Which layers of a part share one encoding, and which have none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc.detect.explain.config.view import Keys
from posenc.detect.explain.layers.non_rotary import applies
from posenc.detect.explain.layers.types import (
    GLOBAL,
    LOCAL,
    LOCAL_BASE_KEYS,
    OTHER,
    SHARE,
    TYPE_KEYS,
    attentions_of,
    layer_count,
    traits_of,
    types_of,
)
from posenc.detect.explain.notes import Notes
from posenc.detect.explain.rotary.class_groups import (
    NO_BASES,
    Layers,
    flat_group,
    has_top_share,
    parameters_left_out,
    told_base,
    warn_of_theta,
    with_additions,
    with_class,
)
from posenc.presets.families import ClassDefaults

# Layers behind the counted ones, which predict further tokens.
MORE_LAYERS = ("num_nextn_predict_layers", "num_mtp_layers", "mtp_num_hidden_layers")
MOST_LAYERS = 65_536  # a config that says more is no config of a model
LIMITED = (LOCAL, "chunked_attention", "local_attention")  # types that see no whole sequence


def layers_of(keys: Keys, params: Keys, rule: Mapping[str, Any], notes: Notes) -> list[Layers]:
    """The groups of layers, in the order of their first layer."""
    if layer_count(keys) > MOST_LAYERS:
        notes.error(
            f"{layer_count(keys)} layers are more than any model has ({MOST_LAYERS} at most)"
        )
        return []
    more = keys.first(key for key in MORE_LAYERS if key in keys.data)
    if more is not None and more[1] >= 1:
        told = f"{keys.where(more[0])}={more[1]:g}: layers behind the last one"
        notes.remark(f"{told} predict further tokens, and are in no entry")
    nested = _nested(params, rule, notes)
    types = types_of(keys, rule, notes)
    inner = attentions_of(keys, rule, types, notes)
    traits = traits_of(keys, rule, types, inner, notes)
    if traits is None:
        rows = (row for row in rule.get("attentions", ()) if "types" not in row)
        inside = inner[0] if inner else tuple(r["name"] for r in rows if applies(keys, r))
        found = _unordered(keys, params, nested, rule, notes)
        return [group._replace(inner=inside) for group in found]
    groups: dict[tuple[Any, ...], list[int]] = {}
    for index, trait in enumerate(traits):
        groups.setdefault(trait, []).append(index)
    made = []
    known: ClassDefaults | None = rule.get("class")
    for key in () if known is None else (key for key, kinds in known.reach.items() if kinds):
        keys.get(key)  # it says nothing where no layer is of a type that it reaches
    for (kind, turns, scaled, base, overrides, inside), indices in groups.items():
        group = _group(keys, params, nested, rule=rule, kind=kind, notes=notes, turns=turns)
        if group is None:
            continue
        if base is not None and group.turns:
            group = group._replace(base=base, of_class=False)
        if shares := [value for key, value in overrides if key == SHARE]:
            group = group._replace(own_share=(keys.where(rule["share_lists"][0]), shares[0]))
        single = tuple(pair for pair in overrides if pair[0] != SHARE)
        both = group.scaled and scaled
        group = group._replace(indices=tuple(indices), scaled=both, kind=kind)
        made.append(group._replace(overrides=single, inner=inside))
    return _named(made)


def _nested(params: Keys, rule: Mapping[str, Any], notes: Notes) -> dict[str, Any] | None:
    """The dictionaries of each type of layer, where the parameters are nested."""
    inner = {k: v for k, v in params.data.items() if isinstance(v, Mapping)}
    if not inner:
        return None
    known: ClassDefaults | None = rule.get("class")
    reads = None if known is None else known.reads
    if known is not None and reads is not None and known.kinds is None:
        told = " and ".join(params.where(key) for key in inner)
        notes.error(
            f"{told}: dictionaries for each type of layer, which the class in transformers "
            f"{known.version} does not read: it has one for all. State that one"
        )
        return None
    beside = {key[1:] for keys in reads.rules.values() for key in keys} if reads else set()
    empty = {k: None for k, v in params.data.items() if v is None and k not in ("factor", "type")}
    for key in (key for key in params.data if key not in {*inner, *empty, *beside}):
        notes.remark(
            f"{params.where(key)} stands beside dictionaries for each type of layer: unused"
        )
    return {key: params.data[key] for key in params.data if key in inner or key in empty}


def _group(
    keys: Keys,
    params: Keys,
    nested: Mapping[str, Any] | None,
    *,
    rule: Mapping[str, Any],
    kind: str,
    notes: Notes,
    turns: bool = True,
) -> Layers | None:
    """The layers of one type."""
    label = rule.get("labels", {}).get(kind, kind)
    if not turns:
        return Layers(kind, None, params, turns=False)
    if nested is not None and label in nested:
        found = nested[label]
        if found is None:
            return Layers(kind, None, params, turns=False)
        own = Layers(kind, None, Keys(found, params.where(label)), nested=True)
        return with_class(keys, own, rule, label, notes)
    if kind in OTHER:
        return Layers(kind, None, params, turns=False)
    if nested is not None:
        notes.error(f"{params.path} has no entry for layers of type {kind!r}: {sorted(nested)}")
        return None
    known: ClassDefaults | None = rule.get("class")
    if known is not None and known.kinds is not None and label in known.kinds:
        return flat_group(keys, params, rule, label, kind=kind, notes=notes)
    if known is None:
        asked = params.data.get("rope_type", params.data.get("type", "default"))
        if kind in LIMITED and asked != "default":
            notes.warning(
                f"{params.path}: partly, because layers differ, and whether the scaling reaches "
                f"those of type {kind!r} is not known of this family; the plan scales them"
            )
        return Layers(kind, None, Keys(params.data, params.path))
    form = "flat" if params.data else ""
    top = has_top_share(rule, "", form)
    if params.data:
        group = Layers(kind, None, with_additions(params, known), share=known.share, top_share=top)
    else:
        share = known.share if known.share_alone is None else known.share_alone
        taken = parameters_left_out(params, known.parameters, known, notes)
        group = Layers(kind, None, taken, share=share, top_share=top)
    if "rope_theta" not in known.reach or known.base is None:
        return group
    if params.data:
        inside = params.first(("rope_theta", "theta", "base"))
        if inside is not None or keys.number("rope_theta") is None:
            return group
    for key in known.reach:
        value = None if key in NO_BASES else keys.number(key)
        if value is not None and known.reaches(key, "", form):
            return group._replace(base=(keys.where(key), value))
    warn_of_theta(keys, known, kind, known.base, notes)
    return group._replace(base=(told_base(known, known.base), known.base), of_class=True)


def _unordered(
    keys: Keys,
    params: Keys,
    nested: Mapping[str, Any] | None,
    rule: Mapping[str, Any],
    notes: Notes,
) -> list[Layers]:
    """Groups whose layers are not listed."""
    known: ClassDefaults | None = rule.get("class")
    listed = nested if nested is not None else None if known is None else known.kinds
    if listed is not None:
        plain = {k: v for k, v in rule.items() if k != "labels"}
        made = [_group(keys, params, nested, rule=plain, kind=kind, notes=notes) for kind in listed]
        if len(made) > 1:
            where = keys.where(TYPE_KEYS[0])
            notes.warning(
                f"{where} is missing: which layers are {' or '.join(listed)} is not known"
            )
        return [group._replace(kind=group.name) for group in made if group is not None]
    local = keys.first(LOCAL_BASE_KEYS)
    if local is not None:
        own = Keys(params.data, params.path)
        base = (keys.where(local[0]), local[1])
        return [
            Layers(GLOBAL, None, params),
            Layers(LOCAL, None, own, scaled=False, base=base),
        ]
    return [group] if (group := _group(keys, params, None, rule=rule, kind="", notes=notes)) else []


def _named(groups: list[Layers]) -> list[Layers]:
    """Names that tell groups of one type apart."""
    made = []
    for group in groups:
        name = group.name
        twins = [other for other in groups if other.name == name]
        if len(twins) > 1 or not name:
            own = []
            if not group.turns:
                own.append("without positions")
            elif group.base is not None and len({t.base for t in twins if t.turns}) > 1:
                own.append(f"base {group.base[1]:g}")
            if group.turns and len({t.scaled for t in twins if t.turns}) > 1:
                own.append("scaled" if group.scaled else "unscaled")
            if len({t.inner for t in twins if t.turns == group.turns}) > 1:
                name = name or "attention"
                own += [f"with {n}" for n in group.inner] or [
                    "without " + " or ".join(sorted({n for twin in twins for n in twin.inner}))
                ]
            name = ", ".join([*([name] if name else []), *own])
        made.append(group._replace(name=name))
    return made
