"""How far an encoding and an implementation agree: calls of every kind that a model makes.

What was read from one call may be wrong of others: farther positions, several heads, odd sizes, one
token alone, large numbers, the same call once more. Each kind is asked for, and what is refused
narrows what is claimed.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from posenc.detect.fit.rotations.pairs import FLOAT32
from posenc.detect.fit.rotations.rotation import MeasuredTurns
from posenc.detect.fit.rotations.rotation_specs import RotationFit
from posenc.detect.infer.implementation import RefusedError, RotationProbe
from posenc.detect.infer.result import Reach
from posenc.functional import rotate

REACHES = (2**20, 2**17, 2**14, 2**12, 2**11, 2**10)
DENSE = 2**12  # every position up to it is asked for
ENTRIES = 2**21  # numbers of one call at most
SIZES = (1.0, 1e3, 1e-3)  # of the rows of a batch
SEED = 20


class Agreement(NamedTuple):
    """The largest difference for its tolerance, and what was looked at."""

    difference: float
    tolerance: float
    reach: Reach
    notes: tuple[str, ...]


class Tally:
    """What was compared so far."""

    def __init__(self) -> None:
        self.worst = (0.0, 0.0, 0.0)  # ratio, difference, tolerance
        self.where: dict[float, float] = {}  # ratio at each position
        self.heads = self.batch = self.length = 0
        self.largest = 0.0
        self.notes: list[str] = []

    def add(self, off: np.ndarray, allowed: np.ndarray, positions: np.ndarray) -> bool:
        """Whether differences (..., positions, channels) are more than what explains them.

        Positions are (positions,). What is no number agrees with nothing.
        """
        off = np.where(np.isfinite(off), off, math.inf)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(off > 0, off / allowed, 0.0)
        at = np.unravel_index(int(np.argmax(ratio)), ratio.shape)
        if ratio[at] >= self.worst[0]:
            most = float(np.broadcast_to(allowed, off.shape)[at])
            self.worst = (float(ratio[at]), float(off[at]), most)
        axes = tuple(k for k in range(ratio.ndim) if k != ratio.ndim - 2)
        for p, r in zip(positions.tolist(), ratio.max(axis=axes).tolist(), strict=True):
            self.where[p] = max(self.where.get(p, 0.0), r)
        return bool(ratio[at] > 1)

    def result(self, calls: int) -> Agreement:
        """All of it."""
        differs = min((p for p, ratio in self.where.items() if ratio > 1), default=None)
        alike = [p for p in self.where if differs is None or p < differs]
        reach = Reach(
            position=max(alike, default=None),
            differs=differs,
            positions=len(alike),
            heads=self.heads,
            batch=self.batch,
            length=self.length,
            largest=self.largest,
            calls=calls,
        )
        return Agreement(self.worst[1], self.worst[2], reach, tuple(self.notes))


class Call(NamedTuple):
    """What was handed over and what came back."""

    x: np.ndarray  # (batch, heads, positions, channels)
    steps: np.ndarray  # (positions, axes)
    outputs: tuple[np.ndarray, ...]  # a query, or a query and a key
    double: bool


def calls(
    probe: RotationProbe,
    width: int,
    axes: int,
    *,
    last: int,
    unit: float,
    counted: bool,
    farthest: int,
) -> tuple[list[Call], list[str]]:
    """What an implementation does in calls of every kind, and what it refused."""
    rng = np.random.default_rng(SEED)
    answers: list[Call] = []
    notes: list[str] = []

    def ask(shape: tuple[int, int], steps: np.ndarray, sizes: Any = 1.0) -> bool:
        x = (rng.normal(size=(*shape, len(steps), width)) * sizes).astype(np.float32)
        call = called(probe, x, steps, unit)
        if call is not None:
            answers.append(call)
        return call is not None

    heads = 5 if probe.style is not None and "h" in probe.style.layout else 1
    near = rng.integers(0, last + 1, (17, axes))
    near = np.arange(17)[:, None] if counted else near
    sizes = np.array(SIZES)[:, None, None, None]
    for shape in dict.fromkeys(((3, heads), (3, 1), (1, heads), (1, 1))):
        if ask(shape, near, sizes[: shape[0]]):
            heads = shape[1]
            break
    else:
        notes.append(f"it refused every call but the first: {probe.refusals[-1]}")
    end = last
    for reach in REACHES if unit == 1 else ():
        if not last < reach <= farthest or (counted and reach * width > ENTRIES):
            continue
        positions = np.arange(reach + 1)[:, None] if counted else far_positions(rng, reach, axes)
        most = 1 if counted or heads == 1 else 33
        if any(ask((2 - counted, count), positions) for count in dict.fromkeys((most, heads))):
            end = reach
            break
        notes.append(f"it refuses positions to {reach:,}: {probe.refusals[-1]}")
    if not counted and axes == 1 and unit == 1:
        ask((1, 1), np.arange(min(DENSE, end, ENTRIES // width) + 1)[:, None])
    one = np.zeros((1, axes), dtype=np.int64) if counted else rng.integers(1, last + 1, (1, axes))
    if not ask((1, 1), one):
        notes.append(f"it refuses one token alone: {probe.refusals[-1]}")
    return answers, notes


def called(probe: RotationProbe, x: np.ndarray, steps: np.ndarray, unit: float) -> Call | None:
    """One call; None where the implementation refuses it."""
    positions = in_units(steps, unit)
    try:
        y = probe(x, positions[:, 0] if positions.shape[1] == 1 else positions)
    except RefusedError:
        return None
    return Call(x, steps, (y,) if probe.second is None else (y, probe.second), probe.double)


def in_units(steps: np.ndarray, unit: float) -> np.ndarray:
    """Coordinates of some steps."""
    return steps if unit == 1 else (steps * unit).astype(np.float32)


def agreement(fit: RotationFit, turns: MeasuredTurns, asked: list[Call], unit: float) -> Agreement:
    """Compare all calls with an encoding."""
    tally = Tally()
    roles: Any = ("query", "key") if fit.role == "query" else ("key", "query")
    for x, steps, outputs, double in asked:
        positions = in_units(steps, unit)
        positions = positions[:, 0] if positions.shape[1] == 1 else positions
        for role, out in zip(roles, outputs, strict=False):
            expected = made_by(fit._replace(role=role), x, positions)
            eps = turns.eps if double else FLOAT32
            allowed = turns.allowed(x.astype(np.float64), expected, steps, eps)
            worse = tally.add(np.abs(expected - out), allowed, np.abs(steps).max(axis=1))
            if worse and not tally.notes:
                tally.notes.append(
                    f"a call of {x.shape[0]} rows, {x.shape[1]} heads and {x.shape[2]} positions "
                    f"differs{'' if out is outputs[0] else ' in its second output'}"
                )
        tally.batch, tally.heads, tally.length = np.maximum(
            (tally.batch, tally.heads, tally.length), x.shape[:3]
        ).tolist()
        tally.largest = max(tally.largest, float(np.abs(x).max()))
    return tally.result(0)


def far_positions(rng: np.random.Generator, end: int, axes: int) -> np.ndarray:
    """Positions around each power of two up to `end`, and others: (positions, axes)."""
    edges = [2**k + d for k in range(4, 21) for d in (-1, 0, 1)]
    line = np.array(sorted({p for p in (*edges, 400, 1000, 10_000, 100_000, end) if p <= end}))
    if axes == 1:
        return line[:, None]
    return np.stack([rng.permutation(line) for _ in range(axes)], axis=1)


def made_by(fit: RotationFit, x: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """What the encoding makes of x (..., seq, channels), float64."""
    inputs = x.astype(np.float64)
    inner = inputs if fit.channels is None else inputs[..., list(fit.channels)]
    # Learned values are those of one head, whatever the axes of x.
    flat = inner.reshape(-1, 1, *inner.shape[-2:]) if fit.params else inner
    spec = fit.exact if fit.departed else fit.spec
    turned = rotate(
        spec, flat, positions=positions, role=fit.role, params=fit.params or None
    ).reshape(inner.shape)
    if fit.channels is None:
        return np.asarray(turned)
    out = inputs.copy()
    out[..., list(fit.channels)] = turned
    return out
