"""The pairs of channels that a rotation turns, and how fast: angles, followed from near to far.

A rotation is linear in x, so what becomes of the basis at one position is its matrix there. Of a
rotation of pairs it has blocks of two by two,

    m [[cos, -sin], [sin, cos]]

and the rest is the identity.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from posenc._core.grouping import grouped
from posenc._core.io.files import rounded
from posenc.detect.fit.tolerances import HALVES, ROUNDING, seen
from posenc.detect.subject import CannotAsk, Subject

CLOSE = 1e-5  # relative to the size of a block
FLOAT32, FLOAT64 = 2.0**-24, 2.0**-53  # half a unit of the last place
STEADY = 2.0**-48  # sizes of float64 code differ by less
TURN = 2 * math.pi
LAPS = 8  # whole turns to the first of some real coordinates
# Of code that is asked, near positions count turns, far ones measure frequencies.
LADDER = (0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377)
SHORT = 63  # the last position asked for, of implementations that end before 377
TOKENS = 64  # at each position, where arithmetic is coarse
COARSE = 2.0**-7  # the rounding of cosines and sines in bfloat16


class NotARotationError(Exception):
    """What an implementation does instead, in a sentence."""


def refuse(bad: bool, why: str) -> None:
    """Raise with the sentence where that is what an implementation does."""
    if bad:
        raise NotARotationError(why)


class Turns(NamedTuple):
    """Pairs, and by how much they turn at some positions."""

    pairs: tuple[tuple[int, int], ...]  # input channels, the first as it is in the output
    outputs: tuple[tuple[int, int], ...]
    width: int
    positions: np.ndarray  # (positions, axes)
    angle: np.ndarray  # (positions, pairs)
    size: np.ndarray  # (positions, pairs)
    error: np.ndarray  # (positions, pairs): of the angles, by rounding
    eps: float = FLOAT32  # of the arithmetic
    rounding: float = FLOAT32  # of the numbers, which may be stored with fewer digits


def from_matrices(matrices: np.ndarray, positions: np.ndarray) -> Turns:
    """The pairs of linear maps."""
    width = matrices.shape[-1]
    refuse(not np.isfinite(matrices).all(), "it returns NaN or infinity")
    largest = np.abs(matrices).max(axis=0)
    reached = [tuple(np.flatnonzero(largest[c] > 0).tolist()) for c in range(width)]
    for c, outs in enumerate(reached):
        refuse(
            len(outs) > 2,
            f"channel {c} of the input reaches {len(outs)} channels of the output, "
            "where a rotation of pairs reaches two",
        )
    groups = grouped((outs, c) for c, outs in enumerate(reached) if len(outs) == 2)
    for outs, inputs in groups.items():
        refuse(
            len(inputs) != 2,
            f"channels {outs[0]} and {outs[1]} of the output come from "
            f"{len(inputs)} of the input, where a pair has two",
        )
    moved = [c for c, outs in enumerate(reached) if len(outs) != 2 and outs != (c,)]
    if moved:
        # Beside pairs that turn, it is one that never does, of a rotation that writes elsewhere.
        does = (
            "moves to another place without turning"
            if groups
            else "of the input reaches no channel of the output, or one elsewhere"
        )
        raise NotARotationError(f"channel {moved[0]} {does}")
    chosen = sorted((inputs[0], inputs[1], outs) for outs, inputs in groups.items())
    pairs = [(a, b) for a, b, _ in chosen]
    outputs = [(outs[0], outs[1]) for _, _, outs in chosen]
    # What becomes of the first and of the second channel of each pair, as complex numbers.
    inward, (one, two) = (np.array(p, dtype=int).reshape(-1, 2).T for p in (pairs, outputs))
    first, second = (matrices[:, k, one] + 1j * matrices[:, k, two] for k in inward)
    size = np.abs(first)
    off = np.abs(second - 1j * first) / np.maximum(size, 1e-30)
    if pairs and off.max() > CLOSE:
        k = int(np.argmax(off.max(axis=0)))
        mirrored = np.abs(second + 1j * first) / np.maximum(size, 1e-30)
        what = "is mirrored" if mirrored[:, k].max() < CLOSE else "does not turn as a pair does"
        raise NotARotationError(
            f"the pair of channels {pairs[k][0]} and {pairs[k][1]} {what}: its sine and cosine "
            f"differ between the two by {off.max():.2g}"
        )
    angle = np.angle(first)
    eps = _arithmetic(matrices, size)
    return Turns(
        tuple(pairs),
        tuple(outputs),
        width,
        positions,
        angle,
        size,
        4 * eps * np.minimum(np.abs(np.sin(angle)) + 1e-9, 1.0) + 0.0,
        eps,
    )


def _arithmetic(matrices: np.ndarray, size: np.ndarray) -> float:
    """How sines and cosines were rounded: their squares tell."""
    if not size.size or (matrices == matrices.astype(np.float32)).all():
        return FLOAT32
    return FLOAT64 if np.abs(size / np.median(size) - 1).max() <= STEADY else FLOAT32


def from_recording(x: np.ndarray, y: np.ndarray, positions: np.ndarray) -> Turns:
    """The pairs of recorded inputs and outputs.

    A pair keeps its length, so what one of its channels loses of its square the other gains, token
    for token. Channels are matched by that alone, wherever they stand.
    """
    refuse(not (np.isfinite(x).all() and np.isfinite(y).all()), "it holds NaN or infinity")
    refuse(len(x) < 8, f"{len(x)} tokens are too few to tell which channels form pairs")
    width = x.shape[1]
    changed = np.flatnonzero((x != y).any(axis=0))
    refuse(not len(changed), "output and input are the same")
    gain = math.sqrt(float((y[:, changed] ** 2).sum() / (x[:, changed] ** 2).sum()))
    rounding = max(ROUNDING[seen(y)], FLOAT32)
    tries = (
        _usual(x, y, changed, size, max(1e-5, 16 * rounding)) or _matched(x, y, changed, size)
        for size in (gain, 1.0)
    )
    pairs = tuple(next(filter(None, tries), ()))
    for size in () if pairs else (gain, 1.0):
        coarse = bool(_usual(x, y, changed, size, COARSE))
        refuse(
            coarse, "channels form pairs up to rounding in half precision: its numbers are coarse"
        )
    refuse(not pairs, "no two channels form a pair: where one shrinks, no other grows as much")
    a, b = np.array(pairs).T
    z = (y[:, a] + 1j * y[:, b]) * (x[:, a] - 1j * x[:, b])
    weight = np.abs(x[:, a] + 1j * x[:, b]) ** 2
    unique, place = np.unique(positions, axis=0, return_inverse=True)
    total = np.zeros((len(unique), len(pairs)), dtype=complex)
    mass = np.zeros((len(unique), len(pairs)))
    np.add.at(total, place.reshape(-1), z)
    np.add.at(mass, place.reshape(-1), weight)
    # Cosines that were rounded are off alike in all heads.
    random = 8 * math.sqrt(2) * np.sqrt(np.mean(weight)) / np.sqrt(np.maximum(mass, 1e-30))
    return Turns(
        pairs,
        pairs,
        width,
        unique,
        np.angle(total),
        np.abs(total) / np.maximum(mass, 1e-30),
        rounding * np.maximum(random, 1.0),
        FLOAT32,
        rounding,
    )


def _usual(
    x: np.ndarray, y: np.ndarray, changed: np.ndarray, size: float, close: float
) -> list[tuple[int, int]] | None:
    """Halves or neighbours at either end, if their pairs keep their length."""
    width = x.shape[1]
    squares = y**2 - (size * x) ** 2
    leading, trailing = int(changed.max()) + 1, width - int(changed.min())
    even = trailing + trailing % 2
    for begin, dim in sorted({*((0, d + d % 2) for d in (leading, width)), (width - even, even)}):
        if begin < 0 or begin + dim > width:
            continue
        n = dim // 2
        for pairs in (
            [(begin + j, begin + j + n) for j in range(n)],
            [(begin + 2 * j, begin + 2 * j + 1) for j in range(n)],
        ):
            a, b = np.array(pairs).T
            if (
                np.abs(squares[:, a] + squares[:, b])
                <= close * np.maximum(x[:, a] ** 2 + x[:, b] ** 2, np.mean(x**2))
            ).all():
                return pairs
    return None


def _matched(
    x: np.ndarray, y: np.ndarray, changed: np.ndarray, size: float
) -> list[tuple[int, int]] | None:
    """Channels whose gains cancel, each with its partner."""
    gains = (y[:, changed] ** 2 - (size * x[:, changed]) ** 2) / float(np.mean(y**2) + 1e-30)
    # |u_a + u_b|**2 for all a and b at once.
    squares = (gains**2).sum(axis=0)
    apart = squares[:, None] + squares[None, :] + 2 * gains.T @ gains
    np.fill_diagonal(apart, math.inf)
    partner = apart.argmin(axis=1)
    scale = np.sqrt(np.maximum(np.minimum(squares, squares[partner]), 1e-12))
    near = np.sqrt(np.maximum(apart[np.arange(len(changed)), partner], 0))
    return (
        None
        if (near > 1e-3 * scale + 1e-4).any() or (partner[partner] != np.arange(len(partner))).any()
        else sorted(
            (int(changed[k]), int(changed[p])) for k, p in enumerate(partner.tolist()) if k < p
        )
    )


# --- how fast -------------------------------------------------------------------------------------


class Lines(NamedTuple):
    """Angles as lines in the position."""

    frequency: np.ndarray  # (axes, pairs)
    error: np.ndarray  # (pairs,), of the frequencies
    origin: np.ndarray  # (pairs,): the angle at position 0


def lines_of(turns: Turns, axes: tuple[str, ...]) -> Lines:
    """Frequencies from angles at positions that grow step by step along each axis."""
    order = np.argsort(np.abs(turns.positions).sum(axis=1), kind="stable")
    p = turns.positions[order].astype(np.float64)
    angle, error = turns.angle[order], turns.error[order]
    lines = []
    for a in range(len(axes)):
        along = ~np.delete(p, a, axis=1).any(axis=1)
        refuse(
            len(axes) > 1 and bool(p[0].any() or along.sum() < 2),
            "positions along each axis by itself, from 0 on, are needed",
        )
        lines.append(_line(p[along, a], angle[along], error[along], turns))
    frequency, errors, origins = (np.array(part) for part in zip(*lines, strict=True))
    spread, origin = errors.min(axis=0), origins[0]
    off = np.abs(wrapped(angle - p @ frequency - origin))
    # What float32 code may lose: of the angle that it forms, and of its cosine and sine.
    allowed = 1e-5 + 8 * error + 6 * FLOAT32 * (np.abs(p) @ np.abs(frequency))
    allowed += 8 * spread * np.abs(p - p[0]).max(axis=1, keepdims=True)
    if (off > allowed).any():
        k, j = np.unravel_index(int(np.argmax(off / allowed)), off.shape)
        several = f"a plane at position {tuple(p[k].tolist())}"
        a, b = turns.pairs[int(j)]
        raise NotARotationError(
            "it is not a rotation linear in positions: the pair of channels "
            f"{a} and {b} is {off[k, j]:.2g} rad from "
            f"{several if p.shape[1] > 1 else f'a line at position {p[k, 0]:g}'}"
        )
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


def wrapped(angle: np.ndarray) -> np.ndarray:
    """Angles without their whole turns, from -pi to pi."""
    return angle - np.rint(angle / TURN) * TURN


# --- of code that is asked ---------------------------------------------------------------------


def turns_of(subject: Subject, axes: int, unit: float) -> Turns:
    """The matrices of a rotation at a ladder of positions."""
    refused: Exception | None = None
    for last in (LADDER[-1], SHORT):
        steps = _ladder(axes, last)
        places = in_units(steps[:, 0] if axes == 1 else steps, unit)
        try:
            matrices = matrices_of(subject, places)
        except Exception as error:  # noqa: BLE001 - whatever other people's code raises
            refused = refused or error
            continue
        steps_ = places.reshape(len(steps), axes).astype(np.float64) / unit
        rounding = seen(matrices)
        return (
            _of_tokens(subject, places, steps_, rounding)
            if subject.kind == "rotary" and rounding in HALVES
            else from_matrices(matrices, steps_)
        )
    raise CannotAsk(f"{subject.name} refuses positions to {SHORT:,}: {refused}")


def _of_tokens(subject: Subject, places: np.ndarray, steps: np.ndarray, dtype: str) -> Turns:
    """The turns of code that computes in halves, by many tokens at each position."""
    x = rounded(np.random.default_rng(0).normal(size=(TOKENS, 1, len(places), subject.dim)), dtype)
    tokens, turned = (a.reshape(-1, subject.dim) for a in (x, subject.rotate(x, places)))
    return from_recording(tokens, turned, np.tile(steps, (TOKENS, 1)))


def matrices_of(subject: Subject, places: np.ndarray) -> np.ndarray:
    """What becomes of every basis vector, (positions, in, out)."""
    if subject.kind == "rotary":
        return np.moveaxis(
            subject.rotate(
                np.repeat(np.eye(subject.dim)[:, None, None, :], len(places), axis=2), places
            )[:, 0],
            1,
            0,
        )
    cos, sin = subject.cos_sin(places)
    pairs = np.arange(cos.shape[-1])
    matrices = np.zeros((len(places), 2 * len(pairs), 2 * len(pairs)))
    for first, second, values in ((0, 0, cos), (1, 1, cos), (0, 1, sin), (1, 0, -sin)):
        matrices[:, pairs + first * len(pairs), pairs + second * len(pairs)] = values
    return matrices


def _ladder(axes: int, last: int) -> np.ndarray:
    """Steps along each axis, from near to far: (positions, axes)."""
    line = [p for p in LADDER[1:] if p <= last]
    along = [[p * (k == a) for k in range(axes)] for a in range(axes) for p in line]
    return np.array([[0] * axes, *along], dtype=np.int64)


def in_units(steps: np.ndarray, unit: float) -> np.ndarray:
    """Coordinates of some steps."""
    return steps if unit == 1 else (steps * unit).astype(np.float32)
