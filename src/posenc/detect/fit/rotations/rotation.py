"""From the angles of pairs to the encoding that turns them so."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from posenc._core.errors import PosencError
from posenc._core.numeric.arrangement import Arrangement
from posenc.detect.fit.frequencies import (
    Departures,
    FrequencyFit,
    departures,
    explained,
    tolerance_of,
)
from posenc.detect.fit.ladders import bits_of
from posenc.detect.fit.rotations.pairs import (
    FLOAT32,
    FLOAT64,
    NotARotationError,
    Turns,
    lines_of,
    refuse,
    wrapped,
)
from posenc.detect.fit.rotations.rotation_specs import (
    RotationFit,
    arrangements,
    channels_of,
    decaying,
    list_of,
    mixed,
    multiples,
    placed,
    tidy,
    usual_rules,
)
from posenc.detect.fit.tolerances import ROUNDING, seen
from posenc.encodings.rotary.magnitude import RotaryMagnitude
from posenc.encodings.rotary.rope import RoPE
from posenc.functional import frequencies as frequencies_of
from posenc.scaling.base import Scaling

LARGEST_START = 2**16
MOST_OPTIONS = 6
OURS = 2.0**-61  # radians per position by which the phases of this library may be wrong
ALIKE = 1e-4  # radians
MEASURED = 1e-9  # radians per position: errors of what has few digits
LEAST_MARGIN = 8.0  # bits; many calls tell of what follows from them
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

        Frequencies and angles are rounded, so what is allowed grows with the angle; and sums, such
        as those of `numpy.linspace`, are off by units of the largest frequency in float64.
        """
        inner = np.hypot(*(x[..., c] for c in self.inputs))
        outer = np.hypot(*(y[..., c] for c in self.outputs))
        with np.errstate(divide="ignore", invalid="ignore"):
            grown = np.nan_to_num(np.abs(np.log(outer / inner)), posinf=1e3)
        f, p = np.abs(self.frequency), np.abs(positions)
        angle = (p @ f) * tolerance_of(f.max(axis=0), self.eps, self.eps)
        off = self.error + OURS + 2 * FLOAT64 * f.max(initial=0)
        angle += p.max(axis=-1, initial=0)[..., None] * off
        slack = outer * (angle + 8 * eps + 8 * self.eps * (1 + grown)) + 1e-37
        total = 4 * eps * np.abs(x)
        for channels in self.outputs:
            total[..., channels] = slack
        return np.asarray(total)


def measured(turns: Turns, axes: tuple[str, ...]) -> MeasuredTurns:
    """What is known of the pairs before they get a name."""
    lines = lines_of(turns, axes)
    total = np.abs(lines.frequency).max(axis=0)
    # Code in float64 may have been given frequencies in float32.
    doubt = 4 * (lines.error / np.where(total > 0, total, math.inf) + turns.eps)
    eps = max(turns.eps, min(ROUNDING[seen(total, doubt)], FLOAT32))
    a, b = (np.array(pairs, dtype=int).reshape(-1, 2).T for pairs in (turns.pairs, turns.outputs))
    return MeasuredTurns(a, b, lines.frequency, lines.error, eps)


