"""Which sinusoidal table this is: order, axes, ladder, base, start, scale, pad row.

A guess is made from phases and lines (`layout`, `fit_line`, `table_specs`); then posenc computes
the table that the guess describes, and every entry is compared. What is returned is a spec that has
rebuilt the table, with the bits that the table spells out and the bits it takes to state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from posenc._core.arrays.array import library
from posenc._core.errors import PosencError
from posenc._core.numeric.ladder import Ladder
from posenc.detect.fit.ladders import bend_bits
from posenc.detect.fit.tables.layout import (
    FLOAT32,
    AxisGrid,
    Placement,
    TableLayout,
    fills,
    grid_of,
    layouts,
)
from posenc.detect.fit.tables.line import fit_line
from posenc.detect.fit.tables.table_specs import Sighting, SpecGuess, TableAxis, specs
from posenc.encodings.table.base import TableSpec, columns
from posenc.encodings.table.fourier import Fourier
from posenc.functional import table as build

FLOAT16 = 2.0**-11
LEAST_ROWS, LEAST_COLUMNS = 3, 2
PIECE = 2**20  # entries that are rebuilt at a time
CLASSIC = 4.0  # roundings of float32 in a phase: of the product, and of the frequency
FARTHEST_OFF = 2.0**-6  # radians by which they may move a phase at most
SLACK = 1.25  # of half a unit: what a base that is solved for may add
TINY = 2.0**-25  # half the smallest float16
MOST_FITS = 4
ENOUGH = 40.0  # bits over which no other layout is tried
# Errors of phases to allow for besides those of the dtype: classic arithmetic at far positions.
NOISES = (2.0**-13, 2.0**-7, 2.0**-4)


class Residual(NamedTuple):
    """How far a table is from what a spec gives."""

    worst: float  # largest |difference|
    allowed: float  # what was allowed there
    loosest: float  # the most that was allowed anywhere


class TableFit(NamedTuple):
    """One spec that rebuilds a table."""

    spec: TableSpec
    placement: Placement
    residual: float  # largest |difference|, in units of the table
    tolerance: float  # what was allowed there
    evidence: float  # bits that the table spells out beyond smooth columns
    description: float  # bits of the spec and the placement
    remarks: tuple[str, ...] = ()

    @property
    def margin(self) -> float:
        """Bits by which the table says more than the spec."""
        return self.evidence - self.description

    @property
    def positions(self) -> np.ndarray:
        """Positions of all rows that were fitted; `posenc.table(spec, positions)` rebuilds them."""
        return self.placement.positions(0, self.placement.rows)


def fit_table(rows: np.ndarray, *, eps: float, noise: float = 0.0) -> tuple[TableFit, ...]:
    """Every spec that rebuilds all entries, the cheapest to state first."""
    table = np.asarray(rows, dtype=np.float64)
    if table.ndim != 2 or table.shape[0] < LEAST_ROWS or not np.isfinite(table).all():
        return ()
    filled = np.flatnonzero(table.any(axis=0))
    width = int(filled[-1]) + 1 if len(filled) else 0
    if width < LEAST_COLUMNS:
        return ()
    eps = max(eps, FLOAT32)
    present = np.asarray(table.any(axis=1))
    fits: dict[str, TableFit] = {}
    for layout in layouts(table[present, :width], eps + noise):
        for fit in _fits(table, layout, present, eps, noise):
            fits.setdefault(repr(fit[:2]), fit)
        if fits and max(fit.margin for fit in fits.values()) > ENOUGH:
            break
    return tuple(sorted(fits.values(), key=lambda fit: fit.description)[:MOST_FITS])


def _fits(
    table: np.ndarray, layout: TableLayout, present: np.ndarray, eps: float, noise: float
) -> Iterator[TableFit]:
    several = layout.several
    zeros = np.flatnonzero(~present)
    prefix = len(zeros) if several and (zeros == np.arange(len(zeros))).all() else 0
    if len(zeros) > (prefix if several else 1):
        return
    pad = int(zeros[0]) if len(zeros) > prefix else None
    body = table[prefix:]
    scale = _scale(table[present], layout)
    least = TINY / scale if eps == FLOAT16 else 0.0
    for blur in (noise,) if noise else (least, *(level for level in NOISES if level > 4 * eps)):
        axes = _axes(body / scale, layout, eps, blur, noise)
        if axes is None:
            continue
        seen = Sighting(table.shape[1], layout, axes, scale, prefix, pad, eps + noise)
        # A line for each axis: the likeliest of all, then the others of a single axis.
        choices = [tuple(axis.lines[0] for axis in axes)]
        choices += [] if several else [(line,) for line in axes[0].lines[1:]]
        solved = False
        for guess in (guess for lines in choices for guess in specs(seen, lines)):
            fit = _verified(table, guess, eps, noise)
            if fit is not None:
                solved = True
                spec, off = fit
                bits = evidence_of(
                    body / scale,
                    [axis.grid for axis in axes],
                    layout.sines,
                    layout.cosines,
                    off.loosest / scale,
                )
                yield TableFit(
                    spec, guess.placement, off.worst, off.allowed, bits, guess.bits, guess.remarks
                )
        if solved:
            return


def _scale(body: np.ndarray, layout: TableLayout) -> float:
    """The radius of the circles, from the pairs that turn: the others are rounded all alike."""
    sines, cosines = np.concatenate(layout.sines), np.concatenate(layout.cosines)
    radius = np.sqrt((body[:, sines] ** 2 + body[:, cosines] ** 2).mean(axis=0))
    turning = np.ptp(body[:, cosines], axis=0) > radius / 2
    return float(np.sqrt(((radius[turning] if turning.any() else radius) ** 2).mean()))


def _axes(
    body: np.ndarray, layout: TableLayout, eps: float, blur: float, noise: float
) -> list[TableAxis] | None:
    """Grid and lines of each axis, or None where one has none."""
    several = layout.several
    axes = []
    for sines, cosines in zip(layout.sines, layout.cosines, strict=True):
        z = body[:, cosines] + 1j * body[:, sines]
        grid = grid_of(z, eps + noise) if several else AxisGrid(1, len(z), np.arange(len(z)))
        if grid is None or grid.places < 2:
            return None
        lines = fit_line(z[grid.rows], eps, blur)
        if not lines:
            return None
        axes.append(
            TableAxis(
                grid, lines, len(sines) + (1 if layout.lone is not None and not several else 0)
            )
        )
    axes[-1] = axes[-1]._replace(pairs=axes[-1].pairs + layout.short)
    return axes if not several or fills([axis.grid for axis in axes], len(body)) else None


def evidence_of(
    body: np.ndarray,
    grids: Iterable[AxisGrid],
    sines: Iterable[np.ndarray],
    cosines: Iterable[np.ndarray],
    allowed: float,
) -> float:
    """Bits of a table beyond columns that go on as their last two rows did, for each axis."""
    each = (
        bend_bits(body[grid.rows][:, np.concatenate(pairs)], allowed)
        for grid, *pairs in zip(grids, sines, cosines, strict=True)
    )
    return sum(float(bits.sum()) for bits in each)


# --- rebuilding -----------------------------------------------------------------------------------


def _verified(
    table: np.ndarray, guess: SpecGuess, eps: float, noise: float
) -> tuple[TableSpec, Residual] | None:
    """The spec, or the same in classic arithmetic where that is nearer, if every entry agrees."""
    spec, place = guess.spec, guess.placement
    best = residual_of(table, spec, place, eps, noise=noise)
    if not noise and (best is None or best.worst > 2 * (eps + FLOAT32) * _scale_of(spec)):
        for other in _classic(guess.spec):
            residual = residual_of(table, other, place, eps)
            if residual is not None and (best is None or residual.worst < best.worst / 3):
                spec, best = other, residual
    return None if best is None else (spec, best)


def _classic(spec: Any) -> list[TableSpec]:
    """The same in float32 arithmetic, by each expression that published code has."""
    expressions = ("exp", "exp_quotient") if isinstance(spec.ladder, Ladder) else ()
    ladders = [spec.ladder, *(spec.ladder.replace(expression=each) for each in expressions)]
    return [spec.replace(phase="float32", ladder=ladder) for ladder in ladders]


def _scale_of(spec: Any) -> float:
    return float(spec.magnitude.table(spec.dim)) if hasattr(spec, "magnitude") else 1.0


def residual_of(
    table: np.ndarray,
    spec: Any,
    placement: Placement,
    eps: float,
    *,
    begin: int = 0,
    noise: float = 0.0,
) -> Residual | None:
    """The largest difference to the rows that a spec gives, and what was allowed there."""
    scale = _scale_of(spec)
    worst, allowed, loosest = 0.0, 0.0, 0.0
    rows = max(1, PIECE // table.shape[1])
    dtype = "float64" if spec.phase == "exact" else "float32"
    frequency = _frequency_of_columns(spec)
    for at in range(0, len(table), rows):
        piece = np.asarray(table[at : at + rows], dtype=np.float64)
        positions = placement.positions(begin + at, begin + at + len(piece))
        try:
            rebuilt = np.asarray(build(spec, positions, dtype=dtype), dtype=np.float64)
        except PosencError:
            return None
        farthest = np.abs(positions) if positions.ndim == 1 else np.abs(positions).max(axis=1)
        farthest = farthest + abs(spec.arrangement.start)
        slack = SLACK * eps * np.maximum(np.abs(rebuilt), np.abs(piece))
        slack += (2 * FLOAT32 + noise) * scale + (TINY if eps > 2 * FLOAT32 else 0.0)
        slack += np.minimum(np.outer(CLASSIC * FLOAT32 * farthest, frequency), FARTHEST_OFF) * scale
        off = np.abs(rebuilt - piece)
        if (off > slack).any():
            return None
        at_worst = np.unravel_index(int(np.argmax(off)), off.shape)
        if off[at_worst] >= worst:
            worst, allowed = float(off[at_worst]), float(slack[at_worst])
        loosest = max(loosest, float(slack.max()))
    return Residual(worst, allowed, loosest)


def _frequency_of_columns(spec: Any) -> np.ndarray:
    row = np.array([[float(f) for f in spec.matrix.frequencies()]])
    blocks = spec.sizes() if isinstance(spec, Fourier) else spec.arrangement.blocks(spec.pairs)
    lone = getattr(spec, "odd", "") == "sin_extra"
    raw = spec.raw_width if isinstance(spec, Fourier) else 0
    laid = columns(row, row, spec.order, spec.dim - raw, blocks, lone_sine=lone, xp=library(np))
    both = [np.zeros(raw), np.asarray(laid)[0]]
    return np.concatenate(both if getattr(spec, "raw", "") != "last" else both[::-1])
