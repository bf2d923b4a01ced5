"""Rules for single frequencies: a number for each, some that stop or slow down, and their unit."""

from __future__ import annotations

import math
import operator
import re
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal, final

from posenc._core.arrays.array import device_of
from posenc._core.errors import bad_spec
from posenc._core.numeric.ladder import Array, Float32Rungs, Rungs
from posenc.scaling.base import Scaling, require_factor, require_length


@final
@dataclass(frozen=True)
class Multipliers(Scaling):
    """Explicit factors, one for each rung of the ladder.

        multiply   f'[j] = f[j] * values[j]
        divide     f'[j] = f[j] / values[j]

    Parameters
    ----------
    values : tuple of float
        One for each rung; positive where they divide.
    use : {"multiply", "divide"}
        How they act.

    Examples
    --------
    >>> import posenc
    >>> scaling = posenc.scaling.Multipliers((1.0, 0.5))
    >>> posenc.frequencies(posenc.RoPE(4, pairing="half", scaling=scaling))
    array([1.   , 0.005])
    """

    values: tuple[float, ...]
    _: KW_ONLY
    use: Literal["multiply", "divide"] = "multiply"
    stretches: ClassVar[bool] = False

    def check(self) -> None:
        """Raise `SpecError` for divisors that are not positive."""
        self._require(
            self.use == "multiply" or min(self.values, default=1) > 0, "values", "positive divisors"
        )

    def scale(self, rungs: Rungs) -> Rungs:
        """The scaled ladder."""
        require_count(self.values, len(rungs.frequencies), "Multipliers: values")
        act = operator.truediv if self.use == "divide" else operator.mul
        return rungs.with_frequencies(
            [*map(act, rungs.frequencies, map(rungs.numbers.number, self.values))]
        )

    def float32(self, rungs: Float32Rungs, *, xp: Any) -> Array:
        """The same in float32."""
        values = beside(self.values, rungs.frequencies, xp)
        return (
            1.0 / (values * rungs.periods) if self.use == "divide" else rungs.frequencies * values
        )


def require_count(values: tuple[float, ...], count: int, caller: str) -> None:
    """Raise unless there is one value for each rung."""
    if len(values) != count:
        raise bad_spec(caller, f"{count} numbers, one for each frequency", len(values))


def beside(values: tuple[float, ...], array: Array, xp: Any) -> Array:
    """float32 values as an array of the library, on the device of `array`."""
    return xp.asarray(list(values), dtype=xp.float32, device=device_of(array))


