"""Panels in ink: what a picture consists of, laid out on a sheet from top to bottom."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from posenc.plot.draw.layout import Keep, Room, cells, fill, hatched, spread
from posenc.plot.draw.look import worded
from posenc.plot.draw.marks import (
    BAND,
    beside_heading,
    inks,
    inside,
    label_ends,
    legend,
    mark_line,
    names_of_curves,
    ruled,
)
from posenc.plot.draw.sheet import Sheet
from posenc.plot.panels.grammar import (
    Arcs,
    AttentionPanel,
    Axis,
    Chart,
    Dial,
    Dials,
    Heatmap,
    Mark,
    Matrix,
    Panel,
    Series,
    Strip,
    Strips,
)
from posenc.plot.panels.text import spread as widened

GAP = 10  # between panels, beside what their labels need
ROW, WAVE = 14, 26  # of a strip, and of one with a curve
DIAL = 96
ARC = 44
COMPACT = 64  # of a chart whose title stands at its right
SHORT = 10  # letters of a title that stands above a small map
NARROW = 360  # points of a picture in which dials stand in two lines
MOST_TEXTS = 64  # cells of a row that may have one
MARKED = 40  # points of a line up to which each is marked
FEW = 3  # lines of a chart up to which that is so


def paint(sheet: Sheet, panels: Iterable[Panel], room: Room) -> None:
    """Draw panels one below the other; what is text alone stands in the caption."""
    top = 0.0
    for panel in panels:
        draw: Any = DRAWN.get(type(panel))
        if draw is not None:
            top += draw(sheet, panel, top, room) + GAP


def _chart(sheet: Sheet, panel: Chart, top: float, room: Room) -> float:
    high = room.high or (COMPACT if panel.compact else panel.height)
    if any(mark.style == "faint" and mark.text for mark in panel.marks):
        high = round(high / max(0.5, sheet.frame.shrunk))  # words between curves stay as high
    axes = sheet.panel(0, top, room.wide, high)
    _axes(axes, panel.x, panel.y)
    axes.tick_params(labelbottom=bool(panel.x.label), bottom=bool(panel.x.label))
    if panel.compact:
        axes.set_ylim(*widened(*panel.y.domain, share=0.07))
    for series in sorted(panel.series, key=lambda series: series.front):
        _series(sheet, axes, series, marked=len(panel.series) <= FEW)
    if panel.y.domain[0] < 0 < panel.y.domain[1] and panel.y.scale == "linear" and panel.y.most:
        axes.axhline(0, color=sheet.theme.rule, linewidth=0.6, zorder=0)
    across = [m.at for m in panel.marks if m.axis == "y" and m.style not in MARKS]
    for mark in panel.marks:  # the name of the lowest of several lines stands below it
        _mark(sheet, axes, mark, below=len(across) > 1 and mark.at == min(across))
    if panel.compact:
        title = sheet.name(int(panel.id.rpartition("-")[2]), panel.title)
        title = title.replace(": ", "\n").replace(", ", "\n")
        sheet.note(axes, title, (1, 0.5), xytext=(8, 0), va="center")
        if len(panel.series) > 1 and not top:
            curves = [(series.label[:1], sheet.style(series.style)) for series in panel.series]
            sheet.key(axes, curves, loc="lower right", bbox_to_anchor=(1, 1), ncols=2)
    else:
        sheet.heading(axes, panel.title)
        label_ends(sheet, axes, names_of_curves(sheet, panel))
    return high


def _axes(axes: Any, x: Axis, y: Axis) -> None:
    alike = x.cells and y.cells and x.domain == y.domain and not y.also
    for axis, rule in ((axes.xaxis, x), (axes.yaxis, y)):
        if rule.scale != "linear":
            axis._set_axes_scale(
                rule.scale, **({"linthresh": 10} if rule.scale == "symlog" else {})
            )
        ruled(axis, rule, *((axes.xaxis, axes.yaxis) if alike else ()))
    axes.spines["left"].set_visible(bool(y.most))
    axes.set(xlim=x.domain, ylim=y.domain, xlabel=x.label, ylabel=y.label)


def _series(sheet: Sheet, axes: Any, series: Series, *, marked: bool) -> None:
    style = sheet.style(series.style)
    colour = style["color"]
    style["linewidth"] *= 1.6 if series.front else 1
    if series.draw == "bars":
        wide = max(0.6, min(6, 300 / max(1, len(series.x))))
        axes.vlines(series.x, 0, series.y, color=colour, linewidth=wide)
    elif series.draw == "points":
        axes.errorbar(
            series.x,
            series.y,
            xerr=None if series.lo is None else [series.lo, series.hi],
            capsize=0 if series.lo is None else 3,
            color=colour,
            linestyle="none",
            linewidth=1,
            marker="D" if series.style else "o",
            markersize=5 if series.front else 3.5,
        )
    else:
        if series.lo is not None:
            axes.fill_between(
                series.x, series.lo, series.hi, color=colour, alpha=BAND, linewidth=0, step="mid"
            )
        few = marked and len(series.y) <= MARKED and series.lo is None
        axes.plot(series.x, series.y, marker="o" if few else None, markersize=2.5, **style)


def _mark(sheet: Sheet, axes: Any, mark: Mark, *, below: bool = False) -> None:
    if mark.axis == "point":
        axes.plot(mark.at, mark.to, marker="o", markersize=5, color=sheet.theme.ink)
    elif mark.style in MARKS:
        MARKS[mark.style](sheet, axes, mark)
    elif mark.axis == "y":
        mark_line(sheet, axes, mark.at, mark.text, below=below)
    else:
        _upright(sheet, axes, mark)


def _band(sheet: Sheet, axes: Any, mark: Mark) -> None:
    """A shaded band, whose name stands above the box where it has room."""
    span = axes.axvspan if mark.axis == "x" else axes.axhspan
    span(mark.at, mark.to, color=sheet.theme.rule, alpha=0.35, linewidth=0)
    above = {"xytext": (0, 4), "ha": "right", "va": "bottom", "color": sheet.theme.muted}
    sheet.inner.append(
        (lambda: beside_heading(axes), [sheet.note(axes, mark.text, (1, 1), **above)])
    )


def _faint(sheet: Sheet, axes: Any, mark: Mark) -> None:
    line = axes.axvline if mark.axis == "x" else axes.axhline
    line(mark.at, color=sheet.theme.rule, linewidth=0.7, zorder=0)
    place = {"xycoords": ("axes fraction", "data"), "xytext": (0, 5), "va": "bottom"}
    sheet.note(axes, sheet.folded(mark.text), (0, mark.at), **place)


def _upright(sheet: Sheet, axes: Any, mark: Mark) -> None:
    axes.axvline(mark.at, color=sheet.theme.ink, linewidth=1, linestyle=(0, (4, 3)), zorder=3)
    # In given axes it stands inside, as a title may stand above.
    within = {"xytext": (-2, 4), "ha": "right", "rotation": 90}
    words, low = (within, 0) if sheet.direct else ({"xytext": (0, 4), "ha": "center"}, 1)
    sheet.note(
        axes, mark.text, (mark.at, low), xycoords=("data", "axes fraction"), va="bottom", **words
    )


MARKS = {"band": _band, "faint": _faint}


# --- colours --------------------------------------------------------------------------------------


def _heatmap(sheet: Sheet, panel: Heatmap, top: float, room: Room) -> float:
    wide, high = _size(panel, room.matrix)
    _tile(sheet, panel, (0, top, wide, high))
    _bar(sheet, panel, wide + GAP, top, min(120, high))
    return high


def _matrix(sheet: Sheet, panel: Matrix, top: float, room: Room) -> float:
    """Heatmaps in lines; what their axes are stands at the left and below."""
    across = min(panel.across, len(panel.cells))
    wide, high = sheet.room()
    if wide and high and wide > high and panel.across > 3:
        across = min(2 * across, len(panel.cells))  # so that they are not small and the rest empty
    elif (
        _is_narrow(sheet)
        and (panel.key or panel.across > 3)
        and max(len(line) for cell in panel.cells for line in cell.title.split("\n")) > SHORT
    ):
        across = min(2, across)
    each = room.each(max(across, min(panel.across, len(panel.cells))))
    sizes = [_size(cell, each) for cell in panel.cells]
    wide, high = (max(size[side] for size in sizes) for side in (0, 1))
    for place, (cell, size) in enumerate(zip(panel.cells, sizes, strict=True)):
        line, column = divmod(place, across)
        axes = _tile(sheet, cell, (column * (wide + GAP), top + line * (high + GAP), *size))
        if column and cell.y == panel.cells[place - 1].y:
            axes.tick_params(labelleft=False, left=False)
            axes.set_ylabel("")
        if any(below.x.domain == cell.x.domain for below in panel.cells[place + across :][:1]):
            axes.tick_params(labelbottom=False, bottom=False)
            axes.set_xlabel("")
    total = -(-len(panel.cells) // across) * (high + GAP) - GAP
    _bar(sheet, panel.cells[0], across * (wide + GAP), top, total)
    if panel.key:
        lut = sheet.luts["parts"] / 255
        key = [(text, {"color": lut[n], "linewidth": 6}) for text, n in panel.key]
        legend(sheet, top + total + GAP, key, "upper left")
        total += ROW + GAP
    return total


def _is_narrow(sheet: Sheet) -> bool:
    return 0 < sheet.room()[0] < NARROW


def _size(panel: Heatmap, most: tuple[int, int]) -> tuple[int, int]:
    """Points of a heatmap: whole ones for each cell, where they are fewer than points."""
    across, down = (round(axis.domain[1] - axis.domain[0]) for axis in (panel.x, panel.y))
    if panel.y.names is not None and panel.x.names is None:  # a line for each word
        return cells(across, most[0]), down * max(8, min(24, 180 // down))
    largest = 60 if panel.numbers else 24
    return cells(across, most[0], largest), cells(down, most[1], largest)


def _tile(sheet: Sheet, panel: Heatmap, box: tuple[float, float, float, float]) -> Any:
    keep: Keep = "" if panel.y.names else "cells"
    if panel.x.domain == panel.y.domain and panel.x.cells and panel.x.label != "dimension":
        keep = "square"
    axes = sheet.panel(*box, keep)
    _axes(axes, panel.x, panel.y)
    axes.set_ylim(*panel.y.domain[::-1])
    axes.spines[:].set_visible(False)
    fill(axes, lambda rows, columns: _coloured(sheet, panel, rows, columns))
    down, across = (round(axis.domain[1] - axis.domain[0]) for axis in (panel.y, panel.x))
    sheet.tiles.append((axes, panel.tile.shape, (down, across)))
    for mark in panel.lines:
        _mark(sheet, axes, mark)
    sheet.heading(axes, panel.title)
    for row, line in enumerate(panel.numbers):
        inside(sheet, axes, line, inks(sheet, panel.lut, panel.tile[row]), row + 0.5)
    return axes


def _coloured(sheet: Sheet, panel: Heatmap, rows: int, columns: int) -> np.ndarray:
    """The colours of pixels of the device; hatched where there is no number."""
    absent = (panel.tile == 0) & (panel.lut == "diverging")
    if panel.mask is not None:
        absent = absent | (panel.mask > 0)
    return hatched(
        sheet.luts[panel.lut][spread(np.where(absent, 0, panel.tile), rows, columns)],
        spread(absent, rows, columns),
        sheet.theme,
    )


def _bar(sheet: Sheet, panel: Heatmap, left: float, top: float, high: float) -> None:
    """The scale of colours, what its ends mean, and zero between them."""
    if sheet.direct or not panel.low + panel.high:
        return  # the caller's axes have one panel
    axes = sheet.panel(left, top, 12, high, "still")
    ends, lut = {0: panel.low, 1: panel.high}, sheet.luts[panel.lut]
    if panel.lut == "diverging":
        ends, lut = {-1: panel.low, 0: "0", 1: panel.high}, lut[1:]
    fill(
        axes,
        lambda rows, columns: np.broadcast_to(
            lut[::-1][np.arange(rows) * len(lut) // rows][:, None], (rows, columns, 3)
        ),
    )
    axes.set(xticks=[], ylim=(min(ends), 1))
    axes.yaxis.tick_right()
    axes.yaxis.set_label_position("right")
    axes.set_ylabel(panel.scale, fontsize=sheet.points(9), labelpad=2)
    axes.set_yticks(list(ends), ends.values())
    axes.spines[:].set_visible(False)


def _strips(sheet: Sheet, panel: Strips, top: float, room: Room) -> float:
    """Rows of cells, each curve below the row that it belongs to."""
    count = len(panel.strips[0].tile)
    longest = max((len(text) for strip in panel.strips for text in strip.numbers), default=1)
    wide, at = cells(count, room.wide, min(70, 8 + 16 * longest)), 0.0
    named = Axis(panel.label, (0, count), cells=True, names=panel.columns)
    for strip in panel.strips:
        high = ROW if strip.curve is None else WAVE
        last = strip is panel.strips[-1]
        axes = sheet.panel(0, top + at, wide, high)
        _axes(axes, named if last else Axis("", (0, count), most=0), Axis("", (0, 1), most=0))
        axes.spines[:].set_visible(False)
        if strip.curve is None:
            _cells(sheet, axes, panel.lut, strip)
        else:
            _curve(sheet, axes, strip, strip.curve)
        for edge in () if strip.at is None else (strip.at, strip.at + 1):
            axes.axvline(edge, color=sheet.theme.ink, linewidth=1.0, zorder=4)
        if not at:
            sheet.heading(axes, panel.title)
        at += high + (GAP if strip.curve is not None else 0)
    return at


def _cells(sheet: Sheet, axes: Any, name: str, strip: Strip) -> None:
    lut = sheet.luts[name]
    fill(axes, lambda rows, columns: lut[spread(strip.tile[None], rows, columns)])
    axes.set_yticks([0.5], [strip.label])
    if 0 < len(strip.numbers) <= MOST_TEXTS:
        inside(sheet, axes, strip.numbers, inks(sheet, name, strip.tile), 0.5)


def _curve(sheet: Sheet, axes: Any, strip: Strip, curve: np.ndarray) -> None:
    """A curve over the cells, and a point for each where those are few; its name at the right."""
    count, shown = len(strip.tile), np.isfinite(curve).any()
    axes.set_ylim(-1.25, 1.25)
    if shown:
        fine = (len(curve) - 1) // max(count - 1, 1) or 1
        style, few = sheet.style(0), count <= MOST_TEXTS
        style["linewidth"] *= 1.0 if few else 0.6
        places = np.arange(len(curve)) / fine + 0.5
        axes.plot(places, curve, **style)
        if few:
            dots = {"linestyle": "none", "marker": "o", "markersize": 2.2, "color": style["color"]}
            axes.plot(places[::fine], curve[::fine], **dots)
    look = {"fontsize": sheet.points(8.5), "color": sheet.theme.ink if shown else sheet.theme.muted}
    text = strip.label.replace(", ", "\n").replace(": the ", ":\nthe ")
    sheet.note(axes, text, (1, 0.75), xytext=(8, 0), va="center", **look)


def _dials(sheet: Sheet, panel: Dials, top: float, room: Room) -> float:
    count = len(panel.dials)
    across = -(-count // (2 if _is_narrow(sheet) else 1))
    side = min(DIAL, (room.wide - 10 * (across - 1)) // across)
    hands = [(text, _hand(sheet, style)) for _, _, style, text in panel.dials[0].hands]
    legend(sheet, top, hands, "lower left", 2)
    for place, dial in enumerate(panel.dials):
        line, column = divmod(place, across)
        left = column * (room.wide + GAP) / across
        _dial(sheet, sheet.panel(left, top + GAP + line * (side + GAP), side, side), dial)
    return -(-count // across) * (side + GAP)


def _hand(sheet: Sheet, index: int) -> dict[str, Any]:
    """How the arrow of a query (0) or of a key is drawn; one over the other, both are seen."""
    return {"linewidth": 2.4 - 0.8 * (not index), "color": sheet.style(index)["color"]}


def _dial(sheet: Sheet, axes: Any, dial: Dial) -> None:
    from matplotlib.patches import Circle

    theme = sheet.theme
    axes.add_patch(Circle((0, 0), 1, fill=False, color=theme.rule, linewidth=0.8))
    if dial.trail is not None and len(dial.trail) > 2:
        axes.plot(*dial.trail.T, linestyle="none", marker=".", markersize=2, color=theme.muted)
    for x, y, index, _ in dial.hands[::-1]:
        tip = {"marker": "o", "markersize": 3.5, "markevery": [1]}
        axes.plot([0, x], [0, y], **_hand(sheet, index), **tip)
    axes.set(xlim=(-1.1, 1.1), ylim=(-1.1, 1.1), xticks=[], yticks=[], aspect="equal")
    axes.spines[:].set_visible(False)
    words = worded(f"{dial.label}\n{dial.note.partition(';')[0]}")
    axes.set_title(words, fontsize=sheet.points(8.5), color=theme.ink, pad=3)


def _arcs(sheet: Sheet, panel: Arcs, top: float, room: Room) -> float:
    """The channels in a row, an arc over each pair, the chosen one in front."""
    axes = sheet.panel(0, top, room.wide, ARC)
    _axes(
        axes,
        Axis("channel", (0, max(map(max, panel.pairs)) + 1), cells=True),
        Axis("", (0, 1.05), most=0),
    )
    axes.spines["left"].set_visible(False)
    half = np.linspace(0, np.pi, 41)
    longest = max(b - a for a, b in panel.pairs)
    for place, (a, b) in enumerate(panel.pairs):
        arc = (a + b + 1) / 2 + (b - a) / 2 * np.cos(half), (b - a) / longest * np.sin(half)
        chosen = {"color": sheet.theme.ink, "linewidth": 1.6, "zorder": 3}
        axes.plot(
            *arc,
            **(chosen if place == panel.chosen else {"color": sheet.theme.muted, "linewidth": 0.8}),
        )
    sheet.heading(axes, panel.title)
    return ARC


DRAWN = {
    Arcs: _arcs,
    # The grids of several encodings beside each other.
    AttentionPanel: lambda sheet, panel, *room: _matrix(
        sheet, Matrix(panel.id, panel.title, tuple(cell.grid for cell in panel.cells)), *room
    ),
    Chart: _chart,
    Dials: _dials,
    Heatmap: _heatmap,
    Matrix: _matrix,
    Strips: _strips,
}
