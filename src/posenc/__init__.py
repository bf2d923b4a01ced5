"""posenc: positional encodings for Transformers, exact at any position.

The public names; each is imported when it is first used. Type checkers read `__init__.pyi`.
"""

from __future__ import annotations

import importlib
from typing import Any

from posenc._names import HOMES as _HOMES

__version__ = "0.1.0"

__all__ = [*sorted(_HOMES)]  # noqa: PLE0604 - the names stand in `_names`


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        import difflib

        close = difflib.get_close_matches(name, __all__, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise AttributeError(f"module 'posenc' has no attribute {name!r}.{hint}")
    module = importlib.import_module(_HOMES[name])
    value = module if _HOMES[name] == f"posenc.{name}" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
