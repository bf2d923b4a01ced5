"""Table: a row for each position, a column for each dimension, and where one number comes from."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from posenc._core.ladder import Ladder
from posenc.encodings.table.sinusoidal import Sinusoidal
from posenc.explore import mathml, snippets
from posenc.explore.axes import cells, values
from posenc.explore.panels import (
    Axis,
    Block,
    Chart,
    Dial,
    DialBlock,
    Fact,
    Heading,
    Heatmap,
    Mark,
    Math,
    Prose,
    Series,
)
from posenc.explore.scene import LENGTH, START, Page, Scene, Shape
from posenc.explore.sources import held, visible, window
from posenc.explore.text import count, number, plural, signed, thin, whole
from posenc.plot import palette
from posenc.plot.columns import Source
from posenc.plot.curves import Curve, curve_of
from posenc.plot.raster import Tile, arranged, tile_of

__all__ = ["SHAPE", "show"]

SHAPE = Shape(
    "table",
    "Table",
    "What does each position look like?",
    "sinusoidal",
    (START, LENGTH),
    zoom=("p", "j"),
)
COUNTED = 65_536  # positions among which equal values are counted
ALIKE = 0.005  # two digits
DIGITS = 6


def show(scene: Scene) -> Page:
    """The table, the curve of the column, the row of the position, and the cell in numbers."""
    table = held(scene.a, scene["s"] + scene["L"])
    rows, dims = visible(scene)
    p, j = scene["p"], scene["j"]
    picture = tile_of(table, rows, rows=scene.height, columns=scene.width, dims=dims)
    column = curve_of(table, j, rows, pixels=picture.values.shape[0])
    drawn = arranged(table, picture.order)
    x = across(drawn, dims, j)
    y = cells("position", *rows, key="p", at=p if rows[0] <= p < rows[1] else None)
    row = table.values(np.array([p]), np.arange(table.width))[0]
    value = float(row[j])
    words = f"{table.name(j)}, " if table.waves is not None else ""
    say = f"Position {whole(p)}, dimension {j}: {words}{signed(value, DIGITS)}"
    return Page(
        lead=lead(table, picture),
        panels=(
            heatmap(picture, x, y, say),
            beside(column, picture.limit, y, p, value),
            below(row[drawn], x, picture, p),
        ),
        readout=readout(table, scene, p, j, value),
        say=say,
        cursor=cursor(scene, table.width),
        zoom=zoom(scene, table.width),
        python=snippets.table(scene, rows, p, j),
        command=snippets.plot("table", scene, rows),
        table=numbers(table, scene),
    )


def across(drawn: np.ndarray, dims: tuple[int, int], j: int) -> Axis:
    """The axis of dimensions, in the order in which they are drawn."""
    place = int(np.flatnonzero(drawn == j)[0])
    stored = bool((drawn == np.arange(len(drawn))).all())
    return cells(
        "dimension" if stored else "dimension, sines before cosines",
        *dims,
        key="j",
        at=place if dims[0] <= place < dims[1] else None,
        to=None if stored else drawn[dims[0] : dims[1]].astype(np.int32),
        names=None if stored else drawn,
    )


def heatmap(picture: Tile, x: Axis, y: Axis, say: str, **more: Any) -> Heatmap:
    """The table in pixels."""
    first, last = picture.dims
    scale = (last - first) / picture.values.shape[1]
    lines = tuple(
        Mark("x", first + at * scale, "2 px per wave" if n == 0 else "")
        for n, at in enumerate(picture.boundaries)
    )
    settings: dict[str, Any] = {
        "id": "table",
        "title": "",
        "tile": palette.indices(picture.values, picture.limit),
        "lut": "diverging",
        "x": x,
        "y": y,
        "low": signed(-picture.limit, 0) if picture.limit == 1 else number(-picture.limit),
        "high": "+1" if picture.limit == 1 else "+" + number(picture.limit),
        "caption": thin(" ".join(picture.caption)),
        "lines": lines,
        "label": say,
        "values": picture.values,
        "limit": picture.limit,
    }
    return Heatmap(**(settings | more))


def beside(column: Curve, limit: float, y: Axis, p: int, value: float) -> Chart:
    """The column of the cursor, over the positions of the table."""
    middle = (column.edges[:-1] + column.edges[1:]) / 2
    band = column.shape == "band" or column.per_pixel > 1
    series = Series(
        label=column.label,
        x=middle,
        y=column.mean.astype(np.float32),
        lo=column.low.astype(np.float32) if band else None,
        hi=column.high.astype(np.float32) if band else None,
    )
    point = (Mark("point", p + 0.5, to=value, style="point"),)
    unresolved = "The wave is shorter than 2 pixels: least, mean and largest value of each."
    return Chart(
        id="column",
        title=f"dimension {column.dim}",
        x=y,
        y=values("", -limit, limit, most=2),
        series=(series,),
        marks=point if y.at is not None else (),
        caption=unresolved if column.shape == "band" else "",
        place="right",
        orient="v",
        label=f"{column.label} over the positions",
    )


def below(row: np.ndarray, x: Axis, picture: Tile, p: int) -> Chart:
    """The row of the cursor, over the dimensions of the table."""
    first, last = picture.dims
    part, pixels = row[first:last], picture.values.shape[1]
    if len(part) <= pixels:
        places = np.arange(first, last) + 0.5
        series = Series(f"position {whole(p)}", places, part.astype(np.float32), 1, draw="bars")
    else:
        ends = np.floor(np.arange(pixels + 1) * (len(part) / pixels)).astype(np.int64)
        mean = np.add.reduceat(part, ends[:-1]) / np.diff(ends)
        series = Series(
            f"position {whole(p)}",
            first + (ends[:-1] + ends[1:]) / 2,
            mean.astype(np.float32),
            1,
            lo=np.minimum.reduceat(part, ends[:-1]).astype(np.float32),
            hi=np.maximum.reduceat(part, ends[:-1]).astype(np.float32),
        )
    limit = max(picture.limit, float(np.abs(part).max(initial=0.0)))
    return Chart(
        id="row",
        title=f"the vector added at position {whole(p)}",
        x=x,
        y=values("", -limit, limit, most=2),
        series=(series,),
        place="below",
        height=84,
        label=f"The row of position {whole(p)}, over the dimensions",
    )


def lead(table: Source, picture: Tile) -> str:
    """What the picture shows, in a sentence or two that were computed."""
    total = picture.dims[1] - picture.dims[0]
    if picture.per_pixel[0] > 1 and table.waves is not None:
        faded = f"{count(picture.blank, total)} columns turn too fast for this scale" + (
            "; they fade out here instead of showing a false pattern." if picture.blank else "."
        )
        return f"Each pixel covers {number(picture.per_pixel[0])} positions. {faded}"
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
    first, length = scene["s"], scene["L"]
    return {
        "x": {"key": "j", "value": scene["j"], "min": 0, "max": width - 1, "step": 1},
        "y": {
            "key": "p",
            "value": scene["p"],
            "min": first,
            "max": first + length - 1,
            "step": 1,
        },
    }


def zoom(scene: Scene, width: int) -> dict[str, Any]:
    """The keys that hold what is visible."""
    first = scene["s"]
    return {
        "x": {"from": "j0", "to": "j1", "min": 0, "max": width},
        "y": {"from": "p0", "to": "p1", "min": first, "max": first + scene["L"]},
    }


def numbers(table: Source, scene: Scene) -> dict[str, Any]:
    """A window of 20 x 20 numbers around the cursor."""
    first = scene["s"]
    rows = window(scene["p"], first, first + scene["L"])
    dims = window(scene["j"], 0, table.width)
    found = table.values(rows, dims).tolist()
    return {
        "caption": f"{scene.a.label}: positions {whole(rows[0])} to {whole(rows[-1])}, "
        f"dimensions {dims[0]} to {dims[-1]}",
        "columns": ["position", *map(str, dims.tolist())],
        "rows": [
            [whole(p), *(signed(x) for x in line)]
            for p, line in zip(rows.tolist(), found, strict=True)
        ],
    }


# --- one cell -------------------------------------------------------------------------------------


def readout(table: Source, scene: Scene, p: int, j: int, value: float) -> tuple[Block, ...]:
    """Where the number under the cursor comes from, and where else it stands."""
    heading = Heading(f"Position {whole(p)}, dimension {j}")
    waves = table.waves
    if waves is None or waves.pair[j] < 0:
        why = "This column is zero everywhere." if waves is not None else "A stored number."
        return heading, Math("", "", (why,), signed(value, DIGITS)), *_equal(table, scene, j)
    pair, name = int(waves.pair[j]), ("sin", "cos")[int(waves.function[j])]
    wavelength = float(waves.wavelength[j])
    partner = np.flatnonzero((waves.pair == pair) & (waves.function != waves.function[j]))
    blocks: list[Block] = [heading, _formula(scene.a.spec, table, p, j, value)]
    both = table.waves.at(np.array([p]), None, np.append(j, partner))[0] / (waves.amplitude or 1.0)  # type: ignore[union-attr]
    sine, cosine = (both[0], both[1]) if name == "sin" and len(partner) else (both[-1], both[0])
    if len(partner):
        angle = math.atan2(sine, cosine) % (2 * math.pi)
        note = f"sin is the height, cos the width. {signed(angle)} rad past whole turns."
        hands = ((float(cosine), float(sine), 1, f"pair {pair}"),)
        blocks.append(DialBlock(Dial(f"pair {pair}", hands, note)))
    blocks.append(Fact("Wavelength", number(wavelength) if math.isfinite(wavelength) else "∞"))
    blocks.append(Fact("Turns so far", number(p / wavelength) if p else "0"))
    return *blocks, *_equal(table, scene, j, partner)


def _formula(spec: Any, table: Source, p: int, j: int, value: float) -> Math:
    waves = table.waves
    assert waves is not None, "the caller has looked"  # noqa: S101 - for the type checker
    pair, name = int(waves.pair[j]), ("sin", "cos")[int(waves.function[j])]
    frequency = abs(float(waves.frequency[j]))
    m = mathml
    place = m.literal(whole(p))
    angle = f"{name}({number(frequency * p)} rad)"
    plainly = (
        isinstance(spec, Sinusoidal) and spec.ladder == Ladder() and not spec.arrangement.start
    )
    steps: tuple[str, ...] = (f"= {angle}",)
    if plainly:
        top, under = 2 * pair, spec.dim
        exponent = m.row(m.literal(str(top)), m.operator("/"), m.literal(str(under)))
        inner = m.fraction(place, m.power(m.literal(number(spec.base)), exponent))
        text = f"{name}({whole(p)} / {number(spec.base)}^({top}/{under}))"
        steps = (f"= {name}({whole(p)} / {number(1 / frequency, 5)})", *steps)
    else:
        inner = m.row(place, m.operator("·"), m.literal(number(frequency, 6)))
        text = f"{name}({whole(p)} · {number(frequency, 6)})"
    written = m.apply(name, inner)
    amplitude = waves.amplitude
    if amplitude != 1:
        written = m.row(m.literal(number(amplitude)), m.operator("·"), written)
        text = f"{number(amplitude)} · {text}"
    return Math(m.formula(written), text, steps, signed(value, DIGITS))


def _equal(
    table: Source, scene: Scene, j: int, partner: np.ndarray | None = None
) -> tuple[Block, ...]:
    """At how many positions the same value stands, to two digits, and the same pair."""
    first = scene["s"]
    among = min(scene["L"], COUNTED)
    index = np.arange(first, first + among)
    dims = np.append(j, partner if partner is not None else []).astype(np.int64)
    off = np.abs(table.values(index, dims) - table.values(np.array([scene["p"]]), dims)) <= ALIKE
    blocks: list[Block] = [Fact("Same value at", count(int(off[:, 0].sum()), among))]
    if len(dims) > 1:
        blocks.append(Fact("Same pair at", count(int(off.all(axis=1).sum()), among)))
    told = "To two digits. One dimension cannot name a position; the whole row can."
    if among < scene["L"]:
        told += f" Counted over the first {plural(among, 'position')}."
    return *blocks, Prose(told)
