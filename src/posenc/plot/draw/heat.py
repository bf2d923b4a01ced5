"""Matrices of signed numbers as colours, with a scale of colours beside them."""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc.plot import palette
from posenc.plot.draw.pixels import fill, hatched, spread
from posenc.plot.draw.sheet import Sheet
from posenc.plot.words import number


def heat(
    sheet: Sheet,
    axes: Any,
    values: np.ndarray,
    *,
    limit: float,
    x: tuple[float, float],
    y: tuple[float, float],
    absent: np.ndarray | None = None,
) -> None:
    """Paint a matrix, row 0 above; x and y are what its edges stand for.

    What is not finite, and what is `absent`, has no colour; the scale ends at `limit`.
    """
    indices = palette.indices(values, limit)
    if absent is not None:
        indices = np.where(absent, 0, indices).astype(np.uint8)

    def paint(rows: int, columns: int) -> np.ndarray:
        shown = spread(indices, rows, columns)
        return hatched(sheet.lut[shown], shown == 0, sheet.theme)

    fill(axes, paint)
    axes.set_xlim(*x)
    axes.set_ylim(y[1], y[0])
    axes.spines[:].set_visible(False)


def bar(
    sheet: Sheet,
    left: float,
    top: float,
    limit: float,
    *,
    height: float = 120,
    signed: bool = True,
) -> None:
    """A scale of colours: the limit above, zero, and minus the limit below unless unsigned."""
    if sheet.direct:
        return  # the caller's axes have one panel
    axes = sheet.panel(left, top, 12, height, "still")

    def paint(rows: int, columns: int) -> np.ndarray:
        entries = 255 - np.arange(rows) * (255 if signed else 128) // rows
        return np.broadcast_to(sheet.lut[entries][:, None], (rows, columns, 3))

    fill(axes, paint)
    axes.set(xticks=[], ylim=(-1 if signed else 0, 1))
    axes.yaxis.tick_right()
    ticks = {-1: number(-limit), 0: "0", 1: number(limit)} if signed else {0: "0", 1: number(limit)}
    axes.set_yticks(list(ticks), ticks.values())
    axes.spines[:].set_visible(False)
