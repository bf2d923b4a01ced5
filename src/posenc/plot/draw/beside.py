"""Two encodings in one picture: matrices side by side, curves over each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from posenc.plot.draw.heat import bar
from posenc.plot.draw.sheet import Sheet, cells
from posenc.plot.raster import span

GAP = 10  # between panels, beside what their labels need

Options = Mapping[str, Any]


class Beside(NamedTuple):
    """How `compare` paints a picture of two encodings, with panels of `most` pixels at most."""

    paint: Callable[[Sheet, Any, int], None]
    # The arguments that say how fine the numbers are: (options, pixels of a panel, scale).
    fineness: Callable[[Options, int, float], Options] = lambda _, __, ___: {}


def pixels_along(usual: int) -> Callable[[Options, int, float], Options]:
    """Square panels of so many positions, unless others are asked for, need `pixels`."""

    def fineness(options: Options, most: int, scale: float) -> Options:
        start, stop = span(options.get("positions", usual), "positions")
        return {"pixels": max(1, round(cells(stop - start, most) * scale))}

    return fineness


def matrices(
    size: Callable[[Any, int], tuple[int, int]],
    paint: Callable[[Sheet, Any, Any, Any, float], None],
    fineness: Callable[[Options, int, float], Options] = lambda _, __, ___: {},
) -> Beside:
    """A, B and A - B side by side.

    `size` gives the pixels of a panel from what is compared and the most; `paint` takes sheet,
    axes, the data of A or B, the difference or None, and the limit; `fineness` is as of `Beside`.
    """

    def panels(sheet: Sheet, data: Any, most: int) -> None:
        wide, high = size(data, most)
        shown = [("A", data.a, None), ("B", data.b, None)]
        if data.difference is not None:
            shown.append(("A \N{MINUS SIGN} B", data.a, data.difference))
        for place, (name, side, difference) in enumerate(shown):
            axes = sheet.panel(place * (wide + GAP), 0, wide, high, "cells")
            paint(sheet, axes, side, difference, data.limit)
            sheet.heading(axes, name, weight="bold")
            if place:
                axes.set(yticklabels=[], ylabel="")
        bar(sheet, len(shown) * (wide + GAP), 0, data.limit, height=min(120, high))

    return Beside(panels, fineness)


def over(sheet: Sheet) -> tuple[dict[str, Any], dict[str, Any]]:
    """The styles of A and of B."""
    return sheet.style(0), {**sheet.style(1), "linestyle": (0, (5, 2))}


def legend(sheet: Sheet, axes: Any) -> None:
    """Which curve is A and which is B."""
    curves = [(sheet.name(place, "AB"[place]), style) for place, style in enumerate(over(sheet))]
    sheet.key(axes, curves, loc="upper right", ncols=2)
