"""What the attention view is drawn with: words, grids, strips, and the cell of the cursor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from posenc.explore.state.entry import Chosen
from posenc.explore.state.scene import Scene
from posenc.plot import palette
from posenc.plot.content import Content
from posenc.plot.panels.axes import cells, float32, under, values, words
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
)
from posenc.plot.panels.text import number, plural, signed, spread, whole
from posenc.plot.views import attention
from posenc.plot.views import sum as sums
from posenc.plot.views.attention import AttentionView, ScoreParts, short

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
    def reads_as_typed(self) -> bool:
        """Whether the words bring to each place what they did, as where equal ones exchange."""
        sides = (self.content.q, self.content.k, self.content.v)
        return all(np.array_equal(side[list(self.order)], side) for side in sides)

    @property
    def pair(self) -> str:
        """The query and the key of the cursor."""
        i, j = self.cell
        return f"“{self.words[i]}” looks at “{self.words[j]}”"


@dataclass(frozen=True)
class EncodingColumn:
    """One of the encodings, and what it does."""

    key: str
    label: str
    chosen: Chosen | None
    view: AttentionView
    parts: ScoreParts


@dataclass(frozen=True)
class UnfitColumn:
    """One of the encodings, and why it does nothing here."""

    key: str
    label: str
    problem: str


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
    links = [
        Link(" ".join(sentence.typed[n] for n in order), {"perm": state})
        for order, state in ((typed, None), (swapped, written(swapped)))
        if order != sentence.order
    ]
    return Chips(
        id="words",
        title="Drag a word to another place, or take",
        words=sentence.words,
        order=sentence.order,
        key="perm",
        links=tuple(links),
    )


def grids(
    scene: Scene, sentence: TypedSentence, every: list[EncodingColumn | UnfitColumn], say: str
) -> AttentionPanel:
    """Scores and outputs under every encoding, on one scale each."""
    views = [column.view for column in every if isinstance(column, EncodingColumn)]
    limit = max((palette.largest(view.scores) for view in views), default=0.0) or 1.0
    outputs = [rows[:, :NUMBERS] for view in views for rows in (view.before, view.outputs)]
    most = max(map(palette.largest, outputs), default=0.0) or 1.0
    hatched = any(not np.isfinite(view.scores).all() for view in views)
    caption = (
        "One scale for all, from 0 to 1: each row adds up to 1."
        if scene["softmax"]
        else f"Scores before the softmax on one scale, up to ±{number(limit, 3)}."
    ) + (" Hatched: words that are not seen." if hatched else "")
    return AttentionPanel(
        "attention",
        "",
        tuple(_cell(scene, column, sentence, (limit, most), say) for column in every),
        ("as typed", "now"),
        caption=f"{caption} Below, what each word gets, sorted by word, {NUMBERS} numbers at most, "
        "in the order typed and in the present one, from position 0; a line joins equal ones (to "
        f"{number(attention.EQUAL[scene['prec']], 1)} of the largest).",
    )


def _cell(
    scene: Scene,
    column: EncodingColumn | UnfitColumn,
    sentence: TypedSentence,
    limits: tuple[float, float],
    say: str,
) -> AttentionCell:
    count = len(sentence.typed)
    i, j = sentence.cell
    grid = replace(
        _grid(column, sentence, 1.0 if scene["softmax"] else limits[0]),
        id=f"{column.key}-{column.label}",
        title=column.label,
        label=f"{column.label}, queries down, keys across. {say}",
    )
    grid = under(replace(grid, x=replace(grid.x, key="kw"), y=replace(grid.y, key="qw")), j, i)
    if isinstance(column, UnfitColumn):
        return AttentionCell(column.key, grid, column.problem)
    view = column.view
    by_word = sorted(range(count), key=lambda n: (sentence.typed[n].lower(), n))
    before, after = (
        palette.indices(rows[by_word, :NUMBERS], limits[1]) for rows in (view.before, view.outputs)
    )
    return AttentionCell(
        column.key,
        grid,
        _change(scene["shift"], view),
        tuple(short(sentence.typed[n]) for n in by_word),
        before,
        after,
        tuple(bool(view.equal[n]) for n in by_word),
        _outcome(view, sentence),
    )


def _grid(column: EncodingColumn | UnfitColumn, sentence: TypedSentence, limit: float) -> Heatmap:
    """What an encoding does to the words, on the scale of all; nothing where it does not suit."""
    if isinstance(column, EncodingColumn):
        return attention.panels(replace(column.view, limit=limit))[0]
    names, count = words("", tuple(map(short, sentence.words))), len(sentence.words)
    empty = np.zeros((count, count), dtype=np.uint8)
    return Heatmap("", "", empty, "sequential", names, names, "0", number(limit, 3), mask=empty + 1)


def _change(shift: int, view: AttentionView) -> str:
    what = f"After the shift by {whole(shift)}: " if shift else "Not shifted: "
    if view.change == 0:
        return what + "no change, the same bits."
    return what + f"largest change {number(view.change, 2)}."


def _outcome(view: AttentionView, sentence: TypedSentence) -> str:
    """What moving words did to the outputs."""
    if view.order == tuple(range(len(view.order))):
        return "No word has moved."
    if sentence.reads_as_typed:
        return "Equal words have changed places: the sentence is the same."
    same, count = int(view.equal.sum()), len(view.equal)
    apart = f"largest difference {number(view.moved, 2)}" if view.moved else "the same bits"
    if same == count:
        return f"The same outputs, a bag of words ({apart})."
    return f"{whole(same)} of {count} words get the same ({apart})."


def terms(scene: Scene, columns: list[EncodingColumn], sentence: TypedSentence) -> list[Panel]:
    """What each pair adds to the score under the cursor, of the first rotation."""
    rotations = ((c.label, c.parts.pairs) for c in columns if c.parts.pairs is not None)
    label, terms = next(rotations, ("", None))
    if terms is None or not scene["sum"]:
        return []
    low, high = spread(min(float(terms.min()), 0.0), max(float(terms.max()), 0.0))
    title = f"{sentence.pair}: what each pair of {label} adds to {number(float(terms.sum()))}"
    bars = Series("term", np.arange(len(terms)) + 0.5, float32(terms), draw="bars")
    x = cells("pair, from fast to slow", 0, len(terms))
    return [Chart("terms", title, x, values("", low, high), (bars,), height=110, label=title)]


def inputs(scene: Scene, columns: list[EncodingColumn], sentence: TypedSentence) -> list[Panel]:
    """Embedding + position = input under the first table, and that adding is appending."""
    own_first = sorted(columns, key=lambda column: column.key != "enc")
    every = (c.chosen for c in own_first if c.chosen is not None and c.chosen.spec.kind == "table")
    chosen = next(every, None) if scene["sum"] else None
    if chosen is None:
        return []
    rows = sentence.content.inputs[list(sentence.order)]
    data = sums.data(
        chosen.spec,
        sentence.words,
        embeddings=rows,
        offset=scene["shift"],
        params=chosen.params,
    )
    (total,) = sums.panels(data)
    summed = replace(total, title=f"{chosen.label}: {data.title}", caption=data.caption[-1])
    tied = chosen.spec.width == sentence.content.width
    return [summed, *(_tied(scene, chosen, sentence) if tied else ())]


def _tied(scene: Scene, chosen: Chosen, sentence: TypedSentence) -> Iterator[Panel]:
    """Adding a table is appending it with tied weights, drawn for the query of the cursor."""
    content = sentence.content
    word, at = sentence.order[sentence.cell[0]], sentence.cell[0] + scene["shift"]
    both = attention.joined(chosen.spec, content, word, at, params=chosen.params)
    limit = max(palette.largest(row[:NUMBERS]) for row in both) or 1.0
    apart = number(palette.largest(both[0] - both[1]), 2)
    strips = tuple(
        Strip(
            name,
            palette.indices(row[:NUMBERS], limit),
            tuple(signed(float(x), 2) for x in row[:NUMBERS]),
        )
        for name, row in zip(("(x + p) W", "[x, p] with W over W"), both, strict=True)
    )
    yield Strips(
        "joined",
        "Adding = appending with tied weights: the query of "
        f"“{sentence.typed[word]}” at {whole(at)}",
        strips,
        "diverging",
        number(-limit, 3),
        number(limit, 3),
        caption=f"{chosen.label}: x is what the word brings, p the row of the table, W the "
        f"projection. Largest difference {apart}, in float64. Appended with weights of its "
        "own, a table can be read apart from the words: “sinusoidal, appended” draws that, "
        "with random weights.",
    )


def readout(
    every: list[EncodingColumn | UnfitColumn], sentence: TypedSentence
) -> tuple[Block, ...]:
    """What the score of the cell consists of."""
    i, j = sentence.cell
    blocks: list[Block] = [Heading(sentence.pair)]
    blocks.append(Datum("Key − query", f"{whole(j)} − {whole(i)} = {whole(j - i)}"))
    for column in every:
        blocks.append(Heading(column.label))
        if isinstance(column, UnfitColumn):
            blocks.append(Prose(column.problem))
            continue
        terms, pairs, slope = column.parts
        if len(terms) > 1:
            blocks += [Datum(name, signed(x, 4)) for name, x in terms]
        if slope is not None:
            blocks.append(Datum("slope × distance", f"{signed(-slope, 4)} × {whole(abs(j - i))}"))
        if pairs is not None:
            blocks.append(Datum("sum over", plural(len(pairs), "pair")))
        blocks.append(Datum("score", signed(sum(x for _, x in terms), 4)))
        seen = np.isfinite(column.view.scores[i, j])
        weight = number(float(column.view.weights[i, j]), 3) if seen else "not seen"
        blocks.append(Datum("attention", weight))
        if column.chosen is not None and column.chosen.random:
            blocks.append(Prose("What it learns is a random start of seed 0."))
    scaled = "Scores are as they enter the softmax: over the root of the head's width."
    return (*blocks, Prose(scaled))
