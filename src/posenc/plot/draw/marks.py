"""Marks of curves: a line across with its name, and the names of curves at their ends."""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc.plot.draw.sheet import Sheet

__all__ = ["BAND", "label_ends", "mark_line"]

BAND = 0.28  # opacity of a band around a curve


def mark_line(sheet: Sheet, axes: Any, at: float, text: str) -> None:
    """A dashed line across, with its name."""
    axes.axhline(at, color=sheet.theme.ink, linewidth=0.9, linestyle=(0, (4, 3)))
    axes.annotate(
        text,
        (0, at),
        xycoords=("axes fraction", "data"),
        xytext=(4, 3),
        textcoords="offset points",
        fontsize=9,
        color=sheet.theme.ink,
    )


def label_ends(axes: Any, names: list[tuple[float, str, str]]) -> None:
    """The name of each curve at its end, moved apart where they would meet."""
    if not names:
        return
    axes.get_ylim()  # settles the limits, on which places depend
    box = axes.get_window_extent()
    unit = 72 / axes.figure.dpi  # pixels of the device as points
    height = box.height * unit
    places = [(axes.transData.transform((0, y))[1] - box.y0) * unit for y, _, _ in names]
    order = np.argsort(places, kind="stable")
    moved = _apart(np.array(places)[order], 12.0, height)
    for at, index in zip(moved, order, strict=True):
        _, text, colour = names[index]
        axes.annotate(
            text,
            (1, 0),
            xycoords="axes fraction",
            xytext=(6, float(at)),
            textcoords="offset points",
            va="center",
            fontsize=9,
            color=colour,
        )


def _apart(places: np.ndarray, gap: float, height: float) -> np.ndarray:
    """Rising places at least a gap apart, moved as little as that takes."""
    moved = places.copy()
    for k in range(1, len(moved)):
        moved[k] = max(moved[k], moved[k - 1] + gap)
    excess = moved[-1] - max(height, places[-1])
    if excess > 0:
        moved[-1] -= excess
        for k in range(len(moved) - 2, -1, -1):
            moved[k] = min(moved[k], moved[k + 1] - gap)
    return moved
