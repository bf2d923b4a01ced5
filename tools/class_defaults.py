"""What the classes of transformers take for keys that a config leaves out.

    python tools/class_defaults.py            compare with src/posenc/presets/configs
    python tools/class_defaults.py --write    write it

Nothing is read from source: each class is made with one key at a time, and what becomes of its
rotary parameters is noted. `posenc.presets.families.ClassDefaults` describes the rows.
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import json
import os
import re
import sys
import warnings
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import Any

from posenc.detect.explain.config_view import NAMES
from posenc.detect.explain.rotary_fields import BASES
from posenc.presets.families import stretched

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "src" / "posenc" / "presets" / "configs" / "classes.json"
THETA, FACTOR, SHARE = 12_345.0, 3.0, 0.625  # of no class
COUNTS = (12, 13, 37, 60)  # of layers: a pattern that holds for all of them is one
LONGEST, FIRST = 12, 4  # of a pattern, and of what is before it
PERIODS = (2, 3, 5)
# Keys of widths that a class fills itself where a file leaves them out.
WIDTHS = (
    "head_dim",
    "global_head_dim",
    "kv_channels",
    "rotary_dim",
    "rotary_ndims",
    "rotary_pct",
    "index_head_dim",
    "indexer_head_dim",
)
THETAS = (
    "rope_theta",
    "global_rope_theta",
    "rope_local_base_freq",
    "local_rope_theta",
    "swa_rope_theta",
    "compress_rope_theta",
)
DICTIONARIES = ("rope_scaling", "rope_parameters")


def made(cls: Any, **keys: Any) -> Any:
    """A config of the class, or None where it refuses."""
    try:
        return cls(**keys)
    except Exception:  # noqa: BLE001 - whatever a class of somebody else raises
        return None


def parameters(config: Any) -> dict[str, Any]:
    """Its rotary parameters."""
    found = getattr(config, "rope_parameters", None)
    return found if isinstance(found, dict) else {}


def kinds(params: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The dictionaries for each type of layer; none where there is one for all."""
    return {k: v for k, v in params.items() if isinstance(v, dict)}


def words(rule: Any) -> Iterator[str]:
    """Every word of a row."""
    if isinstance(rule, str):
        yield rule
    elif isinstance(rule, Mapping):
        for value in rule.values():
            yield from words(value)
    elif isinstance(rule, (list, tuple)):
        for value in rule:
            yield from words(value)


def fields(cls: Any, rules: Any) -> dict[str, Any]:
    """Defaults of the keys that the reader asks for."""
    asked = {*WIDTHS, *(name for word in words(rules) for name in NAMES.findall(word))}
    found = {}
    for field in dataclasses.fields(cls):
        value = field.default
        if field.name in asked and isinstance(value, (bool, int, float)):
            found[field.name] = value
    return found


def told(cls: Any, rules: Any) -> dict[str, Any]:
    """Those defaults, and other names by which files state the same keys."""
    stated = fields(cls, rules)
    found: dict[str, Any] = {"fields": stated} if stated else {}
    names: dict[str, list[str]] = {}
    for other, key in (getattr(cls, "attribute_map", None) or {}).items():
        if key in stated:
            names.setdefault(key, []).append(other)
    return {**found, "names": names} if names else found


def share_of(params: Mapping[str, Any]) -> float:
    return float(params.get("partial_rotary_factor") or 1)


