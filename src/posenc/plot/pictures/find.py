"""Find: candidate positions on a line, with how far off each may be."""

from __future__ import annotations

import numpy as np

from posenc.plot.panels.axes import float32
from posenc.plot.panels.grammar import Axis, Chart, Mark, Series
from posenc.plot.panels.text import spread, thin
from posenc.plot.views.find import Find, words_of

MOST_LINES = 8
FAR = 1000  # from here on the axis is logarithmic


def panels(data: Find) -> tuple[Chart]:
    """A line for each convention, the stated one in the first style."""
    lines = data.candidates[:MOST_LINES]
    series = tuple(
        Series(
            "",
            np.array(line.positions, dtype=np.float64),
            np.full(len(line.positions), n, dtype=np.float32),
            0 if line.stated else 1,
            float32(line.errors[:, 0]),
            float32(line.errors[:, 1]),
            draw="points",
            front=n == 0,
        )
        for n, line in enumerate(lines)
    )
    marks = tuple(Mark("y", n, thin(words_of(line)), style="faint") for n, line in enumerate(lines))
    ends = [p for line in lines for p in line.positions] or [0, 1]
    low, high = spread(float(min(ends)), float(max(ends)))
    far = max(abs(low), abs(high)) > FAR
    if far:  # where a tenth is more or less at every size
        low, high = min(1.5 * min(ends), -0.5), max(1.5 * max(ends), 0.5)
    last = float(max(1, len(lines)))
    return (
        Chart(
            id="find",
            title="" if lines else "no position fits",
            x=Axis("position", (low, high), scale="symlog" if far else "linear"),
            y=Axis("", (last - 0.35, -0.75), most=0),
            series=series,
            marks=marks,
            label="Positions that the values may come from",
        ),
    )
