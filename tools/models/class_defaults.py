"""What the classes of transformers take for keys that a config leaves out.

    python tools/models/class_defaults.py            compare with src/posenc/presets/configs
    python tools/models/class_defaults.py --write    write it

Nothing is read from source: each class is made with one key at a time, and what becomes of its
rotary parameters is noted. `posenc.presets.families.ClassDefaults` describes the rows.
"""

from __future__ import annotations

import argparse
import copy
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

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tools.models.class_reads import listed, made, parameters, reads, shares, value

from posenc.detect.explain.config.view import (
    BASES,
    COUNT_KEYS,
    MAIN_PARTS,
    TRAINED,
    WIDTHS as EXPRESSIONS,
)
from posenc.presets.families import families, stretched

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "src" / "posenc" / "presets" / "configs" / "classes.json"
NAME = re.compile(r"[A-Za-z_]\w*")
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
# Keys that a rotation needs, beside those of its row.
SIZES = {*NAME.findall(" ".join(EXPRESSIONS)), *TRAINED, *COUNT_KEYS}
THETAS = (
    "rope_theta",
    "global_rope_theta",
    "rope_local_base_freq",
    "local_rope_theta",
    "swa_rope_theta",
    "compress_rope_theta",
)
DICTIONARIES = ("rope_scaling", "rope_parameters")
OWN = {"num_attention_heads", "n_head", "n_heads", "num_heads"}
SKIPPED = ("length", "max_length")  # of texts that it writes
PROBE = ("llama", "LlamaConfig")  # a type of part that only classes which take any part take


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


def names(rules: Any) -> set[str]:
    """Every name in rows, those of their expressions among them."""
    return set(NAME.findall(json.dumps(rules)))


def fields(cls: Any, rules: Any, *, turns: bool = True) -> dict[str, Any]:
    """Defaults of the keys that the reader asks for; `turns` is whether it asks for those of heads.

    What a class works out of other keys is no default.
    """
    asked = {*WIDTHS, *words(rules)} if turns else names(rules)
    found = {}
    for field in dataclasses.fields(cls):
        value = field.default
        value = list(value) if isinstance(value, tuple) else value
        said = isinstance(value, str) and field.name in conditions(rules)
        number = isinstance(value, (bool, int, float)) or is_size(value)
        if said or (field.name in asked and number):
            found[field.name] = value
    return found


def sizes(cls: Any, rules: Any, known: Container[str]) -> dict[str, Any]:
    """What it takes for the rest where a file leaves the whole part out, worked out or not."""
    taken = stated(made(cls), rules)
    return {k: v for k, v in taken.items() if k not in known and is_size(v)}


def stated(config: Any, rules: Any) -> dict[str, Any]:
    """What a config says of the keys that rules ask for."""
    turns = any("rotary" in rule for rule in rules)
    asked = names(rules) | (SIZES | {*THETAS} if turns else set())
    keys = {field.name for field in dataclasses.fields(config)} if config is not None else set()
    values = {key: value(config, key) for key in sorted(keys & asked - set(SKIPPED))}
    return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}


def other(config: Any, kind: str, whole_rules: Any) -> dict[str, Any]:
    """What a part says that its class does not take by itself, or that rules of the whole ask."""
    row = families().get(kind)
    if config is None:
        return {}
    asked = {k: v for k, v in stated(config, whole_rules).items() if is_size(v)}
    if row is None:
        return asked
    alone = made(type(config))
    own = getattr(type(config), "model_type", "") == kind
    default = stated(alone, row.entries) if own else {}
    found = {
        **asked,
        **{k: v for k, v in stated(config, row.entries).items() if v != default.get(k)},
    }
    params, types = parameters(config), getattr(config, "layer_types", None)
    rules = {one.get("rope_type", "default") for one in (params, *kinds(params).values())}
    listed = types and (whole(type(config), row.entries).get("layers") or {}).get("pattern") == []
    if listed:
        found["layer_types"] = list(types)
    if getattr(config, "layer_rope_theta", None):
        found["layer_rope_theta"] = list(config.layer_rope_theta)
    plain = own and params == parameters(alone) and not rules - {"default", "axial"}
    if params and (listed or not plain):
        found["rope_parameters"] = params
    return {k: v for k, v in found.items() if v is not None}


