"""Table: rows of numbers as colours."""

from __future__ import annotations

from typing import Any, Unpack

from posenc.plot.columns import Params
from posenc.plot.draw.drawing import PicturePlan, drawn
from posenc.plot.draw.look import Look, asked
from posenc.plot.draw.paper import Room
from posenc.plot.draw.picture import Picture
from posenc.plot.pictures import table as _panels
from posenc.plot.views import table as _numbers

MOST_WIDE, MOST_HIGH = 720, 560


def table(
    spec: Any,
    ax: Any = None,
    *,
    positions: int | tuple[int, int] | None = None,
    dims: tuple[int, int] | None = None,
    order: str | None = None,
    sample: bool = False,
    params: Params = None,
    length: int | None = None,
    grid: tuple[int, ...] | None = None,
    height: int | None = None,
    **look: Unpack[Look],
) -> Picture:
    """Draw a table: a row for each position, a column for each dimension.

    A column is a wave. Below 2 pixels per wave it is left blank, from 8 on it is shown in full, so
    that nothing is seen that is not in the table.

    Parameters
    ----------
    spec : Spec
        A table, or a rotation, of which the sines and cosines are drawn.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    positions : int or (int, int), optional
        A number of positions from 0, or from and to (excluded); 128 by default, or all there are.
    dims : (int, int), optional
        From and to (excluded), in the order drawn; all by default.
    order : {"stored", "interleaved", "sin_cos", "cos_sin"}, optional
        How the columns stand.
    sample : bool
        Whether to draw some of the rows and skip the others: an illusion, and labelled so.
    params : mapping, optional
        What a learned table has learned.
    length : int, optional
        Length of the sequence, for scalings that depend on it.
    grid : tuple of int, optional
        Sides of a grid whose cells are the positions, for specs of several axes.
    height : int, optional
        Pixels of the panel, at most, as its width; as many as the table needs by default, within
        reason.
    **look
        `width`: pixels of the panel, at most; or `size`: of the whole picture, such as `"3.3in"` or
        `"84mm x 50mm"`, with letters for paper and 300 dpi. `dpi`: pixels to an inch, 72 by
        default; or `scale`: device pixels to a pixel. `theme`: `light`, `dark` or `print`; by
        default the page of the axes, or of matplotlib's settings. `title`: a text in place of the
        usual words above, or False. `caption`: False leaves out the words below. `color`: of the
        curves, one or several; `label`: their names; `cmap`: a colour map, whose middle is zero.

    Returns
    -------
    Picture
        The figure, what it shows, and its files.

    Examples
    --------
    >>> import posenc, posenc.plot
    >>> made = posenc.plot.table(posenc.Sinusoidal(50), positions=45_000, height=670)
    >>> made.data.tile.blank
    18
    """
    arguments, frame = asked("table", locals())
    room = (frame.width or MOST_WIDE, height or MOST_HIGH)
    question = "What does each position look like?"
    return drawn(
        PicturePlan("table", arguments, question, Room(room[0], room), alone=True),
        ax,
        frame,
        lambda rows, columns: _numbers.data(
            spec,
            positions,
            rows=rows,
            columns=columns,
            dims=dims,
            order=order,
            sample=sample,
            params=params,
            length=length,
            grid=grid,
        ),
        _panels.panels,
    )