def rotations_of(
    turns: Turns, axes: tuple[str, ...], base: float | None, unit: float
) -> list[RotationFit]:
    """The encodings that some turns may be of, the likeliest first."""
    refuse(not turns.pairs, "nothing turns: every channel passes through")
    lines = lines_of(turns, axes)
    mixing = (np.abs(lines.frequency) > lines.error).sum(axis=0) > 1
    signs = np.sign(lines.frequency.sum(axis=0))
    flipped = (signs < 0) & bool((signs > 0).any()) & (not mixing.any())
    places = channels_of(turns, lines, flipped)
    pairing, index, channels = places
    # In no order of ours, a pair that turns backward is one whose channels are swapped.
    backward = bool(signs.sum() < 0) and (channels is None or not flipped.any())
    notes = [] if channels is None else ["its pairs are neither halves nor neighbours"]
    pairing = pairing.replace(direction="backward") if backward else pairing
    sense = np.where(flipped & (channels is not None) | backward, -1.0, 1.0)
    lines = lines._replace(frequency=sense * lines.frequency, origin=sense * lines.origin)
    places = places._replace(pairing=pairing)
    if mixing.any():
        return [mixed(lines, places, axes, unit, notes)]
    frequency, error, origin = placed(lines, index)
    if turns.rounding > FLOAT32:  # what was left as it was may turn by less than a rounding
        error[index < 0] = turns.rounding / np.ptp(turns.positions, axis=0).min()
    start = _start(frequency.sum(axis=0), error, origin)
    kept = index[index >= 0]
    sizes = turns.size[:, kept]
    factor = float(np.median(sizes))
    if (np.abs(sizes / factor - 1) > 2e-4 + 8 * turns.error[:, kept]).any():
        return [decaying(turns, frequency[0], sizes, places, notes)]
    close = max(1e-5, turns.rounding)
    factor = 1.0 if abs(factor - 1) < close / 5 else factor
    real = unit != 1 or (turns.positions != np.rint(turns.positions)).any()
    common = {"pairing": pairing, "phase": "real" if real else "exact"}
    coarse = turns.rounding > FLOAT32 and len(axes) == 1 and not real
    plain = Arrangement(axes=axes, start=start) if len(axes) == 1 else None
    if coarse and (specs := _of_models(frequency[0], error, (factor, close), common, plain)):
        unseen = f"pairs slower than {float(np.median(error)):.2g} rad per position are not told"
        notes.append(f"read from numbers of few digits, by the rules of models: {unseen}")
        fit = RotationFit(specs[0], channels=channels, notes=tuple(notes))
        return [fit._replace(spec=s, rivals=tuple(o for o in specs if o is not s)) for s in specs]
    options = _ropes(
        frequency / unit,
        error / unit,
        common,
        axes,
        positions=turns.positions * unit,
        factor=(factor, close),
        start=start,
        base=base,
        eps=turns.eps,
    )
    return [
        option._replace(channels=channels, notes=(*notes, *option.notes))
        for option in itertools.islice(options, MOST_OPTIONS)
    ]


def _of_models(
    frequency: np.ndarray,
    error: np.ndarray,
    size: tuple[float, float],
    common: dict[str, Any],
    arrangement: Any,
) -> list[RoPE]:
    """The encodings with the numbers of models, where there are few digits to solve for others."""
    return [
        RoPE(2 * len(frequency), base=base, scaling=scaling, magnitude=_magnitude(scaling, *size),
             arrangement=arrangement, **common)
        for base, scaling in usual_rules(frequency, error, *size)[:MOST_OPTIONS]
    ]  # fmt: skip


def _start(frequency: np.ndarray, error: np.ndarray, origin: np.ndarray) -> int:
    """The position that the first one is computed at."""
    turning = frequency != 0
    if not np.abs(origin[turning]).max(initial=0.0) > 2e-6:
        return 0
    slowest = int(np.argmin(np.where(turning, np.abs(frequency), math.inf)))
    guess = origin[slowest] / frequency[slowest]
    near = int(np.clip(round(guess), -LARGEST_START, LARGEST_START))
    for start in sorted(range(near - 8, near + 9), key=lambda s: abs(s - guess)):
        if (
            np.abs(wrapped(origin - start * frequency))[turning]
            <= 1e-5 + 8 * abs(start) * (FLOAT32 * np.abs(frequency) + error)[turning]
        ).all():
            return start
    raise NotARotationError("pairs are turned at position 0, where positions turn nothing")


# --- frequencies ----------------------------------------------------------------------------------