def is_size(value: Any) -> bool:
    """Whether a value is a whole number, or a list of them."""
    items = value if isinstance(value, list) else [value]
    return bool(items) and all(type(item) is int for item in items)


def conditions(rules: Any) -> set[str]:
    """The keys whose words choose among rules, or among values of a field."""
    inner = rules.values() if isinstance(rules, Mapping) else rules
    if not isinstance(rules, (Mapping, list, tuple)):
        return set()
    found = set().union(*(conditions(one) for one in inner))
    if isinstance(rules, Mapping):
        found |= {rules["match"]} if "match" in rules else set()
        found |= (
            {rules["key"]}
            if {"one_of", "none_of", "contains"} & set(rules) and "key" in rules
            else set()
        )
    return found


def aliases(cls: Any, rules: Any, known: Container[str]) -> dict[str, str]:
    """Other names of the keys that the reader asks for, in which a file may state them."""
    asked = {*names(rules), *SIZES, *THETAS, *known}
    return {k: v for k, v in (getattr(cls, "attribute_map", None) or {}).items() if v in asked}


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
        if parameters(made(cls, rope_theta=THETA)).get("rope_theta") != THETA:
            keys = {key: parameters(made(cls, **{key: THETA})) for key in BASES}
            reaching = [key for key, values in keys.items() if values.get("rope_theta") == THETA]
            found["reach"] = {"rope_theta": [], **{key: [""] for key in reaching}}
        if SHARE not in parameters(made(cls, partial_rotary_factor=SHARE)).values():
            found.setdefault("reach", {})["partial_rotary_factor"] = []
        asked = {"rope_type": "linear", "factor": FACTOR}
        given = [{"rope_parameters": {"rope_type": "default"}}, {"rope_scaling": asked}]
        both = [parameters(made(cls, **keys)) for keys in given]
        if both[1] and "factor" not in both[1] and not adds(cls):
            found["ignores"] = ["rope_scaling"]
        bases = {values.get("rope_theta") for values in both if values}
        if bases != {params["rope_theta"]}:
            given_base = bases.pop() if len(bases) == 1 else None
            found |= {"base_given": given_base} if given_base else {"must_state_base": [""]}
    elif isinstance(theta := value(config, "rope_theta"), float):
        found["base"] = theta
    if unread := _unread(cls, found.get("reach", {}).get("rope_scaling", ())):
        found["flat_base_unread"] = unread
    if added := adds(cls):
        found["adds"] = added
    if (more := beside(cls, found)) != {}:
        found["beside"] = more
    for kind, (plain, scaled) in shares(cls).items():
        _own_share(found["kinds"].get(kind) if "kinds" in found else found, plain, scaled)
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


def _own_share(row: dict[str, Any] | None, plain: float, scaled: float) -> None:
    """Note that the rule of the class takes a share that its configs do not have."""
    if row is not None and plain < 1 and "share" not in row and "share_alone" in row:
        row["share"] = row.pop("share_alone")
        if scaled != plain:
            row["share_scaled"] = scaled


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


def beside(cls: Any, known: Mapping[str, Any]) -> dict[str, dict[str, list[str]]]:
    """What keys at the top reach beside a dictionary, flat or nested, if not the same as alone."""
    asked = {"rope_type": "linear", "factor": FACTOR}
    types = [kind for kind, values in known.get("kinds", {}).items() if values is not None]
    forms = {"flat": {"rope_scaling": asked}}
    forms |= {"nested": {"rope_parameters": {kind: dict(asked) for kind in types}}} if types else {}
    found: dict[str, dict[str, list[str]]] = {}
    for key, number in (("rope_theta", THETA), ("partial_rotary_factor", SHARE)):
        alone = known.get("reach", {}).get(key, [""])
        if _reached(cls, {}, key, number) is None:
            continue
        for form, stated in forms.items():
            reached = _reached(cls, stated, key, number)
            if reached not in (None, alone) and (reached != [""] or not types):
                found.setdefault(form, {})[key] = reached
    return found


