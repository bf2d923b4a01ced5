"""Specs and values as people write them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from posenc._core.spec import Value

__all__ = ["brief", "plain"]


def plain(found: Any) -> str:
    """A field in full: values in brief, anything else as Python writes it."""
    if isinstance(found, tuple) and any(isinstance(value, Value) for value in found):
        return f"({', '.join(map(plain, found))}{',' * (len(found) == 1)})"
    return brief(found) if isinstance(found, Value) else repr(found)


def brief(value: Value, write: Callable[[Any], str] = plain) -> str:
    """A value without the fields that have their defaults; `write` makes the text of a field."""
    shown = []
    for field in dataclasses.fields(value):  # type: ignore[arg-type]
        found = getattr(value, field.name)
        if found != field.default:
            text = write(found)
            shown.append(f"{field.name}={text}" if field.kw_only else text)
    return f"{type(value).__name__}({', '.join(shown)})"
