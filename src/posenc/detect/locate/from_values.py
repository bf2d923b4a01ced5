"""The position from values at single dimensions, each known to some digits."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Literal, NamedTuple

from posenc._core.grouping import grouped
from posenc._core.numeric.phase import steps
from posenc.detect.locate import vector_problem
from posenc.detect.locate.arcs import TURN, Arc, Interval, arcs_of, both, density, hits
from posenc.detect.locate.result import CUT, LEAST_BITS, Fit, Sibling, siblings
from posenc.encodings.table.column_phases import FUNCTIONS, columns_of

MOST = 1000  # positions that are listed
PATIENCE = 20_000  # hits of the most telling value that are tried against the others
ACCIDENTS = 4.0
SHOWN = 5  # conventions that are reported beside the stated one


class Constraint(NamedTuple):
    """One value: at which phases it can be, and how the phase moves with the position."""

    axis: int
    function: str
    step: int
    arcs: tuple[Arc, ...]

    def allows(self, position: int) -> bool:
        """Whether the value can be that of a position."""
        phase = position * self.step
        return any((phase - start) % TURN <= length for start, length in self.arcs)


class Interpretation(NamedTuple):
    """A convention with what the values mean under it."""

    sibling: Sibling
    digits: Literal["rounded", "cut"]
    constraints: tuple[Constraint, ...]  # one for each value
    joint: tuple[Constraint, ...]  # one for each frequency, what its values allow together

    @property
    def words(self) -> tuple[str, ...]:
        """How it differs from what was stated."""
        return self.sibling.words + ((CUT,) if self.digits == "cut" else ())

    @property
    def density(self) -> float:
        """The share of positions that fit by chance."""
        return math.prod(density(c.arcs) for c in self.joint)


def readings(
    spec: Any, values: Mapping[int, Interval], reach: int, conventions: str
) -> Iterator[Interpretation]:
    """Every convention that gives these values another meaning, the stated one first."""
    tried = [Sibling(())] if conventions == "stated" else siblings(spec, of="values")
    cache = _ColumnCache(spec)
    seen = set()
    cuttable = conventions != "stated" and any(v.cut is not None for v in values.values())
    for sibling in tried:
        for digits in ("rounded", "cut") if cuttable else ("rounded",):
            constraints = _constraints(cache, sibling, digits, values, reach)
            if constraints is None or constraints in seen:
                continue
            seen.add(constraints)
            joint = joined(constraints)
            if joint is not None:
                yield Interpretation(sibling, digits, constraints, joint)


def joined(constraints: tuple[Constraint, ...]) -> tuple[Constraint, ...] | None:
    """A sine and a cosine of one phase are one fact, not two; None if they contradict."""
    groups = grouped(((one.axis, one.step), one) for one in constraints)
    joint = tuple(
        group[0]._replace(arcs=functools.reduce(both, (c.arcs for c in group)))
        for group in groups.values()
    )
    return joint if all(c.arcs for c in joint) else None


class _ColumnCache:
    """Columns by order and steps by ladder, each worked out once."""

    def __init__(self, spec: Any) -> None:
        self.spec, matrix = spec, spec.matrix
        self.axis = matrix.arrangement.layout(matrix.pairs).axis
        self.columns = functools.cache(
            lambda order: columns_of(spec if order is None else spec.replace(order=order))
        )
        self.frequencies = functools.cache(
            lambda ladder, function: tuple(
                (matrix if ladder is None else matrix._replace(ladder=ladder)).frequencies(
                    cosine=bool(function)
                )
            )
        )


def constraint_of(
    axis: int, function: int, step: int, ends: tuple[Decimal, Decimal], start: int, reach: int
) -> Constraint:
    """What a value between two ends says of a column, whose first position is `start`."""
    arcs = arcs_of(FUNCTIONS[function], *ends, reach + abs(start))
    arcs = tuple(((begin - start * step) % TURN, length) for begin, length in arcs)
    return Constraint(axis, FUNCTIONS[function], step, arcs)


def _constraints(
    cache: _ColumnCache,
    sibling: Sibling,
    digits: str,
    values: Mapping[int, Interval],
    reach: int,
) -> tuple[Constraint, ...] | None:
    columns = cache.columns(sibling.order)
    scale, start = sibling.scale_and_start(cache.spec)
    constraints = []
    for dimension, value in values.items():
        column = dimension - sibling.counted_from
        if not 0 <= column < len(columns.pair) or columns.pair[column] < 0:
            return None
        pair = int(columns.pair[column])
        function = int(columns.function[column]) ^ (sibling.roles == "swapped")
        step = int(steps([cache.frequencies(sibling.ladder, function)[pair]])[0])
        cut = value.cut if digits == "cut" else None
        low, high = (end * Decimal(1 / scale) for end in cut or (value.low, value.high))
        constraints.append(
            constraint_of(cache.axis[pair], function, step, (low, high), start, reach)
        )
    return tuple(constraints)


# --- searching ------------------------------------------------------------------------------------


class Hits(NamedTuple):
    """Positions that fit, and whether the search came to its end."""

    positions: tuple[Any, ...]
    listed: Literal["all", "first"]


def search(
    spec: Any, values: Mapping[int, Interval], low: int, high: int, conventions: str
) -> tuple[tuple[Fit, ...], int]:
    """Conventions under which values have a position, the likeliest first; how many were tried."""
    tried = list(readings(spec, values, max(abs(low), abs(high)), conventions))
    counts = {k: sum(len(r.words) <= k for r in tried) for k in range(8)}
    ranked = []
    for reading in tried:
        near = low, high
        if reading.words:
            # Farther hits are expected by chance more than this many times: nobody asks for them.
            far = int(ACCIDENTS / (reading.density * counts[len(reading.words)])) + 1
            near = max(low, min(-far, high)), min(high, max(far, low))
        hits = positions_of(spec, reading, *near, most=1)
        if hits.positions:
            chance = up_to(hits.positions[0], low, high) * reading.density
            chance *= counts[len(reading.words)]
            ranked.append((-math.log2(max(chance, 1e-300)), reading))
    # What chance may give does not displace the stated convention.
    ranked.sort(
        key=lambda one: (bool(one[1].words) and one[0] <= LEAST_BITS, -one[0], len(one[1].words))
    )
    kept = ranked[:SHOWN] + [entry for entry in ranked[SHOWN:] if not entry[1].words]
    fits = [_fit(spec, bits, reading, values, (low, high)) for bits, reading in kept]
    fits = [fit for n, fit in enumerate(fits) if not _repeats(fit, fits[:n])]
    return tuple(fits), max(1, len(tried))


def _repeats(fit: Fit, before: list[Fit]) -> bool:
    """Whether a fit is one already listed with its positions counted from elsewhere."""
    for other in before:
        start, base = (getattr(f.spec, "arrangement", None) for f in (fit, other))
        if start is None or base is None or start.start == base.start:
            continue
        same = fit.spec.replace(arrangement=base) == other.spec
        moved = start.start - base.start
        if same and isinstance(fit.positions[0], int):
            return fit.positions[0] + moved == other.positions[0]
    return False


def _fit(
    spec: Any,
    bits: float,
    reading: Interpretation,
    values: Mapping[int, Interval],
    within: tuple[int, int],
) -> Fit:
    low, high = within
    hits = positions_of(spec, reading, low, high, most=MOST)
    expected = reading.density * (high - low + 1) ** len({c.axis for c in reading.constraints})
    residual = max(
        abs(value.middle - entry)
        for value, entry in zip(
            values.values(), predictions(spec, reading, hits.positions[0]), strict=True
        )
    )
    return Fit(reading.words, reading.sibling.of(spec), *hits, expected, residual, bits)


def predictions(spec: Any, reading: Interpretation, position: Any) -> list[float]:
    """What a convention gives at each of the dimensions."""
    scale, start = reading.sibling.scale_and_start(spec)
    values = []
    for c in reading.constraints:
        p = position[c.axis] if isinstance(position, tuple) else position
        angle = ((p + start) * c.step % TURN) * (2 * math.pi / TURN)
        values.append(scale * (math.sin(angle) if c.function == "sin" else math.cos(angle)))
    return values


def positions_of(spec: Any, reading: Interpretation, low: int, high: int, *, most: int) -> Hits:
    """The positions from `low` to `high` that a convention allows, at most `most` of them."""
    axes = spec.matrix.arrangement.axes
    groups = [[c for c in reading.joint if c.axis == a] for a in range(len(axes))]
    if len(axes) == 1:
        return on_axis(groups[0], low, high, most)
    each = [on_axis(group, low, high, most) if group else None for group in groups]
    lists = [(None,) if hits is None else hits.positions for hits in each]
    combined = itertools.islice(itertools.product(*lists), most)
    return Hits(
        tuple(combined),
        "all"
        if all(hits is None or hits.listed == "all" for hits in each)
        and math.prod(len(values) for values in lists) <= most
        else "first",
    )


def on_axis(constraints: list[Constraint], low: int, high: int, most: int) -> Hits:
    """The positions from `low` to `high` that every constraint allows, at most `most` of them."""
    telling, *others = sorted(constraints, key=lambda c: density(c.arcs))
    patience = PATIENCE if most > 1 else PATIENCE // 10
    positions: list[int] = []
    for n, position in enumerate(hits(telling.step, telling.arcs, low, high)):
        if len(positions) == most or n == patience + most:
            return Hits(tuple(positions), "first")
        if all(c.allows(position) for c in others):
            positions.append(position)
    return Hits(tuple(positions), "all")


def up_to(position: Any, low: int, high: int) -> float:
    """How many positions of the range lie no further from 0 than this one."""
    return (
        math.prod(up_to(p, low, high) for p in position if p is not None)
        if isinstance(position, tuple)
        else float(vector_problem.up_to(position, low, high, real=False))
    )
