"""The width that turns: of a head, a share of it, or a number of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc.detect.explain.config.unread_keys import followed as keys_of_rule
from posenc.detect.explain.config.view import (
    ABSOLUTE,
    FRACTIONS,
    SHARE,
    WIDEST,
    WIDTHS,
    Keys,
    Notes,
    UnsettledError,
    is_number,
    noted,
    unsettled_if,
)
from posenc.detect.explain.rotary.class_groups import Layers
from posenc.presets.families import ClassDefaults, ReadRule


@noted
def head_of(keys: Keys, layer: Layers, rule: ReadRule, notes: Notes) -> int | None:
    """The width of what may turn: a head, or the slice of it that a family keeps for rotation."""
    for key, width in layer.overrides:
        notes.source("dim", "config", f"per_layer_config: {key}")
        return int(width)
    expressions = (
        *rule.get("head_dim_by_type", {}).get(layer.kind, ()),
        *rule.get("head_dim", WIDTHS),
    )
    for expression in expressions:
        if (wrong := keys.wrong((expression,))) is not None:
            raise UnsettledError(f"{wrong} is not a number")
        if (value := keys.evaluate(expression)) is not None and value >= 1:
            for other in rule.get("head_dim_equals", ()):
                if (wide := keys.evaluate(other)) is not None and wide != value:
                    raise UnsettledError(
                        f"{keys.where(expression)}={value:g} and {other}={wide:g} "
                        f"({keys.origin(other)}) contradict each other: the class turns heads of "
                        "the one width by the angles of the other"
                    )
            notes.source("dim", keys.origin(expression), expression)
            return int(value)
    if keys.sizes and not set(keys.sizes) <= set(keys.defaults):
        keys.defaults = {**keys.sizes, **keys.defaults}
        return head_of(keys, layer, rule, notes)
    raise UnsettledError(
        f"{keys.path or 'the config'}: the width of a head is not stated "
        f"({' or '.join(expressions[:3])})"
    )


@noted
def width_of(
    keys: Keys,
    layer: Layers,
    head: int,
    *,
    kind: str | None,
    rule: ReadRule,
    notes: Notes,
) -> int | None:
    """The rotated width: the head, times a fraction, or a number of its own."""
    followed = keys_of_rule(rule, kind or "")
    reads = followed is None or SHARE in followed  # so it is where the class was not asked
    wide = _head_of_class(keys, head, rule)
    if kind == "proportional":
        _unfit(keys, "head_dim", wide, head, rule=rule, notes=notes)
        return head
    params, outside = layer.params, rule.get("partial_rotary_factor_keys", FRACTIONS)
    widths = (*ABSOLUTE, *rule.get("rotary_dim_keys", ()))
    inner, outer, absolute = params.first((SHARE,)), keys.first(outside), keys.first(widths)
    reached = outer is None or layer.top_share or outer[0] != FRACTIONS[0]
    if outer is not None and not (reads and reached):
        alone = keys.without(outside, outside)
        width = width_of(alone, layer, head, kind=kind, rule=rule, notes=notes)
        if width is not None and head * outer[1] // 1 != width:
            notes.warning(
                f"{keys.where(outer[0])}={outer[1]:g} is not read"
                f"{'' if reads else f' under the rule {kind!r}'} by the class in transformers "
                f"{rule['class'].version}, which turns {width} channels; other code may read it"
            )
        return width
    for share in (inner, outer, absolute):
        if share is not None and not 0 <= share[1] <= WIDEST:
            raise UnsettledError(
                f"{share[0]}={share[1]:g} is no width, and no fraction of a head of {head}"
            )
    if "partial_rotary_factor" in rule:
        fixed, stated = rule["partial_rotary_factor"], inner or outer or ("head_dim", layer.share)
        if fixed != 1:
            notes.source("dim", "preset", f"{fixed} of the head")
        angles = int(wide * (stated[1] if reads else 1))
        _unfit(keys, stated[0], angles, int(head * fixed), rule=rule, notes=notes)
        return int(head * fixed)
    _unfit(keys, "head_dim", wide, head, rule=rule, notes=notes)
    if not reads:
        inner, layer = None, layer._replace(share=1.0, share_scaled=None)
    wrong = params.wrong((SHARE,)) or keys.wrong((*outside, *widths))
    unsettled_if(wrong is not None, f"{wrong} is not a number")
    told: dict[str, int] = {}
    if layer.own_share is not None:
        told[layer.own_share[0]] = int(head * layer.own_share[1])
    elif inner is not None:
        told[params.where(inner[0])] = int(head * inner[1])
    elif outer is not None:
        told[keys.where(outer[0])] = int(head * outer[1])
        _follow(keys, outer, layer, head, rule=rule, notes=notes)
    if absolute is not None:
        if absolute[0] in rule.get("rotary_dim_keys", ()) and not told and reads:
            angles, turned = int(head * layer.share), int(absolute[1])
            _unfit(keys, absolute[0], angles, turned, rule=rule, notes=notes)
        told[keys.where(absolute[0])] = int(absolute[1])
    if inner is not None and outer is not None and inner[1] != outer[1]:
        notes.warning(
            f"{params.where(inner[0])}={inner[1]:g} is used, not {keys.where(outer[0])}="
            f"{outer[1]:g}"
        )
    sizes = " and ".join(f"{key} (width {width})" for key, width in told.items())
    unsettled_if(len(set(told.values())) > 1, f"{sizes} contradict each other")
    unsettled_if(
        not told and rule.get("partial_rotary_factor_required"),
        f"{keys.where(SHARE)} is missing: how much of a head turns differs between models",
    )
    if not told:
        return _width_left_out(keys, layer, head, kind=kind, rule=rule, notes=notes)
    key, width = next(iter(told.items()))
    notes.source("dim", keys.origin(key), key)
    unsettled_if(
        not 1 <= width <= head * rule.get("max_partial_rotary_factor", 1),
        f"{key}: a rotated width of {width} does not fit a head of {head}",
    )
    return width


def _width_left_out(
    keys: Keys,
    layer: Layers,
    head: int,
    *,
    kind: str | None,
    rule: ReadRule,
    notes: Notes,
) -> int:
    """The rotated width where nothing states it."""
    scaled = layer.share_scaled if kind != "default" else None
    share = layer.share if scaled is None else scaled
    unsettled_if(
        share != 1 and SHARE in {**layer.params.data, **(keys.data if layer.top_share else {})},
        f"{keys.where(SHARE)} is null: state it. The class in transformers "
        f"{rule['class'].version} takes {share:g} only where the key is left out",
    )
    if share != 1:
        notes.source("share", "class", f"{SHARE}={share:g}, {rule['class'].version}")
        notes.remark(
            f"{keys.where(SHARE)} is left out: {share:g} of a head "
            f"turns, the default of the class in transformers {rule['class'].version}"
        )
    return int(head * share)


def _head_of_class(keys: Keys, head: int, rule: ReadRule) -> int:
    """The width of a head by which the class makes angles, where the row names another."""
    reads = rule["class"].reads
    if not (reads and "head_dim" in reads.keys and "head_dim" in rule and "head_dim" in keys.data):
        return head
    stated = keys.data["head_dim"]
    wide = keys.evaluate("hidden_size // num_attention_heads") if stated is None else stated
    return head if wide is None or not is_number(wide) else int(wide)


def _unfit(keys: Keys, key: str, angles: int, width: int, *, rule: ReadRule, notes: Notes) -> None:
    """Say of a key that its class makes other angles by it than its attention can take."""
    known: ClassDefaults = rule["class"]
    if known.reads is not None and angles != width:
        notes.warning(
            f"{keys.where(key)}: the class in transformers {known.version} makes angles for "
            f"{angles} channels, where its attention turns {width}, and cannot run; the plan turns "
            f"{width}"
        )


def _follow(
    keys: Keys,
    outer: tuple[str, float],
    layer: Layers,
    head: int,
    *,
    rule: ReadRule,
    notes: Notes,
) -> None:
    """Say of a share that the row of the family names that its class does not read it."""
    known: ClassDefaults = rule["class"]
    unread = known.reads is not None and outer[0] not in known.reads.keys
    if unread and int(head * outer[1]) != int(head * layer.share):
        notes.warning(
            f"{keys.where(outer[0])}={outer[1]:g} is not read by the class in transformers "
            f"{known.version}, which takes {layer.share:g}; the plan follows the file, as the code "
            "of its authors does"
        )


def even(width: int, notes: Notes) -> tuple[int, Mapping[str, Any] | None]:
    """An even width; an odd one is rounded up, as its code does, on the ladder of the odd one."""
    if width % 2 == 0:
        return width, None
    notes.warning(f"the rotated width {width} is odd: {width + 1} channels turn on its ladder")
    return width + 1, {"denominator": "d/2-0.5"}
