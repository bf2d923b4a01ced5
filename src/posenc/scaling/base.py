"""What all scalings share: ladder in, ladder out; and a rule for each axis of the positions."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from typing import Any, ClassVar, Self, final

from posenc._core.errors import bad_argument, bad_spec
from posenc._core.numeric.ladder import Array, Float32Rungs, Number, RungArithmetic, Rungs
from posenc._core.spec.spec import Value


class Scaling(Value, ABC):
    """A rule that changes the frequencies of a ladder, and nothing else.

    `stretches` marks the rules that extend a context, of which a spec holds one: two of them
    contradict each other, but for a change of base followed by interpolation. `geometric` marks
    the rules whose formula needs a base, `comes_last` those that no other may follow.
    """

    stretches: ClassVar[bool] = True
    geometric: ClassVar[bool] = False
    comes_last: ClassVar[bool] = False

    @property
    def needs_length(self) -> bool:
        """Whether the frequencies depend on a length that has not been given yet."""
        return False

    @property
    def lengths(self) -> tuple[int, int | None] | None:
        """The first and last length with frequencies of their own, while the length is open.

        A shorter one has those of the first and a longer one those of the last, if there is a last.
        """
        return None

    def at(self, length: int) -> Scaling:  # noqa: ARG002
        """The same rule for sequences of a known length."""
        return self

    def of_axis(self, axis: int) -> tuple[Scaling, ...]:  # noqa: ARG002
        """What acts on the ladder of one axis: the rule itself, but for rules by axis."""
        return (self,)

    @property
    def uneven(self) -> bool:
        """Whether pairs have attention factors of their own."""
        return False

    def attention_factor(self) -> float:
        """The factor on cosines and sines that the paper asks for with these frequencies."""
        return 1.0

    def logit_factor(self) -> float:
        """The factor on the softmax scale that the paper asks for besides."""
        return 1.0

    def rebase(self, base: Number, width: int, axis: int, numbers: RungArithmetic) -> Number:  # noqa: ARG002
        """The base to build the ladder with."""
        return base

    def scale(self, rungs: Rungs) -> Rungs:
        """The scaled ladder, in the numbers of the ladder given."""
        return rungs

    def float32(self, rungs: Float32Rungs, *, xp: Any) -> Array:  # noqa: ARG002
        """The scaled frequencies by the float32 expression of published code."""
        return rungs.frequencies


def require_factor(factor: float, caller: str) -> None:
    """Raise unless a factor is at least 1: a scaling extends, it never shortens."""
    if factor < 1:
        todo = (
            "The factor is the new length over the old one. To turn faster, as this asks for, "
            f"multiply all frequencies: ladder=posenc.Ladder(first={1 / factor:g})."
            if factor > 0
            else "The factor is the new length over the old one."
        )
        raise bad_spec(f"{caller}: factor", "a number of at least 1", factor, todo)


def require_length(length: int | None, caller: str) -> None:
    """Raise unless a length of training is a positive number of positions."""
    if length is not None and length < 1:
        raise bad_spec(
            f"{caller}: original_length",
            "at least 1 position",
            length,
            "It is the length of training before any scaling.",
        )


def contradiction(scalings: tuple[Scaling, ...]) -> str | None:
    """Why these scalings cannot act together, or None."""
    names = [type(scaling).__name__ for scaling in scalings]
    twice = sorted(name for name in names if names.count(name) > 1)
    if twice:
        return f"{twice[0]} twice"
    for scaling, name, after in zip(scalings, names, names[1:], strict=False):
        if scaling.comes_last:
            return f"{name} before {after}, which it follows"
    stretching = [name for s, name in zip(scalings, names, strict=True) if s.stretches]
    if len(stretching) > 1 and sorted(stretching) != ["Linear", "NTK"]:
        return f"{' and '.join(stretching)} together"
    return None


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
    def needs_length(self) -> bool:
        """Whether the frequencies of some axis depend on a length that is still open."""
        return any(rule.needs_length for rule in self.rules if rule)

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
        rule = self.rules[axis]
        return () if rule is None else (rule,)

    def _each(self, factor: str) -> list[float]:
        return [1.0 if rule is None else getattr(rule, factor)() for rule in self.rules]

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
        rule = self.rules[axis]
        return base if rule is None else rule.rebase(base, width, axis, numbers)

    def scale(self, rungs: Rungs) -> Rungs:
        """The ladder of an axis by its rule."""
        rule = self.rules[rungs.axis]
        return rungs if rule is None else rule.scale(rungs)

    def float32(self, rungs: Float32Rungs, *, xp: Any) -> Array:
        """The same in float32."""
        rule = self.rules[rungs.axis]
        return rungs.frequencies if rule is None else rule.float32(rungs, xp=xp)


class EachAxis:
    """What turns a rule that was given a factor for each axis into a `PerAxis`."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """The rule, or with a factor for each axis a `PerAxis` of such rules."""
        factors = args[0] if args else kwargs.get("factor")
        if isinstance(factors, (tuple, list)) and len(args) + len(kwargs) == 1:
            rules: Any = (None if factor == 1 else cls(factor) for factor in factors)
            return PerAxis((*rules,))  # type: ignore[return-value]  # then no __init__ follows
        return super().__new__(cls, *args, **kwargs)
