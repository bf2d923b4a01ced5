"""Which columns of a table are the sine and the cosine of one phase, and how its rows repeat.

A sine and a cosine of one phase have squares that add up to a constant in every row. That is cheap
to test and hard to meet by accident, so it comes first: whatever fails it is no sinusoidal table.
"""

from __future__ import annotations

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


Order = Literal["interleaved", "sin_cos", "cos_sin"]


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
    rows = np.unique(np.linspace(0, len(table) - 1, min(len(table), SAMPLE)).astype(int))
    squares = table[rows] ** 2
    columns = table.shape[1]
    even = 2 * np.arange(columns // 2)
    if len(even) and _on_circle(squares, even, even + 1, eps):
        last = columns - 1 if columns % 2 else None
        yield from _split("interleaved", even, even + 1, last, columns)
        yield from _unequal("interleaved", table, even, even + 1, last)
    for first, second, lone in _halves(squares, eps):
        if not all(_on_circle(squares, a, b, eps) for a, b in zip(first, second, strict=True)):
            continue
        ways: list[tuple[Order, Blocks, Blocks]] = [("sin_cos", first, second)]
        for name, sines, cosines in [*ways, ("cos_sin", second, first)]:
            if len(first) > 1 or lone is not None:
                yield TableLayout(name, "axis", tuple(sines), tuple(cosines), lone, 0)
            else:
                yield from _split(name, sines[0], cosines[0], lone, columns)
                yield from _unequal(name, table, sines[0], cosines[0], lone)


Blocks = list[np.ndarray]
Pairs = tuple[Blocks, Blocks, int | None]


def _split(
    order: Order,
    sines: np.ndarray,
    cosines: np.ndarray,
    lone: int | None,
    columns: int,
) -> Iterator[TableLayout]:
    """One block as one axis, or dealt to several in equal shares."""
    pairs = len(sines)
    for axes in range(1, MOST_AXES + 1):
        share = -(-columns // (2 * axes)) if axes > 1 else pairs
        short = axes * share - pairs
        if axes > 1 and (short >= share or (short and order != "interleaved")):
            continue
        cuts = [min(share * a, pairs) for a in range(1, axes)]
        if min(np.diff([0, *cuts, pairs])) < 1:
            continue
        yield _dealt(order, sines, cosines, cuts, lone, short if axes > 1 else 0)


def _unequal(
    order: Order,
    table: np.ndarray,
    sines: np.ndarray,
    cosines: np.ndarray,
    lone: int | None,
) -> Iterator[TableLayout]:
    """One block dealt to several axes in shares of any size.

    Each axis begins with a pair as fast as the very first, where the pair before it is slow.
    """
    z = table[:, cosines] + 1j * table[:, sines]
    moved = np.abs(z - z[0]) > MOVED * np.abs(z[0])
    step = moved.argmax(axis=0)  # the first row in which a pair has moved
    angle = np.abs(np.angle(z[step, np.arange(len(sines))] * z[0].conj()))
    fast = np.abs(angle - angle[0]) <= MOVED
    cuts = np.flatnonzero(fast[1:] & ~fast[:-1]) + 1
    shares = np.diff([0, *cuts, len(sines)])
    if lone is None and 0 < len(cuts) < MOST_AXES and len(set(shares.tolist())) > 1:
        yield _dealt(order, sines, cosines, cuts, None, 0)


def _dealt(
    order: Order,
    sines: np.ndarray,
    cosines: np.ndarray,
    cuts: Any,
    lone: int | None,
    short: int,
) -> TableLayout:
    """One block with cuts between its axes."""
    blocks: Literal["all", "axis"] = "axis" if order == "interleaved" else "all"
    parts = tuple(np.split(sines, cuts)), tuple(np.split(cosines, cuts))
    return TableLayout(order, blocks, *parts, lone, short)


def _halves(squares: np.ndarray, eps: float) -> Iterator[Pairs]:
    """Blocks of two halves each, found by the column that completes the first one's squares."""
    columns = squares.shape[1]
    half = columns // 2
    if columns % 2:
        # The longer half holds the sine without a cosine.
        j = np.arange(half)
        yield [j], [j + half + 1], half  # sines first
        yield [j], [j + half], columns - 1  # cosines first
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
        return
    if len(first) == MOST_BLOCKS or left[0] < 0:
        return
    tried = 0
    rest = columns - begin
    likely = [rest // 2, *(len(block) for block in first[-1:])]
    likely += [rest // (2 * k) for k in (2, 3, 4) if rest % (2 * k) == 0]
    sums = squares[:, begin : begin + 1] + squares[:, begin:]
    spread = sums.max(axis=0) - sums.min(axis=0)
    fits = spread <= 2 * circle_tolerance(eps) * np.maximum(sums.max(axis=0), 1e-300)
    others = [h for h in np.flatnonzero(fits[1 : rest // 2 + 1]) + 1 if h not in likely]
    for h in dict.fromkeys(int(h) for h in [*likely, *others]):
        if h < 1 or 2 * h > rest or not fits[h]:
            continue
        j = np.arange(begin, begin + h)
        if not _on_circle(squares, j, j + h, eps):
            continue
        tried += 1
        yield from _blocks(squares, eps, [*first, j], [*second, j + h], left)
        if tried == MOST_PARTNERS:
            return


def _on_circle(squares: np.ndarray, a: np.ndarray, b: np.ndarray, eps: float) -> bool:
    sums = squares[:, a] + squares[:, b]
    most, least = sums.max(), sums.min()
    return bool(most - least <= 2 * circle_tolerance(eps) * most) and most > 0


def fills(grids: list[AxisGrid], rows: int) -> bool:
    """Whether axes are those of one grid over all rows: each repeats as the faster ones end."""
    stride = 1
    for grid in sorted(grids, key=lambda grid: grid.stride):
        if grid.stride != stride:
            return False
        stride *= grid.places
    return stride == rows


def grid_of(z: np.ndarray, eps: float) -> AxisGrid | None:
    """How the rows of one axis repeat: each place `stride` times, all places over and over."""
    count = len(z)
    alike = np.abs(z - z[0]).max(axis=1) <= 2 * eps + 8 * FLOAT32
    if alike.all():
        return None
    stride = int(np.argmin(alike))
    if count % stride:
        return None
    again = np.flatnonzero(alike[stride::stride])
    for places in [*(int(a) + 1 for a in again[:4]), count // stride]:
        rows = np.arange(places) * stride
        first_rows = rows[(np.arange(count) // stride) % places]
        if np.abs(z - z[first_rows]).max() <= 4 * eps + 16 * FLOAT32:
            return AxisGrid(stride, places, rows)
    return None