def _reached(cls: Any, stated: Mapping[str, Any], key: str, number: float) -> list[str] | None:
    """The types of layers whose dictionary has a number as it is used; "" where it is for all."""
    config = made(cls, **copy.deepcopy(dict(stated)), **{key: number})
    if not parameters(config):
        return None
    config.standardize_rope_params()
    inner = kinds(parameters(config)) or {"": parameters(config)}
    return [kind for kind, values in inner.items() if values.get(key) == number]


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
    return {**_made_types(cls), **_set_last(cls, sorted(types)), **_still(config)}


def _still(config: Any) -> dict[str, list[str]]:
    """The types of layers to which the class gives no base."""
    bases = value(config, "layer_rope_theta") or []
    turning = {kind for kind, base in zip(config.layer_types, bases, strict=False) if base}
    still = sorted(set(config.layer_types) - turning)
    return {"no_rope": still} if bases and still else {}


def _set_last(cls: Any, types: list[str]) -> dict[str, str]:
    """The type of the last layer, where the class has it whatever a file lists."""
    lasts = {}
    for kind in types:
        listed = [kind] * COUNTS[0]
        config = made(cls, num_hidden_layers=COUNTS[0], layer_types=list(listed))
        if config is not None and list(config.layer_types)[:-1] == listed[:-1]:
            lasts[kind] = config.layer_types[-1]
    alike = set(lasts.values())
    return {"always_last": alike.pop()} if len(lasts) > len(alike) == 1 else {}


def _made_types(cls: Any) -> dict[str, Any]:
    """The types that a class makes by itself, as a pattern."""
    lists = [getattr(made(cls, num_hidden_layers=n), "layer_types", None) or [] for n in COUNTS]
    if [len(types) for types in lists] != list(COUNTS):
        return {"pattern": []}
    found = pattern(lists)
    if found is None and (found := pattern([types[::-1] for types in lists])) is not None:
        found["reversed"] = True
    return {"pattern": []} if found is None else {**found, **_asks(cls, found)}


def pattern(lists: list[list[str]]) -> dict[str, Any] | None:
    """What is repeated in lists of several lengths, behind the first and before the last."""
    longest = max(lists, key=len)
    for skipped in range(FIRST + 1):
        for size in range(1, LONGEST + 1):
            first, repeat = longest[:skipped], longest[skipped : skipped + size]
            wanted = [[*first, *(repeat[i % size] for i in range(len(n) - skipped))] for n in lists]
            found = {"first": first, "pattern": repeat} if first else {"pattern": repeat}
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
                every = {"period": key}
    return {**every, "depends_on": sorted(set(asks))} if asks else {}


def _is_period(cls: Any, key: str, found: dict[str, Any]) -> bool:
    """Whether a key is the period of the pattern, in which one layer is of another type."""
    if "first" in found or "reversed" in found:
        return False
    for period in PERIODS:
        for count in COUNTS:
            config = made(cls, num_hidden_layers=count, **{key: period})
            repeat = stretched(found["pattern"], period)
            wanted = [repeat[i % period] for i in range(count)] if repeat else []
            wanted[-1:] = [found["last"]] if "last" in found else wanted[-1:]
            if config is None or config.layer_types != wanted:
                return False
    return True


def whole(cls: Any, rules: Any) -> dict[str, Any]:
    """The row of a type: of whatever turns, and the keys of all its rules."""
    rotary = [rule for rule in rules if "rotary" in rule]
    known = row(cls, rotary) if rotary else {}
    if rotary and (kind := listed(cls)):
        known["bases"] = kind
    others = [rule for rule in rules if "rotary" not in rule]
    if more := fields(cls, others, turns=False):
        known["fields"] = {**more, **known.get("fields", {})}
    if other := aliases(cls, rules, known.get("fields", ())):
        known["aliases"] = other
    if left := sizes(cls, rules, known.get("fields", ())):
        known["sizes"] = left
    return known


