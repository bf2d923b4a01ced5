"""Of what type each layer of a part is, and what tells it from the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc._core.annotations import show
from posenc.detect.explain.config.view import (
    COUNT_KEYS,
    GLOBAL,
    LISTED,
    LOCAL,
    LOCAL_BASES,
    OTHER,
    PATTERN_KEYS,
    SHARE,
    TYPE_KEYS,
    Keys,
    Notes,
    UnsettledError,
    noted,
    unsettled_if,
)
from posenc.detect.explain.layers.non_rotary import MOST_LAYERS, applies
from posenc.detect.explain.rotary.class_groups import bases_of, counted, numbers_of
from posenc.presets.families import ClassDefaults, ReadRule, stretched
from posenc.presets.row_types import ByLayer, InnerLayers, NoRope

SHOWN = 12  # of a pattern
# (type, turns, is scaled, own base, keys of its own, attentions inside)
Trait = tuple[
    str, bool, bool, tuple[str, float] | None, tuple[tuple[str, float], ...], tuple[str, ...]
]


def types_of(keys: Keys, rule: ReadRule, notes: Notes) -> list[str] | None:
    """The type of each layer."""
    if (
        "layer_types_from" in rule
        and all(keys.get(key) is None for key in TYPE_KEYS)
        and ((by := _types_by(keys, rule["layer_types_from"], notes)) is not None or notes.failed)
    ):
        return by
    for key in TYPE_KEYS:
        listed = keys.get(key)
        if isinstance(listed, list) and listed and all(isinstance(t, str) for t in listed):
            if (count := layer_count(keys)) > len(listed):
                notes.warning(f"{keys.where(key)} lists {len(listed)} of {count} layers")
            own = counted(keys.where(key), listed, count or len(listed), notes)
            return _with_last(keys, key, list(own), rule, notes)
        if listed is not None and listed != []:
            notes.error(f"{keys.where(key)} is not a list of names")
    count = layer_count(keys)
    pattern = keys.first(PATTERN_KEYS)
    known: ClassDefaults = rule["class"]
    if (
        pattern is not None
        and known.layers
        and pattern[0] not in known.layers.get("depends_on", ())
    ):
        notes.warning(
            f"{keys.where(pattern[0])}={pattern[1]:g} does not make {TYPE_KEYS[0]} in "
            f"transformers {known.version}, whose class has its own pattern; other code may read it"
        )
        pattern = None
    if pattern is not None and count and pattern[1] >= 1:
        return [LOCAL if (i + 1) % int(pattern[1]) else GLOBAL for i in range(count)]
    if count and (step := keys.integer(rule.get("full_attention_every", ""))):
        return [LOCAL if i % step else GLOBAL for i in range(count)]
    return _types_of_class(keys, rule, count, notes)


def _with_last(keys: Keys, key: str, listed: list[str], rule: ReadRule, notes: Notes) -> list[str]:
    """A list of types whose last one the class takes for another, where it does."""
    known: ClassDefaults = rule["class"]
    if (last := known.layers.get("always_last")) in (None, listed[-1]):
        return listed
    notes.warning(
        f"{keys.where(key)}[{len(listed) - 1}]={listed[-1]!r} is not read by the class in "
        f"transformers {known.version}, whose last layer is {last!r}; other code may read it"
    )
    return [*listed[:-1], str(last)]


@noted
def _types_by(keys: Keys, by: ByLayer, notes: Notes) -> list[str] | None:
    """The types by a list that has another word, or a number, for each layer."""
    listed, count = _listed(keys, by["key"]), layer_count(keys)
    if listed is None:
        return None
    words = [str(value).lower() for value in listed]
    if unknown := next((word for word in words if word not in by["cases"]), None):
        raise UnsettledError(
            f"{keys.where(by['key'])} has {unknown!r}, which is none of {', '.join(by['cases'])}"
        )
    count = count or len(words)
    unsettled_if(
        len(words) < count, f"{keys.where(by['key'])} has {len(words)} entries for {count} layers"
    )
    return [by["cases"][word] for word in counted(keys.where(by["key"]), words, count, notes)]


def _listed(keys: Keys, path: str) -> list[Any] | None:
    """A list of the config, or of a dictionary in it; letters of a text are such a list."""
    value: Any = keys.get(path.partition(".")[0])
    for key in path.split(".")[1:]:
        value = value.get(key) if isinstance(value, Mapping) else None
    value = list(value) if isinstance(value, str) else value
    return value if isinstance(value, list) and value else None


def attentions_of(
    keys: Keys, rule: ReadRule, types: list[str] | None, notes: Notes
) -> list[tuple[str, ...]] | None:
    """The attentions inside each layer; None where the row has none, or layers are not counted."""
    rows = rule.get("attentions", ())
    count = len(types) if types is not None else layer_count(keys)
    if not rows or not count:
        return None
    found: list[tuple[str, ...]] = [()] * count
    for row in rows:
        for key in (*row["head_size"], *row["head_count"]):
            keys.get(key)  # it means nothing where no layer has that attention
        if not applies(keys, row):
            continue
        kinds, has = row.get("types"), _having(keys, row.get("layers"), count, notes)
        for index in range(count):
            if has[index] and (kinds is None or (types is not None and types[index] in kinds)):
                found[index] += (row["name"],)
    return found


def _having(keys: Keys, rule: InnerLayers | None, count: int, notes: Notes) -> list[bool]:
    """The layers that a list names by a word, or a pattern does, or every few of them."""
    if rule is None:
        return [True] * count
    for key in rule["flags"]:
        if (listed := _listed(keys, key)) is None:
            continue
        if len(listed) < count:
            notes.error(f"{keys.where(key)} has {len(listed)} entries for {count} layers")
            return [True] * count
        return [value in rule["flagged"] for value in listed[:count]]
    members = _listed(keys, rule["indices"]) if "indices" in rule else None
    if members is not None:
        return [index in members for index in range(count)]
    every = keys.integer(rule["every"]) if "every" in rule else None
    start = keys.integer(rule["start"]) if "start" in rule else None
    step = max(rule.get("default_every", 1) if every is None else every, 1)
    first = (rule.get("default_start", 0) if start is None else start) - rule.get("start_offset", 0)
    return [max(index - first, 0) % step == 0 for index in range(count)]


@noted
def _types_of_class(keys: Keys, rule: ReadRule, count: int, notes: Notes) -> list[str] | None:
    """The types that the class gives its layers where the config lists none, if they matter."""
    known: ClassDefaults = rule["class"]
    nope = rule.get("no_rope", {})
    if not known.layers:
        return None
    pattern = known.layers["pattern"]
    by_type = "types" in nope and ("only_if" not in nope or keys.get(nope["only_if"]))
    still = (OTHER | {*known.layers.get("no_rope", ())}) & set(pattern)
    if pattern and not (known.kinds or by_type or still):
        return None
    where = keys.where(TYPE_KEYS[0])
    asks = [key for key in known.layers.get("depends_on", ()) if keys.data.get(key) is not None]
    every: str = known.layers.get("period", "")
    period = keys.integer(every) if every in asks else None
    if asks == [every] and period and 0 < period <= MOST_LAYERS:
        pattern, asks = stretched(pattern, period), []
    by = " and ".join(f"{key}={keys.data.get(key)!r}" for key in asks) or "a rule of its own"
    unsettled_if(
        asks or not pattern,
        f"{where} is missing, and layers differ: the class in transformers {known.version} "
        f"makes it from {by}. State {TYPE_KEYS[0]}",
    )
    if not count:
        if by_type:
            notes.error(
                f"{where} and the number of layers are missing: it is not known which layers turn"
            )
        elif still and not known.kinds:
            notes.warning(
                f"{where} and the number of layers are missing: read in part, because layers of "
                f"type {' or '.join(sorted(still))} do not turn, and which these are is not known"
            )
        return None
    first, last = known.layers.get("first", []), known.layers.get("last")
    backwards = known.layers.get("reversed", False)
    behind = f" behind {' '.join(first)}" if first else ""
    order = " from the last one" if backwards else ""
    end = f", and the last one {last}" if last else ""
    repeated = f"{' '.join(pattern[:SHOWN])}, repeated{behind}{order}{end}"
    notes.remark(
        f"{where} is left out: layers are {repeated}, as the class in transformers "
        f"{known.version} makes them"
    )
    types = [*first, *(pattern[i % len(pattern)] for i in range(count))][:count]
    types = types[::-1] if backwards else types
    return [*types[:-1], last] if last else types


def layer_count(keys: Keys) -> int:
    """The number of layers; 0 where it is not stated."""
    if count := next((n for key in COUNT_KEYS if (n := keys.integer(key)) and n > 0), 0):
        return count
    if not any(key in keys.data for key in COUNT_KEYS) and {*COUNT_KEYS} & {*keys.sizes}:
        keys.defaults, keys.sizes = {**keys.sizes, **keys.defaults}, {}
        return layer_count(keys)
    return 0


def traits_of(
    keys: Keys,
    rule: ReadRule,
    types: list[str] | None,
    inner: list[tuple[str, ...]] | None,
    notes: Notes,
) -> list[Trait] | None:
    """What tells each layer from others; None where nothing does."""
    count = len(types) if types is not None else layer_count(keys)
    if not count:
        return None
    turns = _turning(keys, rule, types, count, notes)
    bases, switched = bases_of(keys, rule, count, notes)
    if switched is not None:
        turns = [one and other for one, other in zip(turns or switched, switched, strict=True)]
    scaled = _scaled(keys, rule, types, count, notes=notes)
    own = _overrides(keys)
    shares = numbers_of(keys, tuple(rule.get("partial_rotary_factor_lists", ())), count, notes)
    alike = inner is None or len(set(inner)) == 1
    if alike and not own and all(one is None for one in (types, turns, bases, scaled, shares)):
        return None
    by_kind = rule["class"].kinds is not None  # which key is whose is known then
    local = None if types is None or bases or by_kind else keys.first(LOCAL_BASES)
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
        single, share = own.get(index, ()), None if shares is None else shares[1][index]
        single += () if share is None else ((SHARE, float(share)),)
        traits.append((kind, does, has_scaling, base, single, inner[index] if inner else ()))
    return traits


def _overrides(keys: Keys) -> dict[int, tuple[tuple[str, float], ...]]:
    """Widths of heads that a config gives for single layers."""
    listed = keys.get("per_layer_config")
    return {
        int(index): (("head_dim", values["head_dim"]),)
        for index, values in (listed if isinstance(listed, Mapping) else {}).items()
        if isinstance(values, Mapping)
        and str(index).isdigit()
        and isinstance(values.get("head_dim"), int)
    }


@noted
def _turning(
    keys: Keys, rule: ReadRule, types: list[str] | None, count: int, notes: Notes
) -> list[bool] | None:
    """Whether each layer turns, where some do not."""
    nope = rule.get("no_rope")
    known: ClassDefaults = rule["class"]
    by_base = bool(known.version) and isinstance(keys.get(LISTED), list)
    still = () if by_base else known.layers.get("no_rope")
    if still and types is not None:
        notes.remark(
            f"{keys.where(LISTED)} is left out: layers of type {' or '.join(still)} do not turn, "
            f"as the class in transformers {known.version} makes them"
        )
        return [kind not in still for kind in types]
    if nope is None:
        return None
    if "types" in nope:
        needed = nope.get("only_if")
        if types is None or (needed is not None and not keys.get(needed)):
            return None
        return [kind not in nope["types"] for kind in types]
    if "indices" in nope:
        still = _of_layers(keys, nope["indices"], known.sizes)
        return None if still is None else [i not in still for i in range(count)]
    if "blocks" in nope:
        return _attending(keys, nope, count)
    listed = _of_layers(keys, nope["flags"], {})
    if listed is not None and len(listed) >= count:
        return [bool(value) for value in listed[:count]]
    unsettled_if(
        bool(listed),
        f"{keys.where(nope['flags'])} has {len(listed or ())} entries for {count} layers",
    )
    if (every := keys.integer(nope["interval"])) is None and "default_interval" in nope:
        every = nope["default_interval"]
        notes.remark(
            f"{keys.where(nope['flags'])} is left out: one layer in {every} does not turn, as the "
            "class in transformers makes them"
        )
    if every is None:
        notes.error(
            f"{keys.where(nope['flags'])} and {nope['interval']} are missing: they say which "
            "layers turn, and some do not"
        )
    return None if not every else [(index + 1) % every != 0 for index in range(count)]


def _of_layers(keys: Keys, key: str, of_class: Mapping[str, Any]) -> list[Any] | None:
    """A list of layers, or of flags of them; what the class has where it is left out."""
    listed = of_class.get(key) if keys.get(key) is None else keys.get(key)
    unsettled_if(
        listed is not None and not isinstance(listed, list),
        f"{keys.where(key)}={show(listed)} is not a list of layers",
    )
    return listed


def _attending(keys: Keys, rule: NoRope, count: int) -> list[bool]:
    """The layers whose dictionary in a list does not say that they have no attention."""
    blocks = keys.get(rule["blocks"])
    listed = [one for one in blocks if isinstance(one, Mapping)] if isinstance(blocks, list) else []
    inner = [one for b in listed if isinstance(one := b.get(rule["block_part"]), Mapping)]
    unsettled_if(
        len(inner) != count,
        f"{keys.where(rule['blocks'])} is not a list of {count} dictionaries of layers",
    )
    return [not any(values.get(key) for key in rule["block_flags"]) for values in inner]


@noted
def _scaled(
    keys: Keys,
    rule: ReadRule,
    types: list[str] | None,
    count: int,
    *,
    notes: Notes,  # noqa: ARG001
) -> list[bool] | None:
    """Whether the scaling reaches each layer, where it does not reach all."""
    if (by_type := rule.get("scaled_layer_types")) is not None and types is not None:
        listed = keys.get(by_type["key"])
        reached = listed if isinstance(listed, list) else by_type["absent"]
        return [kind in reached for kind in types]
    listed = _of_layers(keys, rule["scaled_layers"], {}) if "scaled_layers" in rule else None
    return None if listed is None else [i in listed for i in range(count)]
