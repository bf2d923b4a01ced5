"""What a picture consists of, on the page and on paper: nothing here knows an encoding.

Each class is one shape of picture or of text. Arrays stay arrays until the page's message names
them; every number and every word that a person reads is made before it gets here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np

from posenc.plot.panels.text import Tick, log_ticks, named_ticks, number, ticks, whole

Place = Literal["main", "right", "below", "full", "half"]  # half: two columns, where they fit
HERE = {"here": True}  # of fields that are not sent


@dataclass(frozen=True)
class Axis:
    """An axis: its domain in data units, its labels, and the key of the state that it moves.

    With `cells`, the integer n takes the room from n to n + 1 and is marked at n + 0.5. An axis of
    positions grows downward where it stands upright.
    """

    label: str
    domain: tuple[float, float]
    scale: Literal["linear", "log", "symlog"] = "linear"
    cells: bool = False
    key: str = ""  # of the state; empty: a click does nothing
    at: float | None = None  # where the cursor is, in data units
    to: np.ndarray | None = None  # what `key` is set to for each integer, if not to that integer
    most: int = field(default=7, metadata=HERE)  # ticks of the page, about
    base: int = field(default=10, metadata=HERE)  # of the powers that are marked, if logarithmic
    # What cells are called: words, or the numbers from 0 on in the order in which they stand.
    names: tuple[str, ...] | np.ndarray | None = field(default=None, metadata=HERE)
    also: tuple[Tick, ...] = ()  # rows with names, before which numbers and the cursor's line end
    SENT: ClassVar[tuple[str, ...]] = ("ticks",)

    @property
    def ticks(self) -> tuple[Tick, ...]:
        """The ticks of the page."""
        return self.marks(self.most)

    def marks(self, most: int) -> tuple[Tick, ...]:
        """The ticks, at most about so many: round numbers, and names at the middles of cells."""
        low, high = self.domain
        if self.scale == "symlog":  # beyond 10 to both sides
            return tuple(t for t in (Tick(0, "0"), *log_ticks(1, high, most - 1)) if t.at != 1)
        if self.scale == "log":
            return log_ticks(low, high, most, self.base)
        if not self.cells:
            inner = ticks(low, high, most)
            ends = {t.at: t for t in (Tick(low, number(low)), *inner, Tick(high, number(high)))}
            return inner if len(inner) > 1 else tuple(ends.values())
        return self._cells(int(low), int(high), most)

    def _cells(self, start: int, stop: int, most: int) -> tuple[Tick, ...]:
        if isinstance(self.names, tuple):
            every = 1 << (-(-len(self.names) // max(most, 1)) - 1).bit_length()
            return tuple(Tick(n + 0.5, word) for n, word in enumerate(self.names))[::every]
        if self.names is not None:
            marks = named_ticks(self.names, start, stop, most)
            return marks or (Tick(start + 0.5, whole(self.names[start])),)
        at = (int(tick.at) for tick in ticks(start, stop - 1, most) if tick.at % 1 == 0)
        marks = tuple(
            Tick(n + 0.5, whole(n)) for n in at if not self.also or n < self.also[0].at - 1
        )
        return (*(marks or (Tick(start + 0.5, whole(start)),)), *self.also)


@dataclass(frozen=True)
class Mark:
    """A line across a picture, a shaded band, or a point, with a label."""

    axis: Literal["x", "y", "point"]
    at: float
    text: str = ""
    to: float | None = None  # the other end of a band; the y of a point
    style: Literal["dashed", "solid", "faint", "band", "point", "cursor"] = "dashed"


class OfKind:
    """What tells the page of which kind it is."""

    kind: ClassVar[str]
    SENT: ClassVar[tuple[str, ...]] = ("kind",)

    def __init_subclass__(cls, kind: str = "") -> None:
        cls.kind = kind


@dataclass(frozen=True)
class Panel(OfKind):
    """A part of the page: its name among them, what stands above it and below, and where it is."""

    id: str
    title: str
    caption: str = field(default="", kw_only=True)
    place: Place = field(default="full", kw_only=True)
    label: str = field(default="", kw_only=True)  # what a screen reader says; what columns are

    @property
    def alone(self) -> bool:
        """Whether it may fill the axes that somebody gives."""
        return isinstance(self, Chart | Heatmap) and not (
            getattr(self, "compact", False) or getattr(self, "numbers", ())
        )


@dataclass(frozen=True)
class Heatmap(Panel, kind="heatmap"):
    """Cells of colour: `tile` holds indices into `lut`, in device pixels or one for each cell."""

    tile: np.ndarray  # (H, W) uint8
    lut: str  # a name of `palette`
    x: Axis
    y: Axis
    low: str  # what the ends of the colours mean
    high: str
    place: Place = field(default="main", kw_only=True)
    mask: np.ndarray | None = None  # (H, W) uint8: 1 is hatched and has no colour
    lines: tuple[Mark, ...] = ()
    numbers: tuple[tuple[str, ...], ...] = ()  # written into the cells where there is room
    # What the tile was made of; it stays here, for files and for comparisons.
    values: np.ndarray | None = field(default=None, metadata=HERE)
    limit: float = field(default=1.0, metadata=HERE)
    scale: str = ""  # what the colours are, beside them


@dataclass(frozen=True)
class Series:
    """A curve: `y` over `x`, or bars; with `lo` and `hi`, a band around it.

    Of points, `lo` and `hi` say how far to the left and to the right each may lie.
    """

    label: str
    x: np.ndarray  # (n,) float64: positions may be large
    y: np.ndarray  # (n,) float32; NaN breaks the line
    style: int = 0  # which colour and dash of `palette.series`
    lo: np.ndarray | None = None
    hi: np.ndarray | None = None
    draw: Literal["line", "bars", "points", "step"] = "line"
    front: bool = False  # drawn wider, over the others


@dataclass(frozen=True)
class Chart(Panel, kind="chart"):
    """Curves over an axis. Upright charts (`orient="v"`) have `x` run down, beside a heatmap."""

    x: Axis
    y: Axis
    series: tuple[Series, ...]
    marks: tuple[Mark, ...] = ()
    orient: Literal["h", "v"] = "h"
    height: int = 180  # CSS pixels, of a chart that lies
    compact: bool = field(default=False, metadata=HERE)  # on paper its title stands at the right


@dataclass(frozen=True)
class Strip:
    """One row of coloured cells; `numbers` are written into them where there is room."""

    label: str
    tile: np.ndarray  # (W,) uint8
    numbers: tuple[str, ...] = ()
    key: str = ""  # what a click on a cell sets to its number, or to `value`
    at: int | None = None
    value: str = ""
    curve: np.ndarray | None = None  # (n,) float32 from -1 to 1, drawn in place of the colours


@dataclass(frozen=True)
class Strips(Panel, kind="strips"):
    """Rows of cells on one scale, one below the other."""

    strips: tuple[Strip, ...]
    lut: str
    low: str = ""
    high: str = ""
    columns: tuple[str, ...] = ()  # what stands above the cells
    first: int = 0  # what `key` is set to by the first cell


@dataclass(frozen=True)
class Dial:
    """Hands from the centre, the longest of all dials as 1, and the way that the first has gone."""

    label: str
    hands: tuple[tuple[float, float, int, str], ...]  # x, y, style, label; y is up
    note: str = ""
    trail: np.ndarray | None = None  # (n, 2) float32
    key: str = ""
    value: str = ""
    chosen: bool = False
    shadow: tuple[float, float] | None = None  # of the first hand on the second
    bar: float | None = None  # from -1 to 1: the product of both
    turn: float | None = None  # radians by which a position turns the first hand


@dataclass(frozen=True)
class Dials(Panel, kind="dials"):
    """Dials side by side."""

    dials: tuple[Dial, ...]


@dataclass(frozen=True)
class Arcs(Panel, kind="arcs"):
    """Channels in a row, and an arc over each two that form a pair."""

    pairs: tuple[tuple[int, int], ...]
    chosen: int  # among the pairs


@dataclass(frozen=True)
class Matrix(Panel, kind="matrix"):
    """Heatmaps side by side on one scale."""

    cells: tuple[Heatmap, ...]
    across: int = field(default=4)  # side by side on paper, and on the page where there is a key
    key: tuple[tuple[str, int], ...] = ()  # of colours that are no scale: words and styles


@dataclass(frozen=True)
class TableOfText(Panel, kind="table"):
    """Rows of text under headings."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    both: bool = field(default=False, metadata=HERE)  # it speaks of A and B


