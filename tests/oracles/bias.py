"""Biases from the papers, one entry at a time: plain Python numbers, and nothing of posenc.

Each function takes the query position m, the key position n, the head h, and for learned ones the
parameters as nested lists.
"""

from __future__ import annotations

import math
from fractions import Fraction


def power_slopes(heads: int, largest: float = 8.0) -> list[float]:
    return [2.0 ** (-largest * (h + 1) / heads) for h in range(heads)]


def slopes(heads: int, largest: float = 8.0) -> list[float]:
    """The recursion of the authors' code."""
    if math.log2(heads).is_integer():
        return power_slopes(heads, largest)
    below = 2 ** math.floor(math.log2(heads))
    return power_slopes(below, largest) + power_slopes(2 * below, largest)[0::2][: heads - below]


def symmetric(m: int, n: int, slope: float) -> float:
    return -slope * abs(m - n)


def causal(m: int, n: int, slope: float) -> float:
    return -slope * (m - n) if n <= m else 0.0


def at_least(n: int, exact: int, limit: int, steps: int, j: int) -> bool:
    """Whether steps * ln(n / exact) / ln(limit / exact) >= j, in exact fractions."""
    return Fraction(n, exact) ** steps >= Fraction(limit, exact) ** j


def t5_bucket(rel: int, buckets: int, limit: int, bidirectional: bool) -> int:
    """rel is key - query."""
    bucket = 0
    far = max(-rel, 0)
    if bidirectional:
        buckets //= 2
        bucket = buckets if rel > 0 else 0
        far = abs(rel)
    exact = buckets // 2
    if far < exact:
        return bucket + far
    steps = buckets - exact
    j = 0
    while j + 1 < steps and at_least(far, exact, limit, steps, j + 1):
        j += 1
    return bucket + exact + j


def kerple_log(m: int, n: int, r1: float, r2: float) -> float:
    return -r1 * math.log(1 + r2 * abs(m - n))


def kerple_power(m: int, n: int, r1: float, r2: float) -> float:
    return -r1 * abs(m - n) ** r2


def fire(m: int, n: int, h: int, w: dict, start: float, epsilon: float = 1e-6) -> float:
    c = w["c"]

    def psi(x: float) -> float:
        return math.log(abs(c * x) + 1)

    x = psi(m - n) / (psi(max(m, abs(w["threshold_factor"] * start))) + epsilon)
    hidden = [
        max(0.0, weight * x + bias)
        for weight, bias in zip(w["hidden_weight"], w["hidden_bias"], strict=True)
    ]
    total = sum(a * b for a, b in zip(w["head_weight"][h], hidden, strict=True))
    return total + w["head_bias"][h]


