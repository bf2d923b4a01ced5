"""A table as pixels that show what is there; NumPy only.

However long the table, only the pixels are computed:

- where there are pixels enough, each number has its own;
- waves that are longer than pixels are multiplied by `response.gain` and taken at the middle of
  each pixel;
- rows of other tables are filtered with the same response;
- columns that are narrower than a pixel are drawn sines first, then cosines, and each half is
  filtered over its pairs: sine and cosine never mix.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any, Literal, TypedDict, Unpack

import numpy as np

from posenc.plot.columns import BLOCK, ColumnWaves, Params, TableSource, check_word, source
from posenc.plot.palette import largest
from posenc.plot.panels.text import number, plural, present, whole
from posenc.plot.response import FADE, FULL, centres, edges, gain, reduced
from posenc.plot.rows import COLUMNS, require

MOST_PIXELS = 1 << 22  # of one picture
MOST_NUMBERS = 1 << 28  # of real rows that are computed and filtered for one picture
MOST_BOUNDARIES = 16

Method = Literal["exact", "gain", "filter", "sample"]


@dataclass(frozen=True)
class Tile:
    """A table drawn in pixels."""

    values: np.ndarray
    positions: tuple[int, int]
    dims: tuple[int, int]
    edges: np.ndarray
    places: np.ndarray
    columns: np.ndarray
    order: str
    gain: np.ndarray
    blank: int
    per_pixel: tuple[float, float]
    boundaries: tuple[float, ...]
    method: Method
    limit: float
    caption: tuple[str, ...]


class TilePixels(TypedDict, total=False):
    """How a table stands in pixels: the keywords of `tile_of`."""

    rows: int
    columns: int
    dims: tuple[int, int] | None
    order: str | None
    sample: bool


def tile(
    spec: Any,
    positions: int | tuple[int, int] | None = None,
    *,
    params: Params = None,
    length: int | None = None,
    grid: tuple[int, ...] | None = None,
    **pixels: Unpack[TilePixels],
) -> Tile:
    """A table drawn in at most `rows` x `columns` pixels."""
    return tile_of(source(spec, params=params, length=length, grid=grid), positions, **pixels)


def tile_of(
    table: TableSource,
    positions: int | tuple[int, int] | None = None,
    *,
    rows: int = 512,
    columns: int = 512,
    dims: tuple[int, int] | None = None,
    order: str | None = None,
    sample: bool = False,
) -> Tile:
    """Draw a table as `tile` does, from a source that is at hand."""
    start, stop = placed(table, positions)
    first, last = (0, table.width) if dims is None else span(dims, "dims")
    require(
        first >= 0 and last <= table.width,
        ": dims",
        f"dimensions 0 to {table.width - 1}",
        f"{first} to {last - 1}",
    )
    wide = last - first > columns
    order = order_of(table, order, wide)
    shown = arranged(table, order)[first:last]
    rows, columns = min(rows, stop - start), min(columns, len(shown))
    require(
        rows > 0 and columns > 0 and rows * columns <= MOST_PIXELS,
        ": size",
        f"at least 1 and at most {MOST_PIXELS:,} pixels",
        f"{rows} x {columns}",
        "Ask for a smaller picture, or for fewer dots per inch.",
    )
    halves = runs_of(table, shown) if wide else (shown,)
    require(
        not wide or columns >= len(halves), ": columns", f"at least {len(halves)} pixels", columns
    )
    view = _PixelRows(table, start, stop, rows, sample)
    pieces = [_half(view, half, size) for half, size in shares(halves, columns)]
    values = np.concatenate([piece[0] for piece in pieces], axis=1)
    picked = np.concatenate([piece[1] for piece in pieces])
    per_wave = view.pixels_per_wave(picked)
    drawn = Tile(
        values=values,
        positions=(start, stop),
        dims=(first, last),
        edges=edges(start, stop, rows),
        places=start + np.floor((np.arange(rows) + 0.5) * ((stop - start) / rows)).astype(np.int64),
        columns=picked,
        order=order,
        gain=gain(per_wave) if view.method == "gain" else np.ones(len(picked)),
        blank=int((view.pixels_per_wave(shown) < FADE).sum()) if view.method != "exact" else 0,
        per_pixel=((stop - start) / rows, len(shown) / len(picked)),
        boundaries=_boundaries(per_wave < FADE) if rows < stop - start else (),
        method=view.method,
        limit=limit_of(table, values),
        caption=(),
    )
    return replace(drawn, caption=_caption(drawn, table))


def placed(table: TableSource, positions: int | tuple[int, int] | None) -> tuple[int, int]:
    """The range of positions (from, to), the usual one where none is given."""
    return (0, table.usual()) if positions is None else span(positions, "positions")


def span(extent: int | tuple[int, int], what: str) -> tuple[int, int]:
    """A range (from, to), or a number of things from 0 as one; raises where it is empty."""
    ends = (0, extent) if isinstance(extent, (int, np.integer)) else extent
    whole = (
        isinstance(ends, (tuple, list))
        and len(ends) == 2
        and all(isinstance(end, (int, np.integer)) for end in ends)
    )
    start, stop = ends if whole else (0, 0)
    require(
        not isinstance(extent, bool) and start < stop,
        f": {what}",
        "a number of at least 1, or a range (from, to)",
        repr(extent)[:60],
    )
    require(
        max(abs(int(start)), abs(int(stop))) <= 2**62,
        f": {what}",
        "numbers up to 2**62",
        repr(extent),
    )
    require(stop - start <= 2**40, f": {what}", "at most 2**40 of them", stop - start)
    return int(start), int(stop)


def limit_of(table: TableSource, values: np.ndarray) -> float:
    """Value at the ends of the colour scale: the amplitude of waves, else the largest number."""
    return (largest(values) if table.waves is None else abs(table.waves.amplitude)) or 1.0


def _half(view: _PixelRows, dims: np.ndarray, pixels: int) -> tuple[np.ndarray, np.ndarray]:
    """Values (rows, pixels) of a run of columns, and the dimension nearest to each pixel."""
    if pixels >= len(dims):
        return view.values(dims), dims
    nearest = dims[((np.arange(pixels) + 0.5) * (len(dims) / pixels)).astype(np.int64)]
    return (
        (view.values(nearest), nearest)
        if view.sample
        else (
            reduced(lambda i, end: view.values(dims[i:end]).T, len(dims), pixels, view.rows).T,
            nearest,
        )
    )


class _PixelRows:
    """The rows of pixels over a range of positions, of any columns."""

    def __init__(self, table: TableSource, start: int, stop: int, rows: int, sample: bool) -> None:
        self.table, self.start, self.stop, self.rows = table, start, stop, rows
        self.sample = sample and rows < stop - start
        self.per_pixel = (stop - start) / rows
        self.method: Method = "exact"
        if rows < stop - start:
            self.method = "sample" if sample else "filter" if table.waves is None else "gain"
        numbers = (stop - start) * table.width
        require(
            table.waves is not None or self.sample or numbers <= MOST_NUMBERS,
            "",
            f"at most {whole(MOST_NUMBERS)} numbers of a table without known waves",
            whole(numbers),
            "Draw fewer positions, or some of the rows: sample.",
        )

    def pixels_per_wave(self, dims: np.ndarray) -> np.ndarray:
        """Pixels to a wave of each column; infinite where it is no wave."""
        waves = self.table.waves
        return (
            np.full(len(dims), np.inf) if waves is None else waves.wavelength[dims] / self.per_pixel
        )

    def values(self, dims: np.ndarray) -> np.ndarray:
        """(rows, len(dims))."""
        if self.method == "gain" and self.table.waves is not None:
            return self._waves(self.table.waves, dims)
        return (
            self._filtered[:, dims]
            if self.method == "filter"
            else self.table.blocks(
                self.start
                + np.floor(np.arange(self.rows) * self.per_pixel + 1e-9).astype(np.int64),
                dims,
            )
        )

    def _waves(self, waves: ColumnWaves, dims: np.ndarray) -> np.ndarray:
        share = gain(waves.wavelength[dims] / self.per_pixel)
        shown = np.flatnonzero(share)
        whole_part, part = centres(self.start, self.stop, self.rows)
        pixels = np.zeros((self.rows, len(dims)))
        step = max(1, BLOCK // max(len(shown), 1))
        for begin in range(0, self.rows, step):
            rows = slice(begin, begin + step)
            pixels[rows, shown] = share[shown] * waves.at(whole_part[rows], part[rows], dims[shown])
        return pixels

    @functools.cached_property
    def _filtered(self) -> np.ndarray:
        table, start = self.table, self.start
        return reduced(
            lambda begin, end: table.rows(np.arange(start + begin, start + end)),
            self.stop - start,
            self.rows,
            table.width,
            around(table, start, self.stop),
        )


def around(table: TableSource, start: int, stop: int) -> tuple[int, int]:
    """Rows beside a range, which serve the pixels at its ends, as far as it is known of any."""
    end = table.end
    return max(start, 0), 0 if end is None else max(end - stop, 0)


def _boundaries(hidden: np.ndarray) -> tuple[float, ...]:
    places = np.flatnonzero(np.diff(hidden.astype(np.int8))) + 1
    return tuple(float(k) for k in places) if len(places) <= MOST_BOUNDARIES else ()


def _caption(drawn: Tile, table: TableSource) -> tuple[str, ...]:
    count, total = drawn.positions[1] - drawn.positions[0], drawn.dims[1] - drawn.dims[0]
    rows, columns = drawn.values.shape
    each = (
        f"Each of the {whole(count)} positions has a row of its own."
        if count > 1
        else f"One position, {whole(drawn.positions[0])}."
    )
    blank = f"{whole(drawn.blank)} of {plural(total, 'column')}"
    methods = {
        "sample": f"Sampled on purpose: {number(100 * (1 - rows / count), 3)} % of the rows are "
        f"skipped, and {blank} show a pattern that is not in the table.",
        "gain": f"{blank} are blank: below {FADE:g} pixels per wave; waves are shown in full from "
        f"{FULL:g}.",
        "filter": f"Rows are filtered: waves below {FADE:g} pixels are blank, {FULL:g} are full.",
    }
    what = "pairs, sines and cosines apart" if table.waves is not None else "dimensions"
    cells = " by ".join(
        f"{n} ({name})" for n, name in zip(table.sides, table.spec.axes, strict=False)
    )
    return present(
        each
        if drawn.per_pixel[0] == 1
        else f"A pixel covers {number(drawn.per_pixel[0])} positions.",
        methods.get(drawn.method),
        f"A pixel covers {number(total / columns)} {what}." if drawn.per_pixel[1] > 1 else "",
        f"Positions are the cells of a grid of {cells}, the last fastest." if cells else "",
        "Columns are the channels: a sine where the first of a pair stands, a cosine where the "
        "second does."
        if table.turns
        else "",
        f"Head 0 of {table.heads}, which differ." if table.heads > 1 else "",
        f"Colours end at ±{number(drawn.limit)}." if drawn.limit != 1 else "",
    )


# --- the order of columns -------------------------------------------------------------------------


def order_of(table: TableSource, order: str | None, wide: bool) -> str:
    """The order asked for, or the usual one; raises where a table or a picture has no such."""
    order = order or ("sin_cos" if wide and table.waves is not None else "stored")
    check_word("plot: order", order, COLUMNS)
    if table.waves is None:
        require(
            order == "stored",
            f"({type(table.spec).__name__}): order",
            "stored",
            repr(order),
            "Its columns are no pairs of sine and cosine: leave the order out.",
        )
    elif wide:
        require(
            order in ("sin_cos", "cos_sin"),
            ": order",
            "sines and cosines apart where columns are narrower than a pixel",
            repr(order),
            "Use order='sin_cos', fewer dims, or a wider picture.",
        )
    return order


def arranged(table: TableSource, order: str) -> np.ndarray:
    """The dimensions of the table in an order of columns."""
    natural, waves = np.arange(table.width), table.waves
    if order == "stored" or waves is None:
        return natural
    none = waves.pair < 0
    if order == "interleaved":
        return np.lexsort((natural, waves.function, waves.pair, none))
    return np.lexsort(
        (natural, waves.pair, waves.function if order == "sin_cos" else 1 - waves.function, none)
    )


def runs_of(table: TableSource, shown: np.ndarray) -> tuple[np.ndarray, ...]:
    """Runs of columns over which a filter may go: of sines, of cosines, of zeros."""
    if table.waves is None:
        return (shown,)
    kind = np.where(table.waves.pair[shown] < 0, 2, table.waves.function[shown])
    return tuple(np.split(shown, np.flatnonzero(np.diff(kind)) + 1))


def shares(halves: tuple[np.ndarray, ...], columns: int) -> list[tuple[np.ndarray, int]]:
    """Pixels for each run, in proportion, at least one each."""
    ends = np.cumsum([len(half) for half in halves])
    sizes = np.maximum(np.diff(np.rint(ends * (columns / ends[-1])).astype(int), prepend=0), 1)
    while sizes.sum() > columns:
        sizes[sizes.argmax()] -= 1
    return list(zip(halves, sizes.tolist(), strict=True))
