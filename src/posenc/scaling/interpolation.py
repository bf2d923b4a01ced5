"""One factor on a ladder: by interpolation, by a larger base, and by wavelength with a ramp."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, final

from posenc._core.errors import bad_spec
from posenc._core.numeric.ladder import Array, Float32Rungs, Number, RungArithmetic, Rungs
from posenc._core.spec.checks import positive
from posenc.scaling.base import EachAxis, Scaling, require_factor, require_length


@final
@dataclass(frozen=True)
class Linear(EachAxis, Scaling):
    """Position interpolation (Chen et al. 2023, arXiv:2306.15595).

        f'[j] = f[j] / factor

    Parameters
    ----------
    factor : float
        At least 1. A tuple, one for each axis, gives a `PerAxis` of such rules, None where it is 1.

    Examples
    --------
    >>> import posenc
    >>> rope = posenc.RoPE(4, pairing="half", scaling=posenc.scaling.Linear(4))
    >>> posenc.frequencies(rope)
    array([0.25  , 0.0025])
    """

    factor: float

    def check(self) -> None:
        """Raise `SpecError` for factors below 1."""
        require_factor(self.factor, "Linear")

    def scale(self, rungs: Rungs) -> Rungs:
        """The scaled ladder."""
        factor = rungs.numbers.number(self.factor)
        return rungs.with_frequencies([f / factor for f in rungs.frequencies])

    def float32(self, rungs: Float32Rungs, *, xp: Any) -> Array:  # noqa: ARG002
        """The same in float32."""
        return rungs.frequencies / self.factor


@final
@dataclass(frozen=True)
class NTK(EachAxis, Scaling):
    """NTK-aware scaling (bloc97 2023; Peng et al. 2023, arXiv:2309.00071, section 3.1).

        base' = base * factor ** (d / (d - 2))

    Parameters
    ----------
    factor : float
        At least 1. A tuple, one for each axis, gives a `PerAxis` of such rules, None where it is 1.

    Examples
    --------
    >>> import posenc
    >>> rope = posenc.RoPE(4, pairing="half", scaling=posenc.scaling.NTK(4))
    >>> posenc.frequencies(rope)
    array([1.    , 0.0025])
    """

    factor: float
    geometric: ClassVar[bool] = True

    def check(self) -> None:
        """Raise `SpecError` for factors below 1."""
        require_factor(self.factor, "NTK")

    def rebase(self, base: Number, width: int, axis: int, numbers: RungArithmetic) -> Number:  # noqa: ARG002
        """The larger base."""
        return larger_base(base, numbers.number(self.factor), width, numbers, "NTK")


def larger_base(
    base: Number, factor: Number, width: int, numbers: RungArithmetic, caller: str
) -> Number:
    """Base * factor ** (width / (width - 2))."""
    if width <= 2:
        raise bad_spec(
            caller,
            "at least 2 pairs to an axis, as the first keeps its frequency",
            f"a width of {width}",
        )
    if isinstance(base, float):  # a float's own power is what float32 code evaluates
        return base * factor ** (width / (width - 2))
    return base * numbers.exp(numbers.ln(factor) * width / (width - 2))


@final
@dataclass(frozen=True)
class DynamicNTK(Scaling):
    """Dynamic NTK scaling (emozilla 2023; Peng et al. 2023, arXiv:2309.00071, section 3.3).

        base' = base * (factor * L / original_length - (factor - 1)) ** (d / (d - 2))
        L     = max(length, original_length)

    Every position turns by frequencies that depend on the length, so keys cached under one length
    do not fit queries of another. The length is therefore an argument of every verb, never state:
    choose it once for a sequence, or move the keys with `posenc.rerotate`.

    Parameters
    ----------
    factor : float
        At least 1.
    original_length : int
        Length of training; up to it nothing changes.
    length : int, optional
        Fixes the length. `spec.at(length)` sets it.

    Examples
    --------
    >>> import posenc
    >>> scaling = posenc.scaling.DynamicNTK(2, original_length=4096)
    >>> rope = posenc.RoPE(128, pairing="half", scaling=scaling)
    >>> posenc.frequencies(rope.at(4096))[-1] > posenc.frequencies(rope.at(8192))[-1]
    np.True_
    """

    factor: float
    _: KW_ONLY
    original_length: int
    length: int | None = None
    geometric: ClassVar[bool] = True

    def check(self) -> None:
        """Raise `SpecError` for a factor below 1 or lengths that are none."""
        require_factor(self.factor, "DynamicNTK")
        require_length(self.original_length, "DynamicNTK")
        least = self.original_length
        self._require(
            self.length is None or self.length >= least,
            "length",
            f"at least the original length {least}, which changes nothing",
        )

    @property
    def needs_length(self) -> bool:
        """Whether the length is still open."""
        return self.length is None

    @property
    def lengths(self) -> tuple[int, int | None] | None:
        """The first length with frequencies of its own; every longer one has others."""
        return None if self.length else (self.original_length, None)

    def at(self, length: int) -> DynamicNTK:
        """The scaling for sequences of `length` positions, unless a length is fixed already."""
        return (
            self.replace(length=max(length, self.original_length)) if self.length is None else self
        )

    def rebase(self, base: Number, width: int, axis: int, numbers: RungArithmetic) -> Number:  # noqa: ARG002
        """The base for the length."""
        length = self.original_length if self.length is None else self.length
        factor, original = numbers.number(self.factor), numbers.number(self.original_length)
        grown = factor * numbers.number(length) / original - (factor - 1)
        return larger_base(base, grown, width, numbers, "DynamicNTK")


@final
@dataclass(frozen=True)
class MixedNTK(Scaling):
    """NTK-RoPE-fixed and NTK-RoPE-mixed (Su 2023, kexue.fm/archives/9706).

        fixed   f'[j] = (base * factor) ** (-2j/d) / factor ** (2/d)
        mixed   f'[j] = f[j] / exp(a * (j + 1) ** power),   a = ln(factor) / (d/2) ** power

    Both divide the slowest frequency by exactly the factor; `fixed` is `mixed` with power 1.

    Parameters
    ----------
    factor : float
        At least 1.
    power : float
        1 for `fixed`; 0.625 in the article for `mixed`.

    Examples
    --------
    >>> import posenc
    >>> rope = posenc.RoPE(4, pairing="half", scaling=posenc.scaling.MixedNTK(4))
    >>> posenc.frequencies(rope)
    array([0.5   , 0.0025])
    """

    factor: float
    _: KW_ONLY
    power: float = 1.0
    geometric: ClassVar[bool] = False

    def check(self) -> None:
        """Raise `SpecError` for a factor below 1 or a power that is not positive."""
        require_factor(self.factor, "MixedNTK")
        positive("MixedNTK", power=self.power)

    def scale(self, rungs: Rungs) -> Rungs:
        """The scaled ladder."""
        number, ln, exp, _ = rungs.numbers
        power = number(self.power)
        strength = ln(number(self.factor)) * exp(-power * ln(number(rungs.width) / 2))
        pairs = [(f, ln(number(j))) for j, f in enumerate(rungs.frequencies, start=1)]
        return rungs.with_frequencies([f * exp(-strength * exp(power * log)) for f, log in pairs])

    def float32(self, rungs: Float32Rungs, *, xp: Any) -> Array:
        """The same in float32."""
        strength = math.log(self.factor) / (rungs.width / 2) ** self.power
        return rungs.frequencies / xp.exp(strength * (rungs.index + 1.0) ** self.power)


@final
@dataclass(frozen=True)
class Llama3(Scaling):
    """Wavelength-dependent interpolation (Grattafiori et al. 2024, arXiv:2407.21783).

        turns = original_length * f / (2 pi)
        t     = clamp((turns - low_freq_factor) / (high_freq_factor - low_freq_factor), 0, 1)
        f'    = f * (t + (1 - t) / factor)

    Parameters
    ----------
    factor : float
        At least 1: what the slow frequencies are divided by.
    original_length : int
        Length of training before the extension.
    low_freq_factor, high_freq_factor : float
        Pairs that complete fewer turns than the first are interpolated, pairs that complete more
        than the second are kept. Where they are equal there is no ramp between: a pair that
        completes fewer turns is interpolated, any other kept.

    Examples
    --------
    >>> import posenc
    >>> scaling = posenc.scaling.Llama3(8, original_length=8192)
    >>> rope = posenc.RoPE(128, base=500_000, pairing="half", scaling=scaling)
    >>> plain = posenc.RoPE(128, base=500_000, pairing="half")
    >>> (posenc.frequencies(plain) / posenc.frequencies(rope))[[0, -1]]
    array([1., 8.])
    """

    factor: float
    _: KW_ONLY
    original_length: int
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0

    def check(self) -> None:
        """Raise `SpecError` when the fields contradict each other."""
        require_factor(self.factor, "Llama3")
        require_length(self.original_length, "Llama3")
        low, high = self.low_freq_factor, self.high_freq_factor
        self._require(
            0 < low <= high, "", "0 < low_freq_factor <= high_freq_factor", f"{low} and {high}"
        )

    def scale(self, rungs: Rungs) -> Rungs:
        """The scaled ladder."""
        number = rungs.numbers.number
        low, high = number(self.low_freq_factor), number(self.high_freq_factor)
        factor, length = number(self.factor), number(self.original_length)
        scaled = []
        for f in rungs.frequencies:
            turns = length * f / (2 * rungs.numbers.pi())
            t = (
                number(int(turns >= low))
                if low == high
                else min(max((turns - low) / (high - low), number(0)), number(1))
            )
            scaled.append(f * (t + (1 - t) / factor))
        return rungs.with_frequencies(scaled)

    def float32(self, rungs: Float32Rungs, *, xp: Any) -> Array:
        """The same in float32."""
        f, factor, length = rungs.frequencies, self.factor, self.original_length
        low, high = self.low_freq_factor, self.high_freq_factor
        wavelength = 2 * math.pi / f
        slow, fast = wavelength > length / low, wavelength < length / high
        if low == high:
            return xp.where(slow, f / factor, f)
        t = (length / wavelength - low) / (high - low)
        between = (1 - t) * f / factor + t * f
        return xp.where(slow, f / factor, xp.where(fast, f, between))
