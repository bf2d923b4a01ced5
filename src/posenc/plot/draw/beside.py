"""Two encodings in one picture: matrices side by side, curves over each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from posenc.plot.draw.heat import bar
from posenc.plot.draw.sheet import Sheet, cells
from posenc.plot.raster import span
from posenc.plot.views.compare import values_of

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
    axes, the data of A or B, what is drawn of them or of both, and the limit; `fineness` is as of
    `Beside`.
    """

    def panels(sheet: Sheet, data: Any, most: int) -> None:
        wide, high = size(data, most)
        shown = [(name, side, values_of(data.view, side)) for name, side in sides_of(data)]
        if data.difference is not None:
            shown.append(("A \N{MINUS SIGN} B", data.a, data.difference))
        for place, (name, side, values) in enumerate(shown):
            axes = sheet.panel(place * (wide + GAP), 0, wide, high, "cells")
            paint(sheet, axes, side, values, data.limit)
            sheet.heading(axes, name, weight="bold")
            if place:
                axes.set(yticklabels=[], ylabel="")
        bar(sheet, len(shown) * (wide + GAP), 0, data.limit, height=min(120, high))

    return Beside(panels, fineness)


def sides_of(data: Any) -> tuple[tuple[str, Any], tuple[str, Any]]:
    """A and B by their names."""
    return ("A", data.a), ("B", data.b)


def square(data: Any, most: int) -> tuple[int, int]:
    """Pixels of a matrix of positions."""
    side = cells(data.a.positions[1] - data.a.positions[0], most)
    return side, side


def over(sheet: Sheet) -> tuple[dict[str, Any], dict[str, Any]]:
    """The styles of A and of B."""
    return sheet.style(0), {**sheet.style(1), "linestyle": (0, (5, 2))}


def legend(sheet: Sheet, axes: Any) -> None:
    """Which curve is A and which is B."""
    curves = [(sheet.name(place, "AB"[place]), style) for place, style in enumerate(over(sheet))]
    sheet.key(axes, curves, loc="upper right", ncols=2)
