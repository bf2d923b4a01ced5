"""Right functions in odd clothing, over NumPy: nobody may raise an alarm over them."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

import posenc
from posenc import scaling
from tests.detect.subject.loops import slopes

HALF, TWOS = posenc.RoPE(64, pairing="half"), posenc.RoPE(64, pairing="interleaved")


@dataclass(frozen=True)
class Dressed:
    """A function, and the spec that it follows."""

    name: str
    target: Callable[[], Any]
    spec: Any
    library: str = "numpy"
    options: dict[str, Any] = field(default_factory=dict)


CLOTHING: list[Dressed] = []


def dressed(name: str, spec: Any = HALF, library: str = "numpy", **options: Any) -> Any:
    def add(make: Any) -> Any:
        CLOTHING.append(Dressed(name, make, spec, library, options))
        return make

    return add


def angle(positions: Any, dim: int = 64, base: float = 10_000.0) -> Any:
    return np.multiply.outer(np.asarray(positions), base ** (-np.arange(dim // 2) / (dim // 2)))


def turned(x: Any, theta: Any) -> Any:
    """Halves, float64 at least, in the dtype of x."""
    theta = theta[:, None] if theta.ndim == 3 else theta
    a, b = np.split(np.asarray(x, dtype=np.float64), 2, axis=-1)
    cos, sin = np.cos(theta), np.sin(theta)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1).astype(x.dtype)


def plain(x: Any, positions: Any) -> Any:
    return turned(x, angle(positions, x.shape[-1]))


# --- over NumPy -----------------------------------------------------------------------------------


@dressed("a decorator with *args and **kwargs, and functools.wraps")
def wrapped() -> Any:
    def logged(function: Any) -> Any:
        @functools.wraps(function)
        def inner(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return inner

    return logged(logged(plain))


@dressed("a cache of cosines that grows, in a closure")
def closure() -> Any:
    cache: dict[str, Any] = {"rows": angle(np.arange(16))}

    def rotate(x: Any, positions: Any) -> Any:
        need = int(np.max(positions)) + 1
        if need > 100_000:
            return plain(x, positions)
        if len(cache["rows"]) < need:
            cache["rows"] = angle(np.arange(2 * need))
        return turned(x, cache["rows"][positions])

    return rotate


@dressed("float64 inputs meet float32 cosines")
def single_tables() -> Any:
    def rotate(q: Any, positions: Any) -> Any:
        theta = angle(positions)
        theta = theta[:, None] if theta.ndim == 3 else theta
        cos, sin = np.cos(theta).astype(np.float32), np.sin(theta).astype(np.float32)
        a, b = np.split(q, 2, axis=-1)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)

    return rotate


@dressed("returns an array that is not contiguous")
def transposed() -> Any:
    return lambda x, positions: np.moveaxis(np.ascontiguousarray(np.moveaxis(plain(x, positions), -1, 0)), 0, -1)  # fmt: skip  # noqa: E501


@dressed("turns in place, and returns what it was given")
def in_place() -> Any:
    def rotate_(x: Any, positions: Any) -> Any:
        x[...] = plain(x, positions)
        return x

    return rotate_


@dressed("takes whole numbers of Python alone: a list of int")
def whole_numbers() -> Any:
    def rotate(x: Any, positions: list[int]) -> Any:
        if not isinstance(positions, list) or not all(type(p) is int for p in positions):
            raise TypeError("positions is a list of int")
        return plain(x, np.array(positions))

    return rotate


@dressed("takes int32 alone")
def int32_alone() -> Any:
    def rotate(x: Any, position_ids: Any) -> Any:
        if position_ids.dtype != np.int32:
            raise TypeError(f"position_ids must be int32, not {position_ids.dtype}")
        return plain(x, position_ids.astype(np.int64))

    return rotate


@dressed("takes contiguous arrays alone")
def contiguous_alone() -> Any:
    def rotate(x: Any, positions: Any) -> Any:
        if not x.flags.c_contiguous:
            raise ValueError("x must be contiguous")
        return plain(x, positions)

    return rotate


@dressed("refuses positions from 2,048 on")
def bounded() -> Any:
    table = angle(np.arange(2048))

    def rotate(x: Any, positions: Any) -> Any:
        if np.min(positions) < 0:
            raise IndexError("a position is negative")
        return turned(x, table[positions])

    return rotate


@dressed("refuses more than 512 tokens")
def short_alone() -> Any:
    def rotate(x: Any, positions: Any) -> Any:
        if x.shape[-2] > 512:
            raise ValueError(f"{x.shape[-2]} tokens are more than 512")
        return plain(x, positions)

    return rotate


@dressed("rounds what it is given to float32, and returns float32")
def single() -> Any:
    return lambda x, positions: plain(x.astype(np.float32), positions)


@dressed("arguments that somebody else needs")
def more_arguments() -> Any:
    def rotate(
        x: Any, mask: Any = None, positions: Any = None, training: bool = False, rng: Any = None
    ) -> Any:
        if positions is None:
            raise ValueError("positions")
        return plain(x, positions)

    return rotate


@dressed("a named tuple with more in it than queries and keys")
def named_tuple() -> Any:
    class Output(NamedTuple):
        query: Any
        key: Any
        length: int

    def rotate(query: Any, key: Any, positions: Any) -> Output:
        return Output(plain(query, positions), plain(key, positions), query.shape[-2])

    return rotate


@dressed("fewer heads of keys than of queries")
def grouped() -> Any:
    def rotate(q: Any, k: Any, positions: Any) -> Any:
        if q.shape[1] % k.shape[1]:
            raise ValueError("heads of queries are no multiple of those of keys")
        return plain(q, positions), plain(k, positions)

    return rotate


@dressed("warns and prints at each call")
def talks() -> Any:
    def rotate(x: Any, positions: Any) -> Any:
        warnings.warn("use another", DeprecationWarning, stacklevel=2)
        print("rotating", x.shape)
        return plain(x, positions)

    return rotate


@dressed("positions as floats")
def floats() -> Any:
    def rotate(x: Any, t: Any) -> Any:
        return plain(x, np.asarray(t, dtype=np.float64))

    return rotate


@dressed(
    "positions divided by 4", posenc.RoPE(64, pairing="half", base=1e6, scaling=scaling.Linear(4))
)
def interpolated() -> Any:
    def rotate(x: Any, positions: Any) -> Any:
        return turned(x, angle(np.asarray(positions) / 4, x.shape[-1], 1e6))

    return rotate


@dressed("what turns is the first half of the head", posenc.RoPE(32, pairing="half"))
def part() -> Any:
    def rotate(x: Any, positions: Any) -> Any:
        rot, rest = x[..., :32], x[..., 32:]
        return np.concatenate([turned(rot, angle(positions, 32)), rest], axis=-1)

    return rotate


@dressed("an object with a method that is called otherwise")
def method() -> Any:
    class Rotary:
        def __init__(self) -> None:
            self.calls = 0

        def rotate_queries(self, q: Any, *, positions: Any) -> Any:
            self.calls += 1
            return plain(q, positions)

    return Rotary().rotate_queries


# --- tables and biases ----------------------------------------------------------------------------


@dressed("a table of odd width", posenc.Sinusoidal(63))
def odd_width() -> Any:
    def table(positions: Any) -> Any:
        speeds = 10_000.0 ** (-2 * np.arange(32) / 63)
        theta = np.multiply.outer(np.asarray(positions), speeds)
        return np.stack([np.sin(theta), np.cos(theta)], axis=-1).reshape(len(theta), -1)[:, :63]

    return table


@dressed("a table behind lru_cache, of (length, dim)", posenc.Sinusoidal(64))
def cached() -> Any:
    @functools.lru_cache
    def table(length: int, dim: int = 64) -> Any:
        theta = angle(np.arange(length), dim)
        return np.stack([np.sin(theta), np.cos(theta)], axis=-1).reshape(length, dim)

    return table


@dressed("a bias of (1, heads, queries, keys) from lengths", posenc.ALiBi(8), kind="bias")
def of_lengths() -> Any:
    def bias(q_len: int, k_len: int) -> Any:
        far = np.abs(np.arange(k_len)[None] - np.arange(k_len - q_len, k_len)[:, None])
        return (-np.array(slopes(8))[:, None, None] * far)[None]

    return bias


@dressed("a bias of 12 heads from a matrix of offsets", posenc.ALiBi(12), kind="bias")
def of_offsets() -> Any:
    def bias(relative_position: Any) -> Any:
        return -np.array(slopes(12))[:, None, None] * np.abs(relative_position)

    return bias


@dressed("a bias in float32, with a row for each sequence", posenc.ALiBi(8), kind="bias")
def of_rows() -> Any:
    def alibi_bias(q_positions: Any, k_positions: Any) -> Any:
        far = np.abs(np.atleast_2d(k_positions)[:, None] - np.atleast_2d(q_positions)[..., None])
        return -np.array(slopes(8), dtype=np.float32)[:, None, None] * far[:, None].astype(
            np.float32
        )

    return alibi_bias
