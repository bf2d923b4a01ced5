"""What stands in the columns of an encoding: waves of known frequency, or rows and nothing else.

A column of a sinusoidal table is one wave, so it can be drawn at any scale from its frequency alone
and no table is built. Whether an encoding is of that kind is not taken on trust: the waves are
compared with the rows that the library gives.
"""

from __future__ import annotations

import bisect
import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from posenc._core.errors import PositionError, bad_argument, suggest
from posenc._core.numeric.matrix import DenseMatrix, PhaseMatrix
from posenc._core.numeric.phase import steps
from posenc._core.spec.spec import Spec
from posenc.encodings.api import RotarySpec, TableSpec
from posenc.encodings.table.column_phases import columns_of, inner, phases_of, sinusoids
from posenc.functional import cos_sin, table
from posenc.plot.rows import refuse, require

TURN = 2.0**-64 * 2 * math.pi  # radians in one unit of phase
QUARTER = 2**62


@dataclass(frozen=True)
class ColumnWaves:
    """Columns that are sines and cosines: amplitude * sin(position * step + origin)."""

    pair: np.ndarray
    function: np.ndarray
    step: np.ndarray
    origin: np.ndarray
    amplitude: float

    @property
    def frequency(self) -> np.ndarray:
        """Radians per position, from -pi to pi: what integer positions can show of them."""
        return self.step * TURN

    @property
    def wavelength(self) -> np.ndarray:
        """Positions per wave; infinite where nothing turns."""
        with np.errstate(divide="ignore"):
            return 2 * math.pi / np.abs(self.frequency)

    def at(self, whole: np.ndarray, part: np.ndarray | None, dims: np.ndarray) -> np.ndarray:
        """Values between positions too."""
        step = self.step[dims]
        phase = whole[:, None] * step + self.origin[dims]
        if part is not None:
            phase = phase + np.rint(part[:, None] * step.astype(np.float64)).astype(np.int64)
        return np.where(self.pair[dims] < 0, 0.0, self.amplitude * np.sin(phase * TURN))


Params = Mapping[str, np.ndarray] | None

# Where waves and rows are compared: positions that tell conventions apart.
PROBES = (0, 1, 2, 7, 1000, 54_321)
ALIKE = 1e-9
ENDLESS = 1 << 40  # positions of a table without an end
USUAL = 128  # positions drawn unasked
BLOCK = 1 << 20  # numbers at a time


class Pairs(NamedTuple):
    """The pair of each dimension, -1 where it has none, and 0 for the sine, 1 for the cosine."""

    pair: np.ndarray
    function: np.ndarray


@functools.lru_cache(maxsize=64)
def pairs_of(spec: Any) -> Pairs | None:
    """Which pair each dimension of an encoding belongs to; every picture asks here."""
    if isinstance(spec, RotarySpec):
        return pairs_of_rotation(spec)
    table = inner(spec)
    return Pairs(*columns_of(table)) if sinusoids(table) else None


@functools.lru_cache(maxsize=64)
def pairs_of_rotation(spec: Any) -> Pairs:
    """The same of a rotation, whose dimensions are channels, counted within those that turn.

    Where the first channel of a pair stands, the sine of its angle stands in a table, and where
    the second, the cosine.
    """
    width = 2 * spec.pairs
    channels = np.array(spec.channels.channels(width), dtype=np.int64).reshape(-1, 2)
    pairs = Pairs(np.empty(width, dtype=np.int64), np.empty(width, dtype=np.int64))
    pairs.pair[channels], pairs.function[channels] = np.arange(spec.pairs)[:, None], (0, 1)
    for array in pairs:
        array.setflags(write=False)
    return pairs


def channels_of(spec: Any) -> np.ndarray:
    """The first dimension of each pair, int32."""
    layout = pairs_of(spec)
    if layout is None:
        return np.zeros(0, dtype=np.int32)
    first = np.zeros(int(layout.pair.max(initial=-1)) + 1, dtype=np.int32)
    paired = np.flatnonzero(layout.pair >= 0)[::-1]
    first[layout.pair[paired]] = paired  # of several, the last that is written: the first of all
    return first


def width_of(spec: Any) -> int:
    """The number of dimensions that pictures of an encoding have; 1 where it has none."""
    if isinstance(spec, RotarySpec):
        return 2 * spec.pairs
    return int(inner(spec).dim) if isinstance(spec, TableSpec) else 1