@final
@dataclass(frozen=True)
class LongRoPE(Scaling):
    """LongRoPE (Ding et al. 2024, arXiv:2402.13753).

        f'[j] = f[j] / short[j]   for sequences up to original_length, else   f[j] / long[j]
        attention factor          sqrt(1 + ln(factor) / ln(original_length))

    The two sets give different angles at every position. The length is therefore an argument of
    every verb, never state: choose it once for a sequence, or move cached keys with
    `posenc.rerotate` when it passes the original length. LongRoPE2 (Shang et al. 2025,
    arXiv:2502.20082) is the case short = (1, …): the model's own frequencies up to the original
    length, and searched divisors beyond.

    Parameters
    ----------
    short, long : tuple of float
        Divisors, one for each rung.
    original_length : int
        Length of training before the extension.
    factor : float
        Extended length over original length; it acts on the attention factor alone.
    short_factor, long_factor : float, optional
        Attention factors of each set, where a model gives them instead of the formula.
    length : int, optional
        Fixes the length. `spec.at(length)` sets it.

    Examples
    --------
    >>> import posenc
    >>> scaling = posenc.scaling.LongRoPE((1, 1), (1, 4), original_length=4096, factor=4)
    >>> rope = posenc.RoPE(4, pairing="half", scaling=scaling)
    >>> posenc.frequencies(rope.at(4096)), posenc.frequencies(rope.at(4097))
    (array([1.  , 0.01]), array([1.    , 0.0025]))
    """

    short: tuple[float, ...]
    long: tuple[float, ...]
    _: KW_ONLY
    original_length: int
    factor: float = 1.0
    short_factor: float | None = None
    long_factor: float | None = None
    length: int | None = None

    def check(self) -> None:
        """Raise `SpecError` when the fields contradict each other."""
        require_length(self.original_length, "LongRoPE")
        require_factor(self.factor, "LongRoPE")
        short, long = len(self.short), len(self.long)
        self._require(short == long, "", "as many short as long divisors", f"{short} and {long}")
        least = min(self.short + self.long, default=1)
        self._require(least > 0, "", "positive divisors", least)
        self._require(
            self.factor <= 1 or self.original_length > 1,
            "original_length",
            "at least 2 positions",
            1,
        )

    @property
    def needs_length(self) -> bool:
        """Whether the length is still open."""
        return self.length is None

    @property
    def lengths(self) -> tuple[int, int | None] | None:
        """The first and last length with frequencies of their own: the last short, the first long.

        Two lengths of one set are one spec, so that a growing sequence makes no new constants.
        """
        return None if self.length else (self.original_length, self.original_length + 1)

    def at(self, length: int) -> LongRoPE:
        """The scaling for sequences of `length` positions, unless a length is fixed already."""
        own = min(max(length, self.original_length), self.original_length + 1)
        return self.replace(length=own) if self.length is None else self

    @property
    def _is_long(self) -> bool:
        return self.length is not None and self.length > self.original_length

    def attention_factor(self) -> float:
        """The factor on cosines and sines."""
        stated = self.long_factor if self._is_long else self.short_factor
        if stated is not None or self.factor <= 1:
            return 1.0 if stated is None else stated
        return math.sqrt(1 + math.log(self.factor) / math.log(self.original_length))

    @property
    def divisors(self) -> tuple[float, ...]:
        """The set for the length."""
        return self.long if self._is_long else self.short

    def scale(self, rungs: Rungs) -> Rungs:
        """The scaled ladder."""
        require_count(self.divisors, len(rungs.frequencies), "LongRoPE")
        pairs = zip(rungs.frequencies, self.divisors, strict=True)
        return rungs.with_frequencies([f / rungs.numbers.number(v) for f, v in pairs])

    def float32(self, rungs: Float32Rungs, *, xp: Any) -> Array:
        """The same in float32."""
        return 1.0 / (beside(self.divisors, rungs.frequencies, xp) * rungs.periods)


