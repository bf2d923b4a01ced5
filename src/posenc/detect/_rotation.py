"""From the angles of pairs to the encoding that turns them so."""

from __future__ import annotations

import itertools
import math
from typing import Any, Literal, NamedTuple

import numpy as np

from posenc._core.errors import PosencError
from posenc._core.ladder import Arrangement, Ladder
from posenc.detect._bits import bits_of, roundest
from posenc.detect._fit_frequencies import fit_frequencies
from posenc.detect._pairs import NotARotationError, Turns
from posenc.encodings.rotary.magnitude import RotaryMagnitude
from posenc.encodings.rotary.mixed import MixedRoPE
from posenc.encodings.rotary.pairing import Order, Pairing
from posenc.encodings.rotary.rope import RoPE
from posenc.encodings.rotary.xpos import XPos
from posenc.functional import frequencies as frequencies_of
from posenc.scaling.base import Scaling
from posenc.scaling.multipliers import Multipliers

__all__ = ["Found", "rotation_of"]

TURN = 2 * math.pi
FLOAT32 = 2.0**-24
RULES = ("axial", "axial_cyclic", "sections", "cyclic", "alternate", "parity")
LARGEST_START = 2**16
LAPS = 8  # whole turns to the first of some real coordinates
NAMED = 14.0  # bits to write a base that nobody chose


class Found(NamedTuple):
    """An encoding, or what keeps the angles from being one."""

    spec: Any
    params: dict[str, np.ndarray]
    channels: tuple[int, ...] | None  # where pairs stand, if no pairing says so
    role: Literal["query", "key"]
    notes: tuple[str, ...]


class Places(NamedTuple):
    """Where pairs stand."""

    pairing: Pairing
    seen: np.ndarray  # of each pair of the pairing, its number among those seen; -1: it is still
    channels: tuple[int, ...] | None = None  # in the order of halves, where no pairing says it


class Lines(NamedTuple):
    """Angles as lines in the position."""

    frequency: np.ndarray  # (axes, pairs)
    error: np.ndarray  # (pairs,), of the frequencies
    origin: np.ndarray  # (pairs,): the angle at position 0
    positive: bool


def rotation_of(turns: Turns, axes: tuple[str, ...], base: float | None, unit: float) -> Found:
    """The encoding of some turns.

    Parameters
    ----------
    turns : Turns
        Pairs with their angles at some positions.
    axes : tuple of str
        Names of the coordinates.
    base : float, optional
        The base, for frequencies that follow no rule.
    unit : float
        What one step of the positions is in coordinates; not 1 where those are real.
    """
    if not turns.pairs:
        raise NotARotationError("nothing turns: every channel passes through")
    lines = _lines(turns, axes)
    notes: list[str] = []
    mixing = (np.abs(lines.frequency) > lines.error).sum(axis=0) > 1
    signs = np.sign(lines.frequency.sum(axis=0))
    backward = bool((signs <= 0).all() and (signs < 0).any())
    flipped = (signs < 0) & (not backward) & (not mixing.any())
    places = _channels(turns, lines, flipped)
    pairing, index, channels = places
    if channels is not None:
        notes.append("its pairs are neither halves nor neighbours")
    if backward:
        pairing = pairing.replace(direction="backward")
        places = places._replace(pairing=pairing)
        lines = lines._replace(frequency=-lines.frequency, origin=-lines.origin)
    elif flipped.any():
        lines = lines._replace(
            frequency=np.where(flipped, -lines.frequency, lines.frequency),
            origin=np.where(flipped, -lines.origin, lines.origin),
        )
    if mixing.any():
        return _mixed(lines, places, axes, unit, notes)
    frequency, error = _placed(lines, index)
    origin = np.zeros(len(index))
    origin[index >= 0] = lines.origin[index[index >= 0]]
    start = _start(frequency.sum(axis=0), error, origin)
    kept = index >= 0
    sizes = turns.size[:, index[kept]]
    factor = float(np.median(sizes))
    if sizes.size and np.abs(sizes / factor - 1).max() > 2e-4:
        return _decaying(turns, frequency[0], sizes, places, notes)
    factor = 1.0 if abs(factor - 1) < 2e-6 else factor
    real = unit != 1 or bool((turns.positions != np.rint(turns.positions)).any())
    made = _rope(
        frequency / unit,
        np.where(frequency.sum(axis=0) > 0, error / unit, 0.0),
        pairing,
        axes,
        factor=factor,
        start=start,
        base=base,
        real=real,
        notes=notes,
    )
    return Found(made, {}, channels, "query", tuple(notes))


# --- angles ---------------------------------------------------------------------------------------


