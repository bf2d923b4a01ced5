"""Sentence: what reaches the model, word by word, and what is lost without positions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc._core.numeric.random_vectors import random_vectors
from posenc.explore import snippets
from posenc.explore.state.fields import integer, switch, text
from posenc.explore.state.scene import Page, Scene, ViewShape
from posenc.functional import add, table
from posenc.plot import palette
from posenc.plot.panels.axes import stops
from posenc.plot.panels.grammar import Block, Datum, Heading, Paragraphs, Prose, Strip, Strips
from posenc.plot.panels.text import number, plural, signed, whole

MOST_WORDS = 48
LONGEST = 400
TEXT = text("text", "Sentence", "the dog chased the cat", LONGEST)
SHAPE = ViewShape(
    "sentence",
    "Sentence",
    "What reaches the model?",
    "sinusoidal",
    (
        TEXT,
        switch("scale", "Embeddings times √d", "1"),
        switch("swap", "Swap two words"),
        integer("one", "First of them", 1, 0, MOST_WORDS - 1, gently=True),
        integer("two", "Second of them", 4, 0, MOST_WORDS - 1, gently=True),
        integer("t", "Word", 1, 0, MOST_WORDS - 1, gently=True, section="cursor"),
        integer("seed", "Seed of the embeddings", 0, 0, 2**31 - 1),
    ),
    defaults={"d": "32"},
    cursor=("j",),
    most={"d": 4096},  # every cell of every word is drawn
)


@dataclass(frozen=True)
class _Input:
    """What is drawn: the words, their rows, and the cell under the cursor."""

    words: list[str]
    scaled: np.ndarray
    encoding: np.ndarray
    place: int
    j: int
    limit: float

    @property
    def total(self) -> np.ndarray:
        """What reaches the model."""
        return self.scaled + self.encoding

    def rows(self, n: int) -> dict[str, np.ndarray]:
        """Embedding, position and sum of a word, by the signs that stand before them."""
        return {"": self.scaled[n], "+": self.encoding[n], "=": self.total[n]}

    def cell(self, digits: int = 4) -> tuple[str, str, str]:
        """The numbers under the cursor: embedding, position, sum."""
        at = self.place, self.j
        first, second = float(self.scaled[at]), float(self.encoding[at])
        return signed(first, digits), signed(second, digits), signed(first + second, digits)


def show(scene: Scene) -> Page:
    """The strips E, PE and X of one word, of all words, and the sentence with two words swapped."""
    words, problems = _words(scene)
    ends = _ends(words, scene)
    swapped = _swapped(words, *ends)
    shown = swapped if scene["swap"] else words
    embeddings, origin = _embeddings(scene, shown)
    scale = float(np.sqrt(scene.a.spec.dim)) if scene["scale"] else 1.0
    scaled = embeddings * scale
    encoding = np.asarray(
        table(scene.a.spec, len(words), params=scene.a.params, dtype="float64"), dtype=np.float64
    )
    limit = max(float(np.abs(part).max()) for part in (scaled, encoding, scaled + encoding)) or 1.0
    place, j = min(scene["t"], len(words) - 1), min(scene["j"], scene.a.spec.dim - 1)
    inputs = _Input(shown, scaled, encoding, place, j, limit)
    first, second, both = inputs.cell()
    say = f"“{shown[place]}” at position {place}, dimension {j}: {first} + {second} = {both}"
    return Page(
        lead=f"{plural(len(words), 'word')}, each a row of {scene.a.spec.dim} numbers. {origin}",
        panels=(_sum(inputs, scene), _all_words(inputs), _swap(scene, words, swapped, scale)),
        readout=_readout(inputs),
        say=say,
        cursor={
            "x": stops("j", j, 0, scene.a.spec.dim - 1),
            "y": stops("t", place, 0, len(words) - 1),
        },
        python=snippets.sentence(scene, shown),
        table=_numbers(inputs),
        problems=problems,
        drawn=dict(zip(("one", "two"), ends, strict=True)),
    )


def embedded(scene: Scene) -> tuple[list[str], np.ndarray]:
    """The words as they stand, and what reaches the table: rows before its own factor on them."""
    words, _ = _words(scene)
    shown = _swapped(words, *_ends(words, scene)) if scene["swap"] else words
    rows, _ = _embeddings(scene, shown)
    scale = float(np.sqrt(scene.a.spec.dim)) if scene["scale"] else 1.0
    return shown, rows * scale / (scene.a.spec.embedding_scale or 1.0)


def _words(scene: Scene) -> tuple[list[str], tuple[tuple[str, str], ...]]:
    words = scene["text"].split()
    if not words:
        note = f"A sentence has at least one word. Drawn with ‘{TEXT.default}’."
        return TEXT.default.split(), (("text", note),)
    limits = getattr(scene.a.spec, "limits", None)
    most = min(MOST_WORDS, int(limits[0]) if limits else MOST_WORDS)
    if len(words) > most:
        note = f"The first {plural(most, 'word')} of {whole(len(words))} are drawn."
        return words[:most], (("text", note),)
    return words, ()


def _ends(words: list[str], scene: Scene) -> tuple[int, int]:
    """The two words that change places; of a shorter sentence the first and the last."""
    one, two = scene["one"], scene["two"]
    return (one, two) if max(one, two) < len(words) else (0, len(words) - 1)


def _swapped(words: list[str], one: int, two: int) -> list[str]:
    changed = list(words)
    changed[one], changed[two] = changed[two], changed[one]
    return changed


def _embeddings(scene: Scene, words: list[str]) -> tuple[np.ndarray, str]:
    """A row for each word, and where it comes from."""
    dim = scene.a.spec.dim
    stored = scene.session.embeddings
    if stored is not None and stored.rows.shape[1] == dim:
        # Words meet rows in the order in which they first stand in the sentence typed.
        order = {w: n for n, w in enumerate(dict.fromkeys(scene["text"].split()))}
        rows = [order.get(word, 0) % len(stored.rows) for word in words]
        origin = f"Embeddings are rows of {stored.name}, in the order of new words."
        return stored.rows[rows], origin
    random = random_vectors(words, dim, scene["seed"]).astype(np.float64) / np.sqrt(dim / 3)
    origin = f"Embeddings are random numbers of seed {scene['seed']}, the same for the same word."
    if stored is not None:
        wide = stored.rows.shape[1]
        origin += f" {stored.name} is {wide} wide, not {dim}: set d to {wide} to use it."
    return random, origin


def _sum(inputs: _Input, scene: Scene) -> Strips:
    factor = "√d × embedding" if scene["scale"] else "embedding"
    first, second, both = inputs.cell()
    labels = {"": factor, "+": f"position {inputs.place}", "=": "input"}
    strips = []
    for sign, row in inputs.rows(inputs.place).items():
        numbers = tuple(signed(float(x), 2) for x in row) if len(row) <= 128 else ()
        tile = palette.indices(row, inputs.limit)
        strips.append(Strip(labels[sign], tile, numbers, sign, "j", inputs.j))
    return Strips(
        "sum",
        f"“{inputs.words[inputs.place]}” at position {inputs.place}",
        tuple(strips),
        "diverging",
        number(-inputs.limit, 3),
        "+" + number(inputs.limit, 3),
        caption=f"Dimension {inputs.j}: {first} + {second} = {both}",
    )


def _all_words(inputs: _Input) -> Strips:
    strips = []
    for n, word in enumerate(inputs.words):
        label = f"{'▸ ' if n == inputs.place else ''}{n} {word}"
        for sign, row in inputs.rows(n).items():
            tile = palette.indices(row, inputs.limit)
            strips.append(Strip("" if sign else label, tile, (), sign, "j", inputs.j))
    return Strips(
        "words",
        "every word: embedding + position = input",
        tuple(strips),
        "diverging",
        number(-inputs.limit, 3),
        "+" + number(inputs.limit, 3),
    )


def _swap(scene: Scene, words: list[str], swapped: list[str], scale: float) -> Paragraphs:
    """Whether the set of rows changes when two words change places."""
    spec, params = scene.a.spec, scene.a.params
    before, after = (_embeddings(scene, w)[0] * scale for w in (words, swapped))
    plain = (rows / (spec.embedding_scale or 1.0) for rows in (before, after))  # a switch here
    same_without = _same_rows(before, after)
    same_with = _same_rows(*(np.asarray(add(spec, rows, params=params)) for rows in plain))
    paragraphs = [
        f"{' '.join(words)}  →  {' '.join(swapped)}",
        "Without positions the model gets "
        + ("the same rows in another order: it cannot tell." if same_without else "other rows."),
        "With positions it gets "
        + ("the same rows." if same_with else "other rows: it can tell who did what."),
    ]
    if words == swapped:
        paragraphs.append("The two words are equal or the same one: nothing was swapped.")
    return Paragraphs("swap", "swap two words", tuple(paragraphs))


def _same_rows(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two sets of rows are the same, in whatever order."""
    first, second = (rows[np.lexsort(rows.T[::-1])] for rows in (a, b))
    return bool(np.array_equal(first, second))


