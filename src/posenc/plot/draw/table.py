"""Table: rows of numbers as colours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from posenc.plot.columns import Params, source
from posenc.plot.draw.beside import matrices, pixels_along
from posenc.plot.draw.heat import BAR, bar, heat, place_ticks
from posenc.plot.draw.picture import Picture
from posenc.plot.draw.sheet import Look, Sheet, asked, cells, device
from posenc.plot.raster import Tile, placed, span
from posenc.plot.views import table as _table

__all__ = ["BESIDE", "table"]

MOST_WIDE, MOST_HIGH = 720, 560
LEFT, BOTTOM = 64, 44  # room for labels of a panel


def paint_tile(sheet: Sheet, axes: Any, tile: Tile, values: Any = None, limit: Any = None) -> None:
    """A tile in axes, with ticks, the names of halves, and lines at 2 pixels per wave."""
    start, stop = tile.positions
    first, last = tile.dims
    shown = tile.values if values is None else values
    limit = tile.limit if limit is None else limit
    heat(sheet, axes, shown, limit=limit, x=(first, last), y=(start, stop))
    place_ticks(axes.yaxis, start, stop)
    place_ticks(axes.xaxis, first, last)
    axes.set_ylabel("position")
    named = {"stored": "dimension", "interleaved": "dimension, sine and cosine in turn"}
    ordered = {"sin_cos": "sines, then cosines", "cos_sin": "cosines, then sines"}
    axes.set_xlabel({**named, **ordered}[tile.order])
    for place in tile.boundaries:
        at = first + place * (last - first) / len(tile.columns)
        axes.axvline(at, color=sheet.theme.ink, linewidth=1, linestyle=(0, (4, 3)), zorder=3)
    if tile.boundaries:
        at = first + tile.boundaries[0] * (last - first) / len(tile.columns)
        axes.annotate(
            "2 px per wave",
            (at, 1),
            xycoords=("data", "axes fraction"),
            xytext=(0, 4),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=9,
            color=sheet.theme.muted,
        )
    if tile.method == "sample":
        axes.annotate(
            "sampled: an illusion",
            (1, 1),
            xycoords="axes fraction",
            xytext=(0, 4),
            textcoords="offset points",
            ha="right",
            va="bottom",
            fontsize=9.5,
            weight="bold",
            color=sheet.series[1].colour,
        )


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
        `width`: pixels of the panel, at most. `scale`: device pixels to a pixel, 1 by default.
        `theme`: `light`, `dark` or `print`.

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
    if ax is None:
        wide = cells(last - first, frame.width or MOST_WIDE)
        high = cells(stop - start, height or MOST_HIGH)
        rows, columns = round(high * frame.scale), round(wide * frame.scale)
    else:
        wide, high = 100, 100
        rows, columns = device(ax)
    data = _table.data(
        spec,
        (start, stop),
        rows=rows,
        columns=columns,
        dims=dims,
        order=order,
        sample=sample,
        params=params,
        length=length,
        grid=grid,
    )
    room = 0 if ax is not None else 1
    sheet = Sheet(
        wide + room * (LEFT + BAR),
        high + room * (BOTTOM + 16),
        ax=ax,
        frame=frame,
        question="What does each position look like?",
        title=data.title,
        caption=data.caption,
    )
    axes = sheet.panel(room * LEFT, room * 16, wide, high)
    paint_tile(sheet, axes, data.tile)
    if room:
        bar(sheet, LEFT + wide + 16, 16, data.tile.limit, height=min(120, high))
    return sheet.picture("table", data, arguments)


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
