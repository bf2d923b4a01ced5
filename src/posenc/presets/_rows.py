"""The rows of the JSON files, however each kind makes objects of them.

Templates are JSON in which a number may depend on a size: `{"expression": "3*dim//16"}`.
`tools/check_rows.py` holds each row against the type that declares its keys.
"""

from __future__ import annotations

import ast
import functools
import json
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import resources
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

from posenc._core.errors import SpecError, bad_spec
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
