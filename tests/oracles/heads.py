"""Rotations that differ between heads, or are more than rotations, by plain loops.

Nothing here imports posenc.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mpmath import mp, mpf

WORK = 60


def golden_gate(
    position: Sequence[float], head: int, pairs: int, lowest: float, highest: float, still: int
) -> tuple[list[float], list[float]]:
    """Xiong 2025: the i-th direction by multiples of powers of phi, frequencies in equal ratios."""
    axes = len(position)
    cosines, sines = [], []
    with mp.workdps(WORK):
        phi = mpf(2)
        for _ in range(10):
            phi = (1 + phi) ** (mpf(1) / (axes + 1))
        for j in range(pairs):
            i = head * pairs + j + 1
            z = [mp.erfinv(2 * mp.frac(i / phi ** (a + 1)) - 1) for a in range(axes)]
            length = mp.sqrt(sum(c * c for c in z))
            turning = pairs - still
            share = mpf(j - still) / (turning - 1) if turning > 1 else mpf(0)
            size = mpf(0) if j < still else mpf(lowest) * (mpf(highest) / lowest) ** share
            angle = size * sum(mpf(p) * c for p, c in zip(position, z, strict=True)) / length
            cosines.append(float(mp.cos(angle)))
            sines.append(float(mp.sin(angle)))
    return cosines, sines


def series(
    position: int,
    weights: Mapping[str, Any],
    frequencies: Sequence[mpf],
    pairs: int,
    still_sine: float,
    head: int = 0,
) -> tuple[list[float], list[float]]:
    """Hua et al., section 4: sums of waves for the pairs that turn, then pairs that stand still."""
    sums: dict[str, list[float]] = {"cos": [], "sin": []}
    with mp.workdps(WORK):
        waves = {
            "cos": [mp.cos(position * f) for f in frequencies],
            "sin": [mp.sin(position * f) for f in frequencies],
        }
        for name, values in waves.items():
            weight = weights[f"{name}_weight"][head].tolist()
            for j in range(len(weight[0])):
                sums[name].append(float(sum(mpf(weight[i][j]) * w for i, w in enumerate(values))))
    rest = pairs - len(sums["cos"])
    return sums["cos"] + [1.0] * rest, sums["sin"] + [still_sine] * rest


def mixed(
    position: Sequence[float], frequencies: Sequence[Sequence[float]]
) -> tuple[list[float], list[float]]:
    """A matrix of frequencies with a row for each axis."""
    with mp.workdps(WORK):
        angles = [
            sum(mpf(c) * mpf(f) for c, f in zip(position, column, strict=True))
            for column in zip(*frequencies, strict=True)
        ]
        return [float(mp.cos(a)) for a in angles], [float(mp.sin(a)) for a in angles]


def polar(
    x: Sequence[float], position: int, frequencies: Sequence[mpf], delta: Sequence[float] | None
) -> tuple[list[float], list[float]]:
    """Gopalakrishnan et al., equation 6: softplus sizes at the angles of positions and offsets."""
    real, imaginary = [], []
    with mp.workdps(WORK):
        for c, (value, f) in enumerate(zip(x, frequencies, strict=True)):
            offset = min(max(mpf(delta[c]), -2 * mp.pi), mpf(0)) if delta is not None else mpf(0)
            size, angle = mp.log(1 + mp.exp(mpf(value))), position * f + offset
            real.append(float(size * mp.cos(angle)))
            imaginary.append(float(size * mp.sin(angle)))
    return real, imaginary


def cayley(generator: Sequence[Sequence[float]]) -> list[list[mpf]]:
    """(I - S) (I + S) ** -1 with S = G - G transposed."""
    with mp.workdps(WORK):
        g = mp.matrix(generator)
        s, unit = g - g.T, mp.eye(g.rows)
        p = (unit - s) * (unit + s) ** -1
        return [[p[i, j] for j in range(g.rows)] for i in range(g.rows)]
