"""Specs and values as people write them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any


def brief(value: Any, write: Callable[[Any], str] = repr) -> str:
    """The call that makes a value, without the fields that have their defaults."""
    shown, by_place = [], True
    for field in dataclasses.fields(value):
        argument = getattr(value, field.name)
        # By their texts, as 0.0 and -0.0 are equal and have other JSON.
        if field.default is not dataclasses.MISSING and repr(argument) == repr(field.default):
            by_place = False
            continue
        by_place &= not field.kw_only
        shown.append(f"{'' if by_place else f'{field.name}='}{write(argument)}")
    return f"{type(value).__name__}({', '.join(shown)})"
