"""The second kind: rotations of queries and keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from posenc._core.arrays.array import arange, astype, concrete, device_of, product
from posenc._core.arrays.lookups import moveaxis
from posenc._core.errors import bad_argument, bad_position, bad_spec
from posenc._core.numeric.ladder import Ladder, context, pi
from posenc._core.spec.answers import answer
from posenc._core.spec.checks import Example, at_least, distinct, even_width, positive, width_of
from posenc._core.spec.parameters import Init
from posenc._core.spec.spec import Parameter, Spec
from posenc.encodings.rotary.magnitude import RotaryMagnitude
from posenc.encodings.rotary.pairing import MYPY, PAIRINGS, Pairing, PairingField, lift, turn

if TYPE_CHECKING:
    from posenc._core.spec.verbs import Angles, Turned

__all__ = [
    "Array",
    "Constants",
    "Example",
    "HeadedRotarySpec",
    "Init",
    "Ladder",
    "PairingField",
    "Parameter",
    "Role",
    "RotarySpec",
    "SpatialRotarySpec",
    "arange",
    "astype",
    "at_least",
    "bad_argument",
    "bad_position",
    "bad_spec",
    "concrete",
    "context",
    "device_of",
    "distinct",
    "even_width",
    "lift",
    "moveaxis",
    "pi",
    "positive",
    "product",
    "width_of",
]

Array = Any
Constants = Mapping[str, Array]  # constants and parameters by their names
Role = Literal["query", "key"]


def _either(phasors: Callable[..., Any]) -> Callable[..., Any]:
    """`posenc.cos_sin` as a method, which with constants is that of an author, as it was once."""

    def cos_sin(self: Any, positions: Any, constants: Any = None, **options: Any) -> Any:
        if constants is not None:
            return phasors(self, positions, constants, **options)
        return answer(self, "cos_sin")(positions, **options)

    return cos_sin


class RotarySpec(Spec):
    """An encoding that turns pairs of channels by angles that are linear in the position."""

    kind: ClassVar[Literal["rotary"]] = "rotary"
    quarters: ClassVar[int] = 0  # quarter turns that a query makes besides those of its position
    dim: int
    if TYPE_CHECKING:
        rotate: Turned
        cos_sin: Angles
    if MYPY:
        pairing: Pairing
    else:
        pairing: PairingField

    def __post_init__(self) -> None:
        # What may be given in short is stored in full, so that equal meanings are equal specs.
        if isinstance(self.pairing, str):
            known = PAIRINGS.get(self.pairing)
            object.__setattr__(self, "pairing", known or Pairing(self.pairing))
        super().__post_init__()

    @property
    def pairs(self) -> int:
        """Number of pairs that the rotation holds, turning or not."""
        return self.dim // 2

    @property
    def channels(self) -> Pairing:
        """Which channels form a pair, and which way they turn."""
        return self.pairing

    @property
    def per_head(self) -> int | None:
        """The number of heads, where each has frequencies or other numbers of its own."""
        return None

    @property
    def output_dim(self) -> int:
        """Channels that the rotated part has afterwards."""
        return self.dim

    @property
    def plain(self) -> bool:
        """Whether an input turns by pairs, all heads alike, and nothing else happens to it."""
        return self.per_head is None and not self.shapes and self.output_dim == self.dim

    @property
    def sided(self) -> bool:
        """Whether queries and keys have sizes or angles of their own."""
        return False

    @property
    def needs_length(self) -> bool:
        """Whether frequencies depend on a length that has not been given yet."""
        return self.lengths is not None

    @property
    def lengths(self) -> tuple[int, int | None] | None:
        """The first and last length with frequencies of their own, while the length is open.

        A shorter one has those of the first and a longer one those of the last, if there is a last.
        """
        return None

    def at(self, length: int) -> RotarySpec:  # noqa: ARG002
        """The same encoding for sequences of a known length."""
        return self

    @property
    def attention_factor(self) -> float:
        """The factor on cosines and sines."""
        return 1.0

    @property
    def uneven(self) -> bool:
        """Whether pairs have attention factors of their own."""
        return False

    def amplitude(self, like: Array, *, dtype: Any, xp: Any) -> Array | float:  # noqa: ARG002
        """The factor on cosines and sines: a number, or (pairs,) on the device of `like`."""
        return self.attention_factor

    @property
    def logit_factor(self) -> float:
        """The constant factor on the softmax scale."""
        return 1.0

    @property
    def magnitude_of_scores(self) -> RotaryMagnitude:
        """The factors as declared."""
        return RotaryMagnitude()

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        older = vars(cls).get("cos_sin")
        if older is not None:  # of an author who knew `phasors` under this name
            cls.phasors, cls.cos_sin = older, _either(older)  # type: ignore[method-assign]

    def phasors(
        self, positions: Array, constants: Mapping[str, Array], *, dtype: Any, xp: Any
    ) -> tuple[Array, Array]:
        """Cosines and sines of the angles, of unit size.

        Parameters
        ----------
        positions : array
            (..., axes), integers; floats where `coordinates` says so.
        constants : mapping
            The arrays of `constants()`, of the library `xp`; and parameters, where there are any.
        dtype : dtype
            `xp.float32` or `xp.float64`.
        xp : namespace
            An array-API namespace.

        Returns
        -------
        tuple of arrays
            cos, sin: (..., pairs) in `dtype`; those of the `matrix`, where a class has one.
        """
        phases = self.matrix  # type: ignore[attr-defined]
        return phases.cos_sin(positions, constants, dtype=dtype, xp=xp)

    phasors.needs = "matrix"  # type: ignore[attr-defined]  # whoever has one needs no other

    def sizes(
        self,
        positions: Array,
        role: Role,  # noqa: ARG002
        constants: Mapping[str, Array],  # noqa: ARG002
        *,
        dtype: Any,
        xp: Any,
    ) -> Array | float:
        """The factor on each pair's cosine and sine: a number, or (..., pairs)."""
        return self.amplitude(positions, dtype=dtype, xp=xp)

    def turned(
        self,
        x: Array,
        cos: Array,
        sin: Array,
        role: Role,  # noqa: ARG002
        constants: Mapping[str, Array],  # noqa: ARG002
        *,
        inverse: bool,
        xp: Any,
    ) -> Array:
        """The rotated part of an input, (..., dim), by cosines and sines that `phasors` gave."""
        return turn(x, cos, sin, self.channels, transposed=inverse, xp=xp)

    def check_positions(self, positions: Array, dtype: str) -> None:
        """Raise `PositionError` where a position leaves what `dtype` can hold."""

    cos_sin = _either(lambda spec, *args, **options: spec.phasors(*args, **options))


class HeadedRotarySpec(RotarySpec):
    """A rotation in which each head has numbers of its own."""

    heads: int

    @property
    def per_head(self) -> int | None:
        """The number of heads."""
        return self.heads


class SpatialRotarySpec(HeadedRotarySpec):
    """A rotation by points of a space, in which each head has numbers of its own."""

    space: tuple[str, ...]
    coordinates = "real"
