"""The ladder and the first position behind a run of phases along one axis.

    angle z[k, j] = f[j] (start + k),        log f[j] = level + slope * j

Rows give each frequency from differences, free of wraps while one step turns less than half a turn.
Positions follow from the slowest pair up to whole turns of it, of which the faster pairs leave one:
a Kalman filter whose state is the position, the level and the slope, run for all candidates at
once. Then all rows polish the ladder, with the position as a lever.
"""

from __future__ import annotations

import contextlib
import math
from typing import NamedTuple

import numpy as np

from posenc.detect.fit.rotations.pairs import FLOAT32, wrapped

FARTHEST = 2.0**22  # positions beyond it are not looked for
# Turns of the slowest pair, each a candidate for the first position. Coarse phases exclude few of
# them at a time, so fewer can be afforded.
MOST_TURNS, MOST_TURNS_COARSE, COARSE = 2**16, 2**12, 2.0**-10
PRUNE = 60.0
POLISHED_ROWS = 384
SURE = 10.0  # standard errors: roundings are not independent of each other


class Line(NamedTuple):
    """What was solved for; intervals are from, to."""

    step: int  # 1, or -1 where positions fall
    start: float  # of the first row: a multiple of 1/2
    level: tuple[float, float]  # log of the first frequency; (0, 0) where it is 1
    slope: tuple[float, float]


