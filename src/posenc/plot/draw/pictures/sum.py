"""Sum: embedding, encoding and input, token by token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np

from posenc.plot.columns import Params
from posenc.plot.draw.beside import GAP, matrices
from posenc.plot.draw.heat import bar, heat
from posenc.plot.draw.look import Look, asked, worded
from posenc.plot.draw.picture import Picture
from posenc.plot.draw.sheet import Sheet, cells
from posenc.plot.draw.ticks import place_ticks
from posenc.plot.views import sum as _sum


def sum(  # noqa: A001 - the name of the picture
    spec: Any,
    ax: Any = None,
    *,
    tokens: str | Sequence[str] = "the cat saw the dog",
    embeddings: np.ndarray | None = None,
    seed: int = 0,
    offset: int = 0,
    params: Params = None,
    **look: Unpack[Look],
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
    **look
        `width`: pixels of a strip, at most. The others are as for `table`.

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
    arguments, frame = asked("sum", locals())
    data = _sum.data(spec, tokens, embeddings=embeddings, seed=seed, offset=offset, params=params)
    wide = cells(data.total.shape[1], frame.width or 560)
    row = max(8, min(24, 180 // len(data.tokens)))
    high = row * len(data.tokens)
    strips = _strips(data)
    sheet = Sheet(ax, frame, "What reaches the model?", data)
    for place, (name, values) in enumerate(strips):
        top = place * (high + GAP)
        axes = sheet.panel(0, top, round(wide * (values.shape[1] / data.total.shape[1])), high)
        heat(sheet, axes, values, limit=data.limit, x=(0, values.shape[1]), y=(0, len(data.tokens)))
        sheet.heading(axes, name)
        _tokens(axes, data.tokens, offset, row)
        if place < len(strips) - 1:
            axes.set_xticks([])
        else:
            place_ticks(axes.xaxis, 0, values.shape[1])
            axes.set_xlabel("dimension")
    bar(sheet, wide + GAP, 0, data.limit, height=len(strips) * (high + GAP) - GAP)
    return sheet.picture("sum", data, arguments)


def _strips(data: Any) -> list[tuple[str, np.ndarray]]:
    named = "embedding" if data.scale == 1 else f"embedding × {data.scale:.4g}"
    whole = "= input" if data.total.shape[1] == data.scaled.shape[1] else "side by side: input"
    return [(named, data.scaled), ("+ encoding", data.encoding), (whole, data.total)]


def _tokens(axes: Any, tokens: Sequence[str], offset: int, row: int) -> None:
    every = max(1, -(-11 // row))
    shown = range(0, len(tokens), every)
    axes.set(
        yticks=[i + 0.5 for i in shown],
        yticklabels=[worded(f"{tokens[i][:10]} {offset + i}") for i in shown],
    )


def _panel(data: Any, most: int) -> tuple[int, int]:
    return cells(data.a.total.shape[1], most), 18 * len(data.a.tokens)


def _paint(sheet: Sheet, axes: Any, side: Any, values: Any, limit: float) -> None:
    rows, columns = values.shape
    heat(sheet, axes, values, limit=limit, x=(0, columns), y=(0, rows))
    axes.set(
        yticks=[i + 0.5 for i in range(rows)],
        yticklabels=[worded(token[:8]) for token in side.tokens],
    )
    place_ticks(axes.xaxis, 0, columns)
    axes.set_xlabel("input, dimension")


BESIDE = matrices(_panel, _paint)
