"""What a rotation does, seen in numbers.

Whatever a side answers (frequencies, cosines and sines, rotated vectors) becomes one complex number
for each position and pair, cos + i sin with its factor.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from posenc import functional
from posenc._core.errors import PosencError
from posenc.encodings.rotary.base import RotarySpec

__all__ = [
    "NEAR",
    "SEEN",
    "UNIT",
    "Finding",
    "Seen",
    "allowed",
    "attempt",
    "estimated",
    "expected",
    "frequencies_of",
    "of_frequencies",
    "of_rotations",
    "probes",
    "unit_of",
]

# A sequence short enough for every model; single positions beyond are asked one by one.
NEAR = np.array([0, 1, 2, 3, 5, 17, 64, 255, 257, 511])
UNIT = {"float64": 2.0**-24, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
SLACK = 4.0  # on the rounding of a ladder in float32, which scalings add to
SEEN = 1e-3  # a difference that is called one where it begins


class Finding(NamedTuple):
    """A field, what it is on the side of the spec and on the other, and how large the effect is."""

    field: str
    ours: str
    theirs: str
    size: float = math.nan
    position: int | None = None
    what: str = "cos and sin"


class Seen(NamedTuple):
    """Complex factors of pairs at positions."""

    positions: np.ndarray  # (P,) or (P, axes)
    values: np.ndarray  # (P, pairs)
    length: int  # of the sequence they were asked in
    unit: float = UNIT["float32"]  # what the answers were rounded to
    sized: bool = True  # whether the sizes of the values mean anything

    @property
    def first(self) -> np.ndarray:
        """One coordinate of each position."""
        return self.positions if self.positions.ndim == 1 else self.positions.max(axis=-1)


def expected(spec: RotarySpec, seen: Seen) -> np.ndarray:
    """What the spec has there, in float64."""
    fixed = spec.at(seen.length)
    cos, sin = functional.cos_sin(fixed, seen.positions, dtype="float64")
    return np.asarray(cos) + 1j * np.asarray(sin)


def allowed(wanted: np.ndarray, frequencies: np.ndarray, seen: Seen) -> np.ndarray:
    """How far code that computes angles in float32 may be off: (P, pairs)."""
    u, size = UNIT["float32"], np.abs(wanted)
    turning = np.where(frequencies > 0, frequencies, 1.0)
    reach = np.abs(seen.first[:, None] * frequencies) * (4 + np.abs(np.log(turning)))
    return SLACK * u * (reach + 2) * size + 4 * seen.unit * size


# --- from what a side answers ---------------------------------------------------------------------


def of_frequencies(frequencies: np.ndarray, length: int) -> Seen:
    """What these frequencies, in radians per position, do at near positions."""
    return Seen(NEAR, np.exp(1j * NEAR[:, None] * frequencies), length, sized=False)


def probes(width: int, positions: int) -> np.ndarray:
    """Four inputs, (4, 1, 1, positions, width), exact in every dtype, alike at every position."""
    rows = np.random.default_rng(0).integers(-8, 9, (4, width)) / 8
    return np.broadcast_to(rows[:, None, None, None], (4, 1, 1, positions, width)).copy()


def of_rotations(
    spec: RotarySpec, x: np.ndarray, y: np.ndarray
) -> tuple[RotarySpec, np.ndarray, float]:
    """The pairing and width under which vectors were turned, the factors, and what is left over.

    Parameters
    ----------
    spec : RotarySpec
        Tried first.
    x, y : ndarray
        (4, positions, channels), before and after.

    Returns
    -------
    tuple
        The spec with the pairing and width that fit, (positions, pairs), and the largest residual.
    """
    best: tuple[RotarySpec, np.ndarray, float] | None = None
    for candidate in _pairings(spec, x.shape[-1]):
        factors, left = _fit(candidate, x, y)
        if best is None or left < best[2] / 4:
            best = candidate, factors, left
        if left < 1e-5:
            break
    assert best is not None  # noqa: S101 - the spec itself was tried
    return best


def _pairings(spec: RotarySpec, width: int) -> Iterator[RotarySpec]:
    yield spec
    channels = spec.channels
    sizes = [
        spec.dim,
        *(d for d in (width, width // 2, width // 4) if d != spec.dim and d % 2 == 0),
    ]
    orders = sorted(("half", "interleaved"), key=lambda word: word != channels.order)
    parts = sorted(("leading", "trailing"), key=lambda word: word != channels.part)
    outputs = sorted(("same", "half"), key=lambda word: word != channels.output)
    for dim, order, part, output in itertools.product(sizes, orders, parts, outputs):
        changes = {"order": order, "part": part, "output": output, "blocks": ()}
        made = attempt(spec, pairing=channels.replace(**changes), dim=dim)
        if made is not None:
            yield made


def _fit(spec: RotarySpec, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float]:
    width = x.shape[-1]
    if spec.dim > width or y.shape != x.shape:
        return np.full((x.shape[1], spec.pairs), np.nan + 0j), math.inf
    channels = spec.channels
    begin = 0 if channels.part == "leading" else width - spec.dim
    first, second = begin + np.array(channels.channels(spec.dim)).T
    into, and_into = first, second
    if channels.output == "half":
        into = begin + np.arange(spec.pairs)
        and_into = into + spec.pairs
    a, b, u, v = x[..., first], x[..., second], y[..., into], y[..., and_into]
    size = np.sum(a * a + b * b, axis=0)
    c, s = np.sum(a * u + b * v, axis=0) / size, np.sum(a * v - b * u, axis=0) / size
    left = max(
        float(np.max(np.abs(u - (a * c - b * s)))), float(np.max(np.abs(v - (b * c + a * s))))
    )
    rest = np.setdiff1d(np.arange(width), np.r_[first, second])
    if rest.size:
        left = max(left, float(np.max(np.abs(y[..., rest] - x[..., rest]))))
    sign = 1 if channels.direction == "forward" else -1
    return c + 1j * sign * s, left if math.isfinite(left) else math.inf


def unit_of(values: np.ndarray) -> np.ndarray:
    """Values without their sizes."""
    size = np.abs(values)
    return values / np.where(size > 0, size, 1.0)


def frequencies_of(spec: RotarySpec, length: int) -> np.ndarray:
    """Radians per position of each pair, at a length of the sequence; 0 where none are known."""
    try:
        found = functional.frequencies(spec.at(length))
    except PosencError:
        return np.zeros(spec.pairs)
    return found if found.ndim == 1 else np.abs(found).sum(axis=0)


def attempt(spec: RotarySpec, **changes: Any) -> RotarySpec | None:
    """The spec with other fields, or None where that cannot be."""
    try:
        return spec.replace(**changes)
    except PosencError:
        return None


def estimated(seen: Seen) -> np.ndarray:
    """Radians per position, from ever farther positions."""
    values, positions = unit_of(seen.values), seen.first
    phases = np.angle(values * np.conj(values[0]))
    found, sure = phases[1] / max(positions[1] - positions[0], 1), np.ones(phases.shape[1], bool)
    for place, phase in zip(positions[2:] - positions[0], phases[2:], strict=True):
        left = np.angle(np.exp(1j * (phase - found * place)))
        sure &= np.abs(left) < 0.5
        found = np.where(sure, found + left / place, found)
    return found
