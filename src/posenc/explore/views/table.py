"""Table: a row for each position, a column for each dimension, and where one number comes from."""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import Any

import numpy as np

from posenc._core.numeric.ladder import Ladder
from posenc.encodings.table.sinusoidal import Sinusoidal
from posenc.explore import snippets, spectra
from posenc.explore.state.catalogue import held, window
from posenc.explore.state.entry import Chosen
from posenc.explore.state.fields import switch
from posenc.explore.state.scene import LENGTH, START, Page, Scene, ViewShape
from posenc.plot import palette
from posenc.plot.columns import TableSource
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
    float32,
    stops,
    under,
    values,
)
from posenc.plot.panels.text import count, number, present, signed, whole
from posenc.plot.raster import Tile, arranged, tile_of
from posenc.plot.response import reduced
from posenc.plot.views.table import TableCell, cell, heatmap
from posenc.plot.views.waves import Curve, around_each, curve_of, series as curve, unresolved

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
    rows, dims = (scene["p0"], scene["p1"]), (scene["j0"], scene["j1"])
    p, j, end = scene["p"], scene["j"], scene["s"] + scene["L"]
    picture, indices = _tile(scene.a, end, rows, dims, (scene.height, scene.width))
    column = curve_of(table, j, rows, pixels=picture.values.shape[0])
    drawn = arranged(table, picture.order)
    place = int(np.flatnonzero(drawn == j)[0])
    main = under(
        heatmap(picture, drawn, indices),
        place if dims[0] <= place < dims[1] else None,
        p if rows[0] <= p < rows[1] else None,
    )
    row = table.values(np.array([p]), np.arange(table.width))[0]
    value = float(row[j])
    words = f"{table.name(j)}, " if table.waves is not None else ""
    what = "the sines and cosines that turn" if table.turns else "the vector added at"
    say = f"Position {whole(p)}, dimension {j}: {words}{signed(value, DIGITS)}"
    parts: tuple[Chart, ...] = ()
    facts: tuple[Block, ...] = ()
    if scene["parts"]:
        data = spectra.analysed(scene.a, (scene["s"], end))
        parts, facts = spectra.panels(data, scene["s"], p, j), spectra.facts(data, j)
    return Page(
        lead=lead(table, picture),
        panels=(
            replace(main, label=say),
            beside(column, picture.limit, main.y, p, value),
            below(row[drawn], main.x, picture, f"{what} position {whole(p)}"),
            *parts,
        ),
        readout=(*readout(table, scene, p, j), *facts),
        say=say,
        cursor=cursor(scene, table.width),
        zoom={
            "x": {"from": "j0", "to": "j1", "min": 0, "max": table.width},
            "y": {"from": "p0", "to": "p1", "min": scene["s"], "max": end},
        },
        python=snippets.table(scene, rows, p, j),
        table=lambda: numbers(table, scene),
        paper=(
            "table",
            {"grid": table.sides}
            if table.sides
            else {"positions": rows, **({"dims": dims} if dims != (0, table.width) else {})},
        ),
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
    return Chart(
        id="column",
        title=f"dimension {column.dim}",
        x=y,
        y=values("", -limit, limit, most=2),
        series=(curve(column),),
        marks=(Mark("point", p + 0.5, to=value, style="point"),) if y.at is not None else (),
        caption=unresolved(column),
        place="right",
        orient="v",
        label=f"{column.label} over the positions",
    )


def below(row: np.ndarray, x: Axis, picture: Tile, title: str) -> Chart:
    """The row of the cursor, over the dimensions of the table."""
    first, last = picture.dims
    part, pixels = row[first:last], picture.values.shape[1]
    if len(part) <= pixels:
        series = Series(
            "this position", np.arange(first, last) + 0.5, float32(part), 1, draw="bars"
        )
    else:
        ends = np.floor(np.arange(pixels + 1) * (len(part) / pixels)).astype(np.int64)
        column = part[:, None]
        low, high = (
            float32(around_each(least.reduceat(part, ends[:-1]), least))
            for least in (np.minimum, np.maximum)
        )
        series = Series(
            "this position",
            first + (ends[:-1] + ends[1:]) / 2,
            float32(reduced(lambda begin, end: column[begin:end], len(part), pixels, 1)[:, 0]),
            1,
            lo=low,
            hi=high,
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
    front = "One row per position, one column per dimension. "
    if table.waves is None:
        return f"{front}No formula: these rows are stored."
    waves = table.waves.wavelength[np.isfinite(table.waves.wavelength)]
    return (
        f"{front}No column turns."
        if not len(waves)
        else (
            f"{front}The fastest column repeats every {number(float(waves.min()))} positions, "
            f"the slowest every {number(float(waves.max()))}; together they make rows different."
        )
    )


def cursor(scene: Scene, width: int) -> dict[str, Any]:
    """Where the arrows go."""
    return {
        "x": stops("j", scene["j"], 0, width - 1),
        "y": stops("p", scene["p"], scene["s"], scene["s"] + scene["L"] - 1),
    }


def numbers(table: TableSource, scene: Scene) -> dict[str, Any]:
    """A window of 20 x 20 numbers around the cursor."""
    rows = window(scene["p"], scene["s"], scene["s"] + scene["L"])
    dims = window(scene["j"], 0, table.width)
    return {
        "caption": f"{scene.a.label}: positions {whole(rows[0])} to {whole(rows[-1])}, "
        f"dimensions {dims[0]} to {dims[-1]}",
        "columns": ["position", *map(str, dims.tolist())],
        "rows": [
            [whole(p), *(signed(x) for x in line)]
            for p, line in zip(rows.tolist(), table.values(rows, dims).tolist(), strict=True)
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


def _dial(table: TableSource, entry: TableCell) -> tuple[DialBlock, ...]:
    """The pair as a point of the circle, where a sine has its cosine."""
    waves, angle, name = table.waves, entry.turned, f"pair {entry.pair}"
    if waves is None or angle is None or len({*waves.function[waves.pair == entry.pair]}) < 2:
        return ()
    return (
        DialBlock(
            Dial(
                name,
                ((math.cos(angle), math.sin(angle), 1, name),),
                "sin is the height, cos the width; "
                f"{signed(angle % (2 * math.pi))} rad past whole turns",
                turn=entry.frequency,
            )
        ),
    )


def _formula(spec: Any, table: TableSource, entry: TableCell) -> Math:
    """The formula of the papers where the ladder is theirs, else the frequency."""
    name, p, frequency = str(entry.function), entry.position, abs(entry.frequency or 0.0)
    amplitude = 1.0 if table.waves is None else table.waves.amplitude
    steps: tuple[str, ...] = (f"= {name}({number(frequency * p)} rad)",)
    if isinstance(spec, Sinusoidal) and spec.ladder == Ladder() and not spec.arrangement.start:
        top, base = str(2 * (entry.pair or 0)), number(spec.base)
        exponent = _row(_mn(top), _mo("/"), _mn(str(spec.dim)))
        inner = f"<mfrac>{_mn(whole(p))}<msup>{_mn(base)}{exponent}</msup></mfrac>"
        text = f"{name}({whole(p)} / {base}^({top}/{spec.dim}))"
        steps = (f"= {name}({whole(p)} / {number(1 / frequency, 5)})", *steps)
    else:
        inner = _row(_mn(whole(p)), _mo("·"), _mn(number(frequency, 6)))
        text = f"{name}({whole(p)} · {number(frequency, 6)})"
    written = _row(f"<mi>{name}</mi>", _mo("("), inner, _mo(")"))
    if amplitude != 1:
        written = _row(_mn(number(amplitude)), _mo("·"), written)
        text = f"{number(amplitude)} · {text}"
    return Math(f'<math display="block">{written}</math>', text, steps, signed(entry.value, DIGITS))


# Pieces of MathML: a number, an operator or a bracket, and parts one after another.


def _mn(text: str) -> str:
    return f"<mn>{text}</mn>"


def _mo(text: str) -> str:
    return f"<mo>{text}</mo>"


def _row(*parts: str) -> str:
    return f"<mrow>{''.join(parts)}</mrow>"


def _equal(entry: TableCell) -> tuple[Block, ...]:
    """The number of positions where the same value stands, to two digits, and the same pair."""
    same, pairs = entry.same, entry.same_pair
    places = tuple(Link(whole(p), {"p": str(p)}) for p in entry.again)
    nearest = ", nearest first" if (pairs or 0) > 1 + len(places) else ""
    blocks: tuple[Block, ...] = present(
        Datum("Same value at", count(same, entry.among)) if same is not None else None,
        Datum("Same pair at", count(pairs, entry.among)) if pairs is not None else None,
        Links(f"The pair again at{nearest}", places) if places else None,
    )
    return (
        (*blocks, Prose("To two digits. One dimension cannot name a position; the whole row can."))
        if blocks
        else ()
    )
