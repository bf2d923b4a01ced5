"""Find: candidate positions on a number line, with how far off each may be."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np

from posenc.plot.columns import Params
from posenc.plot.draw.look import Look, asked
from posenc.plot.draw.picture import Picture
from posenc.plot.draw.sheet import Sheet
from posenc.plot.draw.ticks import decades
from posenc.plot.views import find as _find

MOST_LINES = 8


def find(
    spec: Any,
    values: Any,
    ax: Any = None,
    *,
    within: tuple[float, float] | None = None,
    conventions: str = "siblings",
    params: Params = None,
    **look: Unpack[Look],
) -> Picture:
    """Draw the positions that values may come from, a line for each convention.

    Parameters
    ----------
    spec : Spec
        A sinusoidal or learned table.
    values : mapping of int to str, or array
        Values by dimension, as printed; or a row.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    within : (number, number), optional
        The range of positions.
    conventions : {"siblings", "stated"}
        Whether siblings of the stated convention are tried.
    params : mapping, optional
        What a learned table has learned.
    **look
        `width`: pixels of the line. The others are as for `table`.

    Returns
    -------
    Picture
        The figure, what it shows, and its files.

    Examples
    --------
    >>> import posenc, posenc.plot
    >>> made = posenc.plot.find(posenc.Sinusoidal(16, base=100), {3: "0.85"})
    >>> made.data.candidates[0].positions[0]
    1
    """
    arguments, frame = asked("find", locals())
    data = _find.data(spec, values, within=within, conventions=conventions, params=params)
    lines = data.candidates[:MOST_LINES]
    sheet = Sheet(ax, frame, f"Which position gave {data.asked}?", data, lines="apart", alone=True)
    words = [sheet.folded(_find.words_of(line)) for line in lines]
    # A line needs room for its words, on paper too, where all else becomes less high.
    shrinks = min(1.0, max(0.5, frame.points[0] / 640)) if frame.points else 1.0
    most = max((text.count("\n") + 1 for text in words), default=1)
    row = (20 + 14 * most * sheet.points(9) / 9) / shrinks
    _paint(sheet, sheet.panel(0, 0, frame.width or 560, max(1, len(lines)) * row), lines, words)
    return sheet.picture("find", data, arguments)


def _paint(sheet: Sheet, axes: Any, lines: tuple[Any, ...], words: list[str]) -> None:
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set(ylim=(max(1, len(lines)) - 0.35, -0.75), xlabel="position")
    if not lines:
        axes.text(0.5, 0.5, "no position fits", transform=axes.transAxes, ha="center")
        axes.set_xlim(0, 1)
        return
    far = max(abs(p) for line in lines for p in line.positions)
    if far > 1000:
        axes.set_xscale("symlog", linthresh=10)
        decades(axes.xaxis)
    for place, line in enumerate(lines):
        style = sheet.style(0 if line.stated else 1)
        axes.axhline(place, color=sheet.theme.rule, linewidth=0.8, zorder=0)
        axes.errorbar(
            np.array(line.positions, dtype=float),
            np.full(len(line.positions), float(place)),
            xerr=line.errors.T,
            linestyle="none",
            marker="o" if line.stated else "D",
            markersize=5 if place == 0 else 3.5,
            capsize=3,
            linewidth=1,
            color=style["color"],
        )
        where = ("axes fraction", "data")
        sheet.note(axes, words[place], (0, place), xycoords=where, xytext=(0, 6), va="bottom")
    axes.margins(x=0.05)
