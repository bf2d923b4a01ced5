"""Which layers of a part share one encoding, and which have none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from posenc.detect.explain.config_view import Keys, is_number
from posenc.detect.explain.non_rotary import applies
from posenc.detect.explain.notes import Notes
from posenc.presets.families import ClassDefaults, stretched

__all__ = ["COUNT_KEYS", "MORE_LAYERS", "WINDOWS", "Layers", "layers_of"]

TYPE_KEYS = ("layer_types", "layers_block_type")
COUNT_KEYS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "decoder_layers", "depth")
SHOWN = 12  # of a pattern
# Layers behind the counted ones, which predict further tokens.
MORE_LAYERS = ("num_nextn_predict_layers", "num_mtp_layers", "mtp_num_hidden_layers")
MOST_LAYERS = 65_536  # a config that says more is no config of a model
LOCAL_BASE_KEYS = ("rope_local_base_freq", "local_rope_theta", "swa_rope_theta")
PATTERN_KEYS = ("sliding_window_pattern", "_sliding_window_pattern")
DICTIONARIES = ("rope_scaling", "rope_parameters")
SHARE = "partial_rotary_factor"
NO_BASES = (*DICTIONARIES, "partial_rotary_factor")
LOCAL, GLOBAL = "sliding_attention", "full_attention"
WINDOWS = (LOCAL, "chunked_attention", "local_attention")
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


# (type, turns, is scaled, own base, keys of its own, attentions inside)
Trait = tuple[
    str, bool, bool, tuple[str, float] | None, tuple[tuple[str, float], ...], tuple[str, ...]
]


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
    of_class: bool = False  # whether the base is the class's, as the config leaves it out
    share: float = 1.0  # of a head, where the parameters state none
    share_scaled: float | None = None  # the same where they ask for a scaling, if it is another
    own_share: tuple[str, float] | None = None  # (key, value) where they have one of their own
    top_share: bool = True  # whether a share at the top of the config is that of these layers
    inner: tuple[str, ...] = ()  # names of the attentions inside, which the row describes


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
    more = keys.first(key for key in MORE_LAYERS if key in keys.data)
    if more is not None and more[1] >= 1:
        told = f"{keys.where(more[0])}={more[1]:g}: layers behind the last one"
        notes.remark(f"{told} predict further tokens, and are in no entry")
    nested = _nested(params, rule, notes)
    types = _types(keys, rule, notes)
    inner = _inner(keys, rule, types, notes)
    traits = _traits(keys, rule, types, inner, notes)
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
    for key in set(params.data) - set(inner) - set(empty) - beside:
        notes.remark(
            f"{params.where(key)} stands beside dictionaries for each type of layer: unused"
        )
    return {key: params.data[key] for key in params.data if key in inner or key in empty}


def _types(keys: Keys, rule: Mapping[str, Any], notes: Notes) -> list[str] | None:
    """The type of each layer."""
    if "types_by" in rule and all(keys.get(key) is None for key in TYPE_KEYS):
        listed = _types_by(keys, rule["types_by"], notes)
        if listed is not None or notes.failed:
            return listed
    for key in TYPE_KEYS:
        listed = keys.get(key)
        if isinstance(listed, list) and listed and all(isinstance(t, str) for t in listed):
            count = _count(keys)
            if 0 < count < len(listed):
                notes.remark(_behind(keys.where(key), listed, count))
                return _with_last(keys, key, list(listed[:count]), rule, notes)
            if count not in (0, len(listed)):
                notes.warning(f"{keys.where(key)} lists {len(listed)} of {count} layers")
            return _with_last(keys, key, list(listed), rule, notes)
        if listed is not None and listed != []:
            notes.error(f"{keys.where(key)} is not a list of names")
    count = _count(keys)
    pattern = keys.first(PATTERN_KEYS)
    known: ClassDefaults | None = rule.get("class")
    unread = known is not None and not set(PATTERN_KEYS) & set(known.layers.get("asks", ()))
    if pattern is not None and known is not None and known.layers and unread:
        notes.warning(
            f"{keys.where(pattern[0])}={pattern[1]:g} is not what makes {TYPE_KEYS[0]} in "
            f"transformers {known.version}, which has a pattern of its own; other code may read it"
        )
        pattern = None
    if pattern is not None and count and pattern[1] >= 1:
        every = int(pattern[1])
        return [GLOBAL if (i + 1) % every == 0 else LOCAL for i in range(count)]
    period = rule.get("full_every")
    if period is not None and count:
        step = keys.integer(period["key"])
        if step:
            return [GLOBAL if i % step == 0 else LOCAL for i in range(count)]
    return _types_of_class(keys, rule, count, notes)


def _with_last(
    keys: Keys, key: str, listed: list[str], rule: Mapping[str, Any], notes: Notes
) -> list[str]:
    """A list of types whose last one the class takes for another, where it does."""
    known: ClassDefaults | None = rule.get("class")
    last = None if known is None else known.layers.get("sets_last")
    if known is None or last in (None, listed[-1]):
        return listed
    notes.warning(
        f"{keys.where(key)}[{len(listed) - 1}]={listed[-1]!r} is not read by the class in "
        f"transformers {known.version}, whose last layer is {last!r}; other code may read it"
    )
    return [*listed[:-1], str(last)]


def _types_by(keys: Keys, by: Mapping[str, Any], notes: Notes) -> list[str] | None:
    """The types by a list that has another word, or a number, for each layer."""
    listed, count = _listed(keys, by["list"]), _count(keys)
    if listed is None:
        return None
    words = [str(value).lower() for value in listed]
    if unknown := next((word for word in words if word not in by["values"]), None):
        known = ", ".join(by["values"])
        notes.error(f"{keys.where(by['list'])} has {unknown!r}, which is none of {known}")
        return None
    count = count or len(words)
    if len(words) < count:
        notes.error(f"{keys.where(by['list'])} has {len(words)} entries for {count} layers")
        return None
    if len(words) > count:
        notes.remark(_behind(keys.where(by["list"]), words, count))
    return [by["values"][word] for word in words[:count]]


def _behind(where: str, listed: list[Any], count: int) -> str:
    return (
        f"{where} has {len(listed)} entries for {count} layers: what is behind the last one is of "
        "layers that predict further tokens, which are in no entry"
    )


def _listed(keys: Keys, path: str) -> list[Any] | None:
    """A list of the config, or of a dictionary in it; letters of a text are such a list."""
    value: Any = keys.get(path.partition(".")[0])
    for key in path.split(".")[1:]:
        value = value.get(key) if isinstance(value, Mapping) else None
    value = list(value) if isinstance(value, str) else value
    return value if isinstance(value, list) and value else None


def _inner(
    keys: Keys, rule: Mapping[str, Any], types: list[str] | None, notes: Notes
) -> list[tuple[str, ...]] | None:
    """The attentions inside each layer; None where the row has none, or layers are not counted."""
    rows = rule.get("attentions", ())
    count = len(types) if types is not None else _count(keys)
    if not rows or not count:
        return None
    found: list[tuple[str, ...]] = [()] * count
    for row in rows:
        for key in (*row["head"], *row["heads"]):
            keys.get(key)  # it means nothing where no layer has that attention
        if not applies(keys, row):
            continue
        kinds, has = row.get("types"), _having(keys, row.get("layers"), count, notes)
        for index in range(count):
            if has[index] and (kinds is None or (types is not None and types[index] in kinds)):
                found[index] += (row["name"],)
    return found


def _having(keys: Keys, rule: Mapping[str, Any] | None, count: int, notes: Notes) -> list[bool]:
    """The layers that a list names by a word, or a pattern does, or every few of them."""
    if rule is None:
        return [True] * count
    for key in rule["lists"]:
        listed = _listed(keys, key)
        if listed is None:
            continue
        if len(listed) < count:
            notes.error(f"{keys.where(key)} has {len(listed)} entries for {count} layers")
            return [True] * count
        return [value in rule["is"] for value in listed[:count]]
    members = _listed(keys, rule["members"]) if "members" in rule else None
    if members is not None:
        return [index in members for index in range(count)]
    every = keys.integer(rule["every"]) if "every" in rule else None
    start = keys.integer(rule["start"]) if "start" in rule else None
    every = max(rule.get("default_every", 1) if every is None else every, 1)
    start = rule.get("default_start", 0) if start is None else start
    start -= rule.get("start_less", 0)
    return [max(index - start, 0) % every == 0 for index in range(count)]


def _types_of_class(
    keys: Keys, rule: Mapping[str, Any], count: int, notes: Notes
) -> list[str] | None:
    """The types that the class gives its layers where the config lists none, if they matter."""
    known: ClassDefaults | None = rule.get("class")
    nope = rule.get("nope", {})
    if known is None or not known.layers:
        return None
    pattern = known.layers["repeat"]
    by_type = "types" in nope and ("needs" not in nope or keys.get(nope["needs"]))
    if pattern and not (known.kinds or by_type or OTHER & set(pattern)):
        return None
    where = keys.where(TYPE_KEYS[0])
    asks = [key for key in known.layers.get("asks", ()) if keys.data.get(key) is not None]
    every: str = known.layers.get("every", "")
    period = keys.integer(every) if every in asks else None
    if asks == [every] and period and period > 0:
        pattern, asks = stretched(pattern, period), []
    if asks or not pattern:
        told = " and ".join(f"{key}={keys.data.get(key)!r}" for key in asks) or "a rule of its own"
        notes.error(
            f"{where} is missing, and layers differ: the class in transformers {known.version} "
            f"makes it from {told}. State {TYPE_KEYS[0]}"
        )
        return None
    if not count:
        if by_type:
            notes.error(
                f"{where} is missing, and so is a number of layers: which ones turn is open"
            )
        return None
    first, last = known.layers.get("first", []), known.layers.get("last")
    backwards = known.layers.get("from_last", False)
    told = f"{where} is left out: layers are {' '.join(pattern[:SHOWN])}, repeated"
    told += f" behind {' '.join(first)}" if first else ""
    told += " from the last one" if backwards else ""
    told += f", and the last one {last}" if last else ""
    notes.remark(f"{told}, as the class in transformers {known.version} makes them")
    types = [*first, *(pattern[i % len(pattern)] for i in range(count))][:count]
    types = types[::-1] if backwards else types
    return [*types[:-1], last] if last else types


def _count(keys: Keys) -> int:
    """The number of layers; 0 where it is not stated."""
    for key in COUNT_KEYS:
        value = keys.integer(key)
        if value and value > 0:
            return value
    return 0


def _traits(
    keys: Keys,
    rule: Mapping[str, Any],
    types: list[str] | None,
    inner: list[tuple[str, ...]] | None,
    notes: Notes,
) -> list[Trait] | None:
    """What tells each layer from others; None where nothing does."""
    count = len(types) if types is not None else _count(keys)
    if not count:
        return None
    turns = _turning(keys, rule, types, count, notes)
    bases = _bases(keys, count, notes)
    scaled = _scaled(keys, rule, types, count)
    own = _overrides(keys)
    shares = _each(keys, tuple(rule.get("share_lists", ())), count, notes)
    alike = inner is None or len(set(inner)) == 1
    lists = (types, turns, bases, scaled, shares)
    if all(listed is None for listed in lists) and alike and not own:
        return None
    known: ClassDefaults | None = rule.get("class")
    told = known is not None and known.kinds is not None  # which key is whose is known then
    local = None if types is None or bases or told else keys.first(LOCAL_BASE_KEYS)
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
        inside = () if inner is None else inner[index]
        single = own.get(index, ())
        if shares is not None and shares[1][index] is not None:
            single = (*single, (SHARE, float(shares[1][index] or 0)))
        traits.append((kind, does, has_scaling, base, single, inside))
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
    if "indices" in nope:
        still = keys.get(nope["indices"])
        return None if not isinstance(still, list) else [i not in still for i in range(count)]
    if "each" in nope:
        return _attending(keys, nope, count, notes)
    listed = keys.get(nope["list"])
    if isinstance(listed, list) and len(listed) >= count:
        return [bool(value) for value in listed[:count]]
    if isinstance(listed, list) and listed:
        notes.error(f"{keys.where(nope['list'])} has {len(listed)} entries for {count} layers")
        return None
    every = keys.integer(nope["interval"])
    if every is None and "every" in nope:
        every = nope["every"]
        told = f"{keys.where(nope['list'])} is left out: one layer in {every} does not turn"
        notes.remark(f"{told}, as the class in transformers makes them")
    if every is None:
        told = f"{keys.where(nope['list'])} and {nope['interval']} are missing"
        notes.error(f"{told}: they say which layers turn, and some do not")
    return None if not every else [(index + 1) % every != 0 for index in range(count)]


def _attending(keys: Keys, rule: Mapping[str, Any], count: int, notes: Notes) -> list[bool] | None:
    """The layers whose dictionary in a list does not say that they have no attention."""
    blocks = keys.get(rule["each"])
    listed = (
        [block for block in blocks if isinstance(block, Mapping)]
        if isinstance(blocks, list)
        else []
    )
    inner = [block[rule["of"]] for block in listed if isinstance(block.get(rule["of"]), Mapping)]
    if len(inner) != count:
        notes.error(f"{keys.where(rule['each'])} is not a list of {count} dictionaries of layers")
        return None
    return [not any(values.get(key) for key in rule["if"]) for values in inner]


def _bases(keys: Keys, count: int, notes: Notes) -> list[tuple[str, float]] | None:
    """A base for each layer; 0 or null for one that does not turn."""
    found = _each(keys, ("layer_rope_theta", "rope_theta"), count, notes)
    return None if found is None else [(found[0], float(value or 0)) for value in found[1]]


def _each(
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
            if len(listed) > count:
                notes.remark(_behind(where, listed, count))
            return where, listed[:count]
    return None


def _scaled(
    keys: Keys, rule: Mapping[str, Any], types: list[str] | None, count: int
) -> list[bool] | None:
    """Whether the scaling reaches each layer, where it does not reach all."""
    by_type = rule.get("scaled_types")
    if by_type is not None and types is not None:
        listed = keys.get(by_type["key"])
        reached = listed if isinstance(listed, list) else by_type["absent"]
        return [kind in reached for kind in types]
    key = rule.get("scaled_layers")
    listed = None if key is None else keys.get(key)
    if not isinstance(listed, list):
        return None
    return [index in listed for index in range(count)]


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
        return _with_class(keys, own, rule, label, notes)
    if kind in OTHER:
        return Layers(kind, None, params, turns=False)
    if nested is not None:
        notes.error(f"{params.path} has no entry for layers of type {kind!r}: {sorted(nested)}")
        return None
    known: ClassDefaults | None = rule.get("class")
    if known is not None and known.kinds is not None and label in known.kinds:
        return _flat(keys, params, rule, label, kind=kind, notes=notes)
    if known is None:
        asked = params.data.get("rope_type", params.data.get("type", "default"))
        if kind in WINDOWS and asked != "default":
            notes.warning(
                f"{params.path}: partly, because layers differ, and whether the scaling reaches "
                f"those of type {kind!r} is not known of this family; the plan scales them"
            )
        return Layers(kind, None, Keys(params.data, params.path))
    if params.data:
        group = Layers(kind, None, _added(params, known), share=known.share)
    else:
        share = known.share if known.share_alone is None else known.share_alone
        group = Layers(kind, None, _left_out(params, known.parameters, known, notes), share=share)
    if "rope_theta" not in known.reach or known.base is None:
        return group
    if params.data:
        inside = params.first(("rope_theta", "theta", "base"))
        if inside is not None or keys.number("rope_theta") is None:
            return group
    for key in (key for key, reached in known.reach.items() if reached):
        if (value := keys.number(key)) is not None:
            return group._replace(base=(keys.where(key), value))
    _warn_of_theta(keys, known, kind, known.base, notes)
    return group._replace(base=(_told_base(known, known.base), known.base), of_class=True)


def _told_base(known: ClassDefaults, base: float, label: str = "") -> str:
    label = f"{label}: " if label else ""
    return f"{label}rope_theta={base:.10g}, transformers {known.version}"


def _warn_of_theta(keys: Keys, known: ClassDefaults, kind: str, base: float, notes: Notes) -> None:
    """Say that a base at the top of the config is not what the class takes."""
    local = keys.first(LOCAL_BASE_KEYS) if kind == LOCAL else None
    key, theta = local or ("rope_theta", keys.number("rope_theta"))
    if theta not in (None, base):
        what = f"layers of type {kind!r}" if kind else "any layer"
        notes.warning(
            f"{keys.where(key)}={theta:.10g} does not reach {what} in "
            f"transformers {known.version}, which takes {base:.10g} there; other code may "
            f"use it{'' if local else ' in all layers'}"
        )


def _added(params: Keys, known: ClassDefaults) -> Keys:
    """A flat dictionary with the keys that the class adds to it."""
    rule = params.data.get("rope_type", params.data.get("type"))
    return Keys(params.data, params.path, known.adds.get(rule) if isinstance(rule, str) else None)


def _left_out(
    params: Keys, own: Mapping[str, Any], known: ClassDefaults, notes: Notes, kind: str = ""
) -> Keys:
    """The dictionary that the class takes where the config has none."""
    if not own:
        return params
    where = params.path.removesuffix("scaling").removesuffix("parameters") + "parameters"
    of = f" for layers of type {kind!r}" if kind else ""
    notes.remark(
        f"{where} is left out{of}: {own}, which the class in transformers {known.version} takes "
        "for it"
    )
    return Keys({}, where, own)


def _with_class(
    keys: Keys, group: Layers, rule: Mapping[str, Any], label: str, notes: Notes
) -> Layers:
    """A group of a dictionary for each type, with what its class takes for what is left out."""
    known: ClassDefaults | None = rule.get("class")
    if known is None:
        return group
    own = (known.kinds or {}).get(label)
    if own is None:
        return group._replace(share=known.share)
    group = group._replace(
        share=own.get("share", 1.0),
        share_scaled=own.get("share_scaled"),
        top_share=_has_top_share(rule, label),
    )
    _mark(keys, group, known, label, notes)
    stated = any(group.params.number(key) is not None for key in ("rope_theta", "theta", "base"))
    if stated:
        return group
    group = _with_base(keys, group, rule, label, notes)
    if label in known.must_state_base and group.of_class:
        notes.error(_no_base(group.params, known, own))
    return group


def _has_top_share(rule: Mapping[str, Any], label: str) -> bool:
    """Whether a share at the top of a config is that of a type of layers."""
    known: ClassDefaults = rule["class"]
    return "fraction_keys" in rule or label in known.reach.get(SHARE, ())


def _mark(keys: Keys, group: Layers, known: ClassDefaults, label: str, notes: Notes) -> None:
    """Read the bases at the top of a config beside a dictionary for each type of layer."""
    inner = group.params.first(("rope_theta", "theta", "base"))
    for key, reached in known.reach.items():
        top = keys.number(key) if label in reached and key not in NO_BASES else None
        if inner is not None and top not in (None, inner[1]):
            where = group.params.where(inner[0])
            notes.warning(f"{where}={inner[1]:g} is used, not {keys.where(key)}={top:g}")


def _no_base(params: Keys, known: ClassDefaults, own: Mapping[str, Any]) -> str:
    return (
        f"{params.where('rope_theta')} is missing, and what the class in transformers "
        f"{known.version} takes there is not what it takes where the dictionary is left out "
        f"({own['base']:.10g}): state it"
    )


def _with_base(
    keys: Keys, group: Layers, rule: Mapping[str, Any], label: str, notes: Notes
) -> Layers:
    """A group with the base that a key of the config gives to its type, or the class's."""
    known: ClassDefaults = rule["class"]
    own = (known.kinds or {}).get(label) or {}
    named = rule.get("bases", {})
    for key in named.get(label, ()):
        value = keys.number(key)
        if value is None and keys.first(other for row in named.values() for other in row):
            notes.warning(
                f"{keys.where(key)} is left out: {own.get('base'):.10g}, which the class in "
                f"transformers {known.version} takes for layers of type {label!r}"
            )
        if value not in (None, own.get("base")):
            notes.warning(
                f"{keys.where(key)}={value:.10g} is not read by the class in transformers "
                f"{known.version}, which takes {own.get('base'):.10g} for layers of type "
                f"{label!r}; the plan follows the file, as the code of its authors does"
            )
        if value is not None:
            return group._replace(base=(keys.where(key), value))
    for key, reached in known.reach.items():
        value = keys.number(key) if label in reached and key not in NO_BASES else None
        if value is not None:
            return group._replace(base=(keys.where(key), value))
    return group._replace(base=(_told_base(known, own["base"], label), own["base"]), of_class=True)


