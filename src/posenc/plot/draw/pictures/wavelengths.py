"""Wavelengths: how fast each pair turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from posenc.plot.draw.drawing import PicturePlan, drawn
from posenc.plot.draw.look import Look, asked
from posenc.plot.draw.paper import Room
from posenc.plot.draw.picture import Picture
from posenc.plot.pictures import wavelengths as _panels
from posenc.plot.views import wavelengths as _numbers


def wavelengths(
    spec: Any,
    ax: Any = None,
    *,
    length: int | None = None,
    labels: Sequence[str] | None = None,
    over: str | None = None,
    height: int | None = None,
    **look: Unpack[Look],
) -> Picture:
    """Draw the wavelength of each pair of one or several encodings.

    Parameters
    ----------
    spec : Spec or sequence of Spec
        Encodings with sinusoidal phases.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    length : int, optional
        A length of sequences to mark.
    labels : sequence of str, optional
        What the encodings are called.
    over : {"pair", "share"}, optional
        What stands below: the pair, or how far along the encoding it stands; the latter by default
        where encodings differ in width.
    height : int, optional
        Pixels of the panel.
    **look
        `width`: pixels of the panel. The others are as for `table`.

    Returns
    -------
    Picture
        The figure, what it shows, and its files.

    Examples
    --------
    >>> import posenc, posenc.plot
    >>> made = posenc.plot.wavelengths([posenc.Sinusoidal(d) for d in (64, 512)], length=1000)
    >>> [ladder.finished for ladder in made.data.ladders]
    [18, 141]
    """
    arguments, frame = asked("wavelengths", locals())
    room = Room(frame.width or 520, high=height or 340)
    return drawn(
        PicturePlan("wavelengths", arguments, "How fast does each pair turn?", room, alone=True),
        ax,
        frame,
        lambda *_: _numbers.data(spec, length=length, labels=labels),
        lambda data: _panels.panels(data, over),
    )
