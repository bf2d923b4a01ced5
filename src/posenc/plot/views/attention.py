"""Attention: what one head makes of a sentence, with any encoding in its place.

The words bring their queries, keys and values (`posenc.plot.content`); an encoding does to them what
it does in a model, in its own place; nothing here is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from posenc._core.errors import ArgumentError, PositionError, mismatch
from posenc.encodings.rotary.base import Role
from posenc.functional import bias, logit_scale, relative, relative_values, rotate, table
from posenc.plot.columns import settled
from posenc.plot.content import Content

__all__ = ["EQUAL", "AttentionView", "ScoreParts", "data", "joined", "parts"]

Params = Mapping[str, np.ndarray] | None
Dtype = Literal["float64", "float32"]
Join = Literal["add", "append"]

# Outputs are called equal where no number differs by more than this share of the largest.
EQUAL: Mapping[str, float] = {"float64": 1e-12, "float32": 1e-5}


@dataclass(frozen=True)
class AttentionView:
    """A head at work on a sentence.

    Parameters
    ----------
    order : tuple of int
        The words as they stand: places in the sentence as it was typed.
    scores, weights : numpy.ndarray
        (words, words), queries down: what enters the softmax, and what comes out of it. -inf and 0
        where a key is not seen.
    outputs, before : numpy.ndarray
        (words, dim), by the word as it was typed: of this order, and of the typed one, both from
        position 0.
    equal : numpy.ndarray
        (words,): whether the word has the same output in both orders, to within `EQUAL`.
    change : float
        The largest change of a score between positions from 0 and positions from the shift.
    moved : float
        The largest difference between `outputs` and `before`.
    """

    order: tuple[int, ...]
    scores: np.ndarray
    weights: np.ndarray
    outputs: np.ndarray
    before: np.ndarray
    equal: np.ndarray
    change: float
    moved: float


class ScoreParts(NamedTuple):
    """What one score consists of.

    Parameters
    ----------
    terms : tuple of (str, float)
        Names and numbers; their sum is the score.
    pairs : numpy.ndarray or None
        Of a rotation, what each pair adds.
    slope : float or None
        Of a bias with slopes, that of the head.
    """

    terms: tuple[tuple[str, float], ...]
    pairs: np.ndarray | None = None
    slope: float | None = None


class _Scores(NamedTuple):
    scores: np.ndarray
    weights: np.ndarray
    outputs: np.ndarray


class _Sides(NamedTuple):
    """Queries and keys of the words, as the products of the scores take them."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray


def data(
    spec: Any,
    content: Content,
    *,
    order: Sequence[int] | None = None,
    shift: int = 0,
    causal: bool = False,
    dtype: Dtype = "float64",
    params: Params = None,
    join: Join = "add",
) -> AttentionView:
    """Scores, weights and outputs of a head.

    Parameters
    ----------
    spec : Spec or None
        An encoding of one axis; None for no positions.
    content : Content
        Queries, keys and values of the words.
    order : sequence of int, optional
        The words as they are to stand: a permutation of their places; as typed by default.
    shift : int
        The position of the first word.
    causal : bool
        Whether a word sees only itself and the words before it.
    dtype : {"float64", "float32"}
        Of the whole computation.
    params : mapping, optional
        What the encoding has learned.
    join : {"add", "append"}
        Of a table: added to what the words bring, or appended with weights of its own.

    Returns
    -------
    AttentionView
        All its numbers.

    Raises
    ------
    ArgumentError
        If the order is no permutation, or the encoding does not fit the head.
    PositionError
        If the encoding has not learned these positions.

    Examples
    --------
    >>> import posenc
    >>> from posenc.plot.content import random_content
    >>> from posenc.plot.views import attention
    >>> words = random_content("John likes Jane".split(), 16)
    >>> bag = attention.data(None, words, order=(2, 1, 0))
    >>> bag.equal.all(), attention.data(posenc.ALiBi(8), words, order=(2, 1, 0)).equal.any()
    (np.True_, np.False_)
    """
    count = len(content.words)
    typed = tuple(range(count))
    now = typed if order is None else tuple(int(place) for place in order)
    if tuple(sorted(now)) != typed:
        expected = f"each of 0 to {count - 1} once"
        raise ArgumentError(mismatch("plot attention: order", expected, now))

    def of(places: tuple[int, ...], first: int) -> _Scores:
        at = np.arange(first, first + count)
        return _attended(spec, content, np.array(places), at, causal, (dtype, join, params))

    here, start, before = of(now, shift), of(now, 0), of(typed, 0)
    by_word = np.empty_like(start.outputs)
    by_word[list(now)] = start.outputs
    far = np.abs(by_word - before.outputs).max(axis=1)
    largest = float(np.abs(before.outputs).max()) or 1.0
    with np.errstate(invalid="ignore"):
        moved = np.where(here.scores == start.scores, 0.0, here.scores - start.scores)
    return AttentionView(
        now,
        here.scores,
        here.weights,
        by_word,
        before.outputs,
        far <= EQUAL[dtype] * largest,
        float(np.abs(moved).max()),
        float(far.max()),
    )


