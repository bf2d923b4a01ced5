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

LARGEST = 16  # tokens of a side, and of the text
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
    """The maps of the models, and a token of the picture in each of them."""
    side, options = scene["side"], on_paper(scene)[1]
    data = _data(pixels=PIXELS, **options)
    row, column = (min(scene[key], side - 1) for key in KEYS)
    (panel,) = placed.panels(data)
    maps = zip(panel.cells, data.models, strict=True)
    say = f"Row {row}, column {column}"
    return Page(
        lead=f"In {data.title}. A click chooses a token of the picture.",
        panels=(
            replace(panel, cells=tuple(_under(*one, row * side + column, side) for one in maps)),
        ),
        readout=(
            Heading(f"{say} of the picture"),
            *(_datum(model, (row, column), scene) for model in data.models),
        ),
        say=say,
        cursor={"y": stops("row", row, 0, side - 1), "x": stops("col", column, 0, side - 1)},
        python=f"import posenc\n\nplan = posenc.from_hf({next(iter(placed.MODELS.values()))})\n"
        f"scene = [('text', {options['text']}), ('image', {(1, *options['image'])})]\n"
        "plan.layers[0].positions.build(scene)",
    )


def _under(map_: Heatmap, model: placed.PlacedModel, token: int, side: int) -> Heatmap:
    """A map with the cursor on a token of the picture, and for each place the nearest one."""
    first, at = model.of("picture")[[0, token]].astype(np.int32)
    y, x = (
        replace(
            axis,
            key=key,
            at=int(at[n]),
            to=np.clip(np.arange(*axis.domain, dtype=np.int32) - first[n], 0, side - 1),
        )
        for axis, key, n in zip((map_.y, map_.x), KEYS, model.order, strict=False)
    )
    return replace(map_, y=y, x=x)


def _datum(model: placed.PlacedModel, cell: tuple[int, int], scene: Scene) -> Datum:
    """The coordinates of a cell in the picture and in the reference, and the pairs they turn."""
    sides = {"picture": scene["side"], "reference": scene["ref"]}
    tokens = {part: model.of(part)[cell[0] * n + cell[1] :][:1] for part, n in sides.items()}
    also = max(cell) < scene["ref"] and len(tokens["reference"]) > 0
    return Datum(
        model.name,
        placed.told(model.axes, tokens["picture"]),
        (f"in the reference {placed.told(model.axes, tokens['reference'])}; " if also else "")
        + f"pairs: {', '.join(map(str, model.pairs))}",
    )


def on_paper(scene: Scene) -> tuple[str, dict[str, Any]]:
    """The picture of `posenc.plot` that shows the same, and its arguments."""
    sides = {"image": (scene["side"],) * 2, "reference": (scene["ref"],) * 2}
    return "scene", {"text": scene["tokens"], **sides}
