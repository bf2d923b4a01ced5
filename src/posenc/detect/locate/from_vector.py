"""The position from a whole vector: exact, rounded to any dtype, or under noise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import numpy as np

from posenc._core.errors import refuse
from posenc.detect.locate.arcs import MOST, density
from posenc.detect.locate.from_values import constraint_of, joined, on_axis
from posenc.detect.locate.result import Fit, Sibling, siblings
from posenc.detect.locate.vector_problem import (
    MOST_KEPT,
    MOST_LISTED,
    OURS,
    Attempt,
    MeasuredAngles,
    PhaseModel,
    Problem,
    Sample,
    attempt,
    evidence,
    known_of,
    problem_of,
    rebuilt,
)
from posenc.functional import table

DRIFT = 1.2e-7  # of angles that were formed in float32, in radians for each radian
DROWNED = 2**25  # the position at which the fast half of angles formed in float32 is noise
NOISES = (2e-3, 6e-3, 0.02, 0.06, 0.15, 0.3, 0.6)
RAYLEIGH = 0.43  # spread of moduli at which noise has drowned the pairs; 0.46 is noise alone
CLAIM = 16.0  # bits of evidence that make a noisy vector a position
MOST_OF_SIBLINGS = 1 << 16
MOST_OF_NOISE = 1 << 17
NEIGHBOURS = 8
NEAR = 2**12  # positions that are likely beforehand
MOST_ROWS = 1 << 20  # of a learned table
BLOCK = 1 << 22  # numbers at a time


def exactly(
    model: PhaseModel,
    sample: Sample,
    within: Mapping[int, tuple[float, float]],
    most: int = MOST,
) -> tuple[Attempt, PhaseModel] | None:
    """What a convention gives if rounding, or the arithmetic of float32, is all the noise."""
    problem = problem_of(model, sample)
    measured = problem.measured
    most_off = 30 * sample.floor
    if measured.spread > most_off or measured.beyond > most_off:
        return None  # rounding does not do that to moduli
    for drift in (0.0, DRIFT) if most == MOST or not math.isnan(measured.spread) else (0.0,):
        hit = attempt(
            problem,
            sample,
            near(within) if drift else within,
            sample.floor,
            drift=drift,
            most=most,
        )
        if hit is None and not drift and most == MOST:
            hit = _listed(model, sample, within)
        if hit is not None and hit.exact:
            return hit, model
        replayed = _replayed(model, sample, hit) if hit is not None and drift else None
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
    model = known_of(spec, Sibling(()), None)
    return model is not None and exactly(model, sample, within) is not None


def noisily(
    model: PhaseModel,
    sample: Sample,
    within: Mapping[int, tuple[float, float]],
    most: int = MOST,
) -> tuple[Attempt, PhaseModel] | None:
    """What a convention gives at the first level of noise that leaves enough evidence.

    The moduli of the pairs should all be one. How much they differ tells the noise before anything
    is known of the position.
    """
    hit = at_noise(problem_of(model, sample), sample, within, most)
    return None if hit is None else (hit, model)


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
        hit = attempt(problem, sample, within, noise, most=most) or attempt(
            problem, sample, reachable(measured, within, most), noise, most=most
        )
        if hit is not None and (hit.bits >= CLAIM or hit.exact):
            return hit
    return None


def reachable(
    measured: MeasuredAngles, within: Mapping[int, tuple[float, float]], most: int
) -> dict[int, tuple[float, float]]:
    """The part of a range in which the slowest pair has few enough turns to list them."""
    ranges = {}
    for axis, (low, high) in within.items():
        own = np.abs(measured.frequency[(measured.axis == axis) & (measured.frequency != 0)])
        far = 0.4 * most * 2 * math.pi / float(own.min()) if own.size else math.inf
        ranges[axis] = (max(low, min(-far, high)), min(high, max(far, low)))
    return ranges


def _attainable(
    measured: MeasuredAngles, noise: float, within: Mapping[int, tuple[float, float]]
) -> float:
    """The bits of evidence that a true position would have at a level of noise."""
    bits = 0.0
    for axis, (low, high) in within.items():
        weight = measured.weight[(measured.axis == axis) & (measured.frequency != 0)]
        left = np.minimum(noise / np.maximum(weight, 1e-3), math.pi / math.sqrt(3))
        # Every position counts where nothing is known of it; nearer ones have more.
        bits += evidence(float(np.sum(left**2)), len(left), count=min(high - low + 1, NEAR))
    return bits


def _listed(
    model: PhaseModel, sample: Sample, within: Mapping[int, tuple[float, float]]
) -> Attempt | None:
    """The positions whose entries all lie in their intervals, where pairs are too few to solve."""
    if model.phases.real or len(model.phases.axes) > 1:
        return None
    low, high = (int(end) for end in within[0])
    phases, slack = model.phases, Decimal(sample.tolerance)
    columns = zip(sample.values, model.columns.pair, model.columns.function, strict=True)
    joint = joined(
        tuple(
            constraint_of(
                0,
                function,
                int(phases.steps[function, pair]),
                (Decimal(value / model.scale) - slack, Decimal(value / model.scale) + slack),
                phases.start,
                max(abs(low), abs(high)),
            )
            for value, pair, function in columns
            if pair >= 0
        )
    )
    hits = on_axis(list(joint), low, high, MOST_LISTED) if joint else None
    if not joint or not hits or not hits.positions:
        return None
    expected = math.prod(density(c.arcs) for c in joint) * (high - low + 1)
    off = float(
        np.sqrt(
            np.mean((sample.values - model.scale * rebuilt(model, [(hits.positions[0],)])[0]) ** 2)
        )
    )
    positions = list(hits.positions)
    return Attempt(
        positions,
        off,
        -math.log2(max(expected, len(positions) - 1, 1e-300)),
        None,
        model.scale,
        exact=True,
        total=len(positions) if hits.listed == "all" else MOST_KEPT,
    )


def _replayed(model: PhaseModel, sample: Sample, hit: Attempt) -> tuple[Attempt, PhaseModel] | None:
    """The same position or one nearby, if float32 phases rebuild the numbers."""
    if model.phases.real or len(model.phases.axes) > 1 or not hasattr(model.spec, "phase"):
        return None
    around = hit.positions[0] + np.arange(-NEIGHBOURS, NEIGHBOURS + 1)
    tried: list[tuple[float, int, Any, float]] = []
    for expression in ("power", "exp", "exp_quotient"):
        ladder = model.spec.ladder
        changed = model.spec.replace(phase="float32")
        if ladder.spacing == "geometric":
            changed = changed.replace(ladder=ladder.replace(expression=expression))
        rows = np.asarray(table(changed, around, dtype="float64")) * (
            hit.scale / model.scale if model.scale else 1.0
        )
        off = np.abs(rows - sample.values).max(axis=1)
        k = int(off.argmin())
        mean = float(np.sqrt(np.mean((rows[k] - sample.values) ** 2)))
        tried.append((float(off[k]), int(around[k]), changed, mean))
    off_best, position, changed, mean = min(tried, key=lambda entry: entry[0])
    # The libraries' powers and sines differ in the last bits, which a large angle multiplies.
    if off_best > min(4 * sample.tolerance + 2e-7 * abs(position) * 2.0**-3, 0.02) * max(
        abs(hit.scale), 1e-30
    ):
        return None
    return (
        hit._replace(positions=[position], residual=mean, exact=True, total=1),
        model._replace(spec=changed),
    )


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
    hit = exactly(first, sample, within)
    if hit is not None or conventions == "stated":
        hit = hit or noisily(first, sample, within)
        return () if hit is None else (_fit(spec, Sibling(()), hit, within, params),), 1
    tried = _distinct(spec, params)
    penalty = math.log2(1 + len(tried))
    hits = [(sibling, exactly(model, sample, within, MOST_OF_SIBLINGS)) for sibling, model in tried]
    fits = [_fit(spec, s, hit, within, params, penalty) for s, hit in hits if hit is not None]
    if not any(fit.bits >= CLAIM for fit in fits):
        # Only then may it be noise: that of the stated convention, else of one near it.
        hit = noisily(first, sample, within)
        if hit is not None:
            fits.append(_fit(spec, Sibling(()), hit, within, params))
        for sibling, model in tried if hit is None else ():
            # A sine without its cosine has two angles, and noise leaves too many of them.
            plain = model.spec.ladder.cos_shift == 0 if hasattr(model.spec, "ladder") else True
            other = noisily(model, sample, within, MOST_OF_NOISE) if plain else None
            if other is not None:
                fits.append(_fit(spec, sibling, other, within, params, penalty))
    return best_of(fits, math.log2(1000)), 1 + len(tried)


def best_of(fits: list[Fit], least: float) -> tuple[Fit, ...]:
    """The least accidental of some fits; those of siblings have so many bits at least."""
    return tuple(
        sorted(
            (fit for fit in fits if fit.bits >= least or not fit.convention),
            key=lambda fit: -fit.bits,
        )[:5]
    )


def _distinct(spec: Any, params: Mapping[str, Any] | None) -> list[tuple[Sibling, PhaseModel]]:
    """The siblings that give some entry another meaning."""
    models: dict[Any, tuple[Sibling, PhaseModel]] = {}
    for sibling in siblings(spec, of="vectors"):
        model = known_of(spec, sibling, params)
        if model is not None:
            models.setdefault(
                tuple(
                    part.tobytes()
                    for part in (model.columns.function, model.columns.pair, model.phases.steps)
                ),
                (sibling, model),
            )
    return [*models.values()][1:]


def _fit(
    spec: Any,
    sibling: Sibling,
    solution: tuple[Attempt, PhaseModel],
    within: Mapping[int, tuple[float, float]],
    params: Mapping[str, Any] | None,
    penalty: float = 0.0,
) -> Fit:
    hit, model = solution
    words = list(sibling.words)
    changed = model.spec
    learned = params is None and bool(spec.parameters())
    if hasattr(changed, "magnitude") and not learned and hit.scale != model.scale:
        words.append(_scale_words(hit.scale, changed))
        changed = changed.replace(magnitude=changed.magnitude.replace(table_scale=hit.scale))
    if getattr(changed, "phase", "exact") != getattr(spec, "phase", "exact"):
        words.append("phases are formed in float32")
    return hit.fit(tuple(words), changed, within, penalty)


def _scale_words(scale: float, spec: Any) -> str:
    root = math.sqrt(spec.dim)
    named = ((1.0, "1"), (root, "sqrt(d)"), (1 / root, "1/sqrt(d)"), (-1.0, "-1"))
    names = (name for value, name in named if math.isclose(scale, value, rel_tol=2e-3))
    return f"the table is multiplied by {next(names, f'{scale:.6g}')}"


# --- a learned table ------------------------------------------------------------------------------


def nearest_rows(spec: Any, sample: Sample, params: Mapping[str, Any]) -> tuple[Fit, ...]:
    """The rows of a learned table that are the vector, or the nearest one beyond doubt."""
    limits = spec.limits
    count = math.prod(limits)
    refuse((count > MOST_ROWS, f"locate({type(spec).__name__})", f"at most {MOST_ROWS:,} rows",
            count))  # fmt: skip
    squares, off = np.empty(count), np.empty(count)
    block = max(1, BLOCK // max(1, spec.dim))
    for begin in range(0, count, block):
        some = np.arange(begin, min(count, begin + block))
        places = np.stack(np.unravel_index(some, limits), axis=-1) if len(limits) > 1 else some
        left = np.asarray(table(spec, places, params=params, dtype="float64")) - sample.values
        squares[some], off[some] = (left**2).sum(axis=1), np.abs(left).max(axis=1)
    tolerance = (sample.tolerance - OURS) * max(
        sample.size, float(np.sqrt(np.mean(sample.values**2)))
    ) + 1e-12
    order = np.argsort(squares, kind="stable")
    exact = [int(k) for k in order[:1000] if off[k] <= tolerance]
    chosen = exact or [int(order[0])]
    rivals = [int(k) for k in order[:1001] if int(k) not in set(chosen)]
    best, width = chosen[0], sample.values.size
    bits, rival = 1000.0, None
    if rivals:
        nearest = squares[rivals[0]]
        bits = min(
            width / 2 * math.log2(max(nearest / max(squares[best], 1e-30), 1.0)), 1000.0
        ) - math.log2(count)
        rival = _place(limits, rivals[0]), math.sqrt(nearest / width)
    if not exact and bits < CLAIM:
        return ()
    return (
        Fit(
            (),
            spec,
            tuple(_place(limits, k) for k in chosen),
            "all",
            2.0 ** -max(bits, 0.0),
            math.sqrt(squares[best] / width),
            bits,
            rival,
        ),
    )


def _place(limits: tuple[int, ...], row: int) -> Any:
    place = tuple(int(n) for n in np.unravel_index(row, limits))
    return place[0] if len(place) == 1 else place
