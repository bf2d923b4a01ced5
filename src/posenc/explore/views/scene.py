"""Scene: where models of pictures put a text, a picture and a reference."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import numpy as np

from posenc.explore.state.fields import integer
from posenc.explore.state.scene import Page, Scene, ViewShape
from posenc.plot.panels.grammar import Datum, Heading, Heatmap, stops
from posenc.plot.views import scene as placed

LARGEST = 24  # tokens of a side, and of the text
PIXELS = 200  # of a map
SHAPE = ViewShape(
    "scene",
    "Scene",
    "Where do the tokens of a scene stand?",
    "",
    (
        integer("side", "Side of the picture", 8, 1, LARGEST, plays=True, hint="In tokens."),
        integer("ref", "Side of the reference", 5, 0, LARGEST, plays=True, hint="0 is none."),
        integer("tokens", "Tokens of text", 6, 1, LARGEST, plays=True),
        integer("row", "Row", 2, 0, LARGEST - 1, gently=True, section="cursor"),
        integer("col", "Column", 1, 0, LARGEST - 1, gently=True, section="cursor"),
    ),
    cursor=(),
    compares=False,
    learns=False,
    first=("side", "ref", "tokens"),
)
KEYS = ("row", "col")
_data = functools.lru_cache(maxsize=64)(placed.data)


def show(scene: Scene) -> Page:
    """The maps of the models, and a cell of the picture in each of them."""
    side, options = scene["side"], on_paper(scene)[1]
    data = _data(pixels=PIXELS, **options)
    cell = tuple(min(scene[key], side - 1) for key in KEYS)
    (panel,) = placed.panels(data)
    models = [*zip(panel.cells, data.models, strict=True)]
    parts = [("text", options["text"]), ("image", (1, *options["image"]))]
    return Page(
        lead=f"In {data.title}. A click on a map chooses a token of the picture.",
        panels=(replace(panel, cells=tuple(_under(*one, cell, side) for one in models)),),
        readout=(
            Heading(f"Row {cell[0]}, column {cell[1]}"),
            *(_datum(model, cell, side, scene["ref"]) for model in data.models),
        ),
        say=f"Row {cell[0]}, column {cell[1]} of the picture",
        cursor={
            axis: stops(key, at, 0, side - 1)
            for axis, key, at in zip("yx", KEYS, cell, strict=True)
        },
        python=f"import posenc\n\nplan = posenc.from_hf({next(iter(placed.MODELS.values()))})\n"
        f"plan.layers[0].positions.build({parts})",
    )


def _under(map_: Heatmap, model: placed.PlacedModel, cell: Any, side: int) -> Heatmap:
    """A map with the cursor on a cell of the picture, and for each place the nearest cell."""
    first, at = model.picture[0], model.picture[cell[0] * side + cell[1]]
    y, x = (
        replace(
            axis,
            key=key,
            at=int(at[n]),
            to=np.clip(np.arange(*axis.domain, dtype=np.int32) - int(first[n]), 0, side - 1),
        )
        for axis, key, n in zip((map_.y, map_.x), KEYS, model.order, strict=False)
    )
    return replace(map_, y=y, x=x)


def _datum(model: placed.PlacedModel, cell: Any, side: int, other: int) -> Datum:
    """The coordinates of a cell, those of that of the reference, and the pairs that they turn."""
    row, column = cell
    own, reference = (
        rows[row * wide + column :][: max(cell) < wide]
        for rows, wide in ((model.picture, side), (model.reference, other))
    )
    pairs = f"pairs: {', '.join(map(str, model.pairs))}"
    also = f"in the reference {placed.told(model.axes, reference)}; " if len(reference) else ""
    return Datum(model.name, placed.told(model.axes, own), also + pairs)


def on_paper(scene: Scene) -> tuple[str, dict[str, Any]]:
    """The picture of `posenc.plot` that shows the same, and its arguments."""
    sides = {"image": (scene["side"],) * 2, "reference": (scene["ref"],) * 2}
    return "scene", {"text": scene["tokens"], **sides}
