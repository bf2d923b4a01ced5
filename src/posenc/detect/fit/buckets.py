"""Logarithmic buckets of distances, solved from where biases change."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from posenc._core.errors import PosencError
from posenc.detect.fit.description_length import bits_of, roundest_within
from posenc.encodings.bias.t5 import T5

MOST_FITS = 6


class Buckets(NamedTuple):
    """Logarithmic buckets that share and part all distances as some biases do."""

    spec: T5
    least: int  # the largest distance may be from
    most: int  # to, and the distances given would be parted alike

    @property
    def bits(self) -> float:
        """Bits to state them."""
        return bits_of(self.spec.buckets) + bits_of(self.spec.max_distance)


def buckets_of(by_distance: np.ndarray, distances: np.ndarray) -> list[Buckets]:
    """The logarithmic buckets that biases follow, solved from where they change.

    Each bucket must hold a distance, as it does where D is at least three times E.

    In one direction E distances have a bucket each, and bucket E + j begins at the least n with

        n ** S >= D ** j * E ** (S - j)

    so each edge bounds the largest distance D from both sides, once E and S are assumed.
    """
    edges = (by_distance[:, 1:] != by_distance[:, :-1]).any(axis=0)
    # The distance into the past at which a bucket begins: between -n and -n + 1 lies an edge.
    begins = np.sort(-distances[:-1][edges & (distances[:-1] < 0)])
    reach = int(-distances[0])
    fits = []
    directions: tuple[Any, ...] = ("bidirectional", "causal")
    for direction in directions:
        each = 2 if direction == "bidirectional" else 1
        for side in range(2, min(2048 // each, 2 * reach) + 1):
            limits = _limits(begins, side, reach)
            if limits is None:
                continue
            middle = roundest_within(*limits) if limits[0] < limits[1] else None
            chosen = {round(middle)} if middle is not None else set()
            for length in sorted(chosen | {limits[0], limits[1]}, key=lambda n: n not in chosen):
                try:
                    spec = T5(
                        len(by_distance),
                        buckets=each * side,
                        max_distance=length,
                        direction=direction,
                    )
                except PosencError:
                    continue
                if ((np.diff(spec.bucket(distances)) != 0) == edges).all():
                    fits.append(Buckets(spec, *limits))
                    break
    return sorted(fits, key=lambda fit: fit.bits)[:MOST_FITS]


def _limits(begins: np.ndarray, side: int, reach: int) -> tuple[int, int] | None:
    """The largest distances D, from and to, with which `side` buckets begin as they are seen."""
    exact = side // 2
    steps = side - exact
    seen = len(begins)
    if exact < 1 or not exact <= seen < side or begins[exact - 1] != exact:
        return None
    j = np.arange(1, steps)
    last = min(seen - exact, steps - 1)  # edges above the exact ones
    n = np.append(begins[exact : exact + last], [reach + 1] * (last < steps - 1)).astype(float)
    j = j[: len(n)]
    if not len(j):  # two buckets: any distance does
        return exact + 1, exact + 1
    level = (steps - j) * math.log(exact)
    with np.errstate(divide="ignore"):
        low = (steps * np.log(n - 1) - level) / j
        high = (steps * np.log(n) - level) / j
    if last < steps - 1:
        high[-1] = math.inf  # the next one lies beyond what is seen
    least = max(float(low.max()), math.log(exact))
    most = min(float(high.min()), 31 * math.log(2))
    if least > most + 1e-12 or most > 30 * math.log(2):
        return None
    first, end = (
        math.floor(math.exp(least) * (1 - 1e-12)) + 1,
        math.floor(math.exp(most) * (1 + 1e-12)),
    )
    return (first, end) if first <= end else None
