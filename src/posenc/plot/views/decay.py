"""Decay: how the scores of a rotation depend on distance, expected and at worst."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc._core.errors import ArgumentError, SpecError, mismatch
from posenc.functional import frequencies
from posenc.plot.columns import settled

FARTHEST = 131_072
EACH = 64  # distances that are computed for a point of the curves


@dataclass(frozen=True)
class RotaryDecay:
    """Scores by distance, over the expected score of a key that is the query, at distance 0."""

    distances: np.ndarray
    same: np.ndarray
    same_spread: np.ndarray
    other_spread: float
    bound: np.ndarray
    trained: int | None
    declared: int | None


def data(
    spec: Any,
    *,
    farthest: int = FARTHEST,
    points: int = 96,
    length: int | None = None,
    declared: int | None = None,
) -> RotaryDecay:
    """What remains of a score at a distance.

        q = k = x, x ~ N(0, 1):   mean  sum cos(m f_i) / P     spread  sqrt(sum cos(m f_i)^2) / P
        q, k independent:         mean  0                      spread  1 / sqrt(2 P)
        worst case:               sum |S_i| / (P (P + 1) / 2)  S_i = sum of e^(i m f_j), j <= i

    for P pairs of frequencies f. The last is the factor that bounds a score in Su et al. 2021,
    arXiv:2104.09864, section 3.4.3; it says how large a score can be, not how large one is.
    """
    if farthest < 2 or points < 2:
        received = f"{farthest} and {points}"
        raise ArgumentError(mismatch("plot decay", "a distance and points from 2", received))
    if spec.kind == "rotary" and spec.sided:
        expected = "a rotation that turns queries and keys alike"
        raise SpecError(mismatch("plot decay", expected, type(spec).__name__))
    own = next((s for s in getattr(spec, "scalings", ()) if s.stretches), None)
    trained = getattr(own, "original_length", None)
    f = np.abs(frequencies(settled(spec, length or farthest)))
    pairs = len(f)
    edges = np.unique(np.rint(np.geomspace(1, farthest + 1, points + 1)).astype(np.int64))
    curves = []
    for first, end in itertools.pairwise(edges.tolist()):
        m = np.unique(np.linspace(first, end - 1, EACH).astype(np.int64))
        waves = np.exp(1j * m[:, None] * f)
        same = waves.real.mean(axis=1)
        spread = (waves.real**2).sum(axis=1) / pairs**2
        sums = np.abs(waves.cumsum(axis=1)).sum(axis=1) / (pairs * (pairs + 1) / 2)
        total = np.sqrt(spread.mean() + same.var())
        curves.append(((first + end - 1) / 2, same.mean(), total, sums.mean()))
    at, mean, total, bound = np.array(curves).T
    return RotaryDecay(at, mean, total, float((2 * pairs) ** -0.5), bound, trained, declared)
