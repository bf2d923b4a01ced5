"""Differences at positions, what a spec answers, and what is left of numbers in a dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from posenc import functional
from posenc.detect.subject.reach import Reach
from posenc.encodings.rotary.base import RotarySpec


class Tally:
    """Differences so far, and at which positions."""

    def __init__(self) -> None:
        self.worst = (0.0, 0.0, 0.0)  # ratio, difference, tolerance
        self.places: list[np.ndarray] = []  # (2, tokens): positions, and ratios there

    def add(self, off: np.ndarray, room: np.ndarray, places: np.ndarray, axes: Any) -> float:
        """Note differences at positions, which remain where `axes` are left out; the ratio."""
        with np.errstate(divide="ignore", invalid="ignore"):
            each = np.where(off > 0, off / room, 0.0)
        at = np.unravel_index(int(np.argmax(each)), off.shape)
        if each[at] >= self.worst[0]:
            self.worst = float(each[at]), float(off[at]), float(room[at])
        worst = each.max(axis=axes).ravel()
        if worst.shape != places.shape:
            worst = np.full(places.shape, each.max())
        self.places.append(np.stack([places, worst]))
        return float(each[at])

    def asked(self) -> tuple[np.ndarray, np.ndarray]:
        """Positions that were asked, ascending, and whether they agree."""
        places, ratios = np.concatenate(self.places or [np.zeros((2, 0))], axis=1)
        each, index = np.unique(places, return_inverse=True)
        worst = np.zeros(len(each))
        np.maximum.at(worst, index, ratios)
        return each, worst <= 1

    def reach(self) -> Reach:
        """Which positions agree."""
        places, agree = self.asked()
        differs = None if agree.all() else _plain(places[~agree][0])
        alike = places if differs is None else places[places < differs]
        gaps = np.flatnonzero(np.diff(alike) != 1)
        dense = alike[gaps[0]] if len(gaps) else alike.max(initial=0)
        position = _plain(alike[-1]) if len(alike) else None
        return Reach(position, differs, len(alike), dense=int(dense))


def _plain(place: np.floating) -> float:
    """A position, as an integer where it is one."""
    return int(place) if place == int(place) else float(place)


def ratio_of(off: np.ndarray, room: np.ndarray) -> float:
    """The largest difference for what is allowed."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.where(off > 0, off / room, 0.0).max(initial=0.0))


def of_spec(spec: Any, kind: str) -> Callable[..., Any]:
    """What a spec answers to the question of a kind, in float64."""
    if kind == "bias":
        return lambda q, k: functional.bias(spec, q, k, dtype="float64")
    if isinstance(spec, RotarySpec) and kind != "table":
        if kind == "rotary":
            return lambda x, p: functional.rotate(spec, x, positions=p[:, None])
        fixed = spec.at(1) if spec.needs_length else spec
        return lambda p: functional.cos_sin(fixed, p, dtype="float64")
    return lambda p: functional.table(spec, p, dtype="float64")
