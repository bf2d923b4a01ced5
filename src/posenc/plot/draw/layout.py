"""Where panels stand, as far apart as labels need and as large as the room allows; their pixels.

Pixels of the device in axes are as they are computed: nothing resamples them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations
from typing import Any, Literal, NamedTuple

import numpy as np

from posenc.plot import palette
from posenc.plot.rows import require

PAD, BELOW = 9.0, 8.0  # points between the labels of neighbours, and of those below each other
Keep = Literal["", "cells", "square", "still"]


@dataclass
class SheetPanel:
    """Axes with the box that they were planned in, in points from the top left."""

    axes: Any
    box: tuple[float, float, float, float]  # left, top, width, height
    # What is kept when the picture is fitted: nothing; the proportions, unless a height is asked
    # for; the proportions in any case; the width.
    keep: Keep
    needs: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)  # left, top, right, bottom

    def span(self, axis: int) -> tuple[float, float]:
        """From and to along x (0) or y (1)."""
        return self.box[axis], self.box[axis] + self.box[axis + 2]


def along(
    panels: Sequence[SheetPanel], axis: int, factors: Sequence[float]
) -> tuple[list[tuple[float, float]], float]:
    """Where panels begin and end along x (0) or y (1), and how long all is with its labels.

    Each is stretched by its factor. What stood at one place stays at one place.
    """
    spans = [panel.span(axis) for panel in panels]
    before, after = ([panel.needs[axis + side] for panel in panels] for side in (0, 2))
    cuts = sorted({edge for span in spans for edge in span})
    at = {cuts[0]: 0.0}
    for low, high in pairwise(cuts):
        over = [i for i, span in enumerate(spans) if span[0] <= low and high <= span[1]]
        free = [i for i in over if panels[i].keep != "still"] or over
        longest = max((factors[i] for i in free), default=0.0) * (high - low)
        apart = [
            at[spans[i][1]] + after[i] + before[j] + (PAD, BELOW)[axis]
            for i, j in permutations(range(len(spans)), 2)
            if spans[i][1] <= low and spans[j][0] == high and _meet(panels[i], panels[j], 1 - axis)
        ]
        at[high] = max([at[low] + longest, *apart])
    shift = max(need - at[span[0]] for need, span in zip(before, spans, strict=True))
    places = [(at[first] + shift, at[last] + shift) for first, last in spans]
    return places, max(end + need for (_, end), need in zip(places, after, strict=True))


def _meet(one: SheetPanel, other: SheetPanel, axis: int) -> bool:
    (a, b), (c, d) = one.span(axis), other.span(axis)
    return a < d and c < b


def stretched(
    panels: Sequence[SheetPanel], axis: int, room: float, square: float | None = None
) -> float:
    """The factor by which panels fill the room along an axis; 0 where labels alone exceed it.

    That of square ones is the same, or `square`.
    """
    settled = {"still": 1.0, **({} if square is None else {"square": square})}

    def length(factor: float) -> float:
        return along(panels, axis, [settled.get(p.keep, factor) for p in panels])[1]

    low, high = 0.0, 64.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if length(middle) <= room else (low, middle)
    return low


def evenly(panels: Sequence[SheetPanel], factor: float) -> list[float]:
    """The factor for all panels but those that keep their width."""
    return [1.0 if panel.keep == "still" else factor for panel in panels]


def cells(count: int, most: int, largest: int = 24) -> int:
    """Pixels for so many numbers: a whole number of pixels to each, or all there are."""
    return count * min(largest, most // count) if count <= most else most


class Room(NamedTuple):
    """Points for a picture: of what is as wide as it, of each matrix at most, of a chart."""

    wide: int
    cell: tuple[int, int] | None = None  # as many as there are
    high: int = 0  # as usual

    @property
    def matrix(self) -> tuple[int, int]:
        """Points of one matrix at most."""
        return self.cell or (self.wide, self.high or self.wide)

    def each(self, across: int) -> tuple[int, int]:
        """Points of each of several matrices in a line."""
        return self.cell or ((self.wide - 14 * (across - 1)) // across,) * 2


# --- pixels ---------------------------------------------------------------------------------------


def drawable(axes: Any) -> Any:
    """The axes that a caller gave; `ArgumentError` if they are none, such as positions."""
    require(
        hasattr(axes, "get_window_extent") and hasattr(axes, "figure"),
        ": ax",
        "axes of matplotlib",
        (f"{axes!r}" if isinstance(axes, int | str) else type(axes).__name__)[:80],
        "All else goes by its name, such as positions=.",
    )
    kind = getattr(axes, "name", "rectilinear")
    require(kind == "rectilinear", ": ax", "axes at right angles", f"{kind} axes")
    return axes


def device(axes: Any) -> tuple[int, int]:
    """Rows and columns of the device in axes, at the resolution of their figure."""
    box = drawable(axes).get_window_extent()
    return whole(box.height), whole(box.width)


def whole(pixels: float) -> int:
    """A whole number of pixels: half of one is one more, whatever was lost on the way."""
    return max(1, math.floor(pixels + 0.5 + 1e-6))


def fill(axes: Any, paint: Callable[[int, int], np.ndarray]) -> None:
    """Fill the box of axes, whatever their limits, with pixels of the device, never resampled.

    `paint` gives for rows and columns of the device the colours, (rows, columns, 3) uint8.
    """
    from matplotlib.artist import Artist

    class Pixels(Artist):
        """What `paint` gives, at the size that the device has when it is drawn."""

        def draw(self, renderer: Any) -> None:
            box, fine = axes.bbox, renderer.get_image_magnification()
            rgb = paint(whole(box.height * fine), whole(box.width * fine))
            opaque = np.full((*rgb.shape[:2], 1), 255, dtype=np.uint8)
            # Devices count rows from the bottom.
            gc = renderer.new_gc()
            renderer.draw_image(
                gc,
                round(box.x0),
                round(box.y0),
                np.ascontiguousarray(np.concatenate([rgb, opaque], axis=2)[::-1]),
            )
            gc.restore()

    artist = Pixels()
    artist.set_figure(axes.figure)
    # Above the ticks, whose ends would reach into the outermost pixels.
    axes.set_axisbelow(True)
    artist.set_zorder(0.6)
    axes.add_artist(artist)
    artist.set_clip_on(False)


def spread(indices: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """Cells as pixels, each cell as often as it takes; more cells than pixels are thinned."""
    return indices[
        (np.arange(rows) * indices.shape[0] // rows)[:, None],
        np.arange(columns) * indices.shape[1] // columns,
    ]


def hatched(rgb: np.ndarray, absent: np.ndarray, theme: palette.Theme) -> np.ndarray:
    """Colours with diagonal lines where there is no number."""
    if not absent.any():
        return rgb
    down, across = np.indices(absent.shape)
    return np.where((absent & ((down + across) % 7 < 1))[..., None], palette.rgb(theme.muted), rgb)
