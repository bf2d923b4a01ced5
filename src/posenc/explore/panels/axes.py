"""The axes that views share: positions, dimensions, pairs, values."""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc.explore.panels.panels import Axis, Series, Tick
from posenc.explore.panels.text import log_ticks, number, ticks, whole


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
    if names is not None:
        marks = _named(names, start, stop, most)
    else:
        whole_ticks = (tick.at for tick in ticks(start, stop - 1, most) if tick.at % 1 == 0)
        marks = tuple(Tick(at + 0.5, whole(at)) for at in whole_ticks)
    if not marks:
        marks = (Tick(start + 0.5, whole(start if names is None else names[start])),)
    return Axis(label, (start, stop), marks, cells=True, key=key, at=at, to=to)


def _named(names: np.ndarray, start: int, stop: int, most: int) -> tuple[Tick, ...]:
    """Ticks at round names, and at those after them, which stand elsewhere: sines and cosines."""
    round_names = [int(tick.at) for tick in ticks(0, len(names) - 1, most)]
    shown = [one for name in round_names for one in (name, name + 1) if one in names]
    places = [(int(np.flatnonzero(names == one)[0]), whole(one)) for one in shown]
    return tuple(Tick(at + 0.5, text) for at, text in sorted(places) if start <= at < stop)


def values(label: str, low: float, high: float, *, most: int = 4) -> Axis:
    """An axis of numbers, from the least to the largest."""
    marks = ticks(low, high, most)
    return Axis(label, (low, high), marks or (Tick(low, number(low)),))


def logarithmic(label: str, low: float, high: float) -> Axis:
    """A logarithmic axis of positive numbers."""
    return Axis(label, (low, high), log_ticks(low, high), scale="log")


def float32(x: np.ndarray) -> np.ndarray:
    """Numbers as the page takes them."""
    return np.ascontiguousarray(x, dtype=np.float32)


def stops(key: str, value: int, low: int, high: int) -> dict[str, Any]:
    """An axis of the cursor: its key, and the integers from low to high where it can stand."""
    return {"key": key, "value": value, "min": low, "max": high, "step": 1}


def banded(label: str, x: np.ndarray, data: Any, *, band: bool) -> Series:
    """The mean of a curve, with its band where it has one."""
    low, high = (float32(data.low), float32(data.high)) if band else (None, None)
    return Series(label, x, float32(data.mean), lo=low, hi=high)
