"""A vector under one convention: its pairs as angles, and the positions that they leave."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from posenc._core.errors import PosencError
from posenc.detect.locate.arcs import MOST, Angle, solve
from posenc.detect.locate.result import Fit, Sibling, scale_of
from posenc.encodings.table.column_phases import ColumnFunctions, Phases, columns_of, phases_of
from posenc.functional import table

# Unit roundoff below 1, and the noise to assume of angles that were rounded so: too little noise
# loses positions, too much only costs time.
ROUNDOFF = {"float64": 1e-9, "float32": 2.0**-25, "float16": 2.0**-12, "bfloat16": 2.0**-9}
FLOOR = {"float64": 6e-7, "float32": 6e-7, "float16": 2e-3, "bfloat16": 1e-2}
OURS = 1.5e-7  # what an exact table in float32 may be off
MOST_ANGLES = 256
MOST_KEPT = 4096
MOST_LISTED = 1000


class Sample(NamedTuple):
    """The numbers, and what is known of them."""

    values: np.ndarray  # (width,) float64
    dtype: str
    size: float  # of the largest number that was rounded to that dtype
    narrow: str | None = None  # a narrower dtype that holds them all as well

    @property
    def tolerance(self) -> float:
        """How far an entry may be from its exact value by rounding alone, for unit tables."""
        return 3 * ROUNDOFF[self.dtype] * max(1.0, self.size) + OURS

    @property
    def floor(self) -> float:
        """Noise of an angle by rounding alone."""
        return FLOOR[self.dtype] * max(1.0, self.size)


class PhaseModel(NamedTuple):
    """Everything about an encoding that its inversion needs."""

    spec: Any
    columns: ColumnFunctions
    phases: Phases
    scale: float


class MeasuredAngles(NamedTuple):
    """Columns read as angles, one entry for each pair that has both, or for each lone column."""

    axis: np.ndarray
    frequency: np.ndarray
    options: np.ndarray  # (readings, 2); NaN in the second where there is one
    weight: np.ndarray  # modulus, or the slope of a lone sine: the noise of an angle is over it
    spread: float  # of the moduli about their mean, as a part of it; NaN without pairs
    beyond: float  # how far a lone sine or cosine lies outside -1 to 1


class Problem(NamedTuple):
    """Angles, and how to rebuild the numbers that they came from."""

    phases: Phases
    measured: MeasuredAngles
    rebuild: Callable[[list[tuple[Any, ...]]], np.ndarray]  # positions -> (positions, width)
    scale: float  # the stated factor on what `rebuild` gives


def known_of(spec: Any, sibling: Sibling, params: Mapping[str, Any] | None) -> PhaseModel | None:
    """The stated encoding changed as a sibling does; None where the parts do not fit."""
    try:
        changed = sibling.of(spec)
        columns, phases = columns_of(changed), phases_of(changed)
    except PosencError:
        return None
    if sibling.roles == "swapped":
        columns = columns._replace(function=1 - columns.function)
    return PhaseModel(changed, columns, phases, scale_of(changed, params))


def measure(model: PhaseModel, values: np.ndarray) -> MeasuredAngles:
    """The angles of the pairs."""
    columns, phases = model.columns, model.phases
    both = np.full((2, phases.axis.size), np.nan)
    taken = columns.pair >= 0
    both[columns.function[taken], columns.pair[taken]] = values[taken]
    frequencies = phases.frequencies()
    paired = ~np.isnan(both).any(axis=0) & (frequencies[0] == frequencies[1])
    z = both[1, paired] + 1j * both[0, paired]
    modulus = np.abs(z)
    size = float(np.sqrt(np.mean(modulus**2))) if z.size else abs(model.scale)
    spread = float(np.std(modulus) / size) if z.size and size else math.nan
    options = np.stack([np.angle(z), np.full(z.shape, np.nan)], axis=1)
    weight = modulus / size if size else modulus
    parts = [(phases.axis[paired], frequencies[0, paired], options, weight)]
    beyond = 0.0
    for function in (0, 1):
        lone = ~paired & ~np.isnan(both[function])
        value = both[function, lone] / (size or 1.0)
        beyond = max(beyond, float(np.max(np.abs(value), initial=0.0)) - 1)
        value = np.clip(value, -1.0, 1.0)
        angle = np.arcsin(value) if function == 0 else np.arccos(value)
        options = np.stack([angle, math.pi - angle if function == 0 else -angle], axis=1)
        weight = np.sqrt(1 - value**2)
        parts.append((phases.axis[lone], frequencies[function, lone], options, weight))
    axis, frequency, options, weight = map(np.concatenate, zip(*parts, strict=True))
    return MeasuredAngles(axis, frequency, options, weight, spread, beyond)


def angles(measured: MeasuredAngles, axis: int, noise: float) -> list[Angle]:
    """The readings of one axis for the solver."""
    chosen = np.flatnonzero((measured.axis == axis) & (measured.frequency != 0))
    if len(chosen) > MOST_ANGLES:
        order = chosen[np.argsort(np.abs(measured.frequency[chosen]), kind="stable")]
        chosen = order[np.linspace(0, len(order) - 1, MOST_ANGLES).round().astype(int)]
    listed = []
    for j in chosen:
        first, second = measured.options[j].tolist()
        options = (first,) if math.isnan(second) else (first, second)
        # Near its extreme a sine is flat: the angle is known to the root of the noise.
        sigma = noise / max(
            float(measured.weight[j]), math.sqrt(noise) if len(options) > 1 else 1e-3
        )
        half = math.remainder(second - first, math.tau) / 2
        if len(options) > 1 and abs(half) < 2 * sigma:
            # At its extreme a sine has one angle, known to half the way between the two.
            options, sigma = (first + half,), max(sigma, abs(half))
        listed.append(Angle(float(measured.frequency[j]), options, sigma))
    return listed


def differences(measured: MeasuredAngles, axis: int, positions: np.ndarray) -> np.ndarray:
    """What is left of the angles at some coordinates: (coordinates, readings)."""
    chosen = (measured.axis == axis) & (measured.frequency != 0)
    predicted = positions[:, None] * measured.frequency[chosen]
    left = (option - predicted for option in measured.options[chosen].T)
    return np.fmin(*(np.abs(r - np.rint(r / math.tau) * math.tau) for r in left))


def evidence(
    squares: float, n: int, *, lone: int = 0, count: float, pace: float = 0.0, real: bool = False
) -> float:
    """-log2 of how many coordinates would leave so little by chance.

    Angles that have nothing to do with a position are uniform, so what they leave lies in a ball
    of this radius as often as the ball's share of the cube of all angles. `count` coordinates are
    drawn; where they are real, a ball is swept along them instead.
    """
    if not n:
        return 0.0
    radius = max(math.sqrt(squares), 1e-9 * math.sqrt(n))
    volume = n / 2 * math.log(math.pi) + n * math.log(radius) - math.lgamma(n / 2 + 1)
    share = volume - n * math.log(2 * math.pi) + lone * math.log(2)
    return -(share + math.log(max(1 + count * pace / radius if real else count, 1.0))) / math.log(2)


# --- one convention -------------------------------------------------------------------------------


class Attempt(NamedTuple):
    """What came of one convention at one level of noise."""

    positions: list[Any]  # those that fit, or the best one
    residual: float
    bits: float
    rival: tuple[Any, float] | None
    scale: float  # of the table, as measured
    exact: bool
    total: int

    def fit(
        self,
        words: tuple[str, ...],
        spec: Any,
        within: Mapping[int, tuple[float, float]],
        penalty: float = 0.0,
    ) -> Fit:
        """What it says of a convention, less the bits that trying others beside it has cost."""
        return Fit(
            words,
            spec,
            tuple(self.positions[:MOST_LISTED]),
            "all" if self.total < MOST_KEPT else "first",
            # `bits` counts the whole range; the density of hits follows from it.
            min(
                2.0 ** -min(self.bits, 1000.0),
                math.prod(high - low + 1 for low, high in within.values()),
            ),
            self.residual,
            self.bits - penalty,
            self.rival,
        )


def problem_of(model: PhaseModel, sample: Sample) -> Problem:
    """The inversion of a table."""
    return Problem(
        model.phases,
        measure(model, sample.values),
        lambda places: rebuilt(model, places),
        model.scale,
    )


def attempt(
    problem: Problem,
    sample: Sample,
    within: Mapping[int, tuple[float, float]],
    noise: float,
    *,
    drift: float = 0.0,
    most: int = MOST,
) -> Attempt | None:
    """The position under one convention, if angles are no noisier than said."""
    measured, phases = problem.measured, problem.phases
    per_axis: list[list[float]] = []  # coordinates
    bits = 0.0
    real, start = phases.real, phases.start
    for axis in range(len(phases.axes)):
        low, high = within[axis]
        rows = solve(
            angles(measured, axis, noise),
            low + start,
            high + start,
            of="reals" if real else "integers",
            drift=drift,
            most=most,
        )[:MOST_KEPT]
        if not real:
            rows = np.rint(rows)
            # A rival must be named even where everything else has been struck out.
            rows = np.unique(np.concatenate([rows, rows[:1] - 1, rows[:1] + 1]))
        rows = rows[(rows >= low + start) & (rows <= high + start)]
        if not len(rows):
            return None
        left = differences(measured, axis, rows)
        squares = (left**2).sum(axis=1)
        chosen = (measured.axis == axis) & (measured.frequency != 0)
        lone = int((~np.isnan(measured.options[chosen, 1])).sum())
        pace = float(np.sqrt(np.sum(measured.frequency[chosen] ** 2)))
        each = np.array(
            [
                evidence(s, left.shape[1], lone=lone, count=c, pace=pace, real=real)
                for s, c in zip(
                    squares.tolist(),
                    up_to(rows - start, low, high, real=real).tolist(),
                    strict=True,
                )
            ]
        )
        # Of two coordinates that leave as little, the one nearer to 0 is less of an accident.
        order = np.lexsort((squares, -each.round(6)))
        per_axis.append([(float(row) if real else int(row)) - start for row in rows[order]])
        bits += float(each[order[0]])
    return _judged(problem, sample, per_axis, bits)


def up_to(places: Any, low: float, high: float, *, real: bool) -> Any:
    """How much of the range lies no further from 0 than each coordinate."""
    size = np.abs(places)
    nearest = 0.0 if low <= 0 <= high else min(abs(low), abs(high))
    span = np.minimum(high, size) - np.maximum(low, -size) if nearest == 0 else size - nearest
    return np.maximum(span, 0.0) + (0.0 if real else 1.0)


def _judged(
    problem: Problem,
    sample: Sample,
    per_axis: list[list[float]],
    bits: float,
) -> Attempt:
    """The combination of coordinates that rebuilds the numbers best."""
    most = MOST_KEPT if len(per_axis) == 1 else 16
    places = [*itertools.islice(itertools.product(*[c[:most] for c in per_axis]), MOST_KEPT)]
    rows = problem.rebuild(places)
    scale = _fitted(problem.scale, rows[0], sample.values)
    left = sample.values - scale * rows
    off, mean = np.abs(left).max(axis=1), np.sqrt(np.mean(left**2, axis=1))
    fits = np.flatnonzero(off <= sample.tolerance * abs(scale))
    names: list[Any] = [p[0] if len(p) == 1 else p for p in places]
    exact = len(fits) > 0
    order = (
        fits[np.argsort([sum(map(abs, places[k])) for k in fits], kind="stable")] if exact else [0]
    )
    others = np.delete(np.arange(len(names)), order)
    rival = min(others, key=lambda k: mean[k]) if len(others) else None
    # So many others fit as well.
    bits = min(bits, -math.log2(len(order) - 1)) if len(order) > 1 else bits
    return Attempt(
        [names[k] for k in order],
        float(mean[order[0]]),
        bits,
        None if rival is None else (names[rival], float(mean[rival])),
        scale,
        exact,
        len(order),
    )


def rebuilt(model: PhaseModel, places: list[tuple[Any, ...]]) -> np.ndarray:
    """Rows of the table at some positions, without its factor: (positions, width)."""
    spec = model.spec
    if hasattr(spec, "magnitude") and (spec.parameters() or model.scale != 1.0):
        spec = spec.replace(magnitude=type(spec.magnitude)())
    spec = spec.replace(phase="exact") if getattr(spec, "phase", "exact") == "float32" else spec
    positions = np.array(places, dtype=np.float64 if model.phases.real else np.int64)
    rows = np.asarray(
        table(spec, positions[:, 0] if positions.shape[1] == 1 else positions, dtype="float64")
    )
    stated = columns_of(spec)
    if not np.array_equal(stated.function, model.columns.function):  # sines and cosines swapped
        rows = rows.copy()
        sines = {int(p): c for c, p in enumerate(stated.pair) if p >= 0 and not stated.function[c]}
        for column, pair in enumerate(stated.pair):
            if pair >= 0 and stated.function[column] and int(pair) in sines:
                other = sines[int(pair)]
                rows[:, [column, other]] = rows[:, [other, column]]
    return rows


def _fitted(stated: float, row: np.ndarray, values: np.ndarray) -> float:
    """The factor of the table: as stated where it fits, else by least squares."""
    product, squares = float(values @ row), float(row @ row)
    fitted = product / squares if squares else stated
    error = float(np.sqrt(np.mean((values - fitted * row) ** 2)) / math.sqrt(max(squares, 1e-30)))
    return stated if abs(fitted - stated) <= max(6 * error, 1e-3 * abs(stated)) else fitted
