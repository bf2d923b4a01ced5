"""Tables of times, places and trees by plain loops from the papers. Nothing here imports posenc."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from mpmath import mp, mpf

WORK = 60


def time2vec(
    time: float, frequency: Sequence[float], shift: Sequence[float], wave: str, trend: int | None
) -> list[float]:
    """Kazemi et al.; `trend` is the linear channel."""
    row = []
    with mp.workdps(WORK):
        for i, (w, b) in enumerate(zip(frequency, shift, strict=True)):
            angle = mpf(w) * mpf(time) + mpf(b)
            turned = mp.sin(angle) if wave == "sin" else mp.cos(angle)
            row.append(float(angle if i == trend else turned))
    return row


def blurred(position: Sequence[float], frequencies: Sequence[float]) -> list[float]:
    """Barron et al.: expected sines, then cosines, of a diagonal Gaussian."""
    count = len(position) // 2
    rows: dict[str, list[float]] = {"sin": [], "cos": []}
    with mp.workdps(WORK):
        for f in frequencies:
            for mean, variance in zip(position[:count], position[count:], strict=True):
                fade = mp.exp(-(mpf(f) ** 2) * mpf(variance) / 2)
                rows["sin"].append(float(fade * mp.sin(mpf(f) * mpf(mean))))
                rows["cos"].append(float(fade * mp.cos(mpf(f) * mpf(mean))))
    return rows["sin"] + rows["cos"]


def scales(count: int, shortest: float, longest: float) -> list[mpf]:
    """Lengths from the shortest to the longest in equal ratios."""
    with mp.workdps(WORK):
        ratio = mpf(longest) / mpf(shortest)
        return [mpf(shortest) * ratio ** (mpf(s) / max(count - 1, 1)) for s in range(count)]


def grid_cells(
    position: Sequence[float], count: int, shortest: float, longest: float
) -> list[float]:
    """Mai et al. 2020: three directions, a third of a turn apart, at each scale."""
    row = []
    with mp.workdps(WORK):
        x, y = (mpf(c) for c in position)
        for length in scales(count, shortest, longest):
            for k in range(3):
                turn = 2 * mp.pi * k / 3
                angle = (x * mp.cos(turn) + y * mp.sin(turn)) / length
                row += [float(mp.sin(angle)), float(mp.cos(angle))]
    return row


def harmonics(
    position: Sequence[float], degrees: int, unit: str = "degrees", *, phase: int = -1
) -> list[float]:
    """Real spherical harmonics as Rußwurm et al. have them, from derivatives of polynomials.

    Their expressions undo the phase of the associated functions by (-1)**m; their closed form does
    not (`phase=1`).
    """
    row = []
    with mp.workdps(WORK):
        turn = 180 if unit == "degrees" else mp.pi
        lon, lat = (mpf(c) * mp.pi / turn for c in position)
        p, t = lon + mp.pi, lat + mp.pi / 2
        for n in range(degrees):
            for m in range(-n, n + 1):
                factorials = mp.factorial(n - abs(m)) / mp.factorial(n + abs(m))
                size = mp.sqrt((2 * n + 1) / (4 * mp.pi) * factorials)
                value = size * _associated(n, abs(m), mp.cos(t))
                if m < 0:
                    value *= phase**m * mp.sqrt(2) * mp.sin(-m * p)
                elif m > 0:
                    value *= phase**m * mp.sqrt(2) * mp.cos(m * p)
                row.append(float(value))
    return row


def _associated(n: int, m: int, x: mpf) -> mpf:
    """The associated Legendre function with the phase (-1)**m, from the m-th derivative."""
    total = mpf(0)
    for k in range(n // 2 + 1):
        power = n - 2 * k
        if power < m:
            continue
        coefficient = (-1) ** k * math.comb(n, k) * math.comb(2 * n - 2 * k, n)
        total += mpf(coefficient) * math.perm(power, m) * x ** (power - m)
    return (-1) ** m * (1 - x * x) ** (mpf(m) / 2) * total / 2**n


def sphere(
    position: Sequence[float],
    mixing: str,
    count: int,
    shortest: float,
    longest: float,
    unit: str = "degrees",
) -> list[float]:
    """Mai et al. 2023, the four mixtures, scale by scale."""
    row: list[float] = []
    with mp.workdps(WORK):
        turn = 180 if unit == "degrees" else mp.pi
        lon, lat = (mpf(c) * mp.pi / turn for c in position)
        for length in scales(count, shortest, longest):
            a, o = lat / length, lon / length
            entries = [mp.sin(a)]
            if mixing.endswith("+"):
                entries += [mp.cos(a), mp.sin(o), mp.cos(o)]
            if mixing.startswith("sphereC"):
                entries += [mp.cos(a) * mp.cos(o), mp.cos(a) * mp.sin(o)]
            else:
                entries += [mp.cos(a) * mp.cos(lon), mp.cos(lat) * mp.cos(o)]
                entries += [mp.cos(a) * mp.sin(lon), mp.cos(lat) * mp.sin(o)]
            row += [float(entry) for entry in entries]
    return row


def linear(inputs: Sequence[float], weight: Any, bias: Sequence[float]) -> list[float]:
    """inputs @ weight + bias, for lists."""
    with mp.workdps(WORK):
        return [
            float(sum((mpf(x) * mpf(weight[i][c]) for i, x in enumerate(inputs)), mpf(shift)))
            for c, shift in enumerate(bias)
        ]


def both_ways(position: Sequence[float]) -> list[mpf]:
    """The coordinates, then their distances from 1."""
    with mp.workdps(WORK):
        return [mpf(c) for c in position] + [1 - mpf(c) for c in position]


def learned_fourier(
    position: Sequence[float], params: dict[str, Any], groups: int, activation: str
) -> list[float]:
    """Li et al., group by group."""
    share = len(position) // groups
    count = len(params["frequencies"][0])
    row: list[float] = []
    with mp.workdps(WORK):
        for g in range(groups):
            place = position[g * share : (g + 1) * share]
            angles = [
                sum(mpf(c) * mpf(params["frequencies"][a][j]) for a, c in enumerate(place))
                for j in range(count)
            ]
            features = [mp.cos(a) for a in angles] + [mp.sin(a) for a in angles]
            features = [f / mp.sqrt(2 * count) for f in features]
            hidden = [
                _gelu(
                    sum((f * mpf(params["weight1"][i][c]) for i, f in enumerate(features)), mpf(b)),
                    activation,
                )
                for c, b in enumerate(params["bias1"])
            ]
            row += linear(hidden, params["weight2"], params["bias2"])
    return row


def _gelu(x: mpf, activation: str) -> mpf:
    if activation == "gelu":
        return x * (1 + mp.erf(x / mp.sqrt(2))) / 2
    return x / 2 * (1 + mp.tanh(mp.sqrt(2 / mp.pi) * (x + mpf("0.044715") * x**3)))


def hash_grid(
    position: Sequence[float],
    tables: Any,
    *,
    sides: Sequence[int],
    size: int,
    dense: bool,
) -> list[float]:
    """Müller et al., section 3: 32-bit products, exclusive or, interpolation."""
    primes = (1, 2654435761, 805459861)
    axes = len(position)
    row: list[float] = []
    for side, table in zip(sides, tables, strict=True):
        scaled = [c * side for c in position]
        lower = [min(math.floor(c), side - 1) for c in scaled]
        total = [mpf(0)] * len(table[0])
        for corner in itertools.product((0, 1), repeat=axes):
            place = [n + step for n, step in zip(lower, corner, strict=True)]
            weight = mpf(1)
            for c, n, step in zip(scaled, lower, corner, strict=True):
                weight *= mpf(c) - n if step else 1 - (mpf(c) - n)
            if dense and (side + 1) ** axes <= size:
                number = sum(n * (side + 1) ** a for a, n in enumerate(place))
            else:
                number = 0
                for n, prime in zip(place, primes, strict=False):
                    number ^= n * prime % 2**32
                number %= size
            total = [t + weight * mpf(v) for t, v in zip(total, table[number], strict=True)]
        row += [float(t) for t in total]
    return row


def tree(
    path: Sequence[int], decay: Sequence[float], *, degree: int, depth: int, dim: int
) -> list[float]:
    """Shiv and Quirk: the stack of steps, one-hot, weighted by powers of each decay."""
    row = []
    with mp.workdps(WORK):
        for k in range(depth):
            for child in range(degree):
                for d in decay:
                    p = mp.tanh(mpf(d))
                    weight = p**k * mp.sqrt((1 - p**2) * mpf(dim) / 2)
                    row.append(float(weight) if path[k] == child else 0.0)
    return row + [0.0] * (dim - len(row))
