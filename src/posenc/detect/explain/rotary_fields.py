"""The fields of a rotary embedding, each from wherever a config says it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from posenc import registry
from posenc._core.errors import PosencError, suggest
from posenc._core.spec import Value
from posenc.detect.explain.config_view import WIDEST, Keys, is_number, names_in
from posenc.detect.explain.layer_groups import Layers
from posenc.detect.explain.notes import Notes
from posenc.detect.explain.scaling_rules import FRACTION_KEYS, THETA_KEYS
from posenc.presets.families import ClassDefaults, convention

__all__ = [
    "ABSOLUTE",
    "BASES",
    "FRACTIONS",
    "LOCAL_BASES",
    "Given",
    "base_of",
    "even",
    "head_of",
    "temperature_of",
    "template_of",
    "width_of",
    "with_sections",
]

# How configs spell one quantity. The first that is there counts; two that differ contradict.
BASES = (
    "rope_theta",
    "global_rope_theta",
    "rotary_emb_base",
    "rotary_embedding_base",
    "rotary_base",
    "rope_base",
    "rope_freq_base",
    "theta",
)
LOCAL_BASES = ("rope_local_base_freq", "local_rope_theta", "swa_rope_theta")
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


class Given(NamedTuple):
    """What the caller of the reader says himself."""

    pairing: str | None = None
    base: float | None = None


def base_of(
    keys: Keys, params: Keys, layer: Layers, rule: Mapping[str, Any], *, given: Given, notes: Notes
) -> float | None:
    """The base, from wherever it is; an error where it is nowhere or two places disagree."""
    if given.base is not None:
        notes.source("base", "caller", "base")
        return given.base
    found: dict[str, float] = {}
    if layer.of_class:
        notes.source("base", "class", layer.base[0] if layer.base else "")
        return None if layer.base is None else float(layer.base[1])
    if layer.base is not None:
        found[layer.base[0]] = layer.base[1]
    else:
        for key in THETA_KEYS:
            value = params.number(key)
            if value is not None:
                found[params.where(key)] = value
        if not layer.nested or not found:
            for key in rule.get("base_keys", BASES):
                value = keys.evaluate(key)
                if value is not None:
                    found[keys.where(key)] = value
    if len(set(found.values())) > 1:
        told = " and ".join(f"{key}={value:g}" for key, value in found.items())
        notes.error(f"{told} contradict each other")
        return None
    if found:
        key, value = next(iter(found.items()))
        if value <= 0:
            notes.error(f"{key}={value:g} is no base: it must be positive")
            return None
        notes.source("base", keys.origin(key), key)
        made: ClassDefaults | None = rule.get("class")
        if made is not None and key in map(keys.where, rule.get("of_authors", ())):
            notes.warning(
                f"{key}={value:g} is read by its authors' code alone: the class in transformers "
                f"{made.version} takes {made.base:g}"
            )
        return float(value)
    named = [
        word for key in rule.get("base_keys", BASES) if "." not in key for word in names_in(key)
    ]
    wrong = params.wrong(THETA_KEYS) or keys.wrong(named)
    if wrong is not None:
        notes.error(f"{wrong} is not a number")
        return None
    if "base" in rule:
        notes.source("base", "preset", "fixed in the code of the family")
        return float(rule["base"])
    known: ClassDefaults | None = rule.get("class")
    base = None if known is None or known.kinds else known.base
    if known is not None and params.data:
        base = None if "" in known.must_state_base else known.base_given or base
    # A null is not left out: the class takes it for the base.
    null = any(key in params.data for key in THETA_KEYS) or any(k in keys.data for k in BASES)
    other = params.misspelled("rope_theta") or keys.misspelled("rope_theta")
    if base is None or known is None or null or other is not None:
        todo = "Many models use 10000, many do not: pass base="
        notes.error(
            f"{keys.where('rope_theta')} is missing: no base is stated, neither there nor in the "
            f"rotary parameters. {todo if other is None else f'Did you mean {other!r}?'}"
        )
        return None
    notes.source("base", "class", f"rope_theta={base:.10g}, transformers {known.version}")
    notes.remark(
        f"{keys.where('rope_theta')} is left out: {base:.10g}, which the class in transformers "
        f"{known.version} takes for it"
    )
    return float(base)


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
    return int(wide) if is_number(wide) else head


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


def template_of(
    keys: Keys, params: Keys, rule: Mapping[str, Any], given: Given, notes: Notes
) -> dict[str, Any]:
    """The spec without what the config says: pairing, arrangement, other conventions."""
    name = _chosen(keys, params, rule, notes)
    template: dict[str, Any] = {"type": "RoPE"}
    if name is not None:
        template = dict(convention(name).spec)
        for field in ("pairing", "arrangement", "ladder", "magnitude"):
            if field in template:
                notes.source(field, "preset", name)
        # Numbers of a row are examples of its family: the config's count.
        template.pop("base", None)
        template.pop("scaling", None)
        magnitude = template.get("magnitude")
        if magnitude is not None:
            numbers = ("temperature", "attention_factor")
            template["magnitude"] = {k: v for k, v in magnitude.items() if k not in numbers}
        template.update(rule.get("spec", {}))
    if given.pairing is not None:
        template["pairing"] = given.pairing
        notes.sources = [s for s in notes.sources if s.field != "pairing"]
        notes.source("pairing", "caller", "pairing")
    elif "pairing" not in template:
        notes.error(
            "the pairing of channels is never stated in a config, and the family is not known: "
            'pass pairing="half" (most models) or pairing="interleaved"'
        )
        template["pairing"] = "half"
    return template


def _chosen(keys: Keys, params: Keys, rule: Mapping[str, Any], notes: Notes) -> str | None:
    preset = rule.get("preset")
    if not isinstance(preset, Mapping):
        return preset
    value = keys.get(preset["key"])
    if value is None:
        value = params.get(preset["key"])
    word = json.dumps(value)
    names: Mapping[str, str] = preset["values"]
    if value is None and "absent" in preset:
        return str(preset["absent"])
    if word not in names:
        where = keys.where(preset["key"])
        notes.error(f"{where}={word} is none of {', '.join(names)}. {suggest(word, names)}")
        return next(iter(names.values()))
    notes.source("pairing", "config", keys.where(preset["key"]))
    return names[word]


def with_sections(
    keys: Keys,
    params: Keys,
    rule: Mapping[str, Any],
    *,
    template: dict[str, Any],
    pairs: int,
    notes: Notes,
) -> None:
    """Sizes of the sections of M-RoPE, from the config or from the row."""
    sections = rule.get("sections")
    arrangement = dict(template.get("arrangement", {}))
    if sections is None:
        if "mrope_section" in params or "xdrope_section" in params:
            key = "mrope_section" if "mrope_section" in params else "xdrope_section"
            notes.error(
                f"{params.where(key)} asks for sections of several axes, and the family that would "
                "say how axes share the ladder is not known"
            )
        return
    for key in ("mrope_interleaved", "interleaved"):
        flag = params.get(key)
        if flag is not None and bool(flag) != (arrangement.get("rule") == "cyclic"):
            told = f"{params.where(key)}={flag}"
            notes.error(f"{told}, while the family deals {arrangement.get('rule')!r}")
    sizes = None
    for key in sections["keys"]:
        for source in (params, keys):
            if key in source:
                sizes = source.get(key)
                notes.source("arrangement.sizes", "config", source.where(key))
    if sizes is None:
        sizes = sections.get("default")
        if sizes is None:
            notes.error(f"{params.where(sections['keys'][0])} is missing")
            return
        notes.source("arrangement.sizes", "preset", sections["keys"][0])
    if not (isinstance(sizes, list) and all(type(size) is int and size >= 0 for size in sizes)):
        notes.error(f"{sections['keys'][0]}={sizes!r} is not a list of sizes")
        return
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
    ends = [min(axes * size, pairs) for size in sizes]
    counts = [len(range(axis, ends[axis], axes)) for axis in range(axes)]
    return [pairs - sum(counts[1:]), *counts[1:]]


def temperature_of(
    keys: Keys, params: Keys, rule: Mapping[str, Any], where: str, notes: Notes
) -> Value | None:
    """The factor on scores that grows with the position."""
    asked = rule.get("temperature")
    if asked is None:
        return None
    found: dict[str, Any] = {"type": "Temperature", "rule": asked["rule"]}
    if asked["layers"] != where or ("when" in asked and not keys.get(asked["when"])):
        for key in (key for key in asked.values() if isinstance(key, str)):
            params.get(key)  # it is of other layers, or of none
        return None
    values, missing = {}, []
    for field in ("length", "strength", "start"):
        if field not in asked:
            continue
        value = asked[field]
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
            f"{' and '.join(map(params.where, missing))} missing: partly, because the class "
            "multiplies queries by a factor that grows with the position, and has no number "
            "without; the plan has no such factor"
        )
        return None
    for field in ("length", "start"):
        if field in values:
            values[field] = int(values[field])
    try:
        return registry.from_json(json.dumps({**found, **values}))
    except PosencError as error:
        notes.error(str(error))
        return None