def _lines(turns: Turns, axes: tuple[str, ...]) -> Lines:
    """Frequencies from angles at positions that grow step by step along each axis."""
    p, angle, error = turns.positions.astype(np.float64), turns.angle, turns.error
    order = np.argsort(np.abs(p).sum(axis=1), kind="stable")
    p, angle, error = p[order], angle[order], error[order]
    count = angle.shape[1]
    at_zero = not p[0].any()
    origin = angle[0] if at_zero else np.zeros(count)
    frequency = np.zeros((len(axes), count))
    # What is a frequency, and what an error of an angle over its lever.
    known = np.full(count, math.inf)
    for a in range(len(axes)):
        along = [k for k in range(len(p)) if not np.delete(p[k], a).any() and p[k, a] > 0]
        if not along:
            return _from_differences(p, angle, error, axes)
        if not at_zero:
            return _from_differences(p, angle, error, axes)
        found, spread = _followed(p[along, a], _wrapped(angle[along] - origin), error[along])
        frequency[a] = found
        known = np.minimum(known, spread)
    predicted = p @ frequency + origin
    off = np.abs(_wrapped(angle - predicted))
    allowed = _allowed(p, frequency, error)
    if (off > allowed).any():
        _refuse(turns, p, off, allowed)
    small = np.abs(frequency) <= 1e-12
    return Lines(np.where(small, 0.0, frequency), known, origin, True)


def _allowed(p: np.ndarray, frequency: np.ndarray, error: np.ndarray) -> np.ndarray:
    """What float32 code may lose: of the angle that it forms, and of its cosine and sine."""
    return 1e-5 + 4 * error + 6 * FLOAT32 * (np.abs(p) @ np.abs(frequency))


