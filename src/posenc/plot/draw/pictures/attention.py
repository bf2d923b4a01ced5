"""Attention: what one head sees of a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from posenc.plot.columns import Params
from posenc.plot.draw.drawing import PicturePlan, drawn
from posenc.plot.draw.look import Look, asked
from posenc.plot.draw.paper import Room
from posenc.plot.draw.picture import Picture
from posenc.plot.pictures import attention as _panels
from posenc.plot.views import attention as _numbers


def attention(
    spec: Any,
    ax: Any = None,
    *,
    tokens: str | Sequence[str] = _numbers.SENTENCE,
    source: str | None = None,
    shift: int = 0,
    softmax: str = "rows",
    params: Params = None,
    **look: Unpack[Look],
) -> Picture:
    """Draw what each word of a sentence looks at, under an encoding.

    Parameters
    ----------
    spec : Spec
        An encoding of one axis.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    tokens : str or sequence of str
        A sentence, split at spaces, or the tokens.
    source : {"random", "previous", "content"}, optional
        What queries and keys are: random vectors, or those of a head of a small trained model,
        `previous` or `content`; by default the former of these two where its sizes suit the
        encoding, as `RoPE(16, …)` and any bias, else random vectors.
    shift : int
        How many positions later all words stand.
    softmax : {"rows", "none"}
        `none`: the scores before the softmax.
    params : mapping, optional
        As for `table`.
    **look
        `width`: pixels of a side, at most. The others are as for `table`.

    Returns
    -------
    Picture
        The figure, what it shows, and its files.

    Examples
    --------
    >>> import posenc, posenc.plot
    >>> made = posenc.plot.attention(posenc.RoPE(16, pairing="half"))
    >>> made.data.weights[3].argmax()  # “very” looks at the word before
    np.int64(2)
    """
    arguments, frame = asked("attention", locals())
    side = frame.width or 300
    content = _numbers.brought(spec, tokens, source, params)
    return drawn(
        PicturePlan("attention", arguments, "What does attention see?", Room(side, (side, side))),
        ax,
        frame,
        lambda *_: _numbers.data(spec, content, shift=shift, softmax=softmax, params=params),
        _panels.panels,
    )
