"""Compare: a picture of A, the same of B, and A - B, with one scale."""

from __future__ import annotations

import inspect
from typing import Any

from posenc import plot
from posenc.plot.draw.drawing import drawn
from posenc.plot.draw.look import Frame, check_length, check_settings, framed
from posenc.plot.draw.paper import Room
from posenc.plot.draw.picture import Picture
from posenc.plot.panels.both import together
from posenc.plot.rows import PICTURES, view_of
from posenc.plot.views import compare as _numbers

SIDE = 280  # pixels of a panel, at most


def compare(
    view: str,
    a: Any,
    b: Any,
    ax: Any = None,
    *,
    a_params: Any = None,
    b_params: Any = None,
    **options: Any,
) -> Picture:
    """Draw any picture of one encoding for two, and their difference.

    Matrices stand side by side, the difference third; curves are laid over each other, those of B
    dashed.

    Parameters
    ----------
    view : str
        The picture: `table`, `waves`, `wavelengths`, `offset`, `similarity`, `counter`, `sum`,
        `rotation`, `bias` or `stretch`.
    a, b : Spec
        The encodings.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    a_params, b_params : mapping, optional
        What each has learned.
    **options
        Of the picture, the same for both, and its look as for `table`; `width` is of each panel.

    Returns
    -------
    Picture
        The figure, what it shows, and its files.

    Examples
    --------
    >>> import posenc, posenc.plot
    >>> a, b = posenc.Sinusoidal(64), posenc.Sinusoidal(64, base=100)
    >>> round(posenc.plot.compare("table", a, b, positions=64).data.largest, 2)
    2.0
    """
    settings = {"view": view, "a": a, "b": b, **options}
    _numbers.check(view)
    names = inspect.signature(getattr(plot, view)).parameters.keys() - {"look", "params", "ax"}
    check_settings(view, options, names)
    check_length(view, options, a, b)
    frame = framed({key: options.pop(key) for key in Frame._fields if key in options})
    side = frame.width or SIDE
    room = Room(2 * side, (side, options.pop("height", None) or side))
    learned = {
        side: None if params is None else {"params": params}
        for side, params in (("a_options", a_params), ("b_options", b_params))
    }
    return drawn(
        PICTURES["compare"]._replace(pixels=PICTURES[view].pixels),
        settings,
        frame,
        room,
        ax,
        lambda **pixels: _numbers.data(view, a, b, **learned, **options, **pixels),
        lambda data: together(*map(view_of(view).panels, (data.a, data.b))),
    )
