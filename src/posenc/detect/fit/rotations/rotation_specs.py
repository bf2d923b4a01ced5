"""Where pairs stand, and encodings that give some frequencies: rules, lists, numbers of models."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np

from posenc._core.errors import PosencError
from posenc._core.numeric.arrangement import Arrangement
from posenc._core.numeric.ladder import FLOAT, Float32Rungs, Ladder
from posenc.detect.fit.frequencies import fit_frequencies
from posenc.detect.fit.ladders import BASES, stated
from posenc.detect.fit.ramps import FACTORS
from posenc.detect.fit.rotations.pairs import FLOAT32, Lines, Turns, refuse
from posenc.encodings.rotary.mixed import MixedRoPE
from posenc.encodings.rotary.pairing import Order, Pairing
from posenc.encodings.rotary.rope import RoPE
from posenc.encodings.rotary.xpos import XPos
from posenc.scaling import NTK, Linear, Llama3, Multipliers, Scaling, YaRN

RULES = ("axial", "axial_cyclic", "sections", "cyclic", "alternate", "parity")


class PairChannels(NamedTuple):
    """Where pairs stand."""

    pairing: Pairing
    seen: np.ndarray  # of each pair of the pairing, its number among those seen; -1: it is still
    channels: tuple[int, ...] | None = None  # in the order of halves, where no pairing says it


def channels_of(turns: Turns, lines: Lines, flipped: np.ndarray) -> PairChannels:
    """Where the pairs stand: in halves or as neighbours, or listed from fast to slow."""
    pairs = list(turns.pairs)
    written = turns.outputs != turns.pairs
    regular = (_regular(pairs, turns, part, written) for part in ("leading", "trailing"))
    options = [pairs for pairs in regular if pairs is not None]
    if options:  # the one that needs the fewest pairs that do not turn
        return min(options, key=lambda pairs: int((pairs.seen < 0).sum()))
    refuse(written, "it writes pairs to other channels, in an order that is not known")
    # From fast to slow, axis by axis: the order in which a ladder has them.
    size = np.abs(lines.frequency)
    index = np.lexsort((-size.max(axis=0), size.argmax(axis=0)))
    ordered = [pairs[k][::-1] if flipped[k] else pairs[k] for k in index]
    return PairChannels(
        Pairing("half"), index, tuple(a for a, _ in ordered) + tuple(b for _, b in ordered)
    )


def _regular(
    pairs: list[tuple[int, int]], turns: Turns, part: Any, written: bool
) -> PairChannels | None:
    """Halves or neighbours at one end, in one block or in several."""
    width, place = turns.width, {pair: k for k, pair in enumerate(pairs)}
    distances = {b - a for a, b in pairs}
    blocked = _blocked(pairs, width, part)
    ends = min(a for a, _ in pairs), max(b for _, b in pairs)
    dims = (ends[1] + 1 if part == "leading" else width - ends[0]), width
    options: list[tuple[Order, tuple[int, ...], int]] = [
        *(("interleaved", (), dim) for dim in dims if distances == {1}),
        *(("half", (), 2 * distance) for distance in distances if len(distances) == 1),
        *(("half", blocks, 2 * sum(blocks)) for blocks in (blocked,) if blocks is not None),
    ]
    for order, blocks, dim in options:
        if dim % 2 or dim > width or (part == "trailing" and dim == width):
            continue
        begin = 0 if part == "leading" else width - dim
        pairing = Pairing(
            order,
            part=part,
            blocks=blocks,
            output="half" if written and order != "half" else "same",
        )
        wanted = [(begin + a, begin + b) for a, b in pairing.channels(dim)]
        if not set(pairs) <= set(wanted):
            continue
        index = np.array([place.get(pair, -1) for pair in wanted])
        to = [(begin + j, begin + j + dim // 2) for j in range(dim // 2)]  # if they are halves
        halves = all(turns.outputs[k] == to[j] for j, k in enumerate(index.tolist()) if k >= 0)
        if halves or not written:
            return PairChannels(pairing, index)
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


def placed(lines: Lines, index: np.ndarray) -> Lines:
    """The same, pair by pair of the pairing."""
    return Lines(*(np.where(index >= 0, part[..., index], 0.0) for part in lines))


# --- encodings ------------------------------------------------------------------------------------


class RotationFit(NamedTuple):
    """An encoding, or what keeps the angles from being one."""

    spec: Any
    params: Mapping[str, np.ndarray] = MappingProxyType({})
    channels: tuple[int, ...] | None = None  # where pairs stand, if no pairing says so
    role: Literal["query", "key"] = "query"
    notes: tuple[str, ...] = ()
    departed: tuple[str, ...] = ()  # what keeps the angles from being those of the spec
    exact: Any = None  # the spec that has the angles as they are
    rivals: tuple[Any, ...] = ()  # specs that explain the same angles as well


def tidy(value: float, error: float) -> float:
    """The round number that is meant, if there is one within a relative error."""
    return stated(value, max(error, FLOAT32))[0] if value > 0 else value


def arrangements(
    frequency: np.ndarray, axes: tuple[str, ...], start: int
) -> list[tuple[Arrangement, np.ndarray, np.ndarray]]:
    """Rules that deal pairs to axes as they are seen: each with rungs and the pairs on them."""
    turning = frequency.any(axis=0)
    axis = np.where(turning, np.abs(frequency).argmax(axis=0), -1)
    count = frequency.shape[1]
    seen = [int(a) for a in dict.fromkeys(axis.tolist()) if a >= 0]
    if len(seen) != len(axes) or not turning.all():
        return []
    options = []
    orders = dict.fromkeys(
        (tuple(axes[a] for a in seen), axes, *itertools.islice(itertools.permutations(axes), 24))
    )
    for rule in RULES:
        for order in orders:
            sizes = tuple(int((axis == axes.index(name)).sum()) for name in order)
            try:
                arrangement = Arrangement(
                    rule=rule,  # type: ignore[arg-type]
                    axes=axes,
                    order=None if order == axes else order,
                    sizes=None if len(set(sizes)) == 1 else sizes,
                    start=start,
                )
                layout = arrangement.layout(count)
            except PosencError:
                continue
            if list(layout.axis) != axis.tolist():
                continue
            # Ladders of the axes are alike where they are not shared; the longest one tells most.
            chosen = (
                np.arange(count)
                if arrangement.shared
                else np.flatnonzero(axis == int(np.argmax(layout.counts)))
            )
            options.append((arrangement, np.array(layout.index)[chosen], chosen))
            break
    return options


def multiples(
    total: np.ndarray, doubt: np.ndarray, base: float | None, common: dict[str, Any]
) -> RotationFit:
    """Frequencies that follow no known rule: each as a multiple of a plain one."""
    count = len(total)
    base = 10_000.0 if base is None else base
    plain = np.array([float(f) for f in Ladder().rungs(base, count=count, width=2 * count)])
    note = f"no rule that posenc knows gives its frequencies: they are multiples of base {base:g}"
    scaling = Multipliers(
        tuple([tidy(float(v), float(e)) for v, e in zip(total / plain, doubt, strict=True)])
    )
    return RotationFit(RoPE(2 * count, base=base, scaling=scaling, **common), notes=(note,))


def list_of(
    frequency: np.ndarray, axes: tuple[str, ...], start: int, common: dict[str, Any]
) -> RoPE:
    """Frequencies as a list, and the axis of each."""
    total, count = frequency.sum(axis=0), frequency.shape[1]
    turning = total != 0
    arrangement = Arrangement(
        rule="explicit",
        axes=axes,
        axis=tuple(int(a) for a in np.abs(frequency).argmax(axis=0)),
        index=tuple(j if turning[j] else -1 for j in range(count)),
        start=start,
    )
    last = max(j for j in range(count) if turning[j])
    return RoPE(
        2 * count,
        ladder=Ladder(spacing="explicit", frequencies=tuple(float(f) for f in total[: last + 1])),
        arrangement=arrangement,
        **common,
    )


def mixed(
    lines: Lines, places: PairChannels, axes: tuple[str, ...], unit: float, notes: list[str]
) -> RotationFit:
    """Pairs that mix the axes: their frequencies are learned values."""
    pairing, index, channels = places
    frequency = placed(lines, index).frequency
    refuse(
        bool(np.abs(lines.origin).max(initial=0.0) > 1e-5),
        "pairs that mix axes are turned at position 0",
    )
    spec = MixedRoPE(2 * len(index), heads=1, pairing=pairing, space=axes, init="normal")
    notes.append("each pair mixes the axes: the frequencies are in `params`")
    return RotationFit(
        spec,
        {"frequencies": (frequency / unit)[None].astype(np.float32)},
        channels,
        "query",
        tuple(notes),
    )


def decaying(
    turns: Turns, frequency: np.ndarray, sizes: np.ndarray, places: PairChannels, notes: list[str]
) -> RotationFit:
    """Pairs whose size changes with the position: xPos, or nothing known."""
    pairing, index, channels = places
    spread = f"{sizes.max() / sizes.min():.3g}, and not as those of xPos do"
    wrong = f"its pairs change their size with the position, by up to {spread}"
    refuse(turns.positions.shape[1] > 1 or bool((index < 0).any() or (sizes <= 0).any()), wrong)
    p = turns.positions[:, 0].astype(np.float64)
    slope, level = np.polyfit(p, np.log(sizes), 1)
    left = np.abs(np.log(sizes) - p[:, None] * slope - level).max()
    refuse(bool(left > 1e-4 or not slope[0]), wrong)
    dim = 2 * len(index)
    gamma = 0.4
    rates = np.log((2 * np.arange(len(index)) / dim + gamma) / (1 + gamma))
    scale = float(rates @ rates / (rates @ slope))
    fits = [f for f in fit_frequencies(frequency, 16 * FLOAT32, lists=False) if not f.scaling]
    refuse(bool(np.abs(slope * scale - rates).max() > 1e-3 * abs(rates[0]) or not fits), wrong)
    size = abs(scale)
    spec = XPos(
        dim,
        pairing=pairing,
        base=fits[0].base,
        ladder=fits[0].ladder,
        scale=float(round(size)) if abs(size - round(size)) < 0.02 * 1e-2 * size else size,
        gamma=gamma,
        centre=round(-float(level[0] / slope[0])),
    )
    return RotationFit(spec, {}, channels, "query" if scale > 0 else "key", tuple(notes))


# --- numbers of models ----------------------------------------------------------------------------

# For frequencies that a recording in half precision tells: to a millionth of a radian per position,
# so slow pairs are hardly known at all, and no number can be solved for. What is tried are the
# bases, factors and lengths of models, each held against all pairs at once, by squares.

LENGTHS = tuple(2**k for k in range(11, 19))
FARTHEST = 6.0  # errors by which a pair may be off
SCATTER = 4.0  # the mean square of these errors
RIVALS = 25.0  # sums of squares that differ by less tell nothing apart
COARSE = 2.0**-22  # relative error of frequencies that were computed in float32


def usual_rules(
    frequency: np.ndarray, error: np.ndarray, factor: float, close: float
) -> list[tuple[float, tuple[Scaling, ...]]]:
    """Bases and scalings that fit frequencies and the size of the turned, the likeliest first.

    The simplest kind of rule that fits is believed: none, one number, a ramp.
    """
    room = error + COARSE * np.abs(frequency)
    fitting = []
    for base, (kind, scaling) in itertools.product(BASES, _scalings()):
        asked = np.prod([rule.attention_factor() for rule in scaling])
        if abs(factor / asked - 1) > close and factor != 1:
            continue
        try:
            off = (_made(base, scaling, 2 * len(room)) - frequency) / room
        except PosencError:  # a length that the rule does not have
            continue
        if np.abs(off).max() <= FARTHEST and np.mean(off**2) <= SCATTER:
            fitting.append((kind, float(np.sum(off**2)), base, scaling))
    least = min((squares for _, squares, *_ in fitting), default=0.0)
    most = least + RIVALS * max(1.0, least / len(room))
    near = [each for each in fitting if each[1] <= most]
    simplest = min((kind for kind, *_ in near), default=0)
    return [(base, scaling) for kind, _, base, scaling in sorted(near, key=lambda each: each[:2])
            if kind == simplest]  # fmt: skip


def _scalings() -> Iterator[tuple[int, tuple[Scaling, ...]]]:
    yield 0, ()
    yield from ((1, (rule(factor),)) for rule in (Linear, NTK) for factor in FACTORS)
    for factor, length in itertools.product(FACTORS, LENGTHS):
        yield 2, (YaRN(factor, original_length=length),)
        yield 2, (YaRN(factor, original_length=length, rounding="none"),)
        yield 2, (Llama3(factor, original_length=length),)


def _made(base: float, scaling: tuple[Scaling, ...], width: int) -> np.ndarray:
    """The frequencies of a rule, to more digits than such a recording has."""
    for rule in scaling:
        base = rule.rebase(base, width, 0, FLOAT)
    index = np.arange(width // 2)
    periods = base ** (2 * index / width)
    rungs = Float32Rungs(1 / periods, periods, index, base, width, 0, lambda k: 1 / periods[:k])
    return np.asarray(scaling[0].float32(rungs, xp=np) if scaling else rungs.frequencies)
