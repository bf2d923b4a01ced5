"""Two encodings in one picture: matrices side by side, curves over each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from posenc.plot.draw.heat import BAR, bar
from posenc.plot.draw.sheet import Sheet, cells
from posenc.plot.raster import span

__all__ = ["BOTTOM", "LEFT", "Beside", "legend", "matrices", "one", "over", "pixels_along"]

LEFT, BOTTOM, GAP = 64, 60, 26

Options = Mapping[str, Any]


class Beside(NamedTuple):
    """How `compare` lays out a picture of two encodings, with panels of `most` pixels at most."""

    size: Callable[[Any, int], tuple[int, int]]
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

    Parameters
    ----------
    size : callable
        Pixels of a panel from what is compared, and the most.
    paint : callable
        (sheet, axes, data of A or B, the difference or None, limit).
    fineness : callable
        As of `Beside`.
    """

    def room(data: Any, most: int) -> tuple[int, int]:
        wide, high = size(data, most)
        return LEFT + 3 * wide + 2 * GAP + BAR, high + BOTTOM + 16

    def panels(sheet: Sheet, data: Any, most: int) -> None:
        wide, high = size(data, most)
        shown = [("A", data.a, None), ("B", data.b, None)]
        if data.difference is not None:
            shown.append(("A \N{MINUS SIGN} B", data.a, data.difference))
        for place, (name, side, difference) in enumerate(shown):
            axes = sheet.panel(LEFT + place * (wide + GAP), 16, wide, high)
            paint(sheet, axes, side, difference, data.limit)
            sheet.heading(axes, name, weight="bold")
            if place:
                axes.set_yticklabels([])
                axes.set_ylabel("")
        bar(sheet, LEFT + 3 * wide + 2 * GAP + 16, 16, data.limit, height=min(120, high))

    return Beside(room, panels, fineness)


def over(sheet: Sheet) -> tuple[dict[str, Any], dict[str, Any]]:
    """The styles of A and of B."""
    return sheet.style(0), {**sheet.style(1), "linestyle": (0, (5, 2))}


def legend(sheet: Sheet, axes: Any) -> None:
    """Which curve is A and which is B."""
    axes.legend(loc="upper right", fontsize=9, frameon=False, ncols=2, labelcolor=sheet.theme.ink)


def one(data: Any, most: int) -> tuple[int, int]:
    """Room of one panel, twice as wide, with both."""
    del data
    return LEFT + 2 * most + 190, 320 + BOTTOM
