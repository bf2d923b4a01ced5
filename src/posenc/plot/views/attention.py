"""Attention: what one head makes of a sentence, with any encoding in its place.

The words bring queries, keys and values (`posenc.plot.content`); an encoding does to them what it
does in a model, where it does it there. Nothing here is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from posenc._core.positions.counting import offset
from posenc.encodings.rotary.base import Role
from posenc.functional import bias, logit_scale, relative, relative_values, rotate, table
from posenc.plot import palette
from posenc.plot.columns import Params, Table, check_learned, check_word, settled
from posenc.plot.content import Content, content_of
from posenc.plot.panels.grammar import Heatmap, words
from posenc.plot.panels.text import Described, brief, number, present, signed, whole
from posenc.plot.rows import pictures_of, refuse, require
from posenc.plot.views.rotation import turned_channels

Dtype = Literal["float64", "float32"]
SENTENCE = "John likes Jane very much"
MOST_TOKENS = 64

# Outputs are called equal where no number differs by more than this share of the largest.
EQUAL: Mapping[str, float] = {"float64": 1e-12, "float32": 1e-5}
LONGEST = 9  # letters of a word
MOST_NUMBERS = 16  # words up to which the numbers stand in the cells


@dataclass(frozen=True)
class AttentionView(Described):
    """A head at work on a sentence."""

    order: tuple[int, ...]
    scores: np.ndarray
    weights: np.ndarray
    outputs: np.ndarray
    before: np.ndarray
    equal: np.ndarray
    change: float
    moved: float
    words: tuple[str, ...]  # as they stand
    softmax: str
    limit: float


class ScoreParts(NamedTuple):
    """What one score consists of."""

    terms: tuple[tuple[str, float], ...]
    pairs: np.ndarray | None = None
    slope: float | None = None


@dataclass(frozen=True)
class _ShippedHead:
    """An encoding in its place around the words of a head."""

    spec: Any
    content: Content
    params: Params
    dtype: Dtype = "float64"

    @property
    def kind(self) -> str:
        return "none" if self.spec is None else str(self.spec.kind)

    @property
    def scale(self) -> float:
        return float(self.spec.scale) if self.kind == "relative" else self.content.dim**-0.5

    @property
    def heads(self) -> int:
        """How many heads the spec tells apart."""
        return int((self.spec.per_head if self.kind == "rotary" else self.spec.heads) or 1)

    @property
    def head(self) -> int:
        return self.content.head % self.heads

    def sides(self, order: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, ...]:
        """Queries, keys and values in their order, with what a table adds and a rotation turns."""
        content = self.content
        q, k, v = (x[order].astype(self.dtype) for x in (content.q, content.k, content.v))
        if self.kind == "table":
            return tuple(x + y for x, y in zip((q, k, v), self.rows(at), strict=True))
        if self.kind != "rotary":
            return q, k, v
        spec = settled(self.spec, int(at[-1]) + 1)
        factor = np.asarray(logit_scale(spec, at)).astype(self.dtype)
        return (
            self._turned(spec, q, at, "query") * (factor[:, None] if factor.ndim else factor),
            self._turned(spec, k, at, "key"),
            v,
        )

    def _turned(self, spec: Any, x: np.ndarray, at: np.ndarray, role: Role) -> np.ndarray:
        return np.asarray(
            rotate(
                spec,
                np.broadcast_to(x, (self.heads, *x.shape)),
                positions=at,
                role=role,
                params=self.params,
            )
        )[self.head]

    def rows(self, at: np.ndarray) -> tuple[np.ndarray, ...]:
        """What the rows of a table add to queries, keys and values."""
        rows = np.asarray(table(self.spec, at, params=self.params, dtype=self.dtype))
        wide, appended = rows.shape[1], self.spec.width != self.spec.dim
        weights = self.content.beside(wide) if appended else self.content.weights
        require(
            wide == len(weights[0]),
            " attention",
            f"a table {len(weights[0])} wide, as what the words bring",
            wide,
        )
        return tuple(rows @ weight.astype(self.dtype) for weight in weights)

    def added(self, q: np.ndarray, k: np.ndarray, at: np.ndarray) -> Any:
        """What a bias or a relative encoding adds to the scores, in their scale; else 0."""
        if self.kind == "bias":
            dtype: Any = self.dtype
            terms = bias(
                self.spec, at, at, params=self.params, heads=(self.head, self.head + 1), dtype=dtype
            )[0]
        elif self.kind == "relative":
            q, k = (np.broadcast_to(x, (1, self.heads, *x.shape)) for x in (q, k))
            terms = relative(self.spec, q, k, at, at, params=self.params)[0, self.head]
        else:
            return 0.0
        return np.asarray(terms) * (self.scale if self.spec.place == "before" else 1)

    def attended(
        self, order: np.ndarray, at: np.ndarray, *, causal: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Scores, weights and outputs."""
        q, k, v = self.sides(order, at)
        scores = q @ k.T * self.scale + self.added(q, k, at)
        if causal:
            scores = np.where(at[None, :] > at[:, None], -np.inf, scores)
        powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights = powers / powers.sum(axis=-1, keepdims=True)
        outputs = weights @ v
        if self.kind == "relative" and self.spec.on_values:
            whole = np.broadcast_to(weights, (1, self.heads, *weights.shape))
            terms = relative_values(self.spec, whole, at, at, params=self.params)
            outputs = outputs + terms[0, self.head]
        return scores, weights, outputs


