"""Which layers of a part share one encoding, and which have none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc._core.annotations import show
from posenc._core.grouping import grouped
from posenc._core.reading import Layer
from posenc.detect.explain.config.view import (
    DICTIONARIES,
    GLOBAL,
    LOCAL,
    LOCAL_BASES,
    MORE_LAYERS,
    OTHER,
    SHARE,
    THETA_KEYS,
    TYPE_KEYS,
    Keys,
    Notes,
    noted,
    unsettled_if,
)
from posenc.detect.explain.layers.non_rotary import applies
from posenc.detect.explain.layers.types import attentions_of, layer_count, traits_of, types_of
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
from posenc.presets.families import NO_CLASS, ClassDefaults, ClassWindows, ReadRule, class_windows

MOST_LAYERS = 65_536  # a config that says more is no config of a model
LIMITED = (LOCAL, "chunked_attention", "local_attention")  # types that see no whole sequence


@noted
def layers_of(keys: Keys, params: Keys, rule: ReadRule, notes: Notes) -> list[Layers]:
    """The groups of layers, in the order of their first layer."""
    unsettled_if(
        layer_count(keys) > MOST_LAYERS,
        f"{layer_count(keys)} layers are more than any model has ({MOST_LAYERS:,} at most)",
    )
    more = keys.first(key for key in MORE_LAYERS if key in keys.data)
    if more is not None and more[1] >= 1:
        notes.remark(
            f"{keys.where(more[0])}={more[1]:g}: layers behind the last one predict further "
            "tokens, and the plan leaves them out"
        )
    nested = _nested(params, rule, notes)
    types = types_of(keys, rule, notes)
    inner = attentions_of(keys, rule, types, notes)
    if (traits := traits_of(keys, rule, types, inner, notes)) is None:
        rows = (row for row in rule.get("attentions", ()) if "types" not in row)
        inside = inner[0] if inner else tuple(r["name"] for r in rows if applies(keys, r))
        return [
            group._replace(inner=inside) for group in _unordered(keys, params, nested, rule, notes)
        ]
    groups = grouped((trait, index) for index, trait in enumerate(traits))
    made = []
    for key in (key for key, kinds in rule["class"].reach.items() if kinds):
        keys.get(key)  # it says nothing where no layer is of a type that it reaches
    for (kind, turns, scaled, base, overrides, inside), indices in groups.items():
        group = _group(keys, params, nested, rule=rule, kind=kind, notes=notes, turns=turns)
        if group is None:
            continue
        if base is not None and group.turns:
            group = group._replace(base=base, of_class=False)
        for value in (value for key, value in overrides if key == SHARE):
            group = group._replace(
                own_share=(keys.where(rule["partial_rotary_factor_lists"][0]), value)
            )
        group = group._replace(
            indices=tuple(indices), scaled=group.scaled and scaled, kind=kind, inner=inside
        )
        made.append(group._replace(overrides=tuple(pair for pair in overrides if pair[0] != SHARE)))
    return _named(made)


@noted
def _nested(params: Keys, rule: ReadRule, notes: Notes) -> dict[str, Any] | None:
    """The dictionaries of each type of layer, where the parameters are nested."""
    inner = {k: v for k, v in params.data.items() if isinstance(v, Mapping)}
    known: ClassDefaults = rule["class"]
    # Such a class writes rope_scaling over dictionaries of its own, which have a rope_type.
    over = known.kinds and known.reach.get(DICTIONARIES[0]) and not known.reach.get(DICTIONARIES[1])
    unsettled_if(
        over
        and params.path.endswith(DICTIONARIES[0])
        and "rope_type" not in params.data
        and (inner or params.data.get("type", "default") != "default"),
        f"{' and '.join(map(params.where, inner or ['type']))}: not read by the class in "
        f"transformers {known.version}. State {params.where('rope_type')}; dictionaries for each "
        f"type of layer stand in {DICTIONARIES[1]}",
    )
    if not inner:
        return None
    unsettled_if(
        (reads := known.reads) is not None and known.kinds is None,
        f"{' and '.join(map(params.where, inner))}: dictionaries for each type of layer, which "
        f"the class in transformers {known.version} does not read: it reads one for all. State "
        "that one",
    )
    beside = {key[1:] for keys in reads.rules.values() for key in keys} if reads else set()
    empty: dict[str, Any] = {
        k: {} if over else None
        for k, v in params.data.items()
        if v is None and k not in ("factor", "type")
    }
    for key in (key for key in params.data if key not in {*inner, *empty, *beside}):
        notes.remark(
            f"{params.where(key)} is not used: each type of layer has a dictionary of its own"
        )
    return {key: {**inner, **empty}[key] for key in params.data if key in inner or key in empty}


@noted
def _group(
    keys: Keys,
    params: Keys,
    nested: Mapping[str, Any] | None,
    *,
    rule: ReadRule,
    kind: str,
    notes: Notes,
    turns: bool = True,
) -> Layers | None:
    """The layers of one type."""
    label = rule.get("rope_parameters_names", {}).get(kind, kind)
    inner = None if nested is None else nested.get(label)
    if not turns or (inner is None and (kind in OTHER or label in (nested or ()))):
        return Layers(kind, None, params, turns=False)
    if inner is not None:
        own = Layers(kind, None, Keys(inner, params.where(label)), nested=True)
        return with_class(keys, own, rule, label, notes)
    unsettled_if(
        nested is not None,
        f"{params.path} has no entry for layers of type {kind!r}: {sorted(nested or ())}",
    )
    known: ClassDefaults = rule["class"]
    if label in (known.kinds or ()):
        return flat_group(keys, params, rule, label, kind=kind, notes=notes)
    if not known.version:
        asked = params.data.get("rope_type", params.data.get("type", "default"))
        if kind in LIMITED and asked != "default" and "scaled_layer_types" not in rule:
            notes.warning(
                f"{params.path}: read in part, because layers differ, and whether the scaling "
                f"reaches those of type {kind!r} is not known of this family; the plan scales them"
            )
        named = rule.get("base_keys_by_type", {}).get(kind, ())
        bases = ((keys.where(key), n) for key in named if (n := keys.number(key)) is not None)
        added = Keys(params.data, params.path, rule.get("adds", {}).get(str(asked)))
        return Layers(kind, None, added, base=next(bases, None))
    form = "flat" if params.data else ""
    top = has_top_share(rule, "", form)
    if params.data:
        group = Layers(kind, None, with_additions(params, known), share=known.share, top_share=top)
    else:
        share = known.share if known.share_alone is None else known.share_alone
        taken = parameters_left_out(params, known.parameters, known, notes)
        group = Layers(kind, None, taken, share=share, top_share=top)
    if (
        "rope_theta" not in known.reach
        or known.base is None
        or (params.data and (params.first(THETA_KEYS) or keys.number("rope_theta") is None))
    ):
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
    rule: ReadRule,
    notes: Notes,
) -> list[Layers]:
    """Groups whose layers are not listed."""
    listed = rule["class"].kinds if nested is None else nested
    if listed is not None:
        plain: Any = {k: v for k, v in rule.items() if k != "rope_parameters_names"}
        made = [_group(keys, params, nested, rule=plain, kind=kind, notes=notes) for kind in listed]
        if len(made) > 1:
            notes.warning(
                f"{keys.where(TYPE_KEYS[0])} is missing: which layers are {' or '.join(listed)} is "
                "not known"
            )
        return [group._replace(kind=group.name) for group in made if group is not None]
    if (local := keys.first(LOCAL_BASES)) is not None:
        own, base = Keys(params.data, params.path), (keys.where(local[0]), local[1])
        notes.warning(f"{base[0]}={show(local[1])}: which layers turn by it is not known here")
        return [Layers(GLOBAL, None, params), Layers(LOCAL, None, own, scaled=False, base=base)]
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
                others = " or ".join(sorted({n for twin in twins for n in twin.inner}))
                own += [f"with {n}" for n in group.inner] or [f"without {others}"]
            name = ", ".join([*([name] if name else []), *own])
        made.append(group._replace(name=name))
    return made


KEY, SWITCH, START = "sliding_window", "use_sliding_window", "max_window_layers"
Windows = tuple[tuple[int | None, tuple[int, ...] | None], ...]


def with_windows(
    keys: Keys, called: str | None, known: ClassDefaults | None, entries: list[Layer], notes: Notes
) -> list[Layer]:
    """The entries of a part, each with what its layers see, as far as the class is known."""
    row, stated, where = class_windows(called), keys.data.get(KEY), keys.where(KEY)
    told = f"{where}={show(stated)} is in the config"
    if row is None or row.layers == "none":
        if row is None and stated and keys.data.get(SWITCH, True):
            notes.warning(f"{told}; whether the class reads it is not known here")
        elif stated is not None and row is not None:
            notes.remark(f"{told}; the class in transformers {row.version} does not read it")
        return entries
    size = row.size if KEY not in keys.data else stated
    if row.switch is not None and not keys.data.get(SWITCH, row.switch):
        size = None
    if size is not None and (not isinstance(size, int) or isinstance(size, bool) or size < 1):
        notes.warning(f"{where}={repr(size)[:80]} is no number of keys: no window was read")
        return entries
    other = " and ".join(keys.where(key) for key in row.unclear_with if keys.data.get(key))
    if size is not None and other:
        notes.warning(f"{where}={size}: what it means beside {other} is not known here")
        return entries
    types = None if size is None else _types(keys, row, known)
    made = [entry.replace(windows=_windows(entry, size, types, row.layers)) for entry in entries]
    if size is not None and any(_attends(entry) and not entry.windows for entry in made):
        notes.warning(f"{where}={size}: which layers have the window is not known here")
    return made


def _types(keys: Keys, row: ClassWindows, known: ClassDefaults | None) -> list[str] | None:
    """The type of each layer, as the class makes them where the file lists none."""
    listed, count = any(keys.data.get(key) for key in TYPE_KEYS), layer_count(keys)
    if (row.listed if listed and row.listed else row.layers) == "all":
        return [LOCAL] * max(count, 1)
    if not listed and row.start is not None:
        start = keys.integer(START) if START in keys.data else row.start
        return None if start is None else [LOCAL if i >= start else GLOBAL for i in range(count)]
    if not listed and row.type:
        return [row.type] * count
    rule: Any = {"class": known or NO_CLASS, "no_rope": {"types": (LOCAL,)}}
    return types_of(keys, rule, Notes(""))


def type_of(name: str) -> str:
    """The type of layer that an entry is named after."""
    return name.partition(":")[0].rpartition(".")[2].partition(",")[0]


def _attends(entry: Layer) -> bool:
    mixes = entry.kind not in ("table", "convolution") and type_of(entry.layer) not in OTHER
    return mixes and not entry.attention


def _windows(entry: Layer, size: int | None, types: list[str] | None, how: str) -> Windows:
    """What the layers of an entry see; empty where that is not known."""
    if not _attends(entry):
        return ()
    if size is None:
        return ((None, None),)
    own = range(len(types or ())) if entry.indices is None else entry.indices
    if not types or any(index >= len(types) for index in own):
        sizes = {LOCAL: size, GLOBAL: None}
        kind = LOCAL if how == "all" else type_of(entry.layer)
        return ((sizes[kind], None),) if kind in sizes else ()
    if any(types[index] not in (LOCAL, GLOBAL) for index in own):
        return ()
    near = tuple(index for index in own if types[index] == LOCAL)
    far = tuple(index for index in own if types[index] == GLOBAL)
    if not near or not far:
        return ((size if near else None, None),)
    return tuple(sorted(((size, near), (None, far)), key=lambda pair: pair[1]))


def has_window(entry: Layer) -> bool:
    """Whether no layer of an entry sees the whole sequence."""
    every = all(size is not None for size, _ in entry.windows)
    return every if entry.windows else type_of(entry.layer) in LIMITED


def window_words(size: int | None) -> str:
    """What layers see, in words."""
    return "the whole sequence" if size is None else f"keys less than {size:,} positions away"
