"""Distance: what two rows have in common, by how far apart they are."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import numpy as np

from posenc._core.errors import PosencError
from posenc.explore import snippets
from posenc.explore.state.catalogue import held, kept
from posenc.explore.state.fields import Option, choice, integer, switch
from posenc.explore.state.scene import LENGTH, START, Page, Scene, ViewShape
from posenc.plot.columns import ColumnWaves, TableSource
from posenc.plot.panels.grammar import (
    Block,
    Chart,
    Datum,
    Heading,
    Heatmap,
    Mark,
    Prose,
    Series,
    TableOfText,
    float32,
    logarithmic,
    stops,
    under,
    values,
)
from posenc.plot.panels.text import number, plural, present, signed, spread, whole
from posenc.plot.views import offset, similarity

SHAPE = ViewShape(
    "distance",
    "Distance",
    "What does the model see between two positions?",
    "sinusoidal",
    (
        START,
        LENGTH,
        choice(
            "metric",
            "Product",
            (Option("dot", "dot product"), Option("cosine", "cosine")),
            "dot",
        ),
        switch("log", "Logarithmic distances"),
        integer("off", "Distance", 10, 0, 2**24, gently=True, section="cursor"),
    ),
    cursor=("p",),
    most={"d": 8192},  # every row is multiplied with many
    dead=lambda _: ("order", "pairing"),  # a product knows no order of channels
    first=("enc", "d", "off"),
)
MOST_CELLS_OF_AXIS = 65_536
MATRIX = 256  # pixels along each side
BLOCKS = 6  # pairs whose 2 x 2 blocks are shown


def show(scene: Scene) -> Page:
    """The product against the distance, the matrix of products, and the blocks that shift."""
    length, metric = scene["L"], scene["metric"]
    rows = (scene["s"], scene["s"] + length)
    table = held(scene.a, rows[1])
    k = min(scene["off"], length - 1)
    p = min(scene["p"], rows[1] - 1 - k)
    scale = "log" if scene["log"] and length > 3 else "linear"
    pixels = min(scene.width, 512)
    same: dict[str, Any] = {"kind": metric, "length": rows[1]}
    curve = kept(offset.data, scene.a, length, axis=scale, pixels=pixels, **same)
    value = _product(table, p, p + k, metric)
    say = f"Positions {whole(p)} and {whole(p + k)}, {plural(k, 'position')} apart: {number(value)}"
    (plain,) = offset.panels(curve, scene.a.label)
    far = _decay(scene.a.spec, scene.a.entry.length) if scene.a.entry.kind == "rotary" else ()
    return Page(
        lead=_lead(curve),
        panels=present(
            _heatmap(kept(similarity.data, scene.a, rows, pixels=MATRIX, **same), p, k, say),
            under(
                replace(plain, x=replace(plain.x, key="off")),
                max(k, 1) if scale == "log" else k,
                to=value,
            ),
            *far,
            _blocks(table.waves, k) if table.waves is not None else None,
        ),
        readout=_readout(table, curve, p, k),
        say=say,
        cursor={
            "x": stops("off", k, 0, length - 1),
            "y": stops("p", p, rows[0], rows[1] - 1),
        },
        python=snippets.distance(scene, k),
        table=lambda: {
            "caption": f"{scene.a.label}: the product at the first distances shown",
            "columns": ["distance", "mean", "least", "largest"],
            "rows": [
                [
                    whole(curve.offsets[n]),
                    *(number(y[n], 6) for y in (curve.mean, curve.low, curve.high)),
                ]
                for n in range(min(20, len(curve.offsets)))
            ],
        },
        paper=(
            "offset",
            {"offsets": length, "kind": metric, "axis": "log" if scene["log"] else "linear"},
        ),
    )


def _product(table: TableSource, p: int, q: int, kind: str) -> float:
    pair = offset.sized(table.rows(np.array([p, q])), kind)
    return float(pair[0] @ pair[1])


@functools.lru_cache(maxsize=16)
def _decay(spec: Any, declared: int | None) -> tuple[Chart, ...]:
    """What remains of a score far away, expected and at worst; nothing without frequencies."""
    try:
        curves = offset.decay(spec, declared=declared)
    except PosencError:
        return ()
    x = curves.distances
    zero, named = np.zeros_like(x), {curves.declared: "declared", curves.trained: "trained on"}
    return (
        Chart(
            id="decay",
            title="what remains of a score with distance",
            x=logarithmic("distance, positions (log)", 1.0, float(offset.FARTHEST)),
            y=values("", *spread(-0.35, 1.0)),
            series=(
                *(
                    Series(name, x, float32(y), style, float32(y - by), float32(y + by))
                    for name, y, by, style in (
                        ("a key like the query", curves.same, curves.same_spread, 0),
                        ("an independent key", zero, zero + curves.other_spread, 2),
                    )
                ),
                Series("bound (own scale)", x, float32(curves.bound), 1),
            ),
            marks=tuple(
                Mark("x", float(at), f"{named[at]} {whole(at)}")
                for at in dict.fromkeys((curves.trained, curves.declared))
                if at is not None and at <= x[-1]
            ),
            caption="Over random queries and keys: the mean and a band of one standard deviation, "
            "over the mean at distance 0 of a key that is the query. The bound is a factor of what "
            "a score can be at most (Su et al. 2021), over its own value at distance 0: it falls, "
            "but scores of independent vectors do not.",
            place="half",
            height=210,
            label="The expected score of a rotation against distance, beside a bound",
        ),
    )


def _heatmap(data: similarity.Similarity, p: int, k: int, say: str) -> Heatmap:
    start, stop = data.positions
    (matrix,) = similarity.panels(data)
    x = matrix.x
    if stop - start <= MOST_CELLS_OF_AXIS:
        x = replace(x, key="off", to=np.abs(np.arange(start, stop) - p).astype(np.int32))
    return under(replace(matrix, x=x, label=say), p + k, p)


def _blocks(waves: ColumnWaves, k: int) -> TableOfText:
    """The 2 x 2 matrices that move a pair by k positions."""
    turning = np.unique(waves.pair[waves.pair >= 0])
    rows = []
    for pair in turning[np.unique(np.linspace(0, len(turning) - 1, BLOCKS).astype(int))].tolist():
        angle = float(
            np.angle(np.exp(1j * float(waves.frequency[np.flatnonzero(waves.pair == pair)[0]]) * k))
        )
        cos, sin, minus = (signed(x, 3) for x in (np.cos(angle), np.sin(angle), -np.sin(angle)))
        rows.append(
            (str(pair), f"{signed(angle, 4)} rad", *(f"[ {cos}  {sin} ]", f"[ {minus}  {cos} ]"))
        )
    return TableOfText(
        "blocks",
        f"what moves a row by {plural(k, 'position')}: one block for each pair",
        ("pair", "angle", "new sin", "new cos"),
        tuple(rows),
        place="half",
        caption="Each row: the factors of the old sin and cos. The same blocks work at every "
        f"position, so a linear layer can learn to look {plural(k, 'position')} away.",
    )


def _lead(data: offset.Offset) -> str:
    text = "The product depends on the distance alone, wherever the two positions are."
    if data.defect:
        share = f"{number(100 * (1 - data.defect**2), 3)} % of it."
        text = f"The product depends on where the two positions are: distance explains {share}"
    if data.first_rise is not None and data.rises:
        text += (
            f" It does not fall all the way: it first rises at distance {whole(data.first_rise)}."
        )
    return text


def _readout(table: TableSource, data: offset.Offset, p: int, k: int) -> tuple[Block, ...]:
    value, own = (_product(table, p, q, data.kind) for q in (p + k, p))
    name = "Cosine" if data.kind == "cosine" else "Dot product"
    rise, band = data.first_rise, "The band runs over positions: the same distance, other places."
    return present(
        Heading(f"Positions {whole(p)} and {whole(p + k)}"),
        Datum(name, number(value, 6)),
        Datum("With itself", number(own, 6)),
        Datum("Distance", whole(k)),
        Datum("First rises at", whole(rise)) if rise is not None else None,
        Datum("Steps that go up", f"{number(100 * (data.rises or 0), 2)} %")
        if rise is not None
        else None,
        Datum("Shift-invariance defect", number(data.defect, 3), "0: distance explains everything"),
        Prose(band) if data.defect else None,
    )
