"""Find: which positions have given values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc._core.errors import bad_argument
from posenc.detect.locate import Fit, Interval, Location, locate, read_value
from posenc.encodings.table.column_phases import columns_of, inner, phases_of, sinusoids
from posenc.plot.columns import Params, Table, source
from posenc.plot.panels.grammar import Axis, Chart, Mark, Series, float32
from posenc.plot.panels.text import Described, brief, spread, whole
from posenc.plot.rows import pictures_of, refuse

MOST_SHOWN = 40  # positions of a convention
NEAR = (None, np.array([1e-3]))  # how far beyond a position a wave is looked at
MOST_LINES = 8
LINE = 34  # pixels of a line with its words
FAR = 1000  # from here on the axis is logarithmic


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
class Find(Described):
    """Where values come from, convention by convention."""

    asked: str
    candidates: tuple[CandidatePositions, ...]
    location: Location
    within: tuple[float, float]


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
    more: Any = {"params": params, "within": within, "conventions": conventions}
    located = locate(spec, values, **more)
    single = isinstance(values, Mapping)
    read = {int(k): read_value(v, "plot find") for k, v in values.items()} if single else {}
    return Find(
        ", ".join(f"{interval.text} at dimension {dim}" for dim, interval in read.items())
        or f"a row of {0 if single else np.asarray(values).size} numbers",
        tuple(_candidates(fit, read) for fit in located.fits),
        located,
        located.within,
        title=brief(spec),
        caption=located.story,
    )


def _candidates(fit: Fit, read: Mapping[int, Interval]) -> CandidatePositions:
    positions = fit.positions[:MOST_SHOWN]
    if any(not isinstance(p, (int, float, np.integer)) for p in positions):
        raise bad_argument(
            "plot find",
            "positions on one line",
            f"positions of several axes, such as {positions[0]}",
            "Give all but one of the coordinates a value of their own.",
        )
    return CandidatePositions(
        ", ".join(fit.convention) or "as stated",
        tuple(int(p) for p in positions),
        _errors(fit, np.array(positions, dtype=np.int64), read),
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
        low, high = sorted(
            _arcsine(float(end) / scale)
            for end in (interval.cut if cut and interval.cut else (interval.low, interval.high))
        )
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
    if not candidates.complete:
        more += f"; only the first {len(candidates.positions)} are drawn"
    return f"{candidates.label}: {shown}{more}"


def rows(data: Any) -> Table:
    """The numbers of a .csv."""
    return ["convention", "position", "below", "above"], (
        [line.label, position, *line.errors[place]]
        for line in data.candidates
        for place, position in enumerate(line.positions)
    )


# --- panels ---------------------------------------------------------------------------------------


def panels(data: Find) -> tuple[Chart]:
    """A line for each convention, the stated one in the first style."""
    lines = data.candidates[:MOST_LINES]
    series = tuple(
        Series(
            "",
            np.array(line.positions, dtype=np.float64),
            np.full(len(line.positions), n, dtype=np.float32),
            0 if line.stated else 1,
            float32(line.errors[:, 0]),
            float32(line.errors[:, 1]),
            draw="points",
            front=n == 0,
        )
        for n, line in enumerate(lines)
    )
    ends = [p for line in lines for p in line.positions] or [0, 1]
    low, high = spread(float(min(ends)), float(max(ends)))
    far = max(abs(low), abs(high)) > FAR
    if far:  # where a tenth is more or less at every size
        low, high = min(1.5 * min(ends), -0.5), max(1.5 * max(ends), 0.5)
    last = float(max(1, len(lines)))
    return (
        Chart(
            id="find",
            title="" if lines else "no position fits",
            x=Axis("position", (low, high), scale="symlog" if far else "linear"),
            y=Axis("", (last - 0.35, -0.75), most=0),
            series=series,
            marks=tuple(
                Mark("y", n, words_of(line), style="faint") for n, line in enumerate(lines)
            ),
            height=LINE * round(last),
            label="Positions that the values may come from",
        ),
    )
