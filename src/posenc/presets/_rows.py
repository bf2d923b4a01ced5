"""The rows of the JSON files, however each kind makes objects of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from importlib import resources
from typing import Any, Protocol, TypeVar

from posenc._core.errors import ArgumentError, SpecError, closest, mismatch, suggest
from posenc._core.foreign import letters


class _Named(Protocol):
    @property
    def name(self) -> str: ...


Row = TypeVar("Row", bound=_Named)


def read(folder: str, kind: str | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of each JSON file of a folder, or of none, with the name of the file.

    The files of a kind are called after it: `kind.json`, `kind-more.json`.
    """
    root = resources.files("posenc.presets")
    files = (root / folder if folder else root).iterdir()
    for file in sorted(files, key=lambda f: f.name):
        stem, _, ending = file.name.rpartition(".")
        if ending == "json" and kind in (None, stem.partition("-")[0]):
            for data in json.loads(file.read_text(encoding="utf-8")):
                yield file.name, data


def rows(what: str, folder: str, make: Callable[..., Row]) -> dict[str, Row]:
    """Rows by name, in the order of the data; `make` takes the keys of one.

    Lists of hints and sources become tuples.
    """
    found: dict[str, Row] = {}
    for file, data in read(folder):
        hints = {key: tuple(values) for key, values in data.pop("recognise").items()}
        made = make(recognise=hints, sources=tuple(data.pop("sources")), **data)
        if made.name in found:
            raise SpecError(mismatch(f"{what}s: {file}", "a new name", repr(made.name)))
        found[made.name] = made
    return found


def find(what: str, name: str, known: Mapping[str, Row]) -> Row:
    """The row of a name."""
    if name not in known:
        todo = _advice(str(name), known)
        raise ArgumentError(mismatch(what, f"the name of a {what}", repr(name), todo))
    return known[name]


def _advice(name: str, known: Mapping[str, Row]) -> str:
    """What to write for the name of a model or family: a row, or who reads the whole model."""
    from posenc.presets.families import families

    word = letters(name.rpartition("/")[2])
    hints: dict[str, list[str]] = {}  # model type -> the rows that models of it use
    for model_type, family in families().items():
        rules = [rule[key] for rule in family.entries for key in ("rotary", "table") if key in rule]
        hints[model_type] = [rule for rule in rules if isinstance(rule, str) and rule in known]
    for row in known.values():
        recognise: Mapping[str, tuple[str, ...]] = getattr(row, "recognise", {})
        for model_type in recognise.get("model_types", ()):
            hints.setdefault(model_type, []).append(row.name)
    begins = [other for other in (*known, *hints) if word.startswith(letters(other))]
    nearest = max(begins, key=lambda other: len(letters(other)), default="")
    if len(letters(nearest)) > 1 and nearest in known:
        return f"Did you mean {nearest!r}?"
    if len(letters(nearest)) > 1:
        used = " and ".join(f"{row!r}" for row in dict.fromkeys(hints[nearest]))
        listed = f"Models of the type {nearest} use {used}. " if used else ""
        alike = [other for other in known if letters(other).startswith(word)][:3]
        if alike and not used:
            listed = f"Did you mean {' or '.join(map(repr, alike))}? "
        return f"{listed}posenc.explain(CONFIG), or `posenc explain`, reads a whole model."
    inside = [other for other in known if len(word) > 2 and word in letters(other)][:3]
    near = closest(name, known)
    return (
        f"Did you mean {' or '.join(map(repr, inside))}?"
        if inside and not near
        else suggest(name, known)
    )
