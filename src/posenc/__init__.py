"""posenc: positional encodings for Transformers, exact at any position.

The public names; each is imported when it is first used. Type checkers read `__init__.pyi`.
"""

from __future__ import annotations

import importlib
import operator
import re
import sys
from typing import Any

from posenc import _names
from posenc._names import __version__ as __version__

__all__ = [*sorted(_names.HOMES)]  # noqa: PLE0604 - the names stand in `_names`


def __getattr__(name: str) -> Any:
    if name in _names.PACKAGES:
        return importlib.import_module(f"posenc.{name}")
    if other := _names.ALIASES.get(name) or _names.OLDER.get(name):
        return __getattr__(other)
    if name not in _names.HOMES:
        if _names.has_part(__path__, name):
            # `from posenc import registry` asks first, and goes on to import it.
            todo = _names.INSIDE.get(name, "dir(posenc) lists its names.")
            raise AttributeError(f"posenc.{name} is not part of the interface. {todo}")
        from posenc._core.foreign import name_advice

        # Tools ask modules for `__wrapped__` and the like, a thousand times while pytest collects.
        hint = not name.startswith("_") and name_advice(
            name, [*__all__, *_names.PACKAGES, *_names.ALIASES]
        )
        raise AttributeError(f"module 'posenc' has no attribute {name!r}. {hint or ''}".strip())
    module = importlib.import_module(_names.HOMES[name])
    value = module if _names.HOMES[name] == f"posenc.{name}" else getattr(module, name)
    globals()[name] = value
    return value


_names.HANDED.update(
    # What a notebook shows of a value and `print` says, what a config says, what a run of a model
    # shows, and a verb that specs have as a method.
    card=lambda value: importlib.import_module(f"{__name__}.plot.card").html(value),
    told=lambda value: importlib.import_module(f"{__name__}.plot.card").lines_of(value),
    small=lambda name: importlib.import_module(f"{__name__}._core.spec.checks").small(
        __getattr__(name)
    ),
    reading=lambda config: __getattr__("facts")(config).plan,
    trace=lambda asked: importlib.import_module(f"{__name__}.detect.trace.source").of_side(*asked),
    verb=lambda path: operator.attrgetter(path)(sys.modules[__name__]),
)


class _Parts:
    """The finder that is asked last: what to write for a module of posenc that is none."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:  # noqa: ARG004
        asker = sys._getframe(1).f_back
        # Whoever asks whether there is such a module, and imports nothing, is told: none.
        if asker is None or asker.f_code.co_name != "_find_and_load_unlocked":
            return
        package, _, part = name.rpartition(".")
        if package in sys.modules and re.fullmatch(rf"{__name__}(\.\w+)*\.[a-zA-Z]\w*", name):
            from posenc._core.foreign import absence

            # With a name in it, `from posenc import NAME` would drop its words.
            todo = f"{name} is no module. Write from {package} import {part}."
            raise ModuleNotFoundError(absence(sys.modules[package], part) or todo)


# The last, and once, however often the package is loaded.
sys.meta_path[:] = [
    *(each for each in sys.meta_path if getattr(each, "__module__", "") != __name__),
    _Parts,
]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_names.ALIASES})
