"""Table: rows of numbers as colours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from posenc.plot.columns import Params, source
from posenc.plot.draw.beside import matrices, pixels_along
from posenc.plot.draw.heat import bar, heat
from posenc.plot.draw.look import Look, asked
from posenc.plot.draw.picture import Picture
from posenc.plot.draw.pixels import device
from posenc.plot.draw.sheet import Sheet, cells
from posenc.plot.draw.ticks import place_ticks
from posenc.plot.raster import Tile, placed, span
from posenc.plot.views import table as _table

MOST_WIDE, MOST_HIGH = 720, 560
COLUMNS = {
    "stored": "dimension",
    "interleaved": "dimension, sine and cosine in turn",
    "sin_cos": "sines, then cosines",
    "cos_sin": "cosines, then sines",
}


def paint_tile(sheet: Sheet, axes: Any, tile: Tile, values: Any, limit: float) -> None:
    """A tile in axes, with ticks, the names of halves, and lines at 2 pixels per wave."""
    first, last = tile.dims
    heat(sheet, axes, values, limit=limit, x=tile.dims, y=tile.positions)
    place_ticks(axes.yaxis, *tile.positions)
    place_ticks(axes.xaxis, first, last)
    axes.set(xlabel=COLUMNS[tile.order], ylabel="position")
    edges = [first + place * (last - first) / len(tile.columns) for place in tile.boundaries]
    for at in edges:
        axes.axvline(at, color=sheet.theme.ink, linewidth=1, linestyle=(0, (4, 3)), zorder=3)
    if edges:
        # In given axes it stands inside, as a title may stand above.
        above: dict[str, Any] = {"xytext": (0, 4), "ha": "center"}
        inside: dict[str, Any] = {"xytext": (-2, 4), "ha": "right", "rotation": 90}
        words, low = (inside, 0) if sheet.direct else (above, 1)
        where = ("data", "axes fraction")
        sheet.note(axes, "2 px per wave", (edges[0], low), xycoords=where, va="bottom", **words)
    if tile.method == "sample":
        style = {"ha": "right", "weight": "bold", "color": sheet.style(1)["color"]}
        sheet.note(axes, "sampled: an illusion", (1, 1), xytext=(0, 4), va="bottom", **style)


def table(
    spec: Any,
    ax: Any = None,
    *,
    positions: int | tuple[int, int] | None = None,
    dims: tuple[int, int] | None = None,
    order: str | None = None,
    sample: bool = False,
    params: Params = None,
    length: int | None = None,
    grid: tuple[int, ...] | None = None,
    height: int | None = None,
    **look: Unpack[Look],
) -> Picture:
    """Draw a table: a row for each position, a column for each dimension.

    A column is a wave. Below 2 pixels per wave it is left blank, from 8 on it is shown in full, so
    that nothing is seen that is not in the table.

    Parameters
    ----------
    spec : Spec
        A table, or a rotation, of which the sines and cosines are drawn.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    positions : int or (int, int), optional
        A number of positions from 0, or from and to (excluded); 128 by default, or all there are.
    dims : (int, int), optional
        From and to (excluded), in the order drawn; all by default.
    order : {"stored", "interleaved", "sin_cos", "cos_sin"}, optional
        How the columns stand.
    sample : bool
        Whether to draw some of the rows and skip the others: an illusion, and labelled so.
    params : mapping, optional
        What a learned table has learned.
    length : int, optional
        Length of the sequence, for scalings that depend on it.
    grid : tuple of int, optional
        Sides of a grid whose cells are the positions, for specs of several axes.
    height : int, optional
        Pixels of the panel, at most, as its width; as many as the table needs by default, within
        reason.
    **look
        `width`: pixels of the panel, at most; or `size`: of the whole picture, such as `"3.3in"` or
        `"84mm x 50mm"`, with letters for paper and 300 dpi. `dpi`: pixels to an inch, 72 by
        default; or `scale`: device pixels to a pixel. `theme`: `light`, `dark` or `print`; by
        default the page of the axes, or of matplotlib's settings. `title`: a text in place of the
        usual words above, or False. `caption`: False leaves out the words below. `color`: of the
        curves, one or several; `label`: their names; `cmap`: a colour map, whose middle is zero.

    Returns
    -------
    Picture
        The figure, what it shows, and its files.

    Examples
    --------
    >>> import posenc, posenc.plot
    >>> made = posenc.plot.table(posenc.Sinusoidal(50), positions=45_000, height=670)
    >>> made.data.tile.blank
    18
    """
    arguments, frame = asked("table", locals())
    numbers = source(spec, params=params, length=length, grid=grid)
    start, stop = placed(numbers, positions)
    first, last = (0, numbers.width) if dims is None else span(dims, "dims")
    wide = cells(last - first, frame.width or MOST_WIDE)
    high = cells(stop - start, height or MOST_HIGH)
    rows, columns = frame.pixels(high), frame.pixels(wide)
    if ax is not None:
        rows, columns = device(ax)
    # A picture of a size that is asked for is drawn again with the pixels that its panel has.
    for _ in range(1 if frame.size is None or ax is not None else 2):
        data = _table.data(
            spec,
            (start, stop),
            rows=min(rows, stop - start),  # a row of pixels for each position is all there is
            columns=columns,
            dims=dims,
            order=order,
            sample=sample,
            params=params,
            length=length,
            grid=grid,
        )
        sheet = Sheet(ax, frame, "What does each position look like?", data, alone=True)
        axes = sheet.panel(0, 0, wide, high, "cells")
        paint_tile(sheet, axes, data.tile, data.tile.values, data.tile.limit)
        bar(sheet, wide + 10, 0, data.tile.limit, height=min(120, high))
        picture = sheet.picture("table", data, arguments)
        rows, columns = device(axes)
    return picture


def _panel(data: Any, most: int) -> tuple[int, int]:
    wide = max(cells(d.tile.dims[1] - d.tile.dims[0], most) for d in (data.a, data.b))
    start, stop = data.a.tile.positions
    return wide, cells(stop - start, most)


def _fineness(options: Mapping[str, Any], most: int, scale: float) -> dict[str, int]:
    rows: int = pixels_along(128)(options, most, scale)["pixels"]
    return {"rows": rows, "columns": round(most * scale)}


BESIDE = matrices(
    _panel,
    lambda sheet, axes, side, values, limit: paint_tile(sheet, axes, side.tile, values, limit),
    _fineness,
)
