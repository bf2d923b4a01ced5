"""An encoding as a table of numbers, made once for each spec that is looked at."""

from __future__ import annotations

import functools

import numpy as np

from posenc.explore.state.catalogue import grid_of
from posenc.explore.state.entry import Chosen
from posenc.explore.state.scene import Scene
from posenc.plot.columns import TableSource, source


def held(chosen: Chosen, length: int) -> TableSource:
    """The rows and waves of an encoding; raises `PosencError` where it has none."""
    sides = grid_of(chosen.spec, length) or None
    return _held(chosen, length if getattr(chosen.spec, "needs_length", False) else None, sides)


@functools.lru_cache(maxsize=64)
def _held(chosen: Chosen, length: int | None, sides: tuple[int, ...] | None) -> TableSource:
    return source(chosen.spec, params=chosen.params, length=length, grid=sides)


def visible(scene: Scene) -> tuple[tuple[int, int], tuple[int, int]]:
    """The positions and the dimensions that are in the picture."""
    return (scene["p0"], scene["p1"]), (scene["j0"], scene["j1"])


def window(centre: int, low: int, high: int, size: int = 20) -> np.ndarray:
    """A range of at most `size` integers around one of them, within low to high (excluded)."""
    first = max(low, min(centre - size // 2, high - size))
    return np.arange(first, min(first + size, high))
