"""Table: rows of numbers as colours."""

from __future__ import annotations

import numpy as np

from posenc.plot import palette
from posenc.plot.column_order import arranged
from posenc.plot.panels.axes import cells
from posenc.plot.panels.grammar import Axis, Heatmap, Mark
from posenc.plot.panels.text import number, thin
from posenc.plot.raster import Tile
from posenc.plot.views.table import TableView

COLUMNS = {
    "stored": "dimension",
    "interleaved": "dimension, sine and cosine in turn",
    "sin_cos": "dimension, sines before cosines",
    "cos_sin": "dimension, cosines before sines",
}


def panels(data: TableView) -> tuple[Heatmap]:
    """The table in pixels."""
    return (heatmap(data.tile, arranged(data.source, data.tile.order)),)


def heatmap(picture: Tile, drawn: np.ndarray, indices: np.ndarray | None = None) -> Heatmap:
    """A tile, whose columns stand in the order `drawn`."""
    first, last = picture.dims
    scale = (last - first) / picture.values.shape[1]
    lines = tuple(
        Mark("x", first + at * scale, "2 px per wave" if n == 0 else "")
        for n, at in enumerate(picture.boundaries)
    )
    limit = picture.limit
    return Heatmap(
        id="table",
        title="sampled: an illusion" if picture.method == "sample" else "",
        tile=palette.indices(picture.values, limit) if indices is None else indices,
        lut="diverging",
        x=across(drawn, picture.dims, picture.order),
        y=cells("position", *picture.positions, key="p"),
        low=number(-limit),
        high="+" + number(limit),
        caption=thin(" ".join(picture.caption)),
        lines=lines,
        values=picture.values,
        limit=limit,
    )


def across(drawn: np.ndarray, dims: tuple[int, int], order: str = "sin_cos") -> Axis:
    """The axis of dimensions, in the order in which they are drawn."""
    if (drawn == np.arange(len(drawn))).all():
        return cells(COLUMNS["stored"], *dims, key="j")
    moved = drawn[dims[0] : dims[1]].astype(np.int32)
    return cells(COLUMNS[order], *dims, key="j", to=moved, names=drawn)