def _ropes(
    frequency: np.ndarray,
    error: np.ndarray,
    common: dict[str, Any],
    axes: tuple[str, ...],
    *,
    positions: np.ndarray,
    factor: tuple[float, float],
    start: int,
    base: float | None,
    eps: float,
) -> Iterator[RotationFit]:
    """Encodings of pairs with known frequencies, each with what is to be said of it."""
    total = frequency.sum(axis=0)
    doubt = error / np.where(total != 0, np.abs(total), np.where(error > 0, error, 1.0))
    count = len(total)
    dtype = max(
        seen(total, 4 * doubt), "float64" if eps < FLOAT32 else "float32", key=ROUNDING.__getitem__
    )
    least = 1e-12 if dtype == "float64" else 1e-6
    stated = {**common, "magnitude": _magnitude((), *factor)}
    plain = Arrangement(axes=axes, start=start) if len(axes) == 1 else None
    every = np.arange(count)
    options = arrangements(frequency, axes, start) if plain is None else [(plain, every, every)]
    rules: list[RotationFit] = []
    for arrangement, rungs, chosen in options:
        ladder, ladder_e = np.zeros((2, int(rungs.max()) + 1))
        ladder[rungs], ladder_e[rungs] = total[chosen], error[chosen]
        # Of rules that give the same frequencies, the one that comes with this size.
        for fit in sorted(
            _fits(ladder, ladder_e, dtype), key=lambda fit: not _asks(fit.scaling, *factor)
        ):
            try:
                spec = RoPE(
                    2 * count,
                    base=fit.base,
                    ladder=fit.ladder,
                    scaling=fit.scaling,
                    arrangement=arrangement,
                    magnitude=_magnitude(fit.scaling, *factor),
                    **common,
                )
            except PosencError:
                continue
            room, rule = 8 * np.maximum(doubt, least), frequencies_of(spec)
            departed = departures(total, rule, dtype=dtype, doubt=room)
            turned = positions @ np.where(frequency != 0, rule - total, 0.0)
            if np.abs(turned).max() > 3 and (np.abs(wrapped(turned)) < ALIKE).all():
                departed = Departures()  # whole turns between all positions, which nobody sees
            if departed is not None:
                rules.append(
                    RotationFit(
                        spec,
                        notes=fit.remarks[:1] if bits_of(fit.base) >= NAMED else (),
                        departed=departed.sentences(),
                        exact=list_of(frequency, axes, start, stated),
                    )
                )
    yield from sorted(rules, key=lambda fit: len(fit.departed))
    if plain is None:
        yield RotationFit(
            list_of(frequency, axes, start, stated),
            notes=("no rule that posenc knows gives its frequencies: they are listed",),
        )
    else:
        yield multiples(total, doubt, base, {**stated, "arrangement": plain})


def _fits(frequency: np.ndarray, error: np.ndarray, dtype: str) -> tuple[FrequencyFit, ...]:
    """What explains frequencies; those below their error may be any below it, or are still."""
    size = np.abs(frequency)
    slow = size <= 4 * error
    any_below = [np.maximum(size, error)] if (slow & (error > MEASURED)).any() else []
    readings = [*any_below, np.where(slow, 0.0, size)]
    doubts = (4 * error / np.where(reading > 0, reading, 1.0) for reading in readings)
    options = (
        explained(reading, dtype=dtype, doubt=doubt, margin=LEAST_MARGIN)
        for reading, doubt in zip(readings, doubts, strict=True)
    )
    return next(filter(None, options), ())


def _asks(scaling: tuple[Scaling, ...], factor: float, close: float) -> bool:
    """Whether rules come with this size."""
    return math.isclose(
        math.prod((rule.attention_factor() for rule in scaling), start=1.0), factor, rel_tol=close
    )


def _magnitude(scaling: tuple[Scaling, ...], factor: float, close: float) -> RotaryMagnitude:
    if _asks(scaling, factor, close):
        return RotaryMagnitude()
    return (
        RotaryMagnitude(at="none")
        if factor == 1
        else RotaryMagnitude(attention_factor=tidy(factor, close / 40))
    )
