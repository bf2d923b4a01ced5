"""Formats of configs that are not of transformers, as data: `configs/formats.json`."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from posenc.presets._rows import of_keys, read

FOLDER = "configs"
PREFIX = "format:"  # of the model_type that a config of a format gets


class ConfigFormat(NamedTuple):
    """A row of the data."""

    name: str
    title: str
    source: tuple[Mapping[str, str], ...]
    all: tuple[str, ...]
    entries: list[Mapping[str, Any]]
    none: tuple[str, ...] = ()
    parts: tuple[str, ...] = ("",)
    when: Any = ()
    names: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    defaults: Mapping[str, Any] = MappingProxyType({})
    writes: tuple[Mapping[str, Any], ...] = ()
    silent: tuple[str, ...] = ()
    family: str = ""
    windows: str = ""

    @property
    def read_from(self) -> str:
        """The code that reads such a file, in a line."""
        one = self.source[0]
        return " ".join(one[key] for key in ("repository", "path", "version") if key in one)


@functools.lru_cache(maxsize=1)
def config_formats() -> Mapping[str, ConfigFormat]:
    """The rows by their names."""
    rows = (of_keys(ConfigFormat, file, **data) for file, data in read(FOLDER, "formats"))
    return MappingProxyType({row.name: row for row in rows})
