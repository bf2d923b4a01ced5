"""Where panels stand: as far apart as their labels need, and as large as the room allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations
from typing import Any, Literal, NamedTuple

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
