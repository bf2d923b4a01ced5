"""A sheet of paper: panels as far apart as their labels need, a title above, a caption below."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from posenc._core.errors import ArgumentError
from posenc.plot import palette
from posenc.plot.draw import layout
from posenc.plot.draw.layout import PAD, Keep, SheetPanel, along, evenly, stretched
from posenc.plot.draw.look import DPI, Frame, changed, colours_of, luts_of, theme_of, worded
from posenc.plot.draw.picture import Picture, library, own_settings, plain
from posenc.plot.rows import PictureRow, require

MARGIN, THIN = 18, 4  # points around everything; around a picture of a size that is asked for
LARGEST = 1 << 14  # pixels of a side
MOST_PIXELS = 1 << 26
LEAST = 20.0  # points of a panel that is no strip
LEAST_WIDE = 320  # points of an unfitted picture, for its words
LINE, GAP = 1.45, 8  # heights of a line in letters; points between words and panels
SMALL = 0.8  # of the usual letters, in a picture for paper
FLAT = 0.4  # of the usual height: the least that charts leave to matrices below them
WIDE = 0.25  # of the width: the most that the names of curves take beside them


class Sheet:
    """Panels of one picture, in a figure of their own or within given axes."""

    def __init__(
        self,
        ax: Any,
        frame: Frame,
        row: PictureRow,
        data: Any,
        *,
        alone: bool = False,
    ) -> None:
        self.library, self.ax, self.frame = library(), ax, frame
        self.direct = alone and ax is not None
        self.question, self.title = row.question.format(data=data), data.title
        self.caption = tuple(data.caption)
        self.paragraphs = self.caption if row.apart else (" ".join(self.caption),)
        if ax is not None:
            layout.drawable(ax)
        self.theme = theme_of(self.library, frame, ax)
        self.colours = colours_of(self.library, frame)
        self.luts = luts_of(self.library, frame, self.theme)
        self.panels: list[SheetPanel] = []
        self.ends: list[Any] = []  # what names curves beside a panel, once its place is known
        self.named: dict[str, dict[str, Any]] = {}  # the curves that have names, with their styles
        # Texts that go where they do not fit, with the pixels that each may take.
        self.inner: list[tuple[Callable[[], float], list[Any]]] = []
        # Matrices: their axes, rows and columns, and how many there would be without pixels.
        self.tiles: list[tuple[Any, tuple[int, ...], tuple[int, int]]] = []
        self.naming = False  # whether the caller's labels have a use
        self.lines: Any = ((), ())
        self.widths: dict[tuple[str, float, str], float] = {}  # of words that were measured
        if ax is not None:
            self.figure = ax.figure
            return
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        with self.library.rc_context(own_settings()):
            self.figure = self.library.figure.Figure(
                figsize=(8, 8), dpi=DPI * frame.scale, facecolor=self.theme.page
            )
            FigureCanvasAgg(self.figure)

    def points(self, usual: float, key: str = "") -> float:
        """A size of letters: as a setting of matplotlib says, else relative to `font.size`."""
        own = changed(self.library, key) if key else None
        if own is not None:
            from matplotlib.font_manager import FontProperties

            return float(FontProperties(size=own).get_size_in_points())
        size = changed(self.library, "font.size")
        if size is not None:
            return usual * float(size) / float(self.library.rcParamsDefault["font.size"])
        if self.ax is not None and not self.direct:
            return usual * min(1.0, max(0.6, self.room()[0] / 420))
        return usual * (SMALL if self.frame.size is not None else 1.0)

    def panel(self, left: float, top: float, width: float, height: float, keep: Keep = "") -> Any:
        """Axes of a size in points, at a place from the top left of all panels."""
        with self.library.rc_context(own_settings()):
            if self.direct:
                axes = self.ax
            elif self.ax is not None:
                self.ax.set_axis_off()
                axes = self.ax.inset_axes((0.1, 0.1, 0.8, 0.8))
            else:
                axes = self.figure.add_axes((0.1, 0.1, 0.8, 0.8))
            self.panels.append(SheetPanel(axes, (left, top, width, height), keep))
            self._dress(axes)
        return axes

    def _dress(self, axes: Any) -> None:
        if not self.direct and changed(self.library, "axes.facecolor") is None:
            axes.set_facecolor("none")
        size = self.points(9.5, "xtick.labelsize")
        axes.tick_params(colors=self.theme.muted, labelsize=size, length=3, width=0.8)
        axes.tick_params(which="minor", color=self.theme.muted, length=1.5, width=0.5)
        for label in (axes.xaxis.label, axes.yaxis.label):
            label.set(color=self.theme.ink, fontsize=self.points(10, "axes.labelsize"))
        for name, spine in axes.spines.items():
            spine.set(color=self.theme.rule, linewidth=0.8)
            if name in ("top", "right"):
                spine.set_visible(False)

    def heading(self, axes: Any, text: str) -> None:
        """A line above a panel, at its left."""
        if text:
            axes.set_title(
                worded(text),
                loc="left",
                pad=4,
                fontsize=self.points(9.5, "axes.titlesize"),
                color=self.theme.ink,
            )

    def note(self, axes: Any, text: str, at: tuple[float, float], **style: Any) -> Any:
        """A few words at a place of a panel, shares of it unless `xycoords` says otherwise."""
        usual = {"xycoords": "axes fraction", "textcoords": "offset points"}
        look = {"fontsize": self.points(9), "color": self.theme.ink}
        return axes.annotate(worded(text), at, **{**usual, **look, **style})

    def folded(self, text: str) -> str:
        """A note in lines of the width of the sheet, where that is settled."""
        room = self.room()[0]
        return self._folded(text, self.points(9), "normal", room - 20) if room else text

    def style(self, index: int) -> dict[str, Any]:
        """How the curve of a number is drawn: colour and dashes."""
        colour, dash = palette.style(index, self.theme.name)
        return {
            "color": self.colours[index % len(self.colours)] if self.colours else colour,
            "linewidth": self.library.rcParams["lines.linewidth"]
            * (SMALL if self.frame.size else 1.0),
            **({"linestyle": (0, dash)} if dash else {}),
        }

    def name(self, index: int, usual: str) -> str:
        """What the curve of a number is called: by the caller, else as usual."""
        label, self.naming = self.frame.label, True
        several = [label] if isinstance(label, str) else list(label or ())
        return worded(str(several[index])) if index < len(several) else usual

    def key(self, axes: Any, curves: Iterable[tuple[str, dict[str, Any]]], **place: Any) -> Any:
        """A legend of curves by their names and styles."""
        from matplotlib.lines import Line2D

        handles = [Line2D([], [], label=text, **style) for text, style in curves]
        earlier = axes.get_legend() if self.direct else None
        if earlier is not None:  # of pictures that were drawn in the same axes before
            for handle, text in zip(earlier.legend_handles, earlier.get_texts(), strict=True):
                handle.set_label(text.get_text())
            handles = [*earlier.legend_handles, *handles]
        look = {"fontsize": self.points(9, "legend.fontsize"), "labelcolor": self.theme.ink}
        look |= {"frameon": False, "handlelength": 2.6, "borderaxespad": 0.3}
        return axes.legend(handles=handles, **{**look, **place})

    # --- the places of panels ---------------------------------------------------------------------

    def room(self) -> tuple[float, float | None]:
        """Points that the picture may take, as far as that is settled: 0 is as many as it needs."""
        if self.ax is None:
            return self.frame.points or (0.0, None)
        box = self.ax.get_window_extent()
        return self._in_points(box.width), self._in_points(box.height)

    def _in_points(self, pixels: float) -> float:
        """A length on the device."""
        return float(pixels * 72 / self.figure.dpi)

    def _measure(self) -> None:
        unit = 72 / self.figure.dpi
        for panel in self.panels:
            own, around = panel.axes.get_window_extent(), panel.axes.get_tightbbox()
            if around is not None:
                upper = (own.x0 - around.x0, around.y1 - own.y1)
                lower = (around.x1 - own.x1, own.y0 - around.y0)
                panel.needs = tuple(max(0.0, side * unit) for side in (*upper, *lower))

    def _arrange(self) -> None:
        """Place the panels, twice: in narrow ones there are fewer ticks, which need less room."""
        width, height = self.room()
        for again in (False, True):
            for end in self.ends:
                end()
            self._fold_headings(width, again)
            for panel in self.panels if again and width else ():
                # Names of axes in as many lines as their panels take.
                self._fold(
                    panel.axes.xaxis.label,
                    "normal",
                    self._in_points(panel.axes.get_window_extent().width),
                )
            self._measure()
            # Whether the names of curves would leave too little to the curves; of panels that
            # stand below each other, those names count that need most.
            beside = dict(sorted((panel.box[0], panel.needs[2]) for panel in self.panels))
            crowded = height is not None or sum(beside.values()) > WIDE * width
            if self.ends and not again and width and crowded:
                self._key_below(width)
                self._measure()
            self._place(width, height)
        for end in self.ends:
            end()
        for room, shown in self.inner:
            if max(text.get_window_extent().width for text in shown) > room():
                for text in shown:
                    text.remove()

    def _fold_headings(self, width: float, placed: bool) -> None:
        """Headings in as many lines as the panels below them take, as far as that is known."""
        whole = max(panel.span(0)[1] for panel in self.panels)
        for panel in self.panels:
            heading, wide = panel.axes._left_title, panel.box[2]
            if placed:
                wide = self._in_points(panel.axes.get_window_extent().width)
            elif width:
                wide *= 0.8 * width / whole
            self._fold(heading, heading.get_weight(), wide)

    def _fold(self, words: Any, weight: str, wide: float) -> None:
        """A text of matplotlib in as many lines as so many points take."""
        words.set_text(
            self._folded(words.get_text(), words.get_size(), weight, max(wide, 2 * LEAST))
        )

    def _key_below(self, width: float) -> None:
        """The names of curves below all panels, as there is no room beside them."""
        for end in self.ends:
            end(remove=True)
        self.ends = []
        axes = self.panel(0, max(panel.span(1)[1] for panel in self.panels) + 10, 1, 1, "still")
        axes.set_axis_off()
        room = width - max(panel.needs[0] for panel in self.panels) - 2 * THIN - PAD
        size = self.points(9, "legend.fontsize")
        names = [
            (self._folded(text, size, "normal", room - 4 * size), style)
            for text, style in self.named.items()
        ]
        for columns in (4, 3, 2, 1):
            place = {"loc": "upper left", "borderpad": 0, "ncols": columns, "columnspacing": 1.2}
            if self._in_points(self.key(axes, names, **place).get_window_extent().width) < room:
                break

    def _place(self, width: float, height: float | None) -> None:
        margin = 0 if self.ax is not None else THIN if width else MARGIN
        least = 0.02 if self.ax is not None else 0.0  # given axes may be as small as they are
        across = max(least, stretched(self.panels, 0, width - 2 * margin)) if width else 1.0
        # Curves become narrow rather than flat, matrices keep their proportions.
        free = min(1.5, max(across, 0.5)) if width else 1.0
        down = [across if panel.keep else free for panel in self.panels]
        x, wide = along(self.panels, 0, evenly(self.panels, across))
        fitted, width = width > 0, width or math.ceil(max(wide, LEAST_WIDE) + 2 * margin)
        words = self._words(width - 2 * margin)
        around = 2 * margin + sum(words)
        if height is not None:
            room = max(least, stretched(self.panels, 1, height - around, across))
            if room < FLAT:
                room = max(least, stretched(self.panels, 1, height - around))
                across = min(across, room)
            down = [across if p.keep == "square" else room for p in self.panels]
            if any(panel.keep == "square" for panel in self.panels):
                x, _ = along(self.panels, 0, evenly(self.panels, across))
        y, high = along(self.panels, 1, down)
        self.size = (width, height or math.ceil(high + around))
        self._check(x, y)
        for panel, (left, right), (top, bottom) in zip(self.panels, x, y, strict=True):
            box = [left + margin, top + margin + words[0], right - left, bottom - top]
            # Unfitted, each cell of a matrix is a whole number of pixels.
            self._move(panel.axes, *(box if fitted else (math.floor(n + 0.5) for n in box)))
        if self.ax is None:
            self.figure.set_size_inches(self.size[0] / DPI, self.size[1] / DPI)

    def _check(self, x: Any, y: Any) -> None:
        """Raise where a size cannot be, before anything is drawn in it."""
        if self.ax is not None:
            return
        sides = [round(side * self.frame.scale) for side in self.size]
        fits = max(sides) <= LARGEST and math.prod(sides) <= MOST_PIXELS
        require(fits, ": size", f"sides up to {LARGEST} pixels", "x".join(map(str, sides)))
        todo = "Ask for a larger one, or leave out the title and the caption."
        for panel, *spans in zip(self.panels, x, y, strict=True):
            for (first, last), usual in zip(spans, panel.box[2:], strict=True):
                fits = panel.keep == "still" or last - first >= min(LEAST, usual / 4)
                require(
                    fits, ": size", "room for the panels beside their words", self.frame.size, todo
                )

    def _move(self, axes: Any, left: float, top: float, width: float, height: float) -> None:
        """Place axes by points from the top left of the sheet, or of the axes that are given."""
        across, down = self.size
        box = (left / across, 1 - (top + height) / down, width / across, height / down)
        if self.ax is None:
            axes.set_position(box)
            return
        from matplotlib.transforms import Bbox, TransformedBbox

        inside = TransformedBbox(Bbox.from_bounds(*box), self.ax.transAxes)
        back = self.ax.figure.transSubfigure
        axes.set_axes_locator(lambda *_: inside.transformed(back.inverted()))

    def _words(self, width: float) -> tuple[float, float]:
        """The heights of the lines above and below the panels, which are settled by the width."""
        if self.ax is not None:
            return 0.0, 0.0
        theme, title = self.theme, self.frame.title
        own = (self.question, 13.5, "bold", theme.ink), (self.title, 10.5, "normal", theme.muted)
        above = ((title, 12.0, "bold", theme.ink),) if isinstance(title, str) else own
        below = [(text, 9.5, "normal", theme.muted) for text in self.paragraphs]
        self.lines = tuple(
            [
                (line, self.points(size), weight, colour)
                for text, size, weight, colour in shown
                for line in self._lines(text, self.points(size), weight, width)
            ]
            for shown in (above if title else (), below if self.frame.caption else ())
        )
        high, low = (sum(LINE * size for _, size, *_ in lines) for lines in self.lines)
        return math.ceil(high + GAP) if high else 0, math.ceil(low + GAP) if low else 0

    def _lines(self, text: str, size: float, weight: str, width: float) -> list[str]:
        """A text in lines that are no wider than so many points."""
        space = self._wide("x x", size, weight) - 2 * self._wide("x", size, weight)
        lines: list[list[str]] = []
        left = 0.0
        for word in text.split():
            wide = self._wide(word, size, weight)
            left -= space + wide
            if not lines or left < 0:
                lines.append([])
                left = width - wide
            lines[-1].append(word)
        return [worded(" ".join(line)) for line in lines]

    def _folded(self, text: str, size: float, weight: str, width: float) -> str:
        return "\n".join(self._lines(text, size, weight, width))

    def _wide(self, text: str, size: float, weight: str) -> float:
        key = (text, size, weight)
        if key not in self.widths:
            shown = self.figure.text(0, 0, worded(text), fontsize=size, weight=weight)
            self.widths[key] = self._in_points(shown.get_window_extent().width)
            shown.remove()
        return self.widths[key]

    def _write(self) -> None:
        """The words above and below the panels."""
        margin, (width, height) = THIN if self.frame.size is not None else MARGIN, self.size
        caption = sum(LINE * size for _, size, *_ in self.lines[1])
        for lines, top in zip(self.lines, (margin, height - margin - caption), strict=True):
            at = float(top)
            for text, size, weight, colour in lines:
                at += LINE * size
                place = (margin / width, 1 - (at - 0.3 * size) / height)
                self.figure.text(*place, text, fontsize=size, weight=weight, color=colour)

    def pixels(self) -> tuple[int, int] | None:
        """Rows and columns that matrices want, if they are drawn with others."""
        for axes, shape, most in self.tiles:
            wanted = layout.device(axes)
            if any(min(n, all_) != had for n, all_, had in zip(wanted, most, shape, strict=True)):
                return wanted
        return None

    def clear(self) -> None:
        """Leave given axes as they were."""
        for panel in self.panels:
            panel.axes.remove()

    def picture(self, name: str, data: Any, parameters: Mapping[str, Any]) -> Picture:
        """The sheet as a picture, with what was asked for."""
        if self.frame.label is not None and not self.naming:
            raise ArgumentError(
                f"plot {name}: label: this picture draws no curves, which alone have one."
            )
        with self.library.rc_context(own_settings()):
            if not self.direct:
                self._arrange()
            if self.ax is None:
                self._write()
            elif self.frame.title and not self.ax.get_title(loc="left"):
                title = self.title if self.frame.title is True else self.frame.title
                size = self.points(10, "axes.titlesize")
                text = self._folded(title, size, "normal", self.room()[0])
                self.ax.set_title(text, loc="left", fontsize=size, color=self.theme.ink)
        return Picture(
            figure=self.figure,
            data=data,
            parameters={"plot": name, **plain(parameters)},
            title=f"{self.question} {self.title}",
            description=" ".join(self.caption),
            physical=self.frame.size is not None,
        )
