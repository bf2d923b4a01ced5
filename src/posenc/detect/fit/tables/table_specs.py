"""From lines to specs: base, denominator, first frequency, scale and arrangement in posenc's words.

Numbers do not fix all of these: a ladder is one ratio, whatever base and denominator make it. Round
numbers are believed where their roundness is no accident, and each guess carries the bits it takes.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from typing import Any, NamedTuple

from posenc._core.numeric.arrangement import Arrangement, Magnitude
from posenc._core.numeric.ladder import Ladder
from posenc.detect.fit.ladders import (
    Base,
    bases,
    bits_of,
    real_bits,
    roundest_within,
    same_ladders,
    stated,
)
from posenc.detect.fit.tables.layout import AXES, FLOAT32, AxisGrid, Placement, TableLayout
from posenc.detect.fit.tables.line import Line
from posenc.encodings.table.base import TableSpec
from posenc.encodings.table.fourier import Fourier
from posenc.encodings.table.sinusoidal import Sinusoidal

Rungs = list[tuple[tuple[float, float], int, int]]  # slopes, count and channels of each ladder


class TableAxis(NamedTuple):
    """One axis of a table."""

    grid: AxisGrid
    lines: tuple[Line, ...]  # the likeliest first
    pairs: int  # rungs of its ladder


class Sighting(NamedTuple):
    """What phases say of a table, before it is put into words."""

    dim: int
    layout: TableLayout
    axes: list[TableAxis]  # in the order of the channels
    scale: float
    prefix: int  # leading rows of zeros
    pad: int | None  # the one row of zeros
    eps: float

    @property
    def slowest_first(self) -> list[int]:
        """The axes from the slowest to the fastest along the rows."""
        return sorted(range(len(self.axes)), key=lambda a: -self.axes[a].grid.stride)


class SpecGuess(NamedTuple):
    """A spec that has not been rebuilt yet."""

    spec: TableSpec
    placement: Placement
    bits: float
    remarks: tuple[str, ...]


def specs(seen: Sighting, lines: tuple[Line, ...]) -> Iterator[SpecGuess]:
    """The specs that may be behind a sighting, with a line for each axis."""
    steps = {line.step for line in lines}
    if len(steps) > 1 or (seen.layout.several and steps != {1}):
        return
    order = seen.slowest_first
    placement = Placement(
        AXES[len(order)],
        tuple(seen.axes[a].grid.places for a in order),
        tuple(seen.axes[a].grid.stride for a in order),
        tuple(lines[a].start for a in order),
        lines[0].step,
        seen.prefix,
    )
    bits = 4 + sum(1 + 2 * math.log2(1 + abs(line.start)) for line in lines)
    if seen.layout.several:
        bits += sum(2 * math.log2(axis.grid.places) for axis in seen.axes)
    if seen.pad is not None:
        bits += 4
    for odd in _odds(seen):
        lone = odd == "sin_extra" and seen.dim % 2
        rungs = [
            (line.slope, axis.pairs, seen.dim if lone else 2 * axis.pairs)
            for line, axis in zip(lines, seen.axes, strict=True)
        ]
        options = bases(rungs)
        for base in options:
            others = same_ladders(base, options) if base is options[0] else ()
            firsts, first_bits = _firsts(lines, base, rungs)
            for magnitude, scale_bits in _magnitudes(seen):
                solution = _spec(seen, odd, base, firsts, magnitude, placement)
                if solution is not None:
                    yield SpecGuess(*solution, bits + base.bits + first_bits + scale_bits, others)


def _magnitudes(seen: Sighting) -> Iterator[tuple[Magnitude, float]]:
    """The factor on the table, and its bits: the plain ones, a round one, or the number itself."""
    error = (
        8 * seen.eps / math.sqrt(sum(axis.grid.places * axis.pairs for axis in seen.axes)) + FLOAT32
    )
    scale, root = seen.scale, math.sqrt(seen.dim)
    named: tuple[tuple[Any, float], ...] = ((1.0, 1.0), ("sqrt_dim", root), ("rsqrt_dim", 1 / root))
    for name, value in named:
        if abs(scale / value - 1) <= max(error, seen.eps):
            yield Magnitude(table_scale=name), 1.0 if value == 1 else 3.0
        if abs(scale / value - 1) <= error:
            return
    value, bits = stated(scale, error)
    yield Magnitude(table_scale=value), bits


def _odds(seen: Sighting) -> tuple[str, ...]:
    """The rules for widths that pairs do not fill, by the likelihood of each."""
    channels = 2 * sum(axis.pairs for axis in seen.axes)
    if channels <= seen.dim:
        return ("sin_extra",) if channels == seen.dim else ("zero_pad",)
    if seen.layout.several:
        return ("cut",)
    return ("sin_extra", "cut") if seen.layout.order != "cos_sin" else ("sin_extra",)


def _firsts(lines: tuple[Line, ...], base: Base, rungs: Rungs) -> tuple[tuple[float, ...], float]:
    """First frequencies, 1, one for all axes, or one for each; and their bits."""
    if all(line.level == (0.0, 0.0) for line in lines):
        return (1.0,), 1.0
    # The level moves with the slope that the base has settled.
    levels = []
    for line, (_, count, width) in zip(lines, rungs, strict=True):
        divisor = float(Ladder(denominator=base.denominator).divisor(count=count, width=width))
        moved = abs(-math.log(base.value) / divisor - sum(line.slope) / 2) / 2 + 1e-9
        levels.append((line.level[0] - moved, line.level[1] + moved))
    low, high = max(level[0] for level in levels), min(level[1] for level in levels)
    if low <= high:
        value, bits = _tidy(low, high)
        return (value,), 2 + bits
    tidied = [_tidy(*level) for level in levels]
    return tuple(v for v, _ in tidied), 4 + sum(bits for _, bits in tidied)


def _tidy(low: float, high: float) -> tuple[float, float]:
    """A first frequency that is round, or whose inverse or period is; and its bits."""
    least, most = math.exp(low), math.exp(high)
    direct = roundest_within(least, most)
    inverses = {
        over: roundest_within(over / most, over / least) for over in (1.0, math.pi, math.tau)
    }
    numbers = [(value, bits_of(value)) for value in (direct,) if value is not None]
    numbers += [(over / n, 2 + bits_of(n)) for over, n in inverses.items() if n is not None]
    return min(
        numbers,
        key=operator.itemgetter(1),
        default=(math.exp((low + high) / 2), real_bits((high - low) / 2)),
    )


def _spec(
    seen: Sighting,
    odd: str,
    base: Base,
    firsts: tuple[float, ...],
    magnitude: Magnitude,
    placement: Placement,
) -> tuple[TableSpec, Placement] | None:
    """The plainest spec that says it: shared ladders are a `Sinusoidal`, others a `Fourier`."""
    dim, layout = seen.dim, seen.layout
    whole = all(value == int(value) for value in placement.starts)
    shared = len(firsts) == 1
    own_channels = layout.order == "interleaved" or layout.blocks == "axis" or not layout.several
    ladders = [Ladder(denominator=base.denominator, first=first) for first in firsts]
    if own_channels and shared and whole:
        start, place = 0, placement
        if not layout.several and placement.step == 1:
            start, place = int(placement.starts[0]), placement._replace(starts=(0,))
        spec = Sinusoidal(
            dim,
            base=base.value,
            ladder=ladders[0],
            order=layout.order,
            odd=odd,  # type: ignore[arg-type]
            arrangement=_arrangement(seen, odd, placement, start, seen.pad),
            magnitude=magnitude,
        )
        return spec, place
    plain = magnitude == Magnitude() and odd == "sin_extra"
    if not plain or seen.pad is not None or placement.prefix or dim % 2:
        return None
    fourier = Fourier(
        dim,
        base=base.value,
        ladder=ladders[0] if shared else tuple(ladders[a] for a in seen.slowest_first),
        order=layout.order,
        blocks=layout.blocks if layout.several else "all",
        arrangement=_arrangement(seen, odd, placement, 0, None),
    )
    return fourier, placement


def _arrangement(
    seen: Sighting, odd: str, placement: Placement, start: int, pad: int | None
) -> Arrangement:
    if not seen.layout.several:
        return Arrangement(
            start=start,
            pad=None if pad is None else placement.step * pad + int(placement.starts[0]),
        )
    names = placement.axes
    place = dict(zip(seen.slowest_first, names, strict=True))
    order = tuple(place[a] for a in range(len(names)))
    sizes = tuple(axis.pairs for axis in seen.axes)
    equal = len(set(sizes)) == 1 and (odd != "zero_pad" or sizes[0] == seen.dim // (2 * len(names)))
    return Arrangement(
        rule="axial",
        axes=names,
        order=None if order == names else order,
        sizes=None if equal else sizes,
        pad=-1 if placement.prefix else None,
    )
