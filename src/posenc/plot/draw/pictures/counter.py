"""Counter: the bits of a position above the waves that turn as fast."""

from __future__ import annotations

from typing import Any, Unpack

from posenc.plot.columns import Params
from posenc.plot.draw.drawing import PicturePlan, drawn
from posenc.plot.draw.look import Look, asked
from posenc.plot.draw.paper import Room
from posenc.plot.draw.picture import Picture
from posenc.plot.pictures import counter as _panels
from posenc.plot.views import counter as _numbers


def counter(
    spec: Any,
    ax: Any = None,
    *,
    positions: int | tuple[int, int] | None = None,
    at: int | None = None,
    bits: int | None = None,
    params: Params = None,
    length: int | None = None,
    **look: Unpack[Look],
) -> Picture:
    """Draw the bits of positions above the waves with the nearest wavelengths.

    Parameters
    ----------
    spec : Spec
        A table of waves, or a rotation.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    positions : int or (int, int), optional
        Of at least 0; 256 by default, or 32 around `at`.
    at : int, optional
        A position whose digits and row are shown.
    bits : int, optional
        How many bits.
    params : mapping, optional
        As for `table`.
    length : int, optional
        As for `table`.
    **look
        `width`: pixels of a strip, at most. The others are as for `table`.

    Returns
    -------
    Picture
        The figure, what it shows, and its files.

    Examples
    --------
    >>> import posenc, posenc.plot
    >>> posenc.plot.counter(posenc.Sinusoidal(8), at=150).data.digits
    '10010110'
    """
    arguments, frame = asked("counter", locals())
    return drawn(
        PicturePlan("counter", arguments, "How is a position counted?", Room(frame.width or 560)),
        ax,
        frame,
        lambda *_: _numbers.data(spec, positions, at=at, bits=bits, params=params, length=length),
        _panels.panels,
    )
