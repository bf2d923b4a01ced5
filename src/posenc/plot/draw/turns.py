"""Counter and rotation: what turns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from posenc.plot.columns import Params
from posenc.plot.draw.curves import label_ends
from posenc.plot.draw.heat import heat, place_ticks
from posenc.plot.draw.picture import Picture
from posenc.plot.draw.sheet import Sheet, cells, thousands
from posenc.plot.views import counter as _counter
from posenc.plot.views import rotation as _rotation
from posenc.plot.words import number, whole

__all__ = ["counter", "paint_terms", "rotation"]

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
    width: int | None = None,
    scale: float = 1.0,
    theme: str = "light",
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
    width : int, optional
        Pixels of a strip, at most.
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
    >>> posenc.plot.counter(posenc.Sinusoidal(8), at=150).data.digits
    '10010110'
    """
    arguments = {k: v for k, v in locals().items() if k not in ("ax", "params")}
    data = _counter.data(spec, positions, at=at, bits=bits, params=params, length=length)
    start, stop = data.positions
    wide, row, wave, gap = cells(stop - start, width or 560), 12, 26, 8
    each = row + wave + gap
    count = len(data.partners)
    below = 0 if data.row is None else 96
    sheet = Sheet(
        LEFT + wide + 170,
        count * each + 40 + below,
        ax=ax,
        theme=theme,
        scale=scale,
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


def rotation(
    spec: Any,
    ax: Any = None,
    *,
    positions: tuple[int, int] = (7, 3),
    pairs: Sequence[int] | None = None,
    offsets: int | tuple[int, int] = 64,
    seed: int = 0,
    query: np.ndarray | None = None,
    key: np.ndarray | None = None,
    params: Params = None,
    length: int | None = None,
    width: int | None = None,
    scale: float = 1.0,
    theme: str = "light",
) -> Picture:
    """Draw dials of some pairs, the score as a sum over pairs, and the score by distance.

    Parameters
    ----------
    spec : RotarySpec
        A rotation of one axis.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    positions : (int, int)
        Of the query and the key.
    pairs : sequence of int, optional
        Whose dials are shown.
    offsets : int or (int, int)
        Distances of the curve.
    seed : int
        Of the random query and key.
    query, key : numpy.ndarray, optional
        (dim,); random by default.
    params : mapping, optional
        As for `table`.
    length : int, optional
        As for `table`.
    width : int, optional
        Pixels of the panels.
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
    >>> made = posenc.plot.rotation(posenc.RoPE(64, pairing="half"), positions=(40, 8))
    >>> len(made.data.dials), len(made.data.scores)
    (6, 4)
    """
    arguments = {k: v for k, v in locals().items() if k not in ("ax", "params")}
    data = _rotation.data(
        spec,
        positions,
        pairs=pairs,
        offsets=offsets,
        seed=seed,
        query=query,
        key=key,
        params=params,
        length=length,
    )
    wide = width or 560
    count = len(data.dials)
    side = min(96, (wide - 10 * (count - 1)) // count)
    sheet = Sheet(
        64 + wide + 190,
        side + 58 + 96 + 60 + 190 + 44,
        ax=ax,
        theme=theme,
        scale=scale,
        question="What does a rotation do to queries and keys?",
        title=data.title,
        caption=data.caption,
    )
    for place, dial in enumerate(data.dials):
        axes = sheet.panel(64 + place * (side + 10), 24, side, side)
        _dial(sheet, axes, dial)
    _legend(sheet, data, (64 + wide + 8, 24, 180, side))
    axes = sheet.panel(64, side + 70, wide, 96)
    paint_terms(sheet, axes, data.terms)
    axes = sheet.panel(64, side + 70 + 96 + 58, wide, 190)
    names = []
    for place, scores in enumerate(data.scores):
        style = sheet.style(place)
        axes.plot(data.offsets, scores.values, **style)
        names.append((float(scores.values[-1]), scores.label, style["color"]))
    axes.set_xlabel("offset: query \N{MINUS SIGN} key")
    axes.set_ylabel("score")
    thousands(axes.xaxis)
    axes.margins(x=0.01)
    label_ends(axes, names)
    return sheet.picture("rotation", data, arguments)


def paint_terms(sheet: Sheet, axes: Any, terms: np.ndarray, index: int = 0) -> None:
    """What each pair adds to the score, as bars from zero."""
    place = np.arange(len(terms))
    axes.vlines(
        place,
        0,
        terms,
        color=sheet.series[index].colour,
        linewidth=max(1, min(6, 300 / len(terms))),
    )
    axes.axhline(0, color=sheet.theme.rule, linewidth=0.8)
    axes.set_ylabel("term of q·k")
    axes.set_xlabel("pair")
    thousands(axes.xaxis)
    axes.set_xlim(-0.7, len(terms) - 0.3)


def _dial(sheet: Sheet, axes: Any, dial: Any) -> None:
    reach = max(1.0, *(math.hypot(*p) for p in (dial.query, dial.key)))
    around = np.linspace(0, 2 * math.pi, 181)
    axes.plot(np.cos(around), np.sin(around), color=sheet.theme.rule, linewidth=0.8)
    if len(dial.trail) > 2:
        axes.plot(
            *dial.trail.T, linestyle="none", marker=".", markersize=2, color=sheet.theme.muted
        )
    for point, index, width in ((dial.key, 1, 2.6), (dial.query, 0, 1.6)):
        style = sheet.style(index)
        axes.plot([0, point[0]], [0, point[1]], **{**style, "linewidth": width})
        axes.plot(*point, marker="o", markersize=4, color=style["color"])
    axes.set_xlim(-1.12 * reach, 1.12 * reach)
    axes.set_ylim(-1.12 * reach, 1.12 * reach)
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)
    turn = f"\n{number(dial.wavelength, 3)}/turn" if math.isfinite(dial.wavelength) else ""
    axes.set_title(f"pair {dial.pair}{turn}", fontsize=8.5, color=sheet.theme.ink, pad=3)


def _legend(sheet: Sheet, data: Any, box: tuple[float, float, float, float]) -> None:
    axes = sheet.panel(*box)
    axes.set_axis_off()
    for row, (name, position, index) in enumerate(
        (("query", data.positions[0], 0), ("key", data.positions[1], 1))
    ):
        y = 0.75 - 0.22 * row
        axes.plot([0.02, 0.2], [y, y], transform=axes.transAxes, **sheet.style(index))
        axes.text(
            0.25,
            y,
            f"{name} at {whole(position)}",
            transform=axes.transAxes,
            va="center",
            fontsize=9,
            color=sheet.theme.ink,
        )
    axes.text(
        0.02,
        0.3,
        "right: cosine, up: sine",
        transform=axes.transAxes,
        va="center",
        fontsize=8.5,
        color=sheet.theme.muted,
    )
