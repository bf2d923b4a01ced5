"""posenc: positional encodings for Transformers, exact at any position.

The public names; each is imported when it is first used. Type checkers read `__init__.pyi`.
"""

from __future__ import annotations

import importlib
from typing import Any

from posenc._names import ALIASES as _ALIASES
from posenc._names import HANDED as _HANDED
from posenc._names import HOMES as _HOMES
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
            raise AttributeError(name)  # `from posenc import registry` goes on to import it
        from posenc._core.foreign import name_advice

        hint = name_advice(name, [*__all__, *_PACKAGES, *_ALIASES])
        raise AttributeError(f"module 'posenc' has no attribute {name!r}. {hint}")
    module = importlib.import_module(_HOMES[name])
    value = module if _HOMES[name] == f"posenc.{name}" else getattr(module, name)
    globals()[name] = value
    return value


def _card(value: Any) -> str:
    """What a notebook shows of a value."""
    from posenc.plot.card import html

    return html(value)


def _reading(config: Any) -> Any:
    """What a config of transformers says, its errors among it."""
    from posenc.detect.facts import facts

    return facts(config).plan


_HANDED.update(card=_card, reading=_reading)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_ALIASES})
