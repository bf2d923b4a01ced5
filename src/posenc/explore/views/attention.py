"""Attention: what one head sees of a sentence, under four encodings side by side."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from posenc._core.errors import PosencError
from posenc.explore import catalogue, snippets
from posenc.explore.axes import cells, values
from posenc.explore.entry import CatalogueEntry, Chosen, made, samples
from posenc.explore.fields import Option, choice, integer, switch, text
from posenc.explore.panels import (
    Attention,
    AttentionCell,
    Axis,
    Block,
    Chart,
    Chips,
    Fact,
    Heading,
    Heatmap,
    Link,
    Panel,
    Prose,
    Series,
    Strip,
    Strips,
    Tick,
)
from posenc.explore.scene import Page, Scene, ViewShape
from posenc.explore.text import number, plural, signed, spread, whole
from posenc.plot import palette
from posenc.plot.content import Content, from_arrays, random_content, trained_content
from posenc.plot.views import attention
from posenc.plot.views.attention import AttentionView, ScoreParts

__all__ = ["SHAPE", "content_of", "show"]

FARTHEST = 4096
ROWS = 512  # of a learned table
MOST_WORDS, LEAST_WORDS = 12, 2
NUMBERS = 16  # of an output that are drawn
HEAD = 64
TEXT = text("text", "Sentence", "John likes Jane very much", 400)
PLACES = {"e1": "none", "e2": "sinusoidal", "enc": "rope", "e4": "alibi"}
SHAPE = ViewShape(
    "attention",
    "Attention",
    "What does attention see?",
    PLACES["enc"],
    (
        TEXT,
        choice(
            "qk",
            "Queries and keys",
            (
                Option("random", "random vectors"),
                Option("previous", "a previous-token head"),
                Option("content", "a content head"),
                Option("file", "those of a file"),
            ),
            "random",
            hint="Two heads of a small trained model come with posenc.",
        ),
        integer("hd", "Head", 0, 0, 255, gently=True),
        integer(
            "shift",
            "Shift by",
            0,
            0,
            FARTHEST,
            scale="log",
            plays=True,
            hint="All words stand this many positions later.",
        ),
        switch("softmax", "Softmax"),
        choice(
            "past",
            "Later words",
            (
                Option("own", "as the head was trained"),
                Option("seen", "are seen"),
                Option("masked", "are masked (causal)"),
            ),
            "own",
        ),
        choice(
            "join",
            "A table is",
            (Option("add", "added"), Option("append", "appended (concatenated)")),
            "add",
        ),
        choice(
            "prec",
            "Computed in",
            (Option("float32", "float32"), Option("float64", "float64")),
            "float32",
        ),
        text("perm", "Order of the words", "", 60, section="page"),
        *(
            choice(key, f"Encoding {n}", (), name, section="page")
            for n, (key, name) in enumerate(PLACES.items(), 1)
            if key != "enc"
        ),
        integer("qw", "Query", 2, 0, MOST_WORDS - 1, gently=True, section="cursor"),
        integer("kw", "Key", 0, 0, MOST_WORDS - 1, gently=True, section="cursor"),
    ),
    defaults={"d": str(HEAD)},
    cursor=(),
    most={"d": 1024},
)


@dataclass(frozen=True)
class _Column:
    """One of the encodings: what it is, and what it does or why it cannot."""

    key: str
    label: str
    chosen: Chosen | None
    view: AttentionView | None
    parts: ScoreParts | None
    problem: str = ""


@dataclass(frozen=True)
class _Sentence:
    """The words as typed, the order in which they stand, and the cell of the cursor."""

    typed: tuple[str, ...]
    order: tuple[int, ...]
    cell: tuple[int, int]

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(self.typed[place] for place in self.order)


def show(scene: Scene) -> Page:
    """Chips of the words, four grids with their outputs, and what the score of a cell consists of."""
    sentence, problems = _sentence(scene)
    content = content_of(scene, sentence.typed)
    causal = content.causal if scene["past"] == "own" else scene["past"] == "masked"
    columns = [_column(scene, key, sentence, content, causal) for key in PLACES]
    i, j = sentence.cell
    pair = f"“{sentence.words[i]}” looks at “{sentence.words[j]}”"
    numbers = ", ".join(
        f"{c.label} {number(float(c.view.scores[i, j]), 3)}" for c in columns if c.view
    )
    say = f"{pair}: {numbers}"
    panels: list[Panel] = [
        _chips(sentence),
        _grids(scene, sentence, columns, causal, say),
        *_terms(columns, pair),
        *_joined(scene, sentence, content, columns),
    ]
    last = len(sentence.typed) - 1
    return Page(
        lead=_lead(scene, content),
        panels=tuple(panels),
        readout=_readout(columns, sentence, pair),
        say=say,
        cursor={
            "x": {"key": "kw", "value": j, "min": 0, "max": last, "step": 1},
            "y": {"key": "qw", "value": i, "min": 0, "max": last, "step": 1},
        },
        python=_snippet(scene, sentence, content, columns),
        table=_numbers(columns, sentence),
        problems=tuple(problems),
    )


def _snippet(
    scene: Scene, sentence: _Sentence, content: Content, columns: list[_Column]
) -> str:
    own = next(column.chosen for column in columns if column.key == "enc")
    fitted = scene if own is None else replace(scene, a=own)
    return snippets.attention(fitted, sentence.typed, sentence.order, content)


# --- the words ------------------------------------------------------------------------------------


def _sentence(scene: Scene) -> tuple[_Sentence, list[tuple[str, str]]]:
    stored, problems = scene.session.heads, []
    words = scene["text"].split()
    if scene["qk"] == "file":
        if stored is None:
            problems.append(("qk", "No file was named: posenc explore --qk FILE. Drawn at random."))
        else:
            words = list(stored.tokens or map(str, range(stored.q.shape[1])))
    if len(words) < LEAST_WORDS:
        problems.append(
            ("text", f"A sentence has at least {LEAST_WORDS} words. Drawn with ‘{TEXT.default}’.")
        )
        words = TEXT.default.split()
    if len(words) > MOST_WORDS:
        problems.append(("text", f"The first {MOST_WORDS} words of {whole(len(words))} are drawn."))
    typed = tuple(words[:MOST_WORDS])
    count = len(typed)
    order = tuple(range(count))
    if scene["perm"]:
        asked = scene["perm"].split(".")
        if sorted(asked) == sorted(map(str, order)):
            order = tuple(map(int, asked))
        else:
            note = f"An order names each place from 0 to {count - 1} once, such as {_written(order[::-1])}."
            problems.append(("perm", note))
    cell = min(scene["qw"], count - 1), min(scene["kw"], count - 1)
    return _Sentence(typed, order, cell), problems


def _written(order: tuple[int, ...]) -> str:
    return ".".join(map(str, order))


def _chips(sentence: _Sentence) -> Chips:
    """The words, and one click that exchanges two: the two names, or else the first and the last."""
    typed = range(len(sentence.typed))
    names = [n for n in typed if sentence.typed[n][:1].isupper()]
    first, last = (names[0], names[-1]) if len(names) > 1 else (typed[0], typed[-1])
    swapped = tuple(last if n == first else first if n == last else n for n in typed)
    links = [
        Link(
            " ".join(sentence.typed[n] for n in order),
            {"perm": _written(order) if order != tuple(typed) else None},
        )
        for order in (tuple(typed), swapped)
        if order != sentence.order
    ]
    return Chips(
        "words",
        "Drag a word to another place, or take",
        sentence.words,
        sentence.order,
        "perm",
        tuple(links),
    )


# --- where queries and keys come from -------------------------------------------------------------


def content_of(scene: Scene, words: tuple[str, ...]) -> Content:
    """What the words bring, from the source that the state names."""
    stored = scene.session.heads
    if scene["qk"] == "file" and stored is not None:
        head = scene["hd"] % len(stored.q)
        rows = slice(0, len(words))
        q, k, v = (side[head, rows] for side in (stored.q, stored.k, stored.v))
        return from_arrays(words, q, k, v, name=stored.name, head=(head, len(stored.q)))
    if scene["qk"] in ("previous", "content"):
        return _trained(words, scene["qk"])
    spec: Any = scene.a.spec
    wide = HEAD if spec.kind == "bias" else int(spec.dim)
    dim = wide if spec.kind in ("rotary", "relative") else max(2, min(wide - wide % 2, HEAD))
    return _random(words, dim, wide, scene["hd"] % 8)


@functools.lru_cache(maxsize=32)
def _random(words: tuple[str, ...], dim: int, width: int, head: int) -> Content:
    return random_content(words, dim, width=width, head=head)


@functools.lru_cache(maxsize=32)
def _trained(words: tuple[str, ...], name: str) -> Content:
    return trained_content(words, name)


def _fitted(entry: CatalogueEntry, own: Any, content: Content) -> Chosen:
    """An encoding of the sizes of the head."""
    size = content.width if entry.kind == "table" else content.dim
    return made(
        entry, {**samples(entry), **own, "s": 0, "L": ROWS, "d": size, "heads": content.heads}
    )


def _column(scene: Scene, key: str, sentence: _Sentence, content: Content, causal: bool) -> _Column:
    name = scene.a.entry.id if key == "enc" else scene[key]
    entries = {**catalogue.by_id(), **{e.id: e for e in scene.session.entries}}
    label = entries[name].label if name in entries else "no positions"
    more: dict[str, Any] = {"order": sentence.order, "shift": scene["shift"], "join": scene["join"]}
    try:
        chosen = None
        if name in entries:
            chosen = _fitted(entries[name], scene.a.values if key == "enc" else {}, content)
        spec, params = (None, None) if chosen is None else (chosen.spec, chosen.params)
        view = attention.data(
            spec, content, causal=causal, dtype=scene["prec"], params=params, **more
        )
        parts = attention.parts(spec, content, sentence.cell, params=params, **more)
    except PosencError as error:
        return _Column(key, label, None, None, None, str(error))
    return _Column(key, label, chosen, view, parts)


# --- the pictures ---------------------------------------------------------------------------------


def _lead(scene: Scene, content: Content) -> str:
    how = f"A head of {content.dim} numbers, computed in {scene['prec']}."
    return f"{content.origin} {how}"


def _grids(
    scene: Scene, sentence: _Sentence, columns: list[_Column], causal: bool, say: str
) -> Attention:
    finite = [c.view.scores[np.isfinite(c.view.scores)] for c in columns if c.view]
    limit = max((float(np.abs(s).max()) for s in finite if s.size), default=1.0) or 1.0
    outputs = [c.view.outputs for c in columns if c.view] + [
        c.view.before for c in columns if c.view
    ]
    largest = max((float(np.abs(o[:, :NUMBERS]).max()) for o in outputs), default=1.0) or 1.0
    by_word = sorted(range(len(sentence.typed)), key=lambda n: (sentence.typed[n].lower(), n))
    equal = number(attention.EQUAL[scene["prec"]], 1)
    shown = min(NUMBERS, outputs[0].shape[1]) if outputs else NUMBERS
    caption = (
        "Each row of the softmax is scaled by its own largest number. "
        if scene["softmax"]
        else f"Scores before the softmax on one scale, up to ±{number(limit, 3)}. "
    )
    caption += "Hatched: later words, which a causal mask takes away. " if causal else ""
    caption += (
        f"Below, what each word gets, sorted by word: the first {shown} numbers, in the order typed and "
        f"in the order of now. A line joins those that are equal (to {equal} of the largest)."
    )
    return Attention(
        "attention",
        "",
        tuple(_cell(scene, c, sentence, by_word, (limit, largest), say) for c in columns),
        "diverging",
        ("as typed", "now"),
        caption,
    )


def _cell(
    scene: Scene,
    column: _Column,
    sentence: _Sentence,
    by_word: list[int],
    limits: tuple[float, float],
    say: str,
) -> AttentionCell:
    words, view, count = sentence.words, column.view, len(sentence.typed)
    i, j = sentence.cell
    scores = np.full((count, count), np.nan) if view is None else view.scores
    weights = scores if view is None else view.weights / view.weights.max(axis=-1, keepdims=True)
    drawn = weights if scene["softmax"] else scores
    tile = palette.indices(scores, limits[0])
    if scene["softmax"]:
        tile = np.rint(np.nan_to_num(weights) * 255).astype(np.uint8)
    missing = ~np.isfinite(scores)
    ticks = tuple(Tick(n + 0.5, _short(word)) for n, word in enumerate(words))
    grid = Heatmap(
        id=f"{column.key}-{column.label}",
        title=column.label,
        tile=tile,
        lut="sequential" if scene["softmax"] else "diverging",
        x=Axis("key", (0, count), ticks, cells=True, key="kw", at=j),
        y=Axis("query", (0, count), ticks, cells=True, key="qw", at=i),
        low="0" if scene["softmax"] else number(-limits[0], 3),
        high="largest of its row" if scene["softmax"] else number(limits[0], 3),
        mask=missing.astype(np.uint8) if missing.any() else None,
        label=f"{column.label}, queries down, keys across. {say}",
        place="full",
        values=drawn,
        limit=limits[0],
    )
    if view is None:
        return AttentionCell(column.key, grid, column.problem)
    labels = tuple(_short(sentence.typed[n]) for n in by_word)
    before, after = (
        palette.indices(rows[by_word, :NUMBERS], limits[1]) for rows in (view.before, view.outputs)
    )
    equal = tuple(bool(view.equal[n]) for n in by_word)
    return AttentionCell(
        column.key, grid, _change(scene, view), labels, before, after, equal, _told(sentence, view)
    )


def _change(scene: Scene, view: AttentionView) -> str:
    if not scene["shift"]:
        return "Not shifted."
    what = f"After the shift by {whole(scene['shift'])}: "
    if view.change == 0:
        return what + "no change, the same bits."
    return what + f"largest change {number(view.change, 2)}."


def _told(sentence: _Sentence, view: AttentionView) -> str:
    """What moving words did to the outputs."""
    if sentence.order == tuple(range(len(sentence.order))):
        return "No word has moved."
    same, count = int(view.equal.sum()), len(view.equal)
    apart = f"largest difference {number(view.moved, 2)}" if view.moved else "the same bits"
    if same == count:
        return f"The same outputs, a bag of words ({apart})."
    return f"{whole(same)} of {count} words get the same ({apart})."


def _short(word: str) -> str:
    return word if len(word) <= 9 else f"{word[:8]}…"


def _terms(columns: list[_Column], pair: str) -> list[Panel]:
    """What each pair adds to the score under the cursor, of the first rotation."""
    column = next((c for c in columns if c.parts is not None and c.parts.pairs is not None), None)
    if column is None or column.parts is None or column.parts.pairs is None:
        return []
    terms = column.parts.pairs
    low, high = spread(min(float(terms.min()), 0.0), max(float(terms.max()), 0.0))
    return [
        Chart(
            id="terms",
            title=f"{pair}: what each pair of {column.label} adds to {number(float(terms.sum()))}",
            x=cells("pair, from fast to slow", 0, len(terms)),
            y=values("", low, high),
            series=(
                Series("term", np.arange(len(terms)) + 0.5, terms.astype(np.float32), draw="bars"),
            ),
            height=110,
            label="What each pair adds to the score of the cell",
        )
    ]


def _joined(
    scene: Scene, sentence: _Sentence, content: Content, columns: list[_Column]
) -> list[Panel]:
    """Adding a table is appending it with tied weights, drawn for the query of the cursor."""
    column = next(
        (c for c in columns if c.chosen is not None and c.chosen.spec.kind == "table"), None
    )
    if column is None or column.chosen is None or column.chosen.spec.width != content.width:
        return []
    place = sentence.cell[0]
    word, at = sentence.order[place], place + scene["shift"]
    try:
        both = attention.joined(column.chosen.spec, content, word, at, params=column.chosen.params)
    except PosencError:
        return []
    limit = max(float(np.abs(both.added).max()), 1e-300)
    rows = (("(x + p) W", both.added), ("[x, p] with W over W", both.appended))
    return [
        Strips(
            "joined",
            f"adding = appending with tied weights: the query of “{sentence.typed[word]}” at {whole(at)}",
            tuple(
                Strip(
                    label,
                    palette.indices(row[:NUMBERS], limit),
                    tuple(signed(float(x), 2) for x in row[:NUMBERS]),
                )
                for label, row in rows
            ),
            "diverging",
            number(-limit, 3),
            number(limit, 3),
            caption=f"{column.label}: x is what the word brings, p the row of the table, W the projection. "
            f"Largest difference {number(both.apart, 2)}, in float64. Appended with weights of its own, a "
            "table can be read apart from the words: “A table is appended” draws that, with random ones.",
        )
    ]


# --- the cell under the cursor --------------------------------------------------------------------


def _readout(columns: list[_Column], sentence: _Sentence, pair: str) -> tuple[Block, ...]:
    i, j = sentence.cell
    blocks: list[Block] = [Heading(pair)]
    blocks.append(Fact("Key − query", f"{whole(j)} − {whole(i)} = {whole(j - i)}"))
    for column in columns:
        blocks.append(Heading(column.label))
        if column.view is None or column.parts is None:
            blocks.append(Prose(column.problem))
            continue
        parts = column.parts
        if len(parts.terms) > 1:
            blocks += [Fact(name, signed(x, 4)) for name, x in parts.terms]
        if parts.slope is not None:
            blocks.append(
                Fact("slope × distance", f"{signed(-parts.slope, 4)} × {whole(abs(j - i))}")
            )
        if parts.pairs is not None:
            blocks.append(Fact("sum over", plural(len(parts.pairs), "pair")))
        blocks.append(Fact("score", signed(sum(x for _, x in parts.terms), 4)))
        weight = float(column.view.weights[i, j])
        blocks.append(Fact("attention", number(weight, 3) if weight else "masked"))
        if column.chosen is not None and column.chosen.random:
            blocks.append(Prose("What it learns is a random start of seed 0."))
    blocks.append(
        Prose("Scores are divided by the root of the head's width, as they enter the softmax.")
    )
    return tuple(blocks)


def _numbers(columns: list[_Column], sentence: _Sentence) -> dict[str, Any]:
    i, _ = sentence.cell
    drawn = [(c.label, c.view) for c in columns if c.view is not None]
    return {
        "caption": f"scores of the query “{sentence.words[i]}”",
        "columns": ["key", *(label for label, _ in drawn)],
        "rows": [
            [word, *(signed(float(view.scores[i, j])) for _, view in drawn)]
            for j, word in enumerate(sentence.words)
        ],
    }
