"""How a table is laid out: columns that are sine and cosine of one phase, and positions of rows.

A sine and a cosine of one phase have squares that add up to a constant in every row. That is cheap
to test and hard to meet by accident, so it comes first: whatever fails it is no sinusoidal table.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np

SAMPLE = 96  # rows that the first test looks at
MOST_PARTNERS = 6
MOST_TRIED = 48  # constant columns would let every cut pass
MOST_BLOCKS = 8
MOST_AXES = 4
FLOAT32 = 2.0**-24
MOVED = 2.0**-6  # radians; coarser than the rounding of bfloat16
# Names of axes from the slowest to the fastest along the rows.
AXES = {1: ("position",), 2: ("h", "w"), 3: ("t", "h", "w"), 4: ("a", "b", "c", "d")}


Order = Literal["interleaved", "sin_cos", "cos_sin"]


class Placement(NamedTuple):
    """Which position each row of a table belongs to.

    Row i is place `i // stride % size` of each axis, at position `start + step * place`, times the
    unit of the axis where there are units. The first `prefix` rows, such as that of a class token,
    have the coordinates -1.
    """

    axes: tuple[str, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    starts: tuple[float, ...]
    step: int = 1
    prefix: int = 0
    units: tuple[float, ...] = ()  # of each axis, where coordinates are real

    def positions(self, begin: int, end: int) -> np.ndarray:
        """Positions of the rows `begin` to `end`: (rows,), or (rows, axes)."""
        i = np.arange(begin, end) - self.prefix
        whole = all(start == int(start) for start in self.starts)
        slowest = int(np.argmax(self.strides))
        columns = []
        for axis, (size, stride, start) in enumerate(
            zip(self.sizes, self.strides, self.starts, strict=True)
        ):
            # Along the slowest axis a table may go on.
            column = self.step * (i // stride if axis == slowest else i // stride % size) + (
                int(start) if whole else start
            )
            columns.append(np.where(i < 0, -1, column * (self.units[axis] if self.units else 1)))
        return columns[0] if len(columns) == 1 else np.stack(columns, axis=-1)

    def to_dict(self) -> dict[str, object]:
        """The same in plain JSON types: a run of positions, or a grid."""
        if len(self.axes) == 1:
            fields = {"first": self.starts[0], "step": self.step, "count": self.sizes[0]}
            return {**fields, **({"unit": self.units[0]} if self.units else {})}
        return {
            "sizes": dict(zip(self.axes, self.sizes, strict=True)),
            "start": self.starts[0] if len(set(self.starts)) == 1 else list(self.starts),
            "prefix": self.prefix,
            **({"units": list(self.units)} if self.units else {}),
        }

    @property
    def rows(self) -> int:
        """Number of rows that were looked at."""
        return self.prefix + math.prod(self.sizes)

    def words(self) -> str:
        """The same for people."""
        sizes = " x ".join(map(str, self.sizes))
        if self.units:
            ends = [
                f"{name} from {unit * start:.6g} to {unit * (start + self.step * (size - 1)):.6g}"
                for name, size, start, unit in zip(
                    self.axes, self.sizes, self.starts, self.units, strict=True
                )
            ]
            return f"a grid of {sizes} coordinates: {', '.join(ends)}"
        if len(self.axes) == 1:
            first, last = self.starts[0], self.starts[0] + self.step * (self.sizes[0] - 1)
            return f"positions {first:.12g} to {last:.12g}, a row each"
        starts = ", ".join(f"{start:g}" for start in dict.fromkeys(self.starts))
        start = f", counted from {starts}" if any(self.starts) else ""
        rows = f"{self.prefix} row{'s' if self.prefix > 1 else ''}"
        before = f", after {rows} of zeros" if self.prefix else ""
        return f"a grid of {sizes} ({', '.join(self.axes)}), the last axis fastest{start}{before}"


class TableLayout(NamedTuple):
    """Columns by pairs and by axes."""

    order: Order
    blocks: Literal["all", "axis"]  # whether an axis has channels of its own, or a share of halves
    sines: tuple[np.ndarray, ...]  # for each axis, a column for each pair
    cosines: tuple[np.ndarray, ...]
    lone: int | None  # the column of a sine that has no cosine
    short: int  # pairs that the last axis lacks

    @property
    def several(self) -> bool:
        """Whether positions have more than one coordinate."""
        return len(self.sines) > 1


class AxisGrid(NamedTuple):
    """Row i belongs to place `i // stride % places` of an axis."""

    stride: int
    places: int
    rows: np.ndarray  # (places,), a row for each


def circle_tolerance(eps: float) -> float:
    """The most by which the sum of two rounded squares may differ from 1, both ways."""
    return 3 * eps + 6 * FLOAT32


def layouts(table: np.ndarray, eps: float) -> Iterator[TableLayout]:
    """The layouts under which every pair lies on one circle, plain ones first."""
    squares = (
        table[np.unique(np.linspace(0, len(table) - 1, min(len(table), SAMPLE)).astype(int))] ** 2
    )
    columns = table.shape[1]
    even = 2 * np.arange(columns // 2)
    if len(even) and _on_circle(squares, even, even + 1, eps):
        yield from _dealt(
            "interleaved", table, even, even + 1, columns - 1 if columns % 2 else None
        )
    for first, second, lone in _halves(squares, eps):
        if not all(_on_circle(squares, a, b, eps) for a, b in zip(first, second, strict=True)):
            continue
        ways: list[tuple[Order, Blocks, Blocks]] = [("sin_cos", first, second)]
        for name, sines, cosines in [*ways, ("cos_sin", second, first)]:
            if len(first) > 1 or lone is not None:
                yield TableLayout(name, "axis", tuple(sines), tuple(cosines), lone, 0)
            else:
                yield from _dealt(name, table, sines[0], cosines[0], lone)


Blocks = list[np.ndarray]
Pairs = tuple[Blocks, Blocks, int | None]


def _dealt(
    order: Order, table: np.ndarray, sines: np.ndarray, cosines: np.ndarray, lone: int | None
) -> Iterator[TableLayout]:
    """One block as one axis, or dealt to several: in equal shares, then in shares of any size."""
    for cuts, short in itertools.chain(
        _equal(order, len(sines), table.shape[1]),
        _unequal(table, sines, cosines) if lone is None else (),
    ):
        yield TableLayout(
            order,
            "axis" if order == "interleaved" else "all",
            tuple(np.split(sines, cuts)),
            tuple(np.split(cosines, cuts)),
            lone,
            short,
        )


def _equal(order: Order, pairs: int, columns: int) -> Iterator[tuple[Any, int]]:
    """Where to cut between axes, and how many pairs the last one lacks."""
    yield [], 0
    for axes in range(2, MOST_AXES + 1):
        share = -(-columns // (2 * axes))
        short = axes * share - pairs
        cuts = [min(share * a, pairs) for a in range(1, axes)]
        fits = not short or (short < share and order == "interleaved")
        if fits and min(np.diff([0, *cuts, pairs])) >= 1:
            yield cuts, short


def _unequal(
    table: np.ndarray, sines: np.ndarray, cosines: np.ndarray
) -> Iterator[tuple[Any, int]]:
    """The same for unequal shares.

    Each axis begins with a pair as fast as the very first, where the pair before it is slow.
    """
    z = table[:, cosines] + 1j * table[:, sines]
    # The first row in which a pair has moved.
    step = (np.abs(z - z[0]) > MOVED * np.abs(z[0])).argmax(axis=0)
    angle = np.abs(np.angle(z[step, np.arange(len(sines))] * z[0].conj()))
    fast = np.abs(angle - angle[0]) <= MOVED
    cuts = np.flatnonzero(fast[1:] & ~fast[:-1]) + 1
    if 0 < len(cuts) < MOST_AXES and len({*np.diff([0, *cuts, len(sines)]).tolist()}) > 1:
        yield cuts, 0


def _halves(squares: np.ndarray, eps: float) -> Iterator[Pairs]:
    """Blocks of two halves each, found by the column that completes the first one's squares."""
    half, odd = divmod(squares.shape[1], 2)
    if odd:
        # The longer half holds the sine without a cosine.
        j = np.arange(half)
        yield [j], [j + half + 1], half  # sines first
        yield [j], [j + half], 2 * half  # cosines first
        return
    yield from _blocks(squares, eps, [], [], [MOST_TRIED])


