"""The rules that extend a context, what each does to the pairs of a rotation, and the lengths.

The lengths: where training ended, and how far a context is to go.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from posenc import scaling
from posenc._core.errors import bad_argument, bad_data, mismatch
from posenc._core.numeric.ladder import FLOAT
from posenc._core.reading import Layer, Reading
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
        raise bad_argument("extend: base", "one below 1e308", spec.base)
    digits = 10.0 ** (math.floor(math.log10(base)) - 5)
    return float(f"{math.ceil(base / digits) * digits:.6g}")


# --- lengths --------------------------------------------------------------------------------------


def trained_rotation(layer: Layer, trained: int | None, doubts: str = "") -> Baseline:
    """What a layer was trained with, by the lengths of its config, or as the caller says.

    `doubts` are about lengths of the config that are none.
    """
    spec: Any = layer.spec
    own, declared = stretching(spec), layer.length
    original = getattr(own, "original_length", None)
    if trained is not None:
        if trained < 1:
            raise bad_argument("extend: trained", "a length", trained)
        kept = own is not None and (original is None or trained > original)
        return Baseline(spec.at(trained) if kept else _plain(spec), trained, kept)
    if declared is None and original is None:
        raise bad_data(
            "extend", "a trained length", f"none in the config{doubts}", "Say it: trained=8192."
        )
    if own is None:
        return Baseline(spec, int(declared or 0))
    if original is not None and declared in (None, original):
        return Baseline(_plain(spec), original)
    if original is not None and declared is not None and declared < original:
        # Files that raise the original length above the declared one state no single length.
        raise bad_data(
            "extend",
            "lengths that agree",
            f"{declared} declared, {original} before the scaling",
            "Say where training ended: trained=….",
        )
    return Baseline(spec.at(declared), int(declared or 0), True)


def stretching(spec: Any) -> Any:
    """The scaling of a rotation that stretches it, if one does."""
    return next((scaling for scaling in spec.scalings if scaling.stretches), None)


def _plain(spec: Any) -> Any:
    """The rotation without the rule that stretches it, and without its magnitude."""
    if (kept := tuple(s for s in spec.scalings if not s.stretches)) == spec.scalings:
        return spec
    return spec.replace(scaling=kept, magnitude=spec.magnitude.replace(attention_factor=None))


def stated_factor(layer: Layer, grown: float) -> str:
    """What becomes of an attention factor that a config states beside a YaRN, if it does."""
    spec: Any = layer.spec
    stated = spec.magnitude.attention_factor
    own = next((s for s in spec.scalings if isinstance(s, scaling.YaRN)), None)
    if stated is None or own is None:
        return ""
    # By YaRN's own rule, the factor of which this is the attention factor.
    meant = math.exp(min(10 * (stated - 1), 700))
    text = f"The config states an attention factor of {stated:.5g}, that of factor {meant:.4g}"
    if belongs(stated, own):
        return f"{text}, its own: under a larger factor its attention factor is written."
    larger = own.replace(factor=own.factor * grown)
    return (
        f"{text}, while its own factor is {own.factor:g}: it is kept under a larger one, where "
        f"{larger.factor:g} asks for {larger.attention_factor():.5g}. Measure both."
    )


def belongs(stated: float | None, own: Any) -> bool:
    """Whether an attention factor that is stated is the one that the scaling itself asks for."""
    asked = own.attention_factor() if isinstance(own, scaling.YaRN) else math.nan
    return stated is not None and math.isclose(stated, asked, rel_tol=1e-3)


def check_numbers(to: Any, factor: Any, trained: Any) -> None:
    """Raise `ArgumentError` where a length is no integer, or the factor no number."""
    for name, value, kind, expected in (
        ("to", to, Integral, "an integer"),
        ("factor", factor, Real, "a number"),
        ("trained", trained, Integral, "an integer"),
    ):
        if value is not None and (isinstance(value, bool) or not isinstance(value, kind)):
            raise bad_argument(f"extend: {name}", expected, repr(value)[:80])


def new_length(trained: int, to: int | None, factor: float | None) -> int:
    """The length that is asked for, which is above the trained one."""
    if (to is None) == (factor is None):
        raise bad_argument("extend", "to or factor", "neither" if to is None else "both")
    if factor is not None and not 1 <= factor <= LARGEST:
        raise bad_argument("extend: factor", "a number from 1 to 2**20", factor)
    length = int(to or 0) if factor is None else round(trained * factor)
    if not trained < length <= 2**31:
        raise bad_argument(
            "extend: to",
            f"a length above the trained {trained}, up to 2**31",
            length if to is None else to,
            "Nothing has to be written for it." if length <= trained else "",
        )
    return length


# --- models that do not rotate --------------------------------------------------------------------

# What to do about a model that does not rotate, by the kind of its encodings.
TODO = {
    "bias": (
        "{} is defined at every distance, so there is nothing to write; whether the model uses far "
        "text is to be measured."
    ),
    "rotary": "Its rotations are of pictures or sound: give them other positions, not a rule.",
    "Learned": (
        "A learned table has a row for each position: posenc.resize makes it longer, and the model "
        "is trained further."
    ),
    "table": "{} is computed for any position, so there is nothing to write.",
}
TODO["relative"] = TODO["bias"]


def why_no_rotation(plan: Reading) -> str:
    """What was expected of a model that does not rotate, and what to do about it."""
    if plan.errors:
        return f"extend: the plan is open: {'; '.join(plan.errors)}"
    kinds = {layer.kind: type(layer.spec).__name__ for layer in plan if layer.spec is not None}
    if kinds.get("table") == "Learned":
        kinds["Learned"] = "Learned"
    texts = (TODO[kind].format(kinds[kind]) for kind in TODO if kind in kinds)
    return mismatch(
        "extend",
        "a model that rotates queries and keys",
        ", ".join(sorted(set(kinds.values()))) or "no encoding",
        next(texts, "Nothing limits its length."),
    )
