"""Find: which positions have given values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc._core.errors import ArgumentError, mismatch
from posenc.detect.locate import Fit, Interval, Location, locate, read_value
from posenc.encodings.table.column_phases import columns_of, inner, phases_of, sinusoids
from posenc.plot.columns import Params, source
from posenc.plot.export import Table
from posenc.plot.rows import pictures_of, refuse
from posenc.plot.words import brief, whole

MOST_SHOWN = 40  # positions of a convention
NEAR = (None, np.array([1e-3]))  # how far beyond a position a wave is looked at


@dataclass(frozen=True)
class CandidatePositions:
    """The positions of one convention."""

    label: str
    positions: tuple[int, ...]
    errors: np.ndarray
    residual: float
    expected: float
    bits: float
    stated: bool
    complete: bool


@dataclass(frozen=True)
class Find:
    """Where values come from, convention by convention."""

    asked: str
    candidates: tuple[CandidatePositions, ...]
    location: Location
    within: tuple[float, float]
    title: str
    caption: tuple[str, ...]


def data(
    spec: Any,
    values: Mapping[int, Any] | Any,
    *,
    within: tuple[float, float] | None = None,
    conventions: str = "siblings",
    params: Params = None,
) -> Find:
    """The positions that values with their digits, or a whole row, may come from."""
    if "find" not in pictures_of(spec):
        refuse("find", spec, "a table whose rows can be inverted")
    located = locate(
        spec,
        values,
        params=params,
        within=within,
        conventions=conventions,  # type: ignore[arg-type]
    )
    single = isinstance(values, Mapping)
    read = {int(k): read_value(v, "plot find") for k, v in values.items()} if single else {}
    asked = ", ".join(f"{interval.text} at dimension {dim}" for dim, interval in read.items())
    return Find(
        asked or f"a row of {0 if single else np.asarray(values).size} numbers",
        tuple(_candidates(fit, read) for fit in located.fits),
        located,
        located.within,
        brief(spec),
        located.story,
    )


def _candidates(fit: Fit, read: Mapping[int, Interval]) -> CandidatePositions:
    positions = fit.positions[:MOST_SHOWN]
    if any(not isinstance(p, (int, float, np.integer)) for p in positions):
        todo = "Give all but one of the coordinates a value of their own."
        received = f"positions of several axes, such as {positions[0]}"
        raise ArgumentError(mismatch("plot find", "positions on one line", received, todo))
    errors = _errors(fit, np.array(positions, dtype=np.int64), read)
    return CandidatePositions(
        ", ".join(fit.convention) or "as stated",
        tuple(int(p) for p in positions),
        errors,
        fit.residual,
        fit.expected,
        fit.bits,
        not fit.convention,
        fit.listed == "all" and len(positions) == len(fit.positions),
    )


def _errors(fit: Fit, positions: np.ndarray, read: Mapping[int, Interval]) -> np.ndarray:
    """How far a real place may lie from each position while every value keeps its digits.

    The wave near the position is inverted: arcsine of the ends of the interval over the frequency.
    """
    spec = inner(fit.spec)
    waves = source(spec).waves if read and sinusoids(spec) else None
    if waves is None:
        return np.zeros((len(positions), 2))
    errors = np.full((2, len(positions)), math.inf)
    columns, frequencies = columns_of(spec), phases_of(spec).frequencies()
    scale = spec.magnitude.table(spec.dim) if hasattr(spec, "magnitude") else 1.0
    cut = any("cut" in words for words in fit.convention)
    for dim, interval in read.items():
        if dim >= len(columns.pair) or columns.pair[dim] < 0 or not scale:
            continue
        frequency = abs(float(frequencies[int(columns.function[dim]), columns.pair[dim]]))
        if frequency == 0:
            continue
        ends = interval.cut if cut and interval.cut else (interval.low, interval.high)
        low, high = sorted(_arcsine(float(end) / scale) for end in ends)
        here, slope = (waves.at(positions, part, np.array([dim]))[:, 0] / scale for part in NEAR)
        at = np.clip([_arcsine(value) for value in here], low, high)
        ways = np.array([at - low, high - at]) / frequency
        errors = np.minimum(errors, np.where(slope < here, ways[::-1], ways))
    return np.where(np.isfinite(errors), errors, 0.0).T


def _arcsine(x: float) -> float:
    return math.asin(max(-1.0, min(1.0, x)))


def words_of(candidates: CandidatePositions) -> str:
    """A convention and its positions, in one line."""
    shown = ", ".join(whole(p) for p in candidates.positions[:4])
    more = " …" if len(candidates.positions) > 4 or not candidates.complete else ""
    return f"{candidates.label}: {shown}{more}"


def rows(data: Any) -> Table:
    """The numbers of a .csv."""
    rows = (
        [line.label, position, *line.errors[place]]
        for line in data.candidates
        for place, position in enumerate(line.positions)
    )
    return ["convention", "position", "below", "above"], rows
