"""The rows of diffusers: transformers by class in `configs/diffusers.json`, VAEs in `vaes.json`."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from posenc.presets._rows import check, read
from posenc.presets.row_types_diffusers import DiffusersRow

VERSION = "0.42.1"  # of diffusers, in which the rows were read


@functools.cache
def transformers() -> Mapping[str, Any]:
    """The row of each transformer class."""
    return {name: row for _, row in read("configs", "diffusers") for name in row["classes"]}


@functools.cache
def vaes() -> Mapping[str, Any]:
    """The row of each class of VAEs."""
    return {name: row for _, row in read("configs", "vaes") for name in row["classes"]}


@functools.lru_cache(maxsize=256)
def transformer(name: str) -> Any:
    """The row of a class, or None; its rules are checked when it is first asked for."""
    if row := transformers().get(name):
        check(DiffusersRow, row, f"configs/diffusers: {name}")
    return row


def rotary_modules(name: str) -> tuple[str, ...]:
    """The attributes of a class of transformers that make its rotations."""
    row = transformer(name) or {"entries": ()}
    turning = (rule for rule in row["entries"] if rule.get("name") != "embeddings")
    leaves = (rule.get("modules", {}).get(name, rule.get("module")) for rule in turning)
    return tuple(dict.fromkeys(filter(None, leaves)))
