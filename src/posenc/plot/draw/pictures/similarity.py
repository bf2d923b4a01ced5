"""Similarity: the products of all rows with all rows."""

from __future__ import annotations

from typing import Any, Unpack

from posenc.plot.columns import Params
from posenc.plot.draw.drawing import PicturePlan, drawn
from posenc.plot.draw.look import Look, asked
from posenc.plot.draw.paper import Room
from posenc.plot.draw.picture import Picture
from posenc.plot.pictures import similarity as _panels
from posenc.plot.views import similarity as _numbers


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
    side = frame.width or 512
    return drawn(
        PicturePlan(
            "similarity",
            arguments,
            "Which positions are alike?",
            Room(side, (side, side)),
            alone=True,
        ),
        ax,
        frame,
        lambda rows, columns: _numbers.data(
            spec,
            positions,
            kind=kind,
            pixels=min(rows, columns),
            params=params,
            length=length,
            grid=grid,
        ),
        _panels.panels,
    )
