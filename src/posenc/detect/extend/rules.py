"""The rules that extend a context, and what each does to the pairs of a rotation."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from posenc import scaling
from posenc._core.errors import ArgumentError, mismatch
from posenc._core.numeric.ladder import FLOAT
from posenc.functional import frequencies
from posenc.scaling.ntk import larger_base

FAST = 32.0  # turns within the trained length from which a pair counts as fast
LOST = 1.01  # stretch from which a fast pair has lost its step
LARGEST = 2.0**20  # factors are tried up to it
EVERY, MORE = 4096, 4096  # distances: every one up to the first, then so many as far again
BFLOAT16 = 2.0**-8  # the relative step of bfloat16: a smaller turn is within its last place


class ExtendingRule(NamedTuple):
    """A rule of `posenc.scaling`, made from a factor and the trained length."""

    label: str
    make: Callable[[float, int], Any]


# The rules that need nothing but a factor and the trained length, by name.
RULES: dict[str, ExtendingRule] = {
    "none": ExtendingRule("unchanged", lambda _factor, _trained: ()),
    "linear": ExtendingRule("linear", lambda factor, _trained: scaling.Linear(factor)),
    "ntk": ExtendingRule("NTK base", lambda factor, _trained: scaling.NTK(factor)),
    "dynamic": ExtendingRule(
        "dynamic NTK",
        lambda factor, trained: scaling.DynamicNTK(
            1.0, original_length=trained, length=max(trained, round(trained * factor))
        ),
    ),
    "yarn": ExtendingRule(
        "YaRN, code", lambda factor, trained: scaling.YaRN(factor, original_length=trained)
    ),
    "yarn_paper": ExtendingRule(
        "YaRN, paper",
        lambda factor, trained: scaling.YaRN(factor, original_length=trained, ramp="turns"),
    ),
    "llama3": ExtendingRule(
        "Llama 3", lambda factor, trained: scaling.Llama3(factor, original_length=trained)
    ),
}


@dataclass(frozen=True)
class Baseline:
    """A rotation as it was trained.

    Parameters
    ----------
    spec : RotarySpec
        The rotation, at the trained length where its frequencies depend on one.
    trained : int
        Positions 0 to `trained` - 1 were seen in training.
    own : bool
        Whether a scaling stretched it in training already.
    """

    spec: Any
    trained: int
    own: bool = False

    @functools.cached_property
    def steps(self) -> np.ndarray:
        """Radians for each position and pair, (pairs,), all axes together."""
        return _steps(self.spec)

    @property
    def turns(self) -> np.ndarray:
        """Turns of each pair within the trained length, (pairs,)."""
        return self.steps * (self.trained / (2 * np.pi))

    @property
    def slow(self) -> np.ndarray:
        """Pairs that turn, and finish no turn within the trained length, (pairs,) of bool."""
        return (self.turns < 1) & (self.steps > 0)

    @property
    def fast(self) -> np.ndarray:
        """Pairs that finish `FAST` turns or more, (pairs,) of bool."""
        return self.turns > FAST


def _steps(spec: Any) -> np.ndarray:
    return np.abs(np.asarray(frequencies(spec), dtype=np.float64)).reshape(-1)


@dataclass(frozen=True)
class Effect:
    """What a rule does to the pairs of a rotation, up to a new length.

    Parameters
    ----------
    unseen : int
        Slow pairs that meet angles which training did not show.
    arc : float
        The largest share of its circle that one of these pairs meets for the first time.
    lost : int
        Fast pairs whose step from one position to the next changes by more than 1 %.
    attention_factor : float
        The factor on cosines and sines that the rule asks for.
    change : float
        The largest change of a score within the trained length, over the largest score, where each
        pair carries the same share of query and key, in the phase in which it changes most.
    distances : int
        At how many distances `change` was computed.
    resolved : int
        Pairs whose step from one position to the next is at least 2**-8 radian, the relative step
        of bfloat16.
    """

    unseen: int
    arc: float
    lost: int
    attention_factor: float
    change: float
    distances: int
    resolved: int


def effect(baseline: Baseline, spec: Any, length: int) -> Effect:
    """The numbers of a rotation `spec` at positions below `length`, against the trained one."""
    before, after = baseline.steps, _steps(spec)
    unseen = _unseen(baseline, after, length)
    arcs = np.minimum(after * (length / (2 * np.pi)), 1.0) - baseline.turns
    with np.errstate(divide="ignore", invalid="ignore"):
        stretch = np.where(before > 0, before / after, 1.0)
    distances = _distances(baseline.trained)
    return Effect(
        unseen=int(unseen.sum()),
        arc=float(arcs[unseen].max(initial=0.0)),
        lost=int((baseline.fast & (stretch > LOST)).sum()),
        attention_factor=float(spec.attention_factor),
        change=_change(baseline.spec, spec, before, after, distances),
        distances=len(distances),
        resolved=int((after >= BFLOAT16).sum()),
    )


def _unseen(baseline: Baseline, after: np.ndarray, length: int) -> np.ndarray:
    """Which slow pairs come further round than they did in training."""
    reached, seen = after * length, baseline.steps * baseline.trained
    return baseline.slow & (reached > seen * (1 + 1e-9))


def _distances(trained: int) -> np.ndarray:
    near = np.arange(1, min(trained, EVERY))
    if trained <= EVERY:
        return near
    return np.concatenate([near, np.linspace(EVERY, trained - 1, MORE).astype(np.int64)])


def _change(
    old: Any, new: Any, before: np.ndarray, after: np.ndarray, distances: np.ndarray
) -> float:
    """The largest mean over the pairs of |g exp(i d after) - exp(i d before)|."""
    if not len(distances):
        return 0.0
    # What the scores are multiplied by, against what they were.
    gain = (new.attention_factor / old.attention_factor) ** 2
    gain *= new.logit_factor / old.logit_factor
    largest = 0.0
    for block in np.array_split(distances, max(1, len(distances) * len(before) >> 18)):
        cosines = np.cos(np.multiply.outer(block, after - before))
        chords = np.sqrt(np.maximum(gain * gain + 1 - 2 * gain * cosines, 0.0))
        largest = max(largest, float(chords.mean(axis=1).max()))
    return largest


def smallest_factor(baseline: Baseline, length: int, make: Callable[[float], Any]) -> float | None:
    """The smallest factor with which no pair meets an angle that training did not show.

    Rounded up to six digits; None where no factor up to 2**20 suffices.
    """

    def suffices(factor: float) -> bool:
        return not _unseen(baseline, _steps(make(factor)), length).any()

    plain = length / baseline.trained
    if suffices(1.0):
        return 1.0
    if suffices(plain) and not suffices(plain * (1 - 1e-6)):
        return plain
    low, high = 1.0, plain
    while not suffices(high):
        low, high = high, high * 2
        if high > LARGEST:
            return None
    while high / low > 1 + 1e-7:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return float(f"{high * (1 + 5e-7):.7g}")


def enlarged(spec: Any, factor: float) -> float:
    """The base by which the slowest pair is stretched by a factor, rounded up to six digits."""
    base = larger_base(spec.base, factor, 2 * spec.pairs, FLOAT, "NTK")
    if not math.isfinite(base):
        raise ArgumentError(mismatch("extend: base", "one below 1e308", spec.base))
    digits = 10.0 ** (math.floor(math.log10(base)) - 5)
    return float(f"{math.ceil(base / digits) * digits:.6g}")
