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


def sinusoid(
    r: int, width: int, base: float, interleaved: bool, last: int | None = None
) -> list[float]:
    """With `last` in the denominator of the exponent, or half the width."""
    import mpmath

    with mpmath.workdps(40):
        below = mpmath.mpf(last or width) / (1 if last else 2)
        angles = [r * mpmath.mpf(base) ** (-j / below) for j in range(width // 2)]
        sines = [float(mpmath.sin(a)) for a in angles]
        cosines = [float(mpmath.cos(a)) for a in angles]
    if interleaved:
        return [x for pair in zip(sines, cosines, strict=True) for x in pair]
    return sines + cosines


def transformer_xl(q, k, m, n, h, w, width, base=1e4, interleaved=False, clamp=None, last=None):
    r = m - n if clamp is None else max(-clamp, min(clamp, m - n))
    row = sinusoid(r, width, base, interleaved, last)
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


def cope(q, keys, m, positions, n, h, w, length, scaled=True):
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


def irpe(q, k, m, n, h, w, token, *choice):
    from tests.oracles.bias import irpe_buckets

    def row(table: list, name: str, forward: bool) -> list[float]:
        if token and (m[0] < 0 or n[0] < 0):
            return table[-1]
        return table[irpe_buckets(*((m, n) if forward else (n, m)), *choice)[name]]

    total = 0.0
    for key, table in w.items():
        side, _, part = key.partition("_")
        if side != "values":
            forward = side == "keys"
            total += dot(q if forward else k, row(table, part or "weight", forward))
    return total


def gated(q, k, m, n, h, w, buckets, limit):
    from tests.oracles.bias import t5_bucket

    seen = [dot(line, q) + b for line, b in zip(w["gate_weight"], w["gate_bias"], strict=True)]
    update, reset = (1 / (1 + math.exp(-sum(part))) for part in (seen[:4], seen[4:]))
    gate = update * (reset * w["factor"][h] - 1.0) + 2.0
    return gate * w["weight"][t5_bucket(n - m, buckets, limit, True)][h]


def position_sensitive(q, k, m, n, h, w, length):
    row = n - m + length - 1
    return dot(q, w["queries"][row]) + dot(k, w["keys"][row])


def nezha(q, k, m, n, h, w, clip, start):
    return dot(q, sinusoid(clipped(n - m, -clip, clip) - clip + start, len(q), 1e4, True))


def tener(q, k, m, n, h, w, paper, last):
    def row(r):
        return sinusoid(r, len(q), 1e4, False, last)

    u, v = w["u"][h], w["v"][h]
    moved = [a + b for a, b in zip(q, v, strict=True)]
    if paper:
        return dot(u, k) + dot(moved, row(m - n))
    return dot(u, k) + dot(moved, row(n - m)) + dot(k, row(m - n))


def segments(q, k, m, n, h, w, common=None):
    other = int(m != n and common not in (m, n))
    moved = [a + b for a, b in zip(q, w["bias"][h], strict=True)]
    return dot(moved, w["weight"][h][other])


def dape(qs, ks, m, n, h, w, slopes):
    """With the vectors of all heads."""
    x = [dot(q, k) / math.sqrt(len(q)) for q, k in zip(qs, ks, strict=True)]
    bias = [-slope * max(m - n, 0) for slope in slopes]
    both = x + bias
    hidden = [
        dot(line, both) + b for line, b in zip(w["hidden_weight"], w["hidden_bias"], strict=True)
    ]
    hidden = [a if a > 0 else 0.01 * a for a in hidden]
    return bias[h] + dot(w["head_weight"][h], hidden) + w["head_bias"][h]


def path(q, keys, m, positions, n, h, w):
    """One reflection after the other, applied to the key number n, less the plain product."""
    vector = keys[n]
    for j, x in enumerate(keys):
        if j > n and positions[j] <= m:
            line = [dot(row, x) for row in w["direction"][h]]
            size = math.sqrt(dot(line, line) + 1e-6)
            line = [a / size for a in line]
            beta = 2 / (1 + math.exp(-(dot(w["strength"][h], x) + w["bias"][h])))
            along = beta * dot(line, vector)
            vector = [a - along * b for a, b in zip(vector, line, strict=True)]
    return dot(q, vector) - dot(q, keys[n])


def forget(q, keys, m, positions, n, h, w):
    """The bias at key number n, given all keys."""
    total = 0.0
    for j, x in enumerate(keys):
        if j > n and positions[j] <= m:
            total -= math.log1p(math.exp(-(dot(w["weight"][h], x) + w["bias"][h])))
    return total
