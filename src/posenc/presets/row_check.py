"""A row of JSON held against the type that declares its keys."""

from __future__ import annotations

import functools
import types
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Required, Union, get_args, get_origin, get_type_hints

from posenc._core.errors import SpecError, mismatch, suggest

SHAPES: dict[Any, tuple[type, ...]] = {
    **dict.fromkeys((Mapping, dict), (dict,)),
    **dict.fromkeys((list, tuple, frozenset), (list, tuple)),
    float: (int, float),
}


def meaning(hint: Any) -> tuple[Any, str]:
    """The type of a key and the sentence that describes it; the sentence may follow another type.

    `Annotated[Mapping[str, Any], Builder, "how positions are made"]` is a `Builder` in JSON.
    """
    if get_origin(hint) is Required:
        return meaning(get_args(hint)[0])
    if get_origin(hint) is not Annotated:
        return hint, ""
    kind, *others, text = get_args(hint)
    return (*others, kind)[0], text


@functools.cache
def keys_of(row: type) -> tuple[Mapping[str, Any], frozenset[str]] | None:
    """The hint of each key of a row, and the keys that it must have; None for what is no row."""
    if not (hasattr(row, "_fields") or hasattr(row, "__total__")):
        return None
    hints = get_type_hints(row, include_extras=True)
    left_out: Mapping[str, Any] = getattr(row, "_field_defaults", {})
    whole = getattr(row, "__total__", True)
    required = {k for k in hints if whole or get_origin(hints[k]) is Required}
    return hints, frozenset(required - left_out.keys())


def check(hint: Any, value: Any, where: str) -> None:
    """Raise `SpecError` for a value of another type: where it stands, and what is allowed there."""
    kind = meaning(hint)[0]
    kinds = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    kinds = tuple(one for one in kinds if _has_shape(value, one))
    rows = {row: keys for row in kinds if (keys := keys_of(row))}
    if not kinds:
        raise SpecError(mismatch(where, getattr(kind, "__name__", str(kind)), repr(value)[:80]))
    if not rows:
        items = get_args(kinds[0])[isinstance(value, dict) :]
        lists = enumerate(value) if isinstance(value, (list, tuple)) else ()
        for place, inner in value.items() if isinstance(value, dict) else lists:
            check(items[0] if items else Any, inner, _at(where, place, inner))
        return
    meant = {row: keys for row, keys in rows.items() if keys[1] <= value.keys()}
    if not meant:
        needed = " or ".join(", ".join(sorted(required)) for _, required in rows.values())
        raise SpecError(mismatch(where, f"a row with {needed}", ", ".join(value) or "none"))
    row, (hints, _) = min(meant.items(), key=lambda one: len(value.keys() - one[1][0].keys()))
    for key, inner in value.items():
        if key not in hints:
            text = mismatch(where, f"a key of {row.__name__}", repr(key), suggest(key, hints))
            raise SpecError(text)
        check(hints[key], inner, f"{where}: {key}")


def _has_shape(value: Any, kind: Any) -> bool:
    """Whether JSON writes a value as it writes those of a type."""
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    shapes = (dict,) if keys_of(kind) else SHAPES.get(get_origin(kind) or kind, (kind,))
    return kind is Any or type(value) in shapes


def _at(where: str, place: object, row: Any) -> str:
    """Where an item stands, by what it is called rather than by its number."""
    names = (row.get("name"), *row.get("model_types", ())) if isinstance(row, dict) else ()
    named = next(filter(None, names), place)
    return f"{where}: {named}"
