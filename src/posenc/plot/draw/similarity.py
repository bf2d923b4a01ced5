"""Similarity: the products of all rows with all rows."""

from __future__ import annotations

from typing import Any, Unpack

from posenc.plot.columns import Params, source
from posenc.plot.draw.beside import matrices, pixels_along
from posenc.plot.draw.heat import BAR, bar, heat, place_ticks
from posenc.plot.draw.picture import Picture
from posenc.plot.draw.sheet import Look, Sheet, asked, cells, device
from posenc.plot.raster import placed
from posenc.plot.views import similarity as _similarity

__all__ = ["BESIDE", "similarity"]

LEFT, BOTTOM = 64, 44  # room for labels of the panel


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
        `width`: pixels of a side, at most. `scale` and `theme` are as for `table`.

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
    side = cells(stop - start, frame.width or 512) if ax is None else 100
    pixels = round(side * frame.scale) if ax is None else min(device(ax))
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
        frame=frame,
        question="Which positions are alike?",
        title=f"{data.title}, {'dot product' if kind == 'dot' else 'cosine'} of rows",
        caption=data.caption,
    )
    axes = sheet.panel(room * LEFT, 0, side, side)
    paint_similarity(sheet, axes, data)
    if room:
        bar(sheet, LEFT + side + 16, 0, data.limit, height=min(120, side))
    return sheet.picture("similarity", data, arguments)


def _panel(data: Any, most: int) -> tuple[int, int]:
    side = cells(data.a.positions[1] - data.a.positions[0], most)
    return side, side


BESIDE = matrices(_panel, paint_similarity, pixels_along(128))