@dataclass(frozen=True)
class TableSource:
    """An encoding as a table of numbers, whatever it is."""

    spec: Spec
    width: int
    waves: ColumnWaves | None
    params: Params
    sides: tuple[int, ...] = ()

    @property
    def turns(self) -> bool:
        """Whether these are the cosines and sines of a rotation rather than a table."""
        return isinstance(self.spec, RotarySpec)

    @property
    def heads(self) -> int:
        """Heads that have rows of their own; the first of them is shown."""
        return getattr(self.spec, "per_head", None) or 1

    @property
    def end(self) -> int | None:
        """The number of positions there are, None where there is no end."""
        if self.sides:
            return math.prod(self.sides)
        table = inner(self.spec)
        if not isinstance(table, TableSpec) or _exist(table, ENDLESS):
            return None
        return bisect.bisect_left(range(1, ENDLESS), 1, key=lambda n: not _exist(table, n))

    def usual(self, most: int = USUAL) -> int:
        """Positions drawn unasked: a few, or all of a grid or table."""
        if self.sides:
            return math.prod(self.sides)
        return most if self.end is None else max(1, min(most, self.end))

    def positions(self, index: np.ndarray) -> np.ndarray:
        """Positions as the spec takes them: cells of a grid have coordinates."""
        return cells_of(index, self.sides)

    def rows(self, index: np.ndarray) -> np.ndarray:
        """The rows at integer positions: (n,) -> (n, width), float64."""
        return _rows(self.spec, self.positions(np.asarray(index)), self.params)

    def values(self, index: np.ndarray, dims: np.ndarray) -> np.ndarray:
        """Numbers at integer positions, of some columns: (n, m)."""
        index = np.asarray(index, dtype=np.int64)
        if self.waves is None:
            return self.rows(index)[:, dims]
        values = self.waves.at(index, None, dims)
        values[_padding(self.spec, index)] = 0.0
        return values

    def blocks(self, index: np.ndarray, dims: np.ndarray) -> np.ndarray:
        """The same as `values`, so many rows at a time that they take little room."""
        step = max(1, BLOCK // max(len(dims) if self.waves is not None else self.width, 1))
        parts = [self.values(index[i : i + step], dims) for i in range(0, len(index), step)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def pair_of(self, dim: int) -> int | None:
        """The pair that a dimension belongs to; None where it belongs to none."""
        layout = pairs_of(self.spec)
        return None if layout is None or layout.pair[dim] < 0 else int(layout.pair[dim])

    def name(self, dim: int) -> str:
        """What stands in a column: `sin of pair 3`."""
        return (
            f"dimension {dim}"
            if self.waves is None or self.waves.pair[dim] < 0
            else f"{('sin', 'cos')[self.waves.function[dim]]} of pair {self.waves.pair[dim]}"
        )


def _exist(table: TableSpec, count: int) -> bool:
    """Whether a table has so many positions from 0 on."""
    try:
        table.check_count(0, count)
    except PositionError:
        return False
    return True


def cells_of(index: np.ndarray, sides: tuple[int, ...]) -> np.ndarray:
    """Numbers of cells as positions in a grid, which has no sides where there is one axis."""
    return np.stack(np.unravel_index(index, sides), axis=-1) if sides else index


def settled(spec: Any, length: int | None = None) -> Any:
    """The spec with its length-dependent rules fixed, or an error that asks for the length."""
    received = f"the class {spec.__name__}" if isinstance(spec, type) else type(spec).__name__
    todo = "posenc.plot.compare(PICTURE, a, b) draws two." if received in ("list", "tuple") else ""
    require(isinstance(spec, Spec), "", "a spec such as posenc.Sinusoidal(512)", received, todo)
    if not (isinstance(spec, RotarySpec) and spec.needs_length):
        return spec
    if length is None:
        raise bad_argument(
            f"plot({received})",
            "the length of the sequence",
            None,
            "Pass length=, or fix it: spec.at(length).",
        )
    return spec.at(length)


def source(
    spec: Any,
    *,
    params: Params = None,
    length: int | None = None,
    grid: tuple[int, ...] | None = None,
    caller: str = "table",
) -> TableSource:
    """An encoding as a table of numbers."""
    spec = settled(spec, length)
    if not isinstance(spec, TableSpec | RotarySpec):
        refuse(caller, spec, "a table or a rotation")
    check_learned(spec, params, caller)
    bare = TableSource(spec, 0, None, params, sides_of(spec, grid, caller))
    return replace(
        bare,
        width=bare.rows(np.zeros(1, dtype=np.int64)).shape[1],
        waves=None if bare.sides else _waves(spec, params),
    )


def evenly(count: int, most: int) -> np.ndarray:
    """At most so many of 0 to `count` - 1, from the first to the last."""
    return np.unique(np.rint(np.linspace(0, count - 1, most)).astype(int))


def some_of(count: int, most: int, own: int) -> tuple[int, ...]:
    """All of so many where they are few, else some from the first to the last and `own`."""
    few = range(count) if count <= most else {*np.linspace(0, count - 1, most - 1).astype(int), own}
    return tuple(sorted(map(int, few)))


def check_word(caller: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise where a word is none of the choices."""
    if value not in choices:
        raise bad_argument(caller, "one of them", repr(value), suggest(value, choices))


def check_learned(spec: Any, params: Params, caller: str) -> None:
    """Raise where an encoding has learned something that is not given."""
    require(
        params is not None or not spec.shapes,
        f" {caller}: params",
        "what the spec learns",
        None,
        "Pass params=: what was trained, or posenc.init(spec, seed), which is not.",
    )


def sides_of(spec: Any, grid: tuple[int, ...] | None, caller: str) -> tuple[int, ...]:
    """The sides of a grid, checked against the axes of a spec; none for one axis."""
    axes, caller = spec.axes, f" {caller}: grid"
    if len(axes) == 1:
        require(grid is None, caller, "a spec of several axes", axes, "Leave the grid out.")
        return ()
    if grid is None or len(grid) != len(axes) or min(grid) < 1:
        raise bad_argument(
            f"plot{caller}",
            f"the number of cells along each of {', '.join(axes)}",
            grid,
            "Its cells, the last axis fastest, are then drawn one after another.",
        )
    return tuple(int(side) for side in grid)


def _rows(spec: Any, positions: np.ndarray, params: Params) -> np.ndarray:
    if isinstance(spec, RotarySpec):
        cos, sin = cos_sin(spec, positions, dtype="float64", params=params)
        both = np.stack([np.asarray(sin), np.asarray(cos)])
        both = both[:, 0] if both.ndim > 3 else both  # of heads that differ, the first
        pair, function = pairs_of_rotation(spec)
        return both[function, :, pair].T
    return np.asarray(table(spec, positions, params=params, dtype="float64"))


def _waves(spec: Any, params: Params) -> ColumnWaves | None:
    """The columns as waves, if that is what the rows are."""
    waves, index = _described(inner(spec)), np.array(PROBES, dtype=np.int64)
    if waves is None:
        return None
    if params is not None and "scale" in params:
        waves = replace(waves, amplitude=float(np.asarray(params["scale"])))
    try:
        rows = _rows(spec, index, params)
    except IndexError:  # a table that ends has no waves
        return None
    if rows.shape[1] != len(waves.step):
        return None
    off = np.abs(
        (waves.at(index, None, np.arange(len(waves.step))) - rows)[~_padding(spec, index)]
    ).max()
    return waves if off <= ALIKE * max(waves.amplitude, 1e-300) else None


def _padding(spec: Any, index: np.ndarray) -> np.ndarray:
    """Whether a position is the one of padding, whose row is 0."""
    arrangement = getattr(inner(spec), "arrangement", None)
    return (
        np.zeros(index.shape, dtype=bool)
        if arrangement is None or arrangement.pad is None
        else np.asarray(index == arrangement.pad - arrangement.start)
    )


@functools.lru_cache(maxsize=64)
def _described(spec: Any) -> ColumnWaves | None:
    """What the columns are by the fields of the spec, its learned scale left out."""
    matrix, layout = getattr(spec, "matrix", None), pairs_of(spec)
    own_sizes = isinstance(spec, RotarySpec) and spec.uneven
    if layout is None or own_sizes or getattr(matrix, "phase", "") != "exact":
        return None
    if isinstance(matrix, PhaseMatrix):
        phases = phases_of(spec)
        step, start = phases.steps, phases.start
    elif isinstance(matrix, DenseMatrix):
        step, start = np.array([steps(matrix.frequencies()[0])] * 2), 0
    else:
        return None
    pair, function = layout
    if isinstance(spec, RotarySpec):
        amplitude = float(spec.attention_factor)
    else:
        magnitude = getattr(spec, "magnitude", None)
        amplitude = 1.0 if magnitude is None else magnitude.table(spec.dim)
    own = np.where(pair < 0, 0, step[function, pair])
    return ColumnWaves(
        pair, function, own, own * np.int64(start) + function * np.int64(QUARTER), amplitude
    )


Table = tuple[list[str], Any]


def matrix(front: str, places: Any, names: Any, values: np.ndarray) -> Table:
    """A matrix whose rows begin with their place."""
    return [front, *map(str, names)], (
        [place, *row] for place, row in zip(places, values, strict=True)
    )