def _flat(
    keys: Keys, params: Keys, rule: Mapping[str, Any], label: str, *, kind: str, notes: Notes
) -> Layers | None:
    """The layers of a type that has a dictionary of its own in its class, and none in the file."""
    known: ClassDefaults = rule["class"]
    own = (known.kinds or {})[label]
    if own is None:
        return Layers(kind, None, params, turns=False)
    key = DICTIONARIES[0] if params.path.endswith(DICTIONARIES[0]) else DICTIONARIES[1]
    reached = known.reach.get(key, ())
    asked = params.data.get("rope_type", params.data.get("type", "default"))
    if params.data and not reached and (asked != "default" or len(params.data) > 1):
        notes.error(
            f"{params.path} is one dictionary for all layers, which the class in transformers "
            f"{known.version} does not read: it has one for each of {', '.join(known.kinds or ())}"
        )
        return None
    share = own.get("share_alone", own.get("share", 1.0))
    top = _has_top_share(rule, label)
    group = Layers(kind, None, _added(params, known), share=share, top_share=top)
    if label not in reached:
        of_class = _left_out(Keys({}, params.path), own.get("parameters", {}), known, notes, kind)
        group = group._replace(params=of_class, scaled=bool(own.get("parameters")))
        if params.data and asked != "default":
            notes.remark(
                f"{params.path} reaches layers of type {', '.join(reached)} alone, as the class in "
                f"transformers {known.version} reads it"
            )
    stated = group.params.first(("rope_theta", "theta", "base"))
    if stated is not None and label not in known.flat_base_unread:
        return group._replace(base=(group.params.where(stated[0]), stated[1]))
    group = _with_base(keys, group, rule, label, notes)
    if stated is not None and group.base is not None and stated[1] != group.base[1]:
        told = f"{group.params.where(stated[0])}={stated[1]:g} does not reach"
        notes.warning(f"{told} layers of type {kind!r}, whose base is {group.base[0]}")
    if group.params.data and label in known.must_state_flat and group.of_class:
        notes.error(_no_base(params, known, own))
        return None
    bases = {row["base"] for row in (known.kinds or {}).values() if row is not None}
    alone = len(bases) == 1 or not known.reach["rope_theta"]
    if group.of_class and alone and group.base:
        _warn_of_theta(keys, known, kind, group.base[1], notes)
    return group


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