def data(
    spec: Any,
    tokens: Content | str | Sequence[str] = SENTENCE,
    *,
    source: str | None = None,
    softmax: str = "rows",
    order: Sequence[int] | None = None,
    shift: int = 0,
    causal: bool | None = None,
    dtype: Dtype = "float64",
    params: Params = None,
) -> AttentionView:
    """Scores, weights and outputs of a head, which words, or what they bring, are given to."""
    check_word("plot attention: softmax", softmax, ("none", "rows"))
    content = brought(spec, tokens, source, params)
    causal = content.causal if causal is None else causal
    typed = np.arange(len(content.words))
    now = typed if order is None else np.array(order)
    require(
        sorted(now.tolist()) == typed.tolist(),
        " attention: order",
        f"each of 0 to {len(typed) - 1} once",
        now.tolist(),
    )
    head = _ShippedHead(spec, content, params, dtype)
    scores, weights, _ = head.attended(now, offset(len(typed), shift), causal=causal)
    start, _, outputs = head.attended(now, typed, causal=causal)
    _, _, before = head.attended(typed, typed, causal=causal)
    outputs = outputs[np.argsort(now)]
    far = np.abs(outputs - before).max(axis=1)
    with np.errstate(invalid="ignore"):
        change = np.where(scores == start, 0.0, np.abs(scores - start)).max()
    return AttentionView(
        tuple(now.tolist()),
        scores,
        weights,
        outputs,
        before,
        far <= EQUAL[dtype] * float(np.abs(before).max()),
        float(change),
        float(far.max()),
        tuple(content.words[place] for place in now.tolist()),
        softmax,
        1.0 if softmax == "rows" else palette.largest(scores) or 1.0,
        title="no positions" if spec is None else brief(spec),
        caption=_caption(content, shift, float(change), causal=causal),
    )


def brought(spec: Any, tokens: Any, source: str | None, params: Params) -> Content:
    """What words bring, made where words are given."""
    if isinstance(tokens, Content):
        return tokens
    if "attention" not in pictures_of(spec):
        refuse("attention", spec, "an encoding of one axis")
    check_learned(spec, params, "attention")
    words = tokens.split() if isinstance(tokens, str) else [str(token) for token in tokens]
    require(
        2 <= len(words) <= MOST_TOKENS,
        " attention: tokens",
        f"2 to {MOST_TOKENS:,} tokens",
        len(words),
    )
    return content_of(spec, words, source)


def _caption(content: Content, shift: int, change: float, *, causal: bool) -> tuple[str, ...]:
    after = f"the largest change of a score is {number(change, 2)}" if change else "no change"
    return present(
        content.origin,
        f"All words {whole(shift)} positions later: {after}." if shift else "",
        "Hatched: words that are not seen." if causal else "",
    )


def rows(data: Any) -> Table:
    """The numbers of a .csv."""
    return ["query", *data.words], (
        [w, *row]
        for w, row in zip(
            data.words, data.weights if data.softmax == "rows" else data.scores, strict=True
        )
    )


