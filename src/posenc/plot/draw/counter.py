"""Counter: the bits of a position above the waves that turn as fast."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np

from posenc.plot.columns import Params
from posenc.plot.draw.beside import LEFT as BESIDE_LEFT
from posenc.plot.draw.beside import Beside, legend, one, over
from posenc.plot.draw.heat import heat, place_ticks
from posenc.plot.draw.picture import Picture
from posenc.plot.draw.sheet import Look, Sheet, asked, cells, decades
from posenc.plot.views import counter as _counter
from posenc.plot.words import number, whole

__all__ = ["BESIDE", "counter"]

LEFT = 92


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
        Of at least 0; 32 by default, or some around `at`.
    at : int, optional
        A position whose digits and row are shown.
    bits : int, optional
        How many bits.
    params : mapping, optional
        As for `table`.
    length : int, optional
        As for `table`.
    **look
        `width`: pixels of a strip, at most. `scale` and `theme` are as for `table`.

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
    wide, row, wave, gap = cells(stop - start, frame.width or 560), 12, 26, 8
    each = row + wave + gap
    count = len(data.partners)
    below = 0 if data.row is None else 96
    sheet = Sheet(
        LEFT + wide + 170,
        count * each + 40 + below,
        ax=ax,
        frame=frame,
        question="How is a position counted?",
        title=data.title,
        caption=data.caption,
    )
    for line, partner in enumerate(data.partners):
        _bit(sheet, data, line, partner, (LEFT, line * each, wide, row))
        axes = sheet.panel(LEFT, line * each + row, wide, wave)
        _wave(sheet, axes, data, line, partner)
        if line == count - 1:
            place_ticks(axes.xaxis, start, stop)
            axes.set_xlabel("position")
    if data.row is not None:
        axes = sheet.panel(LEFT, count * each + 62, wide, 36)
        _row(sheet, axes, data)
    return sheet.picture("counter", data, arguments)


def _bit(
    sheet: Sheet, data: Any, line: int, partner: Any, box: tuple[float, float, float, float]
) -> None:
    start, stop = data.positions
    axes = sheet.panel(*box)
    # A bit that is set is the positive end, one that is not is the page's neutral.
    heat(sheet, axes, data.bits[line : line + 1] * 0.55, limit=1, x=(start, stop), y=(0, 1))
    axes.set_xticks([])
    axes.set_yticks([0.5])
    axes.set_yticklabels([f"bit {partner.bit}"])
    side = box[2] / (stop - start)
    if side >= 9:
        for k, bit in enumerate(data.bits[line]):
            axes.text(
                start + k + 0.5,
                0.54,
                str(bit),
                ha="center",
                va="center",
                fontsize=8,
                color=sheet.theme.ink,
            )
    if data.at is not None and start <= data.at < stop:
        _frame(sheet, axes, data.at)


def _frame(sheet: Sheet, axes: Any, at: int) -> None:
    for edge in (at, at + 1):
        axes.axvline(edge, color=sheet.theme.ink, linewidth=1.0, zorder=4)


def _wave(sheet: Sheet, axes: Any, data: Any, line: int, partner: Any) -> None:
    start, stop = data.positions
    axes.set_xlim(start, stop)
    axes.set_ylim(-1.25, 1.25)
    axes.set_yticks([])
    axes.set_xticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)
    text = f"period {whole(partner.period)}: {partner.why}"
    if partner.pair is not None:
        axes.plot(data.places + 0.5, data.waves[line], **sheet.style(0))
        whole_places = data.places == np.floor(data.places)
        axes.plot(
            data.places[whole_places] + 0.5,
            data.waves[line][whole_places],
            linestyle="none",
            marker="o",
            markersize=2.2,
            color=sheet.series[0].colour,
        )
        text = f"period {whole(partner.period)}: pair {partner.pair}\n{number(partner.wavelength)}"
    axes.annotate(
        text.replace(": the ", ":\nthe "),
        (1, 0.8),
        xycoords="axes fraction",
        xytext=(8, 0),
        textcoords="offset points",
        va="center",
        fontsize=8.5,
        color=sheet.theme.ink if partner.pair is not None else sheet.theme.muted,
    )
    if data.at is not None and start <= data.at < stop:
        _frame(sheet, axes, data.at)


def _row(sheet: Sheet, axes: Any, data: Any) -> None:
    """The row of the position that is looked at, with its numbers where they fit."""
    values = data.row[None, :]
    width = values.shape[1]
    limit = float(np.abs(values).max()) or 1.0
    heat(sheet, axes, values, limit=max(limit, 1.0), x=(0, width), y=(0, 1))
    axes.set_yticks([0.5])
    axes.set_yticklabels([f"row {whole(data.at)}"])
    place_ticks(axes.xaxis, 0, width)
    sheet.heading(axes, f"{data.at} = {data.digits} in binary; its row")
    if width <= 16:
        for k, value in enumerate(data.row):
            axes.text(
                k + 0.5,
                0.5,
                f"{value:+.2f}".replace("-", "\N{MINUS SIGN}"),
                ha="center",
                va="center",
                fontsize=8.5,
                color=sheet.theme.ink,
            )


def _beside(sheet: Sheet, data: Any, most: int) -> None:
    axes = sheet.panel(BESIDE_LEFT, 0, 2 * most, 320)
    for name, side, style in zip(("A", "B"), (data.a, data.b), over(sheet), strict=True):
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
    axes.set_xlabel("bit")
    axes.set_ylabel("wavelength of its partner")
    legend(sheet, axes)


BESIDE = Beside(one, _beside)
