"""What the class of a family takes for rotary parameters, and a number for each layer.

Parameters that a config leaves out; and the bases of layers, or which of them turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from posenc.detect.explain.config.view import (
    DICTIONARIES,
    LISTED,
    LOCAL,
    LOCAL_BASES,
    SHARE,
    THETA_KEYS,
    Keys,
    Notes,
    UnsettledError,
    is_number,
    noted,
    unsettled_if,
)
from posenc.presets.families import ClassDefaults, ReadRule

NO_BASES = (*DICTIONARIES, "partial_rotary_factor")


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


def told_base(known: ClassDefaults, base: float, label: str = "") -> str:
    """The base of a class, as a source names it."""
    return f"{label}{': ' * bool(label)}rope_theta={base:.10g}, transformers {known.version}"


def warn_of_theta(keys: Keys, known: ClassDefaults, kind: str, base: float, notes: Notes) -> None:
    """Say that a base at the top of the config is not what the class takes."""
    local = keys.first(LOCAL_BASES) if kind == LOCAL else None
    key, theta = local or ("rope_theta", keys.number("rope_theta"))
    if theta not in (None, base):
        what = f"layers of type {kind!r}" if kind else "any layer"
        notes.warning(
            f"{keys.where(key)}={theta:.10g} does not reach {what} in "
            f"transformers {known.version}, which takes {base:.10g} there; other code may "
            f"use it{'' if local else ' in all layers'}"
        )


def with_additions(params: Keys, known: ClassDefaults) -> Keys:
    """A flat dictionary with the keys that the class adds to it."""
    rule = params.data.get("rope_type", params.data.get("type"))
    return Keys(params.data, params.path, known.adds.get(rule) if isinstance(rule, str) else None)


def parameters_left_out(
    params: Keys, own: Mapping[str, Any], known: ClassDefaults, notes: Notes, kind: str = ""
) -> Keys:
    """The dictionary that the class takes where the config has none."""
    if not own:
        return params
    where = params.path.removesuffix("scaling").removesuffix("parameters") + "parameters"
    of = f" for layers of type {kind!r}" if kind else ""
    notes.remark(
        f"{where} is left out{of}: {own}, the default of the class in transformers {known.version}"
    )
    return Keys({}, where, own)


def with_class(keys: Keys, group: Layers, rule: ReadRule, label: str, notes: Notes) -> Layers:
    """A group of a dictionary for each type, with what its class takes for what is left out."""
    known: ClassDefaults = rule["class"]
    if (own := (known.kinds or {}).get(label)) is None:
        return group._replace(share=known.share)
    group = group._replace(
        share=own.get("share", 1.0),
        share_scaled=own.get("share_scaled"),
        top_share=has_top_share(rule, label, "nested"),
    )
    _mark(keys, group, known, label, notes)
    if any(group.params.number(key) is not None for key in THETA_KEYS):
        return group
    group = _with_base(keys, group, rule, label, "nested", notes)
    if label in known.must_state_base and group.of_class:
        notes.error(_no_base(group.params, known, own))
    return group


def has_top_share(rule: ReadRule, label: str, form: str) -> bool:
    """Whether a share at the top of a config is that of a type of layers."""
    return "partial_rotary_factor_keys" in rule or bool(rule["class"].reaches(SHARE, label, form))


def _mark(keys: Keys, group: Layers, known: ClassDefaults, label: str, notes: Notes) -> None:
    """Read the bases at the top of a config beside a dictionary for each type of layer."""
    inner = group.params.first(THETA_KEYS)
    for key, top in _bases_at_top(keys, known, label, "nested"):
        if inner is not None and top != inner[1]:
            notes.warning(
                f"{group.params.where(inner[0])}={inner[1]:g} is used, not {keys.where(key)}="
                f"{top:g}"
            )


def _bases_at_top(
    keys: Keys, known: ClassDefaults, label: str, form: str
) -> Iterator[tuple[str, float]]:
    """The bases at the top of a config that reach a type of layers."""
    for key in known.reach:
        reached = key not in NO_BASES and known.reaches(key, label, form)
        odd = reached and not isinstance(keys.get(key), list) and keys.wrong((key,))
        unsettled_if(bool(odd), f"{odd} is not a number")
        if reached and (value := keys.number(key)) is not None:
            yield key, value


def _no_base(params: Keys, known: ClassDefaults, own: Mapping[str, Any]) -> str:
    return (
        f"{params.where('rope_theta')} is missing: state it. The class in transformers "
        f"{known.version} takes {own['base']:.10g} only where the whole dictionary is left out"
    )


def _with_base(
    keys: Keys, group: Layers, rule: ReadRule, label: str, form: str, notes: Notes
) -> Layers:
    """A group with the base that a key of the config gives to its type, or the class's."""
    known: ClassDefaults = rule["class"]
    own = (known.kinds or {}).get(label) or {}
    named = rule.get("base_keys_by_type", {})
    for key in named.get(label, ()):
        value = keys.number(key)
        if value is None and keys.first(other for row in named.values() for other in row):
            notes.warning(
                f"{keys.where(key)} is left out: {own.get('base'):.10g}, the default of the class "
                f"in transformers {known.version} for layers of type {label!r}"
            )
        if value not in (None, own.get("base")):
            notes.warning(
                f"{keys.where(key)}={value:.10g} is not read by the class in transformers "
                f"{known.version}, which takes {own.get('base'):.10g} for layers of type "
                f"{label!r}; the plan follows the file, as the code of its authors does"
            )
        if value is not None:
            return group._replace(base=(keys.where(key), value))
    if top := next(_bases_at_top(keys, known, label, form), None):
        return group._replace(base=(keys.where(top[0]), top[1]))
    return group._replace(base=(told_base(known, own["base"], label), own["base"]), of_class=True)