Settings = tuple[Dtype, Join, Params]


def _attended(
    spec: Any,
    content: Content,
    order: np.ndarray,
    at: np.ndarray,
    causal: bool,
    settings: Settings,
) -> _Scores:
    dtype, _, params = settings
    sides = _sides(spec, content, order, at, settings)
    scores = sides.q @ sides.k.T * _scale(spec, content)
    added = _added(spec, content, sides, at, dtype, params)
    if added is not None:
        scores = scores + added
    if causal:
        scores = np.where(at[None, :] > at[:, None], -np.inf, scores)
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = powers / powers.sum(axis=-1, keepdims=True)
    outputs = weights @ sides.v
    if _kind(spec) == "relative" and spec.on_values:
        whole = np.broadcast_to(weights, (1, _heads(spec, content), *weights.shape))
        outputs = (
            outputs + relative_values(spec, whole, at, at, params=params)[0, _head(spec, content)]
        )
    return _Scores(scores, weights, outputs)


def _kind(spec: Any) -> str:
    return "none" if spec is None else str(spec.kind)


def _scale(spec: Any, content: Content) -> float:
    return float(spec.scale) if _kind(spec) == "relative" else content.dim**-0.5


def _heads(spec: Any, content: Content) -> int:
    """How many heads the spec tells apart."""
    count = spec.per_head if spec.kind == "rotary" else spec.heads
    return int(count or 1)


def _head(spec: Any, content: Content) -> int:
    return content.head % _heads(spec, content)


def _sides(
    spec: Any, content: Content, order: np.ndarray, at: np.ndarray, settings: Settings
) -> _Sides:
    """Queries, keys and values in their order, with what a table adds and a rotation turns."""
    dtype, join, params = settings
    q, k, v = (side[order].astype(dtype) for side in (content.q, content.k, content.v))
    if _kind(spec) == "table":
        moved = _rows(spec, content, at, settings)
        return _Sides(q + moved[0], k + moved[1], v + moved[2])
    if _kind(spec) != "rotary":
        return _Sides(q, k, v)
    spec = settled(spec, int(at[-1]) + 1)
    factor = np.asarray(logit_scale(spec, at))
    turned = [_turned(spec, x, at, role, content, params) for x, role in ((q, "query"), (k, "key"))]
    return _Sides(
        turned[0] * (factor[:, None] if factor.ndim else factor).astype(dtype), turned[1], v
    )


def _turned(
    spec: Any, x: np.ndarray, at: np.ndarray, role: Role, content: Content, params: Params
) -> np.ndarray:
    each = np.broadcast_to(x, (_heads(spec, content), *x.shape))
    return np.asarray(rotate(spec, each, positions=at, role=role, params=params))[
        _head(spec, content)
    ]


