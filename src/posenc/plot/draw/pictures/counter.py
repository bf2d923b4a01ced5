"""Counter: the bits of a position above the waves that turn as fast."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np

from posenc.plot.columns import Params
from posenc.plot.draw.beside import GAP, Beside, legend, over, sides_of
from posenc.plot.draw.heat import heat
from posenc.plot.draw.look import Look, asked
from posenc.plot.draw.picture import Picture
from posenc.plot.draw.sheet import Sheet, cells
from posenc.plot.draw.ticks import decades, place_ticks
from posenc.plot.views import counter as _counter
from posenc.plot.words import number, whole

MOST_DIGITS = 64  # cells that may have a text


def counter(
    spec: Any,
    ax: Any = None,
    *,
    positions: int | tuple[int, int] | None = None,
    at: int | None = None,
    bits: int | None = None,
    params: Params = None,
    length: int | None = None,
    **look: Unpack[Look],
) -> Picture:
    """Draw the bits of positions above the waves with the nearest wavelengths.

    Parameters
    ----------
    spec : Spec
        A table of waves, or a rotation.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    positions : int or (int, int), optional
        Of at least 0; 256 by default, or 32 around `at`.
    at : int, optional
        A position whose digits and row are shown.
    bits : int, optional
        How many bits.
    params : mapping, optional
        As for `table`.
    length : int, optional
        As for `table`.
    **look
        `width`: pixels of a strip, at most. The others are as for `table`.

    Returns
    -------
    Picture
        The figure, what it shows, and its files.

    Examples
    --------
    >>> import posenc, posenc.plot
    >>> posenc.plot.counter(posenc.Sinusoidal(8), at=150).data.digits
    '10010110'
    """
    arguments, frame = asked("counter", locals())
    data = _counter.data(spec, positions, at=at, bits=bits, params=params, length=length)
    start, stop = data.positions
    wide, row, wave = cells(stop - start, frame.width or 560), 12, 26
    each = row + wave + GAP
    count = len(data.partners)
    edges = () if at is None or not start <= at < stop else (at, at + 1)
    sheet = Sheet(ax, frame, "How is a position counted?", data)
    for line, partner in enumerate(data.partners):
        bit = sheet.panel(0, line * each, wide, row)
        axes = sheet.panel(0, line * each + row, wide, wave)
        _bit(sheet, bit, data, line, partner)
        _wave(sheet, axes, data, line, partner)
        for edge in edges:
            for strip in (bit, axes):
                strip.axvline(edge, color=sheet.theme.ink, linewidth=1.0, zorder=4)
    place_ticks(axes.xaxis, start, stop)
    axes.set_xlabel("position")
    if data.row is not None:
        _row(sheet, sheet.panel(0, count * each, wide, 36), data)
    return sheet.picture("counter", data, arguments)


def _bit(sheet: Sheet, axes: Any, data: Any, line: int, partner: Any) -> None:
    start, stop = data.positions
    # A bit that is set is the positive end, one that is not is the page's neutral.
    heat(sheet, axes, data.bits[line : line + 1] * 0.55, limit=1, x=(start, stop), y=(0, 1))
    axes.set(xticks=[], yticks=[0.5], yticklabels=[f"bit {partner.bit}"])
    if stop - start <= MOST_DIGITS:
        sheet.inside(axes, start, [str(bit) for bit in data.bits[line]], 8)


def _wave(sheet: Sheet, axes: Any, data: Any, line: int, partner: Any) -> None:
    start, stop = data.positions
    axes.set(xlim=(start, stop), ylim=(-1.25, 1.25), yticks=[], xticks=[])
    axes.spines[:].set_visible(False)
    text = f"period {whole(partner.period)}: {partner.why}"
    if partner.pair is not None:
        style, few = sheet.style(0), stop - start <= MOST_DIGITS
        style["linewidth"] *= 1.0 if few else 0.6
        axes.plot(data.places + 0.5, data.waves[line], **style)
        if few:
            at = data.places == np.floor(data.places)
            dots = {"linestyle": "none", "marker": "o", "markersize": 2.2, "color": style["color"]}
            axes.plot(data.places[at] + 0.5, data.waves[line][at], **dots)
        text = f"period {whole(partner.period)}\npair {partner.pair}: {number(partner.wavelength)}"
    colour = sheet.theme.ink if partner.pair is not None else sheet.theme.muted
    text = text.replace(": the ", ":\nthe ")
    beside = {"xytext": (8, 0), "va": "center", "fontsize": sheet.points(8.5), "color": colour}
    sheet.note(axes, text, (1, 0.8), **beside)


def _row(sheet: Sheet, axes: Any, data: Any) -> None:
    """The row of the position that is looked at, with its numbers where they fit."""
    values = data.row[None, :]
    width = values.shape[1]
    limit = float(np.abs(values).max()) or 1.0
    heat(sheet, axes, values, limit=max(limit, 1.0), x=(0, width), y=(0, 1))
    axes.set(yticks=[0.5], yticklabels=[f"row {whole(data.at)}"])
    place_ticks(axes.xaxis, 0, width)
    sheet.heading(axes, f"{data.at} = {data.digits} in binary; its row")
    numbers = [f"{value:+.2f}".replace("-", "\N{MINUS SIGN}") for value in data.row]
    if width <= MOST_DIGITS:
        sheet.inside(axes, 0, numbers, 8.5)


def _beside(sheet: Sheet, data: Any, most: int) -> None:
    axes = sheet.panel(0, 0, 2 * most, 320)
    for (name, side), style in zip(sides_of(data), over(sheet), strict=True):
        partners = [p for p in side.partners if p.pair is not None]
        axes.plot(
            [p.bit for p in partners],
            [p.wavelength for p in partners],
            label=name,
            marker="o",
            markersize=5,
            linestyle="none",
            color=style["color"],
        )
    bits = [p.bit for p in data.a.partners]
    axes.plot(
        bits, [2.0 ** (b + 1) for b in bits], color=sheet.theme.rule, label="period of the bit"
    )
    axes.set_yscale("log")
    decades(axes.yaxis)
    axes.set(xlabel="bit", ylabel="wavelength of its partner")
    legend(sheet, axes)


BESIDE = Beside(_beside)
