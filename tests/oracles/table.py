"""Tables by plain loops from the papers, in 50-digit arithmetic. Nothing here imports posenc."""

from __future__ import annotations

from collections.abc import Sequence

from mpmath import mp, mpf

WORK = 60  # decimal digits: positions up to 2**31 leave 50


def frequency(j: int, *, base: float, denominator: float, first: float = 1.0) -> mpf:
    """first * base ** (-j / denominator)."""
    with mp.workdps(WORK):
        return mpf(first) * mpf(base) ** (-mpf(j) / mpf(denominator))


def vaswani(position: int, dim: int, base: float = 10000.0) -> list[float]:
    """Section 3.5 of the paper, channel by channel; for odd widths the last one is a sine."""
    row = []
    with mp.workdps(WORK):
        for channel in range(dim):
            pair = channel // 2
            angle = mpf(position) / mpf(base) ** (mpf(2 * pair) / dim)
            row.append(float(mp.sin(angle) if channel % 2 == 0 else mp.cos(angle)))
    return row


def halves(
    position: int, dim: int, base: float, denominator: float, *, cosine_first: bool = False
) -> list[float]:
    """All sines, then all cosines (or the other way round), then a zero if the width is odd."""
    sines, cosines = [], []
    with mp.workdps(WORK):
        for j in range(dim // 2):
            angle = mpf(position) * frequency(j, base=base, denominator=denominator)
            sines.append(float(mp.sin(angle)))
            cosines.append(float(mp.cos(angle)))
    row = cosines + sines if cosine_first else sines + cosines
    return row + [0.0] * (dim % 2)


def sine_keeps_extra(position: int, dim: int, base: float) -> list[float]:
    """Sines first, with the extra channel of an odd width; the exponent is 2j/d with d odd."""
    with mp.workdps(WORK):
        angles = [mpf(position) / mpf(base) ** (mpf(2 * j) / dim) for j in range((dim + 1) // 2)]
        return [float(mp.sin(a)) for a in angles] + [float(mp.cos(a)) for a in angles[: dim // 2]]


def per_axis(
    position: Sequence[int], dim: int, base: float, axes: Sequence[int], *, shift: float = 0.0
) -> list[float]:
    """A block [sines | cosines] for each axis, each with a ladder of its own."""
    pairs = dim // (2 * len(axes))
    row: list[float] = []
    for axis in axes:
        row += halves(position[axis], 2 * pairs, base, pairs - shift)
    return row


def rounded_up_and_cut(position: Sequence[int], dim: int, base: float) -> list[float]:
    """Each axis gets an even number of channels, sine and cosine in turn; the end is cut."""
    axes = len(position)
    channels = -(-dim // (2 * axes)) * 2
    row: list[float] = []
    for coordinate in position:
        row += vaswani(coordinate, channels, base)
    return row[:dim]


def two_exponents(position: int, dim: int, base: float) -> list[float]:
    """The mistake of an exponent c/d for channel c: sine and cosine of a pair turn differently."""
    row = []
    with mp.workdps(WORK):
        for channel in range(dim):
            angle = mpf(position) / mpf(base) ** (mpf(channel) / dim)
            row.append(float(mp.sin(angle) if channel % 2 == 0 else mp.cos(angle)))
    return row


def linear_ladder(position: int, dim: int, first: float, last: float) -> list[float]:
    """Frequencies evenly spaced from first to last, sine and cosine in turn."""
    row = []
    pairs = dim // 2
    with mp.workdps(WORK):
        for j in range(pairs):
            angle = position * (mpf(first) + (mpf(last) - mpf(first)) * j / (pairs - 1))
            row += [float(mp.sin(angle)), float(mp.cos(angle))]
    return row


def given_frequencies(position: int, frequencies: Sequence[float]) -> list[float]:
    """Sine and cosine in turn of position times each frequency."""
    row = []
    with mp.workdps(WORK):
        for value in frequencies:
            angle = position * mpf(value)
            row += [float(mp.sin(angle)), float(mp.cos(angle))]
    return row


def summed(*rows: Sequence[float]) -> list[float]:
    """The sum of rows of several tables, channel by channel."""
    return [sum(channel) for channel in zip(*rows, strict=True)]
