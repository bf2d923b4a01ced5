"""NTK-aware scaling: the slowest pair is stretched and the fastest kept."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, final

from posenc._core.errors import bad_spec
from posenc._core.numeric.ladder import Array, Float32Rungs, Number, RungArithmetic, Rungs
from posenc._core.spec.checks import positive
from posenc.scaling.base import Scaling, require_factor, require_length, stretch


@final
@dataclass(frozen=True)
class NTK(Scaling):
    """NTK-aware scaling (bloc97 2023; Peng et al. 2023, arXiv:2309.00071, section 3.1).

        base' = base * factor ** (d / (d - 2))

    Parameters
    ----------
    factor : float or tuple of float
        At least 1; one for each axis where they differ.

    Examples
    --------
    >>> import posenc
    >>> rope = posenc.RoPE(4, pairing="half", scaling=posenc.scaling.NTK(4))
    >>> posenc.frequencies(rope)
    array([1.    , 0.0025])
    """

    factor: float | tuple[float, ...]
    geometric: ClassVar[bool] = True

    def check(self) -> None:
        """Raise `SpecError` for factors below 1."""
        require_factor(self.factor, "NTK")

    def rebase(self, base: Number, width: int, axis: int, numbers: RungArithmetic) -> Number:
        """The larger base."""
        factor = numbers.number(stretch(self.factor, axis, "NTK"))
        return larger_base(base, factor, width, numbers, "NTK")


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
