"""Bias: matrices per head, and curves against the offset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from posenc.plot.columns import Params
from posenc.plot.draw.drawing import PicturePlan, drawn
from posenc.plot.draw.look import Look, asked
from posenc.plot.draw.paper import Room
from posenc.plot.draw.picture import Picture
from posenc.plot.pictures import bias as _panels
from posenc.plot.views import bias as _numbers


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
    wide = frame.width or 600
    question = "What is added to the scores of attention?"
    count = (getattr(spec, "heads", None) or 1) if heads is None else len(heads)
    side = (wide - 14 * (min(4, max(1, count)) - 1)) // min(4, max(1, count))
    return drawn(
        PicturePlan("bias", arguments, question, Room(wide, (side, side))),
        ax,
        frame,
        lambda rows, columns: _numbers.data(
            spec,
            positions,
            heads=heads,
            mask=mask,
            softmax=softmax,
            pixels=min(rows, columns),
            params=params,
            grid=grid,
        ),
        _panels.panels,
    )