def row(cls: Any, rules: Any) -> dict[str, Any]:
    """What is known of a class."""
    found: dict[str, Any] = {}
    config = made(cls)
    params = parameters(config)
    found |= told(cls, rules)
    inner = kinds(params)
    if inner or None in params.values():
        bare = {kind: {"rope_type": "default", "rope_theta": THETA} for kind in inner}
        given = kinds(parameters(made(cls, rope_parameters=bare)))
        found["kinds"] = {
            kind: None if values is None else _kind(values, given.get(kind) or values)
            for kind, values in params.items()
        }
        found["reach"] = reach(cls)
        untold = {kind: {"rope_type": "default"} for kind in inner}
        nested = kinds(parameters(made(cls, rope_parameters=untold)))
        flat = kinds(parameters(made(cls, rope_scaling={"rope_type": "linear", "factor": FACTOR})))
        for key, given in (("must_state_base", nested), ("must_state_flat", flat)):
            if other := [k for k in inner if _other(inner[k], given.get(k))]:
                found[key] = other
    elif params:
        bare = {"rope_type": "default", "rope_theta": THETA}
        found |= _kind(params, parameters(made(cls, rope_parameters=bare)) or params)
        if parameters(made(cls, rope_theta=THETA)).get("rope_theta") != THETA:
            keys = {key: parameters(made(cls, **{key: THETA})) for key in BASES}
            reaching = [key for key, values in keys.items() if values.get("rope_theta") == THETA]
            found["reach"] = {"rope_theta": [], **{key: [""] for key in reaching}}
        asked = {"rope_type": "linear", "factor": FACTOR}
        given = [{"rope_parameters": {"rope_type": "default"}}, {"rope_scaling": asked}]
        both = [parameters(made(cls, **keys)) for keys in given]
        bases = {values.get("rope_theta") for values in both if values}
        if bases != {params["rope_theta"]}:
            given_base = bases.pop() if len(bases) == 1 else None
            found |= {"base_given": given_base} if given_base else {"must_state_base": [""]}
    if unread := _unread(cls, found.get("reach", {}).get("rope_scaling", ())):
        found["flat_base_unread"] = unread
    if added := adds(cls):
        found["adds"] = added
    if (types := layers(cls)) is not None:
        found["layers"] = types
    return found


