"""Rules with the numbers of models, for frequencies that a recording in half precision tells.

Such frequencies are known to a millionth of a radian per position, so slow pairs are hardly known
at all, and no number can be solved for. What is tried are the bases, factors and lengths of models,
each held against all pairs at once, by squares.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from posenc._core.errors import PosencError
from posenc._core.numeric.ladder import FLOAT, Float32Rungs
from posenc.detect.fit.ladders import BASES
from posenc.detect.fit.ramps import FACTORS
from posenc.scaling.base import Scaling
from posenc.scaling.linear import Linear
from posenc.scaling.llama3 import Llama3
from posenc.scaling.ntk import NTK
from posenc.scaling.yarn import YaRN

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
