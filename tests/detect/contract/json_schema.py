"""What of JSON Schema (2020-12) the schema of contracts uses, as a check of values from a file."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Any

from posenc._core.errors import mismatch, suggest

TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "null": (type(None),),
}


def violation(value: Any, schema: Mapping[str, Any]) -> str | None:
    """The first thing in a value that a schema forbids, in words; None where there is none."""
    return _violation(value, schema, schema, "")


def _violation(value: Any, rule: Mapping[str, Any], root: Mapping[str, Any], at: str) -> str | None:
    if "$ref" in rule:
        rule = root["$defs"][rule["$ref"].removeprefix("#/$defs/")]
    if "oneOf" in rule:
        return _of_sorts(value, rule["oneOf"], root, at)
    types = rule.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(_is(value, name) for name in types):
        return mismatch(at or "the file", " or ".join(types), _shown(value))
    known = [rule["const"]] if "const" in rule else rule.get("enum")
    if known is not None and value not in known:
        return mismatch(at, " or ".join(map(repr, known)), _shown(value))
    if not re.search(rule.get("pattern", ""), value if isinstance(value, str) else ""):
        return mismatch(at, f"a text of the form {rule['pattern']}", _shown(value))
    if isinstance(value, dict):
        return _in_object(value, rule, root, at)
    if isinstance(value, list) and "items" in rule:
        item = rule["items"]
        if item == {"type": "number"}:  # most of a file
            bad = next((i for i, v in enumerate(value) if not _is(v, "number")), None)
            return None if bad is None else mismatch(f"{at}[{bad}]", "number", _shown(value[bad]))
        for i, each in enumerate(value):
            wrong = _violation(each, item, root, f"{at}[{i}]")
            if wrong is not None:
                return wrong
    return None


def _in_object(
    value: Mapping[str, Any], rule: Mapping[str, Any], root: Mapping[str, Any], at: str
) -> str | None:
    if "if" in rule:
        holds = _violation(value, rule["if"], root, at) is None
        wrong = _violation(value, rule["then" if holds else "else"], root, at)
        if wrong is not None:
            return wrong
    properties, others = rule.get("properties", {}), rule.get("additionalProperties", True)
    for key in rule.get("required", ()):
        if key not in value:
            return mismatch(at or "the file", f"the key {key!r}", f"keys {sorted(value)[:12]}")
    for key, each in value.items():
        inner = properties.get(key, others)
        if inner is False:
            return mismatch(
                at or "the file", "known keys", f"{key[:80]!r}", suggest(key, properties)
            )
        if inner is not True:
            wrong = _violation(each, inner, root, f"{at}.{key[:80]}" if at else key[:80])
            if wrong is not None:
                return wrong
    return None


def _of_sorts(value: Any, sorts: list[Any], root: Mapping[str, Any], at: str) -> str | None:
    """A record is of the sort that its key `check` names."""
    names = [sort["$ref"].rpartition("/")[2] for sort in sorts]
    check = value.get("check") if isinstance(value, dict) else None
    if check not in names:
        todo = suggest(check, names)
        return mismatch(f"{at}.check", "a sort of record", _shown(check), todo)
    return _violation(value, {"$ref": f"#/$defs/{check}"}, root, at)


def _is(value: Any, name: str) -> bool:
    if isinstance(value, (int, float)) and not abs(value) <= sys.float_info.max:  # NaN, too
        return False
    return isinstance(value, TYPES[name]) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    return repr(value)[:60]
