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
    order = np.argsort(np.abs(turns.positions).sum(axis=1), kind="stable")
    p, angle = turns.positions[order].astype(np.float64), turns.angle[order]
    error = turns.error[order]
    lines = []
    for a in range(len(axes)):
        along = ~np.delete(p, a, axis=1).any(axis=1)
        if len(axes) > 1 and (p[0].any() or along.sum() < 2):
            raise NotARotationError("positions along each axis by itself, from 0 on, are needed")
        lines.append(_line(p[along, a], angle[along], error[along], turns))
    frequency, errors, origins = (np.array(part) for part in zip(*lines, strict=True))
    spread, origin = errors.min(axis=0), origins[0]
    off = np.abs(wrapped(angle - p @ frequency - origin))
    # What float32 code may lose: of the angle that it forms, and of its cosine and sine.
    allowed = 1e-5 + 8 * error + 6 * FLOAT32 * (np.abs(p) @ np.abs(frequency))
    allowed += 8 * spread * np.abs(p - p[0]).max(axis=1, keepdims=True)
    if (off > allowed).any():
        _refuse(turns, p, off, allowed)
    return Lines(np.where(np.abs(frequency) <= 1e-12, 0.0, frequency), spread, origin)


def _line(
    p: np.ndarray, angle: np.ndarray, error: np.ndarray, turns: Turns
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Slopes of angles that are known up to turns, their errors, and the angles at 0.

    Positions one step apart count the turns; from near positions to far ones these are followed.
    """
    steps = {float(q): k for k, q in enumerate(p)}
    near = [(k, steps[q + 1]) for q, k in steps.items() if q + 1 in steps]
    lag, turned = p[1:] - p[0], wrapped(angle[1:] - angle[0])
    if near:
        apart = np.exp(1j * np.array([angle[j] - angle[k] for k, j in near]))
        slope, spread = np.angle(apart.mean(axis=0)), error.max(axis=0) / math.sqrt(len(near))
    elif p[0] == 0 and len(p) > 1:
        slope, spread = _untangled(lag, turned), error[1] / abs(lag[0])
    else:
        raise NotARotationError("two positions one step apart are needed, to count turns")
    for k in np.argsort(np.abs(lag), kind="stable"):
        size = abs(lag[k])
        better = np.maximum((error[k + 1] + error[0]) / size, turns.eps * np.abs(slope))
        # Beyond half a turn of doubt nothing more is learned.
        use = (spread * size < 1.0) & (better <= spread)
        slope = np.where(use, slope + wrapped(turned[k] - slope * lag[k]) / lag[k], slope)
        spread = np.where(use, better, spread)
    if turns.rounding > FLOAT32:  # of few digits: from all positions; what is off alike stays
        left, middle = wrapped(turned - lag[:, None] * slope), lag - lag.mean()
        shift = middle @ left / (middle @ middle)
        rest = left - left.mean(axis=0) - middle[:, None] * shift
        slope, spread = slope + shift, np.sqrt((rest**2).mean(axis=0) / (middle @ middle))
        # What turns by less than a rounding is left as it was, or moved by a whole one.
        spread = np.maximum(spread, turns.rounding / 16 / np.abs(lag).max())
    origin = wrapped(angle[0] - slope * p[0])
    doubt = 4 * (spread * abs(p[0]) + error[0]) + (1e-5 if p[0] else 0.0)
    return slope, spread, np.where(np.abs(origin) <= doubt, 0.0, origin)


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
