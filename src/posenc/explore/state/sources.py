"""An encoding as a table of numbers, made once for each spec that is looked at."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from posenc.explore.state.catalogue import grid_of
from posenc.explore.state.entry import Chosen, initial
from posenc.explore.state.scene import Scene
from posenc.plot.columns import TableSource, source


def held(chosen: Chosen, length: int | None = None) -> TableSource:
    """The rows and waves of an encoding; raises `PosencError` where it has none."""
    if chosen.entry.params is None:
        return held_of(chosen.spec, length)
    return source(chosen.spec, params=chosen.params)


def held_of(spec: Any, length: int | None) -> TableSource:
    """The same of a spec whose parameters, if it has any, are random ones."""
    sides = grid_of(spec, length or 1) or None
    return _held(spec, length if _open(spec) else None, sides)


def _open(spec: Any) -> bool:
    return bool(getattr(spec, "needs_length", False))


@functools.lru_cache(maxsize=64)
def _held(spec: Any, length: int | None, sides: tuple[int, ...] | None) -> TableSource:
    return source(spec, params=learnt(spec), length=length, grid=sides)


def visible(scene: Scene) -> tuple[tuple[int, int], tuple[int, int]]:
    """The positions and the dimensions that are in the picture."""
    return (scene["p0"], scene["p1"]), (scene["j0"], scene["j1"])


def learnt(spec: Any) -> Any:
    """What stands in for what an encoding has learned; None if it learns nothing."""
    return initial(spec) if spec.shapes else None


def window(centre: int, low: int, high: int, size: int = 20) -> np.ndarray:
    """A range of at most `size` integers around one of them, within low to high (excluded)."""
    first = max(low, min(centre - size // 2, high - size))
    return np.arange(first, min(first + size, high))
