"""Pictures of encodings that show what is there and nothing else.

    import posenc, posenc.plot

    posenc.plot.table(posenc.Sinusoidal(50), positions=45_000).save("table.png")

Each picture takes a spec, draws into a figure of its own or the axes `ax` it is given, and returns
a `Picture`, whose `data` holds every array and sentence that is shown. The data alone, without
matplotlib, come from `posenc.plot.views`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from posenc._names import has_part

if TYPE_CHECKING:
    from posenc.plot.draw.biases import bias
    from posenc.plot.draw.comparison import compare
    from posenc.plot.draw.curves import offset, wavelengths, waves
    from posenc.plot.draw.finding import find
    from posenc.plot.draw.picture import Picture
    from posenc.plot.draw.stretching import stretch
    from posenc.plot.draw.tables import similarity, table
    from posenc.plot.draw.tables import sum_ as sum  # noqa: A004 - the name of the picture
    from posenc.plot.draw.turns import counter, rotation

# Name -> (module, name there): matplotlib is loaded when something is drawn.
_HOME = {
    "bias": ("biases", "bias"),
    "compare": ("comparison", "compare"),
    "counter": ("turns", "counter"),
    "find": ("finding", "find"),
    "offset": ("curves", "offset"),
    "Picture": ("picture", "Picture"),
    "rotation": ("turns", "rotation"),
    "similarity": ("tables", "similarity"),
    "stretch": ("stretching", "stretch"),
    "sum": ("tables", "sum_"),
    "table": ("tables", "table"),
    "wavelengths": ("curves", "wavelengths"),
    "waves": ("curves", "waves"),
}

__all__ = [
    "Picture",
    "bias",
    "compare",
    "counter",
    "find",
    "offset",
    "rotation",
    "similarity",
    "stretch",
    "sum",
    "table",
    "wavelengths",
    "waves",
]


# A type checker must not see it: to it, every misspelt name would then be there.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _HOME:
            if has_part(__path__, name):
                raise AttributeError(name)  # an import goes on to find it
            from posenc._core.foreign import name_advice

            todo = name_advice(name, __all__)
            raise AttributeError(f"posenc.plot has no picture {name!r}. {todo}")
        module, inside = _HOME[name]
        value = getattr(importlib.import_module(f"posenc.plot.draw.{module}"), inside)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
