"""What ports of encodings compute, in plain loops that know nothing of posenc."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

# What an entry may be off, of numbers near 1: at position 0, and more for each position.
ROUNDING = {"float64": (1e-9, 1e-13), "float32": (3e-6, 6e-7), "bfloat16": (3e-2, 6e-7)}


@dataclass(frozen=True)
class Turn:
    """A rotation, or the cosines and sines of one."""

    pairing: str = "half"
    output: str = ""  # the order of the result, where it is not that of the input
    dim: int = 64  # channels that turn
    base: float = 10_000.0
    speeds: tuple[float, ...] = ()  # instead of the powers of a base
    sign: int = 1
    begin: int = 0  # the first channel that turns
    scale: float = 1.0  # of positions
    kinds: tuple[str, ...] = ("rotary",)

    def frequencies(self) -> list[float]:
        powers = (self.base ** (-2 * j / self.dim) for j in range(self.dim // 2))
        return [self.scale * speed for speed in (self.speeds or powers)]

    def channels(self, j: int, order: str) -> tuple[int, int]:
        pairs = self.dim // 2
        a, b = (j, j + pairs) if order == "half" else (2 * j, 2 * j + 1)
        return self.begin + a, self.begin + b

    def rotate(self, x: np.ndarray, positions: Any) -> np.ndarray:
        y, places = x.copy(), np.asarray(positions, dtype=np.float64)
        places = places[:, None] if places.ndim == 2 else places
        for j, speed in enumerate(self.frequencies()):
            cos, sin = np.cos(places * speed), self.sign * np.sin(places * speed)
            (a, b), (c, d) = (
                self.channels(j, self.pairing),
                self.channels(j, self.output or self.pairing),
            )
            y[..., c] = x[..., a] * cos - x[..., b] * sin
            y[..., d] = x[..., b] * cos + x[..., a] * sin
        return y

    def cos_sin(self, positions: Any) -> tuple[np.ndarray, np.ndarray]:
        angle = np.multiply.outer(np.asarray(positions, dtype=np.float64), self.frequencies())
        return np.cos(angle), self.sign * np.sin(angle)


@dataclass(frozen=True)
class Waves:
    """A table of sines and cosines."""

    order: str = "sin_cos"  # or cos_sin, or sin cos sin cos: interleaved
    dim: int = 64
    base: float = 10_000.0
    denominator: float = 0.0  # the number of pairs, unless it is another
    scale: float = 1.0  # of entries
    shift: int = 0  # of positions
    kinds: tuple[str, ...] = ("table",)

    def rows(self, positions: Any) -> np.ndarray:
        pairs = self.dim // 2
        out = np.zeros((len(positions), self.dim))
        for row, position in enumerate(positions):
            for j in range(pairs):
                angle = (int(position) + self.shift) * self.base ** (
                    -j / (self.denominator or pairs)
                )
                sin, cos = self.scale * math.sin(angle), self.scale * math.cos(angle)
                if self.order == "interleaved":
                    out[row, 2 * j], out[row, 2 * j + 1] = sin, cos
                else:
                    first, second = (sin, cos) if self.order == "sin_cos" else (cos, sin)
                    out[row, j], out[row, pairs + j] = first, second
        return out


@dataclass(frozen=True, eq=False)
class Entries:
    """A learned table: row `position + shift` of what is stored."""

    stored: np.ndarray
    shift: int = 0
    scale: float = 1.0
    kinds: tuple[str, ...] = ("table",)

    def rows(self, positions: Any) -> np.ndarray:
        return self.scale * self.stored[np.asarray(positions) + self.shift]


def slopes(heads: int, largest: int = 8) -> list[float]:
    """2 ** (-8 i / heads) for the next smaller power of two, and every other of the next larger."""
    whole = 2 ** math.floor(math.log2(heads))
    first = [2 ** (-largest * (i + 1) / whole) for i in range(whole)]
    more = [2 ** (-largest * (i + 1) / (2 * whole)) for i in range(2 * whole)][::2]
    return first + more[: heads - whole]


@dataclass(frozen=True)
class Slopes:
    """A bias with a slope for each head: of distances, or of keys alone."""

    heads: int = 8
    of: str = "distance"  # "keys": slope × key; "offset": slope × (key − query)
    sign: float = -1.0
    masked: bool = False  # nothing is said of keys behind the query
    kinds: tuple[str, ...] = ("bias",)

    def bias(self, queries: Any, keys: Any) -> np.ndarray:
        out = np.zeros((self.heads, len(queries), len(keys)))
        for h, slope in enumerate(slopes(self.heads)):
            for i, q in enumerate(queries):
                for j, k in enumerate(keys):
                    number = {"distance": abs(k - q), "offset": k - q, "keys": k}[self.of]
                    out[h, i, j] = self.sign * slope * number
        return out


def bucket(offset: int, both: bool, count: int, largest: int) -> int:
    """The bucket of key − query, as Raffel et al. have it."""
    begin, n = 0, -offset
    if both:
        count //= 2
        begin, n = (count if n < 0 else 0), abs(n)
    n = max(n, 0)
    exact = count // 2
    if n < exact:
        return begin + n
    far = math.log(n / exact) / math.log(largest / exact) * (count - exact)
    return begin + min(exact + int(far), count - 1)


@dataclass(frozen=True, eq=False)
class Buckets:
    """A learned bias of buckets of distances: `stored` is (buckets, heads)."""

    stored: np.ndarray
    both: bool = True
    largest: int = 128
    scale: float = 1.0
    kinds: tuple[str, ...] = ("bias",)

    def bias(self, queries: Any, keys: Any) -> np.ndarray:
        count = len(self.stored)
        rows = [
            [self.stored[bucket(int(k - q), self.both, count, self.largest)] for k in keys]
            for q in queries
        ]
        return self.scale * np.moveaxis(np.array(rows, dtype=np.float64), -1, 0)


Right = Turn | Waves | Entries | Slopes | Buckets


@dataclass(frozen=True)
class Row:
    """A signature that somebody published, and what is right."""

    source: str  # repository and symbol
    target: Callable[[], Any]
    right: Right
    precision: str = "float32"
    options: dict[str, Any] = field(default_factory=dict)
    heads: int = 3  # that it is asked with, where the code has a number of its own


class Rows(list[Row]):
    """A library's rows; a function or class is one by a decorator, and so is what makes one."""

    def asked(self, source: str, right: Right, precision: str = "float32", **more: Any) -> Any:
        """The decorated function or class itself is what is asked."""

        def add(target: Any) -> Any:
            self.append(Row(source, lambda: target, right, precision, **more))
            return target

        return add

    def made(self, source: str, right: Right, precision: str = "float32", **more: Any) -> Any:
        """What the decorated function or class makes, called without arguments, is asked."""

        def add(make: Any) -> Any:
            self.append(Row(source, make, right, precision, **more))
            return make

        return add


