"""The laws of tables and of biases, from their numbers alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc.testing.lab import (
    EPSILONS,
    FAR,
    FAR_PLACES,
    LONG,
    Broken,
    Found,
    Lab,
    along_first,
    broken_where,
    exact,
    largest,
    law,
    places_of,
)
from posenc.testing.subject import not_offered_where


@law("distinct", "no two positions below 256 share a row", "table")
def distinct(lab: Lab) -> Found:
    """Otherwise a model cannot tell them apart."""
    places = places_of(lab, 256)
    rows = lab.rows(places)
    away = np.linalg.norm(rows[:, None] - rows[None], axis=-1)
    cells = places if lab.subject.places is None else lab.subject.places[places]
    away[(cells[:, None] == cells[None]).reshape(*away.shape, -1).all(axis=-1)] = np.inf
    i, j = np.unravel_index(int(np.argmin(away)), away.shape)
    nearest, least = float(away[i, j]), 1e-6 * max(1e-30, largest(rows))
    pair = [places[k].tolist() for k in (i, j)]
    says = "positions {} and {} have one row".format(*pair)
    broken_where(nearest <= least, says, {"positions": pair}, nearest, least)
    return nearest, least


@law("history", "an answer does not depend on the calls before it", "table")
def history_table(lab: Lab) -> Found:
    """Short, long, short again."""
    target, few = lab.subject.build(), places_of(lab, 8)

    def ask() -> np.ndarray:
        return lab.rows(few, target=target)

    def other(many: int) -> np.ndarray:
        return lab.rows(places_of(lab, many), target=target)

    counts = (300,) if lab.subject.axes > 1 else (300, *reversed(LONG))
    calls = "8 positions, {} positions, 8 positions"
    return lab.unmoved(ask(), ask, other, counts, calls, least=300)


@law("long", "rows of a long sequence are those of their positions alone, up to 133,000", "table")
def long_table(lab: Lab) -> Found:
    """Rows differ from those before, too: an end that is held or wrapped is seen."""

    def ask(places: np.ndarray) -> np.ndarray:
        return lab.rows(along_first(places, lab.subject.axes))

    length, whole = lab.longest(lambda n: ask(np.arange(n)), LONG)
    bound = 1e-6 * largest(whole)
    worst = (0.0, bound)
    for power in range(8, length.bit_length()):
        places = np.arange(2**power - 2, min(2**power + 3, length))
        worst = max(worst, lab.same(ask(places), whole[places], bound, positions=places))
    steps = np.linalg.norm(np.diff(whole, axis=0), axis=1)
    still = int(np.argmin(steps))
    least, case = float(steps[still]), {"length": length}
    says = f"positions {still} and {still + 1} have one row"
    broken_where(least <= bound, says, case, least, bound)
    for power in range(8, length.bit_length() - 1):
        away = largest(np.linalg.norm(whole[2**power : 2**power + 64] - whole[:64], axis=1))
        says = f"positions from {2**power} have the rows of those from 0"
        broken_where(bound and away <= bound, says, case, away, bound)
    return worst


@law("history of dtypes", "half precision first leaves later float32 exact", "table")
def history_of_dtypes_table(lab: Lab) -> Found:
    """A table cached for a half-precision call must not serve float32."""
    target, places = lab.subject.build(), places_of(lab, 300)
    lab.rows(places, dtype="bfloat16", target=target)
    after = lab.rows(places, target=target)
    fresh = lab.rows(places, target=lab.subject.build())
    return lab.same(after, fresh, 1e-6 * largest(fresh), calls="bfloat16, then float32")


@law("axes", "every axis of a grid leaves its mark", "table")
def axes(lab: Lab) -> Found:
    """A step along any one axis changes the row; widths 2, 4, 6, 8, 12 and the asked one."""
    count = lab.subject.axes
    not_offered_where(count == 1, "positions have one axis")
    worst = np.inf
    for dim in (lab.subject.dim, 12, 8, 6, 4, 2):
        bench = lab if dim == lab.subject.dim else lab.at(dim=dim)
        try:
            origin = bench.rows(np.zeros((1, count)))
            stepped = [bench.rows(np.eye(count, dtype=np.int64)[a : a + 1]) for a in range(count)]
        except Broken:
            raise
        except Exception:  # noqa: BLE001, S112
            continue  # a width that is refused loses nothing
        for axis, rows in enumerate(stepped):
            away = largest(rows - origin)
            says = f"a step along axis {axis} of {count} changes nothing at width {dim}"
            broken_where(away < 1e-6, says, {"dim": dim, "axis": axis}, away, 1e-6)
            worst = min(worst, away)
    return worst, 1e-6


@law("grid", "a cell has one row, whatever the size of the grid around it", "table")
def grid(lab: Lab) -> Found:
    """Cells of a 3 by 5 grid, alone and inside a larger one that is wider than high."""
    not_offered_where(lab.subject.axes == 1, "positions have one axis")
    small = places_of(lab, 0)
    inside = lab.rows(np.concatenate([small, [[4] + [9] * (lab.subject.axes - 1)]]))[:-1]
    return lab.same(lab.rows(small), inside, 1e-6 * largest(inside), cells=small)


def _far_table(power: str) -> Any:
    def check(lab: Lab) -> Found:
        """Against the named spec."""
        not_offered_where(lab.subject.axes > 1, "a grid of that size is not built")
        places = FAR_PLACES[power] + np.arange(-5, -1)
        expected = lab.truth(places)
        return lab.same(lab.rows(places), expected, FAR * largest(expected), positions=places)

    return check


for _power in FAR_PLACES:
    law(f"near {_power}", f"below {_power}, exact to within 2^-7", "table", refusable=True)(
        _far_table(_power)
    )


def _half_table(dtype: str) -> Any:
    def check(lab: Lab) -> Found:
        """Within one rounding of what float32 gives."""
        places = places_of(lab, 1000)
        expected = exact(lab, places)
        received, bound = lab.rows(places, dtype=dtype), EPSILONS[dtype] * largest(expected)
        return lab.same(received, expected, bound, positions=places, dtype=dtype)

    return check


for _dtype in ("bfloat16", "float16"):
    law(_dtype, f"{_dtype} costs its own rounding, no more", "table")(_half_table(_dtype))


@law("odd width", "an odd width is filled or refused", "table", refusable=True)
def odd_table(lab: Lab) -> Found:
    """No position may lose its mark."""
    return distinct(lab.at(dim=lab.subject.dim + 1 - lab.subject.dim % 2))


# --- biases ---------------------------------------------------------------------------------------


@law("shift", "a bias depends on the distance alone", "bias")
def shift_bias(lab: Lab) -> Found:
    """b(m + s, n + s) = b(m, n)."""
    whole = lab.bias(np.arange(120), np.arange(120))
    return lab.same(whole[:, 100:, 100:], whole[:, :20, :20], 1e-6 * largest(whole), shift=100)


@law("history", "an answer does not depend on the calls before it", "bias")
def history_bias(lab: Lab) -> Found:
    """Short, long, short again."""
    target, few = lab.subject.build(), np.arange(6)

    def ask() -> np.ndarray:
        return lab.bias(few, few, target=target)

    def other(many: int) -> None:
        keys = np.arange(many)
        lab.bias(keys if many < 1000 else keys[-1:], keys, target=target)

    calls = "6 tokens, {} tokens, 6 tokens"
    return lab.unmoved(ask(), ask, other, (40, 700, 133_000), calls, least=40)


@law("long", "the bias of the last query of up to 133,000 tokens is that of its distances", "bias")
def long_bias(lab: Lab) -> Found:
    """A row of a short sequence is the end of that of a long one."""
    short = np.arange(60)
    expected = lab.bias(short[-1:], short)

    def ask(length: int) -> np.ndarray:
        keys = np.arange(length)
        return lab.bias(keys[-1:], keys)

    length, received = lab.longest(ask, LONG)
    # A bias that counts keys, as a causal softmax allows, differs by a number for each head.
    last = received[..., -60:] - (received[..., -1:] - expected[..., -1:])
    bound = 1e-6 * max(1.0, largest(expected), largest(received))
    return lab.same(last, expected, bound, length=length)


@law("rows", "each row of a batch has positions of its own", "bias", refusable=True)
def rows_bias(lab: Lab) -> Found:
    """As with left padding."""
    # As many rows as tokens would let code that takes one row answer in this shape.
    q = np.array([[0, 1, 2, 5, 9], [7, 8, 9, 0, 0]])
    received = lab.bias(q, q)
    alone = np.stack([lab.bias(row, row) for row in q])
    return lab.same(received, alone, 1e-6 * largest(alone), positions=q)


@law("head counts", "1, 2, 3, 8, 12, 20 and 71 heads have the slopes of the spec", "bias")
def head_counts(lab: Lab) -> Found:
    """Counts that are no power of two are where recipes differ."""
    places, worst = np.arange(9), (0.0, 0.0)
    for count in (1, 2, 3, 8, 12, 20, 71):
        bench = lab.at(heads=count)
        expected = bench.truth(places, places)
        bound = 1e-6 * max(1.0, largest(expected))
        worst = max(worst, bench.same(bench.bias(places, places), expected, bound, heads=count))
    return worst
