"""Find: candidate positions on a number line, with how far off each may be."""

from __future__ import annotations

from typing import Any, Unpack

from posenc.plot.columns import Params
from posenc.plot.draw.drawing import PicturePlan, drawn
from posenc.plot.draw.look import Look, asked
from posenc.plot.draw.paper import Room
from posenc.plot.draw.picture import Picture
from posenc.plot.pictures import find as _panels
from posenc.plot.views import find as _numbers


def find(
    spec: Any,
    values: Any,
    ax: Any = None,
    *,
    within: tuple[float, float] | None = None,
    conventions: str = "siblings",
    params: Params = None,
    **look: Unpack[Look],
) -> Picture:
    """Draw the positions that values may come from, a line for each convention.

    Parameters
    ----------
    spec : Spec
        A sinusoidal or learned table.
    values : mapping of int to str, or array
        Values by dimension, as printed; or a row.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    within : (number, number), optional
        The range of positions.
    conventions : {"siblings", "stated"}
        Whether siblings of the stated convention are tried.
    params : mapping, optional
        What a learned table has learned.
    **look
        `width`: pixels of the line. The others are as for `table`.

    Returns
    -------
    Picture
        The figure, what it shows, and its files.

    Examples
    --------
    >>> import posenc, posenc.plot
    >>> made = posenc.plot.find(posenc.Sinusoidal(16, base=100), {3: "0.85"})
    >>> made.data.candidates[0].positions[0]
    1
    """
    arguments, frame = asked("find", locals())
    data = _numbers.data(spec, values, within=within, conventions=conventions, params=params)
    # A line needs room for its words, on paper too, where all else becomes less high.
    shrinks = min(1.0, max(0.5, frame.points[0] / 640)) if frame.points else 1.0
    lines = max(1, min(len(data.candidates), _panels.MOST_LINES))
    room = Room(frame.width or 560, high=round(lines * 46 / shrinks))
    question = f"Which position gave {data.asked}?"
    return drawn(
        PicturePlan("find", arguments, question, room, lines="apart", alone=True),
        ax,
        frame,
        lambda *_: data,
        _panels.panels,
    )
