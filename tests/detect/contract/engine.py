"""An engine in plain NumPy, with the bugs that engines had. It does not know posenc."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray


def ladder(dim: int, base: float = 1e4, *, width: int | None = None) -> Array:
    """Frequencies of `dim` / 2 pairs."""
    return 1.0 / base ** (np.arange(0, dim, 2, dtype=np.float64) / (width or dim))


def linear(frequencies: Array, factor: float) -> Array:
    return frequencies / factor


def yarn(
    dim: int, base: float, factor: float, original: int, *, fast: float = 32, slow: float = 1,
    truncate: bool = True, powered: bool = False,
) -> Array:  # fmt: skip
    """YaRN as in its authors' code; `powered` has the factor inside the power."""
    extended = ladder(dim, base)
    shrunk = ladder(dim, base * factor) if powered else extended / factor

    def bound(turns: float) -> float:
        return dim * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base))

    low, high = bound(fast), bound(slow)
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    ramp = np.clip((np.arange(dim // 2) - low) / (high - low), 0, 1)
    return shrunk * ramp + extended * (1 - ramp)


def magnitude(factor: float, mscale: float = 1.0) -> float:
    return 0.1 * mscale * math.log(factor) + 1.0


def llama3(
    dim: int, base: float, factor: float, original: int, *, low: float = 1, high: float = 4,
    turn: float = 2 * math.pi, ramp: str = "turns",
) -> Array:  # fmt: skip
    out = []
    for f in ladder(dim, base):
        wave = turn / f
        if wave < original / high:
            out.append(f)
        elif wave > original / low:
            out.append(f / factor)
        elif ramp == "turns":
            t = (original / wave - low) / (high - low)
            out.append((1 - t) * f / factor + t * f)
        else:
            t = (wave - original / high) / (original / low - original / high)
            out.append(f / ((1 - t) * factor + t))
    return np.array(out)


def half(values: Array, dtype: str) -> Array:
    """Values rounded to a dtype of half precision."""
    if dtype == "float16":
        return values.astype(np.float16).astype(np.float64)
    bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return bits.astype(np.uint32).view(np.float32).astype(np.float64)


class Engine:
    """Rotations from frequencies, for every layer or for each by name.

    `frequencies` is an array, or a function of the layer and the length of the sequence.
    """

    def __init__(
        self,
        frequencies: Array | Callable[[str, int], Array],
        *,
        factor: float | Callable[[str], float] = 1.0,
        order: str = "half",
        part: str = "leading",
        head_dim: int | None = None,
        counted: Callable[[Array], Array] = lambda p: p,
        rounded: str = "",
        rows: int | None = None,
        sections: tuple[int, ...] = (),
        cyclic: bool = False,
    ) -> None:
        self.given, self.factor, self.order, self.part = frequencies, factor, order, part
        self.counted, self.rounded, self.rows = counted, rounded, rows
        self.sections, self.cyclic = sections, cyclic
        if head_dim is not None:
            self.head_dim = head_dim

    def cos_sin(self, positions: Array, layer: str) -> tuple[Array, Array]:
        if self.rows is not None and positions.max() >= self.rows:
            raise IndexError(f"index {positions.max()} is out of bounds for axis 0")
        length = int(positions.max()) + 1
        f = self.given(layer, length) if callable(self.given) else self.given
        where = self.counted(positions)
        angles = (where[:, self._axis(len(f))] if where.ndim > 1 else where[:, None]) * f
        m = self.factor(layer) if callable(self.factor) else self.factor
        cos, sin = m * np.cos(angles), m * np.sin(angles)
        if self.rounded:
            cos, sin = half(cos, self.rounded), half(sin, self.rounded)
        return cos, sin

    def _axis(self, pairs: int) -> Array:
        if not self.cyclic:
            return np.repeat(np.arange(len(self.sections)), self.sections)
        axis = np.zeros(pairs, dtype=int)
        for a, size in enumerate(self.sections[1:], start=1):
            axis[a : 3 * size : 3] = a
        return axis

    def rotate(self, x: Array, positions: Array, layer: str) -> Array:
        cos, sin = self.cos_sin(positions, layer)
        n = cos.shape[-1]
        begin = 0 if self.part == "leading" else x.shape[-1] - 2 * n
        y = np.array(x, dtype=np.float64)
        first, second = slice(begin, begin + n), slice(begin + n, begin + 2 * n)
        if self.order != "half":
            first, second = (slice(begin + k, begin + 2 * n, 2) for k in (0, 1))
        y[..., first] = x[..., first] * cos - x[..., second] * sin
        y[..., second] = x[..., second] * cos + x[..., first] * sin
        return y


class Remembers(Engine):
    """Dynamic NTK that keeps the base of the longest sequence so far."""

    longest = 0

    def cos_sin(self, positions: Array, layer: str) -> tuple[Array, Array]:
        self.longest = max(self.longest, int(positions.max()) + 1)
        assert callable(self.given)
        angles = positions[:, None] * self.given(layer, self.longest)
        return np.cos(angles), np.sin(angles)


class Frequencies:
    """Nothing but a buffer."""

    def __init__(self, values: Array) -> None:
        self.values = values

    def frequencies(self) -> Array:
        return self.values


class Slopes:
    """Linear biases."""

    def __init__(self, slopes: Array) -> None:
        self.slopes = np.asarray(slopes)

    def bias(self, q_positions: Array, k_positions: Array) -> Array:
        distance = np.abs(q_positions[:, None] - k_positions[None, :])
        return -self.slopes[:, None, None] * distance


class Sines:
    """Sinusoidal rows."""

    def __init__(
        self, dim: int, *, last: float = 0.0, order: str = "sin_cos", start: int = 0
    ) -> None:
        n = dim // 2
        self.frequencies_ = np.exp(-math.log(1e4) * np.arange(n) / (n - last))
        self.order, self.start = order, start

    def table(self, positions: Array) -> Array:
        angles = (positions[:, None] + self.start) * self.frequencies_
        pair = [np.sin(angles), np.cos(angles)]
        if self.order == "interleaved":
            return np.stack(pair, axis=-1).reshape(len(positions), -1)
        return np.concatenate(pair if self.order == "sin_cos" else pair[::-1], axis=-1)


class Counts(Engine):
    """A right rotation, with positions of its own for a batch."""

    def __init__(self, frequencies: Array, how: Callable[[dict[str, Any]], Array]) -> None:
        super().__init__(frequencies)
        self.how = how

    def position_ids(self, case: dict[str, Any]) -> Array:
        return self.how(case)


class Indexer(Engine):
    """The rotation of an indexer alone."""

    def cos_sin(self, positions: Array, layer: str) -> tuple[Array, Array]:
        if not layer.endswith("indexer"):
            raise NotImplementedError("the main attention is fused")
        return super().cos_sin(positions, layer)
