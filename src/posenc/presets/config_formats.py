"""Formats of configs that are not of transformers, as data: `configs/formats.json`.

Keys of a row are declared in `posenc.presets.row_types_formats`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from posenc.presets._rows import read

PREFIX = "format:"  # of the model_type that a config of a format gets
Row = Mapping[str, Any]


@functools.lru_cache(maxsize=1)
def config_formats() -> dict[str, Row]:
    """The rows by their names."""
    return {row["name"]: row for _, row in read("configs", "formats")}


def format_of(model_type: object) -> Row | None:
    """The row of a format by the model_type that its translated configs have."""
    name = model_type.removeprefix(PREFIX) if isinstance(model_type, str) else ""
    return config_formats().get(name) if model_type == PREFIX + name else None
