"""The axes that pictures share: positions, dimensions, pairs, values."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from posenc.plot.panels.grammar import Axis, Chart, Heatmap, Mark, Series

PanelType = TypeVar("PanelType", Chart, Heatmap)


def cells(
    label: str,
    start: int,
    stop: int,
    *,
    key: str = "",
    at: int | None = None,
    most: int = 7,
    to: np.ndarray | None = None,
    names: np.ndarray | None = None,
) -> Axis:
    """An axis of integers, each with room of its own; `names` are what they are called."""
    return Axis(label, (start, stop), cells=True, key=key, at=at, to=to, most=most, names=names)


def words(label: str, names: tuple[str, ...], *, key: str = "") -> Axis:
    """An axis of words, each with a cell of its own."""
    count = len(names)
    return Axis(label, (0, count), cells=True, key=key, most=count, names=names)


def values(label: str, low: float, high: float, *, most: int = 4) -> Axis:
    """An axis of numbers, from the least to the largest."""
    return Axis(label, (low, high), most=most)


def logarithmic(label: str, low: float, high: float) -> Axis:
    """A logarithmic axis of positive numbers."""
    return Axis(label, (low, high), scale="log")


def float32(x: np.ndarray) -> np.ndarray:
    """Numbers as curves take them."""
    return np.ascontiguousarray(x, dtype=np.float32)


def stops(key: str, value: int, low: int, high: int) -> dict[str, Any]:
    """An axis of the cursor: its key, and the integers from low to high where it can stand."""
    return {"key": key, "value": value, "min": low, "max": high, "step": 1}


def banded(label: str, x: np.ndarray, data: Any, *, band: bool) -> Series:
    """The mean of a curve, with its band where it has one."""
    low, high = (float32(data.low), float32(data.high)) if band else (None, None)
    return Series(label, x, float32(data.mean), lo=low, hi=high)


def under(
    panel: PanelType, x: float | None = None, y: float | None = None, *, to: float | None = None
) -> PanelType:
    """A panel with the cursor at places of its axes; `to` puts a point there on a curve."""
    changed: dict[str, Any] = {"x": replace(panel.x, at=x)}
    if isinstance(panel, Heatmap):
        changed["y"] = replace(panel.y, at=y)
    if isinstance(panel, Chart) and x is not None and to is not None and math.isfinite(to):
        at = x + 0.5 * panel.x.cells
        changed["marks"] = (*panel.marks, Mark("point", at, to=to, style="point"))
    return replace(panel, **changed)
