"""Wavelengths: how fast each pair turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np

from posenc.plot.draw.beside import Beside, legend, over
from posenc.plot.draw.look import Look, asked
from posenc.plot.draw.marks import label_ends, mark_line
from posenc.plot.draw.picture import Picture
from posenc.plot.draw.sheet import Sheet
from posenc.plot.draw.ticks import decades
from posenc.plot.views import wavelengths as _wavelengths
from posenc.plot.words import whole


def wavelengths(
    spec: Any,
    ax: Any = None,
    *,
    length: int | None = None,
    labels: Sequence[str] | None = None,
    over: str | None = None,
    height: int | None = None,
    **look: Unpack[Look],
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
    height : int, optional
        Pixels of the panel.
    **look
        `width`: pixels of the panel. The others are as for `table`.

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
    arguments, frame = asked("wavelengths", locals())
    data = _wavelengths.data(spec, length=length, labels=labels)
    wide, high = frame.width or 520, height or 340
    sizes = {len(ladder.wavelengths) for ladder in data.ladders}
    chosen = over or ("share" if len(sizes) > 1 else "pair")
    sheet = Sheet(ax, frame, "How fast does each pair turn?", data, alone=True)
    axes = sheet.panel(0, 0, wide, high)
    paint_ladders(sheet, axes, data, chosen)
    axes.set_xlabel("pair" if chosen == "pair" else "share of the pairs, fast to slow")
    return sheet.picture("wavelengths", data, arguments)


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
            label = sheet.name(place, ladder.label)
            names.append((float(ladder.wavelengths[finite][-1]), label, style))
    axes.set_yscale("log")
    decades(axes.yaxis)
    if data.length is not None:
        mark_line(sheet, axes, data.length, f"length {whole(data.length)}")
    label_ends(sheet, axes, names)
    axes.set_ylabel("wavelength in positions")


def _beside(sheet: Sheet, data: Any, most: int) -> None:
    axes = sheet.panel(0, 0, 2 * most, 320)
    share = len(data.a.ladders[0].wavelengths) != len(data.b.ladders[0].wavelengths)
    for name, side, style in zip(("A", "B"), (data.a, data.b), over(sheet), strict=True):
        ladder = side.ladders[0]
        finite = np.isfinite(ladder.wavelengths)
        x = ladder.share if share else np.arange(len(finite))
        axes.plot(x[finite], ladder.wavelengths[finite], label=name, **style)
    axes.set_yscale("log")
    decades(axes.yaxis)
    if data.a.length is not None:
        mark_line(sheet, axes, data.a.length, f"length {data.a.length}")
    axes.set(
        xlabel="share of the pairs, fast to slow" if share else "pair",
        ylabel="wavelength in positions",
    )
    legend(sheet, axes)


BESIDE = Beside(_beside)
