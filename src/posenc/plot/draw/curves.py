"""Waves, wavelengths and offset: curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from posenc.plot.columns import Params
from posenc.plot.draw.picture import Picture
from posenc.plot.draw.sheet import Sheet, decades, thousands
from posenc.plot.raster import span
from posenc.plot.views import offset as _offset
from posenc.plot.views import wavelengths as _wavelengths
from posenc.plot.views import waves as _waves
from posenc.plot.words import number, whole

__all__ = ["offset", "paint_curve", "paint_ladders", "paint_offset", "wavelengths", "waves"]

LEFT, BOTTOM, RIGHT = 64, 44, 150
BAND = 0.28  # opacity


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


def waves(
    spec: Any,
    ax: Any = None,
    *,
    positions: int | tuple[int, int] | None = None,
    dims: Sequence[int] | None = None,
    params: Params = None,
    length: int | None = None,
    grid: tuple[int, ...] | None = None,
    width: int | None = None,
    scale: float = 1.0,
    theme: str = "light",
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
    width : int, optional
        Pixels of a panel.
    scale : float
        As for `table`.
    theme : str
        As for `table`.

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
    arguments = {k: v for k, v in locals().items() if k not in ("ax", "params")}
    wide, high, gap = width or 560, 64, 12
    data = _waves.data(
        spec,
        dims,
        positions,
        pixels=round(wide * (scale if ax is None else 1)),
        params=params,
        length=length,
        grid=grid,
    )
    count = len(data.curves)
    sheet = Sheet(
        LEFT + wide + RIGHT,
        count * (high + gap) + BOTTOM,
        ax=ax,
        theme=theme,
        scale=scale,
        question="How does one dimension change?",
        title=data.title,
        caption=data.caption,
    )
    for place, curve in enumerate(data.curves):
        axes = sheet.panel(LEFT, place * (high + gap), wide, high)
        paint_curve(axes, curve, sheet.style(0))
        dress_wave(sheet, axes, curve, data, last=place == count - 1)
    return sheet.picture("waves", data, arguments)


def dress_wave(sheet: Sheet, axes: Any, curve: Any, data: Any, *, last: bool) -> None:
    """Limits, ticks and the name of a curve."""
    start, stop = data.positions
    axes.set_xlim(start - 0.5, stop - 0.5)
    axes.set_ylim(-1.15 * data.limit, 1.15 * data.limit)
    axes.set_yticks([-data.limit, 0, data.limit])
    axes.set_yticklabels([number(-data.limit, 2), "0", number(data.limit, 2)])
    axes.axhline(0, color=sheet.theme.rule, linewidth=0.6, zorder=0)
    thousands(axes.xaxis)
    if last:
        axes.set_xlabel("position")
    else:
        axes.set_xticklabels([])
    period = "" if not np.isfinite(curve.wavelength) else f"\nwavelength {number(curve.wavelength)}"
    first = (
        f"dimension {curve.dim}" if curve.label.startswith("dim") else f"{curve.dim}: {curve.label}"
    )
    axes.annotate(
        first + period,
        (1, 0.5),
        xycoords="axes fraction",
        xytext=(8, 0),
        textcoords="offset points",
        va="center",
        fontsize=9,
        color=sheet.theme.ink,
    )


def paint_ladders(sheet: Sheet, axes: Any, data: Any, over: str) -> None:
    """Wavelengths of encodings against pairs, or against the share of pairs."""
    names = []
    for place, ladder in enumerate(data.ladders):
        finite = np.isfinite(ladder.wavelengths)
        x = ladder.share if over == "share" else np.arange(len(finite))
        style = sheet.style(place)
        mark = "o" if finite.sum() <= 40 else None
        axes.plot(x[finite], ladder.wavelengths[finite], marker=mark, markersize=3, **style)
        if finite.any():
            names.append((float(ladder.wavelengths[finite][-1]), ladder.label, style["color"]))
    axes.set_yscale("log")
    decades(axes.yaxis)
    if data.length is not None:
        mark_line(sheet, axes, data.length, f"length {whole(data.length)}")
    label_ends(axes, names)
    axes.set_ylabel("wavelength in positions")


def mark_line(sheet: Sheet, axes: Any, at: float, text: str) -> None:
    """A dashed line across, with its name."""
    axes.axhline(at, color=sheet.theme.ink, linewidth=0.9, linestyle=(0, (4, 3)))
    axes.annotate(
        text,
        (0, at),
        xycoords=("axes fraction", "data"),
        xytext=(4, 3),
        textcoords="offset points",
        fontsize=9,
        color=sheet.theme.ink,
    )


def label_ends(axes: Any, names: list[tuple[float, str, str]]) -> None:
    """The name of each curve at its end, moved apart where they would meet."""
    if not names:
        return
    axes.get_ylim()  # settles the limits, on which places depend
    box = axes.get_window_extent()
    unit = 72 / axes.figure.dpi  # pixels of the device as points
    height = box.height * unit
    places = [(axes.transData.transform((0, y))[1] - box.y0) * unit for y, _, _ in names]
    order = np.argsort(places, kind="stable")
    moved = _apart(np.array(places)[order], 12.0, height)
    for at, index in zip(moved, order, strict=True):
        _, text, colour = names[index]
        axes.annotate(
            text,
            (1, 0),
            xycoords="axes fraction",
            xytext=(6, float(at)),
            textcoords="offset points",
            va="center",
            fontsize=9,
            color=colour,
        )


def _apart(places: np.ndarray, gap: float, height: float) -> np.ndarray:
    """Rising places at least a gap apart, moved as little as that takes."""
    moved = places.copy()
    for k in range(1, len(moved)):
        moved[k] = max(moved[k], moved[k - 1] + gap)
    excess = moved[-1] - max(height, places[-1])
    if excess > 0:
        moved[-1] -= excess
        for k in range(len(moved) - 2, -1, -1):
            moved[k] = min(moved[k], moved[k + 1] - gap)
    return moved


def wavelengths(
    spec: Any,
    ax: Any = None,
    *,
    length: int | None = None,
    labels: Sequence[str] | None = None,
    over: str | None = None,
    width: int | None = None,
    height: int | None = None,
    scale: float = 1.0,
    theme: str = "light",
) -> Picture:
    """Draw the wavelength of each pair of one or several encodings.

    Parameters
    ----------
    spec : Spec or sequence of Spec
        Encodings with sinusoidal phases.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    length : int, optional
        A length of sequences to mark.
    labels : sequence of str, optional
        What the encodings are called.
    over : {"pair", "share"}, optional
        What stands below: the pair, or how far along the encoding it stands; the latter by default
        where encodings differ in width.
    width, height : int, optional
        Pixels of the panel.
    scale : float
        As for `table`.
    theme : str
        As for `table`.

    Returns
    -------
    Picture
        The figure, what it shows, and its files.

    Examples
    --------
    >>> import posenc, posenc.plot
    >>> made = posenc.plot.wavelengths([posenc.Sinusoidal(d) for d in (64, 512)], length=1000)
    >>> [ladder.finished for ladder in made.data.ladders]
    [18, 141]
    """
    arguments = {k: v for k, v in locals().items() if k != "ax"}
    data = _wavelengths.data(spec, length=length, labels=labels)
    wide, high = width or 520, height or 340
    sizes = {len(ladder.wavelengths) for ladder in data.ladders}
    chosen = over or ("share" if len(sizes) > 1 else "pair")
    room = 0 if ax is not None else 1
    sheet = Sheet(
        wide + room * (LEFT + 190),
        high + room * BOTTOM,
        ax=ax,
        theme=theme,
        scale=scale,
        question="How fast does each pair turn?",
        title=data.title,
        caption=data.caption,
    )
    axes = sheet.panel(room * LEFT, 0, wide, high)
    with sheet.library.rc_context({"axes.unicode_minus": True}):
        paint_ladders(sheet, axes, data, chosen)
    axes.set_xlabel("pair" if chosen == "pair" else "share of the pairs, fast to slow")
    return sheet.picture("wavelengths", data, arguments)


def paint_offset(sheet: Sheet, axes: Any, data: Any, index: int = 0) -> None:
    """Products against distances, with their band."""
    style = sheet.style(index)
    if data.band != "none":
        axes.fill_between(
            data.offsets, data.low, data.high, color=style["color"], alpha=BAND, linewidth=0
        )
    axes.plot(data.offsets, data.mean, **style)
    if data.scale == "log":
        axes.set_xscale("log")
        decades(axes.xaxis)
    else:
        thousands(axes.xaxis)
    axes.axhline(0, color=sheet.theme.rule, linewidth=0.6, zorder=0)
    axes.set_xlabel("offset")
    axes.set_ylabel("dot product" if data.kind == "dot" else "cosine")
    axes.margins(x=0.01)


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
    width: int | None = None,
    scale: float = 1.0,
    theme: str = "light",
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
    width : int, optional
        Pixels of a panel.
    scale : float
        As for `table`.
    theme : str
        As for `table`.

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
    arguments = {k: v for k, v in locals().items() if k not in ("ax", "params")}
    wide, high = width or 560, 210
    _, stop = span(offsets, "offsets")
    scales = ("linear", "log") if axis == "both" and stop > 4 else (axis,)
    scales = ("linear",) if scales == ("both",) else scales
    pictures = [
        _offset.data(
            spec,
            offsets,
            kind=kind,
            scale=each,
            pixels=round(wide * (scale if ax is None else 1)),
            params=params,
            length=length,
            grid=grid,
        )
        for each in scales
    ]
    room = 0 if ax is not None and len(pictures) == 1 else 1
    sheet = Sheet(
        wide + room * (LEFT + 20),
        len(pictures) * (high + room * (BOTTOM + 8)),
        ax=ax,
        theme=theme,
        scale=scale,
        question="What do two rows have in common, by their distance?",
        title=pictures[0].title,
        caption=pictures[0].caption,
    )
    for place, data in enumerate(pictures):
        axes = sheet.panel(room * LEFT, place * (high + BOTTOM + 8), wide, high)
        paint_offset(sheet, axes, data)
    return sheet.picture("offset", pictures[0], arguments)
