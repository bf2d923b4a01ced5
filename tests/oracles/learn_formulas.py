"""The formulas of the papers that lessons speak of, as plain loops; posenc is never imported."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

TAU = 2 * math.pi


def frequency(i: int, d: int, n: float = 10_000.0) -> float:
    return n ** (-2 * i / d)


def wavelength(i: int, d: int, n: float = 10_000.0) -> float:
    return TAU / frequency(i, d, n)


def wavelengths(d: int, n: float = 10_000.0) -> list[float]:
    return [wavelength(i, d, n) for i in range(d // 2)]


def entry(p: int, j: int, d: int, n: float = 10_000.0) -> float:
    angle = p * frequency(j // 2, d, n)
    return math.cos(angle) if j % 2 else math.sin(angle)


def row(p: int, d: int, n: float = 10_000.0) -> list[float]:
    return [entry(p, j, d, n) for j in range(d)]


def table(length: int, d: int, n: float = 10_000.0) -> np.ndarray:
    return np.array([row(p, d, n) for p in range(length)])


def similarity(k: int, d: int, n: float = 10_000.0) -> float:
    return math.fsum(math.cos(k * frequency(i, d, n)) for i in range(d // 2))


def attend(x: np.ndarray) -> np.ndarray:
    mixed = []
    for query in x:
        weights = [math.exp(sum(query * key) / math.sqrt(len(query))) for key in x]
        mixed.append(sum(w * key for w, key in zip(weights, x, strict=True)) / sum(weights))
    return np.array(mixed)


def slope(head: int, heads: int) -> float:
    """Of head 1, 2, …; heads a power of two."""
    return 2.0 ** (-8 * head / heads)


def t5_bucket(distance: int, buckets: int, most: int) -> int:
    """The bucket of a key so far back, of a decoder."""
    exact = buckets // 2
    if distance < exact:
        return distance
    part = math.log(distance / exact) / math.log(most / exact)
    return min(buckets - 1, exact + int(part * (buckets - exact)))


def yarn(d: int, n: float, factor: float, length: int, ramp: str) -> list[float]:
    """By how much each pair is slowed."""
    slowed = []

    def index(turns: float) -> float:
        return d * math.log(length / (turns * TAU)) / (2 * math.log(n))

    low, high = max(math.floor(index(32)), 0), min(math.ceil(index(1)), d - 1)
    for i in range(d // 2):
        if ramp == "turns":
            turns = length / wavelength(i, d, n)
            share = 1 - min(max((turns - 1) / (32 - 1), 0), 1)
        else:
            share = min(max((i - low) / (high - low), 0), 1)
        slowed.append(1 / (1 - share + share / factor))
    return slowed


def bfloat16(x: np.ndarray) -> np.ndarray:
    bits = x.astype(np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def collision(d: int, n: float, dtype: str, limit: int = 200_000) -> tuple[int, int]:
    """The first row that repeats an earlier one once rounded, and which one it repeats."""
    angles = np.arange(limit)[:, None] * np.array([frequency(i, d, n) for i in range(d // 2)])
    rows = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    rounded = bfloat16(rows) if dtype == "bfloat16" else rows.astype(np.float16).view(np.uint16)
    seen: dict[bytes, int] = {}
    for p, key in enumerate(map(bytes, rounded)):
        if key in seen:
            return seen[key], p
        seen[key] = p
    raise AssertionError("every row is distinct")


def matching(values: Mapping[int, str], d: int, n: float, limit: int, digits: int) -> list[int]:
    """Positions from 0 to the limit whose entries print as these."""
    return [
        p
        for p in range(limit + 1)
        if all(f"{entry(p, j, d, n):.{digits}f}" == text for j, text in values.items())
    ]


def only(found: list[int]) -> int:
    assert len(found) == 1, found
    return found[0]
