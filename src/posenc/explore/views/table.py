"""Table: a row for each position, a column for each dimension, and where one number comes from."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from posenc._core.numeric.ladder import Ladder
from posenc.encodings.table.sinusoidal import Sinusoidal
from posenc.explore import mathml, snippets, table_parts
from posenc.explore.state.catalogue import grid_of
from posenc.explore.state.entry import Chosen
from posenc.explore.state.fields import switch
from posenc.explore.state.scene import LENGTH, START, Page, Scene, ViewShape
from posenc.explore.state.sources import held, visible, window
from posenc.plot import palette
from posenc.plot.column_order import arranged
from posenc.plot.columns import TableSource, width_of
from posenc.plot.curves import Curve, around_each, curve_of
from posenc.plot.panels.axes import stops, under, values
from posenc.plot.panels.grammar import (
    Axis,
    Block,
    Chart,
    Datum,
    Dial,
    DialBlock,
    Heading,
    Link,
    Links,
    Mark,
    Math,
    Prose,
    Series,
)
from posenc.plot.panels.text import count, number, signed, whole
from posenc.plot.raster import Tile, tile_of
from posenc.plot.response import reduced
from posenc.plot.views.table import TableCell, cell, heatmap
from posenc.plot.views.waves import series as curve
from posenc.plot.views.waves import unresolved

PARTS = switch("parts", "What it is made of", hint="Beside the sinusoids nearest to it.")
SHAPE = ViewShape(
    "table",
    "Table",
    "What does each position look like?",
    "sinusoidal",
    (START, LENGTH, PARTS),
    zoom=("p", "j"),
)
DIGITS = 6


def show(scene: Scene) -> Page:
    """The table, the curve of the column, the row of the position, and the cell in numbers."""
    table = held(scene.a, scene["s"] + scene["L"])
    rows, dims = visible(scene)
    p, j = scene["p"], scene["j"]
    size = (scene.height, scene.width)
    picture, indices = _tile(scene.a, scene["s"] + scene["L"], rows, dims, size)
    column = curve_of(table, j, rows, pixels=picture.values.shape[0])
    drawn = arranged(table, picture.order)
    place = int(np.flatnonzero(drawn == j)[0])
    here = p if rows[0] <= p < rows[1] else None
    main = heatmap(picture, drawn, indices)
    main = under(main, place if dims[0] <= place < dims[1] else None, here)
    x, y = main.x, main.y
    row = table.values(np.array([p]), np.arange(table.width))[0]
    value = float(row[j])
    words = f"{table.name(j)}, " if table.waves is not None else ""
    say = f"Position {whole(p)}, dimension {j}: {words}{signed(value, DIGITS)}"
    parts: tuple[Chart, ...] = ()
    facts: tuple[Block, ...] = ()
    if scene["parts"]:
        data = table_parts.analysed(scene.a, (scene["s"], scene["s"] + scene["L"]))
        parts, facts = table_parts.panels(data, scene["s"], p, j), table_parts.facts(data, j)
    return Page(
        lead=lead(table, picture),
        panels=(
            replace(main, label=say),
            beside(column, picture.limit, y, p, value),
            below(row[drawn], x, picture, _row_title(table, p)),
            *parts,
        ),
        readout=(*readout(table, scene, p, j), *facts),
        say=say,
        cursor=cursor(scene, table.width),
        zoom=zoom(scene, table.width),
        python=snippets.table(scene, rows, p, j),
        table=lambda: numbers(table, scene),
    )


@functools.lru_cache(maxsize=4)
def _tile(
    chosen: Chosen, length: int, rows: tuple[int, int], dims: tuple[int, int], size: tuple[int, int]
) -> tuple[Tile, np.ndarray]:
    """The picture, which stays while the cursor moves."""
    tile = tile_of(held(chosen, length), rows, rows=size[0], columns=size[1], dims=dims)
    indices = palette.indices(tile.values, tile.limit)
    for array in (tile.values, indices):
        array.setflags(write=False)
    return tile, indices


def beside(column: Curve, limit: float, y: Axis, p: int, value: float) -> Chart:
    """The column of the cursor, over the positions of the table."""
    point = (Mark("point", p + 0.5, to=value, style="point"),)
    return Chart(
        id="column",
        title=f"dimension {column.dim}",
        x=y,
        y=values("", -limit, limit, most=2),
        series=(curve(column),),
        marks=point if y.at is not None else (),
        caption=unresolved(column),
        place="right",
        orient="v",
        label=f"{column.label} over the positions",
    )


def _row_title(table: TableSource, p: int) -> str:
    if table.turns:
        return f"the sines and cosines that turn position {whole(p)}"
    return f"the vector added at position {whole(p)}"


def below(row: np.ndarray, x: Axis, picture: Tile, title: str) -> Chart:
    """The row of the cursor, over the dimensions of the table."""
    first, last = picture.dims
    part, pixels = row[first:last], picture.values.shape[1]
    if len(part) <= pixels:
        places = np.arange(first, last) + 0.5
        series = Series("this position", places, part.astype(np.float32), 1, draw="bars")
    else:
        ends = np.floor(np.arange(pixels + 1) * (len(part) / pixels)).astype(np.int64)
        column = part[:, None]
        mean = reduced(lambda begin, end: column[begin:end], len(part), pixels, 1)[:, 0]
        low, high = np.minimum.reduceat(part, ends[:-1]), np.maximum.reduceat(part, ends[:-1])
        series = Series(
            "this position",
            first + (ends[:-1] + ends[1:]) / 2,
            mean.astype(np.float32),
            1,
            lo=around_each(low, np.minimum).astype(np.float32),
            hi=around_each(high, np.maximum).astype(np.float32),
        )
    limit = max(picture.limit, float(np.abs(part).max(initial=0.0)))
    return Chart(
        id="row",
        title=title,
        x=x,
        y=values("", -limit, limit, most=2),
        series=(series,),
        place="below",
        height=84,
        label=f"{title[:1].upper()}{title[1:]}, over the dimensions",
    )


def lead(table: TableSource, picture: Tile) -> str:
    """What the picture shows, in a sentence or two that were computed."""
    total = picture.dims[1] - picture.dims[0]
    if picture.per_pixel[0] > 1 and table.waves is not None:
        faded = f"{count(picture.blank, total)} columns turn too fast for this scale" + (
            "; they fade out here instead of showing a false pattern." if picture.blank else "."
        )
        return f"Each pixel covers {number(picture.per_pixel[0])} positions. {faded}"
    if table.sides:
        sides = " × ".join(map(whole, table.sides))
        return f"One row for each cell of a grid of {sides}, one column per dimension."
    if table.waves is None:
        return "One row per position, one column per dimension. No formula: these rows are stored."
    waves = table.waves.wavelength[np.isfinite(table.waves.wavelength)]
    if not len(waves):
        return "One row per position, one column per dimension. No column turns."
    return (
        "One row per position, one column per dimension. The fastest column repeats every "
        f"{number(float(waves.min()), 3)} positions, the slowest every "
        f"{number(float(waves.max()), 5)}; together they make rows different."
    )


def cursor(scene: Scene, width: int) -> dict[str, Any]:
    """Where the arrows go."""
    return {
        "x": stops("j", scene["j"], 0, width - 1),
        "y": stops("p", scene["p"], scene["s"], scene["s"] + scene["L"] - 1),
    }


def zoom(scene: Scene, width: int) -> dict[str, Any]:
    """The keys that hold what is visible."""
    first = scene["s"]
    return {
        "x": {"from": "j0", "to": "j1", "min": 0, "max": width},
        "y": {"from": "p0", "to": "p1", "min": first, "max": first + scene["L"]},
    }


def numbers(table: TableSource, scene: Scene) -> dict[str, Any]:
    """A window of 20 x 20 numbers around the cursor."""
    rows = window(scene["p"], scene["s"], scene["s"] + scene["L"])
    dims = window(scene["j"], 0, table.width)
    values = table.values(rows, dims).tolist()
    return {
        "caption": f"{scene.a.label}: positions {whole(rows[0])} to {whole(rows[-1])}, "
        f"dimensions {dims[0]} to {dims[-1]}",
        "columns": ["position", *map(str, dims.tolist())],
        "rows": [
            [whole(p), *(signed(x) for x in line)]
            for p, line in zip(rows.tolist(), values, strict=True)
        ],
    }


# --- one cell -------------------------------------------------------------------------------------


def readout(table: TableSource, scene: Scene, p: int, j: int) -> tuple[Block, ...]:
    """Where the number under the cursor comes from, and where else it stands."""
    entry = cell(table, p, j, (scene["s"], scene["s"] + scene["L"]))
    heading = Heading(f"Position {whole(p)}, dimension {j}")
    if entry.pair is None or entry.wavelength is None or entry.turns is None:
        why = "This column is zero everywhere." if table.waves is not None else "A stored number."
        return heading, Math("", "", (why,), signed(entry.value, DIGITS)), *_equal(entry)
    return (
        heading,
        _formula(scene.a.spec, table, entry),
        *_dial(table, entry),
        Datum("Wavelength", number(entry.wavelength)),
        Datum("Turns so far", number(entry.turns)),
        *_equal(entry),
    )


def _dial(table: TableSource, entry: TableCell) -> Iterator[DialBlock]:
    """The pair as a point of the circle, where a sine has its cosine."""
    waves, angle = table.waves, entry.turned
    if (
        waves is None
        or angle is None
        or len(np.unique(waves.function[waves.pair == entry.pair])) < 2
    ):
        return
    note = f"sin is the height, cos the width; {signed(angle % (2 * math.pi))} rad past whole turns"
    hand = (math.cos(angle), math.sin(angle), 1, f"pair {entry.pair}")
    yield DialBlock(Dial(f"pair {entry.pair}", (hand,), note, turn=entry.frequency))


def _formula(spec: Any, table: TableSource, entry: TableCell) -> Math:
    """The formula of the papers where the ladder is theirs, else the frequency."""
    m, name = mathml, str(entry.function)
    p, pair, frequency = entry.position, entry.pair or 0, abs(entry.frequency or 0.0)
    amplitude = 1.0 if table.waves is None else table.waves.amplitude
    place = m.literal(whole(p))
    steps: tuple[str, ...] = (f"= {name}({number(frequency * p)} rad)",)
    paper = isinstance(spec, Sinusoidal) and spec.ladder == Ladder() and not spec.arrangement.start
    if paper:
        top, under = 2 * pair, spec.dim
        exponent = m.row(m.literal(str(top)), m.operator("/"), m.literal(str(under)))
        inner = m.fraction(place, m.power(m.literal(number(spec.base)), exponent))
        text = f"{name}({whole(p)} / {number(spec.base)}^({top}/{under}))"
        steps = (f"= {name}({whole(p)} / {number(1 / frequency, 5)})", *steps)
    else:
        inner = m.row(place, m.operator("·"), m.literal(number(frequency, 6)))
        text = f"{name}({whole(p)} · {number(frequency, 6)})"
    written = m.apply(name, inner)
    if amplitude != 1:
        written = m.row(m.literal(number(amplitude)), m.operator("·"), written)
        text = f"{number(amplitude)} · {text}"
    return Math(m.formula(written), text, steps, signed(entry.value, DIGITS))


def _equal(entry: TableCell) -> tuple[Block, ...]:
    """The number of positions where the same value stands, to two digits, and the same pair."""
    blocks: list[Block] = []
    if entry.same is not None:
        blocks.append(Datum("Same value at", count(entry.same, entry.among)))
    if entry.same_pair is not None:
        blocks.append(Datum("Same pair at", count(entry.same_pair, entry.among)))
    if entry.again:
        places = tuple(Link(whole(p), {"p": str(p)}) for p in entry.again)
        more = entry.same_pair is not None and entry.same_pair > 1 + len(places)
        blocks.append(Links("The pair again at" + (", nearest first" if more else ""), places))
    note = "To two digits. One dimension cannot name a position; the whole row can."
    return (*blocks, Prose(note)) if blocks else ()


def on_paper(scene: Scene) -> tuple[str, dict[str, Any]]:
    """The picture of `posenc.plot` that shows the same, and its arguments."""
    sides = grid_of(scene.a.spec, scene["L"])
    if sides:
        return "table", {"grid": sides}
    options: dict[str, Any] = {"positions": (scene["p0"], scene["p1"])}
    if (scene["j0"], scene["j1"]) != (0, width_of(scene.a.spec)):
        options["dims"] = (scene["j0"], scene["j1"])
    return "table", options
