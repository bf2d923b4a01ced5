"""Fourier features and times by plain loops, in 60 digits. Nothing here imports posenc."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from mpmath import mp, mpf

WORK = 60


def sines_then_cosines(
    position: Sequence[float], frequencies: Sequence[Sequence[float | mpf]]
) -> list[float]:
    """All sines, axis by axis, then all cosines; `frequencies[a]` are those of axis a."""
    with mp.workdps(WORK):
        angles = [
            mpf(x) * mpf(f) for x, row in zip(position, frequencies, strict=True) for f in row
        ]
        return [float(mp.sin(a)) for a in angles] + [float(mp.cos(a)) for a in angles]


def cosines_then_sines(
    position: Sequence[float], frequencies: Sequence[Sequence[float | mpf]]
) -> list[float]:
    """The same, cosines first."""
    row = sines_then_cosines(position, frequencies)
    return row[len(row) // 2 :] + row[: len(row) // 2]


def lines(ends: Sequence[tuple[float, float]], count: int) -> list[list[mpf]]:
    """`count` numbers evenly spaced between each pair of ends."""
    with mp.workdps(WORK):
        return [
            [mpf(a) + (mpf(b) - mpf(a)) * j / (count - 1) for j in range(count)] for a, b in ends
        ]


def drawn(seed: int, axes: int, pairs: int) -> list[list[float]]:
    """Normal numbers: the inverse of their distribution at 53-bit uniforms, rounded to float32."""
    words = np.random.Philox(key=seed).random_raw(axes * pairs)
    uniform = [((int(word) >> 11) + 0.5) / 2**53 for word in words]
    values = [float(np.float32(NormalDist().inv_cdf(u))) for u in uniform]
    return [values[a * pairs : (a + 1) * pairs] for a in range(axes)]


def band_by_band(position: Sequence[float], bands: int) -> list[float]:
    """The coordinates, then for each band 2**k all sines and all cosines."""
    row = [float(x) for x in position]
    with mp.workdps(WORK):
        for k in range(bands):
            row += [float(mp.sin(mpf(x) * 2**k)) for x in position]
            row += [float(mp.cos(mpf(x) * 2**k)) for x in position]
    return row


def interleaved_per_axis(
    position: Sequence[float], pairs: int, bases: Sequence[float], first: float
) -> list[float]:
    """Sine and cosine in turn of first * base ** (-j / pairs) * x, axis by axis."""
    row: list[float] = []
    with mp.workdps(WORK):
        for x, base in zip(position, bases, strict=True):
            for j in range(pairs):
                angle = mpf(x) * mpf(first) * mpf(base) ** (-mpf(j) / pairs)
                row += [float(mp.sin(angle)), float(mp.cos(angle))]
    return row


def mixed(
    position: Sequence[float], rows: Sequence[Sequence[float]], *, turns: bool = True
) -> list[float]:
    """Sines, then cosines, of sums over axes of coordinate times matrix entry, in turns or not."""
    with mp.workdps(WORK):
        columns = list(zip(*rows, strict=True))
        angles = [
            (2 * mp.pi if turns else 1)
            * sum(mpf(x) * mpf(f) for x, f in zip(position, column, strict=True))
            for column in columns
        ]
        return [float(mp.sin(a)) for a in angles] + [float(mp.cos(a)) for a in angles]


def time(
    t: float, dim: int, *, base: float, shift: float, scale: float, cosine_first: bool
) -> list[float]:
    """Exponents j / (n - shift), a factor on the angle, a zero after an odd width."""
    n = dim // 2
    with mp.workdps(WORK):
        angles = [mpf(t) * scale * mpf(base) ** (-mpf(j) / (n - mpf(shift))) for j in range(n)]
        sines = [float(mp.sin(a)) for a in angles]
        cosines = [float(mp.cos(a)) for a in angles]
    row = cosines + sines if cosine_first else sines + cosines
    return row + [0.0] * (dim % 2)
