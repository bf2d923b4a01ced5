"""Which layers of a part share one encoding, and which have none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from posenc.detect.explain.config_view import Keys, is_number
from posenc.detect.explain.notes import Notes

__all__ = ["COUNT_KEYS", "Layers", "layers_of"]

TYPE_KEYS = ("layer_types", "layers_block_type")
COUNT_KEYS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "decoder_layers", "depth")
MOST_LAYERS = 65_536  # a config that says more is no config of a model
LOCAL_BASE_KEYS = ("rope_local_base_freq", "local_rope_theta", "swa_rope_theta")
PATTERN_KEYS = ("sliding_window_pattern", "_sliding_window_pattern")
LOCAL, GLOBAL = "sliding_attention", "full_attention"
# Layers that mix tokens without attention: no queries, no keys, no positions.
OTHER = frozenset(
    {
        "linear_attention",
        "mamba",
        "mamba2",
        "conv",
        "recurrent",
        "moe",
        "mlp",
        "ssm",
        "gated_delta_net",
    }
)


# (type, turns, is scaled, own base, keys of its own)
Trait = tuple[str, bool, bool, tuple[str, float] | None, tuple[tuple[str, float], ...]]


class Layers(NamedTuple):
    """Layers that share one encoding."""

    name: str
    indices: tuple[int, ...] | None
    params: Keys
    turns: bool = True
    scaled: bool = True
    base: tuple[str, float] | None = None  # (key, value) where the layers have a base of their own
    nested: bool = False
    kind: str = ""  # the type as the config spells it
    overrides: tuple[
        tuple[str, float], ...
    ] = ()  # keys that the config sets for these layers alone


def layers_of(keys: Keys, params: Keys, rule: Mapping[str, Any], notes: Notes) -> list[Layers]:
    """The groups of layers, in the order of their first layer.

    Parameters
    ----------
    keys : Keys
        The config of the part.
    params : Keys
        Its rotary parameters, flat or one dictionary for each type of layer.
    rule : mapping
        The row of the family.
    notes : Notes
        Where remarks go.
    """
    if _count(keys) > MOST_LAYERS:
        notes.error(f"{_count(keys)} layers are more than any model has ({MOST_LAYERS} at most)")
        return []
    nested = _nested(params, notes)
    types = _types(keys, rule, notes)
    traits = _traits(keys, rule, types, notes)
    if traits is None:
        return _unordered(keys, params, nested, notes)
    groups: dict[tuple[Any, ...], list[int]] = {}
    for index, trait in enumerate(traits):
        groups.setdefault(trait, []).append(index)
    made = []
    for (kind, turns, scaled, base, overrides), indices in groups.items():
        group = _group(params, nested, rule, kind, notes, turns=turns)
        if group is None:
            continue
        if base is not None and group.turns:
            group = group._replace(base=base)
        both = group.scaled and scaled
        group = group._replace(indices=tuple(indices), scaled=both, kind=kind)
        made.append(group._replace(overrides=overrides))
    return _named(made)


def _nested(params: Keys, notes: Notes) -> dict[str, Any] | None:
    """The dictionaries of each type of layer, where the parameters are nested."""
    inner = {k: v for k, v in params.data.items() if isinstance(v, Mapping)}
    if not inner:
        return None
    empty = {k: None for k, v in params.data.items() if v is None and k not in ("factor", "type")}
    for key in set(params.data) - set(inner) - set(empty):
        notes.remark(
            f"{params.where(key)} stands beside dictionaries for each type of layer: unused"
        )
    return {key: params.data[key] for key in params.data if key in inner or key in empty}


def _types(keys: Keys, rule: Mapping[str, Any], notes: Notes) -> list[str] | None:
    """The type of each layer."""
    for key in TYPE_KEYS:
        listed = keys.get(key)
        if isinstance(listed, list) and listed and all(isinstance(t, str) for t in listed):
            count = _count(keys)
            if count not in (0, len(listed)):
                notes.warning(f"{keys.where(key)} lists {len(listed)} of {count} layers")
            return list(listed)
        if listed is not None and listed != []:
            notes.error(f"{keys.where(key)} is not a list of names")
    count = _count(keys)
    pattern = keys.first(PATTERN_KEYS)
    if pattern is not None and count and pattern[1] >= 1:
        every = int(pattern[1])
        return [GLOBAL if (i + 1) % every == 0 else LOCAL for i in range(count)]
    period = rule.get("full_every")
    if period is not None and count:
        step = keys.integer(period["key"])
        if step:
            return [GLOBAL if i % step == 0 else LOCAL for i in range(count)]
    return None


def _count(keys: Keys) -> int:
    """The number of layers; 0 where it is not stated."""
    for key in COUNT_KEYS:
        value = keys.integer(key)
        if value and value > 0:
            return value
    return 0


def _traits(
    keys: Keys, rule: Mapping[str, Any], types: list[str] | None, notes: Notes
) -> list[Trait] | None:
    """What tells each layer from others; None where nothing does."""
    count = len(types) if types is not None else _count(keys)
    if not count:
        return None
    turns = _turning(keys, rule, types, count, notes)
    bases = _bases(keys, count, notes)
    scaled = _scaled(keys, rule, count)
    own = _overrides(keys)
    if types is None and turns is None and bases is None and scaled is None and not own:
        return None
    local = None if types is None or bases else keys.first(LOCAL_BASE_KEYS)
    traits = []
    for index in range(count):
        kind = types[index] if types else ""
        base = None if bases is None else bases[index]
        does = turns is None or turns[index]
        has_scaling = scaled is None or scaled[index]
        if base is not None and base[1] == 0:
            does, base = False, None
        if local is not None and kind == LOCAL:
            # A base for local layers is their whole rule: they never see a length to extend.
            base, has_scaling = (keys.where(local[0]), local[1]), False
        traits.append((kind, does, has_scaling, base, own.get(index, ())))
    return traits


def _overrides(keys: Keys) -> dict[int, tuple[tuple[str, float], ...]]:
    """Widths of heads that a config gives for single layers."""
    found: dict[int, tuple[tuple[str, float], ...]] = {}
    listed = keys.get("per_layer_config")
    for index, values in (listed if isinstance(listed, Mapping) else {}).items():
        if isinstance(values, Mapping) and str(index).isdigit():
            own = {k: v for k, v in values.items() if k == "head_dim" and isinstance(v, int)}
            if own:
                found[int(index)] = tuple(sorted(own.items()))
    return found


def _turning(
    keys: Keys, rule: Mapping[str, Any], types: list[str] | None, count: int, notes: Notes
) -> list[bool] | None:
    """Whether each layer turns, where some do not."""
    nope = rule.get("nope")
    if nope is None:
        return None
    if "types" in nope:
        needed = nope.get("needs")
        if types is None or (needed is not None and not keys.get(needed)):
            return None
        return [kind not in nope["types"] for kind in types]
    listed = keys.get(nope["list"])
    if isinstance(listed, list) and len(listed) >= count:
        return [bool(value) for value in listed[:count]]
    if isinstance(listed, list) and listed:
        notes.error(f"{keys.where(nope['list'])} has {len(listed)} entries for {count} layers")
        return None
    every = keys.integer(nope["interval"])
    return None if not every else [(index + 1) % every != 0 for index in range(count)]


def _bases(keys: Keys, count: int, notes: Notes) -> list[tuple[str, float]] | None:
    listed = keys.get("layer_rope_theta")
    if not isinstance(listed, list) or not listed:
        return None
    where = keys.where("layer_rope_theta")
    if len(listed) != count:
        notes.error(f"{where} has {len(listed)} entries for {count} layers")
        return None
    if not all(value is None or is_number(value) for value in listed):
        notes.error(f"{where} is not a list of numbers")
        return None
    return [(where, float(value or 0)) for value in listed]


def _scaled(keys: Keys, rule: Mapping[str, Any], count: int) -> list[bool] | None:
    key = rule.get("scaled_layers")
    listed = None if key is None else keys.get(key)
    if not isinstance(listed, list):
        return None
    return [index in listed for index in range(count)]


def _group(
    params: Keys,
    nested: Mapping[str, Any] | None,
    rule: Mapping[str, Any],
    kind: str,
    notes: Notes,
    *,
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
        return Layers(kind, None, Keys(found, params.where(label)), nested=True)
    if kind in OTHER:
        return Layers(kind, None, params, turns=False)
    if nested is not None:
        notes.error(f"{params.path} has no entry for layers of type {kind!r}: {sorted(nested)}")
        return None
    return Layers(kind, None, Keys(params.data, params.path))


def _unordered(
    keys: Keys,
    params: Keys,
    nested: Mapping[str, Any] | None,
    notes: Notes,
) -> list[Layers]:
    """Groups whose layers are not listed."""
    if nested is not None:
        made = [_group(params, nested, {}, kind, notes) for kind in nested]
        return [group._replace(kind=group.name) for group in made if group is not None]
    local = keys.first(LOCAL_BASE_KEYS)
    if local is not None:
        own = Keys(params.data, params.path)
        base = (keys.where(local[0]), local[1])
        return [
            Layers(GLOBAL, None, params),
            Layers(LOCAL, None, own, scaled=False, base=base),
        ]
    return [Layers("", None, params)]


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
            name = ", ".join([*([name] if name else []), *own])
        made.append(group._replace(name=name))
    return made
