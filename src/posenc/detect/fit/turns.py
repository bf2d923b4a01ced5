"""What a rotation does, seen in numbers.

Whatever a side answers (frequencies, cosines and sines, rotated vectors) becomes one complex number
for each position and pair, cos + i sin with its factor.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from posenc import functional
from posenc._core.errors import PosencError
from posenc.detect.fit import tolerances
from posenc.encodings.rotary.base import RotarySpec

NEAR = np.array([0, 1, 2, 3, 5, 17, 64, 255, 257, 511])  # by which changes are told apart
DENSE = 4096  # every position up to it is asked for
FAR = (131_071, 2**20)
CONSIDERABLE = 1e-3  # a difference that is called one where it begins
ROOM = 2.0  # on the bounds of a contract: thousands of positions, and code that rounds once more
ROUNDED = 1e-5  # of rotated vectors, that float32 leaves
# How pairs may stand in vectors.
WORDS = {
    "order": ("half", "interleaved"),
    "part": ("leading", "trailing"),
    "output": ("same", "half"),
}


class PairTurns(NamedTuple):
    """Complex factors of pairs at positions."""

    positions: np.ndarray  # (P,) or (P, axes)
    values: np.ndarray  # (P, pairs)
    length: int  # of the sequence they were asked in
    dtype: str = "float32"  # what the side computes in
    sized: bool = True  # whether the sizes of the values mean anything
    rotated: bool = False  # whether they come from vectors that were rotated
    order: str = ""  # in which the positions stood, where they did not ascend

    @property
    def first(self) -> np.ndarray:
        """One coordinate of each position."""
        return self.positions if self.positions.ndim == 1 else self.positions.max(axis=-1)

    def rows(self, chosen: np.ndarray | slice) -> PairTurns:
        """Some of the positions."""
        return self._replace(positions=self.positions[chosen], values=self.values[chosen])


def expected(spec: RotarySpec, seen: PairTurns) -> np.ndarray:
    """What the spec has there, in float64."""
    cos, sin = functional.cos_sin(spec.at(seen.length), seen.positions, dtype="float64")
    return np.asarray(cos) + 1j * np.asarray(sin)


def off_by(spec: RotarySpec, seen: PairTurns, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The largest difference at each position, and which are more than the dtype explains."""
    values = seen.values if seen.sized else unit_of(seen.values) * np.abs(wanted)
    off = values - wanted
    wrong = ~np.all(np.abs(off) <= allowed(spec, seen, np.abs(wanted)), axis=1)
    return parts(off).max(axis=1), wrong


def same_turns(seen: PairTurns, candidate: RotarySpec | np.ndarray, room: np.ndarray) -> bool:
    """Whether what is seen, of unit size, is what another spec has, or these numbers are.

    The room is that of numbers; a spec has its own.
    """
    values = candidate
    if isinstance(candidate, RotarySpec):
        try:
            values, room = unit_of(expected(candidate, seen)), allowed(candidate, seen, 1.0)
        except PosencError:  # positions that it does not have
            return False
    alike = values.shape == seen.values.shape  # type: ignore[union-attr]
    # Where angles are hardly known, chance explains some of them, and of many none.
    return alike and bool(np.all(np.abs(seen.values - values) <= np.minimum(room, 1.0)))


def allowed(spec: RotarySpec, seen: PairTurns, size: Any) -> np.ndarray:
    """What counts as no difference, (P, pairs): the bounds of a contract, `ROOM` times."""
    frequencies = frequencies_of(spec, seen.length)
    start = getattr(getattr(spec, "arrangement", None), "start", 0)
    bounds = tolerances.of_angles((seen.first[:, None] + start) * frequencies, frequencies, size)
    return ROOM * (tolerances.of_turned(bounds, size) if seen.rotated else bounds)[seen.dtype]


def begins(off: np.ndarray, positions: np.ndarray) -> tuple[float, int]:
    """The largest difference, and the first position of a considerable one; NaN is infinite."""
    off = np.where(np.isnan(off), np.inf, off)
    return float(off.max()), int(positions[off >= min(CONSIDERABLE, off.max() / 2)].min())


def parts(off: np.ndarray) -> np.ndarray:
    """The larger difference of cosine and sine."""
    return np.maximum(np.abs(off.real), np.abs(off.imag))


def told(off: np.ndarray, positions: np.ndarray) -> tuple[float, int, str]:
    """What `begins` says, and of which numbers."""
    return *begins(off, positions), f"cos and sin to position {int(positions.max()):,}"


# --- from what a side answers ---------------------------------------------------------------------


def of_frequencies(frequencies: np.ndarray, length: int, dtype: str) -> PairTurns:
    """What these frequencies, in radians per position, do at positions near and far."""
    places = np.r_[NEAR, DENSE, FAR]
    return PairTurns(places, np.exp(1j * places[:, None] * frequencies), length, dtype, sized=False)