def _blocks(
    squares: np.ndarray,
    eps: float,
    first: list[np.ndarray],
    second: list[np.ndarray],
    left: list[int],
) -> Iterator[Pairs]:
    """Ways to cut the columns after those blocks into more; `left` counts the steps allowed."""
    columns = squares.shape[1]
    begin = 2 * sum(map(len, first))
    left[0] -= 1
    if begin == columns:
        yield list(first), list(second), None
    if begin == columns or len(first) == MOST_BLOCKS or left[0] < 0:
        return
    rest = columns - begin
    likely = [rest // 2, *(len(block) for block in first[-1:])]
    likely += [rest // (2 * k) for k in (2, 3, 4) if rest % (2 * k) == 0]
    sums = squares[:, begin : begin + 1] + squares[:, begin:]
    most, least = sums.max(axis=0), sums.min(axis=0)
    fits = most - least <= 2 * circle_tolerance(eps) * np.maximum(most, 1e-300)
    every = (int(h) for h in [*likely, *(np.flatnonzero(fits[1 : rest // 2 + 1]) + 1)])
    halves = (
        np.arange(begin, begin + h)
        for h in dict.fromkeys(every)
        if h >= 1 and 2 * h <= rest and fits[h]
    )
    partners = ((j, j + len(j)) for j in halves if _on_circle(squares, j, j + len(j), eps))
    for one, other in itertools.islice(partners, MOST_PARTNERS):
        yield from _blocks(squares, eps, [*first, one], [*second, other], left)


def _on_circle(squares: np.ndarray, a: np.ndarray, b: np.ndarray, eps: float) -> bool:
    sums = squares[:, a] + squares[:, b]
    most, least = sums.max(), sums.min()
    return bool(most - least <= 2 * circle_tolerance(eps) * most) and most > 0


def fills(grids: list[AxisGrid], rows: int) -> bool:
    """Whether axes are those of one grid over all rows: each repeats as the faster ones end."""
    ordered = sorted(grids, key=lambda grid: grid.stride)
    return [*(grid.stride for grid in ordered), rows] == [
        *itertools.accumulate((grid.places for grid in ordered), operator.mul, initial=1)
    ]


def grid_of(z: np.ndarray, eps: float) -> AxisGrid | None:
    """How the rows of one axis repeat: each place `stride` times, all places over and over."""
    count = len(z)
    alike = np.abs(z - z[0]).max(axis=1) <= 2 * eps + 8 * FLOAT32
    if alike.all():
        return None
    stride = int(np.argmin(alike))
    if count % stride:
        return None
    for places in [
        *(int(a) + 1 for a in np.flatnonzero(alike[stride::stride])[:4]),
        count // stride,
    ]:
        rows = np.arange(places) * stride
        if (
            np.abs(z - z[rows[(np.arange(count) // stride) % places]]).max()
            <= 4 * eps + 16 * FLOAT32
        ):
            return AxisGrid(stride, places, rows)
    return None
