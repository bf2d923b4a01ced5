"""Waves: single dimensions over positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np

from posenc.plot.columns import Params
from posenc.plot.draw.beside import GAP, Beside, legend, over, sides_of
from posenc.plot.draw.look import Look, asked
from posenc.plot.draw.marks import BAND
from posenc.plot.draw.picture import Picture
from posenc.plot.draw.sheet import Sheet
from posenc.plot.draw.ticks import thousands
from posenc.plot.views import waves as _waves
from posenc.plot.words import number


def waves(
    spec: Any,
    ax: Any = None,
    *,
    positions: int | tuple[int, int] | None = None,
    dims: Sequence[int] | None = None,
    params: Params = None,
    length: int | None = None,
    grid: tuple[int, ...] | None = None,
    **look: Unpack[Look],
) -> Picture:
    """Draw some dimensions over positions, one panel for each.

    Parameters
    ----------
    spec : Spec
        A table, or a rotation.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    positions : int or (int, int), optional
        A number of positions from 0, or from and to (excluded); 128 by default, or all there are.
    dims : sequence of int, optional
        Which; five from the fastest to the slowest by default.
    params : mapping, optional
        As for `table`.
    length : int, optional
        As for `table`.
    grid : tuple of int, optional
        As for `table`.
    **look
        `width`: pixels of a panel. The others are as for `table`.

    Returns
    -------
    Picture
        The figure, what it shows, and its files.

    Examples
    --------
    >>> import posenc, posenc.plot
    >>> made = posenc.plot.waves(posenc.Sinusoidal(64), dims=[0, 62], positions=10_000)
    >>> [curve.shape for curve in made.data.curves]
    ['band', 'line']
    """
    arguments, frame = asked("waves", locals())
    wide, high = frame.width or 560, 64
    data = _waves.data(
        spec,
        dims,
        positions,
        pixels=frame.along(wide) if ax is None else wide,
        params=params,
        length=length,
        grid=grid,
    )
    sheet = Sheet(ax, frame, "How does one dimension change?", data)
    for place, curve in enumerate(data.curves):
        axes = sheet.panel(0, place * (high + GAP), wide, high)
        paint_curve(axes, curve, sheet.style(0), sheet.name(0, ""))
        dress_wave(sheet, axes, curve, data, last=curve is data.curves[-1])
    return sheet.picture("waves", data, arguments)


def paint_curve(axes: Any, curve: Any, style: dict[str, Any], name: str = "") -> None:
    """One column over positions: a line, or a band with its mean."""
    if curve.shape == "band":
        axes.fill_between(
            curve.middle,
            curve.low,
            curve.high,
            color=style["color"],
            alpha=BAND,
            linewidth=0,
            step="mid",
        )
        style = {**style, "linewidth": 1.0}
    axes.plot(curve.middle, curve.mean, label=name or None, **style)


def dress_wave(sheet: Sheet, axes: Any, curve: Any, data: Any, *, last: bool) -> None:
    """Limits, ticks and the name of a curve."""
    start, stop = data.positions
    axes.set(
        xlim=(start - 0.5, stop - 0.5),
        ylim=(-1.15 * data.limit, 1.15 * data.limit),
        yticks=[-data.limit, 0, data.limit],
        yticklabels=[number(-data.limit, 2), "0", number(data.limit, 2)],
    )
    axes.axhline(0, color=sheet.theme.rule, linewidth=0.6, zorder=0)
    thousands(axes.xaxis)
    below: dict[str, Any] = {"xlabel": "position"} if last else {"xticklabels": []}
    axes.set(**below)
    text = f"{curve.dim}: {curve.label}"
    if curve.label.startswith("dim"):
        text = curve.label
    if np.isfinite(curve.wavelength):
        text += f"\nwavelength {number(curve.wavelength)}"
    sheet.note(axes, text, (1, 0.5), xytext=(8, 0), va="center")


def _beside(sheet: Sheet, data: Any, most: int) -> None:
    rows = max(len(data.a.curves), len(data.b.curves))
    for row in range(rows):
        axes = sheet.panel(0, row * 76, 2 * most, 64)
        for (name, side), style in zip(sides_of(data), over(sheet), strict=True):
            if row < len(side.curves):
                paint_curve(axes, side.curves[row], style, name)
        side = data.a if row < len(data.a.curves) else data.b
        dress_wave(sheet, axes, side.curves[row], side, last=row == rows - 1)
        axes.set_ylim(-1.15 * data.limit, 1.15 * data.limit)
        if row == 0:
            legend(sheet, axes)


BESIDE = Beside(_beside, lambda _, most, scale: {"pixels": round(2 * most * scale)})