def sandwich(m: int, n: int, h: int, heads: int, dim: int, base: float, start: int = 0) -> float:
    import mpmath

    with mpmath.workdps(40):
        total = mpmath.mpf(0)
        for j in range(dim // 2):
            total += mpmath.cos((m - n) * mpmath.mpf(base) ** (-mpmath.mpf(2 * (j + start)) / dim))
        return float(total * heads / (8 * (h + 1)))


def window_cell(m: tuple[int, ...], n: tuple[int, ...], window: tuple[int, ...]) -> int:
    cell = 0
    for a, b, size in zip(m, n, window, strict=True):
        cell = cell * (2 * size - 1) + (a - b + size - 1)
    return cell


def window_with_class(m: tuple[int, ...], n: tuple[int, ...], window: tuple[int, ...]) -> int:
    count = math.prod(2 * size - 1 for size in window)
    if m[0] < 0 and n[0] < 0:
        return count + 2
    if m[0] < 0:
        return count
    if n[0] < 0:
        return count + 1
    return window_cell(m, n, window)


def log_cpb(
    m: tuple[int, ...], n: tuple[int, ...], h: int, w: dict, trained: tuple[int, ...]
) -> float:
    x = []
    for a, b, size in zip(m, n, trained, strict=True):
        r = 8 * (a - b) / (size - 1)
        x.append(math.copysign(math.log2(1 + abs(r)) / math.log2(8), r))
    logit = 0.0
    rows = zip(w["hidden_weight"], w["hidden_bias"], w["head_weight"][h], strict=True)
    for first, bias, second in rows:
        inner = bias + sum(a * b for a, b in zip(first, x, strict=True))
        logit += second * max(0.0, inner)
    return 16 / (1 + math.exp(-logit))


def tupe(m: int, n: int, h: int, w: dict, heads: int, untied: bool) -> float:
    def normal(row: list[float]) -> list[float]:
        mean = sum(row) / len(row)
        spread = math.sqrt(sum((x - mean) ** 2 for x in row) / len(row) + 1e-5)
        shaped = zip(row, w["norm_weight"], w["norm_bias"], strict=True)
        return [(x - mean) / spread * a + b for x, a, b in shaped]

    def project(row: list[float], side: str) -> list[float]:
        matrix, shift = w[f"{side}_weight"][h], w[f"{side}_bias"][h]
        return [
            sum(a * b for a, b in zip(line, row, strict=True)) + s
            for line, s in zip(matrix, shift, strict=True)
        ]

    i, j = m, n
    if untied:
        i, j = m + 1, n + 1
        if m == 0:
            i = j = 0
        elif n == 0:
            i = j = 1
    q, k = project(normal(w["position"][i]), "query"), project(normal(w["position"][j]), "key")
    scale = math.sqrt(2 * len(w["position"][0]) / heads)
    return sum(a * b for a, b in zip(q, k, strict=True)) / scale


def decay(m: int, n: int, gamma: float) -> float:
    """The logarithm of the decay mask."""
    return (m - n) * math.log(gamma) if n <= m else -math.inf


def tisa(m: int, n: int, h: int, w: dict) -> float:
    rows = zip(w["amplitude"], w["sharpness"], w["offset"], strict=True)
    return sum(a[h] * math.exp(-abs(b[h]) * (n - m - c[h]) ** 2) for a, b, c in rows)


def offset_cell(m: tuple[int, ...], n: tuple[int, ...], size: tuple[int, ...]) -> int:
    cell = 0
    for a, b, length in zip(m, n, size, strict=True):
        cell = cell * length + abs(a - b)
    return cell


def euclidean(m: tuple[int, int], n: tuple[int, int], slope: float, token: bool = False) -> float:
    if token and (m[0] < 0 or n[0] < 0):
        return 0.0
    return -slope * math.hypot(m[0] - n[0], m[1] - n[1])


def clipped_row(m: int, n: int, first: int, last: int, absolute: bool) -> int:
    r = max(first, min(last, n - m))
    return abs(r) if absolute else r - first


def quadratic(m: tuple[int, int], n: tuple[int, int], h: int, w: dict) -> float:
    y, x = n[0] - m[0], n[1] - m[1]
    if "centre" in w:
        centre = w["centre"][h]
        return -w["alpha"][h] * ((y - centre[0]) ** 2 + (x - centre[1]) ** 2)
    a, b, c = w["weight"][h]
    return a * y + b * x + c * (y * y + x * x) + w["shift"][h]


def spatial(
    m: tuple[int, ...], n: tuple[int, ...], h: int, w: dict, text: tuple, page: tuple
) -> float:
    names = (("weight", *text), ("x_weight", *page), ("y_weight", *page))
    return sum(
        w[name][t5_bucket(b - a, buckets, limit, True)][h]
        for (name, buckets, limit), a, b in zip(names, m, n, strict=True)
    )


def adaptive_span(m: int, n: int, h: int, w: dict, length: int, ramp: int) -> float:
    mask = min(1.0, max(0.0, (ramp + length * w["span"][h] - (m - n)) / ramp))
    return math.log(mask) if mask else -math.inf


def rotary_bias(m: int, n: int, h: int, w: dict, base: float = 1e4) -> float:
    """The product of the two vectors, each turned by its own position."""
    import mpmath

    alpha, beta = w["alpha"][h], w["beta"][h]
    half = len(alpha) // 2

    def turned(vector: list[float], position: int) -> list:
        first, second = [], []
        for j in range(half):
            angle = position * mpmath.mpf(base) ** (-mpmath.mpf(j) / half)
            cos, sin = mpmath.cos(angle), mpmath.sin(angle)
            first.append(vector[j] * cos - vector[j + half] * sin)
            second.append(vector[j + half] * cos + vector[j] * sin)
        return first + second

    with mpmath.workdps(40):
        pairs = zip(turned(alpha, m), turned(beta, n), strict=True)
        return float(sum(a * b for a, b in pairs))


def dynamic(m: tuple[int, ...], n: tuple[int, ...], h: int, w: dict, residual: bool) -> float:
    def layer(matrix: list, shift: list[float], x: list[float]) -> list[float]:
        return [
            sum(a * b for a, b in zip(row, x, strict=True)) + s
            for row, s in zip(matrix, shift, strict=True)
        ]

    def rectified(x: list[float], i: int) -> list[float]:
        mean = sum(x) / len(x)
        spread = math.sqrt(sum((a - mean) ** 2 for a in x) / len(x) + 1e-5)
        shaped = zip(x, w["norm_weight"][i], w["norm_bias"][i], strict=True)
        return [max(0.0, (a - mean) / spread * g + b) for a, g, b in shaped]

    offset = [float(a - b) for a, b in zip(m, n, strict=True)]
    x = layer(w["offset_weight"], w["offset_bias"], offset)
    for i in range(2):
        inner = layer(w["hidden_weight"][i], w["hidden_bias"][i], rectified(x, i))
        x = [a + b for a, b in zip(x, inner, strict=True)] if residual else inner
    return layer([w["head_weight"][h]], [w["head_bias"][h]], rectified(x, 2))[0]


def piecewise(x: float, alpha: float, beta: float, gamma: float) -> int:
    if abs(x) <= alpha:
        return round(x)
    y = alpha + math.log(abs(x) / alpha) / math.log(gamma / alpha) * (beta - alpha)
    return int(math.copysign(min(round(y), beta), x))


def irpe_buckets(
    m: tuple[int, int], n: tuple[int, int], method: str, alpha: float, beta: float, gamma: float
) -> dict[str, int]:
    last = int(beta)
    y, x = m[0] - n[0], m[1] - n[1]

    def g(value: float) -> int:
        return piecewise(value, alpha, beta, gamma) + last

    if method == "cross":
        return {"rows": g(y), "columns": g(x)}
    if method == "product":
        return {"weight": g(y) * (2 * last + 1) + g(x)}
    return {"weight": g(round(math.hypot(y, x)) if method == "euclidean" else y * y + x * x)}


def irpe(m: tuple[int, int], n: tuple[int, int], h: int, w: dict, token: bool, *choice) -> float:
    if token and (m[0] < 0 or n[0] < 0):
        return sum(table[h][-1] for table in w.values())
    return sum(w[name][h][b] for name, b in irpe_buckets(m, n, *choice).items())


def complex_offsets(m: tuple, n: tuple, h: int, w: dict, residues: int, copies: int) -> float:
    """Positions are (chain, residue, token, entity, copy)."""

    def row(difference: int, last: int, known: bool) -> int:
        return max(0, min(2 * last, difference + last)) if known else 2 * last + 1

    one_chain, one_residue = m[0] == n[0], m[1] == n[1]
    total = w["residue_weight"][row(m[1] - n[1], residues, one_chain)][h]
    total += w["token_weight"][row(m[2] - n[2], residues, one_chain and one_residue)][h]
    total += w["chain_weight"][row(m[4] - n[4], copies, not one_chain)][h]
    return total + (w["entity_weight"][h] if m[3] == n[3] else 0.0)
