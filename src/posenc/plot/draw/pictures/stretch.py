"""Stretch: wavelengths and stretch of each pair under rules that extend a context."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np

from posenc.plot.draw.beside import GAP, Beside, sides_of
from posenc.plot.draw.look import Look, asked
from posenc.plot.draw.marks import label_ends, mark_line
from posenc.plot.draw.picture import Picture
from posenc.plot.draw.sheet import Sheet
from posenc.plot.draw.ticks import decades, thousands
from posenc.plot.views import stretch as _stretch
from posenc.plot.words import counted, whole


def paint_stretch(sheet: Sheet, above: Any, below: Any, data: Any) -> None:
    """Wavelengths above, stretch below, on one axis of pairs."""
    pairs = np.arange(len(data.rules[0].wavelengths))
    names: tuple[list[Any], list[Any]] = ([], [])
    for place, rule in enumerate(data.rules):
        style = sheet.style(rule.style)
        for axes, values, labels in (
            (above, rule.wavelengths, names[0]),
            (below, rule.stretch, names[1]),
        ):
            finite = np.isfinite(values)
            axes.plot(pairs[finite], values[finite], **style)
            if finite.any():
                labels.append((float(values[finite][-1]), sheet.name(place, rule.label), style))
    for axes in (above, below):
        axes.set(yscale="log", xlim=(-0.5, len(pairs) - 0.5))
        if data.slow:
            edge = data.first_slow - 0.5
            axes.axvspan(edge, len(pairs), color=sheet.theme.rule, alpha=0.35, lw=0)
            axes.axvline(edge, color=sheet.theme.ink, linewidth=0.9, linestyle=(0, (2, 2)))
    decades(above.yaxis)
    top = max(2.0, data.factor)
    marks = [2.0**k for k in range(int(np.floor(np.log2(top))) + 1)][:12]
    below.set(
        ylim=(0.94, 1.1 * max(top, *(float(np.nanmax(r.stretch)) for r in data.rules))),
        yticks=marks,
    )
    decades(below.yaxis)
    below.minorticks_off()
    above.set_xticklabels([])
    thousands(below.xaxis)
    above.set_ylabel("wavelength")
    below.set_ylabel("stretch ×")
    mark_line(sheet, above, data.original_length, f"trained length {whole(data.original_length)}")
    mark_line(sheet, above, data.length, f"new length {whole(data.length)}")
    below.set_xlabel(f"pair, fast to slow; shaded: {counted(data.slow, 'slow pair')}")
    label_ends(sheet, above, names[0])
    label_ends(sheet, below, names[1])


def stretch(
    spec: Any,
    ax: Any = None,
    *,
    original_length: int | None = None,
    factor: float | None = None,
    rules: tuple[str, ...] | None = None,
    **look: Unpack[Look],
) -> Picture:
    """Draw what rules that extend a context do to each pair.

    Parameters
    ----------
    spec : RoPE
        The rotation; its own scaling, if it has one, is shown too.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    original_length : int, optional
        The trained length; that of the spec's scaling by default, else 4096.
    factor : float, optional
        By which it grows; that of the spec's scaling by default, else 8.
    rules : tuple of str, optional
        Keys of `posenc.plot.views.stretch.RULES`; all by default.
    **look
        `width`: pixels of a panel. The others are as for `table`.

    Returns
    -------
    Picture
        The figure, what it shows, and its files.

    Examples
    --------
    >>> import posenc, posenc.plot
    >>> posenc.plot.stretch(posenc.RoPE(128, pairing="half")).data.slow
    18
    """
    arguments, frame = asked("stretch", locals())
    data = _stretch.data(spec, original_length=original_length, factor=factor, rules=rules)
    sheet = Sheet(ax, frame, "What changes when the context gets longer?", data, lines="apart")
    paint_stretch(sheet, *_panels(sheet, 0, frame.width or 520), data)
    return sheet.picture("stretch", data, arguments)


def _panels(sheet: Sheet, left: float, wide: float) -> tuple[Any, Any]:
    return sheet.panel(left, 0, wide, 240), sheet.panel(left, 250, wide, 150)


def _beside(sheet: Sheet, data: Any, most: int) -> None:
    for place, (name, side) in enumerate(sides_of(data)):
        panels = _panels(sheet, place * (most + GAP), most)
        paint_stretch(sheet, *panels, side)
        sheet.heading(panels[0], name, weight="bold")
        for axes in panels if place else ():
            axes.set_ylabel("")


BESIDE = Beside(_beside)