@final
@dataclass(frozen=True)
class Proportional(Scaling):
    """Proportional RoPE, or p-RoPE (Barbero et al. 2024, arXiv:2410.06205).

        f'[j] = f[j]  for j < floor(fraction * d / 2),  else 0

    The exponents keep dividing by the full width d, and so do the pairs: this is not a narrower
    rotation.

    Parameters
    ----------
    fraction : float
        From 0 to 1: the share of pairs that turn.

    Examples
    --------
    >>> import posenc
    >>> scaling = posenc.scaling.Proportional(0.5)
    >>> posenc.frequencies(posenc.RoPE(8, pairing="half", scaling=scaling))
    array([1. , 0.1, 0. , 0. ])
    """

    fraction: float
    stretches: ClassVar[bool] = False

    def check(self) -> None:
        """Raise `SpecError` for a fraction outside 0 to 1."""
        self._require(0 <= self.fraction <= 1, "fraction", "from 0 to 1")

    def turning(self, width: int) -> int:
        """The number of pairs that turn, rounded as floats are, so that 0.7 of 10 is 7."""
        return int(self.fraction * width // 2)

    def scale(self, rungs: Rungs) -> Rungs:
        """The scaled ladder."""
        kept, zero = self.turning(rungs.width), rungs.numbers.number(0)
        return rungs.with_frequencies(
            [f if j < kept else zero for j, f in enumerate(rungs.frequencies)]
        )

    def float32(self, rungs: Float32Rungs, *, xp: Any) -> Array:
        """The same in float32."""
        kept = self.turning(rungs.width)
        return xp.concat([rungs.leading(kept), xp.zeros_like(rungs.frequencies[kept:])])


SHARE = 0.9  # of a turn, in the authors' code: "a few videos may repeat in the tail frames"


@final
@dataclass(frozen=True)
class RIFLEx(Scaling):
    """Riflex, for videos longer than those of training (Zhao et al. 2025, arXiv:2502.15894).

        f'[k - 1] = 0.9 * 2 pi / length        all others stay

    The frequency whose period is that in which generated films begin to repeat themselves makes
    nine tenths of a turn within the new length. It is a rule for the axis of time alone: put it
    into `PerAxis`.

    Parameters
    ----------
    k : int
        Which frequency of the axis, counted from 1 as the authors do; 4 for HunyuanVideo and 2 for
        CogVideoX-5B in their scripts, who find it by looking at films.
    length : int
        New length in positions of the axis: frames after the VAE, not frames of the film.

    Raises
    ------
    SpecError
        If k or the length is below 1; from `posenc.RoPE`, if the axis has fewer than k pairs.

    Examples
    --------
    >>> import posenc
    >>> rope = posenc.RoPE(8, base=256, pairing="interleaved", scaling=posenc.scaling.RIFLEx(3, 66))
    >>> posenc.frequencies(rope).round(5)
    array([1.     , 0.25   , 0.08568, 0.01562])
    """

    k: int
    length: int

    def check(self) -> None:
        """Raise `SpecError` for a frequency or length below 1."""
        self._require(self.k >= 1, "k", "the number of a frequency, counted from 1")
        self._require(self.length >= 1, "length", "at least 1 position")

    def scale(self, rungs: Rungs) -> Rungs:
        """The scaled ladder."""
        self._require_pair(len(rungs.frequencies))
        frequencies, number = [*rungs.frequencies], rungs.numbers.number
        frequencies[self.k - 1] = 9 * 2 * rungs.numbers.pi() / (10 * number(self.length))
        return rungs.with_frequencies(frequencies)

    def _require_pair(self, count: int) -> None:
        """Raise unless an axis has the k-th frequency."""
        self._require(self.k <= count, "k", f"one of the {count} frequencies of its axis")

    def float32(self, rungs: Float32Rungs, *, xp: Any) -> Array:
        """The same in float32."""
        self._require_pair(rungs.index.shape[0])
        slower = xp.ones_like(rungs.frequencies) * (SHARE * 2 * math.pi / self.length)
        return xp.where(rungs.index == self.k - 1, slower, rungs.frequencies)


@final
@dataclass(frozen=True)
class Unit(Scaling):
    """What one step of an integer position is worth.

        f'[j] = f[j] * unit

    So halves (the centres of cells), sixteenths (V2PE in InternVL) and thirtieths of a second are
    as exact as whole positions, where a float would be rounded. It extends nothing. Beside other
    rules it comes last, as these compare wavelengths with lengths in whole positions.

    Parameters
    ----------
    unit : str, int or Fraction
        A positive fraction, kept as text in lowest terms: "1/16".

    Raises
    ------
    SpecError
        If it is none.

    Examples
    --------
    >>> import numpy as np, posenc
    >>> halves = posenc.RoPE(4, pairing="half", scaling=posenc.scaling.Unit("1/2"))
    >>> cos, sin = posenc.cos_sin(halves, [1, 2, 3])
    >>> bool(abs(sin[:, 0] - np.sin([0.5, 1, 1.5])).max() < 1e-7)
    True
    """

    unit: str
    stretches: ClassVar[bool] = False
    comes_last: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if isinstance(self.unit, (int, Fraction)) and not isinstance(self.unit, bool):
            object.__setattr__(self, "unit", str(self.unit))
        super().__post_init__()

    def check(self) -> None:
        """Raise `SpecError` for what is no fraction in lowest terms."""
        written = re.fullmatch(r"[1-9]\d{0,11}(/[1-9]\d{0,11})?", self.unit)
        self._require(
            written is not None and str(Fraction(self.unit)) == self.unit,
            "unit",
            "a positive fraction, such as '1/16' or '2'",
            repr(self.unit),
            "Write it in lowest terms, as text or as a fractions.Fraction.",
        )

    def scale(self, rungs: Rungs) -> Rungs:
        """The scaled ladder."""
        above, below = map(rungs.numbers.number, Fraction(self.unit).as_integer_ratio())
        return rungs.with_frequencies([f * above / below for f in rungs.frequencies])

    def float32(self, rungs: Float32Rungs, *, xp: Any) -> Array:  # noqa: ARG002
        """The same in float32, where code has the same bits from positions that are no integers."""
        above, below = Fraction(self.unit).as_integer_ratio()
        self._require(
            not (above & (above - 1) or below & (below - 1)),
            "unit",
            "a power of two under phase='float32', or phase='exact'",
        )
        return rungs.frequencies * (above / below)
