"""Bias: matrices per head, and curves against the offset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from posenc.plot.columns import Params
from posenc.plot.draw.beside import LEFT, Beside, matrices, pixels_along
from posenc.plot.draw.heat import BAR, bar, heat, place_ticks
from posenc.plot.draw.picture import Picture
from posenc.plot.draw.sheet import Look, Sheet, asked, cells, thousands
from posenc.plot.views import bias as _bias

__all__ = ["BESIDE", "bias"]

ACROSS = 4  # matrices side by side
MOST_EDGES = 64


def paint_bias(
    sheet: Sheet, axes: Any, data: Any, place: int, *, values: Any = None, limit: Any = None
) -> None:
    """The matrix of one head in axes; queries go down, keys across."""
    start, stop = data.positions
    shown = data.values[place] if values is None else values
    limit = data.limit if limit is None else limit
    heat(sheet, axes, shown, limit=limit, x=(start, stop), y=(start, stop), absent=data.masked)
    sheet.heading(axes, f"head {data.heads[place]}", fontsize=9, pad=3)


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
        `width`: pixels of all matrices of a line. `scale` and `theme` are as for `table`.

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
    room = frame.width or 600
    count = getattr(spec, "heads", 1) if heads is None else len(heads)
    across = max(1, min(ACROSS, count))
    most = (room - 14 * (across - 1)) // across
    data = _bias.data(
        spec,
        positions,
        heads=heads,
        mask=mask,
        softmax=softmax,
        pixels=max(1, round(most * (frame.scale if ax is None else 1))),
        params=params,
        grid=grid,
    )
    side = cells(data.positions[1] - data.positions[0], most)
    lines = -(-len(data.heads) // across)
    each = side + 26
    curves = 0 if not len(data.offsets) else 240
    left = 58
    wide = across * side + 14 * (across - 1)
    sheet = Sheet(
        left + max(wide + BAR, 470),
        lines * each + 40 + curves,
        ax=ax,
        frame=frame,
        question="What is added to the scores of attention?",
        title=data.title,
        caption=data.caption,
    )
    for place in range(len(data.heads)):
        row, column = divmod(place, across)
        axes = sheet.panel(left + column * (side + 14), 18 + row * each, side, side)
        paint_bias(sheet, axes, data, place)
        start, stop = data.positions
        place_ticks(axes.yaxis, start, stop, 4)
        place_ticks(axes.xaxis, start, stop, 4)
        if column:
            axes.set_yticklabels([])
        else:
            axes.set_ylabel("query")
        if place + across < len(data.heads):
            axes.set_xticklabels([])
        else:
            axes.set_xlabel("key")
    bar(sheet, left + wide + 16, 18, data.limit, height=min(120, max(side, 40)))
    if curves:
        axes = sheet.panel(left, lines * each + 58, 360, curves - 62)
        paint_offsets(sheet, axes, data)
    return sheet.picture("bias", data, arguments)


def paint_offsets(sheet: Sheet, axes: Any, data: Any) -> None:
    """The bias of each head against key - query, with the edges of buckets."""
    for place, head in enumerate(data.heads):
        axes.plot(data.offsets, data.curves[place], label=f"head {head}", **sheet.style(place))
    edges = [e for e in data.edges.tolist() if e > 1]
    if 0 < len(edges) <= MOST_EDGES:
        for edge in edges:
            for at in (-edge, edge):
                if data.offsets[0] <= at <= data.offsets[-1]:
                    axes.axvline(at, color=sheet.theme.rule, linewidth=0.6, zorder=0)
    axes.set_xlabel("offset: key \N{MINUS SIGN} query")
    axes.set_ylabel("bias" if data.softmax == "none" else "attention")
    thousands(axes.xaxis)
    axes.margins(x=0)
    legend = axes.legend(
        loc="upper left",
        bbox_to_anchor=(1.02, 1.02),
        fontsize=8.5,
        frameon=False,
        handlelength=3,
        labelcolor=sheet.theme.ink,
        ncols=1 + (len(data.heads) > 9),
    )
    legend.set_zorder(4)


def _panel(data: Any, most: int) -> tuple[int, int]:
    side = cells(data.a.positions[1] - data.a.positions[0], most)
    return side, side


def _matrix(sheet: Sheet, axes: Any, side: Any, difference: Any, limit: float) -> None:
    values = None if difference is None else difference[0]
    paint_bias(sheet, axes, side, 0, values=values, limit=limit)
    start, stop = side.positions
    place_ticks(axes.xaxis, start, stop, 4)
    place_ticks(axes.yaxis, start, stop, 4)
    axes.set_xlabel(f"key, head {side.heads[0]}")
    axes.set_ylabel("query")


_MATRICES = matrices(_panel, _matrix)


def _size(data: Any, most: int) -> tuple[int, int]:
    return (
        _MATRICES.size(data, most) if data.difference is not None else (LEFT + 2 * most + 260, 280)
    )


def _beside(sheet: Sheet, data: Any, most: int) -> None:
    if data.difference is not None:
        _MATRICES.paint(sheet, data, most)
        return
    for place, side in enumerate((data.a, data.b)):
        axes = sheet.panel(LEFT + place * (most + 120), 16, most, 200)
        paint_offsets(sheet, axes, side)
        sheet.heading(axes, "AB"[place], weight="bold")


BESIDE = Beside(_size, _beside, pixels_along(64))
