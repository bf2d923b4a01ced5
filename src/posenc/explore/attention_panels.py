"""What the attention view is drawn with: words, grids, strips, and the cell of the cursor."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from posenc.explore.state.entry import Chosen
from posenc.explore.state.scene import Scene
from posenc.plot import palette
from posenc.plot.content import Content
from posenc.plot.panels.grammar import (
    AttentionCell,
    AttentionPanel,
    Block,
    Chart,
    Chips,
    Datum,
    Heading,
    Heatmap,
    Link,
    Panel,
    Prose,
    Series,
    Strip,
    Strips,
    cells,
    float32,
    under,
    values,
    words,
)
from posenc.plot.panels.text import number, plural, present, signed, spread, whole
from posenc.plot.views import attention, sum as sums

NUMBERS = 16  # of an output that are drawn


@dataclass(frozen=True)
class TypedSentence:
    """The words as typed, the order in which they stand, the cell of the cursor, their content."""

    typed: tuple[str, ...]
    order: tuple[int, ...]
    cell: tuple[int, int]
    content: Content

    @property
    def words(self) -> tuple[str, ...]:
        """The words as they stand."""
        return tuple(self.typed[place] for place in self.order)

    @property
    def pair(self) -> str:
        """The query and the key of the cursor."""
        i, j = self.cell
        return f"“{self.words[i]}” looks at “{self.words[j]}”"


@dataclass(frozen=True)
class EncodingColumn:
    """One of the encodings, and what it does; or why it does nothing here."""

    key: str
    label: str
    chosen: Chosen | None = None
    view: attention.AttentionView | None = None
    parts: attention.ScoreParts = attention.ScoreParts(())
    problem: str = ""


def written(order: tuple[int, ...]) -> str:
    """An order as the address holds it."""
    return ".".join(map(str, order))


def chips(sentence: TypedSentence) -> Chips:
    """The words, and one click that exchanges two: names, or else the first and the last."""
    typed = tuple(range(len(sentence.typed)))
    names = [n for n in typed if sentence.typed[n][:1].isupper()]
    names = names[len(names) > 2 and not names[0] :]  # a first word may be no name
    ends = (names[0], names[-1]) if len(names) > 1 else (typed[0], typed[-1])
    other = dict(zip(ends, ends[::-1], strict=True))
    swapped = tuple(other.get(n, n) for n in typed)
    return Chips(
        id="words",
        title="Drag a word to another place, or take",
        words=sentence.words,
        order=sentence.order,
        key="perm",
        links=tuple(
            Link(" ".join(sentence.typed[n] for n in order), {"perm": state})
            for order, state in ((typed, None), (swapped, written(swapped)))
            if order != sentence.order
        ),
    )


def grids(
    scene: Scene, sentence: TypedSentence, every: list[EncodingColumn], say: str
) -> AttentionPanel:
    """Scores and outputs under every encoding, on one scale each."""
    views = [column.view for column in every if column.view is not None]
    limit = max((palette.largest(view.scores) for view in views), default=0.0) or 1.0
    outputs = [rows[:, :NUMBERS] for view in views for rows in (view.before, view.outputs)]
    most = max(map(palette.largest, outputs), default=0.0) or 1.0
    shares = "One scale for all, from 0 to 1: each row adds up to 1."
    scores = f"Scores before the softmax on one scale, up to ±{number(limit, 3)}."
    caption = shares if scene["softmax"] else scores
    if any(not np.isfinite(view.scores).all() for view in views):
        caption += " Hatched: words that are not seen."
    return AttentionPanel(
        "attention",
        "",
        tuple(_cell(scene, column, sentence, (limit, most), say) for column in every),
        ("as typed", "now"),
        caption=f"{caption} Below is what each word gets, sorted by word, {NUMBERS} numbers at "
        "most: at the left in the order typed, at the right in the present one, both from position "
        "0. A line joins equal ones (to "
        f"{number(attention.EQUAL[scene['prec']], 1)} of the largest).",
    )


def _cell(
    scene: Scene,
    column: EncodingColumn,
    sentence: TypedSentence,
    limits: tuple[float, float],
    say: str,
) -> AttentionCell:
    plain = _grid(column, sentence, 1.0 if scene["softmax"] else limits[0])
    grid = under(
        replace(
            plain,
            id=f"{column.key}-{column.label}",
            title=column.label,
            label=f"{column.label}, queries down, keys across. {say}",
            x=replace(plain.x, key="kw"),
            y=replace(plain.y, key="qw"),
        ),
        *sentence.cell[::-1],
    )
    view = column.view
    if view is None:
        return AttentionCell(column.key, grid, column.problem)
    by_word = sorted(range(len(sentence.typed)), key=lambda n: (sentence.typed[n].lower(), n))
    before, after = (
        palette.indices(rows[by_word, :NUMBERS], limits[1]) for rows in (view.before, view.outputs)
    )
    return AttentionCell(
        column.key,
        grid,
        _change(scene, view),
        tuple(attention.short(sentence.typed[n]) for n in by_word),
        before,
        after,
        tuple(bool(view.equal[n]) for n in by_word),
        _outcome(scene, column, view, sentence),
    )


def _grid(column: EncodingColumn, sentence: TypedSentence, limit: float) -> Heatmap:
    """What an encoding does to the words, on the scale of all; nothing where it does not suit."""
    if column.view is not None:
        return attention.panels(replace(column.view, limit=limit))[0]
    names, count = words("", tuple(map(attention.short, sentence.words))), len(sentence.words)
    empty = np.zeros((count, count), dtype=np.uint8)
    return Heatmap("", "", empty, "sequential", names, names, "0", number(limit, 3), mask=empty + 1)


def _rounding(scene: Scene, numbers: np.ndarray) -> float:
    """What rounding may change of some numbers: a bound, as how much it does is luck."""
    return attention.EQUAL[scene["prec"]] * palette.largest(numbers)


def _change(scene: Scene, view: attention.AttentionView) -> str:
    what = f"After the shift by {whole(scene['shift'])}" if scene["shift"] else "Not shifted"
    bound, size = _rounding(scene, view.scores), number(view.change, 2)
    some = f"up to {size}." if view.change > bound else f"≤ {number(bound, 2)}, rounding."
    return f"{what}: scores {f'change by {some}' if view.change else 'keep the same bits.'}"


def _outcome(
    scene: Scene,
    column: EncodingColumn,
    view: attention.AttentionView,
    sentence: TypedSentence,
) -> str:
    """What moving words did to the outputs."""
    if view.order == tuple(range(len(view.order))):
        return "No word has moved."
    brought = (sentence.content.q, sentence.content.k, sentence.content.v)
    if all(np.array_equal(side[list(sentence.order)], side) for side in brought):
        return "Equal words have changed places: the sentence is the same."
    alike, bound = int(view.equal.sum()), number(_rounding(scene, view.before), 2)
    # An encoding may take a sentence for its mirror image and yet tell other orders apart.
    return (
        f"The same outputs{', a bag of words' if column.chosen is None else ''} (largest "
        f"difference ≤ {bound}, rounding)."
        if view.equal.all()
        else f"{whole(alike)} of {len(view.equal)} words get the same (largest difference "
        f"{number(view.moved, 2)})."
    )


def terms(scene: Scene, columns: list[EncodingColumn], sentence: TypedSentence) -> list[Panel]:
    """What each pair adds to the score under the cursor, of the first rotation."""
    label, terms = next(
        ((c.label, c.parts.pairs) for c in columns if c.parts.pairs is not None), ("", None)
    )
    if terms is None or not scene["sum"]:
        return []
    low, high = spread(min(float(terms.min()), 0.0), max(float(terms.max()), 0.0))
    title = f"{sentence.pair}: what each pair of {label} adds to {number(float(terms.sum()))}"
    bars = Series("term", np.arange(len(terms)) + 0.5, float32(terms), draw="bars")
    x = cells("pair, from fast to slow", 0, len(terms))
    return [Chart("terms", title, x, values("", low, high), (bars,), height=110, label=title)]


def inputs(scene: Scene, columns: list[EncodingColumn], sentence: TypedSentence) -> list[Panel]:
    """Embedding + position = input under the first table, and that adding is appending."""
    every = (
        c.chosen
        for c in sorted(columns, key=lambda column: column.key != "enc")
        if c.chosen is not None and c.chosen.spec.kind == "table"
    )
    chosen = next(every, None) if scene["sum"] else None
    if chosen is None:
        return []
    more: dict[str, Any] = {"offset": scene["shift"], "params": chosen.params}
    data = sums.data(
        chosen.spec,
        sentence.words,
        embeddings=sentence.content.inputs[list(sentence.order)],
        **more,
    )
    (total,) = sums.panels(data)
    summed = replace(total, title=f"{chosen.label}: {data.title}", caption=data.caption[-1])
    return (
        [summed, _tied(scene, chosen, sentence)]
        if (chosen.spec.width == sentence.content.width)
        else [summed]
    )


def _tied(scene: Scene, chosen: Chosen, sentence: TypedSentence) -> Strips:
    """Adding a table is appending it with tied weights, drawn for the query of the cursor."""
    word, at = sentence.order[sentence.cell[0]], sentence.cell[0] + scene["shift"]
    both = attention.joined(chosen.spec, sentence.content, word, at, params=chosen.params)
    limit = max(palette.largest(row[:NUMBERS]) for row in both) or 1.0
    return Strips(
        "joined",
        "Adding = appending with tied weights: the query of "
        f"“{sentence.typed[word]}” at {whole(at)}",
        tuple(
            Strip(
                name,
                palette.indices(row[:NUMBERS], limit),
                tuple(signed(float(x), 2) for x in row[:NUMBERS]),
            )
            for name, row in zip(("(x + p) W", "[x, p] with W over W"), both, strict=True)
        ),
        "diverging",
        number(-limit, 3),
        number(limit, 3),
        caption=f"{chosen.label}: x is what the word brings, p the row of the table, W the "
        "projection. Equal to rounding, in float64. Appended with weights of its "
        "own, a table can be read apart from the words: “sinusoidal, appended” draws that, "
        "with random weights.",
    )


def readout(every: list[EncodingColumn], sentence: TypedSentence) -> tuple[Block, ...]:
    """What the score of the cell consists of."""
    i, j = sentence.cell
    return (
        Heading(sentence.pair),
        Datum("Key − query", f"{whole(j)} − {whole(i)} = {whole(j - i)}"),
        *(block for column in every for block in _of_column(column, i, j)),
        Prose("Scores are as they enter the softmax: over the root of the head's width."),
    )


def _of_column(column: EncodingColumn, i: int, j: int) -> tuple[Block, ...]:
    if column.view is None:
        return Heading(column.label), Prose(column.problem)
    terms, pairs, slope = column.parts
    weight = number(float(column.view.weights[i, j]), 3)
    return present(
        Heading(column.label),
        *(Datum(name, signed(x, 4)) for name, x in terms if len(terms) > 1),
        Datum("slope × distance", f"{signed(-(slope or 0), 4)} × {whole(abs(j - i))}")
        if slope is not None
        else None,
        Datum("sum over", plural(len(pairs), "pair")) if pairs is not None else None,
        Datum("score", signed(sum(x for _, x in terms), 4)),
        Datum("attention", weight if np.isfinite(column.view.scores[i, j]) else "not seen"),
        Prose("What it learns is a random start of seed 0.")
        if column.chosen is not None and column.chosen.random
        else None,
    )