def parts(
    spec: Any,
    content: Content,
    cell: tuple[int, int],
    *,
    order: Sequence[int] | None = None,
    shift: int = 0,
    params: Params = None,
) -> ScoreParts:
    """The score of one query and one key as a sum, in float64 and without a mask.

    A table gives four products, a rotation one for each pair, a bias stands beside q · k. Of a
    relative encoding, the parts are what stays with the query, the key or both set to 0, and the
    rest.
    """
    i, j = cell
    head = _ShippedHead(spec, content, params)
    stand = np.arange(len(content.words)) if order is None else np.array(order)
    at = np.arange(len(stand)) + shift
    own_q, own_k = content.q[stand][i], content.k[stand][j]
    own = ("q · k", float(own_q @ own_k) * head.scale)
    q, k, _ = head.sides(stand, at)
    if head.kind == "table":
        words, places = ("word", own_q, own_k), ("place", q[i] - own_q, k[j] - own_k)
        terms = (
            (f"{x} · {y}", float(query @ key) * head.scale)
            for x, query, _ in (words, places)
            for y, _, key in (words, places)
        )
        return ScoreParts(tuple(terms))
    if head.kind == "rotary":
        products = q[i] * k[j] * head.scale
        first = len(products) - spec.output_dim if spec.channels.part == "trailing" else 0
        channels = turned_channels(spec) + first
        pairs = products[channels].sum(axis=1)
        turned = ("turned pairs", float(pairs.sum()))
        return ScoreParts(
            (turned, ("channels that do not turn", float(products.sum() - pairs.sum())))
            if channels.size < len(products)
            else (turned,),
            pairs,
        )
    if head.kind == "bias":
        slopes = spec.arrays.get("slopes")
        return ScoreParts(
            (own, ("bias", float(head.added(q, k, at)[cell]))),
            slope=None if slopes is None else float(slopes[head.head]),
        )
    if head.kind == "none":
        return ScoreParts((own,))
    zero = np.zeros_like(q)
    alone, query, key, both = (
        float(head.added(*case, at)[cell]) for case in ((zero, zero), (q, zero), (zero, k), (q, k))
    )
    named = {
        "place alone": alone,
        "query and place": query - alone,
        "key and place": key - alone,
        "all three": both - query - key + alone,
    }
    rounding = 1e-12 * max(map(abs, (alone, query, key, both)))
    large = [(name, x) for name, x in named.items() if abs(x) > rounding]
    return ScoreParts((own, *(large or [("place", both)])))


def joined(
    spec: Any, content: Content, word: int, at: int, *, params: Params = None
) -> tuple[np.ndarray, np.ndarray]:
    """One query made in two ways: adding is appending with tied weights.

    (x + p) W = [x, p] [W; W]
    """
    row = np.asarray(table(spec, [at], params=params, dtype="float64"))[0]
    x, weight = content.inputs[word], content.weights[0]
    return (x + row) @ weight, np.concatenate([x, row]) @ np.concatenate([weight, weight])


# --- panels ---------------------------------------------------------------------------------------


def short(word: str) -> str:
    """A word, cut where it is long."""
    return word if len(word) <= LONGEST else f"{word[: LONGEST - 1]}…"


def panels(data: AttentionView) -> tuple[Heatmap]:
    """The grid of queries and keys, with the numbers in its cells."""
    shares, limit, names = data.softmax == "rows", data.limit, tuple(map(short, data.words))
    values = np.where(np.isfinite(data.scores), data.weights if shares else data.scores, np.nan)
    missing = ~np.isfinite(values)
    written = (["" if x != x else signed(x, 2) for x in row] for row in values.tolist())  # noqa: PLR0124 - NaN
    return (
        Heatmap(
            id="attention",
            title="",
            tile=palette.shares(values, limit) if shares else palette.indices(values, limit),
            lut="sequential" if shares else "diverging",
            x=words("key", names),
            y=words("query", names),
            low="0" if shares else number(-limit, 3),
            high=number(limit, 3),
            mask=missing.astype(np.uint8) if missing.any() else None,
            numbers=tuple(map(tuple, written)) if len(names) <= MOST_NUMBERS else (),
            values=values,
            limit=limit,
        ),
    )
