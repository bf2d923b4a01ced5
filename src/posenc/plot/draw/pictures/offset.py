"""Offset: the product of two rows against their distance."""

from __future__ import annotations

from typing import Any, Unpack

from posenc.plot.columns import Params
from posenc.plot.draw.beside import GAP, Beside, legend, over, sides_of
from posenc.plot.draw.look import Look, asked
from posenc.plot.draw.marks import BAND, label_ends
from posenc.plot.draw.picture import Picture
from posenc.plot.draw.sheet import Sheet
from posenc.plot.draw.ticks import decades, thousands
from posenc.plot.raster import span
from posenc.plot.views import offset as _offset


def offset(
    spec: Any,
    ax: Any = None,
    *,
    offsets: int | tuple[int, int] = 512,
    kind: str = "dot",
    axis: str = "both",
    params: Params = None,
    length: int | None = None,
    grid: tuple[int, ...] | None = None,
    **look: Unpack[Look],
) -> Picture:
    """Draw the product of two rows against their distance.

    Parameters
    ----------
    spec : Spec
        A table, or a rotation.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    offsets : int or (int, int)
        A number of distances from 0, or from and to (excluded).
    kind : {"dot", "cosine"}
        The product.
    axis : {"linear", "log", "both"}
        How distances are laid out; both in two panels.
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
    >>> posenc.plot.offset(posenc.Sinusoidal(512)).data.first_rise
    43
    """
    arguments, frame = asked("offset", locals())
    wide, high = frame.width or 560, 210
    _, stop = span(offsets, "offsets")
    both = ("linear", "log") if stop > 4 else ("linear",)
    scales = both if axis == "both" else (axis,)
    pictures = [
        _offset.data(
            spec,
            offsets,
            kind=kind,
            scale=each,
            pixels=frame.along(wide) if ax is None else wide,
            params=params,
            length=length,
            grid=grid,
        )
        for each in scales
    ]
    question = "What do two rows have in common, by their distance?"
    sheet = Sheet(ax, frame, question, pictures[0], alone=len(pictures) == 1)
    for place, data in enumerate(pictures):
        paint_offset(sheet, sheet.panel(0, place * (high + GAP), wide, high), data)
    return sheet.picture("offset", pictures[0], arguments)


def paint_offset(sheet: Sheet, axes: Any, data: Any, index: int = 0) -> None:
    """Products against distances, with their band."""
    style = sheet.style(index)
    _curve(axes, data, BAND, style)
    name = sheet.name(0, "")
    if name:
        label_ends(sheet, axes, [(float(data.mean[-1]), name, style)])
    if data.scale == "log":
        axes.set_xscale("log")
        decades(axes.xaxis)
    else:
        thousands(axes.xaxis)
    axes.axhline(0, color=sheet.theme.rule, linewidth=0.6, zorder=0)
    axes.set(xlabel="offset", ylabel="dot product" if data.kind == "dot" else "cosine")
    axes.margins(x=0.01)


def _curve(axes: Any, data: Any, opacity: float, style: dict[str, Any], name: str = "") -> None:
    if data.band != "none":
        axes.fill_between(
            data.offsets, data.low, data.high, color=style["color"], alpha=opacity, linewidth=0
        )
    axes.plot(data.offsets, data.mean, label=name or None, **style)


def _beside(sheet: Sheet, data: Any, most: int) -> None:
    high = 320 if data.difference is None else 200
    axes = sheet.panel(0, 0, 2 * most, high)
    for (name, side), style in zip(sides_of(data), over(sheet), strict=True):
        _curve(axes, side, 0.25, style, name)
    axes.set_ylabel("dot product" if data.a.kind == "dot" else "cosine")
    legend(sheet, axes)
    panels = [axes]
    if data.difference is not None:
        below = sheet.panel(0, high + GAP, 2 * most, 100)
        below.plot(data.a.offsets, data.difference, **sheet.style(3))
        below.set_ylabel("A \N{MINUS SIGN} B")
        below.axhline(0, color=sheet.theme.rule, linewidth=0.6)
        axes.set_xticklabels([])
        panels.append(below)
    for each in panels:
        thousands(each.xaxis)
        each.margins(x=0.01)
    panels[-1].set_xlabel("offset")


BESIDE = Beside(_beside, lambda _, most, scale: {"pixels": round(2 * most * scale)})
