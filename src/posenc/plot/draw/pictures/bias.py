"""Bias: matrices per head, and curves against the offset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from posenc.plot.columns import Params
from posenc.plot.draw.beside import GAP, Beside, matrices, pixels_along, sides_of, square
from posenc.plot.draw.heat import bar, heat
from posenc.plot.draw.look import Look, asked
from posenc.plot.draw.picture import Picture
from posenc.plot.draw.sheet import Sheet, cells
from posenc.plot.draw.ticks import place_ticks, thousands
from posenc.plot.views import bias as _bias

ACROSS = 4  # matrices side by side
MOST_EDGES = 64


def paint_bias(sheet: Sheet, axes: Any, data: Any, values: Any, limit: float) -> None:
    """The matrix of one head in axes; queries go down, keys across."""
    heat(sheet, axes, values, limit=limit, x=data.positions, y=data.positions, absent=data.masked)
    start, stop = data.positions
    for axis in (axes.yaxis, axes.xaxis):
        place_ticks(axis, start, stop, 4)


def bias(
    spec: Any,
    ax: Any = None,
    *,
    positions: int | tuple[int, int] = 64,
    heads: Sequence[int] | None = None,
    mask: str = "none",
    softmax: str = "none",
    params: Params = None,
    grid: tuple[int, ...] | None = None,
    **look: Unpack[Look],
) -> Picture:
    """Draw what is added to the scores: a matrix for each head, and curves by offset.

    Parameters
    ----------
    spec : BiasSpec
        A bias.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    positions : int or (int, int)
        Of queries and keys.
    heads : sequence of int, optional
        Which; the first 16 by default.
    mask : {"none", "causal"}
        Whether keys after the query are masked, which is hatched.
    softmax : {"none", "rows"}
        `rows`: the attention that the bias alone gives.
    params : mapping, optional
        What a learned bias has learned.
    grid : tuple of int, optional
        Sides of a grid, for biases of several axes.
    **look
        `width`: pixels of all matrices of a line. The others are as for `table`.

    Returns
    -------
    Picture
        The figure, what it shows, and its files.

    Examples
    --------
    >>> import posenc, posenc.plot
    >>> posenc.plot.bias(posenc.ALiBi(heads=8), mask="causal").data.values.shape
    (8, 64, 64)
    """
    arguments, frame = asked("bias", locals())
    count = (getattr(spec, "heads", None) or 1) if heads is None else len(heads)
    across = max(1, min(ACROSS, count))
    most = ((frame.width or 600) - 14 * (across - 1)) // across
    data = _bias.data(
        spec,
        positions,
        heads=heads,
        mask=mask,
        softmax=softmax,
        pixels=frame.pixels(most) if ax is None else most,
        params=params,
        grid=grid,
    )
    side = cells(data.positions[1] - data.positions[0], most)
    lines = -(-len(data.heads) // across)
    wide = across * (side + GAP)
    sheet = Sheet(ax, frame, "What is added to the scores of attention?", data)
    for place in range(len(data.heads)):
        row, column = divmod(place, across)
        axes = sheet.panel(column * (side + GAP), row * (side + GAP), side, side, "square")
        paint_bias(sheet, axes, data, data.values[place], data.limit)
        sheet.heading(axes, f"head {data.heads[place]}", pad=3)
        if column:
            axes.set_yticklabels([])
        else:
            axes.set_ylabel("query")
        if place + across < len(data.heads):
            axes.set_xticklabels([])
        else:
            axes.set_xlabel("key")
    signed = data.softmax == "none"
    bar(sheet, wide, 0, data.limit, height=min(120, max(side, 40)), signed=signed)
    if len(data.offsets):
        width = min(360, wide - GAP) if across > 1 else 360
        paint_offsets(sheet, sheet.panel(0, lines * (side + GAP), width, 178), data)
    return sheet.picture("bias", data, arguments)


def paint_offsets(sheet: Sheet, axes: Any, data: Any) -> None:
    """The bias of each head against key - query, with the edges of buckets."""
    for place, curve in enumerate(data.curves):
        axes.plot(data.offsets, curve, **sheet.style(place))
    edges = [e for e in data.edges.tolist() if e > 1]
    for at in (at for edge in edges for at in (-edge, edge)):
        if len(edges) <= MOST_EDGES and data.offsets[0] <= at <= data.offsets[-1]:
            axes.axvline(at, color=sheet.theme.rule, linewidth=0.6, zorder=0)
    axes.set(
        xlabel="offset: key \N{MINUS SIGN} query",
        ylabel="bias" if data.softmax == "none" else "attention",
    )
    thousands(axes.xaxis)
    axes.margins(x=0)
    curves = [
        (sheet.name(place, f"head {head}"), sheet.style(place))
        for place, head in enumerate(data.heads)
    ]
    beside = {"loc": "upper left", "bbox_to_anchor": (1.02, 1.02)}
    sheet.key(axes, curves, ncols=1 + (len(curves) > 9), **beside)


def _matrix(sheet: Sheet, axes: Any, side: Any, values: Any, limit: float) -> None:
    paint_bias(sheet, axes, side, values[0], limit)
    axes.set(xlabel=f"key, head {side.heads[0]}", ylabel="query")


_MATRICES = matrices(square, _matrix)


def _beside(sheet: Sheet, data: Any, most: int) -> None:
    if data.difference is not None:
        _MATRICES.paint(sheet, data, most)
        return
    for place, (name, side) in enumerate(sides_of(data)):
        axes = sheet.panel(place * (most + GAP), 0, most, 200)
        paint_offsets(sheet, axes, side)
        sheet.heading(axes, name, weight="bold")


BESIDE = Beside(_beside, pixels_along(64))
