"""The pairs of channels that a rotation turns, read from what becomes of basis vectors.

A rotation is linear in x, so what becomes of the basis at one position is its matrix there. Of a
rotation of pairs it has blocks of two by two,

    m [[cos, -sin], [sin, cos]]

and the rest is the identity.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from posenc.detect.fit.precision import seen
from posenc.detect.fit.tolerances import ROUNDING

CLOSE = 1e-5  # relative to the size of a block
FLOAT32, FLOAT64 = 2.0**-24, 2.0**-53  # half a unit of the last place
STEADY = 2.0**-48  # sizes of float64 code differ by less


class NotARotationError(Exception):
    """What an implementation does instead, in a sentence."""


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
    if not np.isfinite(matrices).all():
        raise NotARotationError("it returns NaN or infinity")
    largest = np.abs(matrices).max(axis=0)
    reached = [tuple(np.flatnonzero(largest[c] > 0).tolist()) for c in range(width)]
    for c, outs in enumerate(reached):
        if len(outs) > 2:
            raise NotARotationError(
                f"channel {c} of the input reaches {len(outs)} channels of the output, "
                "where a rotation of pairs reaches two"
            )
    groups: dict[tuple[int, ...], list[int]] = {}
    moved = []
    for c, outs in enumerate(reached):
        if len(outs) == 2:
            groups.setdefault(outs, []).append(c)
        elif outs != (c,):
            moved.append(c)
    for outs, inputs in groups.items():
        if len(inputs) != 2:
            raise NotARotationError(
                f"channels {outs[0]} and {outs[1]} of the output come from "
                f"{len(inputs)} of the input, where a pair has two"
            )
    if moved:
        # Beside pairs that turn, it is one that never does, of a rotation that writes elsewhere.
        does = "moves to another place without turning"
        if not groups:
            does = "of the input reaches no channel, or another one"
        raise NotARotationError(f"channel {moved[0]} {does}")
    chosen = sorted((inputs[0], inputs[1], outs) for outs, inputs in groups.items())
    pairs = [(a, b) for a, b, _ in chosen]
    outputs = [(outs[0], outs[1]) for _, _, outs in chosen]
    first, second = _blocks(matrices, pairs, outputs)
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
    error = 4 * eps * np.minimum(np.abs(np.sin(angle)) + 1e-9, 1.0) + 0.0
    return Turns(tuple(pairs), tuple(outputs), width, positions, angle, size, error, eps)


def _arithmetic(matrices: np.ndarray, size: np.ndarray) -> float:
    """How sines and cosines were rounded: their squares tell."""
    if not size.size or (matrices == matrices.astype(np.float32)).all():
        return FLOAT32
    steady = np.abs(size / np.median(size) - 1).max() <= STEADY
    return FLOAT64 if steady else FLOAT32


def _blocks(
    matrices: np.ndarray, pairs: list[tuple[int, int]], outputs: list[tuple[int, int]]
) -> tuple[np.ndarray, ...]:
    """What becomes of the first and of the second channel of each pair, as complex numbers."""
    a, b = (np.array([p[k] for p in pairs], dtype=int) for k in (0, 1))
    c, d = (np.array([p[k] for p in outputs], dtype=int) for k in (0, 1))
    return tuple(matrices[:, k, c] + 1j * matrices[:, k, d] for k in (a, b))


def from_recording(x: np.ndarray, y: np.ndarray, positions: np.ndarray) -> Turns:
    """The pairs of recorded inputs and outputs.

    A pair keeps its length, so what one of its channels loses of its square the other gains, token
    for token. Channels are matched by that alone, wherever they stand.
    """
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise NotARotationError("it holds NaN or infinity")
    if len(x) < 8:
        raise NotARotationError(f"{len(x)} tokens are too few to tell which channels form pairs")
    width = x.shape[1]
    changed = np.flatnonzero((x != y).any(axis=0))
    if not len(changed):
        raise NotARotationError("output and input are the same")
    gain = math.sqrt(float((y[:, changed] ** 2).sum() / (x[:, changed] ** 2).sum()))
    matches = None
    rounding = max(ROUNDING[seen(y)], FLOAT32)
    for size in (gain, 1.0):
        matches = matches or _usual(x, y, changed, size, max(1e-5, 16 * rounding))
        matches = matches or _matched(x, y, changed, size)
    if matches is None:
        raise NotARotationError("no channel gains of its square what another one loses")
    pairs = tuple(matches)
    a, b = (np.array([p[k] for p in pairs]) for k in (0, 1))
    z = (y[:, a] + 1j * y[:, b]) * (x[:, a] - 1j * x[:, b])
    weight = np.abs(x[:, a] + 1j * x[:, b]) ** 2
    unique, place = np.unique(positions, axis=0, return_inverse=True)
    place = place.reshape(-1)
    total = np.zeros((len(unique), len(pairs)), dtype=complex)
    mass = np.zeros((len(unique), len(pairs)))
    np.add.at(total, place, z)
    np.add.at(mass, place, weight)
    size_at = np.abs(total) / np.maximum(mass, 1e-30)
    typical = float(np.sqrt(np.mean(weight)))
    # Cosines that were rounded are off alike in all heads.
    error = 8 * math.sqrt(2) * typical / np.sqrt(np.maximum(mass, 1e-30))
    error = rounding * np.maximum(error, 1.0)
    return Turns(pairs, pairs, width, unique, np.angle(total), size_at, error, FLOAT32, rounding)


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
        halves = [(begin + j, begin + j + n) for j in range(n)]
        neighbours = [(begin + 2 * j, begin + 2 * j + 1) for j in range(n)]
        for pairs in (halves, neighbours):
            a, b = np.array(pairs).T
            left = np.abs(squares[:, a] + squares[:, b])
            unit = x[:, a] ** 2 + x[:, b] ** 2
            if (left <= close * np.maximum(unit, np.mean(x**2))).all():
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
    if (near > 1e-3 * scale + 1e-4).any() or (partner[partner] != np.arange(len(partner))).any():
        return None
    return sorted(
        (int(changed[k]), int(changed[p])) for k, p in enumerate(partner.tolist()) if k < p
    )
