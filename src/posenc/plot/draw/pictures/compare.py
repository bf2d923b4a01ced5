"""Compare: a picture of A, the same of B, and A - B, with one scale."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from posenc import plot
from posenc.plot.draw.drawing import PicturePlan, drawn
from posenc.plot.draw.look import Frame, check_settings, framed
from posenc.plot.draw.paper import Room
from posenc.plot.draw.picture import Picture
from posenc.plot.panels.both import together
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
    arguments = {"view": view, "a": a, "b": b, **options}
    _numbers.check(view)
    names = inspect.signature(getattr(plot, view)).parameters.keys() - {"look", "params", "ax"}
    check_settings(view, options, names)
    frame = framed({key: options.pop(key) for key in Frame._fields if key in options})
    side = frame.width or SIDE
    module = importlib.import_module(f"posenc.plot.views.{view}")
    panels = importlib.import_module(f"posenc.plot.pictures.{view}").panels
    curves, takes = view in ("offset", "waves"), inspect.signature(module.data).parameters
    own = {"over": options.pop("over")} if "over" in options else {}
    high = options.pop("height", None) or side

    def make(rows: int, columns: int) -> Any:
        fine = {"pixels": min(rows, columns) * (1 + curves)} if "pixels" in takes else {}
        return _numbers.data(
            view,
            a,
            b,
            a_options=None if a_params is None else {"params": a_params},
            b_options=None if b_params is None else {"params": b_params},
            **options,
            **({"rows": rows, "columns": columns} if view == "table" else fine),
        )

    room = Room(2 * side, (side, high))
    return drawn(
        PicturePlan("compare", arguments, f"What differs? {view}", room, "A and B", lines="apart"),
        ax,
        frame,
        make,
        lambda data: together(*(panels(one, **own) for one in (data.a, data.b))),
    )
