"""What is a part of a config, and what it is called."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from posenc.detect.explain.config.view import HEAD_COUNTS, MAIN_PARTS, Keys
from posenc.detect.explain.rotary.entries import has_rotary
from posenc.presets.families import (
    NO_CLASS,
    ClassParts,
    Family,
    class_defaults,
    family,
)

# Keys of parts that are models.
MODELS, HEADS = ("n_heads", "num_heads", "n_head", "heads"), "attention_heads"
SIZES = ("head_dim", "hidden_size", "d_model", "dim", "embed_dim", "width")
# Those without which a plan is none; what is wrong with another is a warning.
WHOLES = ("vlm_config", "thinker_config", "decoder_config")
NEEDED = (*MAIN_PARTS, *WHOLES, "encoder", "decoder", "generator")


def with_older_parts(data: Mapping[str, Any], made: ClassParts) -> Mapping[str, Any]:
    """A config whose parts are those of an older spelling, which goes before the newer one."""
    older = {key: data[f"{key}_dict"] for key in made.types if data.get(f"{key}_dict")}
    return {
        k: v for k, v in data.items() if k in older or k.removesuffix("_dict") not in older
    } | older


def is_part(key: str, value: Any, made: ClassParts) -> bool:
    """Whether a key of a config holds a sub-config that is a model, or may be one."""
    options = ("rope_parameters", "rope_scaling", "quantization_config", "per_layer_config")
    if not isinstance(value, Mapping) or not value or key in options:
        return False
    named = key in made.types or key.endswith("_config") or key in ("encoder", "decoder")
    return named or "model_type" in value or has_heads(value)


def is_options(keys: Keys, key: str, value: Mapping[str, Any]) -> bool:
    """Whether a dictionary has no model: a rule has read it, or it is called as the whole."""
    if not value.get("model_type"):
        return key in keys.read
    sized = has_heads(value) or any(size in value for size in SIZES)
    return value["model_type"] == keys.data.get("model_type") and not sized


def has_heads(data: Mapping[str, Any]) -> bool:
    """Whether a dictionary counts heads of attention."""
    return any(isinstance(key, str) and (key in MODELS or HEADS in key) for key in data)


def name_of_text(model_type: object) -> str | None:
    """The family of the text part of a model, by the name of the whole."""
    return next((n for n in (f"{model_type}_text", str(model_type)) if family(n) is not None), None)


def parts_left_out(data: Mapping[str, Any], made: ClassParts) -> dict[str, Any]:
    """What the class has in parts that a config leaves out, for rules of the whole."""
    return {
        key: {**(class_defaults(kind) or NO_CLASS).left_out({}), **made.values.get(key, {})}
        for key, kind in made.types.items()
        if not data.get(key) and key not in made.none
    }


def joined(name: str, key: str) -> str:
    """The name of a part inside another."""
    return ".".join(part for part in (name, label_of(key)) if part)


def flat_part(keys: Keys, made: ClassParts) -> str:
    """The key of the part for text, where its keys stand in the config of the whole."""
    if (made.own and not made.flat) or not (
        (made.flat and has_rotary(keys)) or any(key in keys for key in HEAD_COUNTS)
    ):
        return ""
    missing = [key for key in MAIN_PARTS if key in made.types and not keys.data.get(key)]
    return next((key for key in missing if family(made.types[key]) is not None), "")


def text_part(made: ClassParts, inside: Mapping[str, Any]) -> str:
    """The key of the part for text that a class reads, where the file has it."""
    known = (key for key in MAIN_PARTS if key in made.types and key in inside)
    return next((key for key in known if family(made.types[key]) is not None), "")


def label_of(key: str) -> str:
    """The name of a part by its key."""
    return key.removesuffix("_config").removesuffix("_model") or key


def is_hollow(keys: Keys, row: Family | None, inside: Collection[str]) -> bool:
    """Whether a config only holds others: it has parts, and no attention of its own."""
    rules = () if row is None else row.entries
    if not inside or (rules and rules[0].get("own_positions")):
        return False
    turning = any("rotary" in rule for rule in rules) and has_rotary(Keys(keys.data))
    if turning and not any(key in inside for key in NEEDED):
        return False
    return not any(key in keys for key in HEAD_COUNTS)


def part_at(config: Mapping[str, Any], layer: str) -> tuple[str, Mapping[str, Any]]:
    """The part of a model that a layer is in, and its own config."""
    names: list[str] = []
    for piece in layer.split("."):
        inside = (k for k, v in config.items() if isinstance(v, Mapping) and label_of(k) == piece)
        if (key := next(inside, None)) is None:
            break
        names, config = [*names, piece], config[key]
    return ".".join(names), config


def beside(config: Mapping[str, Any], part: str) -> set[str]:
    """The names of the parts that stand beside a part, and beside those that it is in."""
    names: set[str] = set()
    for piece in part.split(".") if part else ():
        inside = {label_of(k): v for k, v in config.items() if k.endswith("_config")}
        names |= {n for n, value in inside.items() if isinstance(value, Mapping)} - {piece}
        config = inside.get(piece, {})
    return names