# --- an answer beside what is right ---------------------------------------------------------------

# Of one length but one: JAX compiles for each.
RUN, LATER, JUMPS, ONE = [0, 1, 2, 3, 4], [3, 4, 5, 6, 7], [0, 3, 1, 11, 2], [4]
CALLS = (RUN, LATER, JUMPS, ONE, [300, 301, 302, 303, 304])
TWO_ROWS = [[0, 1, 2, 3, 4], [7, 8, 9, 10, 11]]


def off(got: Any, right: np.ndarray, positions: Any, precision: str, size: float = 1.0) -> str:
    """How an answer is wrong; empty where it is right."""
    got = np.asarray(got, dtype=np.float64)
    if got.shape != right.shape:
        return f"shape {got.shape}, right is {right.shape}"
    base, more = ROUNDING[precision]
    error = np.abs(got - right)
    bound = size * (base + more * float(np.max(np.abs(positions))))
    return "" if bool((error <= bound).all()) else f"off by {error.max():.3g} of {bound:.3g}"


def halved(waves: Any, pairs: int, pairing: str) -> np.ndarray:
    """Cosines or sines as (seq, pairs), from each once or twice."""
    waves = np.asarray(waves, dtype=np.float64)
    waves = waves.reshape(-1, waves.shape[-1])
    if waves.shape[-1] == pairs:
        return waves
    first, second = (
        (waves[:, :pairs], waves[:, pairs:])
        if pairing == "half"
        else (waves[:, ::2], waves[:, 1::2])
    )
    return first if np.array_equal(first, second) else waves


def width(right: Right, options: dict[str, Any]) -> int:
    """Channels of the head or row that is asked."""
    if isinstance(right, Entries):
        return right.stored.shape[-1]
    return options.get("dim", 64)


def waves(subject: Any, right: Turn, positions: Any) -> tuple[Any, np.ndarray]:
    """Cosines and sines side by side, as they are told and as they are right."""
    told = [halved(part, right.dim // 2, right.pairing) for part in subject.cos_sin(positions)]
    return np.stack(told), np.stack(right.cos_sin(positions))


def answer(subject: Any, row: Row, positions: Any) -> tuple[Any, np.ndarray]:
    """What a subject says at positions, and what is right."""
    right = row.right
    if isinstance(right, (Slopes, Buckets)):
        told = np.asarray(subject.bias(positions, positions), dtype=np.float64)
        return beside(right, told, positions, positions)
    if subject.kind == "table":
        if isinstance(right, Turn):
            right = Waves("cos_sin", right.dim, right.base)
        return subject.rows(positions), right.rows(positions)
    if not isinstance(right, Turn):
        return np.concatenate(subject.cos_sin(positions), -1), right.rows(positions)
    if subject.kind != "rotary":
        return waves(subject, right, positions)
    shape = (2, row.heads, np.shape(positions)[-1], row.options.get("dim", 64))
    x = np.random.default_rng(11).normal(size=shape)
    dtype = "float64" if row.precision == "float64" else "float32"
    return subject.rotate(x, positions, dtype=dtype), right.rotate(x, positions)


def beside(
    right: Slopes | Buckets, told: np.ndarray, queries: Any, keys: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Two biases as attention sees them: of keys alone, up to a constant for each query."""
    exact = right.bias(queries, keys)
    if isinstance(right, Slopes) and right.of != "distance" and told.shape == exact.shape:
        told, exact = told - told[..., :1], exact - exact[..., :1]
        if right.masked:
            hidden = np.asarray(keys)[None] > np.asarray(queries)[:, None]
            told, exact = np.where(hidden, 0, told), np.where(hidden, 0, exact)
    return told, exact
