"""Rotation: what a rotation does to a query and a key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np

from posenc.plot.columns import Params
from posenc.plot.draw.drawing import PicturePlan, drawn
from posenc.plot.draw.look import Look, asked
from posenc.plot.draw.paper import Room
from posenc.plot.draw.picture import Picture
from posenc.plot.pictures import rotation as _panels
from posenc.plot.views import rotation as _numbers


def rotation(
    spec: Any,
    ax: Any = None,
    *,
    positions: tuple[int, int] = (7, 3),
    pairs: Sequence[int] | None = None,
    offsets: int | tuple[int, int] = 64,
    seed: int = 0,
    query: np.ndarray | None = None,
    key: np.ndarray | None = None,
    params: Params = None,
    length: int | None = None,
    **look: Unpack[Look],
) -> Picture:
    """Draw dials of some pairs, the score as a sum over pairs, and the score by distance.

    Parameters
    ----------
    spec : RotarySpec
        A rotation of one axis.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    positions : (int, int)
        Of the query and the key.
    pairs : sequence of int, optional
        Whose dials are shown.
    offsets : int or (int, int)
        Distances of the curve.
    seed : int
        Of the random query and key.
    query, key : numpy.ndarray, optional
        (dim,); random by default.
    params : mapping, optional
        As for `table`.
    length : int, optional
        As for `table`.
    **look
        `width`: pixels of the panels. The others are as for `table`.

    Returns
    -------
    Picture
        The figure, what it shows, and its files.

    Examples
    --------
    >>> import posenc, posenc.plot
    >>> made = posenc.plot.rotation(posenc.RoPE(64, pairing="half"), positions=(40, 8))
    >>> len(made.data.dials), len(made.data.scores)
    (6, 4)
    """
    arguments, frame = asked("rotation", locals())
    question = "What does a rotation do to queries and keys?"
    return drawn(
        PicturePlan("rotation", arguments, question, Room(frame.width or 560)),
        ax,
        frame,
        lambda *_: _numbers.data(
            spec,
            positions,
            pairs=pairs,
            offsets=offsets,
            seed=seed,
            query=query,
            key=key,
            params=params,
            length=length,
        ),
        _panels.panels,
    )
