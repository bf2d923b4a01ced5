"""The position from a whole vector: exact, rounded to any dtype, or under noise."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np

from posenc._core.errors import PosencError
from posenc.detect._arcs import TURN, arcs_of, density
from posenc.detect._columns import FUNCTIONS, Columns, Phases, columns_of, phases_of
from posenc.detect._inverse import MOST, Angle, Candidates, solve
from posenc.detect._siblings import Sibling, siblings
from posenc.detect._values import Constraint, joined, on_axis
from posenc.detect.location import Fit
from posenc.functional import table

__all__ = ["Measured", "Problem", "Sample", "at_noise", "attempt", "evidence", "near", "search"]

# Unit roundoff below 1, and the noise to assume of angles that were rounded so: too little noise
# loses positions, too much only costs time.
ROUNDOFF = {"float64": 1e-9, "float32": 2.0**-25, "float16": 2.0**-12, "bfloat16": 2.0**-9}
FLOOR = {"float64": 6e-7, "float32": 6e-7, "float16": 2e-3, "bfloat16": 1e-2}
OURS = 1.5e-7  # what an exact table in float32 may be off
DRIFT = 1.2e-7  # of angles that were formed in float32, in radians for each radian
DROWNED = 2**25  # the position at which the fast half of angles formed in float32 is noise
NOISES = (2e-3, 6e-3, 0.02, 0.06, 0.15, 0.3, 0.6)
RAYLEIGH = 0.43  # spread of moduli at which noise has drowned the pairs; 0.46 is noise alone
CLAIM = 16.0  # bits of evidence that make a noisy vector a position
MOST_OF_SIBLINGS = 1 << 16
MOST_OF_NOISE = 1 << 17
MOST_ANGLES = 256
MOST_KEPT = 4096
MOST_LISTED = 1000
NEIGHBOURS = 8
NEAR = 2**12  # positions that are likely beforehand


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


class Known(NamedTuple):
    """Everything about an encoding that its inversion needs."""

    spec: Any
    columns: Columns
    phases: Phases
    scale: float


class Measured(NamedTuple):
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
    measured: Measured
    rebuild: Callable[[list[tuple[Any, ...]]], np.ndarray]  # positions -> (positions, width)
    scale: float  # the stated factor on what `rebuild` gives


def known_of(spec: Any, sibling: Sibling, params: Mapping[str, Any] | None) -> Known | None:
    """The stated encoding changed as a sibling does; None where the parts do not fit."""
    try:
        changed = sibling.of(spec)
        columns, phases = columns_of(changed), phases_of(changed)
    except PosencError:
        return None
    if sibling.roles == "swapped":
        columns = columns._replace(function=1 - columns.function)
    scale = 1.0
    if hasattr(changed, "magnitude"):
        scale = changed.magnitude.table(changed.dim)
        if params is not None and "scale" in params:
            scale = float(params["scale"])
    return Known(changed, columns, phases, scale)


def measure(known: Known, values: np.ndarray) -> Measured:
    """The angles of the pairs."""
    columns, phases = known.columns, known.phases
    n = phases.axis.size
    both = np.full((2, n), np.nan)
    taken = columns.pair >= 0
    both[columns.function[taken], columns.pair[taken]] = values[taken]
    frequencies = phases.frequencies()
    paired = ~np.isnan(both).any(axis=0) & (frequencies[0] == frequencies[1])
    z = both[1, paired] + 1j * both[0, paired]
    modulus = np.abs(z)
    size = float(np.sqrt(np.mean(modulus**2))) if z.size else abs(known.scale)
    spread = float(np.std(modulus) / size) if z.size and size else math.nan
    axis, frequency = phases.axis[paired], frequencies[0, paired]
    options = np.stack([np.angle(z), np.full(z.shape, np.nan)], axis=1)
    weight = modulus / size if size else modulus
    beyond = 0.0
    for function in (0, 1):
        lone = ~paired & ~np.isnan(both[function])
        value = both[function, lone] / (size or 1.0)
        beyond = max(beyond, float(np.max(np.abs(value), initial=0.0)) - 1)
        value = np.clip(value, -1.0, 1.0)
        angle = np.arcsin(value) if function == 0 else np.arccos(value)
        mirror = math.pi - angle if function == 0 else -angle
        axis = np.concatenate([axis, phases.axis[lone]])
        frequency = np.concatenate([frequency, frequencies[function, lone]])
        options = np.concatenate([options, np.stack([angle, mirror], axis=1)])
        weight = np.concatenate([weight, np.sqrt(1 - value**2)])
    return Measured(axis, frequency, options, weight, spread, beyond)


def angles(measured: Measured, axis: int, noise: float) -> list[Angle]:
    """The readings of one axis for the solver."""
    chosen = np.flatnonzero((measured.axis == axis) & (measured.frequency != 0))
    if len(chosen) > MOST_ANGLES:
        order = chosen[np.argsort(np.abs(measured.frequency[chosen]), kind="stable")]
        spaced = np.linspace(0, len(order) - 1, MOST_ANGLES).round().astype(int)
        chosen = order[spaced]
    found = []
    for j in chosen:
        first, second = measured.options[j].tolist()
        options = (first,) if math.isnan(second) else (first, second)
        # Near its extreme a sine is flat: the angle is known to the root of the noise.
        slope = max(float(measured.weight[j]), math.sqrt(noise) if len(options) > 1 else 1e-3)
        sigma = noise / slope
        if len(options) > 1 and abs(math.remainder(second - first, 2 * math.pi)) < 4 * sigma:
            # At its extreme a sine has one angle, known to half the way between the two.
            half = math.remainder(second - first, 2 * math.pi) / 2
            options, sigma = (first + half,), max(sigma, abs(half))
        found.append(Angle(float(measured.frequency[j]), options, sigma))
    return found


def differences(measured: Measured, axis: int, positions: np.ndarray) -> np.ndarray:
    """What is left of the angles at some coordinates: (coordinates, readings)."""
    chosen = (measured.axis == axis) & (measured.frequency != 0)
    predicted = positions[:, None] * measured.frequency[chosen]
    turn = 2 * math.pi
    left = []
    for option in measured.options[chosen].T:
        r = option - predicted
        left.append(np.abs(r - np.rint(r / turn) * turn))
    return np.fmin(left[0], left[1])


def evidence(
    squares: float, n: int, *, lone: int = 0, count: float, pace: float = 0.0, real: bool = False
) -> float:
    """-log2 of how many coordinates would leave so little by chance.

    Angles that have nothing to do with a position are uniform, so what they leave lies in a ball
    of this radius as often as the ball's share of the cube of all angles. `count` coordinates are
    drawn; where they are real, a ball is swept along them instead.

    Parameters
    ----------
    squares : float
        The sum of the squares of what is left of the angles.
    n, lone : int
        Number of angles, and of those that have two options.
    count : float
        Number of coordinates tried, or the length of their range where they are real.
    pace : float
        How fast the angles move together with a real coordinate.
    real : bool
        Whether coordinates are real.
    """
    if not n:
        return 0.0
    radius = max(math.sqrt(squares), 1e-9 * math.sqrt(n))
    volume = n / 2 * math.log(math.pi) + n * math.log(radius) - math.lgamma(n / 2 + 1)
    share = volume - n * math.log(2 * math.pi) + lone * math.log(2)
    drawn = 1 + count * pace / radius if real else count
    return -(share + math.log(max(drawn, 1.0))) / math.log(2)


# --- one convention -------------------------------------------------------------------------------


class Attempt(NamedTuple):
    """What came of one convention at one level of noise."""

    positions: list[Any]  # those that fit, or the best one
    residual: float
    bits: float
    rival: tuple[Any, float] | None
    scale: float  # of the table, as measured
    exact: bool
    spread: float
    total: int


def problem_of(known: Known, sample: Sample) -> Problem:
    """The inversion of a table."""
    measured = measure(known, sample.values)
    return Problem(known.phases, measured, lambda places: rebuilt(known, places), known.scale)


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
    axes = range(len(phases.axes))
    per_axis: list[list[tuple[float, Any]]] = []  # for each axis: (squares left, coordinate)
    bits, spread = 0.0, 0.0
    real = phases.real
    for axis in axes:
        low, high = within[axis]
        start = phases.start
        found = solve(
            angles(measured, axis, noise),
            low + start,
            high + start,
            of="reals" if real else "integers",
            drift=drift,
            most=most,
        )
        ranked = _ranked(found, measured, axis, (low + start, high + start), real)
        if ranked is None:
            return None
        rows, left = ranked
        squares = (left**2).sum(axis=1)
        spread = max(spread, found.spread if found is not None else 0.0)
        chosen = (measured.axis == axis) & (measured.frequency != 0)
        lone = int((~np.isnan(measured.options[chosen, 1])).sum())
        pace = float(np.sqrt(np.sum(measured.frequency[chosen] ** 2)))
        counts = _up_to(rows - start, low, high, real)
        each = np.array(
            [
                evidence(s, left.shape[1], lone=lone, count=c, pace=pace, real=real)
                for s, c in zip(squares.tolist(), counts.tolist(), strict=True)
            ]
        )
        # Of two coordinates that leave as little, the one nearer to 0 is less of an accident.
        order = np.lexsort((squares, -each.round(6)))
        per_axis.append([(float(squares[k]), _number(rows[k], start, real)) for k in order])
        bits += float(each[order[0]])
    return _judged(problem, sample, per_axis, bits, spread)


def _up_to(places: np.ndarray, low: float, high: float, real: bool) -> np.ndarray:
    """How much of the range lies no further from 0 than each coordinate."""
    size = np.abs(places)
    nearest = 0.0 if low <= 0 <= high else min(abs(low), abs(high))
    span = np.minimum(high, size) - np.maximum(low, -size) if nearest == 0 else size - nearest
    return np.maximum(span, 0.0) + (0.0 if real else 1.0)


def _number(row: float, start: int, real: bool) -> Any:
    return float(row) - start if real else int(row) - start


def _ranked(
    found: Candidates | None,
    measured: Measured,
    axis: int,
    within: tuple[float, float],
    real: bool,
) -> tuple[np.ndarray, np.ndarray] | None:
    if found is None or not len(found.positions):
        return None
    low, high = within
    rows = found.positions[:MOST_KEPT]
    if not real:
        rows = np.rint(rows)
        # A rival must be named even where everything else has been struck out.
        rows = np.unique(np.concatenate([rows, rows[:1] - 1, rows[:1] + 1]))
    rows = rows[(rows >= low) & (rows <= high)]
    return (rows, differences(measured, axis, rows)) if len(rows) else None


def _judged(
    problem: Problem,
    sample: Sample,
    per_axis: list[list[tuple[float, Any]]],
    bits: float,
    spread: float,
) -> Attempt:
    """The combination of coordinates that rebuilds the numbers best."""
    most = MOST_KEPT if len(per_axis) == 1 else 16
    combined = list(itertools.islice(itertools.product(*[c[:most] for c in per_axis]), MOST_KEPT))
    places = [tuple(p for _, p in parts) for parts in combined]
    rows = problem.rebuild(places)
    scale = _scale_of(problem.scale, rows[0], sample.values)
    left = sample.values - scale * rows
    off, mean = np.abs(left).max(axis=1), np.sqrt(np.mean(left**2, axis=1))
    tolerance = sample.tolerance * abs(scale)
    fits = np.flatnonzero(off <= tolerance)
    names = [p[0] if len(p) == 1 else p for p in places]
    exact = len(fits) > 0
    order = fits[np.argsort([_size(names[k]) for k in fits], kind="stable")] if exact else [0]
    chosen = {int(k) for k in order}
    others = [k for k in range(len(names)) if k not in chosen]
    rival = min(others, key=lambda k: mean[k]) if others else None
    best = int(order[0])
    if len(order) > 1:  # so many others fit as well
        bits = min(bits, -math.log2(len(order) - 1))
    return Attempt(
        [names[k] for k in order],
        float(mean[best]),
        bits,
        None if rival is None else (names[rival], float(mean[rival])),
        scale,
        exact,
        spread,
        len(order),
    )


def rebuilt(known: Known, places: list[tuple[Any, ...]]) -> np.ndarray:
    """Rows of the table at some positions, without its factor: (positions, width)."""
    spec = known.spec
    if hasattr(spec, "magnitude") and (spec.parameters() or known.scale != 1.0):
        spec = spec.replace(magnitude=type(spec.magnitude)())
    if getattr(spec, "phase", "exact") == "float32":
        spec = spec.replace(phase="exact")
    where = np.array(places, dtype=np.float64 if known.phases.real else np.int64)
    rows = np.asarray(table(spec, where[:, 0] if where.shape[1] == 1 else where, dtype="float64"))
    stated = columns_of(spec)
    if not np.array_equal(stated.function, known.columns.function):  # sines and cosines swapped
        rows = rows.copy()
        sines = {int(p): c for c, p in enumerate(stated.pair) if p >= 0 and not stated.function[c]}
        for column, pair in enumerate(stated.pair):
            if pair >= 0 and stated.function[column] and int(pair) in sines:
                other = sines[int(pair)]
                rows[:, [column, other]] = rows[:, [other, column]]
    return rows


def _scale_of(stated: float, row: np.ndarray, values: np.ndarray) -> float:
    """The factor of the table: as stated where it fits, else by least squares."""
    product, squares = float(values @ row), float(row @ row)
    fitted = product / squares if squares else stated
    left = values - fitted * row
    error = float(np.sqrt(np.mean(left**2)) / math.sqrt(max(squares, 1e-30)))
    near = abs(fitted - stated) <= max(6 * error, 1e-3 * abs(stated))
    return stated if near else fitted


def _size(position: Any) -> float:
    return sum(map(abs, position)) if isinstance(position, tuple) else abs(position)


# --- levels and siblings --------------------------------------------------------------------------


def exactly(
    known: Known,
    sample: Sample,
    within: Mapping[int, tuple[float, float]],
    most: int = MOST,
) -> tuple[Attempt, Known] | None:
    """What a convention gives if rounding, or the arithmetic of float32, is all the noise."""
    problem = problem_of(known, sample)
    measured = problem.measured
    if not (measured.spread <= 30 * sample.floor or math.isnan(measured.spread)):
        return None  # rounding does not do that to moduli
    if measured.beyond > 30 * sample.floor:
        return None
    for drift in (0.0, DRIFT) if most == MOST or not math.isnan(measured.spread) else (0.0,):
        found = attempt(
            problem,
            sample,
            near(within) if drift else within,
            sample.floor,
            drift=drift,
            most=most,
        )
        if found is None and not drift and most == MOST:
            found = _listed(known, sample, within)
        if found is None:
            continue
        if found.exact:
            return found, known
        if drift:
            replayed = _replayed(known, sample, found)
            if replayed is not None:
                return replayed
    return None


def near(within: Mapping[int, tuple[float, float]]) -> dict[int, tuple[float, float]]:
    """The part of the range in which float32 arithmetic leaves something of the angles."""
    return {
        axis: (max(low, min(-DROWNED, high)), min(high, max(DROWNED, low)))
        for axis, (low, high) in within.items()
    }


def explains(spec: Any, sample: Sample, within: Mapping[int, tuple[float, float]]) -> bool:
    """Whether the stated convention has a row as close as its dtype allows."""
    known = known_of(spec, Sibling(()), None)
    return known is not None and exactly(known, sample, within) is not None


def noisily(
    known: Known,
    sample: Sample,
    within: Mapping[int, tuple[float, float]],
    most: int = MOST,
) -> tuple[Attempt, Known] | None:
    """What a convention gives at the first level of noise that leaves enough evidence.

    The moduli of the pairs should all be one. How much they differ tells the noise before anything
    is known of the position.
    """
    found = at_noise(problem_of(known, sample), sample, within, most)
    return None if found is None else (found, known)


def at_noise(
    problem: Problem,
    sample: Sample,
    within: Mapping[int, tuple[float, float]],
    most: int = MOST,
) -> Attempt | None:
    """The same for any problem."""
    measured = problem.measured
    spread, n = measured.spread, len(measured.weight)
    if math.isnan(spread) or spread > RAYLEIGH + 0.3 / math.sqrt(n):
        return None
    for noise in NOISES:
        fitting = n < 4 or 0.7 * spread <= noise <= max(4 * spread, NOISES[0])
        if not fitting or _attainable(measured, noise, within) < CLAIM:
            continue
        found = attempt(problem, sample, within, noise, most=most)
        if found is None:
            found = attempt(problem, sample, reachable(measured, within, most), noise, most=most)
        if found is not None and (found.bits >= CLAIM or found.exact):
            return found
    return None


def reachable(
    measured: Measured, within: Mapping[int, tuple[float, float]], most: int
) -> dict[int, tuple[float, float]]:
    """The part of a range in which the slowest pair has few enough turns to list them."""
    found = {}
    for axis, (low, high) in within.items():
        own = np.abs(measured.frequency[(measured.axis == axis) & (measured.frequency != 0)])
        far = 0.4 * most * 2 * math.pi / float(own.min()) if own.size else math.inf
        found[axis] = (max(low, min(-far, high)), min(high, max(far, low)))
    return found


def _attainable(
    measured: Measured, noise: float, within: Mapping[int, tuple[float, float]]
) -> float:
    """The bits of evidence that a true position would have at a level of noise."""
    bits = 0.0
    for axis, (low, high) in within.items():
        weight = measured.weight[(measured.axis == axis) & (measured.frequency != 0)]
        left = np.minimum(noise / np.maximum(weight, 1e-3), math.pi / math.sqrt(3))
        squares = float(np.sum(left**2))
        # Every position counts where nothing is known of it; nearer ones have more.
        bits += evidence(squares, len(left), count=min(high - low + 1, NEAR))
    return bits


def _listed(
    known: Known, sample: Sample, within: Mapping[int, tuple[float, float]]
) -> Attempt | None:
    """The positions whose entries all lie in their intervals, where pairs are too few to solve."""
    if known.phases.real or len(known.phases.axes) > 1:
        return None
    low, high = (int(end) for end in within[0])
    reach = max(abs(low), abs(high)) + abs(known.phases.start)
    constraints = []
    columns, phases = known.columns, known.phases
    for value, pair, function in zip(sample.values, columns.pair, columns.function, strict=True):
        if pair < 0:
            continue
        step = int(phases.steps[function, pair])
        middle, slack = Decimal(value / known.scale), Decimal(sample.tolerance)
        arcs = arcs_of(FUNCTIONS[function], middle - slack, middle + slack, reach)
        moved = tuple(((begin - phases.start * step) % TURN, length) for begin, length in arcs)
        constraints.append(Constraint(0, FUNCTIONS[function], step, moved))
    if not constraints or any(not c.arcs for c in constraints):
        return None
    joint = joined(tuple(constraints))
    if joint is None:
        return None
    found = on_axis(list(joint), low, high, MOST_LISTED)
    if not found.positions:
        return None
    expected = math.prod(density(c.arcs) for c in joint) * (high - low + 1)
    row = rebuilt(known, [(found.positions[0],)])[0]
    off = float(np.sqrt(np.mean((sample.values - known.scale * row) ** 2)))
    total = len(found.positions) if found.listed == "all" else MOST_KEPT
    bits = -math.log2(max(expected, len(found.positions) - 1, 1e-300))
    return Attempt(
        list(found.positions), off, bits, None, known.scale, exact=True, spread=0.0, total=total
    )


def _replayed(known: Known, sample: Sample, found: Attempt) -> tuple[Attempt, Known] | None:
    """The same position or one nearby, if float32 phases rebuild the numbers."""
    if known.phases.real or len(known.phases.axes) > 1 or not hasattr(known.spec, "phase"):
        return None
    first = found.positions[0]
    around = np.arange(first - NEIGHBOURS, first + NEIGHBOURS + 1)
    best: tuple[float, int, Any] | None = None
    for expression in ("power", "exp", "exp_quotient"):
        ladder = known.spec.ladder
        changed = known.spec.replace(phase="float32")
        if ladder.spacing == "geometric":
            changed = changed.replace(ladder=ladder.replace(expression=expression))
        rows = np.asarray(table(changed, around, dtype="float64")) * (
            found.scale / known.scale if known.scale else 1.0
        )
        off = np.abs(rows - sample.values).max(axis=1)
        k = int(off.argmin())
        if best is None or off[k] < best[0]:
            mean = float(np.sqrt(np.mean((rows[k] - sample.values) ** 2)))
            best = float(off[k]), int(around[k]), (changed, mean)
    assert best is not None, "three expressions"  # noqa: S101 - for the type checker
    off_best, position, (changed, mean) = best
    # The libraries' powers and sines differ in the last bits, which a large angle multiplies.
    slack = 4 * sample.tolerance + 2e-7 * abs(position) * 2.0**-3
    if off_best > min(slack, 0.02) * max(abs(found.scale), 1e-30):
        return None
    made = found._replace(positions=[position], residual=mean, exact=True, total=1)
    return made, known._replace(spec=changed)


def search(
    spec: Any,
    sample: Sample,
    within: Mapping[int, tuple[float, float]],
    *,
    params: Mapping[str, Any] | None,
    conventions: str,
) -> tuple[tuple[Fit, ...], int]:
    """The conventions under which a vector is a row, the least accidental first; how many tried."""
    first = known_of(spec, Sibling(()), params)
    if first is None:
        return (), 1
    found = exactly(first, sample, within)
    if found is not None or conventions == "stated":
        found = found or noisily(first, sample, within)
        return () if found is None else (_fit(spec, Sibling(()), found, within, params),), 1
    tried = _distinct(spec, params)
    penalty = math.log2(1 + len(tried))
    fits = []
    for sibling, known in tried:
        other = exactly(known, sample, within, MOST_OF_SIBLINGS)
        if other is not None:
            made = _fit(spec, sibling, other, within, params)
            fits.append(replace(made, bits=made.bits - penalty))
    if not any(fit.bits >= CLAIM for fit in fits):
        # Only then may it be noise: that of the stated convention, else of one near it.
        found = noisily(first, sample, within)
        if found is not None:
            fits.append(_fit(spec, Sibling(()), found, within, params))
        for sibling, known in tried if found is None else ():
            # A sine without its cosine has two angles, and noise leaves too many of them.
            plain = known.spec.ladder.cos_shift == 0 if hasattr(known.spec, "ladder") else True
            other = noisily(known, sample, within, MOST_OF_NOISE) if plain else None
            if other is not None:
                made = _fit(spec, sibling, other, within, params)
                fits.append(replace(made, bits=made.bits - penalty))
    fits = [fit for fit in fits if fit.bits >= math.log2(1000) or not fit.convention]
    fits.sort(key=lambda fit: -fit.bits)
    return tuple(fits[:5]), 1 + len(tried)


def _distinct(spec: Any, params: Mapping[str, Any] | None) -> list[tuple[Sibling, Known]]:
    """The siblings that give some entry another meaning."""
    found: dict[Any, tuple[Sibling, Known]] = {}
    first = None
    for sibling in siblings(spec, of="vectors"):
        known = known_of(spec, sibling, params)
        if known is None:
            continue
        parts = (known.columns.function, known.columns.pair, known.phases.steps)
        key = tuple(part.tobytes() for part in parts)
        first = key if first is None else first
        found.setdefault(key, (sibling, known))
    return [entry for key, entry in found.items() if key != first]


def _fit(
    spec: Any,
    sibling: Sibling,
    found: tuple[Attempt, Known],
    within: Mapping[int, tuple[float, float]],
    params: Mapping[str, Any] | None,
) -> Fit:
    made, known = found
    words = list(sibling.words)
    changed = known.spec
    learned = params is None and bool(spec.parameters())
    if hasattr(changed, "magnitude") and not learned and made.scale != known.scale:
        words.append(_scale_words(made.scale, changed))
        changed = changed.replace(magnitude=changed.magnitude.replace(table_scale=made.scale))
    if getattr(changed, "phase", "exact") != getattr(spec, "phase", "exact"):
        words.append("phases are formed in float32")
    span = math.prod(high - low + 1 for low, high in within.values())
    # `bits` counts the whole range; the density of hits follows from it.
    expected = max(2.0 ** -min(made.bits, 1000.0), 0.0)
    return Fit(
        tuple(words),
        changed,
        tuple(made.positions[:MOST_LISTED]),
        "all" if made.total < MOST_KEPT else "first",
        min(expected, span),
        made.residual,
        made.bits,
        made.rival,
    )


def _scale_words(scale: float, spec: Any) -> str:
    root = math.sqrt(spec.dim)
    for value, name in ((1.0, "1"), (root, "sqrt(d)"), (1 / root, "1/sqrt(d)"), (-1.0, "-1")):
        if math.isclose(scale, value, rel_tol=2e-3):
            return f"the table is times {name}"
    return f"the table is times {scale:.6g}"
