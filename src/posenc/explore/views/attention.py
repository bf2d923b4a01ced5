"""Attention: what one head sees of a sentence, under four encodings side by side."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from posenc._core.errors import PosencError
from posenc.explore import snippets
from posenc.explore.attention_panels import (
    EncodingColumn,
    TypedSentence,
    chips,
    grids,
    inputs,
    readout,
    terms,
    written,
)
from posenc.explore.state import catalogue
from posenc.explore.state.entry import made, samples
from posenc.explore.state.fields import Option, choice, integer, switch, text
from posenc.explore.state.scene import Page, Scene, ViewShape
from posenc.plot.content import Content, from_arrays, random_content, sizes_of, trained_content
from posenc.plot.panels.grammar import stops
from posenc.plot.panels.text import number, signed, whole
from posenc.plot.views import attention

FARTHEST = 4096
ROWS = 512  # of a learned table
MOST_WORDS, LEAST_WORDS = 12, 2
HEAD = 64
RANDOM_HEADS = 8
PLACES = {"e1": "none", "e2": "sinusoidal", "enc": "rope", "e4": "alibi"}
TEXT = text("text", "Sentence", "John likes Jane very much", 400)


def _options(**labels: str) -> tuple[Option, ...]:
    return tuple(map(Option, labels, labels.values()))


SOURCES = _options(
    random="random vectors",
    previous="a previous-token head",
    content="a content head",
    file="those of a file",
)
PAST = _options(own="as the head was trained", seen="are seen", masked="are masked (causal)")
DTYPES = _options(float32="float32", float64="float64")


def _dead(scene: Scene) -> Iterator[str]:
    """The sizes that the source of queries and keys decides, and what no encoding asks for."""
    yield "heads"
    if scene["qk"] != "random":
        yield "d"
    if not _heads(scene):
        yield "hd"
    every = [scene.a.entry, *(catalogue.by_id().get(scene[key]) for key in PLACES if key != "enc")]
    if not any(entry is not None and entry.kind == "table" for entry in every):
        yield "sum"
    if getattr(scene.a.spec, "output_dim", 0) != getattr(scene.a.spec, "dim", 0):
        yield "pairing"  # each channel is a pair


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
            SOURCES,
            "previous",
            hint="Two heads of a small trained model come with posenc.",
        ),
        integer("hd", "Head", 0, 0, 255, gently=True, hint="Of random vectors or of a file."),
        integer(
            "shift",
            "Shift by",
            100,
            0,
            FARTHEST,
            scale="log",
            plays=True,
            hint="All words stand this many positions later.",
        ),
        switch("softmax", "Softmax", "1"),
        choice("past", "Later words", PAST, "own"),
        switch("sum", "Step by step", hint="What reaches the model, and what each pair adds."),
        choice("prec", "Computed in", DTYPES, "float32"),
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
    compares=False,  # four of them stand beside each other as it is
    dead=_dead,
    first=("text", "qk", "shift"),
)


def show(scene: Scene) -> Page:
    """The words, four grids with their outputs, and what the score of a cell consists of."""
    sentence, problems = _sentence(scene)
    every = [_column(scene, key, sentence) for key in PLACES]
    columns = [column for column in every if column.view is not None]
    i, j = sentence.cell
    scores = (
        f"{c.label} {number(float(c.view.scores[i, j]), 3)}" for c in every if c.view is not None
    )
    say = f"{sentence.pair}: {', '.join(scores)}"
    own = next((c.chosen for c in columns if c.key == "enc"), None)
    last = len(sentence.typed) - 1
    return Page(
        lead=f"{sentence.content.origin} A head of {sentence.content.dim} numbers, computed in "
        f"{scene['prec']}.",
        panels=(
            *[
                chips(sentence),
                *inputs(scene, columns, sentence),
                grids(scene, sentence, every, say),
            ],
            *terms(scene, columns, sentence),
        ),
        readout=readout(every, sentence),
        say=say,
        cursor={
            "x": stops("kw", j, 0, last),
            "y": stops("qw", i, 0, last),
        },
        python=snippets.attention(
            scene if own is None else replace(scene, a=own),
            sentence.content,
            sentence.order,
            causal=_causal(scene, sentence.content),
        ),
        table=_numbers(columns, sentence),
        problems=tuple(problems),
    )


def _numbers(columns: list[EncodingColumn], sentence: TypedSentence) -> dict[str, Any]:
    i = sentence.cell[0]
    return {
        "caption": f"scores of the query “{sentence.words[i]}”",
        "columns": ["key", *(c.label for c in columns)],
        "rows": [
            [word, *(signed(float(c.view.scores[i, n])) for c in columns if c.view is not None)]
            for n, word in enumerate(sentence.words)
        ],
    }


# --- the words and what they bring ----------------------------------------------------------------


def _sentence(scene: Scene) -> tuple[TypedSentence, list[tuple[str, str]]]:
    problems: list[tuple[str, str]] = []
    stored, words = scene.session.heads, scene["text"].split()
    count = len(words)
    if scene["qk"] == "file" and stored is None:
        problems.append(("qk", "No file was named: posenc explore --qk FILE. Drawn at random."))
    elif scene["qk"] == "file" and stored is not None:
        words = list(stored.tokens or map(str, range(stored.q.shape[1])))
        count = stored.total or len(words)
    if len(words) < LEAST_WORDS:
        problems.append(
            ("text", f"A sentence has at least {LEAST_WORDS} words. Drawn with ‘{TEXT.default}’.")
        )
        words = TEXT.default.split()
    if len(words) > MOST_WORDS:
        problems.append(("text", f"The first {MOST_WORDS:,} words of {whole(count)} are drawn."))
    typed = tuple(words[:MOST_WORDS])
    last, order, asked = len(typed) - 1, tuple(range(len(typed))), scene["perm"].split(".")
    if sorted(asked) == sorted(map(str, order)):
        order = tuple(map(int, asked))
    elif scene["perm"]:
        note = f"An order names each place from 0 to {last} once, such as {written(order[::-1])}."
        problems.append(("perm", note))
    content, heads = _content(scene, typed), _heads(scene)
    if heads and scene["hd"] >= heads:
        note = f"Head {scene['hd']}: there are heads 0 to {heads - 1}. Drawn with {content.head}."
        problems.append(("hd", note))
    return TypedSentence(
        typed, order, (min(scene["qw"], last), min(scene["kw"], last)), content
    ), problems


def _heads(scene: Scene) -> int:
    """Of how many heads one is chosen; 0 where the source is one head."""
    if scene["qk"] in ("previous", "content"):
        return 0
    stored = scene.session.heads if scene["qk"] == "file" else None
    return RANDOM_HEADS if stored is None else len(stored.q)


def _content(scene: Scene, words: tuple[str, ...]) -> Content:
    """What the words bring, from the source that the state names."""
    stored = scene.session.heads
    if scene["qk"] == "file" and stored is not None:
        head = scene["hd"] % len(stored.q)
        q, k, v = (side[head, : len(words)] for side in (stored.q, stored.k, stored.v))
        return from_arrays(words, q, k, v, name=stored.name, head=(head, len(stored.q)))
    if scene["qk"] in ("previous", "content"):
        return _trained(words, scene["qk"])
    dim, width = sizes_of(scene.a.spec)
    own = scene.session.embeddings
    rows = None if own is None else (own.name, own.rows)
    return random_content(words, dim, width=width, head=scene["hd"] % RANDOM_HEADS, stored=rows)


def _causal(scene: Scene, content: Content) -> bool:
    return content.causal if scene["past"] == "own" else bool(scene["past"] == "masked")


_trained = functools.lru_cache(maxsize=32)(trained_content)


def _column(scene: Scene, key: str, sentence: TypedSentence) -> EncodingColumn:
    """An encoding, made for the sizes of the head, at work."""
    content = sentence.content
    entries = {**catalogue.by_id(), **{e.id: e for e in scene.session.entries}}
    entry = scene.a.entry if key == "enc" else entries.get(scene[key])
    label, chosen = "no positions" if entry is None else entry.label, None
    more: dict[str, Any] = {"order": sentence.order, "shift": scene["shift"]}
    try:
        if entry is not None:
            size = content.width if entry.kind == "table" else content.dim
            own = {"s": 0, "L": ROWS, "d": size, "heads": content.heads}
            start = scene.a.values if key == "enc" else {}
            chosen = made(entry, {**samples(entry), **start, **own})
            more["params"] = chosen.params
        spec = None if chosen is None else chosen.spec
        how: dict[str, Any] = {"causal": _causal(scene, content), "dtype": scene["prec"]}
        view = attention.data(
            spec, content, softmax="rows" if scene["softmax"] else "none", **how, **more
        )
        parts = attention.parts(spec, content, sentence.cell, **more)
    except PosencError as error:
        return EncodingColumn(key, label, problem=str(error))
    return EncodingColumn(key, label, chosen, view, parts)
