"""Waves: single dimensions over positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from posenc.plot.columns import Params
from posenc.plot.draw.drawing import PicturePlan, drawn
from posenc.plot.draw.look import Look, asked
from posenc.plot.draw.paper import Room
from posenc.plot.draw.picture import Picture
from posenc.plot.pictures import waves as _panels
from posenc.plot.views import waves as _numbers


def waves(
    spec: Any,
    ax: Any = None,
    *,
    positions: int | tuple[int, int] | None = None,
    dims: Sequence[int] | None = None,
    params: Params = None,
    length: int | None = None,
    grid: tuple[int, ...] | None = None,
    **look: Unpack[Look],
) -> Picture:
    """Draw some dimensions over positions, one panel for each.

    Parameters
    ----------
    spec : Spec
        A table, or a rotation.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    positions : int or (int, int), optional
        A number of positions from 0, or from and to (excluded); 128 by default, or all there are.
    dims : sequence of int, optional
        Which; five from the fastest to the slowest by default.
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
    >>> made = posenc.plot.waves(posenc.Sinusoidal(64), dims=[0, 62], positions=10_000)
    >>> [curve.shape for curve in made.data.curves]
    ['band', 'line']
    """
    arguments, frame = asked("waves", locals())
    wide = frame.width or 560
    pixels = frame.along(wide) if ax is None else wide
    more: dict[str, Any] = {"params": params, "length": length, "grid": grid}
    return drawn(
        PicturePlan("waves", arguments, "How does one dimension change?", Room(wide)),
        ax,
        frame,
        lambda *_: _numbers.data(spec, dims, positions, pixels=pixels, **more),
        _panels.panels,
    )
