"""The rows of the JSON files, however each kind makes objects of them.

A row may be held against the type that declares its keys. Its templates are JSON in which a number
may depend on a size: `{"expression": "3*dim//16"}`.
"""

from __future__ import annotations

import ast
import functools
import json
import operator
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import resources
from types import MappingProxyType
from typing import (
    Annotated,
    Any,
    Literal,
    Protocol,
    Required,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from posenc._core.errors import SpecError, bad_spec, suggest
from posenc._core.expressions import evaluate, parsed


class _Named(Protocol):
    @property
    def name(self) -> str: ...


Row = TypeVar("Row", bound=_Named)
Made = TypeVar("Made")


def read(folder: str, kind: str | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of each JSON file of a folder, or of none, with the name of the file.

    The files of a kind are called after it: `kind.json`, `kind-more.json`.
    """
    root = resources.files("posenc.presets")
    for file in sorted((root / folder if folder else root).iterdir(), key=lambda f: f.name):
        stem, _, ending = file.name.rpartition(".")
        if ending == "json" and kind in (None, stem.partition("-")[0]):
            for data in json.loads(file.read_text(encoding="utf-8")):
                yield file.name, data


@functools.lru_cache(maxsize=8)
def table(name: str) -> Mapping[str, Any]:
    """A file of `configs/` that is one dictionary."""
    file = resources.files("posenc.presets") / "configs" / f"{name}.json"
    return MappingProxyType(json.loads(file.read_text(encoding="utf-8")))


def rows(
    what: str,
    folder: str,
    make: Callable[..., Row],
    more: Iterable[tuple[str, dict[str, Any]]] = (),
) -> dict[str, Row]:
    """Rows by name, in the order of the data; `make` takes the keys of one, of a file or of more.

    Lists of hints, sources and entries become tuples.
    """
    found: dict[str, Row] = {}
    for file, data in (*read(folder), *more):
        hints = {key: tuple(values) for key, values in data.pop("recognise").items()}
        data |= {key: tuple(values) for key, values in data.items() if isinstance(values, list)}
        made = of_keys(make, file, recognise=hints, **data)
        if made.name in found:
            raise bad_spec(f"{what}s: {file}", "a new name", repr(made.name))
        found[made.name] = made
    return found


def of_keys(make: Callable[..., Made], file: str, **data: Any) -> Made:
    """What `make` makes of the keys of a row."""
    try:
        return make(**data)
    except TypeError as error:
        raise SpecError(f"{file}: {error}; `make check` names the row") from None


def fill(template: Any, sizes: Mapping[str, int]) -> Any:
    """The template with each `{"expression": TEXT}` as a number."""
    if isinstance(template, Mapping):
        return (
            _number(template["expression"], sizes)
            if set(template) == {"expression"}
            else {key: fill(value, sizes) for key, value in template.items()}
        )
    return [fill(item, sizes) for item in template] if isinstance(template, list) else template


def _number(text: str, sizes: Mapping[str, int]) -> int:
    try:
        return operator.index(evaluate(parsed(text), lambda name: sizes[ast.unparse(name)]))
    except (LookupError, TypeError, ValueError):
        raise bad_spec("presets", f"integers, {sorted(sizes)} and + - * //", text) from None


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
    return hints, frozenset(
        {k for k in hints if whole or get_origin(hints[k]) is Required} - left_out.keys()
    )


def check(hint: Any, value: Any, where: str) -> None:
    """Raise `SpecError` for a value of another type: where it stands, and what is allowed there."""
    kind = meaning(hint)[0]
    kinds = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    kinds = tuple(one for one in kinds if _has_shape(value, one))
    rows = {row: keys for row in kinds if (keys := keys_of(row))}
    if not kinds:
        raise bad_spec(where, getattr(kind, "__name__", str(kind)), repr(value)[:80])
    if not rows:
        item = (*get_args(kinds[0])[isinstance(value, dict) :], Any)[0]
        lists = enumerate(value) if isinstance(value, (list, tuple)) else ()
        for place, inner in value.items() if isinstance(value, dict) else lists:
            check(item, inner, _at(where, place, inner))
        return
    meant = {row: keys for row, keys in rows.items() if keys[1] <= value.keys()}
    if not meant:
        needed = " or ".join(", ".join(sorted(required)) for _, required in rows.values())
        raise bad_spec(where, f"a row with {needed}", ", ".join(value) or "none")
    row, (hints, _) = min(meant.items(), key=lambda one: len(value.keys() - one[1][0].keys()))
    for key, inner in value.items():
        if key not in hints:
            raise bad_spec(where, f"a key of {row.__name__}", repr(key), suggest(key, hints))
        check(hints[key], inner, f"{where}: {key}")


def _has_shape(value: Any, kind: Any) -> bool:
    """Whether JSON writes a value as it writes those of a type."""
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    return kind is Any or type(value) in (
        (dict,) if keys_of(kind) else SHAPES.get(get_origin(kind) or kind, (kind,))
    )


def _at(where: str, place: object, row: Any) -> str:
    """Where an item stands, by what it is called rather than by its number."""
    names = (row.get("name"), *row.get("model_types", ())) if isinstance(row, dict) else ()
    return f"{where}: {next(filter(None, names), place)}"