@noted
def flat_group(
    keys: Keys, params: Keys, rule: ReadRule, label: str, *, kind: str, notes: Notes
) -> Layers | None:
    """The layers of a type that has a dictionary of its own in its class, and none in the file."""
    known: ClassDefaults = rule["class"]
    if (own := (known.kinds or {})[label]) is None:
        return Layers(kind, None, params, turns=False)
    key = DICTIONARIES[0] if params.path.endswith(DICTIONARIES[0]) else DICTIONARIES[1]
    reached = known.reach.get(key, ())
    asked = params.data.get("rope_type", params.data.get("type", "default"))
    unsettled_if(
        params.data and not reached and (asked != "default" or len(params.data) > 1),
        f"{params.path} is one dictionary for all layers, which the class in transformers "
        f"{known.version} does not read: it reads one for each of {', '.join(known.kinds or ())}",
    )
    share = own.get("share_alone", own.get("share", 1.0))
    form = "flat" if params.data else ""
    top = has_top_share(rule, label, form)
    group = Layers(kind, None, with_additions(params, known), share=share, top_share=top)
    if label not in reached:
        taken = own.get("parameters", {})
        group = group._replace(
            params=parameters_left_out(Keys({}, params.path), taken, known, notes, kind),
            scaled=bool(taken),
        )
        if params.data and asked != "default":
            notes.remark(
                f"{params.path} reaches layers of type {', '.join(reached)} alone, as the class in "
                f"transformers {known.version} reads it"
            )
    stated = group.params.first(THETA_KEYS)
    if stated is not None and label not in known.flat_base_unread:
        return group._replace(base=(group.params.where(stated[0]), stated[1]))
    group = _with_base(keys, group, rule, label, form, notes)
    if stated is not None and group.base is not None and stated[1] != group.base[1]:
        notes.warning(
            f"{group.params.where(stated[0])}={stated[1]:g} does not reach layers of type "
            f"{kind!r}, whose base is {group.base[0]}"
        )
    if group.params.data and label in known.must_state_flat and group.of_class:
        raise UnsettledError(_no_base(params, known, own))
    bases = {row["base"] for row in (known.kinds or {}).values() if row is not None}
    if group.of_class and (len(bases) == 1 or not known.reach["rope_theta"]) and group.base:
        warn_of_theta(keys, known, kind, group.base[1], notes)
    return group


# --- a number for each layer ----------------------------------------------------------------------


def bases_of(
    keys: Keys, rule: ReadRule, count: int, notes: Notes
) -> tuple[list[tuple[str, float]] | None, list[bool] | None]:
    """A base for each layer, 0 or null for one that does not turn; or which layers turn alone."""
    class_: ClassDefaults = rule["class"]
    read = bool(class_.bases) or class_.reads is None
    if not read and keys.data.get(LISTED):
        keys.get(LISTED)
        notes.warning(
            f"{keys.where(LISTED)} is not read by the class in transformers {class_.version}, "
            "which has one base for all layers that turn; other code may read it"
        )
    listed = numbers_of(keys, (*((LISTED,) if read else ()), "rope_theta"), count, notes)
    if listed is None:
        return None, None
    where, values = listed[0], [float(value or 0) for value in listed[1]]
    if where != keys.where(LISTED):
        return [(where, value) for value in values], None
    bases = {"rope_theta": keys.number("rope_theta")} | {
        f"{name}.rope_theta": Keys(inner).number("rope_theta")
        for name in ("rope_parameters", "rope_scaling")
        if isinstance(inner := keys.data.get(name), Mapping)
    }
    others = {key: base for key, base in bases.items() if base and {base} != {*values} - {0.0}}
    differing = " and ".join(f"{keys.where(key)}={base:g}" for key, base in others.items())
    if class_.bases == "switch":
        if differing or not (any(bases.values()) or {*values} <= {0.0, class_.base}):
            notes.warning(
                f"{where} says which layers turn: the numbers in it are not read as bases by the "
                f"class in transformers {class_.version}; other code may"
            )
        return None, [value != 0 for value in values]
    if differing and not class_.version:
        notes.error(
            f"{differing} and {where} differ, and the family is not known: in some the list is the "
            "base of each layer, in others it says which layers turn. Keep one of them"
        )
    elif differing:
        notes.warning(f"{where} is used, not {differing}")
    return [(where, value) for value in values], None


def numbers_of(
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
            return where, counted(where, listed, count, notes)
    return None


def counted(where: str, listed: list[Any], count: int, notes: Notes) -> list[Any]:
    """A list without what is longer than there are layers, and a note of it."""
    if len(listed) > count:
        notes.remark(
            f"{where} has {len(listed)} entries for {count} layers: those behind the last one are "
            "for layers that predict further tokens, which the plan leaves out"
        )
    return listed[:count]
