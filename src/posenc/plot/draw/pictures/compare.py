"""Compare: a picture of A, the same of B, and A - B, with one scale."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from posenc.plot.draw.beside import Beside
from posenc.plot.draw.look import Frame, check_settings, framed
from posenc.plot.draw.picture import Picture
from posenc.plot.draw.sheet import Sheet
from posenc.plot.views import compare as _compare

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
    _compare.check(view)
    module = importlib.import_module(f"posenc.plot.draw.pictures.{view}")
    names = [*inspect.signature(getattr(module, view)).parameters]
    check_settings(view, options, [name for name in names if name not in ("look", "params", "ax")])
    frame = framed({key: options.pop(key) for key in Frame._fields if key in options})
    most = frame.width or SIDE
    beside: Beside = module.BESIDE
    data = _compare.data(
        view,
        a,
        b,
        a_options=None if a_params is None else {"params": a_params},
        b_options=None if b_params is None else {"params": b_params},
        **{**options, **beside.fineness(options, most, frame.pixels(1000) / 1000)},
    )
    title = "A | B | A \N{MINUS SIGN} B" if data.difference is not None else "A and B"
    sheet = Sheet(ax, frame, f"What differs? {view}", data, title=title, lines="apart")
    beside.paint(sheet, data, most)
    return sheet.picture("compare", data, arguments)
