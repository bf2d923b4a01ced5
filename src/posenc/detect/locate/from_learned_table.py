"""The position of a row of a learned table: a comparison with each of its rows."""

from __future__ import annotations

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
    squares, off = np.empty(count), np.empty(count)
    block = max(1, BLOCK // max(1, spec.dim))
    for begin in range(0, count, block):
        some = np.arange(begin, min(count, begin + block))
        places = np.stack(np.unravel_index(some, limits), axis=-1) if len(limits) > 1 else some
        left = np.asarray(table(spec, places, params=params, dtype="float64")) - sample.values
        squares[some], off[some] = (left**2).sum(axis=1), np.abs(left).max(axis=1)
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
    names = [_name(limits, k) for k in chosen]
    rival = (_name(limits, rivals[0]), math.sqrt(squares[rivals[0]] / width)) if rivals else None
    expected = 2.0 ** -max(bits, 0.0)
    residual = math.sqrt(squares[best] / width)
    return (Fit((), spec, tuple(names), "all", expected, residual, bits, rival),)


def _name(limits: tuple[int, ...], index: int) -> Any:
    place = tuple(int(n) for n in np.unravel_index(index, limits))
    return place[0] if len(place) == 1 else place
