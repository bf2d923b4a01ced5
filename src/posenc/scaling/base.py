"""What all scalings share: ladder in, ladder out."""

from __future__ import annotations

from abc import ABC
from typing import Any, ClassVar

from posenc._core.errors import bad_spec
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

    def _check_stretch(self) -> None:
        """Raise `SpecError` for a factor or an original length that cannot be, of those it has."""
        own, name = vars(self), type(self).__name__
        if "factor" in own:
            require_factor(own["factor"], name)
        if "original_length" in own:
            require_length(own["original_length"], name)

    @property
    def needs_length(self) -> bool:
        """Whether the frequencies depend on a length that has not been given yet."""
        return self.lengths is not None

    @property
    def lengths(self) -> tuple[int, int | None] | None:
        """The first and last length with frequencies of their own, while the length is open.

        A shorter one has those of the first and a longer one those of the last, if there is a last.
        """
        return None

    def at(self, length: int) -> Scaling:
        """The same rule for sequences of a known length, unless a length is fixed already."""
        if self.lengths is None:
            return self
        first, last = self.lengths
        own = max(length, first)
        return self.replace(length=own if last is None else min(own, last))

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
    return (
        f"{' and '.join(stretching)} together"
        if len(stretching) > 1 and sorted(stretching) != ["Linear", "NTK"]
        else None
    )
