"""A sheet of paper: panels placed to the pixel, a title above and a caption below."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypedDict

import numpy as np

from posenc._core.errors import ArgumentError, mismatch, suggest
from posenc._core.spec import Value
from posenc.plot import palette
from posenc.plot.draw.picture import DPI, RC, Picture, library
from posenc.plot.words import number, whole

__all__ = ["Frame", "Look", "Sheet", "asked", "cells", "device", "fill", "plain"]

MARGIN = 18  # pixels around everything
CHARACTER = 5.1  # mean width in pixels of a letter of a caption
LINE = 14  # of a caption
HEAD = 44  # room of title and subtitle
LARGEST = 1 << 14  # pixels of a side
MOST_PIXELS = 1 << 26


class Look(TypedDict, total=False):
    """The keywords of every picture, which `Frame` reads."""

    width: int | None
    scale: float
    theme: str


class Frame(NamedTuple):
    """How large a picture is, and in which colours."""

    width: int | None = None  # pixels of a panel, at most
    scale: float = 1.0  # device pixels to a pixel
    theme: str = "light"


def asked(picture: str, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], Frame]:
    """What a picture was asked for, its arrays left out; and its frame.

    Parameters
    ----------
    picture : str
        Its name.
    arguments : mapping
        The arguments of its function, with `look` among them.
    """
    look = arguments["look"]
    settings = {k: v for k, v in arguments.items() if k not in ("ax", "params", "look")}
    for name in look:
        if name not in Frame._fields:
            todo = suggest(name, [*arguments.keys() - {"look"}, *Frame._fields])
            raise TypeError(f"posenc.plot.{picture} has no argument {name!r}. {todo}")
    frame = Frame(**look)
    return settings | frame._asdict(), frame


class Sheet:
    """Panels of one picture, in a figure of their own or within given axes.

    Parameters
    ----------
    width, height : int
        Room for panels and their labels, in pixels of the layout.
    ax : matplotlib.axes.Axes or None
        Where to draw instead of a new figure.
    frame : Frame
        Its scale and colours.
    question, title, caption : str, str, sequence of str
        The words around the panels.
    lines : {"joined", "apart"}
        Whether the sentences of the caption follow each other or begin a line each.
    """

    def __init__(
        self,
        width: int,
        height: int,
        *,
        ax: Any,
        frame: Frame,
        question: str,
        title: str,
        caption: Sequence[str],
        lines: Literal["joined", "apart"] = "joined",
    ) -> None:
        self.theme = palette.theme(frame.theme)
        self.series = palette.series(frame.theme)
        self.library = library()
        scale = frame.scale
        self.width, self.height, self.ax, self.scale = width, height, ax, scale
        self.question, self.title, self.caption = question, title, tuple(caption)
        if ax is not None:
            self.figure, self.lines = drawable(ax).figure, []
            return
        if not 0.25 <= scale <= 8:
            raise ArgumentError(mismatch("plot: scale", "0.25 to 8", scale))
        across = max(width, 320)
        self.lines = _wrapped(self.caption, across, lines)
        self.total = (
            across + 2 * MARGIN,
            height + HEAD + 2 * MARGIN + LINE * len(self.lines),
        )
        if max(self.total) * scale > LARGEST or np.prod(self.total) * scale**2 > MOST_PIXELS:
            received = "x".join(str(round(side * scale)) for side in self.total)
            raise ArgumentError(mismatch("plot: size", f"sides up to {LARGEST} pixels", received))
        with self.library.rc_context(RC):
            self.figure = self.library.figure.Figure(
                figsize=(self.total[0] / DPI, self.total[1] / DPI),
                dpi=DPI * scale,
                facecolor=self.theme.page,
            )
            from matplotlib.backends.backend_agg import FigureCanvasAgg

            FigureCanvasAgg(self.figure)
            self._words()

    def _words(self) -> None:
        ink, muted = self.theme.ink, self.theme.muted
        self._text(MARGIN, MARGIN + 12, self.question, size=13.5, weight="bold", color=ink)
        self._text(MARGIN, MARGIN + 30, self.title, size=10.5, color=muted)
        top = self.total[1] - MARGIN - LINE * len(self.lines) + LINE - 2
        for row, line in enumerate(self.lines):
            self._text(MARGIN, top + LINE * row, line, size=9.5, color=muted)

    def _text(self, left: float, top: float, text: str, **style: Any) -> None:
        x, y = left / self.total[0], 1 - top / self.total[1]
        self.figure.text(x, y, text, va="baseline", ha="left", **style)

    def panel(self, left: float, top: float, width: float, height: float, **options: Any) -> Any:
        """Axes of a size in pixels, at a place from the top left of the room for panels."""
        with self.library.rc_context(RC):
            if self.ax is None:
                x, y = MARGIN + left, MARGIN + HEAD + top
                across, down = self.total
                box = (x / across, 1 - (y + height) / down, width / across, height / down)
                axes = self.figure.add_axes(box, **options)
            elif not options and (left, top, width, height) == (0, 0, self.width, self.height):
                axes = self.ax
            else:
                self.ax.set_axis_off()
                across, down = self.width, self.height
                inside = (left / across, 1 - (top + height) / down, width / across, height / down)
                axes = self.ax.inset_axes(inside)
            self._dress(axes)
        return axes

    def _dress(self, axes: Any) -> None:
        axes.set_facecolor("none")
        axes.tick_params(colors=self.theme.muted, labelsize=9.5, length=3, width=0.8)
        for label in (axes.xaxis.label, axes.yaxis.label, axes.title):
            label.set_color(self.theme.ink)
            label.set_fontsize(10)
        for name, spine in axes.spines.items():
            spine.set_color(self.theme.rule)
            spine.set_linewidth(0.8)
            if name in ("top", "right"):
                spine.set_visible(False)

    def heading(self, axes: Any, text: str, **style: Any) -> None:
        """A line above a panel, at its left."""
        axes.set_title(
            text, loc="left", **{"fontsize": 9.5, "pad": 4, "color": self.theme.ink, **style}
        )

    def style(self, index: int) -> dict[str, Any]:
        """How the curve of a number is drawn: colour and dashes."""
        colour, dash = palette.style(index, self.theme.name)
        style: dict[str, Any] = {"color": colour, "linewidth": 1.5}
        if dash:
            style["linestyle"] = (0, dash)
        return style

    def picture(self, name: str, data: Any, parameters: Mapping[str, Any]) -> Picture:
        """The sheet as a picture, with what was asked for."""
        if self.ax is not None and not self.ax.get_title():
            self.ax.set_title(self.title, loc="left", fontsize=10)
        title = f"{self.question} {self.title}"
        description = " ".join(self.caption)
        about = {"plot": name, **plain(parameters)}
        return Picture(self.figure, data, about, title, description, self.scale)


def plain(value: Any) -> Any:
    """Options as plain JSON types; specs as their fields, arrays by their shapes."""
    if isinstance(value, Value):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items() if v is not None}
    if isinstance(value, np.ndarray):
        return f"array of shape {list(value.shape)}"
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def _wrapped(caption: Sequence[str], width: int, lines: str) -> list[str]:
    most = max(30, int(width / CHARACTER))
    parts = [text.strip() for text in caption] if lines == "apart" else [" ".join(caption)]
    return [line for text in parts for line in textwrap.wrap(text, most)]


def cells(count: int, most: int, largest: int = 24) -> int:
    """Pixels for so many numbers: a whole number of pixels to each, or all there are."""
    return count * min(largest, most // count) if count <= most else most


# --- pixels ---------------------------------------------------------------------------------------


def drawable(axes: Any) -> Any:
    """The axes that a caller gave, if that is what they are.

    Raises
    ------
    ArgumentError
        If they are something else, such as positions without their name.
    """
    if not hasattr(axes, "get_window_extent") or not hasattr(axes, "figure"):
        received = f"{axes!r}" if isinstance(axes, int | str) else type(axes).__name__
        todo = "All else goes by its name, such as positions=."
        raise ArgumentError(mismatch("plot: ax", "axes of matplotlib", received[:80], todo))
    return axes


def device(axes: Any) -> tuple[int, int]:
    """Rows and columns of the device in axes, at the resolution of their figure."""
    box = drawable(axes).get_window_extent()
    return max(1, round(box.height)), max(1, round(box.width))


def fill(axes: Any, paint: Callable[[int, int], np.ndarray]) -> None:
    """Fill axes with pixels of the device: nothing resamples them.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
        Their box is filled, whatever their limits.
    paint : callable
        Gives for rows and columns of the device the colours, (rows, columns, 3) uint8.
    """
    from matplotlib.artist import Artist

    class Pixels(Artist):
        """What `paint` gives, at the size that the device has when it is drawn."""

        def draw(self, renderer: Any) -> None:
            box = axes.bbox
            fine = renderer.get_image_magnification()
            rows, columns = max(1, round(box.height * fine)), max(1, round(box.width * fine))
            rgb = paint(rows, columns)
            opaque = np.full((*rgb.shape[:2], 1), 255, dtype=np.uint8)
            # Devices count rows from the bottom.
            rgba = np.ascontiguousarray(np.concatenate([rgb, opaque], axis=2)[::-1])
            gc = renderer.new_gc()
            renderer.draw_image(gc, round(box.x0), round(box.y0), rgba)
            gc.restore()

    artist = Pixels()
    artist.set_figure(axes.figure)
    # Above the ticks, whose ends would reach into the outermost pixels.
    axes.set_axisbelow(True)
    artist.set_zorder(0.6)
    axes.add_artist(artist)
    artist.set_clip_on(False)


def spread(indices: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """Cells as pixels, each cell as often as it takes; more cells than pixels are thinned."""
    down = np.arange(rows) * indices.shape[0] // rows
    across = np.arange(columns) * indices.shape[1] // columns
    return indices[down[:, None], across]


def hatched(rgb: np.ndarray, absent: np.ndarray, theme: palette.Theme) -> np.ndarray:
    """Colours with diagonal lines where there is no number."""
    if not absent.any():
        return rgb
    down, across = np.indices(absent.shape)
    line = absent & ((down + across) % 7 < 1)
    colour = tuple(int(theme.muted[i : i + 2], 16) for i in (1, 3, 5))
    rgb = rgb.copy()
    rgb[line] = colour
    return rgb


# --- axes -----------------------------------------------------------------------------------------


def thousands(axis: Any) -> None:
    """Integers with thousands apart at the ticks of an axis."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(6, integer=True))
    axis.set_major_formatter(FuncFormatter(lambda x, _: whole(x)))


def decades(axis: Any) -> None:
    """Plain numbers at the ticks of a logarithmic axis."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axis.set_major_formatter(FuncFormatter(lambda x, _: number(x)))
    axis.set_minor_formatter(NullFormatter())


def steps(start: float, stop: float, most: int = 6) -> list[float]:
    """Round numbers within a range, for ticks."""
    from matplotlib.ticker import MaxNLocator

    ticks = MaxNLocator(most, integer=True).tick_values(start, stop)
    return [float(t) for t in ticks if start <= t <= stop]
