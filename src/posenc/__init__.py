"""posenc: positional encodings for Transformers, exact at any position.

The public names; each is imported when it is first used. Type checkers read `__init__.pyi`.
"""

from __future__ import annotations

import importlib
import operator
import sys
from typing import Any

from posenc._names import ALIASES as _ALIASES
from posenc._names import HANDED as _HANDED
from posenc._names import HOMES as _HOMES
from posenc._names import INSIDE as _INSIDE
from posenc._names import OLDER as _OLDER
from posenc._names import PACKAGES as _PACKAGES
from posenc._names import __version__ as __version__
from posenc._names import has_part as _has_part

__all__ = [*sorted(_HOMES)]  # noqa: PLE0604 - the names stand in `_names`


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f"posenc.{name}")
    if other := _ALIASES.get(name) or _OLDER.get(name):
        return __getattr__(other)
    if name not in _HOMES:
        if _has_part(__path__, name):
            # `from posenc import registry` asks first, and goes on to import it.
            todo = _INSIDE.get(name, "dir(posenc) has its names.")
            raise AttributeError(f"posenc.{name} is no part of the interface. {todo}")
        from posenc._core.foreign import name_advice

        hint = name_advice(name, [*__all__, *_PACKAGES, *_ALIASES])
        raise AttributeError(f"module 'posenc' has no attribute {name!r}. {hint}")
    module = importlib.import_module(_HOMES[name])
    value = module if _HOMES[name] == f"posenc.{name}" else getattr(module, name)
    globals()[name] = value
    return value


_HANDED.update(
    # What a notebook shows of a value, what a config says, and a verb that specs have as a method.
    card=lambda value: importlib.import_module(f"{__name__}.plot.card").html(value),
    reading=lambda config: __getattr__("facts")(config).plan,
    verb=lambda path: operator.attrgetter(path)(sys.modules[__name__]),
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_ALIASES})
