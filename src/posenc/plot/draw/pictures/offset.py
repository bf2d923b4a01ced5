"""Offset: the product of two rows against their distance."""

from __future__ import annotations

from typing import Any, Unpack

from posenc.plot.columns import Params
from posenc.plot.draw.drawing import PicturePlan, drawn
from posenc.plot.draw.look import Look, asked
from posenc.plot.draw.paper import Room
from posenc.plot.draw.picture import Picture
from posenc.plot.pictures import offset as _panels
from posenc.plot.raster import span
from posenc.plot.views import offset as _numbers


def offset(
    spec: Any,
    ax: Any = None,
    *,
    offsets: int | tuple[int, int] = 512,
    kind: str = "dot",
    axis: str = "both",
    params: Params = None,
    length: int | None = None,
    grid: tuple[int, ...] | None = None,
    **look: Unpack[Look],
) -> Picture:
    """Draw the product of two rows against their distance.

    Parameters
    ----------
    spec : Spec
        A table, or a rotation.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    offsets : int or (int, int)
        A number of distances from 0, or from and to (excluded).
    kind : {"dot", "cosine"}
        The product.
    axis : {"linear", "log", "both"}
        How distances are laid out; both in two panels.
    params : mapping, optional
        As for `table`.
    length : int, optional
        As for `table`.
    grid : tuple of int, optional
        As for `table`.
    **look
        `width`: pixels of a panel. The others are as for `table`.

    Returns
    -------
    Picture
        The figure, what it shows, and its files.

    Examples
    --------
    >>> import posenc, posenc.plot
    >>> posenc.plot.offset(posenc.Sinusoidal(512)).data.first_rise
    43
    """
    arguments, frame = asked("offset", locals())
    wide = frame.width or 560
    pixels = frame.along(wide) if ax is None else wide
    more: dict[str, Any] = {"kind": kind, "params": params, "length": length, "grid": grid}
    both = ("linear", "log") if span(offsets, "offsets")[1] > 4 else ("linear",)
    scales = both if axis == "both" else (axis,)
    question = "What do two rows have in common, by their distance?"
    several = [_numbers.data(spec, offsets, scale=each, pixels=pixels, **more) for each in scales]
    return drawn(
        PicturePlan("offset", arguments, question, Room(wide), alone=len(scales) == 1),
        ax,
        frame,
        lambda *_: several[0],
        lambda _: [panel for data in several for panel in _panels.panels(data)],
    )
