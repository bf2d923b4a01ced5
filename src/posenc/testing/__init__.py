"""A battery of laws that any implementation of positions can be held to.

    from posenc.testing import adapt, check
    card = check(adapt(MyRotary, "rotary", dim=64))
    for line in card.lines():
        print(line)

`posenc check MODULE:NAME` does so from the command line, and pytest with `--posenc MODULE:NAME`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from posenc.testing.battery import check, laws, results
    from posenc.testing.contract import assert_contract
    from posenc.testing.lab import Law
    from posenc.testing.subject import Card, NotOffered, Result, Subject, start_of, tensor_of
    from posenc.testing.target import adapt, load, of_spec

# Imported when used, as pytest loads the plugin beside this file in every run.
_HOMES = {
    "battery": ("check", "laws", "results"),
    "contract": ("assert_contract",),
    "lab": ("Law",),
    "subject": ("Card", "NotOffered", "Result", "Subject", "start_of", "tensor_of"),
    "target": ("adapt", "load", "of_spec"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Card",
    "Law",
    "NotOffered",
    "Result",
    "Subject",
    "adapt",
    "assert_contract",
    "check",
    "laws",
    "load",
    "of_spec",
    "results",
    "start_of",
    "tensor_of",
]


# A type checker must not see it: to it, every misspelt name would then be there.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _HOME:
            raise AttributeError(f"module 'posenc.testing' has no attribute {name!r}")
        value = getattr(importlib.import_module(f"posenc.testing.{_HOME[name]}"), name)
        globals()[name] = value
        return value
