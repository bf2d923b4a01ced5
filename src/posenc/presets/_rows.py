"""The rows of the JSON files, however each kind makes objects of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from importlib import resources
from typing import Any, Protocol, TypeVar

from posenc._core.errors import SpecError, mismatch


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
