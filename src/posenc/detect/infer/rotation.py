"""From the angles of pairs to the encoding that turns them so."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from posenc._core.errors import PosencError
from posenc._core.numeric.arrangement import Arrangement
from posenc.detect.identify import FrequencyFit, bits_of, fit_frequencies, tolerance_of
from posenc.detect.infer.angular_speed import lines_of, wrapped
from posenc.detect.infer.channel_pairs import channels_of, placed
from posenc.detect.infer.pairs import FLOAT32, NotARotationError, Turns
from posenc.detect.infer.rotation_specs import (
    RotationFit,
    arrangements,
    decaying,
    listed,
    mixed,
    multiples,
    tidy,
)
from posenc.encodings.rotary.magnitude import RotaryMagnitude
from posenc.encodings.rotary.pairing import Pairing
from posenc.encodings.rotary.rope import RoPE
from posenc.functional import frequencies as frequencies_of
from posenc.scaling.base import Scaling
from posenc.scaling.ntk import NTK

LARGEST_START = 2**16
MOST_OPTIONS = 6
OURS = 2.0**-61  # radians per position by which the phases of this library may be wrong
NAMED = 14.0  # bits to write a base that nobody chose


class MeasuredTurns(NamedTuple):
    """The pairs that were seen, and how well their frequencies are known."""

    inputs: np.ndarray  # (2, pairs), channels
    outputs: np.ndarray  # (2, pairs)
    frequency: np.ndarray  # (axes, pairs), radians per step
    error: np.ndarray  # (pairs,), of the frequencies
    eps: float  # half a unit of the last place of the arithmetic

    def allowed(
        self, x: np.ndarray, y: np.ndarray, positions: np.ndarray, eps: float
    ) -> np.ndarray:
        """The difference that the arithmetic of the implementation explains.

        Frequencies and angles are rounded, so what is allowed grows with the angle.
        """
        inner = np.hypot(*(x[..., c] for c in self.inputs))
        outer = np.hypot(*(y[..., c] for c in self.outputs))
        with np.errstate(divide="ignore", invalid="ignore"):
            grown = np.nan_to_num(np.abs(np.log(outer / inner)), posinf=1e3)
        f, p = np.abs(self.frequency), np.abs(positions)
        angle = (p @ f) * tolerance_of(f.max(axis=0), self.eps, self.eps)
        angle += p.max(axis=-1, initial=0)[..., None] * (self.error + OURS)
        slack = outer * (angle + 8 * eps + 8 * self.eps * (1 + grown)) + 1e-37
        total = 4 * eps * np.abs(x)
        for channels in self.outputs:
            total[..., channels] = slack
        return np.asarray(total)


def measured(turns: Turns, axes: tuple[str, ...]) -> MeasuredTurns:
    """What is known of the pairs before they get a name."""
    lines = lines_of(turns, axes)
    total = np.abs(lines.frequency).max(axis=0)
    eps = turns.eps
    # Code in float64 may have been given frequencies in float32.
    if (np.abs(total.astype(np.float32) - total) <= 4 * lines.error + 4 * eps * total).all():
        eps = max(eps, FLOAT32) if _many_digits(total) else eps
    a, b = (np.array(pairs, dtype=int).reshape(-1, 2).T for pairs in (turns.pairs, turns.outputs))
    return MeasuredTurns(a, b, lines.frequency, lines.error, eps)


def _many_digits(values: np.ndarray) -> bool:
    """Whether numbers fill a float32, as frequencies do: a few powers of two do not."""
    bits = np.unique(values[values > 0].astype(np.float32).view(np.uint32) & 0xFFFF)
    return len(bits) > 2


def rotations_of(
    turns: Turns, axes: tuple[str, ...], base: float | None, unit: float
) -> list[RotationFit]:
    """The encodings that some turns may be of, the likeliest first."""
    if not turns.pairs:
        raise NotARotationError("nothing turns: every channel passes through")
    lines = lines_of(turns, axes)
    notes: list[str] = []
    mixing = (np.abs(lines.frequency) > lines.error).sum(axis=0) > 1
    signs = np.sign(lines.frequency.sum(axis=0))
    backward = bool((signs <= 0).all() and (signs < 0).any())
    flipped = (signs < 0) & (not backward) & (not mixing.any())
    places = channels_of(turns, lines, flipped)
    pairing, index, channels = places
    if channels is not None:
        notes.append("its pairs are neither halves nor neighbours")
    if backward:
        pairing = pairing.replace(direction="backward")
        places = places._replace(pairing=pairing)
    sense = np.where(flipped | backward, -1.0, 1.0)
    lines = lines._replace(frequency=sense * lines.frequency, origin=sense * lines.origin)
    if mixing.any():
        return [mixed(lines, places, axes, unit, notes)]
    frequency, error = placed(lines, index)
    origin = np.zeros(len(index))
    origin[index >= 0] = lines.origin[index[index >= 0]]
    start = _start(frequency.sum(axis=0), error, origin)
    kept = index >= 0
    sizes = turns.size[:, index[kept]]
    factor = float(np.median(sizes))
    if sizes.size and np.abs(sizes / factor - 1).max() > 2e-4:
        return [decaying(turns, frequency[0], sizes, places, notes)]
    factor = 1.0 if abs(factor - 1) < 2e-6 else factor
    real = unit != 1 or bool((turns.positions != np.rint(turns.positions)).any())
    options = _ropes(
        frequency / unit,
        np.where(frequency.sum(axis=0) > 0, error / unit, 0.0),
        pairing,
        axes,
        factor=factor,
        start=start,
        base=base,
        real=real,
        eps=turns.eps,
    )
    return [
        RotationFit(spec, {}, channels, "query", (*notes, *more))
        for spec, more in itertools.islice(options, MOST_OPTIONS)
    ]


def _start(frequency: np.ndarray, error: np.ndarray, origin: np.ndarray) -> int:
    """The position that the first one is computed at."""
    turning = frequency > 0
    if not np.abs(origin[turning]).max(initial=0.0) > 2e-6:
        return 0
    slowest = int(np.argmin(np.where(turning, frequency, math.inf)))
    guess = origin[slowest] / frequency[slowest]
    near = int(np.clip(round(guess), -LARGEST_START, LARGEST_START))
    for start in sorted(range(near - 8, near + 9), key=lambda s: abs(s - guess)):
        off = np.abs(wrapped(origin - start * frequency))[turning]
        if (off <= 1e-5 + 8 * abs(start) * (FLOAT32 * frequency + error)[turning]).all():
            return start
    raise NotARotationError("pairs are turned at position 0, by angles of no position")


# --- frequencies ----------------------------------------------------------------------------------


def _ropes(
    frequency: np.ndarray,
    error: np.ndarray,
    pairing: Pairing,
    axes: tuple[str, ...],
    *,
    factor: float,
    start: int,
    base: float | None,
    real: bool,
    eps: float,
) -> Iterator[tuple[RoPE, tuple[str, ...]]]:
    """Encodings of pairs with known frequencies, each with what is to be said of it."""
    total = frequency.sum(axis=0)
    doubt = np.where(total > 0, error / np.where(total > 0, total, 1.0), 0.0)
    count = len(total)
    phase: Any = "real" if real else "exact"
    common: dict[str, Any] = {"pairing": pairing, "phase": phase}
    plain = Arrangement(axes=axes, start=start) if len(axes) == 1 else None
    every = np.arange(count)
    options = arrangements(frequency, axes, start) if plain is None else [(plain, every, every)]
    for arrangement, rungs, chosen in options:
        ladder_f = np.zeros(int(rungs.max()) + 1)
        ladder_e = np.zeros_like(ladder_f)
        ladder_f[rungs], ladder_e[rungs] = total[chosen], doubt[chosen]
        for fit in _fits(ladder_f, ladder_e, eps, factor):
            try:
                spec = RoPE(
                    2 * count,
                    base=fit.base,
                    ladder=fit.ladder,
                    scaling=fit.scaling,
                    arrangement=arrangement,
                    magnitude=_magnitude(fit.scaling, factor),
                    **common,
                )
            except PosencError:
                continue
            frequencies = frequencies_of(spec)
            least = 1e-6 if fit.residual > 16 * eps or eps == FLOAT32 else 1e-12
            if (
                np.abs(frequencies - total) <= np.maximum(doubt, least) * 8 * np.abs(total) + 1e-12
            ).all():
                yield spec, fit.remarks[:1] if bits_of(fit.base) >= NAMED else ()
    common["magnitude"] = _magnitude((), factor)
    if plain is None:
        yield listed(frequency, axes, start, common)
    else:
        yield multiples(total, doubt, base, {**common, "arrangement": plain})


def _fits(
    frequency: np.ndarray, doubt: np.ndarray, eps: float, factor: float
) -> Iterator[FrequencyFit]:
    """Rules that give the frequencies: to the precision of the code, then to that of float32.

    A rounder base that fits less well than the numbers were computed is another base.
    """
    for precision in dict.fromkeys((eps, FLOAT32)):
        tolerance = 4 * doubt + 2 * tolerance_of(frequency, precision, precision)
        fits = [fit for fit in fit_frequencies(frequency, tolerance) if fit.margin >= 8]
        # Of rules that give the same frequencies, the one that comes with this size; and a base
        # before NTK, as any base is some factor on another.
        fits.sort(
            key=lambda fit: (
                not math.isclose(_asked(fit.scaling), factor, rel_tol=1e-5),
                any(isinstance(rule, NTK) for rule in fit.scaling),
            )
        )
        yield from fits


def _asked(scaling: tuple[Scaling, ...]) -> float:
    return math.prod((rule.attention_factor() for rule in scaling), start=1.0)


def _magnitude(scaling: tuple[Scaling, ...], factor: float) -> RotaryMagnitude:
    if math.isclose(_asked(scaling), factor, rel_tol=1e-5):
        return RotaryMagnitude()
    if factor == 1:
        return RotaryMagnitude(at="none")
    return RotaryMagnitude(attention_factor=tidy(factor, 4 * FLOAT32))


# --- the others -----------------------------------------------------------------------------------
