"""Ticks: as many as have room for their labels, at round numbers."""

from __future__ import annotations

import math
from typing import Any

from posenc.plot.words import number, whole

MOST = 6  # ticks of an axis


def _room(axis: Any, letters: int, most: int = MOST) -> int:
    """How many labels of so many letters stand beside each other along an axis."""
    box = axis.axes.get_window_extent()
    size = axis.get_major_ticks(1)[0].label1.get_size()
    across = axis.axis_name == "x"
    length = (box.width if across else box.height) * 72 / axis.axes.figure.dpi
    each = size * (0.64 * letters + 1.2 if across else 1.7)
    return max(1, min(most, int(length / each)))


def thousands(axis: Any) -> None:
    """Integers with thousands apart at the ticks of an axis."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    class Integers(MaxNLocator):
        """Round integers."""

        def tick_values(self, vmin: float, vmax: float) -> Any:
            letters = max(len(whole(vmin)), len(whole(vmax)))
            self.set_params(nbins=_room(self.axis, letters))
            return super().tick_values(vmin, vmax)

    axis.set_major_locator(Integers(MOST, integer=True))
    axis.set_major_formatter(FuncFormatter(lambda x, _: whole(x)))


def decades(axis: Any) -> None:
    """Plain numbers at the ticks of a logarithmic axis."""
    from matplotlib.ticker import FuncFormatter, Locator, LogLocator, NullFormatter

    class Decades(LogLocator):
        """Powers of ten."""

        def tick_values(self, vmin: float, vmax: float) -> Any:
            letters = max(len(number(vmin)), len(number(vmax)))
            self.numticks = max(2, _room(self.axis, letters))
            return super().tick_values(vmin, vmax)

    class Powers(Locator):
        """Zero and powers of ten above it."""

        def __call__(self) -> list[float]:
            assert self.axis is not None, "it is of an axis"  # noqa: S101 - for the type checker
            low, high = self.axis.get_view_interval()
            last = int(math.log10(max(high, 10.0)))
            every = -(-last // _room(self.axis, len(number(10.0**last))))
            return [t for t in (0.0, *(10.0**k for k in range(every, last + 1, every))) if t >= low]

    if axis.get_scale() == "symlog":
        axis.set_major_locator(Powers())
    elif isinstance(axis.get_major_locator(), LogLocator):
        axis.set_major_locator(Decades())
    axis.set_major_formatter(FuncFormatter(lambda x, _: number(x)))
    axis.set_minor_formatter(NullFormatter())


def place_ticks(axis: Any, start: int, stop: int, most: int = MOST) -> None:
    """Ticks at the middles of cells `start` to `stop` - 1."""
    from matplotlib.ticker import FuncFormatter, Locator, MaxNLocator

    class Middles(Locator):
        """The middles of cells with round numbers."""

        def __call__(self) -> list[float]:
            letters = max(len(whole(start)), len(whole(stop - 1)))
            some = MaxNLocator(_room(self.axis, letters, most), integer=True)
            ticks = [int(t) for t in some.tick_values(start, stop - 1) if start <= t < stop]
            return [t + 0.5 for t in ticks or [start]]

    axis.set_major_locator(Middles())
    axis.set_major_formatter(FuncFormatter(lambda x, _: whole(x - 0.5)))
