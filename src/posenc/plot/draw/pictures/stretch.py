"""Stretch: wavelengths and stretch of each pair under rules that extend a context."""

from __future__ import annotations

from typing import Any, Unpack

from posenc.plot.draw.drawing import PicturePlan, drawn
from posenc.plot.draw.look import Look, asked
from posenc.plot.draw.paper import Room
from posenc.plot.draw.picture import Picture
from posenc.plot.pictures import stretch as _panels
from posenc.plot.views import stretch as _numbers


def stretch(
    spec: Any,
    ax: Any = None,
    *,
    original_length: int | None = None,
    factor: float | None = None,
    rules: tuple[str, ...] | None = None,
    **look: Unpack[Look],
) -> Picture:
    """Draw what rules that extend a context do to each pair.

    Parameters
    ----------
    spec : RoPE
        The rotation; its own scaling, if it has one, is shown too.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    original_length : int, optional
        The trained length; that of the spec's scaling by default, else 4096.
    factor : float, optional
        By which it grows; that of the spec's scaling by default, else 8.
    rules : tuple of str, optional
        Keys of `posenc.plot.views.stretch.RULES`; all by default.
    **look
        `width`: pixels of a panel. The others are as for `table`.

    Returns
    -------
    Picture
        The figure, what it shows, and its files.

    Examples
    --------
    >>> import posenc, posenc.plot
    >>> posenc.plot.stretch(posenc.RoPE(128, pairing="half")).data.slow
    18
    """
    arguments, frame = asked("stretch", locals())
    question = "What changes when the context gets longer?"
    return drawn(
        PicturePlan("stretch", arguments, question, Room(frame.width or 520), lines="apart"),
        ax,
        frame,
        lambda *_: _numbers.data(spec, original_length=original_length, factor=factor, rules=rules),
        _panels.panels,
    )