@dataclass(frozen=True)
class Paragraphs(Panel, kind="words"):
    """Paragraphs."""

    paragraphs: tuple[str, ...]
    both: bool = field(default=False, metadata=HERE)


@dataclass(frozen=True)
class Chips(Panel, kind="chips"):
    """Words that can be moved: `key` is set to the new order, as places in what was typed."""

    words: tuple[str, ...]  # as they stand
    order: tuple[int, ...]
    key: str
    links: tuple[Link, ...] = ()


@dataclass(frozen=True)
class AttentionCell:
    """One encoding at work: a grid, what changed, and outputs word by word in two orders."""

    key: str  # what chooses the encoding
    grid: Heatmap
    note: str
    words: tuple[str, ...] = ()
    before: np.ndarray | None = None  # (words, numbers) uint8
    after: np.ndarray | None = None
    equal: tuple[bool, ...] = ()
    outcome: str = ""  # the outputs in words


@dataclass(frozen=True)
class AttentionPanel(Panel, kind="attention"):
    """Encodings side by side on one scale."""

    cells: tuple[AttentionCell, ...]
    ends: tuple[str, str]  # what stands above the outputs


# --- the readout, beside the picture -------------------------------------------------------------


@dataclass(frozen=True)
class Heading(OfKind, kind="heading"):
    """A heading of the readout."""

    text: str


