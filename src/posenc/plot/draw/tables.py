"""Table, similarity and sum: matrices of signed numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from posenc.plot.columns import Params, source
from posenc.plot.draw.heat import BAR, bar, heat, place_ticks
from posenc.plot.draw.picture import Picture
from posenc.plot.draw.sheet import Sheet, cells, device
from posenc.plot.raster import Tile, placed, span
from posenc.plot.views import similarity as _similarity
from posenc.plot.views import sum as _sum
from posenc.plot.views import table as _table

__all__ = ["paint_similarity", "paint_tile", "similarity", "sum_", "table"]

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
    width: int | None = None,
    height: int | None = None,
    scale: float = 1.0,
    theme: str = "light",
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
    width, height : int, optional
        Pixels of the panel, at most; as many as the table needs by default, within reason.
    scale : float
        Device pixels to a pixel.
    theme : {"light", "dark", "print"}
        Colours.

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
    arguments = {k: v for k, v in locals().items() if k not in ("ax", "params")}
    numbers = source(spec, params=params, length=length, grid=grid)
    start, stop = placed(numbers, positions)
    first, last = (0, numbers.width) if dims is None else span(dims, "dims")
    if ax is None:
        wide = cells(last - first, width or MOST_WIDE)
        high = cells(stop - start, height or MOST_HIGH)
        rows, columns = round(high * scale), round(wide * scale)
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
        theme=theme,
        scale=scale,
        question="What does each position look like?",
        title=data.title,
        caption=data.caption,
    )
    axes = sheet.panel(room * LEFT, room * 16, wide, high)
    paint_tile(sheet, axes, data.tile)
    if room:
        bar(sheet, LEFT + wide + 16, 16, data.tile.limit, height=min(120, high))
    return sheet.picture("table", data, arguments)


def paint_similarity(
    sheet: Sheet, axes: Any, data: Any, values: Any = None, limit: Any = None
) -> None:
    """A matrix of products in axes."""
    start, stop = data.positions
    shown = data.values if values is None else values
    limit = data.limit if limit is None else limit
    heat(sheet, axes, shown, limit=limit, x=(start, stop), y=(start, stop))
    place_ticks(axes.yaxis, start, stop)
    place_ticks(axes.xaxis, start, stop)
    axes.set_xlabel("position")
    axes.set_ylabel("position")


def similarity(
    spec: Any,
    ax: Any = None,
    *,
    positions: int | tuple[int, int] | None = None,
    kind: str = "dot",
    params: Params = None,
    length: int | None = None,
    grid: tuple[int, ...] | None = None,
    width: int | None = None,
    scale: float = 1.0,
    theme: str = "light",
) -> Picture:
    """Draw the products of all rows with all rows.

    Parameters
    ----------
    spec : Spec
        A table, or a rotation.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    positions : int or (int, int), optional
        A number of positions from 0, or from and to (excluded); 128 by default, or all there are.
    kind : {"dot", "cosine"}
        The product of rows, or of rows of length 1.
    params : mapping, optional
        As for `table`.
    length : int, optional
        As for `table`.
    grid : tuple of int, optional
        As for `table`.
    width : int, optional
        Pixels of a side, at most.
    scale : float
        As for `table`.
    theme : str
        As for `table`.

    Returns
    -------
    Picture
        The figure, what it shows, and its files.

    Examples
    --------
    >>> import posenc, posenc.plot
    >>> posenc.plot.similarity(posenc.Sinusoidal(64)).data.defect
    0.0
    """
    arguments = {k: v for k, v in locals().items() if k not in ("ax", "params")}
    numbers = source(spec, params=params, length=length, grid=grid, caller="similarity")
    start, stop = placed(numbers, positions)
    side = cells(stop - start, width or 512) if ax is None else 100
    pixels = round(side * scale) if ax is None else min(device(ax))
    data = _similarity.data(
        spec,
        (start, stop),
        kind=kind,
        pixels=pixels,
        params=params,
        length=length,
        grid=grid,
    )
    room = 0 if ax is not None else 1
    sheet = Sheet(
        side + room * (LEFT + BAR),
        side + room * BOTTOM,
        ax=ax,
        theme=theme,
        scale=scale,
        question="Which positions are alike?",
        title=f"{data.title}, {'dot product' if kind == 'dot' else 'cosine'} of rows",
        caption=data.caption,
    )
    axes = sheet.panel(room * LEFT, 0, side, side)
    paint_similarity(sheet, axes, data)
    if room:
        bar(sheet, LEFT + side + 16, 0, data.limit, height=min(120, side))
    return sheet.picture("similarity", data, arguments)


def sum_(
    spec: Any,
    ax: Any = None,
    *,
    tokens: str | Sequence[str] = "the cat saw the dog",
    embeddings: np.ndarray | None = None,
    seed: int = 0,
    offset: int = 0,
    params: Params = None,
    width: int | None = None,
    scale: float = 1.0,
    theme: str = "light",
) -> Picture:
    """Draw embedding + encoding = input, token by token.

    Parameters
    ----------
    spec : TableSpec
        A table of one axis.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    tokens : str or sequence of str
        A sentence, split at spaces, or the tokens.
    embeddings : numpy.ndarray, optional
        (tokens, dim); random vectors by default, and said to be so.
    seed : int
        Of the random vectors.
    offset : int
        Position of the first token.
    params : mapping, optional
        What a learned table has learned.
    width : int, optional
        Pixels of a strip, at most.
    scale : float
        As for `table`.
    theme : str
        As for `table`.

    Returns
    -------
    Picture
        The figure, what it shows, and its files.

    Examples
    --------
    >>> import posenc, posenc.plot
    >>> posenc.plot.sum(posenc.Sinusoidal(16), tokens="classify the book").data.tokens
    ('classify', 'the', 'book')
    """
    arguments = {k: v for k, v in locals().items() if k not in ("ax", "params")}
    data = _sum.data(spec, tokens, embeddings=embeddings, seed=seed, offset=offset, params=params)
    wide = cells(data.total.shape[1], width or 560)
    row = max(8, min(24, 180 // len(data.tokens)))
    high = row * len(data.tokens)
    gap, left = 30, 92
    strips = _strips(data)
    sheet = Sheet(
        left + wide + BAR,
        len(strips) * (high + gap) + 8 + BOTTOM - gap,
        ax=ax,
        theme=theme,
        scale=scale,
        question="What reaches the model?",
        title=data.title,
        caption=data.caption,
    )
    for place, (name, values) in enumerate(strips):
        share = values.shape[1] / data.total.shape[1]
        top = place * (high + gap) + 18
        axes = sheet.panel(left, top, round(wide * share), high)
        heat(sheet, axes, values, limit=data.limit, x=(0, values.shape[1]), y=(0, len(data.tokens)))
        sheet.heading(axes, name)
        _tokens(axes, data.tokens, offset, row)
        if place < len(strips) - 1:
            axes.set_xticks([])
        else:
            place_ticks(axes.xaxis, 0, values.shape[1])
            axes.set_xlabel("dimension")
    bar(sheet, left + wide + 16, 18, data.limit)
    return sheet.picture("sum", data, arguments)


def _strips(data: Any) -> list[tuple[str, np.ndarray]]:
    named = "embedding" if data.scale == 1 else f"embedding × {data.scale:.4g}"
    whole = "= input" if data.total.shape[1] == data.scaled.shape[1] else "side by side: input"
    return [(named, data.scaled), ("+ encoding", data.encoding), (whole, data.total)]


def _tokens(axes: Any, tokens: Sequence[str], offset: int, row: int) -> None:
    every = max(1, -(-11 // row))
    shown = range(0, len(tokens), every)
    axes.set_yticks([i + 0.5 for i in shown])
    axes.set_yticklabels([f"{tokens[i][:10]} {offset + i}" for i in shown])