def turning(z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Frequency, phase at the middle row, and the largest residual of each pair."""
    count = len(z)
    per_row = np.angle((z[1:] * z[:-1].conj()).sum(axis=0))
    lag = 2
    while lag < count:
        per_row = (
            per_row
            + wrapped(np.angle((z[lag:] * z[:-lag].conj()).sum(axis=0)) - per_row * lag) / lag
        )
        lag *= 2
    k = np.arange(count) - (count - 1) / 2
    there = np.abs(z).max(axis=1) > 0.5
    weight = k * there
    for _ in range(2):
        flat = z * np.exp(-1j * np.outer(k, per_row))
        phase = np.angle(flat.sum(axis=0))
        off = np.angle(flat * np.exp(-1j * phase)) * there[:, None]
        per_row = per_row + (weight @ off) / max(float((weight**2).sum()), 1e-300)
    return per_row, phase, np.abs(off).max(axis=0)


def fit_line(z: np.ndarray, eps: float, blur: float = 0.0) -> tuple[Line, ...]:
    """The lines that may be behind (rows, pairs) phases, the likeliest first."""
    count, pairs = z.shape
    if count < 2 or pairs < 1:
        return ()
    noise = eps + blur + 2 * FLOAT32
    per_row, phase, off = turning(z)
    error = noise * (math.sqrt(12 / count**3) + 0.5 / count)
    sure = np.abs(per_row) > 4 * error
    # Only coherent turning counts; the bound leaves room for classic arithmetic at far positions.
    if not sure.any() or float(off.max()) > 0.3 + 8 * noise:
        return ()
    step = 1
    if (per_row[sure] < 0).all():
        step, z, per_row = -1, z[::-1], -per_row
    elif not (per_row[sure] > 0).all():
        return ()
    ladder = _ladder(per_row, error, sure)
    if ladder is None:
        return ()
    lines: dict[float, Line] = {}
    for start in _starts(ladder, phase, noise, count):
        with contextlib.suppress(np.linalg.LinAlgError):
            begin, level, slope = _polished(z, ladder, start, eps, blur)
            first = begin + (count - 1 if step == -1 else 0)
            lines.setdefault(first, Line(step, first, level, slope))
    return tuple(lines.values())


class _PhaseLadder(NamedTuple):
    level: float
    slope: float
    covariance: np.ndarray  # (2, 2)
    pairs: int


def _ladder(per_row: np.ndarray, error: float, sure: np.ndarray) -> _PhaseLadder | None:
    """A straight line through the logarithms of the frequencies, or None where they are no line."""
    j = np.flatnonzero(sure).astype(np.float64)
    f = per_row[sure]
    spread = error / f + 4 * FLOAT32
    level, slope, covariance = _straight(j, np.log(f), spread)
    if (np.abs(np.log(f) - level - slope * j) > 8 * spread + 1e-6).any():
        return None
    if len(per_row) == 1 or len(j) == 1:
        # One frequency alone: take it for the ladder of those that do not turn visibly.
        slope = -1.0 if len(per_row) > 1 else 0.0
        covariance = np.diag([spread[0] ** 2, 25.0])
    # 1 to within the error is 1.
    if abs(level) <= 6 * math.sqrt(covariance[0, 0]) + 4 * FLOAT32:
        j, y, s = j[j > 0], np.log(f)[j > 0], spread[j > 0]
        if len(j):
            weight = 1 / s**2
            slope = float((weight * j * y).sum() / (weight * j * j).sum())
            covariance = np.diag([0.0, float(1 / (weight * j * j).sum())])
        level = 0.0
    return _PhaseLadder(level, slope, covariance, len(per_row))


def _straight(j: np.ndarray, y: np.ndarray, spread: np.ndarray) -> tuple[float, float, np.ndarray]:
    if len(j) == 1:
        return float(y[0]), 0.0, np.diag([spread[0] ** 2, 0.0])
    design = np.stack([np.ones_like(j), j])
    weighted = design * (1 / spread**2)
    covariance = np.linalg.inv(weighted @ design.T)
    level, slope = covariance @ (weighted @ y)
    return float(level), float(slope), covariance


def _starts(ladder: _PhaseLadder, phase: np.ndarray, noise: float, count: int) -> list[float]:
    """Positions of the first row that the phases do not exclude, the likeliest first."""
    ends = [math.exp(ladder.level + ladder.slope * j) for j in (0, ladder.pairs - 1)]
    begin, *order = range(ladder.pairs) if ends[1] > ends[0] else range(ladder.pairs - 1, -1, -1)
    f, c = min(ends), ladder.covariance
    most = math.ceil(
        min(FARTHEST * f / (2 * math.pi), (MOST_TURNS if noise < COARSE else MOST_TURNS_COARSE) / 2)
    )
    p = (phase[begin] + 2 * math.pi * np.arange(-most, most + 1)) / f
    along = np.array([1.0, begin])
    cov = np.zeros((len(p), 3, 3))
    cov[:, 1:, 1:] = c
    cov[:, 0, 1:] = cov[:, 1:, 0] = -p[:, None] * (c @ along)
    cov[:, 0, 0] = (noise / f) ** 2 + p**2 * (along @ c @ along)
    state = np.stack(np.broadcast_arrays(p, ladder.level, ladder.slope), axis=1)
    cost = np.zeros(len(p))
    for j in order:
        f_j = np.exp(state[:, 1] + state[:, 2] * j)
        angle = f_j * state[:, 0]
        h = np.stack([f_j, angle, j * angle], axis=1)
        gain = np.einsum("kab,kb->ka", cov, h)
        spread = np.einsum("ka,ka->k", gain, h) + noise**2 + (FLOAT32 * angle) ** 2
        miss = wrapped(phase[j] - angle)
        cost = cost + miss**2 / spread
        keep = cost < cost.min() + PRUNE
        gain, spread, miss = gain[keep] / spread[keep, None], spread[keep], miss[keep]
        state = state[keep] + gain * miss[:, None]
        cov = cov[keep] - gain[:, :, None] * gain[:, None, :] * spread[:, None, None]
        cost = cost[keep]
    # Of starts that fit alike, as whole turns of all pairs, the nearest to 0.
    best = np.lexsort((np.abs(state[:, 0]), np.floor(cost - cost.min())))[:4]
    if cost[best[0]] > 12 * ladder.pairs + 60:
        return []
    middle = (count - 1) / 2
    return [float(state[b, 0]) - middle for b in best if cost[b] < cost[best[0]] + 12]


def _polished(
    z: np.ndarray, ladder: _PhaseLadder, start: float, eps: float, blur: float
) -> tuple[float, tuple[float, float], tuple[float, float]]:
    """Start, level and slope by least squares over all rows; the start is snapped to a half.

    `LinAlgError` is raised where there is no such line.
    """
    rows = np.unique(np.linspace(0, len(z) - 1, min(len(z), POLISHED_ROWS)).astype(int))
    rows = rows[np.abs(z[rows]).max(axis=1) > 0.5]
    fit = _PhaseFit(z[rows], rows.astype(np.float64), eps, blur)
    free = ladder.level != 0 or ladder.covariance[0, 0] != 0
    state = np.array([start, ladder.level, ladder.slope])
    columns = [0, *([1] if free else ()), *([2] if ladder.pairs > 1 else ())]
    for _ in range(6):
        state, errors = fit.step(state, columns)
    snapped = round(2 * state[0]) / 2
    allowed = SURE * errors[0] + 1e-4 * (1 + abs(snapped) * 1e-3)
    whole = float(round(state[0]))
    halfway = abs(state[0] - snapped) > max(allowed, 1e-3) or allowed > 0.4
    if halfway and abs(state[0] - whole) > allowed:
        raise np.linalg.LinAlgError("it begins at no position")
    if halfway or abs(state[0] - whole) <= max(allowed, 1e-3):
        snapped = whole  # a whole position before a half one
    state[0] = snapped
    errors = np.zeros(3)
    for _ in range(4 if columns[1:] else 0):
        state, errors = fit.step(state, columns[1:])
    last = max(ladder.pairs - 1, 1)
    # Frequencies that were rounded to float32 are each wrong by as much, however many rows agree.
    blur = 2 * FLOAT32 * (1 + abs(state[2]) * last / 4)
    level = SURE * errors[1] + blur if free else 0.0
    slope = SURE * errors[2] + blur / last
    return (
        snapped,
        (float(state[1] - level), float(state[1] + level)),
        (float(state[2] - slope), float(state[2] + slope)),
    )


class _PhaseFit:
    """Least squares on phase residuals, each weighted by what rounding leaves of it."""

    def __init__(self, z: np.ndarray, k: np.ndarray, eps: float, blur: float) -> None:
        self.z, self.k = z, k
        self.j = np.arange(z.shape[1], dtype=np.float64)
        # Rounding is relative: near an axis it hardly moves the angle.
        self.variance = (eps * np.abs(z.real * z.imag)) ** 2 + blur**2 + (2 * FLOAT32) ** 2

    def step(self, state: np.ndarray, columns: list[int]) -> tuple[np.ndarray, np.ndarray]:
        """One Gauss-Newton step in some of (start, level, slope), and their standard errors.

        `LinAlgError` is raised where it leads nowhere.
        """
        f = np.exp(state[1] + state[2] * self.j)
        angle = np.outer(self.k + state[0], f)
        off = np.angle(self.z * np.exp(-1j * angle))
        weight = 1 / (self.variance + (FLOAT32 * angle) ** 2)
        parts = [np.broadcast_to(f, angle.shape), angle, angle * self.j]
        design = [parts[c] for c in columns]
        normal = np.array([[float((weight * a * b).sum()) for b in design] for a in design])
        right = np.array([float((weight * a * off).sum()) for a in design])
        scale = np.sqrt(np.maximum(np.diag(normal), 1e-300))
        inverse = np.linalg.inv(normal / scale[:, None] / scale + 1e-15 * np.eye(len(scale)))
        inverse = inverse / scale[:, None] / scale
        state = state.copy()
        state[columns] += inverse @ right
        chi = max(float((weight * off**2).mean()), 1.0)
        errors = np.zeros(3)
        errors[columns] = np.sqrt(np.maximum(np.diag(inverse), 0) * chi)
        if not np.isfinite(state).all() or abs(state[2]) > 50 or abs(state[1]) > 50:
            raise np.linalg.LinAlgError("it runs away")
        return state, errors
