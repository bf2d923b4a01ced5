"""NTK-aware scaling whose factor grows with the sequence."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, final

from posenc._core.numeric.ladder import Number, RungArithmetic
from posenc.scaling.base import Scaling
from posenc.scaling.ntk import larger_base


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
        self._check_stretch()
        least = self.original_length
        self._require(
            self.length is None or self.length >= least,
            "length",
            f"at least the original length {least}, at which nothing changes",
        )

    @property
    def lengths(self) -> tuple[int, int | None] | None:
        """The first length with frequencies of its own; every longer one has others."""
        return None if self.length is not None else (self.original_length, None)

    def rebase(self, base: Number, width: int, axis: int, numbers: RungArithmetic) -> Number:  # noqa: ARG002
        """The base for the length."""
        length = self.original_length if self.length is None else self.length
        factor, original = numbers.number(self.factor), numbers.number(self.original_length)
        grown = factor * numbers.number(length) / original - (factor - 1)
        return larger_base(base, grown, width, numbers, "DynamicNTK")
