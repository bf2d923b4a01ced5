"""Rotations with hidden faults, and what is honestly to be expected of a survey of each.

They were written without knowledge of what the sampler asks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import posenc

ROPE = posenc.RoPE(64, pairing="half")
TWOS = posenc.RoPE(64, pairing="interleaved")
SPEEDS = 10_000.0 ** (-np.arange(32) / 32)


@dataclass(frozen=True)
class Fault:
    """A function that pretends to follow a spec."""

    name: str
    target: Callable[[], Any]
    spec: Any
    met: bool  # whether a survey is honestly to be expected to meet it
    says: str  # a pattern of what a finding says, or empty
    kind: str | None = None
    names: str = ""  # a pattern of what `infer` says of the numbers


FAULTS: list[Fault] = []


def fault(
    name: str,
    met: bool,
    says: str = "",
    spec: Any = ROPE,
    kind: str | None = None,
    names: str = "",
) -> Any:
    """What the decorated function makes is asked."""

    def add(make: Any) -> Any:
        FAULTS.append(Fault(name, make, spec, met, says, kind, names))
        return make

    return add


def turn(x: Any, positions: Any, speeds: Any = SPEEDS, gain: Any = 1.0) -> Any:
    """The right rotation of halves: x (..., heads, seq, dim), positions (seq,) or (batch, seq)."""
    theta = np.multiply.outer(np.asarray(positions, dtype=np.float64), speeds)
    theta = theta[:, None] if theta.ndim == 3 else theta
    n = len(speeds)
    a, b = np.asarray(x[..., :n], dtype=np.float64), np.asarray(x[..., n : 2 * n], dtype=np.float64)
    cos, sin = gain * np.cos(theta), gain * np.sin(theta)
    rest = x[..., 2 * n :]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin, rest], axis=-1).astype(x.dtype)


def of_positions(change: Callable[[Any], Any]) -> Callable[[], Any]:
    """A rotation at positions that something was done to."""

    def make() -> Any:
        def rotate(x: Any, positions: Any) -> Any:
            return turn(x, change(np.asarray(positions)))

        return rotate

    return make


def of_speeds(change: Callable[[Any], Any]) -> Callable[[], Any]:
    """A rotation with frequencies that something was done to."""

    def make() -> Any:
        speeds = SPEEDS.copy()
        change(speeds)
        return lambda x, positions: turn(x, positions, speeds)

    return make


def between(begin: int, end: int, by: int = 1) -> Callable[[Any], Any]:
    return lambda p: p + by * ((p >= begin) & (p < end))


def bf16(numbers: Any) -> Any:
    """Rounded to eight bits of mantissa."""
    bits = np.asarray(numbers, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)).view(np.float32)


# --- far positions --------------------------------------------------------------------------------

# name, what is done to positions, whether it is to be met, what a finding says
PLACES: tuple[tuple[str, Callable[[Any], Any], bool, str], ...] = (
    ("a stretch of one percent, off by one", between(614_400, 624_886), True, r"61\d,?\d{3}|62\d"),
    ("a stretch of one percent near the end", between(1_030_000, 1_040_486, -1), True, r"1,?03"),
    ("a stretch of one per thousand", between(333_333, 334_333), False, ""),
    ("sixteen positions, far away", between(700_001, 700_017), False, ""),
    ("one percent, below 16,384", between(9_000, 9_400), False, ""),
    ("from 4,097 on", lambda p: p + (p > 4_096), True, "position"),
    ("clamped at 30,000", lambda p: np.minimum(p, 30_000), True, "position"),
    ("clamped at 131,071", lambda p: np.minimum(p, 131_071), True, "position"),
    ("wraps at 2^16", lambda p: p % 65_536, True, "position"),
    (
        "wraps at 2^15 as int16 does",
        lambda p: p.astype(np.int16).astype(np.int64),
        True,
        "position",
    ),
    (
        "int32 overflows where positions are multiplied by 8,192",
        lambda p: (p.astype(np.int32) * np.int32(8_192)).astype(np.int64) // 8_192,
        True,
        "position",
    ),
    ("positions in float16", lambda p: p.astype(np.float16).astype(np.float64), True, "position"),
    ("positions in bfloat16", lambda p: bf16(p).astype(np.float64), True, "position"),
    (
        "odd positions beyond 100,000",
        lambda p: p + ((p > 100_000) & (p % 2 == 1)),
        True,
        "position",
    ),
    ("multiples of 8,192 alone, off by one", lambda p: p - ((p % 8_192 == 0) & (p > 0)), True, ""),
    ("the end of each page of 4,096", lambda p: p - (p % 4_096 == 4_095), True, ""),
    ("multiples of 10,007", lambda p: p + ((p % 10_007 == 0) & (p > 0)), False, ""),
    ("position 0 counts as 1", lambda p: np.maximum(p, 1), True, "position 0"),
    ("negated from 500,000 on", lambda p: np.where(p < 500_000, p, -p), True, "position"),
)
for _name, _change, _met, _says in PLACES:
    fault(_name, _met, _says)(of_positions(_change))


# --- how the positions of a call stand to each other ----------------------------------------------

ORDERS: tuple[tuple[str, Callable[[Any], Any], bool, str], ...] = (
    ("jumps are ignored", lambda p: p[..., :1] + np.arange(p.shape[-1]), True, "position"),
    ("sorted first", lambda p: np.sort(p, axis=-1), True, "position"),
    (
        "repeated positions count on",
        lambda p: (
            p + np.concatenate([np.zeros_like(p[..., :1]), np.cumsum(np.diff(p) == 0, -1)], -1)
        ),
        True,
        "position",
    ),
    (
        "a repeated 0, as left padding has it, turns by 1",
        lambda p: np.where((p == 0) & (np.arange(p.shape[-1]) > 0), 1, p),
        True,
        "position",
    ),
    (
        "positions that fall are taken as rising",
        lambda p: p[..., ::-1] if p.shape[-1] > 1 and np.all(np.diff(p) < 0) else p,
        True,
        "",
    ),
    (
        "a jump of more than 100,000 is taken as one of 1",
        lambda p: (
            p
            if p.shape[-1] < 2
            else p[..., :1]
            + np.concatenate(
                [
                    np.zeros_like(p[..., :1]),
                    np.cumsum(np.where(np.abs(np.diff(p)) > 100_000, 1, np.diff(p)), -1),
                ],
                -1,
            )
        ),
        True,
        "",
    ),
    (
        "the first row's positions serve all rows",
        lambda p: np.broadcast_to(p[:1], p.shape) if p.ndim == 2 else p,
        True,
        "row",
    ),
    (
        "the last of many rows is off by one",
        lambda p: p + (np.arange(len(p)) == 3)[:, None] if p.ndim == 2 else p,
        False,
        "row",
    ),
)
for _name, _change, _met, _says in ORDERS:
    fault(_name, _met, _says)(of_positions(_change))


# --- lengths --------------------------------------------------------------------------------------


def at_length(wrong: Callable[[int], bool]) -> Callable[[Any], Any]:
    """Off by one where the number of tokens is such."""
    return lambda p: p + 1 if wrong(p.shape[-1]) else p


LENGTHS: tuple[tuple[str, Callable[[int], bool], bool, str], ...] = (
    ("17 tokens", lambda n: n == 17, True, "17 tokens"),
    ("1,024 tokens", lambda n: n == 1_024, True, "1,?024 tokens"),
    ("1,025 tokens", lambda n: n == 1_025, True, "1,?025 tokens"),
    ("777 tokens", lambda n: n == 777, False, ""),
    ("more than 2,048 tokens", lambda n: n > 2_048, True, "tokens"),
    ("multiples of 128 tokens", lambda n: n % 128 == 0, True, "tokens"),
    ("a prime number of tokens above 100", lambda n: n in (101, 211, 307, 401, 503), False, ""),
    ("200 to 239 tokens", lambda n: 200 <= n < 240, False, ""),
    ("two tokens", lambda n: n == 2, True, "2 tokens"),
)
for _name, _wrong, _met, _says in LENGTHS:
    fault(_name, _met, _says)(of_positions(at_length(_wrong)))
fault("one token turns by the position before", True, "one token|1 token")(
    of_positions(lambda p: p - 1 if p.shape[-1] == 1 else p)
)
fault("one token, beyond position 1,000", True, "token")(
    of_positions(lambda p: p + (p > 1_000) if p.shape[-1] == 1 else p)
)
fault("the last token of an even number does not turn", True, "token")(
    of_positions(
        lambda p: p * (np.arange(p.shape[-1]) + 1 < p.shape[-1]) if p.shape[-1] % 2 == 0 else p
    )
)


# --- frequencies ----------------------------------------------------------------------------------


def multiplied(j: int, by: float) -> Callable[[Any], Any]:
    def change(speeds: Any) -> None:
        speeds[j] *= by

    return change


def exchanged(speeds: Any) -> None:
    speeds[[10, 11]] = speeds[[11, 10]]


def rounded(speeds: Any) -> None:
    speeds[:] = bf16(speeds)


SPEED_FAULTS: tuple[tuple[str, Callable[[Any], Any], str], ...] = (
    ("pair 20 is one percent fast", multiplied(20, 1.01), "pair 20"),
    ("pair 5 turns backward", multiplied(5, -1.0), "pair 5"),
    ("the slowest pair stands still", multiplied(31, 0.0), ""),
    ("the slowest pair is 2e-4 fast", multiplied(31, 1.0002), "pair 31"),
    ("pair 13 is 1e-5 fast", multiplied(13, 1.00001), "pair 13"),
    ("pairs 10 and 11 are exchanged", exchanged, ""),
    ("frequencies in bfloat16", rounded, "bfloat16|pairs?"),
)
for _name, _alter, _says in SPEED_FAULTS:
    fault(_name, True, names=_says)(of_speeds(_alter))
fault("the base is 10,001", True)(
    lambda: lambda x, positions: turn(x, positions, 10_001.0 ** (-np.arange(32) / 32))
)
fault("a magnitude of 1.001", True, "")(
    lambda: lambda x, positions: turn(x, positions, SPEEDS, 1.001)
)


@fault("a magnitude that grows by 1e-7 for each position", True, "")
def growing() -> Any:
    def rotate(x: Any, positions: Any) -> Any:
        gain = 1 + 1e-7 * np.asarray(positions, dtype=np.float64)[..., None]
        return turn(x, positions, SPEEDS, gain[:, None] if gain.ndim == 3 else gain)

    return rotate