@dataclass(frozen=True)
class Math(OfKind, kind="math"):
    """A formula in MathML, in plain text for whoever cannot see it, and its value in large."""

    mathml: str
    text: str
    steps: tuple[str, ...] = ()
    value: str = ""


@dataclass(frozen=True)
class Datum(OfKind, kind="fact"):
    """A label and a value."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Prose(OfKind, kind="prose"):
    """A sentence or two in small type."""

    text: str


@dataclass(frozen=True)
class DialBlock(OfKind, kind="dial"):
    """A dial in the readout."""

    dial: Dial


@dataclass(frozen=True)
class Link:
    """A text that changes the state when it is chosen; None takes a key back to its default."""

    text: str
    state: Mapping[str, str | None]


@dataclass(frozen=True)
class Links(OfKind, kind="links"):
    """Links in a row."""

    label: str
    links: tuple[Link, ...] = field(default=())


Block = Heading | Math | Datum | Prose | DialBlock | Links


PanelType = TypeVar("PanelType", Chart, Heatmap)


def cells(
    label: str,
    start: int,
    stop: int,
    *,
    key: str = "",
    at: int | None = None,
    most: int = 7,
    to: np.ndarray | None = None,
    names: np.ndarray | None = None,
) -> Axis:
    """An axis of integers, each with room of its own; `names` are what they are called."""
    return Axis(label, (start, stop), cells=True, key=key, at=at, to=to, most=most, names=names)


def words(label: str, names: tuple[str, ...], *, key: str = "") -> Axis:
    """An axis of words, each with a cell of its own."""
    return Axis(label, (0, len(names)), cells=True, key=key, most=len(names), names=names)


def values(label: str, low: float, high: float, *, most: int = 4) -> Axis:
    """An axis of numbers, from the least to the largest."""
    return Axis(label, (low, high), most=most)


def logarithmic(label: str, low: float, high: float, *, base: int = 10) -> Axis:
    """A logarithmic axis of positive numbers."""
    return Axis(label, (low, high), scale="log", base=base)


def float32(x: np.ndarray) -> np.ndarray:
    """Numbers as curves take them."""
    return np.ascontiguousarray(x, dtype=np.float32)


def stops(key: str, value: int, low: int, high: int) -> dict[str, Any]:
    """An axis of the cursor: its key, and the integers from low to high where it can stand."""
    return {"key": key, "value": value, "min": low, "max": high, "step": 1}


def banded(label: str, x: np.ndarray, data: Any, *, band: bool) -> Series:
    """The mean of a curve, with its band where it has one."""
    low, high = (float32(data.low), float32(data.high)) if band else (None, None)
    return Series(label, x, float32(data.mean), lo=low, hi=high)


def under(
    panel: PanelType, x: float | None = None, y: float | None = None, *, to: float | None = None
) -> PanelType:
    """A panel with the cursor at places of its axes; `to` puts a point there on a curve."""
    changed: dict[str, Any] = {"x": replace(panel.x, at=x)}
    if isinstance(panel, Heatmap):
        changed["y"] = replace(panel.y, at=y)
    if isinstance(panel, Chart) and x is not None and to is not None and math.isfinite(to):
        point = Mark("point", x + 0.5 * panel.x.cells, to=to, style="point")
        changed["marks"] = (*panel.marks, point)
    return replace(panel, **changed)
