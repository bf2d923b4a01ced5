"""Relative encodings from the papers, one score at a time: plain lists, and nothing of posenc.

Each function takes the vectors q, k of one query and key, their positions m, n, the head h, and the
parameters as nested lists.
"""

from __future__ import annotations

import math
from fractions import Fraction


def dot(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def clipped(r: int, first: int, last: int) -> int:
    return max(first, min(last, r)) - first


def shaw(q, k, m, n, h, w, first, last, *, sign=1, outside="clamp", both=False):
    r = sign * (n - m)
    if outside == "zero" and not first <= r <= last:
        return 0.0
    vector = w["keys"][clipped(r, first, last)]
    return dot(q, vector) + (dot(k, vector) if both else 0.0)


def music(q, k, m, n, h, w, length):
    return 0.0 if n > m else dot(q, w["weight"][h][n - m + length - 1])


def sinusoid(r: int, width: int, base: float, interleaved: bool) -> list[float]:
    import mpmath

    with mpmath.workdps(40):
        angles = [r * mpmath.mpf(base) ** (-mpmath.mpf(2 * j) / width) for j in range(width // 2)]
        sines = [float(mpmath.sin(a)) for a in angles]
        cosines = [float(mpmath.cos(a)) for a in angles]
    if interleaved:
        return [x for pair in zip(sines, cosines, strict=True) for x in pair]
    return sines + cosines


def transformer_xl(q, k, m, n, h, w, width, base=1e4, interleaved=False):
    row = sinusoid(m - n, width, base, interleaved)
    vector = [dot(line, row) for line in w["projection"][h]]
    moved = [a + b for a, b in zip(q, w["v"][h], strict=True)]
    return dot(w["u"][h], k) + dot(moved, vector)


def log_bucket(r: int, buckets: int, limit: int) -> int:
    """sign(r) (mid + ceil(ln(|r| / mid) / ln((limit - 1) / mid) (mid - 1))) beyond mid."""
    mid = buckets // 2
    if abs(r) <= mid:
        return r
    j = 0
    ratio, growth = Fraction(abs(r), mid) ** (mid - 1), Fraction(limit - 1, mid)
    while growth**j < ratio:
        j += 1
        if j > buckets:
            break
    return int(math.copysign(mid + j, r))


def disentangled(q, k, m, n, h, w, span, bucket, *, paper=False):
    def row(r):
        return max(0, min(2 * span - 1, bucket(r) + span))

    total = 0.0
    if "key" in w:
        total += dot(q, w["key"][h][row(m - n)])
    if "query" in w:
        total += dot(k, w["query"][h][row(n - m if paper else m - n)])
    return total


def decomposed(q, k, m, n, h, w, size, names):
    return sum(
        dot(q, w[name][a - b + length - 1])
        for name, a, b, length in zip(names, m, n, size, strict=True)
    )


def cope(q, keys, m, positions, n, w, length, scaled=True):
    """The score at key number n, given all keys."""
    scale = 1 / math.sqrt(len(q)) if scaled else 1.0
    counted = 0.0
    for j in range(n, len(keys)):
        if positions[j] <= m:
            counted += 1 / (1 + math.exp(-dot(q, keys[j]) * scale))
    p = min(counted, length - 1)
    low, high = math.floor(p), math.ceil(p)
    a, b = dot(q, w["weight"][low]), dot(q, w["weight"][high])
    return b * (p - low) + a * (1 - (p - low))


def skew(products: list[list[float]]) -> list[list[float]]:
    """The paper's procedure: a column in front, the rows cut anew, the first row dropped."""
    rows, columns = len(products), len(products[0])
    flat = [x for row in products for x in [0.0, *row]]
    return [flat[(i + 1) * rows : (i + 2) * rows][:columns] for i in range(rows)]
