"""The width that turns: of a head, a share of it, or a number of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc.detect.explain.config.view import WIDEST, Keys, is_number
from posenc.detect.explain.notes import Notes
from posenc.detect.explain.rotary.class_groups import Layers
from posenc.detect.explain.rotary.scaling_rules import FRACTION_KEYS
from posenc.presets.families import ClassDefaults

FRACTIONS = (
    "partial_rotary_factor",
    "rotary_pct",
    "rope_pct",
    "rotary_percent",
    "rotary_percentage",
    "rotary_emb_fraction",
    "rope_percentage",
)
ABSOLUTE = ("rotary_dim", "rotary_ndims", "rope_dim", "rotary_emb_dim")
WIDTHS = (
    "head_dim",
    "kv_channels",
    "hidden_size // num_attention_heads",
    "n_embd // n_head",
    "d_model // n_heads",
    "d_model // num_heads",
    "d_model // num_attention_heads",
    "embed_dim // num_heads",
    "embed_dim // num_attention_heads",
    "hidden_size // num_heads",
    "hidden_size // n_heads",
    "hidden_size // n_head",
    "n_embed // n_head",
    "dim // n_heads",
    "dim // num_heads",
)


def head_of(keys: Keys, layer: Layers, rule: Mapping[str, Any], notes: Notes) -> int | None:
    """The width of what may turn: a head, or the slice of it that a family keeps for rotation."""
    for key, width in layer.overrides:
        notes.source("dim", "config", f"per_layer_config: {key}")
        return int(width)
    expressions = (*rule.get("widths", {}).get(layer.kind, ()), *rule.get("width", WIDTHS))
    for expression in expressions:
        wrong = keys.wrong((expression,))
        if wrong is not None:
            notes.error(f"{wrong} is not a number")
            return None
        value = keys.evaluate(expression)
        if value is not None and value >= 1:
            for other in rule.get("agree", ()):
                wide = keys.evaluate(other)
                if wide is not None and wide != value:
                    notes.error(
                        f"{keys.where(expression)}={value:g} and {other}={wide:g} "
                        f"({keys.origin(other)}) contradict each other: the class turns the one "
                        "with as many angles as the other has"
                    )
                    return None
            notes.source("dim", keys.origin(expression), expression)
            return int(value)
    if keys.sizes and not set(keys.sizes) <= set(keys.defaults):
        keys.defaults = {**keys.sizes, **keys.defaults}
        return head_of(keys, layer, rule, notes)
    stated = " or ".join(expressions[:3])
    notes.error(f"{keys.path or 'the config'}: the width of a head is not stated ({stated})")
    return None


def width_of(
    keys: Keys,
    layer: Layers,
    head: int,
    *,
    kind: str | None,
    rule: Mapping[str, Any],
    notes: Notes,
) -> int | None:
    """The rotated width: the head, times a fraction, or a number of its own."""
    reads, wide = _reads_share(rule, kind), _head_of_class(keys, head, rule)
    if kind == "proportional":
        _unfit(keys, "head_dim", wide, head, rule=rule, notes=notes)
        return head
    params = layer.params
    outside, widths = rule.get("fraction_keys", FRACTIONS), (*ABSOLUTE, *rule.get("absolute", ()))
    inner, outer, absolute = params.first(FRACTION_KEYS), keys.first(outside), keys.first(widths)
    reached = outer is None or layer.top_share or outer[0] != FRACTIONS[0]
    if outer is not None and not (reads and reached):
        alone = keys.without(outside, outside)
        width = width_of(alone, layer, head, kind=kind, rule=rule, notes=notes)
        if width is not None and int(head * outer[1]) != width:
            under = "" if reads else f" under the rule {kind!r}"
            _unread(keys, outer, under, width, rule=rule, notes=notes)
        return width
    if "fraction" in rule:
        fixed, stated = rule["fraction"], inner or outer or ("head_dim", layer.share)
        if fixed != 1:
            notes.source("dim", "preset", f"{fixed} of the head")
        angles = int(wide * (stated[1] if reads else 1))
        _unfit(keys, stated[0], angles, int(head * fixed), rule=rule, notes=notes)
        return int(head * fixed)
    _unfit(keys, "head_dim", wide, head, rule=rule, notes=notes)
    if not reads:
        inner, layer = None, layer._replace(share=1.0, share_scaled=None)
    wrong = params.wrong(FRACTION_KEYS) or keys.wrong((*outside, *widths))
    if wrong is not None:
        notes.error(f"{wrong} is not a number")
        return None
    told: dict[str, int] = {}
    for found in (inner, outer, absolute):
        if found is not None and not 0 <= found[1] <= WIDEST:
            notes.error(f"{found[0]}={found[1]:g} is no width, and no fraction of a head of {head}")
            return None
    if layer.own_share is not None:
        told[layer.own_share[0]] = int(head * layer.own_share[1])
    elif inner is not None:
        told[params.where(inner[0])] = int(head * inner[1])
    elif outer is not None:
        told[keys.where(outer[0])] = int(head * outer[1])
        _follow(keys, outer, layer, head, rule=rule, notes=notes)
    if absolute is not None:
        if absolute[0] in rule.get("absolute", ()) and not told and reads:
            angles = int(head * layer.share)
            _unfit(keys, absolute[0], angles, int(absolute[1]), rule=rule, notes=notes)
        told[keys.where(absolute[0])] = int(absolute[1])
    if inner is not None and outer is not None and inner[1] != outer[1]:
        where = params.where(inner[0])
        notes.warning(f"{where}={inner[1]:g} is used, not {keys.where(outer[0])}={outer[1]:g}")
    if len(set(told.values())) > 1:
        sizes = " and ".join(f"{key} (width {width})" for key, width in told.items())
        notes.error(f"{sizes} contradict each other")
        return None
    if not told and rule.get("must_state_share"):
        where = keys.where("partial_rotary_factor")
        notes.error(f"{where} is missing: it says how much of a head turns, and files differ")
        return None
    if not told:
        return _width_left_out(keys, layer, head, kind=kind, rule=rule, notes=notes)
    key, width = next(iter(told.items()))
    notes.source("dim", keys.origin(key), key)
    if not 1 <= width <= head * rule.get("widest", 1):
        notes.error(f"{key}: a rotated width of {width} does not fit a head of {head}")
        return None
    return width


def _width_left_out(
    keys: Keys,
    layer: Layers,
    head: int,
    *,
    kind: str | None,
    rule: Mapping[str, Any],
    notes: Notes,
) -> int:
    """The rotated width where nothing states it."""
    if "fraction_default" in rule:
        notes.source("dim", "preset", f"{rule['fraction_default']} of the head")
        return int(head * rule["fraction_default"])
    scaled = layer.share_scaled if kind != "default" else None
    share = layer.share if scaled is None else scaled
    if share != 1:
        told_share = f"partial_rotary_factor={share:g}"
        notes.source("share", "class", f"{told_share}, {rule['class'].version}")
        notes.remark(
            f"{keys.where('partial_rotary_factor')} is left out: {share:g} of a head "
            f"turns, which the class in transformers {rule['class'].version} takes for it"
        )
    return int(head * share)


def _unread(
    keys: Keys,
    share: tuple[str, float],
    under: str,
    width: int,
    *,
    rule: Mapping[str, Any],
    notes: Notes,
) -> None:
    notes.warning(
        f"{keys.where(share[0])}={share[1]:g} is not read{under} by the class in transformers "
        f"{rule['class'].version}, which turns {width} channels; other code may read it"
    )


def _head_of_class(keys: Keys, head: int, rule: Mapping[str, Any]) -> int:
    """The width of a head by which the class makes angles, where the row names another."""
    known: ClassDefaults | None = rule.get("class")
    stated = "width" in rule and "head_dim" in keys.data
    if not (stated and known and known.reads and "head_dim" in known.reads.keys):
        return head
    wide = keys.data["head_dim"]
    wide = keys.evaluate("hidden_size // num_attention_heads") if wide is None else wide
    return head if wide is None or not is_number(wide) else int(wide)


def _unfit(
    keys: Keys, key: str, angles: int, width: int, *, rule: Mapping[str, Any], notes: Notes
) -> None:
    """Say of a key that its class makes other angles by it than its attention can take."""
    known: ClassDefaults | None = rule.get("class")
    if known is not None and known.reads is not None and angles != width:
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
    rule: Mapping[str, Any],
    notes: Notes,
) -> None:
    """Say of a share that the row of the family names that its class does not read it."""
    known: ClassDefaults | None = rule.get("class")
    if known is None or known.reads is None or outer[0] in known.reads.keys:
        return
    if int(head * outer[1]) != int(head * layer.share):
        notes.warning(
            f"{keys.where(outer[0])}={outer[1]:g} is not read by the class in transformers "
            f"{known.version}, which takes {layer.share:g}; the plan follows the file, as the code "
            "of its authors does"
        )


def _reads_share(rule: Mapping[str, Any], kind: str | None) -> bool:
    """Whether the class reads a share of the head under a rule; so it is where it was not asked."""
    known: ClassDefaults | None = rule.get("class")
    followed = None if known is None or known.reads is None else known.reads.rules.get(kind or "")
    return followed is None or FRACTION_KEYS[0] in followed


def even(width: int, notes: Notes) -> tuple[int, Mapping[str, Any] | None]:
    """An even width; an odd one is rounded up, as its code does, on the ladder of the odd one."""
    if width % 2 == 0:
        return width, None
    notes.warning(f"the rotated width {width} is odd: {width + 1} channels turn on its ladder")
    return width + 1, {"denominator": "d/2-0.5"}