def _kind(params: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Of a type of layer, or of all: alone, and where the file has a dictionary without it."""
    found: dict[str, Any] = {"base": params["rope_theta"]}
    if share_of(given) != 1:
        found["share"] = share_of(given)
    if share_of(params) != share_of(given):
        found["share_alone"] = share_of(params)
    rule = params.get("rope_type", "default")
    if rule in ("default", "axial"):
        return found
    own = {key: value for key, value in params.items() if key not in ("rope_theta", "type")}
    return {**found, "rope_type": rule, "parameters": own}


def _other(alone: Mapping[str, Any], given: Mapping[str, Any] | None) -> bool:
    """Whether a dictionary without a base has another base than where there is none."""
    return given is not None and given.get("rope_theta") != alone["rope_theta"]


def reach(cls: Any) -> dict[str, list[str]]:
    """The types of layers that a key at the top of a file reaches."""
    found = {}
    for key in THETAS:
        inner = kinds(parameters(made(cls, **{key: THETA})))
        reached = [k for k, v in inner.items() if v.get("rope_theta") == THETA]
        if reached or key == "rope_theta":
            found[key] = reached
    inner = kinds(parameters(made(cls, partial_rotary_factor=SHARE)))
    found["partial_rotary_factor"] = [k for k, v in inner.items() if share_of(v) == SHARE]
    for key in DICTIONARIES:
        inner = kinds(parameters(made(cls, **{key: {"rope_type": "linear", "factor": FACTOR}})))
        found[key] = [k for k, v in inner.items() if v.get("factor") == FACTOR]
    return found


def _unread(cls: Any, reached: Container[str]) -> list[str]:
    """The types of layers that one dictionary for all reaches, but for the base in it."""
    asked = {"rope_type": "linear", "factor": FACTOR, "rope_theta": THETA}
    inner = kinds(parameters(made(cls, rope_scaling=asked)))
    return [k for k, v in inner.items() if k in reached and v.get("rope_theta") != THETA]


def adds(cls: Any) -> dict[str, Any]:
    """What a class adds to a dictionary of the older dialect that asks for YaRN."""
    asked = {"rope_type": "yarn", "factor": FACTOR, "original_max_position_embeddings": 64}
    params = parameters(made(cls, rope_scaling=dict(asked)))
    reached = [values for values in (params, *kinds(params).values()) if "factor" in values]
    added = {k: v for values in reached[:1] for k, v in values.items() if k not in asked}
    added = {k: v for k, v in added.items() if k not in ("rope_theta", "partial_rotary_factor")}
    return {"yarn": added} if added else {}


def layers(cls: Any) -> dict[str, Any] | None:
    """The types of layers as a pattern, where they differ; `repeat` is empty where it is none."""
    config = made(cls)
    types = set(getattr(config, "layer_types", None) or ())
    if len(types) < 2 and not (types and kinds(parameters(config))):
        return None
    lists = [getattr(made(cls, num_hidden_layers=n), "layer_types", None) or [] for n in COUNTS]
    if [len(types) for types in lists] != list(COUNTS):
        return {"repeat": []}
    found = pattern(lists)
    if found is None and (found := pattern([types[::-1] for types in lists])) is not None:
        found["from_last"] = True
    return {"repeat": []} if found is None else {**found, **_asks(cls, found)}


def pattern(lists: list[list[str]]) -> dict[str, Any] | None:
    """What is repeated in lists of several lengths, behind the first and before the last."""
    longest = max(lists, key=len)
    for skipped in range(FIRST + 1):
        for size in range(1, LONGEST + 1):
            first, repeat = longest[:skipped], longest[skipped : skipped + size]
            wanted = [[*first, *(repeat[i % size] for i in range(len(n) - skipped))] for n in lists]
            found = {"first": first, "repeat": repeat} if first else {"repeat": repeat}
            if wanted == lists:
                return found
            last = {types[-1] for types in lists}
            if [w[:-1] for w in wanted] == [t[:-1] for t in lists] and len(last) == 1:
                return {**found, "last": last.pop()}
    return None


def _asks(cls: Any, found: dict[str, Any]) -> dict[str, Any]:
    """Keys that change the pattern, and the one that is its period."""
    before = made(cls).layer_types
    asks = []
    every: dict[str, Any] = {}
    numbers = [f.name for f in dataclasses.fields(cls) if type(f.default) is int]
    popped = re.findall(r"""kwargs\.(?:pop|get)\(\s*["'](\w+)""", inspect.getsource(cls))
    older = ("sliding_window_pattern", "full_attention_interval", "attn_layer_period")
    for key in dict.fromkeys((*numbers, *older, *popped)):
        if key in ("num_hidden_layers", "vocab_size", *DICTIONARIES, *THETAS):
            continue
        config = made(cls, **{key: 2})
        if config is None:
            asks += [key] if key in popped else []
        elif getattr(config, "layer_types", before) != before:
            asks.append(key)
            if _is_period(cls, key, found):
                every = {"every": key}
    return {**every, "asks": sorted(set(asks))} if asks else {}


def _is_period(cls: Any, key: str, found: dict[str, Any]) -> bool:
    """Whether a key is the period of the pattern, in which one layer is of another type."""
    if "first" in found or "from_last" in found:
        return False
    for period in PERIODS:
        for count in COUNTS:
            config = made(cls, num_hidden_layers=count, **{key: period})
            repeat = stretched(found["repeat"], period)
            wanted = [repeat[i % period] for i in range(count)] if repeat else []
            wanted[-1:] = [found["last"]] if "last" in found else wanted[-1:]
            if config is None or config.layer_types != wanted:
                return False
    return True


def parts(cls: Any, known: Container[str]) -> dict[str, str]:
    """The sub-configs that it makes where a file leaves them out, of types that are known."""
    config = made(cls)
    inner = {key: getattr(config, key, None) for key in getattr(cls, "sub_configs", None) or ()}
    types = {key: getattr(value, "model_type", "") for key, value in inner.items()}
    return {key: name for key, name in types.items() if name in known}


def rows() -> dict[str, Any]:
    """A row for each type that a row of the families names, and parts of all."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    warnings.simplefilter("ignore")
    import transformers
    from transformers import CONFIG_MAPPING

    from posenc.presets.families import families

    transformers.logging.set_verbosity_error()
    found = {}
    for name, family in sorted(families().items()):
        if name not in CONFIG_MAPPING:
            continue
        turns = any("rotary" in rule for rule in family.entries)
        cls = CONFIG_MAPPING[name]
        if known := row(cls, family.entries) if turns else told(cls, family.entries):
            found[name] = known
    inner = {name: parts(CONFIG_MAPPING[name], families()) for name in sorted(CONFIG_MAPPING)}
    filled = {name: row for name, row in inner.items() if row}
    return {"version": transformers.__version__, "types": found, "parts": filled}


def text(found: Mapping[str, Any]) -> str:
    """The file: a line for each type."""
    body = {}
    for key in ("types", "parts"):
        lines = [f"  {json.dumps(n)}: {json.dumps(r)}" for n, r in found[key].items()]
        body[key] = f'"{key}": {{\n' + ",\n".join(lines) + "\n}"
    return (
        f'{{\n"version": {json.dumps(found["version"])},\n{body["types"]},\n{body["parts"]}\n}}\n'
    )


def main() -> int:
    """Compare, or write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the file")
    options = parser.parse_args()
    fresh = text(rows())
    if options.write:
        DATA.write_text(fresh, encoding="utf-8")
        return 0
    same = DATA.read_text(encoding="utf-8") == fresh
    print("as written" if same else f"{DATA.name} is of another version: run with --write")
    return 0 if same else 1


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main())
