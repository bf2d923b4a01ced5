"""A rule for each axis of the positions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self, final

from posenc._core.errors import bad_argument
from posenc._core.numeric.ladder import Array, Float32Rungs, Number, RungArithmetic, Rungs
from posenc.scaling.base import Scaling

KEPT = Scaling()  # the rule that changes nothing


@final
@dataclass(frozen=True)
class PerAxis(Scaling):
    """One rule for each axis: a film is longer, and its pictures are as large as they were.

        f'[a, j] = rules[a](f[a])[j]

    Each rule sees the ladder of its axis alone. Its attention factor is that of the pairs of its
    axis. So posenc has no one factor where they differ: `spec.attention_factors` has one for each
    axis, and the compiled kernels leave such rotations to the arithmetic of the array library.

    Parameters
    ----------
    rules : tuple of Scaling or None
        One for each axis, in the order of `spec.axes`; None leaves an axis as it was trained.

    Raises
    ------
    SpecError
        If a rule is a `PerAxis` itself. From `posenc.RoPE`: if there is not one rule for each axis,
        or if the axes share one ladder (sections of M-RoPE), of which a rule would see the part of
        its axis only; if factors that differ are to act on the softmax.

    Notes
    -----
    Published code with rules for some axes alone: `RIFLEx` (time), `DyPE` (height and width, where
    each has a factor of its own), `NTK` (Cosmos, as `rope_scale`).

    Examples
    --------
    >>> import posenc
    >>> films = posenc.scaling.PerAxis((posenc.scaling.Linear(2), None))
    >>> axes = posenc.Arrangement(rule="axial", axes=("t", "h"))
    >>> posenc.frequencies(posenc.RoPE(8, pairing="half", arrangement=axes, scaling=films))
    array([0.5  , 0.005, 1.   , 0.01 ])
    """

    rules: tuple[Scaling | None, ...]

    def check(self) -> None:
        """Raise `SpecError` for no rules, or rules that are for each axis themselves."""
        self._require(len(self.rules) > 0, "rules", "a rule or None for each axis")
        self._require(
            not any(isinstance(rule, PerAxis) for rule in self.rules),
            "rules",
            "rules for one axis each",
        )

    @property
    def uneven(self) -> bool:
        """Whether axes have attention factors of their own."""
        return len({*self._each("attention_factor")}) > 1

    @property
    def lengths(self) -> tuple[int, int | None] | None:
        """From the first length of any axis to the last."""
        ranges = [rule.lengths for rule in self.rules if rule and rule.lengths]
        if not ranges:
            return None
        lasts = [last for _, last in ranges if last is not None]
        return min(first for first, _ in ranges), max(lasts) if len(lasts) == len(ranges) else None

    def at(self, length: int) -> PerAxis:
        """The same rules for sequences of a known length."""
        return self.replace(rules=tuple(rule and rule.at(length) for rule in self.rules))

    def of_axis(self, axis: int) -> tuple[Scaling, ...]:
        """The rule of an axis, if it has one."""
        return tuple(filter(None, [self.rules[axis]]))

    def _each(self, factor: str) -> list[float]:
        return [getattr(rule or KEPT, factor)() for rule in self.rules]

    def _one(self, factor: str) -> float:
        factors = self._each(factor)
        if len({*factors}) > 1:
            raise bad_argument(
                f"PerAxis: {factor}",
                "one number for all pairs",
                f"{factors}, one for each axis",
                "spec.attention_factors has them; RotaryMagnitude(attention_factor=…) sets one.",
            )
        return factors[0]

    def attention_factor(self) -> float:
        """The factor on cosines and sines, where all axes have the same."""
        return self._one("attention_factor")

    def logit_factor(self) -> float:
        """The factor on the softmax scale, where all axes have the same."""
        return self._one("logit_factor")

    def rebase(self, base: Number, width: int, axis: int, numbers: RungArithmetic) -> Number:
        """The base that the rule of the axis asks for."""
        return (self.rules[axis] or KEPT).rebase(base, width, axis, numbers)

    def scale(self, rungs: Rungs) -> Rungs:
        """The ladder of an axis by its rule."""
        return (self.rules[rungs.axis] or KEPT).scale(rungs)

    def float32(self, rungs: Float32Rungs, *, xp: Any) -> Array:
        """The same in float32."""
        return (self.rules[rungs.axis] or KEPT).float32(rungs, xp=xp)


class EachAxis(Scaling):
    """What turns a rule that was given a factor for each axis into a `PerAxis`."""

    def check(self) -> None:
        """Raise `SpecError` for a factor below 1."""
        self._check_stretch()

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """The rule, or with a factor for each axis a `PerAxis` of such rules."""
        factors = args[0] if args else kwargs.get("factor")
        if isinstance(factors, (tuple, list)) and len(args) + len(kwargs) == 1:
            rules: Any = [cls(one) if one is True or one != 1 else None for one in factors]
            return PerAxis(tuple(rules))  # type: ignore[return-value]  # then no __init__ follows
        return super().__new__(cls, *args, **kwargs)
