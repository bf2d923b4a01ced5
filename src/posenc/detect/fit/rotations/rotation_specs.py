"""Encodings that give some frequencies, from rules to lists."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np

from posenc._core.errors import PosencError
from posenc._core.numeric.arrangement import Arrangement
from posenc._core.numeric.ladder import Ladder
from posenc.detect.fit.description_length import stated
from posenc.detect.fit.frequencies import fit_frequencies
from posenc.detect.fit.rotations.angular_speed import Lines
from posenc.detect.fit.rotations.channel_pairs import PairChannels, placed
from posenc.detect.fit.rotations.pairs import FLOAT32, NotARotationError, Turns
from posenc.encodings.rotary.mixed import MixedRoPE
from posenc.encodings.rotary.rope import RoPE
from posenc.encodings.rotary.xpos import XPos
from posenc.scaling.multipliers import Multipliers

RULES = ("axial", "axial_cyclic", "sections", "cyclic", "alternate", "parity")


class RotationFit(NamedTuple):
    """An encoding, or what keeps the angles from being one."""

    spec: Any
    params: Mapping[str, np.ndarray] = MappingProxyType({})
    channels: tuple[int, ...] | None = None  # where pairs stand, if no pairing says so
    role: Literal["query", "key"] = "query"
    notes: tuple[str, ...] = ()
    departed: tuple[str, ...] = ()  # what keeps the angles from being those of the spec
    exact: Any = None  # the spec that has the angles as they are


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
    orders = [tuple(axes[a] for a in seen), axes]
    orders += list(itertools.permutations(axes))[:24]
    for rule in RULES:
        for order in dict.fromkeys(orders):
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
            rungs = np.array(layout.index)
            if arrangement.shared:
                options.append((arrangement, rungs, np.arange(count)))
            else:  # the ladders of the axes are alike; the longest one tells most
                longest = int(np.argmax(layout.counts))
                chosen = np.flatnonzero(axis == longest)
                options.append((arrangement, rungs[chosen], chosen))
            break
    return options


def multiples(
    total: np.ndarray, doubt: np.ndarray, base: float | None, common: dict[str, Any]
) -> RotationFit:
    """Frequencies that follow no known rule: each as a multiple of a plain one."""
    count = len(total)
    base = 10_000.0 if base is None else base
    plain = np.array([float(f) for f in Ladder().rungs(base, count=count, width=2 * count)])
    note = f"no rule that is known here gives its frequencies: they are multiples of base {base:g}"
    values = [tidy(float(v), float(e)) for v, e in zip(total / plain, doubt, strict=True)]
    spec = RoPE(2 * count, base=base, scaling=Multipliers(tuple(values)), **common)
    return RotationFit(spec, notes=(note,))


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
    ladder = Ladder(spacing="explicit", frequencies=tuple(float(f) for f in total[: last + 1]))
    return RoPE(2 * count, ladder=ladder, arrangement=arrangement, **common)


def mixed(
    lines: Lines, places: PairChannels, axes: tuple[str, ...], unit: float, notes: list[str]
) -> RotationFit:
    """Pairs that mix the axes: their frequencies are learned values."""
    pairing, index, channels = places
    frequency, _ = placed(lines, index)
    if np.abs(lines.origin).max(initial=0.0) > 1e-5:
        raise NotARotationError("pairs that mix axes are turned at position 0")
    spec = MixedRoPE(2 * len(index), heads=1, pairing=pairing, space=axes, init="normal")
    notes.append("each pair mixes the axes: the frequencies are in `params`")
    params = {"frequencies": (frequency / unit)[None].astype(np.float32)}
    return RotationFit(spec, params, channels, "query", tuple(notes))


def decaying(
    turns: Turns, frequency: np.ndarray, sizes: np.ndarray, places: PairChannels, notes: list[str]
) -> RotationFit:
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
    fits = [f for f in fit_frequencies(frequency, 16 * FLOAT32, lists=False) if not f.scaling]
    if np.abs(slope * scale - rates).max() > 1e-3 * abs(rates[0]) or not fits:
        raise wrong
    size = abs(scale)
    whole = round(size) if abs(size - round(size)) < 0.02 * 1e-2 * size else 0
    spec = XPos(
        dim,
        pairing=pairing,
        base=fits[0].base,
        ladder=fits[0].ladder,
        scale=float(whole or size),
        gamma=gamma,
        centre=round(centre),
    )
    return RotationFit(spec, {}, channels, role, tuple(notes))
