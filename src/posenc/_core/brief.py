"""Specs and values as people write them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from posenc._core.spec import Value

__all__ = ["brief", "plain"]


def plain(argument: Any) -> str:
    """A field in full: values in brief, anything else as Python writes it."""
    if isinstance(argument, tuple) and any(isinstance(value, Value) for value in argument):
        return f"({', '.join(map(plain, argument))}{',' * (len(argument) == 1)})"
    return brief(argument) if isinstance(argument, Value) else repr(argument)


def brief(value: Value, write: Callable[[Any], str] = plain) -> str:
    """A value without the fields that have their defaults; `write` makes the text of a field."""
    shown = []
    for field in dataclasses.fields(value):  # type: ignore[arg-type]
        argument = getattr(value, field.name)
        if argument != field.default:
            text = write(argument)
            shown.append(f"{field.name}={text}" if field.kw_only else text)
    return f"{type(value).__name__}({', '.join(shown)})"
