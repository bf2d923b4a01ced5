"""Sum: embedding, encoding and input, token by token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np

from posenc.plot.columns import Params
from posenc.plot.draw.drawing import PicturePlan, drawn
from posenc.plot.draw.look import Look, asked
from posenc.plot.draw.paper import Room
from posenc.plot.draw.picture import Picture
from posenc.plot.pictures import sum as _panels
from posenc.plot.views import sum as _numbers


def sum(  # noqa: A001 - the name of the picture
    spec: Any,
    ax: Any = None,
    *,
    tokens: str | Sequence[str] = "the cat saw the dog",
    embeddings: np.ndarray | None = None,
    seed: int = 0,
    offset: int = 0,
    params: Params = None,
    **look: Unpack[Look],
) -> Picture:
    """Draw embedding + encoding = input, token by token.

    Parameters
    ----------
    spec : TableSpec
        A table of one axis.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    tokens : str or sequence of str
        A sentence, split at spaces, or the tokens.
    embeddings : numpy.ndarray, optional
        (tokens, dim); random vectors by default, and said to be so.
    seed : int
        Of the random vectors.
    offset : int
        Position of the first token.
    params : mapping, optional
        What a learned table has learned.
    **look
        `width`: pixels of a strip, at most. The others are as for `table`.

    Returns
    -------
    Picture
        The figure, what it shows, and its files.

    Examples
    --------
    >>> import posenc, posenc.plot
    >>> posenc.plot.sum(posenc.Sinusoidal(16), tokens="classify the book").data.tokens
    ('classify', 'the', 'book')
    """
    arguments, frame = asked("sum", locals())
    wide = frame.width or 560
    return drawn(
        PicturePlan("sum", arguments, "What reaches the model?", Room(wide, (wide, wide))),
        ax,
        frame,
        lambda *_: _numbers.data(
            spec, tokens, embeddings=embeddings, seed=seed, offset=offset, params=params
        ),
        _panels.panels,
    )
