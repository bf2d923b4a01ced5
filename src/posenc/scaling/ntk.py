"""NTK-aware scaling: a larger base, by which the slowest pair is stretched and the fastest kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from posenc._core.errors import bad_spec
from posenc._core.numeric.ladder import Number, RungArithmetic
from posenc.scaling.per_axis import EachAxis


@final
@dataclass(frozen=True)
class NTK(EachAxis):
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