def parts(cls: Any, name: str) -> dict[str, dict[str, Any]]:
    """What a class makes of its parts, and what those without a type make of theirs, by name."""
    config = made(cls)
    found: dict[str, dict[str, Any]] = {}
    row: dict[str, Any] = {"types": {}, "open": [], "none": [], "values": {}}
    flat = made(cls, num_hidden_layers=COUNTS[1])
    for key, part in (getattr(cls, "sub_configs", None) or {}).items():
        alone = getattr(config, key, None)
        asked = getattr(made(cls, **{key: {"model_type": PROBE[0]}}), key, None)
        if type(asked).__name__ == PROBE[1] or (
            asked is None and not dataclasses.is_dataclass(part)
        ):
            row["open"].append(key)
        if config is not None and alone is None:
            row["none"].append(key)
        told = getattr(made(cls, **{key: {"initializer_range": 0.5}}), key, None)
        kind = [getattr(one, "model_type", None) for one in (told, alone, part)]
        own = {field.name for field in dataclasses.fields(cls)}.union(cls.attribute_map or ())
        if key in MAIN_PARTS and OWN & own:
            row["own"] = True
        if key in MAIN_PARTS and COUNTS[1] == getattr(getattr(flat, key, None), COUNT_KEYS[0], 0):
            row["flat"] = key
        row_of = families().get(name)
        of = "" if row_of is None else row_of.parts.get(key, "")
        rules = [rule for rule in row_of.entries if f"{key}." in json.dumps(rule)] if row_of else []
        if more := other(alone, of or next(filter(None, kind), f"{name}.{key}"), rules):
            row["values"][key] = more
        if any(kind):
            row["types"][key] = next(filter(None, kind))
        elif dataclasses.is_dataclass(part):
            inner = parts(part, f"{name}.{key}")
            # Others without a type are options.
            if inner or OWN & {field.name for field in dataclasses.fields(part)}:
                row["types"][key] = f"{name}.{key}"
            found |= inner
    filled = {key: values for key, values in row.items() if values}
    return {name: filled, **found} if row["types"] else found


def parts_inside(cls: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The name and class of every part, and of the parts of those without a type."""
    for key, part in (getattr(cls, "sub_configs", None) or {}).items():
        if dataclasses.is_dataclass(part):
            kind = getattr(part, "model_type", "") or f"{name}.{key}"
            yield kind, part
            yield from parts_inside(part, kind)


def rows() -> dict[str, Any]:
    """A row for each type of the families that a class makes, and the parts of all."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    warnings.simplefilter("ignore")
    import transformers
    from transformers import CONFIG_MAPPING

    transformers.logging.set_verbosity_error()
    classes = {name: CONFIG_MAPPING[name] for name in CONFIG_MAPPING}
    found, inner = {}, {}
    for name in sorted(CONFIG_MAPPING):
        inner |= parts(CONFIG_MAPPING[name], name)
        for kind, part in parts_inside(CONFIG_MAPPING[name], name):
            classes.setdefault(kind, part)
    every: list[dict[str, Any]] = []
    for name, family in sorted(families().items()):
        if name not in classes:
            continue
        known = whole(classes[name], family.entries)
        turns = name in CONFIG_MAPPING and any("rotary" in rule for rule in family.entries)
        if turns and (own := reads(classes[name])) is not None:
            every += [] if own in every else [own]
            known["reads"] = every.index(own)
        if known:
            found[name] = known
        for key, of in family.parts.items():  # parts that are read as another family's
            if (kind := f"{name}.{key}") in classes:
                found[kind] = whole(classes[kind], families()[of].entries)
    version = transformers.__version__
    return {"version": version, "reads": every, "types": found, "parts": inner}


def text(found: Mapping[str, Any]) -> str:
    """The file: a line for each type."""
    body = {}
    for key in ("types", "parts"):
        lines = [f"  {json.dumps(n)}: {json.dumps(r)}" for n, r in found[key].items()]
        body[key] = f'"{key}": {{\n' + ",\n".join(lines) + "\n}"
    lines = ",\n".join(f"  {json.dumps(row)}" for row in found["reads"])
    head = f'"version": {json.dumps(found["version"])},\n"reads": [\n{lines}\n]'
    return f"{{\n{head},\n{body['types']},\n{body['parts']}\n}}\n"


def main() -> int:
    """Compare, or write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the file")
    options = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # some classes order their types by a set
        seeded = {**os.environ, "PYTHONHASHSEED": "0"}
        os.execve(sys.executable, [sys.executable, *sys.argv], seeded)
    fresh = text(rows())
    if options.write:
        DATA.write_text(fresh, encoding="utf-8")
        return 0
    same = DATA.read_text(encoding="utf-8") == fresh
    print("as written" if same else f"{DATA.name} is of another version: run with --write")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
