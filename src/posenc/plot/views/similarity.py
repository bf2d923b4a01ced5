"""Similarity: which positions are alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc.plot import palette
from posenc.plot.columns import Params, Table, TableSource, check_word, matrix, source
from posenc.plot.panels.grammar import Heatmap, cells
from posenc.plot.panels.text import Described, brief, number, present
from posenc.plot.raster import MOST_NUMBERS, placed, tile_of
from posenc.plot.response import reduced
from posenc.plot.rows import require
from posenc.plot.views.offset import NAMES, defect, sized

MOST_COLUMNS = 1 << 22


@dataclass(frozen=True)
class Similarity(Described):
    """Products of rows, position by position."""

    values: np.ndarray
    positions: tuple[int, int]
    per_pixel: float
    kind: str
    defect: float
    limit: float


def data(
    spec: Any,
    positions: int | tuple[int, int] | None = None,
    *,
    kind: str = "dot",
    pixels: int = 512,
    params: Params = None,
    length: int | None = None,
    grid: tuple[int, ...] | None = None,
) -> Similarity:
    """The products of all rows with all rows.

    Where a pixel covers several positions, the rows are filtered first (`posenc.plot.raster`): a
    filter over both sides of the matrix is the product of filtered rows.
    """
    check_word("plot similarity: kind", kind, tuple(NAMES))
    table = source(spec, params=params, length=length, grid=grid, caller="similarity")
    start, stop = placed(table, positions)
    rows = min(pixels, stop - start, max(2, MOST_COLUMNS // table.width))
    shown = _rows(table, start, stop, rows, kind)
    per_pixel = (stop - start) / rows
    values = shown @ shown.T
    limit = float(np.abs(values).max()) or 1.0
    share = defect(table, kind)
    caption = present(
        f"Shift-invariance defect {number(share, 2)}: "
        + ("each diagonal is one number." if share == 0 else "0 where the distance explains all."),
        f"A pixel covers {number(per_pixel)} positions of each side; waves below 2 pixels are left "
        "out of the products."
        if per_pixel > 1
        else "",
        f"Colours end at ±{number(limit)}.",
    )
    return Similarity(
        values,
        (start, stop),
        per_pixel,
        kind,
        share,
        limit,
        title=brief(table.spec),
        caption=caption,
    )


def _rows(table: TableSource, start: int, stop: int, rows: int, kind: str) -> np.ndarray:
    """What is multiplied: rows, or filtered rows where a pixel covers several."""
    count = stop - start
    if kind == "cosine" and table.waves is None and rows < count:
        numbers = count * table.width
        require(
            numbers <= MOST_NUMBERS,
            " similarity",
            f"at most {MOST_NUMBERS:,} numbers of a table without known waves",
            numbers,
        )
        return reduced(
            lambda begin, end: sized(table.rows(np.arange(start + begin, start + end)), kind),
            count,
            rows,
            table.width,
        )
    tile = tile_of(table, (start, stop), rows=rows, columns=table.width, order="stored")
    if kind == "dot":
        return tile.values
    return (
        sized(tile.values, kind)
        if rows == count
        else tile.values / float(np.linalg.norm(table.rows(tile.places), axis=1).mean())
    )


def rows(data: Any) -> Table:
    """The numbers of a .csv."""
    places = data.positions[0] + np.floor(
        (np.arange(len(data.values)) + 0.5) * data.per_pixel
    ).astype(np.int64)
    return matrix("position", places, (f"p{p}" for p in places), data.values)


# --- panels ---------------------------------------------------------------------------------------


def panels(data: Similarity) -> tuple[Heatmap]:
    """The matrix of products."""
    return (
        Heatmap(
            id="matrix",
            title=f"{NAMES[data.kind]} of rows",
            tile=palette.indices(data.values, data.limit),
            lut="diverging",
            x=cells("position", *data.positions),
            y=cells("position", *data.positions, key="p"),
            low=number(-data.limit),
            high=number(data.limit),
            caption=" ".join(data.caption),
            place="half",
            values=data.values,
            limit=data.limit,
        ),
    )
