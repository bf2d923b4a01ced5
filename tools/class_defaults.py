"""What the classes of transformers take for keys that a config leaves out.

    python tools/class_defaults.py            compare with src/posenc/presets/configs
    python tools/class_defaults.py --write    write it

Nothing is read from source: each class is made with one key at a time, and what becomes of its
rotary parameters is noted. `posenc.presets.families.ClassDefaults` describes the rows.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import warnings
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "src" / "posenc" / "presets" / "configs" / "classes.json"
THETA, FACTOR, SHARE = 12_345.0, 3.0, 0.625  # of no class
COUNTS = (12, 13, 37, 60)  # of layers: a pattern that holds for all of them is one
LONGEST = 12  # of a pattern
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
        for key, value in rule.items():
            if key != "spec":
                yield from words(value)
    elif isinstance(rule, (list, tuple)):
        for value in rule:
            yield from words(value)


def fields(cls: Any, rules: Any) -> dict[str, Any]:
    """Defaults of the keys that the reader asks for."""
    asked = {*WIDTHS, *words(rules)}
    found = {}
    for field in dataclasses.fields(cls):
        value = field.default
        if field.name in asked and isinstance(value, (bool, int, float)):
            found[field.name] = value
    return found


def share_of(params: Mapping[str, Any]) -> float:
    return float(params.get("partial_rotary_factor") or 1)


def row(cls: Any, rules: Any) -> dict[str, Any]:
    """What is known of a class."""
    found: dict[str, Any] = {}
    config = made(cls)
    params = parameters(config)
    if stated := fields(cls, rules):
        found["fields"] = stated
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
    return found if rule in ("default", "axial") else {**found, "rope_type": rule}


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
    for size in range(1, LONGEST + 1):
        pattern = max(lists, key=len)[:size]
        wanted = [[pattern[i % size] for i in range(n)] for n in COUNTS]
        if wanted == lists:
            return {"repeat": pattern, **_asks(cls)}
        if [w[:-1] for w in wanted] == [t[:-1] for t in lists]:
            last = {types[-1] for types in lists}
            if len(last) == 1:
                return {"repeat": pattern, "last": last.pop(), **_asks(cls)}
    return {"repeat": []}


def _asks(cls: Any) -> dict[str, Any]:
    """Keys that change the pattern."""
    before = made(cls).layer_types
    found = []
    numbers = [f.name for f in dataclasses.fields(cls) if type(f.default) is int]
    for key in (*numbers, "sliding_window_pattern", "full_attention_interval", "attn_layer_period"):
        if key in ("num_hidden_layers", "vocab_size"):
            continue
        config = made(cls, **{key: 2})
        if config is not None and getattr(config, "layer_types", before) != before:
            found.append(key)
    return {"asks": sorted(set(found))} if found else {}


def parts(cls: Any, known: Container[str]) -> dict[str, str]:
    """The sub-configs that it makes where a file leaves them out, of types that are known."""
    config = made(cls)
    inner = {key: getattr(config, key, None) for key in getattr(cls, "sub_configs", None) or ()}
    types = {key: getattr(value, "model_type", "") for key, value in inner.items()}
    return {key: name for key, name in types.items() if name in known}


def rows() -> dict[str, Any]:
    """A row for each type whose row of the families turns queries and keys, and parts of all."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    warnings.simplefilter("ignore")
    import transformers
    from transformers import CONFIG_MAPPING

    from posenc.presets.families import families

    transformers.logging.set_verbosity_error()
    found = {}
    for name, family in sorted(families().items()):
        rules = [rule for rule in family.entries if "rotary" in rule]
        if rules and name in CONFIG_MAPPING:
            known = row(CONFIG_MAPPING[name], rules)
            if known:
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
