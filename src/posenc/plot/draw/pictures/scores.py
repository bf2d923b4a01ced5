"""The pictures of what attention makes of positions: products, scores and biases."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np

from posenc import plot
from posenc.plot.columns import Params
from posenc.plot.draw.drawing import drawn, made
from posenc.plot.draw.layout import Room
from posenc.plot.draw.look import Frame, Look, check_length, check_settings, framed
from posenc.plot.draw.picture import Picture
from posenc.plot.panels.both import together
from posenc.plot.rows import PICTURES, view_of
from posenc.plot.views import compare as _numbers
from posenc.plot.views.attention import SENTENCE


def attention(
    spec: Any,
    ax: Any = None,
    *,
    tokens: str | Sequence[str] = SENTENCE,
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
    return made("attention", locals())


def offset(
    spec: Any,
    ax: Any = None,
    *,
    offsets: int | tuple[int, int] = 512,
    kind: str = "dot",
    axis: str = "both",
    params: Params = None,
    length: int | None = None,
    grid: tuple[int, ...] | None = None,
    **look: Unpack[Look],
) -> Picture:
    """Draw the product of two rows against their distance.

    Parameters
    ----------
    spec : Spec
        A table, or a rotation.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    offsets : int or (int, int)
        A number of distances from 0, or from and to (excluded).
    kind : {"dot", "cosine"}
        The product.
    axis : {"linear", "log", "both"}
        How distances are laid out; both in two panels.
    params : mapping, optional
        As for `table`.
    length : int, optional
        As for `table`.
    grid : tuple of int, optional
        As for `table`.
    **look
        `width`: pixels of a panel. The others are as for `table`.

    Returns
    -------
    Picture
        The figure, what it shows, and its files.

    Examples
    --------
    >>> import posenc, posenc.plot
    >>> posenc.plot.offset(posenc.Sinusoidal(512)).data.first_rise
    43
    """
    return made("offset", locals())


def similarity(
    spec: Any,
    ax: Any = None,
    *,
    positions: int | tuple[int, int] | None = None,
    kind: str = "dot",
    params: Params = None,
    length: int | None = None,
    grid: tuple[int, ...] | None = None,
    **look: Unpack[Look],
) -> Picture:
    """Draw the products of all rows with all rows.

    Parameters
    ----------
    spec : Spec
        A table, or a rotation.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    positions : int or (int, int), optional
        A number of positions from 0, or from and to (excluded); 128 by default, or all there are.
    kind : {"dot", "cosine"}
        The product of rows, or of rows of length 1.
    params : mapping, optional
        As for `table`.
    length : int, optional
        As for `table`.
    grid : tuple of int, optional
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
    >>> posenc.plot.similarity(posenc.Sinusoidal(64)).data.defect
    0.0
    """
    return made("similarity", locals())


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
    return made("rotation", locals())


def bias(
    spec: Any,
    ax: Any = None,
    *,
    positions: int | tuple[int, int] = 64,
    heads: Sequence[int] | None = None,
    mask: str = "none",
    softmax: str = "none",
    params: Params = None,
    grid: tuple[int, ...] | None = None,
    **look: Unpack[Look],
) -> Picture:
    """Draw what is added to the scores: a matrix for each head, and curves by offset.

    Parameters
    ----------
    spec : BiasSpec
        A bias.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    positions : int or (int, int)
        Of queries and keys.
    heads : sequence of int, optional
        Which; the first 16 by default.
    mask : {"none", "causal"}
        Whether keys after the query are masked, which is hatched.
    softmax : {"none", "rows"}
        `rows`: the attention that the bias alone gives.
    params : mapping, optional
        What a learned bias has learned.
    grid : tuple of int, optional
        Sides of a grid, for biases of several axes.
    **look
        `width`: pixels of all matrices of a line. The others are as for `table`.

    Returns
    -------
    Picture
        The figure, what it shows, and its files.

    Examples
    --------
    >>> import posenc, posenc.plot
    >>> posenc.plot.bias(posenc.ALiBi(heads=8), mask="causal").data.values.shape
    (8, 64, 64)
    """
    return made("bias", locals())


def stretch(
    spec: Any,
    ax: Any = None,
    *,
    original_length: int | None = None,
    factor: float | None = None,
    rules: tuple[str, ...] | None = None,
    loss: bool = False,
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
    loss : bool
        Whether to draw the loss of small models beyond their trained length instead, and the angles
        that training did not show, unchanged and under the first of the rules (YaRN by default).
        Of `spec` and the other rules nothing is drawn then: the models had one rotation.
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
    return made("stretch", locals())


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
    check_settings(
        view,
        options,
        inspect.signature(getattr(plot, view)).parameters.keys() - {"look", "params", "ax"},
    )
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
