"""Pictures of encodings that show what is there and nothing else.

    import posenc, posenc.plot

    posenc.plot.table(posenc.Sinusoidal(50), positions=45_000).save("table.png")

Each picture takes a spec, draws into a figure of its own or the axes `ax` it is given, and returns
a `Picture`, whose `data` holds every array and sentence that is shown. The data alone, without
matplotlib, come from `posenc.plot.views`. Every picture is a row of `posenc.plot.rows`. Type
checkers read `__init__.pyi`.
"""

from __future__ import annotations

import sys
from typing import Any

from posenc._core.calls import checked_call as _checked_call
from posenc._core.foreign import Package as _Package
from posenc._names import has_part as _has_part
from posenc.plot.rows import PICTURES as _PICTURES

__all__ = ["Picture", *sorted(_PICTURES)]  # noqa: PLE0604 - the names stand in `rows`

sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if name not in __all__:
        if _has_part(__path__, name):
            raise AttributeError(name)  # an import goes on to find it
        from posenc._core.foreign import name_advice

        todo = name_advice(name, __all__, "posenc.plot")
        raise AttributeError(f"posenc.plot has no picture {name!r}. {todo}")
    from posenc.plot.draw import pictures  # matplotlib is loaded when something is drawn

    picture = getattr(pictures, name)
    globals()[name] = picture if isinstance(picture, type) else _checked_call(picture, {})
    return globals()[name]


def __dir__() -> list[str]:
    return sorted(__all__)
