"""Scene: where models of pictures put a text, a picture and a reference."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np

from posenc.explore.state.fields import integer
from posenc.explore.state.scene import Page, Scene, ViewShape
from posenc.plot.panels.grammar import Datum, Heading, Heatmap, stops
from posenc.plot.views import scene as placed

LARGEST = 16  # tokens of a side, and of the text
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
    side = scene["side"]
    options = {
        "text": scene["tokens"],
        "image": (side,) * 2,
        "reference": (scene["ref"],) * 2,
    }
    data = _data(**options)
    row, column = (min(scene[key], side - 1) for key in KEYS)
    token, (panel,) = row * side + column, placed.panels(data)
    return Page(
        lead=f"In tokens: {data.title}. A click chooses one of the picture.",
        panels=(
            replace(
                panel,
                cells=tuple(
                    _under(map_, model, token, side)
                    for map_, model in zip(panel.cells, data.models, strict=True)
                ),
            ),
        ),
        readout=(
            Heading(f"Row {row}, column {column} of the picture"),
            *(
                Datum(
                    model.name,
                    placed.ranges(model.axes, model.positions[[token]]),
                    f"pairs that turn by them: {', '.join(map(str, model.pairs))}",
                )
                for model in data.models
            ),
        ),
        say=f"Row {row}, column {column}",
        cursor={"y": stops("row", row, 0, side - 1), "x": stops("col", column, 0, side - 1)},
        python=f"import posenc\n\nplan = posenc.from_hf({next(iter(placed.MODELS.values()))})\n"
        f"scene = [('text', {options['text']}), ('image', {(1, *options['image'])})]\n"
        "plan.layers[0].positions.build(scene)",
        paper=("scene", options),
    )


def _under(map_: Heatmap, model: placed.PlacedModel, token: int, side: int) -> Heatmap:
    """A map with the cursor on a token of the picture, and for each place the nearest one."""
    first, at = model.positions[[0, token]].astype(np.int32)  # a picture comes first
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
