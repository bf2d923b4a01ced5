"""Rotations and their scalings by plain loops from the papers, in 60-digit arithmetic.

Nothing here imports posenc. A frequency list is a list of mpf; a channel map is a list of pairs
(first channel, second channel).
"""

from __future__ import annotations

from collections.abc import Sequence

from mpmath import mp, mpf

WORK = 60


def ladder(dim: int, base: float = 10000.0, first: float = 1.0) -> list[mpf]:
    """first * base ** (-2j/d), j = 0, …, d/2 - 1."""
    with mp.workdps(WORK):
        return [mpf(first) * mpf(base) ** (-mpf(2 * j) / dim) for j in range(dim // 2)]


# --- scalings: each from its own text ------------------------------------------------------------


def linear(dim: int, base: float, factor: float) -> list[mpf]:
    """Chen et al. 2023: positions are divided by the factor."""
    with mp.workdps(WORK):
        return [f / mpf(factor) for f in ladder(dim, base)]


def ntk(dim: int, base: float, factor: float) -> list[mpf]:
    """bloc97 2023: the base is multiplied by factor ** (d / (d - 2))."""
    with mp.workdps(WORK):
        larger = mpf(base) * mpf(factor) ** (mpf(dim) / (dim - 2))
        return [larger ** (-mpf(2 * j) / dim) for j in range(dim // 2)]


def dynamic_ntk(dim: int, base: float, factor: float, original: int, length: int) -> list[mpf]:
    """emozilla 2023: the factor of NTK follows the length, once it exceeds the original one."""
    with mp.workdps(WORK):
        seen = mpf(max(length, original))
        grown = mpf(factor) * seen / original - (mpf(factor) - 1)
        larger = mpf(base) * grown ** (mpf(dim) / (dim - 2))
        return [larger ** (-mpf(2 * j) / dim) for j in range(dim // 2)]


def yarn(
    dim: int,
    base: float,
    factor: float,
    original: int,
    fast: float = 32,
    slow: float = 1,
    *,
    rounded: bool = True,
) -> list[mpf]:
    """Peng et al. 2023, the authors' code: a ramp over indices between two bounds."""
    with mp.workdps(WORK):

        def correction(rotations: float) -> mpf:
            return dim * mp.log(original / (mpf(rotations) * 2 * mp.pi)) / (2 * mp.log(base))

        low, high = correction(fast), correction(slow)
        if rounded:
            low, high = mp.floor(low), mp.ceil(high)
        low, high = max(low, mpf(0)), min(high, mpf(dim - 1))
        if low == high:
            high += mpf("0.001")
        scaled = []
        for j, f in enumerate(ladder(dim, base)):
            t = (j - low) / (high - low)
            t = mpf(0) if t < 0 else mpf(1) if t > 1 else t
            scaled.append(f * (1 - t) + f / mpf(factor) * t)
        return scaled


def yarn_paper(
    dim: int, base: float, factor: float, original: int, fast: float = 32, slow: float = 1
) -> list[mpf]:
    """Peng et al. 2023, section 3.2: a ramp over r = original length / wavelength."""
    with mp.workdps(WORK):
        scaled = []
        for f in ladder(dim, base):
            r = original / (2 * mp.pi / f)
            gamma = mpf(0) if r < slow else mpf(1) if r > fast else (r - slow) / mpf(fast - slow)
            scaled.append((1 - gamma) * f / mpf(factor) + gamma * f)
        return scaled


def yarn_magnitude(factor: float, mscale: float = 1, mscale_all_dim: float = 0) -> float:
    """m(mscale) / m(mscale_all_dim) with m(k) = 0.1 k ln(factor) + 1."""
    with mp.workdps(WORK):
        top = mpf("0.1") * mpf(mscale) * mp.log(factor) + 1
        bottom = mpf("0.1") * mpf(mscale_all_dim) * mp.log(factor) + 1
        return float(top / bottom)


def mrrope(
    dim: int, base: float, factor: float, original: int, progressive: bool, fast: float = 32
) -> list[mpf]:
    """Tian et al. 2026, section 3.2: a radix lambda each, which slows all pairs behind."""
    with mp.workdps(WORK):
        plain = ladder(dim, base)
        turns = [original * f / (2 * mp.pi) for f in plain]
        low = max((j for j, t in enumerate(turns) if t > fast), default=0)
        high = min(j for j, t in enumerate(turns) if t < 1)
        scaled, product = [], mpf(1)
        for j, f in enumerate(plain):
            scaled.append(f / product)
            if low <= j < high:
                n = mpf(high - low)
                e = 2 * (1 + j - low) / ((1 + n) * n) if progressive else 1 / n
                product *= mpf(factor) ** e
        return scaled


def llama3(
    dim: int, base: float, factor: float, original: int, low: float = 1, high: float = 4
) -> list[mpf]:
    """The three cases of Llama 3.1, by wavelength."""
    with mp.workdps(WORK):
        scaled = []
        for f in ladder(dim, base):
            wavelength = 2 * mp.pi / f
            if wavelength < mpf(original) / high:
                scaled.append(f)
            elif wavelength > mpf(original) / low:
                scaled.append(f / mpf(factor))
            else:
                smooth = (original / wavelength - low) / mpf(high - low)
                scaled.append((1 - smooth) * f / mpf(factor) + smooth * f)
        return scaled


def divided(dim: int, base: float, divisors: Sequence[float]) -> list[mpf]:
    """LongRoPE: each frequency has a divisor of its own."""
    with mp.workdps(WORK):
        return [f / mpf(d) for f, d in zip(ladder(dim, base), divisors, strict=True)]


def proportional(dim: int, base: float, turning: int) -> list[mpf]:
    """The first frequencies of the full width, then zeros."""
    return [f if j < turning else mpf(0) for j, f in enumerate(ladder(dim, base))]


def mixed_ntk(dim: int, base: float, factor: float, power: float) -> list[mpf]:
    """Su 2023: f[j] / exp(a (j+1)**power) with a (d/2)**power = ln(factor)."""
    with mp.workdps(WORK):
        a = mp.log(factor) / (mpf(dim) / 2) ** mpf(power)
        return [f / mp.exp(a * mpf(j + 1) ** mpf(power)) for j, f in enumerate(ladder(dim, base))]


def riflex(dim: int, base: float, k: int, frames: int) -> list[mpf]:
    """Zhao et al. 2025: the k-th frequency, from 1, makes 0.9 turns within the new frames."""
    with mp.workdps(WORK):
        slower = mpf(9) / 10 * 2 * mp.pi / frames
        return [slower if j == k else f for j, f in enumerate(ladder(dim, base), start=1)]


def dype(dim: int, base: float, factor: float, noise: float, trained: int) -> list[mpf]:
    """Issachar et al. 2025, the authors' code: two masks whose ends move with noise squared."""
    with mp.workdps(WORK):

        def mask(many: float, few: float) -> list[mpf]:
            ends = []
            for turns, rounded in ((many, mp.floor), (few, mp.ceil)):
                turns = mpf(turns) * mpf(noise) ** 2
                index = dim * mp.log(trained / (turns * 2 * mp.pi)) / (2 * mp.log(base))
                ends.append(min(max(rounded(index), 0), dim // 2))
            low, high = ends
            high += mpf("0.001") if low == high else 0
            return [1 - min(max((j - low) / (high - low), 0), 1) for j in range(dim // 2)]

        plain, slow = ladder(dim, base), ntk(dim, base, factor)
        linear = [f / mpf(factor) for f in plain]
        middle = [
            a * (1 - m) + b * m for a, b, m in zip(linear, slow, mask(1.25, 0.75), strict=True)
        ]
        return [a * (1 - m) + b * m for a, b, m in zip(middle, plain, mask(16, 2), strict=True)]


# --- axes -----------------------------------------------------------------------------------------


def angle(position: int | Sequence[int], frequency: mpf, axis: int = 0) -> mpf:
    """The coordinate of one axis times a frequency."""
    coordinate = position[axis] if isinstance(position, Sequence) else position
    with mp.workdps(WORK):
        return mpf(coordinate) * frequency


def cos_sin(
    position: int | Sequence[int],
    frequencies: Sequence[mpf],
    axes: Sequence[int] | None = None,
    magnitude: float | Sequence[float] = 1.0,
) -> tuple[list[float], list[float]]:
    """Cosine and sine of each pair; `axes[j]` is the axis that turns pair j.

    The magnitude is that of all pairs, or of each.
    """
    sizes = magnitude if isinstance(magnitude, Sequence) else [magnitude] * len(frequencies)
    cosines, sines = [], []
    with mp.workdps(WORK):
        for j, f in enumerate(frequencies):
            a = angle(position, f, axes[j] if axes else 0)
            cosines.append(float(mpf(sizes[j]) * mp.cos(a)))
            sines.append(float(mpf(sizes[j]) * mp.sin(a)))
    return cosines, sines


def half(dim: int, offset: int = 0) -> list[tuple[int, int]]:
    """Channels j and j + d/2."""
    return [(offset + j, offset + j + dim // 2) for j in range(dim // 2)]


def interleaved(dim: int, offset: int = 0) -> list[tuple[int, int]]:
    """Channels 2j and 2j + 1."""
    return [(offset + 2 * j, offset + 2 * j + 1) for j in range(dim // 2)]


def turn(
    x: Sequence[float],
    cosines: Sequence[float],
    sines: Sequence[float],
    source: Sequence[tuple[int, int]],
    target: Sequence[tuple[int, int]] | None = None,
    *,
    sign: int = 1,
) -> list[float]:
    """Turn the pairs of channels `source` and write them to `target`; the rest stays."""
    y = list(x)
    for (a, b), (c, d), cos, sin in zip(source, target or source, cosines, sines, strict=True):
        y[c] = x[a] * cos - sign * x[b] * sin
        y[d] = x[b] * cos + sign * x[a] * sin
    return y


def xpos_factor(position: int, dim: int, scale: float = 512, centre: int = 0) -> list[float]:
    """zeta[j] ** ((p - centre) / scale) with zeta[j] = (2j/d + 0.4) / 1.4."""
    with mp.workdps(WORK):
        base = [(mpf(2 * j) / dim + mpf("0.4")) / mpf("1.4") for j in range(dim // 2)]
        return [float(z ** (mpf(position - centre) / mpf(scale))) for z in base]


def times(frequencies: Sequence[mpf], factors: Sequence[float]) -> list[mpf]:
    """Each frequency with its factor."""
    with mp.workdps(WORK):
        return [f * mpf(m) for f, m in zip(frequencies, factors, strict=True)]


def over(frequencies: Sequence[mpf], factor: float) -> list[mpf]:
    """All frequencies over one factor."""
    with mp.workdps(WORK):
        return [f / mpf(factor) for f in frequencies]