def _readout(inputs: _Input) -> tuple[Block, ...]:
    first, second, both = inputs.cell(6)
    size = float(np.sqrt((inputs.scaled**2).mean()))
    of_encoding = float(np.sqrt((inputs.encoding**2).mean()))
    ratio = of_encoding / size if size else float("inf")
    return (
        Heading(f"“{inputs.words[inputs.place]}”, position {inputs.place}, dimension {inputs.j}"),
        Datum("Embedding", first),
        Datum("Position", second),
        Datum("Input", both),
        Heading("Sizes (root mean square)"),
        Datum("Embeddings", number(size)),
        Datum("Positions", number(of_encoding)),
        Datum("Positions over embeddings", number(ratio, 3)),
        Prose(
            "The sum keeps the width; the model learns to tell both parts apart. How large the "
            "positions are beside the embeddings depends on the factor √d."
        ),
    )


def _numbers(inputs: _Input) -> dict[str, Any]:
    at = inputs.place
    parts = inputs.rows(at).values()
    rows = [
        [str(j), *(signed(row[j]) for row in parts)] for j in range(min(20, len(inputs.total[at])))
    ]
    return {
        "caption": f"“{inputs.words[at]}” at position {at}",
        "columns": ["dimension", "embedding", "position", "input"],
        "rows": rows,
    }


def on_paper(scene: Scene) -> tuple[str, dict[str, Any]]:
    """The picture of `posenc.plot` that shows the same, and its arguments."""
    words, rows = embedded(scene)
    return "sum", {"tokens": tuple(words), "embeddings": rows}
