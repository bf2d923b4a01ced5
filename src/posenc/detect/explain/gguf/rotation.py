"""The rotation of a type of layers of a GGUF file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from posenc import registry
from posenc._core.errors import mismatch, suggest
from posenc._core.io.checkpoints import Header, read_tensor
from posenc._core.reading import Layer
from posenc.detect.explain.config.view import (
    Keys,
    Notes,
    UnsettledError,
    is_length,
    is_number,
    noted,
    unsettled_if,
)
from posenc.detect.explain.rotary.scaling_rules import yarn_magnitude
from posenc.presets import fill, row as preset_row
from posenc.presets.row_types_gguf import GgufRotaryRule

DEFAULT_BASE = 10_000.0  # of the format: files leave the key out for it


def rotation_of(file: HeaderFile, name: str, local: bool, outer: Notes) -> Layer | None:
    """The entry of a type of layers, with a window or without; None where it is not settled."""
    notes, rule = Notes(name, outer.notes), file.rule
    template: dict[str, Any] = {"type": "RoPE"}
    if "rotary" in rule:
        template = {
            k: v for k, v in preset_row(rule["rotary"]).spec.items() if k not in ("base", "scaling")
        }
        notes.source("pairing", "preset", rule["rotary"])
    if file.pairing is not None:
        template["pairing"] = {"type": "Pairing", "order": file.pairing}
        notes.source("pairing", "caller", "pairing")
    dim, base = _dim(file, local, notes), _base(file, local, notes)
    if dim is None or "pairing" not in template:
        return None
    _sections(file.keys, rule, template, dim // 2, notes)
    magnitude = {**template.get("magnitude", {"type": "RotaryMagnitude"})}
    filled = {**template, "dim": dim, "base": base, "magnitude": magnitude}
    if scaling := scaling_of(file, local, dim // 2, magnitude, notes):
        filled["scaling"] = scaling
    # A number of the header that is none is told of the whole file: no default stands for it.
    return None if notes.failed or outer.failed else _built(file, filled, dim, notes)


@noted
def _built(file: HeaderFile, filled: dict[str, Any], dim: int, notes: Notes) -> Layer:
    spec: Any = registry.from_json(json.dumps(fill(filled, {"dim": dim})))
    length = file.keys.integer("context_length")
    if length == 0 or not is_length(length):
        notes.warning(f"{file.keys.where('context_length')}={length} is no length: it is not used")
        length = None
    reordered = file.rule.get("permuted", "") if file.pairing is None else ""
    return Layer(
        notes.layer, spec=spec, length=length, sources=tuple(notes.sources), permuted=reordered
    )


@noted
def _dim(file: HeaderFile, local: bool, notes: Notes) -> int | None:
    keys, rule = file.keys, file.rule
    usual = ["rope.dimension_count", "attention.key_length"]
    options = ["rope.dimension_count_swa", *usual] if local else usual
    if (stated := keys.first(rule.get("rotary_dim", options))) is not None:
        width = (
            (keys.integer("attention.key_length_swa") if local else None)
            or keys.integer("attention.key_length")
            or _head(keys)
        )
        unsettled_if(
            width is not None and stated[1] > width,
            f"{keys.where(stated[0])}={stated[1]:g} is above the {width} channels of a head",
        )
        notes.source("dim", "config", keys.where(stated[0]))
        return int(stated[1] * (1 if local else rule.get("partial_rotary_factor", 1)))
    if (head := _head(keys)) is not None:
        notes.source("dim", "config", "embedding_length // attention.head_count")
        return head
    raise UnsettledError(
        f"{keys.where('rope.dimension_count')} is missing, and nothing else gives the width"
    )


def _base(file: HeaderFile, local: bool, notes: Notes) -> float:
    keys, rule = file.keys, file.rule
    if file.base is not None:
        notes.source("base", "caller", "base")
        return float(file.base)
    key = "rope.freq_base"
    if local and (kind := rule["windows"]["base"]) != "full":
        own = f"{key}_swa"
        key = own if own in keys or kind == "own" else key
    value, where = short_number(keys, key), keys.where(key)
    if "fixed_base" in rule:
        if value not in (None, DEFAULT_BASE):
            notes.warning(f"{where}={value:g}: llama.cpp takes {DEFAULT_BASE:g} here")
        value = DEFAULT_BASE
    if value is None:
        notes.warning(f"{where} is missing: {DEFAULT_BASE:g} is the format's default")
        notes.source("base", "format", where)
        return DEFAULT_BASE
    if value <= 0:
        notes.error(f"{where}={value:g} is no base: it must be positive")
    notes.source("base", "config", where)
    alpha = short_number(keys, "rope.scaling.alpha") if "ntk_alpha" in rule else None
    head = keys.integer("attention.key_length") or _head(keys) if alpha else None
    if alpha and head and head > 2:
        notes.source("base", "config", keys.where("rope.scaling.alpha"))
        return float(value * alpha ** (head / (head - 2)))
    return float(value)


def _head(keys: Keys) -> int | None:
    """The width of a head, where no key states it."""
    width, heads = keys.integer("embedding_length"), keys.get("attention.head_count")
    heads = heads[0] if isinstance(heads, list) and heads else heads
    return width // int(heads) if width and is_number(heads) and heads >= 1 else None


@noted
def _sections(
    keys: Keys, rule: GgufRotaryRule, template: dict[str, Any], pairs: int, notes: Notes
) -> None:
    sizes, where = keys.get("rope.dimension_sections"), keys.where("rope.dimension_sections")
    if "mrope_section" not in rule:
        if isinstance(sizes, list) and any(sizes) and "arrangement" not in template:
            notes.remark(f"{where}={sizes} is not read for text of this architecture")
        return
    unsettled_if(not isinstance(sizes, list) or len(sizes) < 3, f"{where} is missing")
    unsettled_if(any(sizes[3:]), f"{where}={sizes} has a fourth axis, which this family has not")
    notes.source("arrangement.sizes", "config", where)
    template["arrangement"] = {**template["arrangement"], "sizes": sizes[:3]}
    lost = [
        pair
        for pair in range(pairs if rule["mrope_section"] == "cyclic" else 0)
        if is_number(sizes[pair % 3]) and pair >= 3 * sizes[pair % 3]
    ]
    if lost:
        notes.warning(
            f"{where}={sizes}: llama.cpp gives pairs {', '.join(map(str, lost))} the "
            "fourth position, which is 0 for text; the plan gives them time, as the model was made"
        )


LONG_CONTEXT = 131_072  # from which models of rules `llama3` usually have a scaling
YARN = {"yarn_ext_factor": 1.0, "yarn_beta_fast": 32.0, "yarn_beta_slow": 1.0}
FACTORS = "rope_freqs.weight"
LONG, SHORT = "rope_factors_long.weight", "rope_factors_short.weight"


class HeaderFile(NamedTuple):
    """A header, and what the caller said."""

    path: Path
    header: Header
    keys: Keys
    rule: GgufRotaryRule
    pairing: str | None
    base: float | None


def short_number(keys: Keys, key: str) -> float | None:
    """A number as it was written: the header holds float32, of short decimal numbers."""
    if (value := keys.number(key)) is None or abs(value) > np.finfo(np.float32).max:
        return value
    return float(str(np.float32(value)))


@noted
def scaling_of(
    file: HeaderFile, local: bool, pairs: int, magnitude: dict[str, Any], notes: Notes
) -> list[dict[str, Any]]:
    """The scalings of a type of layer; `magnitude` gets the factors that come with them."""
    keys, rule = file.keys, file.rule
    reach = rule["windows"]["scaling"] if local else "full"
    kind = keys.get("rope.scaling.type") or "linear"
    known = ("none", "linear", "yarn", "longrope")
    if kind not in known:
        raise UnsettledError(
            f"{keys.where('rope.scaling.type')}={repr(kind)[:80]} is not known. "
            f"{suggest(str(kind), known)}"
        )
    stated = "rope.scaling.factor" if "rope.scaling.factor" in keys else "rope.scale_linear"
    factor = (short_number(keys, stated) or 1.0) if kind != "none" else 1.0
    unsettled_if(factor < 1, f"{keys.where(stated)}={factor:g} is below 1")
    if "fixed_base" in rule or reach == "none":
        return []
    linear = kind in ("linear", "longrope") and factor != 1
    made: list[dict[str, Any]] = [{"type": "Linear", "factor": factor}] if linear else []
    attention = short_number(keys, "rope.scaling.attn_factor")
    if kind == "yarn":
        made += _yarn(file, factor, attention, magnitude, notes)
    elif attention is not None:
        magnitude["attention_factor"] = attention
        notes.source("magnitude.attention_factor", "config", keys.where("rope.scaling.attn_factor"))
    log = rule.get("yarn_log_multiplier", {})
    if kind != "yarn" and log.get("scores"):
        # The scores of these layers take the factor that YaRN would bring, whatever the rule.
        k = (short_number(keys, "rope.scaling.yarn_log_multiplier") or 0.0) * log["scale"]
        plain = (attention or 1.0) * yarn_magnitude(1, factor) * yarn_magnitude(k, factor)
        magnitude["logit_factor"] = plain**2
    if reach == "factor":
        # Frequencies are as without a scaling; cos and sin keep what cancels YaRN's factor.
        if kind == "yarn":
            whole = registry.from_json(json.dumps(made[-1])).attention_factor()  # type: ignore[attr-defined]
            given = magnitude.get("attention_factor", whole)
            magnitude["attention_factor"] = given / yarn_magnitude(1, factor)
        made = []
    elif made:
        notes.source("scaling.factor", "config", keys.where(stated))
    if local and rule.get("rope_freqs") == "full":
        return made
    return made + _tensors(file, pairs, magnitude, notes)


@noted
def _original(keys: Keys, notes: Notes) -> int | None:
    key = "rope.scaling.original_context_length"
    if original := keys.integer(key):
        notes.source("scaling.original_length", "config", keys.where(key))
        return original
    if (length := keys.integer("context_length")) is None:
        raise UnsettledError(f"{keys.where(key)} is missing")
    notes.warning(f"{keys.where(key)} is missing: llama.cpp takes context_length={length}")
    notes.source("scaling.original_length", "format", keys.where("context_length"))
    return length


def _yarn(
    file: HeaderFile,
    factor: float,
    attention: float | None,
    magnitude: dict[str, Any],
    notes: Notes,
) -> list[dict[str, Any]]:
    keys, rule = file.keys, file.rule
    if (original := _original(keys, notes)) is None:
        return []
    made: dict[str, Any] = {"type": "YaRN", "factor": factor, "original_length": original}
    reads = rule.get("yarn_keys", {})
    for name, default in YARN.items():
        key = f"rope.scaling.{name}"
        value = short_number(keys, key)
        taken = reads.get(name, default) if value is None or name not in reads else value
        if value is not None and value != taken:
            notes.warning(
                f"{keys.where(key)}={value:g} is not read by llama.cpp for this architecture, "
                f"which takes {taken:g}"
            )
        elif value is not None and name in reads:
            notes.source(f"scaling.{name.removeprefix('yarn_')}", "config", keys.where(key))
        if name == "yarn_ext_factor" and taken != 1:
            notes.error(f"{keys.where(key)}={taken:g} is not understood: 1 is YaRN")
        elif name != "yarn_ext_factor":
            made[name.removeprefix("yarn_")] = taken
    log, key = rule.get("yarn_log_multiplier", {}), "rope.scaling.yarn_log_multiplier"
    if (told := short_number(keys, key)) is not None and not log:
        notes.warning(f"{keys.where(key)}={told:g} is not read by llama.cpp for this architecture")
    if k := float(str(np.float32((told or 0.0) * log.get("scale", 0.0)))):
        made |= {"mscale": k if log.get("mscale_too") else 1.0, "mscale_all_dim": k}
        notes.source("scaling.mscale_all_dim", "config", keys.where(key))
    first, own = made.get("mscale", 1.0), attention or 1.0
    stated = short_number(keys, key := "rope.scaling.yarn_attn_factor")
    taken = yarn_magnitude(first, factor) / yarn_magnitude(k, factor)
    if stated is not None and abs(stated - taken) > 1e-4 * taken:
        notes.warning(f"{keys.where(key)}={stated:g} is not read by llama.cpp: it takes {taken:g}")
    if attention is not None:
        magnitude["attention_factor"] = (
            own * yarn_magnitude(first, factor) / yarn_magnitude(k, factor)
        )
        notes.source("magnitude.attention_factor", "config", keys.where("rope.scaling.attn_factor"))
    if log.get("scores"):
        exact = first == k and attention is None
        magnitude["logit_factor"] = (
            "scaling" if exact else (own * yarn_magnitude(first, factor)) ** 2
        )
    return [made]


def _tensors(
    file: HeaderFile, pairs: int, magnitude: dict[str, Any], notes: Notes
) -> list[dict[str, Any]]:
    """Factors of frequencies that the file keeps as tensors."""
    keys = file.keys
    values = {name: read_tensor(file.path, file.header, name) for name in (FACTORS, LONG, SHORT)}
    if all(found is None for found in values.values()):
        _no_tensors(file, notes)
    for name, found in values.items():
        # Where a type of layer turns a share of the width, it reads the first numbers.
        longer = found is not None and "partial_rotary_factor" in file.rule and len(found) > pairs
        if found is not None and len(found) != pairs and not longer:
            notes.error(
                f"{name} has {len(found)} numbers and needs {pairs}, one for each pair that turns"
            )
            return []
    if (factors := values[FACTORS]) is not None:
        notes.source("scaling.values", "config", FACTORS)
        return [{"type": "Multipliers", "values": factors[:pairs].tolist(), "use": "divide"}]
    long, short = values[LONG], values[SHORT]
    if long is None and short is None:
        return []
    if long is None or short is None:
        notes.error(mismatch("factors of frequencies", f"{LONG} and {SHORT}", "one of them"))
        return []
    if (original := _original(keys, notes)) is None:
        return []
    if "attention_factor" not in magnitude:
        notes.warning(
            f"{keys.where('rope.scaling.attn_factor')} is missing: llama.cpp takes 1, where "
            "LongRoPE has a factor above 1"
        )
        magnitude["attention_factor"] = 1.0
    notes.source("scaling.long", "config", LONG)
    trained = keys.integer("context_length") or original
    return [
        {
            "type": "LongRoPE",
            "short": short[:pairs].tolist(),
            "long": long[:pairs].tolist(),
            "original_length": original,
            "factor": max(1.0, trained / original),
        }
    ]


def _no_tensors(file: HeaderFile, notes: Notes) -> None:
    """A remark where a scaling might be kept as a tensor that this file lacks."""
    if "rope_freqs" not in file.rule:
        return
    keys, tensors = file.keys, f"{FACTORS} and {LONG}"
    parts = file.header.keys.get("split.count")
    if isinstance(parts, int) and parts > 1 and not file.header.tensors:
        notes.warning(
            f"split.count={parts}: read in part, because {tensors} may lie in another part of the "
            "model"
        )
    elif (keys.integer("context_length") or 0) >= LONG_CONTEXT and not keys.get(
        "rope.scaling.type"
    ):
        notes.warning(
            f"{FACTORS} is missing: converters write the scaling 'llama3' as this tensor, and "
            "wrote nothing before July 2024. llama.cpp scales nothing, and so does the plan"
        )
