"""Compare: a picture of A, the same of B, and A - B, with one scale."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from posenc.plot.draw import curves, tables, turns
from posenc.plot.draw.biases import paint_bias, paint_offsets
from posenc.plot.draw.heat import BAR, bar, heat, place_ticks
from posenc.plot.draw.picture import Picture
from posenc.plot.draw.sheet import Sheet, cells, decades, thousands
from posenc.plot.draw.stretching import paint_stretch
from posenc.plot.raster import span
from posenc.plot.views import compare as _compare

__all__ = ["compare"]

LEFT, BOTTOM, GAP = 64, 60, 26
SIDE = 280  # pixels of a panel, at most


def compare(
    view: str,
    a: Any,
    b: Any,
    ax: Any = None,
    *,
    a_params: Any = None,
    b_params: Any = None,
    width: int | None = None,
    scale: float = 1.0,
    theme: str = "light",
    **options: Any,
) -> Picture:
    """Draw any picture of one encoding for two, and their difference.

    Matrices stand side by side, the difference third; curves are laid over each other, those of B
    dashed.

    Parameters
    ----------
    view : str
        The picture: `table`, `waves`, `wavelengths`, `offset`, `similarity`, `counter`, `sum`,
        `rotation`, `bias` or `stretch`.
    a, b : Spec
        The encodings.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    a_params, b_params : mapping, optional
        What each has learned.
    width : int, optional
        Pixels of a panel, at most.
    scale : float
        As for `table`.
    theme : str
        As for `table`.
    **options
        Of the picture, the same for both.

    Returns
    -------
    Picture
        The figure, what it shows, and its files.

    Examples
    --------
    >>> import posenc, posenc.plot
    >>> a, b = posenc.Sinusoidal(64), posenc.Sinusoidal(64, base=100)
    >>> round(posenc.plot.compare("table", a, b, positions=64).data.largest, 2)
    2.0
    """
    arguments = {"view": view, "a": a, "b": b, "theme": theme, "scale": scale, **options}
    most = width or SIDE
    asked = dict(options)
    if view in ("table", "similarity", "bias"):
        count = _count(asked.get("positions", 64 if view == "bias" else 128))
        pixels = max(1, round(cells(count, most) * scale))
        asked |= {"rows": pixels, "columns": round(most * scale)} if view == "table" else {}
        asked |= {} if view == "table" else {"pixels": pixels}
    if view in ("waves", "offset"):
        asked["pixels"] = round(2 * most * scale)
    data = _compare.data(
        view,
        a,
        b,
        a_options=None if a_params is None else {"params": a_params},
        b_options=None if b_params is None else {"params": b_params},
        **asked,
    )
    layout = _LAYOUTS[view](data, most)
    sheet = Sheet(
        layout[0],
        layout[1],
        ax=ax,
        theme=theme,
        scale=scale,
        question=f"What differs? {view}",
        title="A | B | A \N{MINUS SIGN} B" if data.difference is not None else "A and B",
        caption=data.caption,
        lines="apart",
    )
    _PAINT[view](sheet, data, most)
    return sheet.picture("compare", data, arguments)


def _count(positions: Any) -> int:
    start, stop = span(positions, "positions")
    return stop - start


# --- matrices -------------------------------------------------------------------------------------


def _size(data: Any, most: int) -> tuple[int, int]:
    """Width and height of a panel: a whole number of pixels to a cell."""
    if data.view == "bias":
        side = cells(data.a.positions[1] - data.a.positions[0], most)
        return side, side
    if data.view == "sum":
        return cells(data.a.total.shape[1], most), 18 * len(data.a.tokens)
    if data.view == "similarity":
        side = cells(data.a.positions[1] - data.a.positions[0], most)
        return side, side
    wide = max(cells(d.tile.dims[1] - d.tile.dims[0], most) for d in (data.a, data.b))
    start, stop = data.a.tile.positions
    return wide, cells(stop - start, most)


def _three(data: Any, most: int) -> tuple[int, int]:
    wide, high = _size(data, most)
    return LEFT + 3 * wide + 2 * GAP + BAR, high + BOTTOM + 16


def _panels(sheet: Sheet, data: Any, most: int) -> None:
    wide, high = _size(data, most)
    for place, (name, side) in enumerate(
        (("A", data.a), ("B", data.b), ("A \N{MINUS SIGN} B", None))
    ):
        if side is None and data.difference is None:
            continue
        axes = sheet.panel(LEFT + place * (wide + GAP), 16, wide, high)
        _matrix(sheet, axes, data, side)
        sheet.heading(axes, name, weight="bold")
        if place:
            axes.set_yticklabels([])
            axes.set_ylabel("")
    bar(sheet, LEFT + 3 * wide + 2 * GAP + 16, 16, data.limit, height=min(120, high))


def _matrix(sheet: Sheet, axes: Any, data: Any, side: Any) -> None:
    """The matrix of A or B, or their difference where neither is given."""
    shown = data.a if side is None else side
    if data.view == "table":
        values = data.difference if side is None else None
        tables.paint_tile(sheet, axes, shown.tile, values, data.limit)
    elif data.view == "similarity":
        values = data.difference if side is None else None
        tables.paint_similarity(sheet, axes, shown, values, data.limit)
    elif data.view == "bias":
        values = data.difference[0] if side is None else None
        paint_bias(sheet, axes, shown, 0, values=values, limit=data.limit)
        start, stop = shown.positions
        place_ticks(axes.xaxis, start, stop, 4)
        place_ticks(axes.yaxis, start, stop, 4)
        axes.set_xlabel(f"key, head {shown.heads[0]}")
        axes.set_ylabel("query")
    else:
        values = data.difference if side is None else shown.total
        rows, columns = values.shape
        heat(sheet, axes, values, limit=data.limit, x=(0, columns), y=(0, rows))
        axes.set_yticks([i + 0.5 for i in range(rows)])
        axes.set_yticklabels([token[:8] for token in shown.tokens])
        place_ticks(axes.xaxis, 0, columns)
        axes.set_xlabel("input, dimension")


# --- curves ---------------------------------------------------------------------------------------


def _over(sheet: Sheet) -> tuple[dict[str, Any], dict[str, Any]]:
    """The styles of A and of B."""
    return sheet.style(0), {**sheet.style(1), "linestyle": (0, (5, 2))}


def _names(sheet: Sheet, axes: Any) -> None:
    legend = axes.legend(loc="upper right", fontsize=9, frameon=False, ncols=2)
    for text in legend.get_texts():
        text.set_color(sheet.theme.ink)


def _waves_size(data: Any, most: int) -> tuple[int, int]:
    rows = max(len(data.a.curves), len(data.b.curves))
    return LEFT + 2 * most + 190, rows * 76 + 44


def _waves(sheet: Sheet, data: Any, most: int) -> None:
    rows = max(len(data.a.curves), len(data.b.curves))
    styles = _over(sheet)
    for row in range(rows):
        axes = sheet.panel(LEFT, row * 76, 2 * most, 64)
        for name, side, style in (("A", data.a, styles[0]), ("B", data.b, styles[1])):
            if row < len(side.curves):
                curves.paint_curve(axes, side.curves[row], style, name)
        side = data.a if row < len(data.a.curves) else data.b
        curves.dress_wave(sheet, axes, side.curves[row], side, last=row == rows - 1)
        axes.set_ylim(-1.15 * data.limit, 1.15 * data.limit)
        if row == 0:
            _names(sheet, axes)


def _one(data: Any, most: int) -> tuple[int, int]:
    del data
    return LEFT + 2 * most + 190, 320 + BOTTOM


def _wavelengths(sheet: Sheet, data: Any, most: int) -> None:
    axes = sheet.panel(LEFT, 0, 2 * most, 320)
    over = len(data.a.ladders[0].wavelengths) != len(data.b.ladders[0].wavelengths)
    for name, side, style in zip(("A", "B"), (data.a, data.b), _over(sheet), strict=True):
        ladder = side.ladders[0]
        finite = np.isfinite(ladder.wavelengths)
        x = ladder.share if over else np.arange(len(finite))
        axes.plot(x[finite], ladder.wavelengths[finite], label=name, **style)
    axes.set_yscale("log")
    decades(axes.yaxis)
    if data.a.length is not None:
        curves.mark_line(sheet, axes, data.a.length, f"length {data.a.length}")
    axes.set_xlabel("share of the pairs, fast to slow" if over else "pair")
    axes.set_ylabel("wavelength in positions")
    _names(sheet, axes)


def _offset(sheet: Sheet, data: Any, most: int) -> None:
    high = 320 if data.difference is None else 200
    axes = sheet.panel(LEFT, 0, 2 * most, high)
    for name, side, style in zip(("A", "B"), (data.a, data.b), _over(sheet), strict=True):
        if side.band != "none":
            axes.fill_between(
                side.offsets, side.low, side.high, color=style["color"], alpha=0.25, linewidth=0
            )
        axes.plot(side.offsets, side.mean, label=name, **style)
    axes.set_ylabel("dot product" if data.a.kind == "dot" else "cosine")
    _names(sheet, axes)
    panels = [axes]
    if data.difference is not None:
        below = sheet.panel(LEFT, high + 20, 2 * most, 100)
        below.plot(data.a.offsets, data.difference, **sheet.style(3))
        below.set_ylabel("A \N{MINUS SIGN} B")
        below.axhline(0, color=sheet.theme.rule, linewidth=0.6)
        axes.set_xticklabels([])
        panels.append(below)
    for each in panels:
        if data.a.scale == "log":
            each.set_xscale("log")
        else:
            thousands(each.xaxis)
        each.margins(x=0.01)
    panels[-1].set_xlabel("offset")


def _rotation(sheet: Sheet, data: Any, most: int) -> None:
    axes = sheet.panel(LEFT, 0, 2 * most, 110)
    turns.paint_terms(sheet, axes, data.a.terms, 0)
    place = np.arange(len(data.b.terms))
    axes.plot(place, data.b.terms, linestyle="none", marker="_", color=sheet.series[1].colour)
    below = sheet.panel(LEFT, 170, 2 * most, 150)
    for name, side, style in zip(("A", "B"), (data.a, data.b), _over(sheet), strict=True):
        below.plot(side.offsets, side.scores[0].values, label=name, **style)
    below.set_xlabel("offset: query \N{MINUS SIGN} key")
    below.set_ylabel("score")
    _names(sheet, below)


def _stretch_size(data: Any, most: int) -> tuple[int, int]:
    del data
    return LEFT + 2 * most + 2 * 130 + 40, 240 + 24 + 150 + 44


def _stretch(sheet: Sheet, data: Any, most: int) -> None:
    for place, side in enumerate((data.a, data.b)):
        left = LEFT + place * (most + 170)
        above = sheet.panel(left, 0, most, 240)
        below = sheet.panel(left, 264, most, 150)
        paint_stretch(sheet, above, below, side)
        sheet.heading(above, "AB"[place], weight="bold")
        if place:
            above.set_ylabel("")
            below.set_ylabel("")


def _counter(sheet: Sheet, data: Any, most: int) -> None:
    axes = sheet.panel(LEFT, 0, 2 * most, 320)
    for name, side, style in zip(("A", "B"), (data.a, data.b), _over(sheet), strict=True):
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
    _names(sheet, axes)


def _bias(sheet: Sheet, data: Any, most: int) -> None:
    if data.difference is not None:
        _panels(sheet, data, most)
        return
    for place, side in enumerate((data.a, data.b)):
        axes = sheet.panel(LEFT + place * (most + 120), 16, most, 200)
        paint_offsets(sheet, axes, side)
        sheet.heading(axes, "AB"[place], weight="bold")


def _bias_size(data: Any, most: int) -> tuple[int, int]:
    return _three(data, most) if data.difference is not None else (LEFT + 2 * most + 260, 280)


Size = Callable[[Any, int], tuple[int, int]]
Paint = Callable[[Sheet, Any, int], None]

_LAYOUTS: Mapping[str, Size] = {
    "table": _three,
    "similarity": _three,
    "sum": _three,
    "bias": _bias_size,
    "waves": _waves_size,
    "wavelengths": _one,
    "offset": _one,
    "rotation": _one,
    "counter": _one,
    "stretch": _stretch_size,
}
_PAINT: Mapping[str, Paint] = {
    "table": _panels,
    "similarity": _panels,
    "sum": _panels,
    "bias": _bias,
    "waves": _waves,
    "wavelengths": _wavelengths,
    "offset": _offset,
    "rotation": _rotation,
    "counter": _counter,
    "stretch": _stretch,
}
