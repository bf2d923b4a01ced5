"""Wavelengths: how fast each pair turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np

from posenc.plot.draw.beside import Beside, legend, over, sides_of
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
    paint_ladders(sheet, sheet.panel(0, 0, wide, high), data, chosen)
    return sheet.picture("wavelengths", data, arguments)


def paint_ladders(sheet: Sheet, axes: Any, data: Any, over: str) -> None:
    """Wavelengths of encodings against pairs, or against the share of pairs."""
    names = []
    for place, ladder in enumerate(data.ladders):
        x, lengths = _finite(ladder, over)
        style = sheet.style(place)
        axes.plot(x, lengths, marker="o" if len(x) <= 40 else None, markersize=3, **style)
        if len(x):
            names.append((float(lengths[-1]), sheet.name(place, ladder.label), style))
    _dress(sheet, axes, data.length, over, whole)
    label_ends(sheet, axes, names)


def _finite(ladder: Any, over: str) -> tuple[np.ndarray, np.ndarray]:
    """The pairs that turn, or how far along they stand, and their wavelengths."""
    turning = np.flatnonzero(np.isfinite(ladder.wavelengths))
    return ladder.share[turning] if over == "share" else turning, ladder.wavelengths[turning]


def _dress(sheet: Sheet, axes: Any, length: int | None, over: str, say: Any) -> None:
    """Scales and names of the axes, and the length that is marked."""
    axes.set_yscale("log")
    decades(axes.yaxis)
    if length is not None:
        mark_line(sheet, axes, length, f"length {say(length)}")
    axes.set(
        xlabel="share of the pairs, fast to slow" if over == "share" else "pair",
        ylabel="wavelength in positions",
    )


def _beside(sheet: Sheet, data: Any, most: int) -> None:
    axes = sheet.panel(0, 0, 2 * most, 320)
    share = len(data.a.ladders[0].wavelengths) != len(data.b.ladders[0].wavelengths)
    below = "share" if share else "pair"
    for (name, side), style in zip(sides_of(data), over(sheet), strict=True):
        axes.plot(*_finite(side.ladders[0], below), label=name, **style)
    _dress(sheet, axes, data.a.length, below, str)
    legend(sheet, axes)


BESIDE = Beside(_beside)
