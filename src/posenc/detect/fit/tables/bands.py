"""Fourier features: bands that are evenly spaced or octaves, of coordinates on a grid.

    row(x) = sin(f[j] x[a]), cos(f[j] x[a])        f linear in j, or doubled from band to band

The coordinates stand in the row itself, or are one of the usual ways to number a grid. Bands are
followed from slow to fast, as fast ones turn by more than half a turn from place to place.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from posenc._core.errors import PosencError
from posenc._core.numeric.arrangement import Arrangement
from posenc._core.numeric.ladder import Ladder
from posenc.detect.fit.ladders import stated
from posenc.detect.fit.tables.layout import (
    AXES,
    FLOAT32,
    AxisGrid,
    Placement,
    circle_tolerance,
    fills,
    grid_of,
)
from posenc.detect.fit.tables.table import TableFit, evidence_of, residual_of
from posenc.encodings.table.fourier import Fourier

LEAST_BANDS = 3
MOST_AXES = 3
MOST_OCTAVES = 24


class _BandColumns(NamedTuple):
    """Where raw coordinates, sines and cosines stand."""

    raw: Any
    order: Any
    blocks: Any
    coordinates: tuple[int, ...]  # (axes,), or empty
    sines: np.ndarray  # (axes, bands)
    cosines: np.ndarray


class _PlacedAxis(NamedTuple):
    """The grid of an axis, and position = unit * (place + start)."""

    grid: AxisGrid
    start: float
    unit: float


def fit_bands(rows: np.ndarray, *, eps: float) -> tuple[TableFit, ...]:
    """The first Fourier features that rebuild all entries; empty if there are none."""
    table = np.asarray(rows, dtype=np.float64)
    if table.shape[0] < LEAST_BANDS or np.abs(table).max() > 2:
        return ()
    for laid in _columns(table.shape[1]):
        square = table[:, laid.sines] ** 2 + table[:, laid.cosines] ** 2
        if np.abs(square - 1).max() > 2 * circle_tolerance(eps):
            continue
        z = table[:, laid.cosines] + 1j * table[:, laid.sines]
        # Of a table that was read in part, the places of the slowest axis that are whole.
        moved = np.abs(z - z[0]).max(axis=2) > 4 * eps
        strides = [int(n) or len(z) for n in moved.argmax(axis=0)]
        whole = len(z) // max(strides) * max(strides)
        if whole < LEAST_BANDS:
            continue
        part, z = table[:whole], z[:whole]
        for axes in _axes(part, laid, z, strides, eps):
            for choice in itertools.product(
                *[_ladder(z[a.grid.rows, k], a, eps) for k, a in enumerate(axes)]
            ):
                fit = _verified(part, laid, axes, choice, eps)
                if fit is not None:
                    return (fit,)
    return ()


def _columns(width: int) -> Iterator[_BandColumns]:
    orders = ("sin_cos", "cos_sin", "interleaved")
    for axes, raw in itertools.product(range(1, MOST_AXES + 1), ("none", "first", "last")):
        room = width - (0 if raw == "none" else axes)
        bands, rest = divmod(room, 2 * axes)
        if rest or bands < LEAST_BANDS:
            continue
        begin = axes if raw == "first" else 0
        coordinates = () if raw == "none" else tuple(range(axes)) if begin else range(room, width)
        a, j = np.arange(axes)[:, None], np.arange(bands)[None, :]
        # Pairs of one block, the place of a pair within it, and the channels before it.
        blocks: dict[str, tuple[int, Any, Any]] = {
            "all": (axes * bands, a * bands + j, 0),
            "axis": (bands, j, 2 * bands * a),
            "band": (axes, a, 2 * axes * j),
        }
        for order, block in itertools.product(orders, blocks if axes > 1 else ("all",)):
            size, inside, before = blocks[block]
            one = begin + before + (2 * inside if order == "interleaved" else inside)
            two = one + (1 if order == "interleaved" else size)
            both = (two, one) if order == "cos_sin" else (one, two)
            sines, cosines = (np.broadcast_to(c, (axes, bands)) for c in both)
            yield _BandColumns(raw, order, block, tuple(coordinates), sines, cosines)


def _axes(
    table: np.ndarray, laid: _BandColumns, z: np.ndarray, strides: list[int], eps: float
) -> Iterator[tuple[_PlacedAxis, ...]]:
    """The coordinates of the rows: as they stand there, or as grids are numbered."""
    axes: list[list[_PlacedAxis]] = []
    for k in range(z.shape[1]):
        raw = table[:, laid.coordinates[k], None] if laid.coordinates else None
        grid = (
            AxisGrid(1, len(z), np.arange(len(z)))
            if z.shape[1] == 1
            else grid_of(z[:, k] if raw is None else raw, eps)
        )
        if grid is None or grid.places < 2:
            return
        if grid.stride == max(strides):
            # The last place of the slowest axis may be a whole turn from the first.
            count = len(table) // grid.stride
            grid = AxisGrid(grid.stride, count, np.arange(count) * grid.stride)
        count = grid.places
        if raw is None:
            options = [
                *((0.0, 1.0), ((1 - count) / 2, 2 / (count - 1)), ((1 - count) / 2, 2 / count)),
                *((0.0, 1 / (count - 1)), (0.5, 1 / count), (0.0, 1 / count)),
            ]
        else:
            x = raw[grid.rows, 0]
            unit = (x[-1] - x[0]) / (count - 1)
            if not unit or np.abs(x - x[0] - unit * np.arange(count)).max() > 4 * eps + 4 * FLOAT32:
                return
            start = x[0] / unit
            half = round(2 * start) / 2
            near = abs(start - half) < 1e-3
            unit = _even(x[0] / half if near and half else unit, count)
            options = [(half if near else start, unit)]
        axes.append([_PlacedAxis(grid, start, unit) for start, unit in options])
    # All axes are numbered in one way.
    if fills([options[0].grid for options in axes], len(table)):
        yield from zip(*axes, strict=True)


def _even(unit: float, count: int) -> float:
    """The step of a usual grid, where a measured one is as good as that."""
    usual = (1.0, 2 / (count - 1), 2 / count, 1 / (count - 1), 1 / count)
    near = min(usual, key=lambda value: abs(abs(unit) - value))
    return math.copysign(near, unit) if abs(abs(unit) / near - 1) < 1e-5 else unit


def _ladder(z: np.ndarray, axis: _PlacedAxis, eps: float) -> list[tuple[Ladder, float]]:
    """Ladders through the bands of one axis, each with its bits."""
    count, bands = z.shape
    per_place = np.angle((z[1:] * z[:-1].conj()).sum(axis=0))
    if not abs(per_place[0]) > 0:
        return []
    # Octaves double, the others grow by what the first two differ by.
    step = _near(per_place[1], 2 * per_place[0]) - per_place[0]
    even = [per_place[0]]
    for j in range(1, bands):
        even.append(_near(per_place[j], even[-1] + step))
        step = (even[-1] - even[0]) / j
    error = 8 * (eps + FLOAT32) / max(count - 1, 1)
    ladders = []
    slow = _tidy(per_place[0] / axis.unit, 2 * error / abs(per_place[0]))
    if slow is not None and bands <= MOST_OCTAVES:
        off = np.angle(np.exp(1j * (per_place[0] * 2.0 ** np.arange(bands) - per_place)))
        if np.abs(off).max() < 2**bands * error + 1e-4:
            ladders.append((Ladder(spacing="octave", first=slow[0]), 4 + slow[1]))
    level, slope = np.polynomial.polynomial.polyfit(np.arange(bands), even, 1).tolist()
    # Coordinates may have been rounded to float32 themselves.
    blur = 2 * FLOAT32 * max(abs(axis.start), count) / max(count - 1, 1)
    ends = [
        _tidy(v / axis.unit, 2 * error / abs(v) + blur)
        for v in (level, level + slope * (bands - 1))
        if v
    ]
    straight = np.abs(np.array(even) - level - slope * np.arange(bands)).max() < 8 * error + 1e-5
    if straight and len(ends) == 2 and None not in ends:
        (first, one), (last, two) = ends  # type: ignore[misc]
        ladders.append((Ladder(spacing="linear", first=first, last=last), 4 + one + two))
    return ladders


def _near(angle: float, guess: float) -> float:
    """An angle plus the whole turns that bring it near a guess."""
    return float(angle + 2 * math.pi * round((guess - angle) / (2 * math.pi)))


def _tidy(value: float, error: float) -> tuple[float, float] | None:
    """A frequency that is round where that is no accident, and its bits."""
    return stated(value, error) if 0 < value < math.inf else None


def _verified(
    table: np.ndarray,
    laid: _BandColumns,
    axes: tuple[_PlacedAxis, ...],
    choice: tuple[tuple[Ladder, float], ...],
    eps: float,
) -> TableFit | None:
    order = sorted(range(len(axes)), key=lambda k: -axes[k].grid.stride)
    names = AXES[len(axes)]
    place = dict(zip(order, names, strict=True))
    ladders = tuple(choice[k][0] for k in order)
    channels = tuple(place[k] for k in range(len(axes)))
    rule: Any = "single" if len(axes) == 1 else "axial_cyclic" if laid.blocks == "band" else "axial"
    arrangement = Arrangement(rule=rule, axes=names, order=None if channels == names else channels)
    placement = Placement(
        names,
        tuple(axes[k].grid.places for k in order),
        tuple(axes[k].grid.stride for k in order),
        tuple(axes[k].start for k in order),
        units=tuple(axes[k].unit for k in order),
    )
    try:
        spec = Fourier(
            table.shape[1],
            ladder=ladders[0] if len(set(ladders)) == 1 else ladders,
            order=laid.order,
            blocks=laid.blocks,
            arrangement=arrangement,
            raw=laid.raw,
        )
        residual = residual_of(table, spec, placement, eps)
    except PosencError:
        return None
    if residual is None or (channels != names and laid.raw != "none"):
        return None
    grids = [axis.grid for axis in axes]
    evidence = evidence_of(table, grids, laid.sines, laid.cosines, residual.loosest)
    bits = 12 + sum(bits for _, bits in set(choice))
    bits += sum(2 * math.log2(grid.places) for grid in grids)
    return TableFit(spec, placement, residual.worst, residual.allowed, evidence, bits)