def _rows(
    spec: Any, content: Content, at: np.ndarray, settings: Settings
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What the rows of a table add to queries, keys and values."""
    dtype, join, params = settings
    rows = np.asarray(table(spec, at, params=params, dtype=dtype))
    appended = join == "append" or spec.width != spec.dim
    weights = content.beside(rows.shape[1]) if appended else content.weights
    if rows.shape[1] != weights[0].shape[0]:
        expected = f"a table {weights[0].shape[0]} wide, as what the words bring"
        raise ArgumentError(mismatch("plot attention", expected, f"{rows.shape[1]}"))
    q, k, v = (rows @ weight.astype(dtype) for weight in weights)
    return q, k, v


def _added(
    spec: Any, content: Content, sides: _Sides, at: np.ndarray, dtype: Dtype, params: Params
) -> np.ndarray | None:
    """What a bias or a relative encoding adds to the scores, in their scale."""
    kind = _kind(spec)
    if kind == "bias":
        head = _head(spec, content)
        added = bias(spec, at, at, params=params, heads=(head, head + 1), dtype=dtype)[0]
    elif kind == "relative":
        shape = (1, _heads(spec, content))
        q, k = (np.broadcast_to(side, (*shape, *side.shape)) for side in sides[:2])
        added = relative(spec, q, k, at, at, params=params)[0, _head(spec, content)]
    else:
        return None
    return np.asarray(added) * (_scale(spec, content) if spec.place == "before" else 1)


# --- what a score consists of ---------------------------------------------------------------------


def parts(
    spec: Any,
    content: Content,
    cell: tuple[int, int],
    *,
    order: Sequence[int] | None = None,
    shift: int = 0,
    params: Params = None,
    join: Join = "add",
) -> ScoreParts:
    """The score of one query and one key as a sum.

    A table gives four products, a rotation one for each pair, a bias stands beside q · k. Of a
    relative encoding, the parts are those that stay when the query, the key or both are set to 0,
    and the rest.

    Parameters
    ----------
    spec, content, order, shift, params, join
        As for `data`.
    cell : (int, int)
        The places of the query and of the key, in the order in which the words stand.

    Returns
    -------
    ScoreParts
        Numbers in float64, without a mask.

    Examples
    --------
    >>> import posenc
    >>> from posenc.plot.content import random_content
    >>> from posenc.plot.views import attention
    >>> words = random_content("John likes Jane".split(), 16)
    >>> [name for name, _ in attention.parts(posenc.Sinusoidal(16), words, (2, 0)).terms]
    ['word · word', 'word · place', 'place · word', 'place · place']
    """
    i, j = cell
    count = len(content.words)
    places = np.arange(count) if order is None else np.array(order)
    at = np.arange(shift, shift + count)
    settings: Settings = ("float64", join, params)
    scale = _scale(spec, content)
    q, k = content.q[places][i], content.k[places][j]
    own = float(q @ k) * scale
    kind = _kind(spec)
    if kind == "none":
        return ScoreParts((("q · k", own),))
    if kind == "table":
        to_q, to_k, _ = _rows(spec, content, at, settings)
        names = ("word · word", "word · place", "place · word", "place · place")
        products = (q @ k, q @ to_k[j], to_q[i] @ k, to_q[i] @ to_k[j])
        return ScoreParts(
            tuple((n, float(x) * scale) for n, x in zip(names, products, strict=True))
        )
    sides = _sides(spec, content, places, at, settings)
    if kind == "rotary":
        products = sides.q[i] * sides.k[j] * scale
        pairs = products[_channels(spec, len(products))].sum(axis=1)
        terms = (("turned pairs", float(pairs.sum())),)
        still = float(products.sum() - pairs.sum())
        if _channels(spec, len(products)).size < len(products):
            terms += (("channels that do not turn", still),)
        return ScoreParts(terms, pairs)
    if kind == "bias":
        added = _added(spec, content, sides, at, "float64", params)
        slopes = spec.arrays.get("slopes")
        slope = None if slopes is None else float(slopes[_head(spec, content)])
        assert added is not None  # noqa: S101 - a bias adds
        return ScoreParts((("q · k", own), ("bias", float(added[i, j]))), slope=slope)
    return ScoreParts((("q · k", own), *_of_relative(spec, content, sides, at, params, cell)))


def _channels(spec: Any, width: int) -> np.ndarray:
    """The channels of each pair, as they stand after the rotation."""
    pairing = spec.channels
    if pairing.output == "half":
        pairing = pairing.replace(order="half")
    return np.array(pairing.channels(spec.output_dim)) + (
        width - spec.output_dim if pairing.part == "trailing" else 0
    )


def _of_relative(
    spec: Any,
    content: Content,
    sides: _Sides,
    at: np.ndarray,
    params: Params,
    cell: tuple[int, int],
) -> list[tuple[str, float]]:
    zero = np.zeros_like(sides.q)
    cases = (
        (zero, zero),
        (sides.q, zero),
        (zero, sides.k),
        (sides.q, sides.k),
    )
    values = []
    for q, k in cases:
        added = _added(spec, content, _Sides(q, k, sides.v), at, "float64", params)
        assert added is not None  # noqa: S101 - a relative encoding adds
        values.append(float(added[cell]))
    alone, query, key, both = values
    named = (
        ("place alone", alone),
        ("query and place", query - alone),
        ("key and place", key - alone),
        ("all three", both - query - key + alone),
    )
    rounding = 1e-12 * max(map(abs, values), default=0.0)
    return [(name, x) for name, x in named if abs(x) > rounding] or [("place", both)]


# --- adding is appending with tied weights --------------------------------------------------------


class Joined(NamedTuple):
    """A query made in two ways.

    Parameters
    ----------
    added, appended : numpy.ndarray
        (dim,): (x + p) W, and [x, p] times W above W.
    apart : float
        The largest difference of both.
    """

    added: np.ndarray
    appended: np.ndarray
    apart: float


def joined(spec: Any, content: Content, word: int, at: int, *, params: Params = None) -> Joined:
    """That adding a table is appending it with tied weights: (x + p) W = [x, p] [W; W].

    Parameters
    ----------
    spec : TableSpec
        A table as wide as what the words bring.
    content : Content
        The words; of a file, which holds no inputs, the queries stand for them.
    word, at : int
        Which word, and the position where it stands.
    params : mapping, optional
        What the table has learned.

    Returns
    -------
    Joined
        Both queries, in float64.

    Examples
    --------
    >>> import posenc
    >>> from posenc.plot.content import random_content
    >>> from posenc.plot.views import attention
    >>> words = random_content(["John"], 16)
    >>> attention.joined(posenc.Sinusoidal(16), words, 0, 7).apart < 1e-14
    True
    """
    row = np.asarray(table(spec, [at], params=params, dtype="float64"))[0]
    x, weight = content.inputs[word], content.weights[0]
    if row.shape != x.shape:
        expected = f"a table {len(x)} wide"
        raise ArgumentError(mismatch("plot attention", expected, len(row)))
    added = (x + row) @ weight
    appended = np.concatenate([x, row]) @ np.concatenate([weight, weight])
    return Joined(added, appended, float(np.abs(added - appended).max()))
