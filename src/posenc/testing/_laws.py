"""What the laws share: where they look, and how they measure."""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc.testing.lab import Lab
from posenc.testing.subject import NotOffered

Found = tuple[float, float]
# A factor on all lengths is an attention factor, but none is this near 1.
LEAST_FACTOR = 2e-3
FAR_PLACES = {"2^17": 2**17, "2^20": 2**20, "2^24": 2**24, "2^31": 2**31}


def largest(x: np.ndarray) -> float:
    """The largest entry, which bounds are multiples of."""
    return float(np.max(np.abs(x), initial=0.0))


def one_factor(lab: Lab, x: np.ndarray, y: np.ndarray, **case: Any) -> tuple[Found, float]:
    """How far lengths are from having changed by one factor, and that factor."""
    ratio = np.linalg.norm(y, axis=-1) / np.linalg.norm(x.astype(np.float64), axis=-1)
    factor = float(ratio[0, 0, 0])
    return lab.same(ratio, np.full_like(ratio, factor), 1e-5, **case), factor


def places_of(lab: Lab, count: int, start: int = 0) -> np.ndarray:
    """Positions start, start + 1, …, or for several axes the cells of a grid that is not square."""
    axes = lab.subject.axes
    if axes == 1:
        return np.arange(start, start + count)
    sizes = (3, 5, 7)[:axes]
    cells = np.stack(np.meshgrid(*map(np.arange, sizes), indexing="ij"), axis=-1)
    return cells.reshape(-1, axes) + start


def answer(lab: Lab, target: Any) -> np.ndarray:
    """What `target` gives for the standard question of its kind."""
    if lab.subject.kind == "rotary":
        return lab.rotate(lab.x(40), np.arange(40), target=target)
    if lab.subject.kind == "table":
        return lab.rows(places_of(lab, 40), target=target)
    return lab.bias(np.arange(20), np.arange(20), target=target)


def exact(lab: Lab, *args: Any) -> np.ndarray:
    """What the named spec gives; without one, what the implementation gives in float32."""
    try:
        return lab.truth(*args)
    except NotOffered:
        return lab.rotate(*args) if lab.subject.kind == "rotary" else lab.rows(*args)
