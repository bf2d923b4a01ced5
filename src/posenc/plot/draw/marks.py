"""Marks of curves: a line across with its name, and the names of curves at their ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from posenc.plot import palette
from posenc.plot.draw.look import worded
from posenc.plot.draw.sheet import Sheet
from posenc.plot.panels.grammar import Axis, Chart
from posenc.plot.panels.text import Tick

LEADER = {"arrowstyle": "-", "linewidth": 0.6, "shrinkA": 0, "shrinkB": 1}
BAND = 0.28  # opacity of a band around a curve


def legend(
    sheet: Sheet,
    top: float,
    names: Sequence[tuple[str, dict[str, Any]]],
    corner: str,
    columns: int = 3,
) -> None:
    """What colours mean, from a corner of its place on."""
    axes = sheet.panel(0, top, 1, 1, "still")
    axes.set_axis_off()
    sheet.key(axes, names, loc=corner, borderpad=0, columnspacing=1.2, ncols=columns)


def inside(sheet: Sheet, axes: Any, texts: Sequence[str], inks: Sequence[str], y: float) -> None:
    """A text in each cell of a row, if all have room there."""
    style = {"ha": "center", "va": "center_baseline", "fontsize": sheet.points(8)}
    left, right = axes.get_xlim()
    shown = [
        axes.text(left + k + 0.5, y, worded(text), color=ink, **style)
        for k, (text, ink) in enumerate(zip(texts, inks, strict=True))
    ]
    share = 0.95 / abs(right - left)
    sheet.inner.append((lambda: share * axes.get_window_extent().width, shown))


def inks(sheet: Sheet, lut: str, entries: np.ndarray) -> list[str]:
    """The colour of a text on cells: whichever of page and ink is farther in lightness."""
    light = palette.to_oklab(sheet.luts[lut][entries])[..., 0]
    page, ink = (
        np.abs(light - palette.to_oklab(palette.rgb(colour))[0])
        for colour in (sheet.theme.page, sheet.theme.ink)
    )
    return [sheet.theme.page if one else sheet.theme.ink for one in page > ink]


def beside_heading(axes: Any) -> float:
    """Pixels at the right of the heading of a panel."""
    heading = axes.get_title(loc="left") and axes._left_title.get_window_extent().width
    return float(axes.get_window_extent().width - (heading or 0) - 8)


def mark_line(sheet: Sheet, axes: Any, at: float, text: str, *, below: bool) -> None:
    """A dashed line across, with its name."""
    axes.axhline(at, color=sheet.theme.ink, linewidth=0.9, linestyle=(0, (4, 3)))
    note = sheet.note(
        axes,
        text,
        (0, at),
        bbox={"facecolor": sheet.theme.page, "edgecolor": "none", "pad": 0.5, "alpha": 0.75},
        xycoords=("axes fraction", "data"),
        xytext=(4, -3 if below else 3),
        va="top" if below else "baseline",
    )
    note.set_in_layout(False)
    sheet.inner.append((lambda: axes.get_window_extent().width, [note]))


def names_of_curves(sheet: Sheet, panel: Chart) -> list[tuple[float, str, dict[str, Any]]]:
    """The curves that have names: several, or one that the caller calls something."""
    lines = [series for series in panel.series if series.draw in ("line", "step")]
    named = []
    for place, series in enumerate(lines):
        name = sheet.name(place, series.label if len(panel.series) > 1 else "")
        finite = series.y[np.isfinite(series.y)]
        if name and len(finite):
            named.append((float(finite[-1]), name, sheet.style(series.style)))
    return named


def label_ends(sheet: Sheet, axes: Any, names: list[tuple[float, str, dict[str, Any]]]) -> None:
    """The name of each curve at its end, moved apart where they would meet.

    In axes that are given, whose surroundings belong to others, and where they would take too much
    room, the names stand in a legend.
    """
    if not names:
        return
    if sheet.direct:
        sheet.key(axes, [(text, style) for _, text, style in names], loc="best")
        return
    sheet.named |= {text: style for _, text, style in names}
    notes: list[Any] = []

    def place(*, remove: bool = False) -> None:
        while notes:
            notes.pop().remove()
        if remove:
            return
        axes.get_ylim()  # settles the limits, on which places depend
        box = axes.get_window_extent()
        unit = 72 / axes.figure.dpi  # pixels of the device as points
        heights = [(axes.transData.transform((0, y))[1] - box.y0) * unit for y, _, _ in names]
        order = np.argsort(heights, kind="stable")
        for at, index in zip(
            _apart(np.array(heights)[order], 1.33 * sheet.points(9), box.height * unit),
            order,
            strict=True,
        ):
            end, text, style = names[index]
            colour = style["color"]
            notes.extend(
                (
                    sheet.note(
                        axes,
                        "",
                        (1, end),
                        xytext=(12, float(at) - heights[index]),
                        xycoords=("axes fraction", "data"),
                        arrowprops={**LEADER, "color": colour},
                    ),
                    sheet.note(
                        axes, text, (1, 0), xytext=(14, float(at)), va="center", color=colour
                    ),
                )
            )

    sheet.ends.append(place)


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


# --- ticks ----------------------------------------------------------------------------------------


MOST = 7  # ticks of an axis
SET, APART = 0.92, 1.25  # letters from a word of cells to the next, and from number to number
LETTER, BETWEEN = 0.64, 0.6  # sizes of the type: the width of a letter, and from label to label


def ruled(axis: Any, rule: Axis, *others: Any) -> None:
    """Ticks of matplotlib at the places and with the words that a rule gives.

    Where `others` are, axes of the same cells, as many ticks as fit along each of them.
    """
    from matplotlib.ticker import FuncFormatter, Locator, LogLocator, NullFormatter, NullLocator

    words: dict[float, str] = {}

    class Ruled(Locator):
        """The most ticks that stand beside each other."""

        def __call__(self) -> list[float]:
            shown = {tick.at: worded(tick.text) for tick in _shown((self.axis, *others), rule)}
            words.update(shown)
            return list(shown)

    axis.set_major_locator(Ruled())
    if _turned(axis, rule):
        axis.set_tick_params(rotation=90)
    axis.set_major_formatter(FuncFormatter(lambda at, _: words.get(at, "")))
    axis.set_minor_locator(
        LogLocator(subs=(2, 5)) if rule.scale == "log" and rule.base == 10 else NullLocator()
    )
    axis.set_minor_formatter(NullFormatter())


def _turned(axis: Any, rule: Axis) -> bool:
    """Whether labels stand upright: words below a picture."""
    return axis.axis_name == "x" and any(
        word[-1:].isalpha() for word in (rule.names if isinstance(rule.names, tuple) else ())
    )


def _shown(along: tuple[Any, ...], rule: Axis) -> tuple[Tick, ...]:
    usual = MOST if rule.most > 2 else rule.most
    most = len(rule.names) if isinstance(rule.names, tuple) else usual
    for several in range(most, 0, -1):
        marks = rule.marks(several)
        if all(_is_apart(axis, marks, rule) for axis in along):
            return marks
    return tuple(sorted(rule.marks(1), key=lambda tick: abs(tick.at))[:1]) if most else ()


def _is_apart(axis: Any, marks: tuple[Tick, ...], rule: Axis) -> bool:
    """Whether labels stand beside each other along an axis."""
    axes, side = axis.axes, 0 if axis.axis_name == "x" else 1
    spots = np.tile([axes.get_xlim()[0], axes.get_ylim()[0]], (len(marks), 1))
    spots[:, side] = [mark.at for mark in marks]
    places = np.sort(axes.transData.transform(spots)[:, side]) * 72 / axes.figure.dpi
    size = axis.get_major_ticks(1)[0].label1.get_size()
    line = SET if isinstance(rule.names, tuple) else APART
    longest = max((len(mark.text) for mark in marks), default=1)
    across = not side and not _turned(axis, rule)
    return bool((np.diff(places) >= size * (LETTER * longest + BETWEEN if across else line)).all())
