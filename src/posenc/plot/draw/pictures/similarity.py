"""Similarity: the products of all rows with all rows."""

from __future__ import annotations

from typing import Any, Unpack

from posenc.plot.columns import Params, source
from posenc.plot.draw.beside import matrices, pixels_along, square
from posenc.plot.draw.heat import bar, heat
from posenc.plot.draw.look import Look, asked
from posenc.plot.draw.picture import Picture
from posenc.plot.draw.pixels import device
from posenc.plot.draw.sheet import Sheet, cells
from posenc.plot.draw.ticks import place_ticks
from posenc.plot.raster import placed
from posenc.plot.views import similarity as _similarity


def paint_similarity(sheet: Sheet, axes: Any, data: Any, values: Any, limit: float) -> None:
    """A matrix of products in axes."""
    heat(sheet, axes, values, limit=limit, x=data.positions, y=data.positions)
    for axis in (axes.yaxis, axes.xaxis):
        place_ticks(axis, *data.positions)
    axes.set(xlabel="position", ylabel="position")


def similarity(
    spec: Any,
    ax: Any = None,
    *,
    positions: int | tuple[int, int] | None = None,
    kind: str = "dot",
    params: Params = None,
    length: int | None = None,
    grid: tuple[int, ...] | None = None,
    **look: Unpack[Look],
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
    **look
        `width`: pixels of a side, at most. The others are as for `table`.

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
    arguments, frame = asked("similarity", locals())
    numbers = source(spec, params=params, length=length, grid=grid, caller="similarity")
    start, stop = placed(numbers, positions)
    side = cells(stop - start, frame.width or 512)
    pixels = frame.pixels(side) if ax is None else min(device(ax))
    for _ in range(1 if frame.size is None or ax is not None else 2):
        data = _similarity.data(
            spec,
            (start, stop),
            kind=kind,
            pixels=min(pixels, stop - start),
            params=params,
            length=length,
            grid=grid,
        )
        title = f"{data.title}, {'dot product' if kind == 'dot' else 'cosine'} of rows"
        sheet = Sheet(ax, frame, "Which positions are alike?", data, title=title, alone=True)
        axes = sheet.panel(0, 0, side, side, "square")
        paint_similarity(sheet, axes, data, data.values, data.limit)
        bar(sheet, side + 10, 0, data.limit, height=min(120, side))
        picture = sheet.picture("similarity", data, arguments)
        pixels = min(device(axes))
    return picture


BESIDE = matrices(square, paint_similarity, pixels_along(128))