def probes(width: int, positions: int, heads: int) -> np.ndarray:
    """Inputs (1, heads, positions, width), exact in every dtype, alike at every position."""
    rng = np.random.default_rng(0)
    rows = rng.integers(1, 9, (heads, width)) * rng.choice([-1, 1], (heads, width)) / 8
    rows *= np.resize([1.0, 1.0, 1024.0, 1 / 64], heads)[:, None]  # large and small ones
    return np.broadcast_to(rows[None, :, None], (1, heads, positions, width)).copy()


def of_rotations(
    spec: RotarySpec, x: np.ndarray, y: np.ndarray
) -> tuple[RotarySpec, np.ndarray, np.ndarray]:
    """The pairing and width under which vectors were turned, the factors, and what is left over.

    x and y are (heads, positions, channels), before and after. The spec is tried first, and that
    which fits comes with the factors of most heads, (positions, pairs), and the largest residual of
    each head at each position.
    """
    best: tuple[RotarySpec, np.ndarray, np.ndarray] | None = None
    for candidate in pairings(spec, x.shape[-1]):
        factors, left = _fit(candidate, x, y)
        if best is None or np.median(left) < np.median(best[2]) / 4:
            best = candidate, factors, left
        if np.median(left) < ROUNDED:
            break
    assert best is not None  # noqa: S101 - the spec itself was tried
    return best


def pairings(spec: RotarySpec, width: int) -> Iterator[RotarySpec]:
    """The spec, and the same angles on other channels of heads so wide."""
    yield spec
    channels = spec.channels
    others = (d for d in (width, width // 2, width // 4) if d != spec.dim and d % 2 == 0)
    # The word that the spec has comes first.
    words = [sorted(own, key=getattr(channels, name).__ne__) for name, own in WORDS.items()]
    for dim, *chosen in itertools.product((spec.dim, *others), *words):
        candidate = attempt(
            spec.replace,
            pairing=channels.replace(**dict(zip(WORDS, chosen, strict=True)), blocks=()),
            dim=dim,
        )
        if candidate is not None:
            yield candidate


def _fit(spec: RotarySpec, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    width, channels = x.shape[-1], spec.channels
    if spec.dim > width:
        return np.full((x.shape[1], spec.pairs), np.nan + 0j), np.full(x.shape[:2], math.inf)
    begin = 0 if channels.part == "leading" else width - spec.dim
    first, second = begin + np.array(channels.channels(spec.dim)).T
    into, and_into = (
        (begin + np.arange(2 * spec.pairs).reshape(2, -1))
        if channels.output == "half"
        else (first, second)
    )
    a, b, u, v = x[..., first], x[..., second], y[..., into], y[..., and_into]
    size = a * a + b * b
    pair = np.array([(a * u + b * v) / size, (a * v - b * u) / size])
    c, s = np.median(pair, axis=1) if len(x) > 1 else pair[:, 0]
    candidate = x.copy()
    candidate[..., into], candidate[..., and_into] = a * c - b * s, b * c + a * s
    left = np.abs(y - candidate).max(axis=-1) / np.abs(x).max(axis=-1)
    s = s if channels.direction == "forward" else -s
    return c + 1j * s, np.where(np.isfinite(left), left, math.inf)


def unit_of(values: np.ndarray) -> np.ndarray:
    """Values without their sizes."""
    size = np.abs(values)
    return values / np.where(size > 0, size, 1.0)


def frequencies_of(spec: RotarySpec, length: int) -> np.ndarray:
    """Radians per position of each pair, at a length of the sequence; 0 where none are known."""
    try:
        rows = functional.frequencies(spec.at(length))
    except PosencError:
        return np.zeros(spec.pairs)
    return rows if rows.ndim == 1 else np.abs(rows).sum(axis=0)


def attempt(make: Callable[..., Any], *arguments: Any, **fields: Any) -> Any:
    """What a spec makes, such as one with other fields, or None where that cannot be."""
    try:
        return make(*arguments, **fields)
    except (PosencError, ArithmeticError):
        return None


def estimated(seen: PairTurns) -> np.ndarray:
    """Radians per position, from ever farther positions."""
    positions, rows = np.unique(seen.first, return_index=True)
    values = unit_of(seen.values[rows])
    if len(positions) == 1:
        return np.zeros(values.shape[1])
    phases = np.angle(values * np.conj(values[0]))
    speed, sure = phases[1] / max(positions[1] - positions[0], 1), np.ones(phases.shape[1], bool)
    for place, phase in zip(positions[2:] - positions[0], phases[2:], strict=True):
        left = np.angle(np.exp(1j * (phase - speed * place)))
        sure &= np.abs(left) < 0.5
        speed = np.where(sure, speed + left / place, speed)
    return speed
