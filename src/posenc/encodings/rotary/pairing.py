"""Which channels form a pair, and which way a pair turns."""

from __future__ import annotations

from dataclasses import KW_ONLY, InitVar, dataclass
from typing import TYPE_CHECKING, Any, Literal, final, get_args

from posenc._core.arrays.array import interleaved
from posenc._core.spec.spec import Value

Array = Any
Order = Literal["half", "interleaved"]


@final
@dataclass(frozen=True)
class Pairing(Value):
    """How the channels of a head become pairs that turn.

        half          pair j is channels j and j + d/2
        interleaved   pair j is channels 2j and 2j + 1

    Parameters
    ----------
    order : {"half", "interleaved"}
        Where the two channels of a pair stand. It belongs to the weights: a model trained with one
        gives noise under the other.
    part : {"leading", "trailing"}
        Which channels turn where the head is wider than the rotation; the rest pass through.
    output : {"same", "half"}
        The order of the result: as the input, or half whatever the input. Scores do not see the
        difference as long as queries and keys share it.
    direction : {"forward", "backward"}
        The sign of the angle. Scores do not see it for one position axis and a symmetric use.
    blocks : tuple of int
        Pairs in each block of channels, where the order holds within blocks; one block by default.
    targets : tuple of {"q", "k", "v", "out", "input"}
        What a model turns. `"v"`: values too; `"out"`: the output of attention is turned back;
        `"input"`: what comes before the projections. The verbs turn what they are given; the module
        follows `"q"`, `"k"` and `"v"`.

    Raises
    ------
    SpecError
        If a target stands twice or a block is empty.

    Examples
    --------
    >>> import posenc
    >>> posenc.Pairing("half").channels(4)
    ((0, 2), (1, 3))
    >>> posenc.Pairing("interleaved").channels(4)
    ((0, 1), (2, 3))
    """

    order: Order
    _: KW_ONLY
    part: Literal["leading", "trailing"] = "leading"
    output: Literal["same", "half"] = "same"
    direction: Literal["forward", "backward"] = "forward"
    blocks: tuple[int, ...] = ()
    targets: tuple[Literal["q", "k", "v", "out", "input"], ...] = ("q", "k")

    def check(self) -> None:
        """Raise `SpecError` when the fields contradict each other."""
        self._require(len(set(self.targets)) == len(self.targets), "targets", "each target once")
        self._require(
            all(block >= 1 for block in self.blocks), "blocks", "at least one pair in each"
        )

    def word(self) -> str:
        """The order alone, which specs take for a pairing that is plain otherwise."""
        return repr(self.order) if self == PAIRINGS[self.order] else repr(self)

    def sizes(self, pairs: int) -> tuple[int, ...]:
        """Pairs in each block; they must add up to `pairs`."""
        if not self.blocks:
            return (pairs,)
        if sum(self.blocks) != pairs:
            raise self._mismatch(
                "blocks",
                f"{pairs} pairs in all",
                f"{self.blocks}, which add up to {sum(self.blocks)}",
            )
        return self.blocks

    def channels(self, dim: int) -> tuple[tuple[int, int], ...]:
        """The two channels of each pair of a rotation of width `dim`, before the output order."""
        found = []
        begin = 0
        for size in self.sizes(dim // 2):
            for j in range(size):
                if self.order == "half":
                    found.append((begin + j, begin + size + j))
                else:
                    found.append((begin + 2 * j, begin + 2 * j + 1))
            begin += 2 * size
        return tuple(found)


PAIRINGS = {order: Pairing(order) for order in get_args(Order)}

# The type of a field that takes an order for a plain pairing, and is a `Pairing` when it is read.
# mypy can say so of a parameter of `__init__` whose attribute the base class declares, pyright of a
# descriptor. Each reads what it knows, and Python a union.
MYPY = False  # mypy takes it for true
if MYPY:
    PairingField = InitVar[Pairing | Order]
elif TYPE_CHECKING:

    class PairingField:
        """A pairing, given in short or in full."""

        def __get__(self, spec: object, owner: type) -> Pairing: ...
        def __set__(self, spec: object, value: Pairing | Order) -> None: ...

else:
    PairingField = Pairing | Order


def advanced(cos: Array, sin: Array, quarters: int) -> tuple[Array, Array]:
    """Cosines and sines of angles that are a quarter turn larger (1), smaller (-1), or the same."""
    if quarters == 0:
        return cos, sin
    return (-sin, cos) if quarters > 0 else (sin, -cos)


def turn(
    x: Array, cos: Array, sin: Array, pairing: Pairing, *, transposed: bool = False, xp: Any
) -> Array:
    """Turn the pairs of `x` by angles given as cosines and sines.

    a' = a cos - b sin
    b' = b cos + a sin
    """
    source = pairing.order
    target = "half" if pairing.output == "half" else pairing.order
    if transposed:
        source, target = target, source
    if transposed != (pairing.direction == "backward"):
        sin = -sin
    pieces = []
    begin = 0
    for pairs in pairing.sizes(x.shape[-1] // 2):
        block, c, s = x, cos, sin
        if pairing.blocks:
            block = x[..., 2 * begin : 2 * (begin + pairs)]
            c, s = cos[..., begin : begin + pairs], sin[..., begin : begin + pairs]
        begin += pairs
        if source == "half":
            a, b = block[..., :pairs], block[..., pairs:]
        else:
            a, b = block[..., 0::2], block[..., 1::2]
        first, second = a * c - b * s, b * c + a * s
        if target == "half":
            pieces += [first, second]
        else:
            pieces.append(interleaved(first, second, xp=xp))
    return pieces[0] if len(pieces) == 1 else xp.concat(pieces, axis=-1)


def lift(x: Array, cos: Array, sin: Array, pairing: Pairing, *, xp: Any) -> Array:
    """Turn pairs whose first channel is given and whose second is 0: (..., dim) -> (..., 2 dim).

    a' = a cos
    b' = a sin
    """
    first, second = x * cos, x * (-sin if pairing.direction == "backward" else sin)
    if "half" in (pairing.order, pairing.output):
        return xp.concat([first, second], axis=-1)
    return interleaved(first, second, xp=xp)