def _followed(p: np.ndarray, angle: np.ndarray, error: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Slopes of angles that are known up to turns, from near positions to far ones."""
    slope = angle[0] / p[0]
    if p[0] != 1:  # whole turns between steps cannot be told by integers: the others must
        slope = _untangled(p, angle)
    spread = np.maximum(error[0] / p[0], FLOAT32 * np.abs(slope))
    for k in range(1, len(p)):
        reach = spread * p[k]
        left = _wrapped(angle[k] - slope * p[k])
        # Beyond half a turn of doubt nothing more is learned.
        sure = reach < 1.0
        better = np.maximum(error[k] / p[k], FLOAT32 * np.abs(slope))
        use = sure & (better <= spread)
        slope = np.where(use, slope + left / p[k], slope)
        spread = np.where(use, better, spread)
    return slope, spread


def _untangled(p: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """The slopes of the fewest turns that explain angles at real coordinates best."""
    best = angle[0] / p[0]
    left = np.full(best.shape, math.inf)
    for lap in sorted(range(-LAPS, LAPS + 1), key=abs):
        slope = (angle[0] + lap * TURN) / p[0]
        off = np.abs(_wrapped(angle - p[:, None] * slope)).max(axis=0)
        better = off < 0.5 * left - 1e-6
        best, left = np.where(better, slope, best), np.where(better, off, left)
    return best


def _from_differences(
    p: np.ndarray, angle: np.ndarray, error: np.ndarray, axes: tuple[str, ...]
) -> Lines:
    """The same where position 0 or 1 is missing: from pairs of positions one step apart."""
    if len(axes) > 1:
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
        left = _wrapped(angle[k] - angle[first] - slope * lag)
        better = (error[k] + error[first]) / abs(lag)
        use = (spread * abs(lag) < 1.0) & (better < spread)
        slope = np.where(use, slope + left / lag, slope)
        spread = np.where(use, np.maximum(better, FLOAT32 * np.abs(slope)), spread)
    origin = _wrapped(angle[first] - slope * line[first])
    doubt = spread * abs(line[first]) + error[first]
    off = np.abs(_wrapped(angle - line[:, None] * slope - origin))
    if (
        off > 1e-5 + 8 * error + 8 * spread * np.ptp(line) + 6 * FLOAT32 * np.abs(line).max()
    ).any():
        raise NotARotationError("its angles are not linear in the position")
    origin = np.where(np.abs(origin) <= 1e-5 + 4 * doubt, 0.0, origin)
    slope = np.where(np.abs(slope) <= 4 * spread, 0.0, slope) if not near else slope
    return Lines(slope[None], spread, origin, True)


def _refuse(turns: Turns, p: np.ndarray, off: np.ndarray, allowed: np.ndarray) -> None:
    k, j = np.unravel_index(int(np.argmax(off / allowed)), off.shape)
    where = p[k, 0] if p.shape[1] == 1 else tuple(p[k].tolist())
    a, b = turns.pairs[int(j)]
    raise NotARotationError(
        "it is not a rotation linear in positions: the pair of channels "
        f"{a} and {b} is {off[k, j]:.2g} rad from a line at position {where:g}"
        if p.shape[1] == 1
        else "it is not a rotation linear in positions: the pair of channels "
        f"{a} and {b} is {off[k, j]:.2g} rad from a plane at position {where}"
    )


def _wrapped(angle: np.ndarray) -> np.ndarray:
    return angle - np.rint(angle / TURN) * TURN


# --- channels -------------------------------------------------------------------------------------


def _channels(turns: Turns, lines: Lines, flipped: np.ndarray) -> Places:
    """Where the pairs stand: in halves or as neighbours, or listed from fast to slow."""
    pairs = list(turns.pairs)
    written = turns.outputs != turns.pairs
    if not flipped.any():
        regular = [_regular(pairs, turns, part, written) for part in ("leading", "trailing")]
        options = [found for found in regular if found is not None]
        if options:  # the one that needs the fewest pairs that do not turn
            return min(options, key=lambda found: int((found.seen < 0).sum()))
    if written:
        raise NotARotationError("it writes pairs to other channels, in an order that is not known")
    # From fast to slow, axis by axis: the order in which a ladder has them.
    size = np.abs(lines.frequency)
    index = np.lexsort((-size.max(axis=0), size.argmax(axis=0)))
    ordered = [pairs[k][::-1] if flipped[k] else pairs[k] for k in index]
    channels = tuple(a for a, _ in ordered) + tuple(b for _, b in ordered)
    return Places(Pairing("half"), index, channels)


def _regular(pairs: list[tuple[int, int]], turns: Turns, part: Any, written: bool) -> Places | None:
    """Halves or neighbours at one end, in one block or in several."""
    width, place = turns.width, {pair: k for k, pair in enumerate(pairs)}
    distances = {b - a for a, b in pairs}
    blocked = _blocked(pairs, width, part)
    options: list[tuple[Order, tuple[int, ...], int]] = []
    if distances == {1}:
        least, most = min(a for a, _ in pairs), max(b for _, b in pairs)
        dim = most + 1 if part == "leading" else width - least
        options.append(("interleaved", (), dim))
        options.append(("interleaved", (), width))
    if len(distances) == 1:
        options.append(("half", (), 2 * next(iter(distances))))
    if blocked is not None:
        options.append(("half", blocked, 2 * sum(blocked)))
    for order, blocks, dim in options:
        if dim % 2 or dim > width:
            continue
        begin = 0 if part == "leading" else width - dim
        output: Any = "half" if written and order != "half" else "same"
        pairing = Pairing(order, part=part, blocks=blocks, output=output)
        wanted = [(begin + a, begin + b) for a, b in pairing.channels(dim)]
        if not set(pairs) <= set(wanted):
            continue
        index = np.array([place.get(pair, -1) for pair in wanted])
        if written:
            n = dim // 2
            to = [(begin + j, begin + j + n) for j in range(n)]
            if any(turns.outputs[k] != to[j] for j, k in enumerate(index.tolist()) if k >= 0):
                continue
        if part == "trailing" and dim == width:
            continue
        return Places(pairing, index)
    return None


def _blocked(pairs: list[tuple[int, int]], width: int, part: str) -> tuple[int, ...] | None:
    """Pairs of each block, where each block has halves of its own and follows the last."""
    begin = 0 if part == "leading" else min(a for a, _ in pairs)
    starts = {a: b - a for a, b in pairs}
    blocks = []
    while begin in starts:
        size = starts[begin]
        if any(starts.get(begin + j, size) != size for j in range(size)):
            return None
        blocks.append(size)
        begin += 2 * size
    covered = begin == width if part == "trailing" else begin > max(b for _, b in pairs)
    return tuple(blocks) if covered and len(blocks) > 1 else None


def _placed(lines: Lines, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Frequencies and their errors, pair by pair of the pairing."""
    frequency = np.zeros((lines.frequency.shape[0], len(index)))
    error = np.zeros(len(index))
    kept = index >= 0
    frequency[:, kept] = lines.frequency[:, index[kept]]
    error[kept] = lines.error[index[kept]]
    return frequency, error


def _start(frequency: np.ndarray, error: np.ndarray, origin: np.ndarray) -> int:
    """The position that the first one is computed at."""
    turning = frequency > 0
    if not np.abs(origin[turning]).max(initial=0.0) > 2e-6:
        return 0
    slowest = int(np.argmin(np.where(turning, frequency, math.inf)))
    guess = origin[slowest] / frequency[slowest]
    near = int(np.clip(round(guess), -LARGEST_START, LARGEST_START))
    for start in sorted(range(near - 8, near + 9), key=lambda s: abs(s - guess)):
        off = np.abs(_wrapped(origin - start * frequency))[turning]
        if (off <= 1e-5 + 8 * abs(start) * (FLOAT32 * frequency + error)[turning]).all():
            return start
    raise NotARotationError("pairs are turned at position 0, by angles of no position")


# --- frequencies ----------------------------------------------------------------------------------


def _rope(
    frequency: np.ndarray,
    error: np.ndarray,
    pairing: Pairing,
    axes: tuple[str, ...],
    *,
    factor: float,
    start: int,
    base: float | None,
    real: bool,
    notes: list[str],
) -> RoPE:
    """The encoding of pairs with known frequencies."""
    total = frequency.sum(axis=0)
    doubt = np.where(total > 0, error / np.where(total > 0, total, 1.0), 0.0)
    count = len(total)
    phase: Any = "real" if real else "exact"
    common: dict[str, Any] = {"pairing": pairing, "phase": phase}
    options: list[tuple[Arrangement, np.ndarray, np.ndarray]] = []
    if len(axes) == 1:
        arrangement = Arrangement(axes=axes, start=start)
        options.append((arrangement, np.arange(count), np.arange(count)))
    else:
        options += _arrangements(frequency, axes, start)
    for arrangement, rungs, chosen in options:
        ladder_f = np.zeros(int(rungs.max()) + 1)
        ladder_e = np.zeros_like(ladder_f)
        ladder_f[rungs], ladder_e[rungs] = total[chosen], doubt[chosen]
        tolerance = 4 * ladder_e + 8 * FLOAT32 * (1 + np.abs(np.log(np.maximum(ladder_f, 1e-30))))
        fits = [f for f in fit_frequencies(ladder_f, tolerance) if f.margin >= 8]
        # Of rules that give the same frequencies, the one that comes with this size.
        fits.sort(key=lambda fit: not math.isclose(_asked(fit.scaling), factor, rel_tol=1e-5))
        for fit in fits:
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
            made = frequencies_of(spec)
            if (np.abs(made - total) <= np.maximum(doubt, 1e-6) * 8 * np.abs(total) + 1e-12).all():
                if bits_of(fit.base) >= NAMED:
                    notes += list(fit.remarks[:1])
                return spec
    common["magnitude"] = _magnitude((), factor)
    if len(axes) == 1:
        common["arrangement"] = Arrangement(axes=axes, start=start)
        return _multiples(total, doubt, base, common, notes)
    return _listed(frequency, axes, start, common, notes)


def _asked(scaling: tuple[Scaling, ...]) -> float:
    factor = 1.0
    for rule in scaling:
        factor *= rule.attention_factor()
    return factor


def _magnitude(scaling: tuple[Scaling, ...], factor: float) -> RotaryMagnitude:
    if math.isclose(_asked(scaling), factor, rel_tol=1e-5):
        return RotaryMagnitude()
    if factor == 1:
        return RotaryMagnitude(at="none")
    return RotaryMagnitude(attention_factor=_tidy(factor, 4 * FLOAT32))


def _tidy(value: float, error: float) -> float:
    """The round number that is meant, if there is one within a relative error."""
    if value <= 0:
        return value
    found = roundest(value, max(error, FLOAT32))
    return value if found is None else found


def _arrangements(
    frequency: np.ndarray, axes: tuple[str, ...], start: int
) -> list[tuple[Arrangement, np.ndarray, np.ndarray]]:
    """Rules that deal pairs to axes as they are seen: each with rungs and the pairs on them."""
    turning = (frequency > 0).any(axis=0)
    axis = np.where(turning, frequency.argmax(axis=0), -1)
    count = frequency.shape[1]
    seen = [int(a) for a in dict.fromkeys(axis.tolist()) if a >= 0]
    if len(seen) != len(axes) or not turning.all():
        return []
    found = []
    orders = [tuple(axes[a] for a in seen), axes]
    orders += list(itertools.permutations(axes))[:24]
    for rule in RULES:
        for order in dict.fromkeys(orders):
            sizes = tuple(int((axis == axes.index(name)).sum()) for name in order)
            try:
                made = Arrangement(
                    rule=rule,  # type: ignore[arg-type]
                    axes=axes,
                    order=None if order == axes else order,
                    sizes=None if len(set(sizes)) == 1 else sizes,
                    start=start,
                )
                layout = made.layout(count)
            except PosencError:
                continue
            if list(layout.axis) != axis.tolist():
                continue
            rungs = np.array(layout.index)
            if made.shared:
                found.append((made, rungs, np.arange(count)))
            else:  # the ladders of the axes are alike; the longest one tells most
                longest = int(np.argmax(layout.counts))
                chosen = np.flatnonzero(axis == longest)
                found.append((made, rungs[chosen], chosen))
            break
    return found


def _multiples(
    total: np.ndarray,
    doubt: np.ndarray,
    base: float | None,
    common: dict[str, Any],
    notes: list[str],
) -> RoPE:
    """Frequencies that follow no known rule: each as a multiple of a plain one."""
    count = len(total)
    base = 10_000.0 if base is None else base
    plain = np.array([float(f) for f in Ladder().rungs(base, count=count, width=2 * count)])
    notes.append(
        f"its frequencies follow no known rule: they are given as multiples of base {base:g}"
    )
    values = [_tidy(float(v), float(e)) for v, e in zip(total / plain, doubt, strict=True)]
    return RoPE(2 * count, base=base, scaling=Multipliers(tuple(values)), **common)


def _listed(
    frequency: np.ndarray,
    axes: tuple[str, ...],
    start: int,
    common: dict[str, Any],
    notes: list[str],
) -> RoPE:
    """The same on several axes: a list of frequencies, and the axis of each."""
    notes.append("its frequencies follow no known rule: they are listed")
    total, count = frequency.sum(axis=0), frequency.shape[1]
    turning = total > 0
    arrangement = Arrangement(
        rule="explicit",
        axes=axes,
        axis=tuple(int(a) for a in frequency.argmax(axis=0)),
        index=tuple(j if turning[j] else -1 for j in range(count)),
        start=start,
    )
    last = max(j for j in range(count) if turning[j])
    ladder = Ladder(spacing="explicit", frequencies=tuple(float(f) for f in total[: last + 1]))
    return RoPE(2 * count, ladder=ladder, arrangement=arrangement, **common)


# --- the others -----------------------------------------------------------------------------------


def _mixed(
    lines: Lines, places: Places, axes: tuple[str, ...], unit: float, notes: list[str]
) -> Found:
    """Pairs that mix the axes: their frequencies are learned values."""
    pairing, index, channels = places
    frequency, _ = _placed(lines, index)
    if np.abs(lines.origin).max(initial=0.0) > 1e-5:
        raise NotARotationError("pairs that mix axes are turned at position 0")
    spec = MixedRoPE(2 * len(index), heads=1, pairing=pairing, space=axes, init="normal")
    notes.append("each pair mixes the axes: the frequencies are in `params`")
    params = {"frequencies": (frequency / unit)[None].astype(np.float32)}
    return Found(spec, params, channels, "query", tuple(notes))


def _decaying(
    turns: Turns, frequency: np.ndarray, sizes: np.ndarray, places: Places, notes: list[str]
) -> Found:
    """Pairs whose size changes with the position: xPos, or nothing known."""
    pairing, index, channels = places
    wrong = NotARotationError(
        "its pairs change their size with the position, by up to "
        f"{sizes.max() / sizes.min():.3g}, and not as those of xPos do"
    )
    if turns.positions.shape[1] > 1 or (index < 0).any() or (sizes <= 0).any():
        raise wrong
    p = turns.positions[:, 0].astype(np.float64)
    slope, level = np.polyfit(p, np.log(sizes), 1)
    if np.abs(np.log(sizes) - p[:, None] * slope - level).max() > 1e-4 or not slope[0]:
        raise wrong
    dim = 2 * len(index)
    j = np.arange(len(index))
    gamma = 0.4
    rates = np.log((2 * j / dim + gamma) / (1 + gamma))
    scale = float(rates @ rates / (rates @ slope))
    role: Literal["query", "key"] = "query" if scale > 0 else "key"
    centre = -float(level[0] / slope[0])
    fits = fit_frequencies(frequency, 16 * FLOAT32 * np.ones(len(index)), scalings="none")
    if np.abs(slope * scale - rates).max() > 1e-3 * abs(rates[0]) or not fits:
        raise wrong
    tidy = (
        round(abs(scale)) if abs(abs(scale) - round(abs(scale))) < 0.02 * 1e-2 * abs(scale) else 0
    )
    spec = XPos(
        dim,
        pairing=pairing,
        base=fits[0].base,
        ladder=fits[0].ladder,
        scale=float(tidy or abs(scale)),
        gamma=gamma,
        centre=round(centre),
    )
    return Found(spec, {}, channels, role, tuple(notes))
