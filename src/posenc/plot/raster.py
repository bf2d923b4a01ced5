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

from posenc._core.errors import ArgumentError, mismatch
from posenc.plot.column_order import arranged, order_of, runs_of, shares
from posenc.plot.columns import BLOCK, Params, TableSource, source
from posenc.plot.palette import largest
from posenc.plot.panels.text import number, plural, whole
from posenc.plot.response import FADE, FULL, centres, edges, gain, reduced

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
    if last > table.width or first < 0:
        raise ArgumentError(
            mismatch("plot: dims", f"dimensions 0 to {table.width - 1}", f"{first} to {last - 1}")
        )
    if rows < 1 or columns < 1 or rows * columns > MOST_PIXELS:
        expected = f"at least 1 and at most {MOST_PIXELS} pixels"
        raise ArgumentError(mismatch("plot: size", expected, f"{rows} x {columns}"))
    wide = last - first > columns
    order = order_of(table, order, wide)
    shown = arranged(table, order)[first:last]
    rows, columns = min(rows, stop - start), min(columns, len(shown))
    halves = runs_of(table, shown) if wide else (shown,)
    if wide and columns < len(halves):
        raise ArgumentError(mismatch("plot: columns", f"at least {len(halves)} pixels", columns))
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
    two = isinstance(ends, (tuple, list)) and len(ends) == 2
    whole = two and all(isinstance(end, (int, np.integer)) for end in ends)
    start, stop = ends if whole else (0, 0)
    if isinstance(extent, bool) or stop <= start:
        expected = "a number of at least 1, or a range (from, to)"
        raise ArgumentError(mismatch(f"plot: {what}", expected, repr(extent)[:60]))
    if max(abs(int(start)), abs(int(stop))) > 2**62:
        raise ArgumentError(mismatch(f"plot: {what}", "numbers up to 2**62", repr(extent)))
    if stop - start > 2**40:
        raise ArgumentError(mismatch(f"plot: {what}", "at most 2**40 of them", stop - start))
    return int(start), int(stop)


def limit_of(table: TableSource, values: np.ndarray) -> float:
    """Value at the ends of the colour scale: the amplitude of waves, else the largest number."""
    if table.waves is not None:
        return abs(table.waves.amplitude) or 1.0
    return largest(values) or 1.0


def _half(view: _PixelRows, dims: np.ndarray, pixels: int) -> tuple[np.ndarray, np.ndarray]:
    """Values (rows, pixels) of a run of columns, and the dimension nearest to each pixel."""
    if pixels >= len(dims):
        return view.values(dims), dims
    nearest = dims[((np.arange(pixels) + 0.5) * (len(dims) / pixels)).astype(np.int64)]
    if view.sample:
        return view.values(nearest), nearest

    def fetch(begin: int, end: int) -> np.ndarray:
        return view.values(dims[begin:end]).T

    return reduced(fetch, len(dims), pixels, view.rows).T, nearest


class _PixelRows:
    """The rows of pixels over a range of positions, of any columns."""

    def __init__(self, table: TableSource, start: int, stop: int, rows: int, sample: bool) -> None:
        self.table, self.start, self.stop, self.rows = table, start, stop, rows
        self.sample = sample and rows < stop - start
        self.per_pixel = (stop - start) / rows
        self.method: Method = "exact"
        if self.sample:
            self.method = "sample"
        elif rows < stop - start:
            self.method = "filter" if table.waves is None else "gain"
        numbers = (stop - start) * table.width
        if table.waves is None and not self.sample and numbers > MOST_NUMBERS:
            todo = "Draw fewer positions, or some of the rows: sample."
            expected = f"at most {whole(MOST_NUMBERS)} numbers of a table without known waves"
            raise ArgumentError(mismatch("plot", expected, whole(numbers), todo))

    def pixels_per_wave(self, dims: np.ndarray) -> np.ndarray:
        """Pixels to a wave of each column; infinite where it is no wave."""
        waves = self.table.waves
        if waves is None:
            return np.full(len(dims), np.inf)
        return waves.wavelength[dims] / self.per_pixel

    def values(self, dims: np.ndarray) -> np.ndarray:
        """(rows, len(dims))."""
        if self.method == "gain":
            return self._waves(dims)
        if self.method == "filter":
            return self._filtered[:, dims]
        index = np.floor(np.arange(self.rows) * self.per_pixel + 1e-9).astype(np.int64)
        return self.table.blocks(self.start + index, dims)

    def _waves(self, dims: np.ndarray) -> np.ndarray:
        waves = self.table.waves
        assert waves is not None, "`method` says so"  # noqa: S101 - for the type checker
        share = gain(self.pixels_per_wave(dims))
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
        def fetch(begin: int, end: int) -> np.ndarray:
            return self.table.rows(np.arange(self.start + begin, self.start + end))

        beside = around(self.table, self.start, self.stop)
        return reduced(fetch, self.stop - self.start, self.rows, self.table.width, beside)


def around(table: TableSource, start: int, stop: int) -> tuple[int, int]:
    """Rows beside a range, which serve the pixels at its ends, as far as it is known of any."""
    end = table.end
    return max(start, 0), 0 if end is None else max(end - stop, 0)


def _boundaries(hidden: np.ndarray) -> tuple[float, ...]:
    places = np.flatnonzero(np.diff(hidden.astype(np.int8))) + 1
    return tuple(float(k) for k in places) if len(places) <= MOST_BOUNDARIES else ()


def _caption(drawn: Tile, table: TableSource) -> tuple[str, ...]:
    start, stop = drawn.positions
    rows, columns = drawn.values.shape
    sentences = []
    if drawn.per_pixel[0] == 1:
        several = f"Each of the {whole(stop - start)} positions has a row of its own."
        sentences.append(several if stop - start > 1 else f"One position, {whole(start)}.")
    else:
        sentences.append(f"A pixel covers {number(drawn.per_pixel[0])} positions.")
    total = drawn.dims[1] - drawn.dims[0]
    blank = f"{whole(drawn.blank)} of {plural(total, 'column')}"
    if drawn.method == "sample":
        skipped = 1 - rows / (stop - start)
        sentences.append(
            f"Sampled on purpose: {number(100 * skipped, 3)} % of the rows are skipped, and "
            f"{blank} show a pattern that is not in the table."
        )
    elif drawn.method == "gain":
        sentences.append(
            f"{blank} are blank: below {FADE:g} pixels per "
            f"wave; waves are shown in full from {FULL:g}."
        )
    elif drawn.method == "filter":
        sentences.append(
            f"Rows are filtered: waves below {FADE:g} pixels are blank, {FULL:g} are full."
        )
    if drawn.per_pixel[1] > 1:
        what = "pairs, sines and cosines apart" if table.waves is not None else "dimensions"
        sentences.append(f"A pixel covers {number(total / columns)} {what}.")
    if table.sides:
        axes = table.spec.axes
        cells = " by ".join(f"{n} ({name})" for n, name in zip(table.sides, axes, strict=True))
        sentences.append(f"Positions are the cells of a grid of {cells}, the last fastest.")
    if table.turns:
        sentences.append(
            "Columns are the channels: a sine where the first of a pair stands, a cosine where "
            "the second does."
        )
    if table.heads > 1:
        sentences.append(f"Head 0 of {table.heads}, which differ.")
    if drawn.limit != 1:
        sentences.append(f"Colours end at ±{number(drawn.limit)}.")
    return tuple(sentences)
