"""How fast each pair of an implementation turns: angles, followed from near to far positions."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from posenc.detect.fit.rotations.pairs import FLOAT32, NotARotationError, Turns

TURN = 2 * math.pi
LAPS = 8  # whole turns to the first of some real coordinates


class Lines(NamedTuple):
    """Angles as lines in the position."""

    frequency: np.ndarray  # (axes, pairs)
    error: np.ndarray  # (pairs,), of the frequencies
    origin: np.ndarray  # (pairs,): the angle at position 0


def lines_of(turns: Turns, axes: tuple[str, ...]) -> Lines:
    """Frequencies from angles at positions that grow step by step along each axis."""
    p, angle, error = turns.positions.astype(np.float64), turns.angle, turns.error
    order = np.argsort(np.abs(p).sum(axis=1), kind="stable")
    p, angle, error = p[order], angle[order], error[order]
    count = angle.shape[1]
    at_zero = not p[0].any()
    origin = np.where(np.abs(angle[0]) > 4 * error[0], angle[0], 0.0)
    frequency = np.zeros((len(axes), count))
    # What is a frequency, and what an error of an angle over its lever.
    errors = np.full(count, math.inf)
    for a in range(len(axes)):
        along = [k for k in range(len(p)) if not np.delete(p[k], a).any() and p[k, a] > 0]
        if not along or not at_zero:
            return _from_differences(turns, p, angle, error)
        turned = wrapped(angle[along] - origin)
        frequency[a], spread = _followed(p[along, a], turned, error[along], turns.eps)
        if turns.rounding > FLOAT32:
            line = _averaged(p[along, a], turned, frequency[a], turns.rounding)
            frequency[a], spread = line
        errors = np.minimum(errors, spread)
    predicted = p @ frequency + origin
    off = np.abs(wrapped(angle - predicted))
    allowed = _allowed(p, frequency, error)
    if (off > allowed).any():
        _refuse(turns, p, off, allowed)
    small = np.abs(frequency) <= 1e-12
    return Lines(np.where(small, 0.0, frequency), errors, origin)


def _allowed(p: np.ndarray, frequency: np.ndarray, error: np.ndarray) -> np.ndarray:
    """What float32 code may lose: of the angle that it forms, and of its cosine and sine."""
    return 1e-5 + 4 * error + 6 * FLOAT32 * (np.abs(p) @ np.abs(frequency))


def _followed(
    p: np.ndarray, angle: np.ndarray, error: np.ndarray, eps: float
) -> tuple[np.ndarray, np.ndarray]:
    """Slopes of angles that are known up to turns, from near positions to far ones."""
    slope = angle[0] / p[0]
    if p[0] != 1:  # whole turns between steps cannot be told by integers: the others must
        slope = _untangled(p, angle)
    spread = np.maximum(error[0] / p[0], eps * np.abs(slope))
    for k in range(1, len(p)):
        reach = spread * p[k]
        left = wrapped(angle[k] - slope * p[k])
        # Beyond half a turn of doubt nothing more is learned.
        sure = reach < 1.0
        better = np.maximum(error[k] / p[k], eps * np.abs(slope))
        use = sure & (better <= spread)
        slope = np.where(use, slope + left / p[k], slope)
        spread = np.where(use, better, spread)
    return slope, spread


def _averaged(
    p: np.ndarray, angle: np.ndarray, slope: np.ndarray, rounding: float
) -> tuple[np.ndarray, np.ndarray]:
    """Slopes of angles of few digits, from all positions; what is off alike in all stays."""
    left, mass = wrapped(angle - p[:, None] * slope), float(p @ p)
    shift = p @ left / mass
    off = np.sqrt(((left - p[:, None] * shift) ** 2).mean(axis=0) / mass)
    return slope + shift, np.maximum(off, rounding / 4 / np.abs(p).max())


def _untangled(p: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """The slopes of the fewest turns that explain angles at real coordinates best."""
    best = angle[0] / p[0]
    left = np.full(best.shape, math.inf)
    for lap in sorted(range(-LAPS, LAPS + 1), key=abs):
        slope = (angle[0] + lap * TURN) / p[0]
        off = np.abs(wrapped(angle - p[:, None] * slope)).max(axis=0)
        better = off < 0.5 * left - 1e-6
        best, left = np.where(better, slope, best), np.where(better, off, left)
    return best


def _from_differences(turns: Turns, p: np.ndarray, angle: np.ndarray, error: np.ndarray) -> Lines:
    """The same where position 0 or 1 is missing: from pairs of positions one step apart."""
    if p.shape[1] > 1:
        raise NotARotationError("positions along each axis by itself, from 0 on, are needed")
    line = p[:, 0]
    steps = {float(q): k for k, q in enumerate(line)}
    near = [(k, steps[q + 1]) for q, k in steps.items() if q + 1 in steps]
    if not near:
        raise NotARotationError("two positions one step apart are needed, to count turns")
    turned = np.exp(1j * np.array([angle[j] - angle[k] for k, j in near]))
    slope = np.angle(turned.mean(axis=0))
    spread = np.full(len(slope), float(error.max())) / math.sqrt(len(near))
    first = int(np.argmin(line))
    lags = np.argsort(np.abs(line - line[first]), kind="stable")[1:]
    for k in lags:
        lag = line[k] - line[first]
        left = wrapped(angle[k] - angle[first] - slope * lag)
        better = (error[k] + error[first]) / abs(lag)
        use = (spread * abs(lag) < 1.0) & (better < spread)
        slope = np.where(use, slope + left / lag, slope)
        spread = np.where(use, np.maximum(better, FLOAT32 * np.abs(slope)), spread)
    if turns.rounding > FLOAT32:
        middle = line - line.mean()
        turned = angle - wrapped(angle - line[:, None] * slope).mean(axis=0)
        slope, spread = _averaged(middle, turned - line.mean() * slope, slope, turns.rounding)
    origin = wrapped(angle[first] - slope * line[first])
    doubt = spread * abs(line[first]) + error[first]
    off = np.abs(wrapped(angle - line[:, None] * slope - origin))
    if (
        off > 1e-5 + 8 * error + 8 * spread * np.ptp(line) + 6 * FLOAT32 * np.abs(line).max()
    ).any():
        raise NotARotationError("its angles are not linear in the position")
    origin = np.where(np.abs(origin) <= 1e-5 + 4 * doubt, 0.0, origin)
    slope = np.where(np.abs(slope) <= 4 * spread, 0.0, slope) if not near else slope
    return Lines(slope[None], spread, origin)


def _refuse(turns: Turns, p: np.ndarray, off: np.ndarray, allowed: np.ndarray) -> None:
    k, j = np.unravel_index(int(np.argmax(off / allowed)), off.shape)
    place = f"a line at position {p[k, 0]:g}"
    if p.shape[1] > 1:
        place = f"a plane at position {tuple(p[k].tolist())}"
    a, b = turns.pairs[int(j)]
    raise NotARotationError(
        "it is not a rotation linear in positions: the pair of channels "
        f"{a} and {b} is {off[k, j]:.2g} rad from {place}"
    )


def wrapped(angle: np.ndarray) -> np.ndarray:
    """Angles without their whole turns, from -pi to pi."""
    return angle - np.rint(angle / TURN) * TURN
