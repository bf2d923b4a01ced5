"""Rotation: what a rotation does to a query and a key."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np

from posenc.plot.columns import Params
from posenc.plot.draw.beside import GAP, Beside, legend, over, sides_of
from posenc.plot.draw.look import Look, asked
from posenc.plot.draw.marks import label_ends
from posenc.plot.draw.picture import Picture
from posenc.plot.draw.sheet import Sheet
from posenc.plot.draw.ticks import thousands
from posenc.plot.views import rotation as _rotation
from posenc.plot.words import number, whole

NARROW = 360  # points of a picture in which dials stand in two lines


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
    **look: Unpack[Look],
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
    **look
        `width`: pixels of the panels. The others are as for `table`.

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
    arguments, frame = asked("rotation", locals())
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
    wide = frame.width or 560
    count = len(data.dials)
    side = min(96, (wide - 10 * (count - 1)) // count)
    sheet = Sheet(ax, frame, "What does a rotation do to queries and keys?", data)
    _legend(sheet, data)
    across = count if not 0 < sheet.room()[0] < NARROW else -(-count // 2)
    for place, dial in enumerate(data.dials):
        line, column = divmod(place, across)
        at = (column * (wide + GAP) / across, GAP + line * (side + GAP))
        _dial(sheet, sheet.panel(*at, side, side), dial)
    top = GAP + -(-count // across) * (side + GAP)
    paint_terms(sheet, sheet.panel(0, top, wide, 96), data.terms)
    axes = sheet.panel(0, top + 96 + GAP, wide, 190)
    names = []
    for place, scores in enumerate(data.scores):
        names.append(
            (float(scores.values[-1]), sheet.name(place, scores.label), sheet.style(place))
        )
        axes.plot(data.offsets, scores.values, **sheet.style(place))
    axes.set(xlabel="offset: query \N{MINUS SIGN} key", ylabel="score")
    thousands(axes.xaxis)
    axes.margins(x=0.01)
    label_ends(sheet, axes, names)
    return sheet.picture("rotation", data, arguments)


def paint_terms(sheet: Sheet, axes: Any, terms: np.ndarray, index: int = 0) -> None:
    """What each pair adds to the score, as bars from zero."""
    wide = max(1, min(6, 300 / len(terms)))
    axes.vlines(np.arange(len(terms)), 0, terms, color=sheet.style(index)["color"], linewidth=wide)
    axes.axhline(0, color=sheet.theme.rule, linewidth=0.8)
    axes.set(ylabel="term of q·k", xlabel="pair")
    thousands(axes.xaxis)
    axes.set_xlim(-0.7, len(terms) - 0.3)


def _dial(sheet: Sheet, axes: Any, dial: Any) -> None:
    reach = max(1.0, *(math.hypot(*p) for p in (dial.query, dial.key)))
    circle = np.linspace(0, 2 * math.pi, 181)
    axes.plot(np.cos(circle), np.sin(circle), color=sheet.theme.rule, linewidth=0.8)
    if len(dial.trail) > 2:
        axes.plot(
            *dial.trail.T, linestyle="none", marker=".", markersize=2, color=sheet.theme.muted
        )
    for point, index, width in ((dial.key, 1, 2.6), (dial.query, 0, 1.6)):
        style = sheet.style(index)
        axes.plot([0, point[0]], [0, point[1]], **{**style, "linewidth": width})
        axes.plot(*point, marker="o", markersize=4, color=style["color"])
    around = (-1.12 * reach, 1.12 * reach)
    axes.set(xlim=around, ylim=around, xticks=[], yticks=[], aspect="equal")
    axes.spines[:].set_visible(False)
    turn = f"\n{number(dial.wavelength, 3)}/turn" if math.isfinite(dial.wavelength) else ""
    words = {"fontsize": sheet.points(8.5), "color": sheet.theme.ink, "pad": 3}
    axes.set_title(f"pair {dial.pair}{turn}", **words)


def _legend(sheet: Sheet, data: Any) -> None:
    """Which hand is which, above the dials."""
    axes = sheet.panel(0, 0, 1, 1, "still")
    axes.set_axis_off()
    hands = [
        (f"{name} at {whole(position)}", sheet.style(index))
        for index, (name, position) in enumerate(zip(("query", "key"), data.positions, strict=True))
    ]
    hands.append(("right: cosine, up: sine", {"color": "none"}))
    place = {"loc": "lower left", "borderpad": 0, "columnspacing": 1.2}
    sheet.key(axes, hands, ncols=3 if not 0 < sheet.room()[0] < NARROW else 1, **place)


def _beside(sheet: Sheet, data: Any, most: int) -> None:
    axes = sheet.panel(0, 0, 2 * most, 110)
    paint_terms(sheet, axes, data.a.terms, 0)
    marks = {"linestyle": "none", "marker": "_", "color": sheet.style(1)["color"]}
    axes.plot(np.arange(len(data.b.terms)), data.b.terms, **marks)
    below = sheet.panel(0, 120, 2 * most, 150)
    for (name, side), style in zip(sides_of(data), over(sheet), strict=True):
        below.plot(side.offsets, side.scores[0].values, label=name, **style)
    below.set(xlabel="offset: query \N{MINUS SIGN} key", ylabel="score")
    legend(sheet, below)


BESIDE = Beside(_beside)
