"""The pictures of tables and of the waves that they are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np

from posenc.plot.columns import Params
from posenc.plot.draw.drawing import made
from posenc.plot.draw.look import Look
from posenc.plot.draw.picture import Picture


def table(
    spec: Any,
    ax: Any = None,
    *,
    positions: int | tuple[int, int] | None = None,
    dims: tuple[int, int] | None = None,
    order: str | None = None,
    sample: bool = False,
    params: Params = None,
    length: int | None = None,
    grid: tuple[int, ...] | None = None,
    height: int | None = None,
    **look: Unpack[Look],
) -> Picture:
    """Draw a table: a row for each position, a column for each dimension.

    A column is a wave. Below 2 pixels per wave it is left blank, from 8 on it is shown in full, so
    that nothing is seen that is not in the table.

    Parameters
    ----------
    spec : Spec
        A table, or a rotation, of which the sines and cosines are drawn.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    positions : int or (int, int), optional
        A number of positions from 0, or from and to (excluded); 128 by default, or all there are.
    dims : (int, int), optional
        From and to (excluded), in the order drawn; all by default.
    order : {"stored", "interleaved", "sin_cos", "cos_sin"}, optional
        How the columns stand.
    sample : bool
        Whether to draw some of the rows and skip the others: an illusion, and labelled so.
    params : mapping, optional
        What a learned table has learned.
    length : int, optional
        Length of the sequence, which a scaling rule reads; an error where none does.
    grid : tuple of int, optional
        Sides of a grid whose cells are the positions, for specs of several axes.
    height : int, optional
        Pixels of the panel, at most, as its width; as many as the table needs by default, within
        reason.
    **look
        `width`: pixels of the panel, at most; or `size`: of the whole picture, such as `"3.3in"` or
        `"84mm x 50mm"`, with letters for paper and 300 dpi. `dpi`: pixels to an inch, 72 by
        default; or `scale`: device pixels to a pixel. `theme`: `light`, `dark` or `print`; by
        default the page of the axes, or of matplotlib's settings. `title`: a text in place of the
        usual words above, or False. `caption`: False leaves out the words below. `color`: of the
        curves, one or several; `label`: their names; `cmap`: a colour map, whose middle is zero.

    Returns
    -------
    Picture
        The figure, what it shows, and its files.

    Examples
    --------
    >>> import posenc, posenc.plot
    >>> made = posenc.plot.table(posenc.Sinusoidal(50), positions=45_000, height=670)
    >>> made.data.tile.blank
    18
    """
    return made("table", locals())


def waves(
    spec: Any,
    ax: Any = None,
    *,
    positions: int | tuple[int, int] | None = None,
    dims: Sequence[int] | None = None,
    params: Params = None,
    length: int | None = None,
    grid: tuple[int, ...] | None = None,
    **look: Unpack[Look],
) -> Picture:
    """Draw some dimensions over positions, one panel for each.

    Parameters
    ----------
    spec : Spec
        A table, or a rotation.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    positions : int or (int, int), optional
        A number of positions from 0, or from and to (excluded); 128 by default, or all there are.
    dims : sequence of int, optional
        Which; five from the fastest to the slowest by default.
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
    >>> made = posenc.plot.waves(posenc.Sinusoidal(64), dims=[0, 62], positions=10_000)
    >>> [curve.shape for curve in made.data.curves]
    ['band', 'line']
    """
    return made("waves", locals())


def wavelengths(
    spec: Any,
    ax: Any = None,
    *,
    length: int | None = None,
    mark: int | None = None,
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
        As for `table`.
    mark : int, optional
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
    >>> made = posenc.plot.wavelengths([posenc.Sinusoidal(d) for d in (64, 512)], mark=1000)
    >>> [ladder.finished for ladder in made.data.ladders]
    [18, 141]
    """
    return made("wavelengths", locals())


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
    return made("sum", locals())


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
    return made("counter", locals())


def find(
    spec: Any,
    values: Any,
    ax: Any = None,
    *,
    within: tuple[float, float] | None = None,
    conventions: str = "siblings",
    params: Params = None,
    **look: Unpack[Look],
) -> Picture:
    """Draw the positions that values may come from, a line for each convention.

    Parameters
    ----------
    spec : Spec
        A sinusoidal or learned table.
    values : mapping of int to str, or array
        Values by dimension, as printed; or a row.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    within : (number, number), optional
        The range of positions.
    conventions : {"siblings", "stated"}
        Whether conventions beside the stated one are tried: its siblings.
    params : mapping, optional
        What a learned table has learned.
    **look
        `width`: pixels of the line. The others are as for `table`.

    Returns
    -------
    Picture
        The figure, what it shows, and its files.

    Examples
    --------
    >>> import posenc, posenc.plot
    >>> made = posenc.plot.find(posenc.Sinusoidal(16, base=100), {3: "0.85"})
    >>> made.data.candidates[0].positions[0]
    1
    """
    return made("find", locals())


def scene(
    configs: Any = None,
    ax: Any = None,
    *,
    text: int = 6,
    image: tuple[int, int] = (8, 8),
    reference: tuple[int, int] = (6, 4),
    **look: Unpack[Look],
) -> Picture:
    """Draw where models put the tokens of a text, a picture and a reference.

    Each model has a map of the heights and widths of positions, and below it a strip for each other
    axis, such as a time or a number of the picture, on the scale of the widths. Numbers are those
    of `layer.positions.build`, in tokens.

    Parameters
    ----------
    configs : mapping, str, path, or list of them, optional
        Configs of diffusers as `posenc.from_hf` takes them: a pipeline, whose folder says how its
        references are placed, or a transformer; or names of `posenc.plot.views.scene.MODELS`, six
        models that are drawn by default.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    text : int
        Tokens of the text.
    image : (int, int)
        Rows and columns of the picture, in tokens.
    reference : (int, int)
        Those of the reference, `(0, 0)` for none; models without references leave it out.
    **look
        `width`: pixels of the picture, at most. The others are as for `table`.

    Returns
    -------
    Picture
        The figure, what it shows, and its files.

    Raises
    ------
    ArgumentError
        If a size is out of range, or a model counts no rows and columns.
    DataError
        If a config cannot be read.

    Examples
    --------
    >>> import posenc, posenc.plot
    >>> drawn = posenc.plot.scene("FLUX.1 Kontext")
    >>> drawn.data.caption[0].partition(";")[0]
    'FLUX.1 Kontext: picture t 0, y 0 to 7, x 0 to 7'
    """
    sizes = {"text": text, "image": image, "reference": reference}
    return made("scene", {"spec": configs, "ax": ax, **sizes, "look": look})
