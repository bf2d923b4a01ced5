"""The position of a row of a learned table: a comparison with each of its rows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from posenc._core.errors import ArgumentError, mismatch
from posenc.detect.locate.from_vector import CLAIM
from posenc.detect.locate.result import Fit
from posenc.detect.locate.vector_problem import Sample
from posenc.functional import table

MOST_ROWS = 1 << 20
BLOCK = 1 << 22  # numbers at a time


def search(spec: Any, sample: Sample, params: Mapping[str, Any]) -> tuple[Fit, ...]:
    """The rows that are the vector, or the nearest one where noise leaves no doubt."""
    limits = spec.limits
    count = math.prod(limits)
    if count > MOST_ROWS:
        caller = f"locate({type(spec).__name__})"
        raise ArgumentError(mismatch(caller, f"at most {MOST_ROWS} rows", count))
    block = max(1, BLOCK // max(1, spec.dim))
    squares, off = np.empty(count), np.empty(count)
    for begin in range(0, count, block):
        end = min(count, begin + block)
        rows = table(spec, _places(limits, begin, end), params=params, dtype="float64")
        left = np.asarray(rows) - sample.values
        squares[begin:end], off[begin:end] = (left**2).sum(axis=1), np.abs(left).max(axis=1)
    largest = max(sample.size, float(np.sqrt(np.mean(sample.values**2))))
    tolerance = (sample.tolerance - 1.5e-7) * largest + 1e-12
    order = np.argsort(squares, kind="stable")
    exact = [int(k) for k in order[:1000] if off[k] <= tolerance]
    chosen = exact or [int(order[0])]
    rivals = [int(k) for k in order[:1001] if int(k) not in set(chosen)]
    best, width = chosen[0], sample.values.size
    bits = 1000.0
    if rivals:
        ratio = squares[rivals[0]] / max(squares[best], 1e-30)
        bits = min(width / 2 * math.log2(max(ratio, 1.0)), 1000.0) - math.log2(count)
    if not exact and bits < CLAIM:
        return ()
    places = [_name(limits, k) for k in chosen]
    rival = (_name(limits, rivals[0]), math.sqrt(squares[rivals[0]] / width)) if rivals else None
    expected = 2.0 ** -max(bits, 0.0)
    return (
        Fit(
            (), spec, tuple(places), "all", expected, math.sqrt(squares[best] / width), bits, rival
        ),
    )


def _places(limits: tuple[int, ...], begin: int, end: int) -> np.ndarray:
    index = np.arange(begin, end)
    if len(limits) == 1:
        return index
    return np.stack(np.unravel_index(index, limits), axis=-1)


def _name(limits: tuple[int, ...], index: int) -> Any:
    place = tuple(int(n) for n in np.unravel_index(index, limits))
    return place[0] if len(place) == 1 else place


def values(
    spec: Any, params: Mapping[str, Any], dimension: int, low: float, high: float
) -> list[Any]:
    """The positions whose entry at a dimension lies between two values."""
    limits = spec.limits
    count = math.prod(limits)
    positions: list[Any] = []
    block = max(1, BLOCK // max(1, spec.dim))
    for begin in range(0, count, block):
        end = min(count, begin + block)
        rows = table(spec, _places(limits, begin, end), params=params, dtype="float64")
        entry = np.asarray(rows)[:, dimension]
        hits = np.flatnonzero((entry >= low) & (entry <= high)) + begin
        positions += [_name(limits, int(k)) for k in itertools.islice(hits, 1000)]
    return positions
