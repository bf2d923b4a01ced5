"""The third kind: biases, added to the attention scores from positions alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from posenc._core.arrays.array import (
    astype,
    clipped,
    library,
    marked,
    product,
    summed,
    widest,
    within,
)
from posenc._core.arrays.lookups import lookup
from posenc._core.errors import bad_position, bad_spec
from posenc._core.spec.checks import Example, at_least, even_width, not_too_many, positive
from posenc._core.spec.parameters import Init
from posenc._core.spec.spec import Parameter, Spec

if TYPE_CHECKING:
    from posenc._core.spec.verbs import Rows

__all__ = [
    "Array",
    "Axes",
    "BiasSpec",
    "Constants",
    "Example",
    "Init",
    "Parameter",
    "astype",
    "at_least",
    "bad_position",
    "bad_spec",
    "clipped",
    "distance",
    "even_width",
    "library",
    "lookup",
    "marked",
    "not_too_many",
    "positive",
    "product",
    "summed",
    "widest",
    "within",
]

Array = Any
Constants = Mapping[str, Array]  # constants and parameters by their names
Axes = tuple[Array, ...]  # the coordinates of a position, an array for each axis


class BiasSpec(Spec, ABC):
    """An encoding that is a number for each head, query position and key position.

    A spec says one entry, `score`. Queries, keys and heads are integers that broadcast against each
    other, so the same lines give the dense array and run inside a fused attention kernel.
    """

    kind: ClassVar[Literal["bias"]] = "bias"
    heads: int
    if TYPE_CHECKING:
        bias: Rows

    @property
    def place(self) -> Literal["after", "before"]:
        """Whether it is added after the scores are divided by sqrt(d), or before."""
        return vars(self).get("added", "after")

    @property
    def pointwise(self) -> bool:
        """Whether `score` takes few enough steps to run inside a fused attention kernel."""
        return True

    def check_positions(self, q: Axes, k: Axes) -> None:
        """Raise `PositionError` where known positions (NumPy) are outside what is learned."""

    def prepare(
        self, constants: Mapping[str, Array], *, dtype: Any, xp: Any
    ) -> Mapping[str, Array]:  # numpydoc ignore=PR01,RT01
        """What does not depend on positions, worked out once per call."""
        del dtype, xp
        return constants

    @abstractmethod
    def score(
        self, q: Axes, k: Axes, head: Array, constants: Mapping[str, Array], *, dtype: Any, xp: Any
    ) -> Array:
        """The entries of the bias.

        Parameters
        ----------
        q, k : tuple of arrays of integers
            Coordinates of the query and the key position, of shapes that broadcast with `head`.
        head : array of integers
            Number of the head, from 0 within the arrays that `by_head` names.
        constants : mapping
            What `prepare` made of the arrays of `constants()` and the values of `parameters()`.
        dtype : dtype
            `xp.float32` or `xp.float64`.
        xp : namespace
            An array-API namespace.

        Returns
        -------
        array
            In `dtype`, of a shape that broadcasts to that of all of them.
        """


def distance(q: Axes, k: Axes) -> Array:
    """Rel = key - query along the only axis, as integers."""
    return k[0] - q[0]
