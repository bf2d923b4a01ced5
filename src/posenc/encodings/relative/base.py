"""The fourth kind: positions that meet the content of queries and keys."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np

from posenc._core.errors import bad_position
from posenc._core.spec.spec import Spec

Array = Any


class Places(NamedTuple):
    """Where queries and keys stand.

    Parameters
    ----------
    q : tuple of arrays of integers
        Coordinates of queries, an array (..., 1, q, 1) for each axis.
    k : tuple of arrays of integers
        Those of keys, (..., 1, 1, k).
    """

    q: tuple[Array, ...]
    k: tuple[Array, ...]

    @property
    def rel(self) -> Array:
        """Key - query along the first axis."""
        return self.k[0] - self.q[0]


class RelativeSpec(Spec, ABC):
    """An encoding that adds products of positions with queries and keys to the scores."""

    kind: ClassVar[Literal["relative"]] = "relative"
    _counted = ("dim", "heads", "count")
    dim: int
    if TYPE_CHECKING:
        relative: Callable[..., Any]

    @property
    def heads(self) -> int | None:
        """Number of heads where each has parameters of its own; None where all share them."""
        return None

    @property
    def place(self) -> Literal["after", "before"]:
        """Whether it is added after the scores are scaled, or is scaled with them."""
        return vars(self).get("added", "before")

    @property
    def scale(self) -> float:
        """What the scores are multiplied by before the softmax: 1 / sqrt(d) by default."""
        return 1 / self.dim**0.5

    @property
    def on_values(self) -> bool:
        """Whether positions are added to the values as well."""
        return False

    def check_positions(self, q: tuple[Array, ...], k: tuple[Array, ...]) -> None:
        """Raise where known positions (NumPy) are outside what is learned, or out of order."""

    @abstractmethod
    def score(
        self, q: Array, k: Array, at: Places, constants: Mapping[str, Array], *, dtype: Any, xp: Any
    ) -> Array:
        """What is added to the products of queries and keys.

        Parameters
        ----------
        q, k : array
            (..., heads, q, dim) and (..., heads, k, dim), in `dtype`.
        at : Places
            Their positions.
        constants : mapping
            The arrays of `constants()` and the values of `parameters()`, of the library `xp`.
        dtype : dtype
            `xp.float32` or `xp.float64`.
        xp : namespace
            An array-API namespace.

        Returns
        -------
        array
            (..., heads, q, k) in `dtype`.
        """

    def values(
        self, weights: Array, at: Places, constants: Mapping[str, Array], *, dtype: Any, xp: Any
    ) -> Array:  # numpydoc ignore=PR01,RT01
        """What is added to the weighted values: weights (..., heads, q, k) -> (..., q, dim)."""
        raise NotImplementedError


class HeadedRelativeSpec(RelativeSpec, ABC):
    """A relative encoding whose parameters are for `count` heads."""

    count: int

    @property
    def heads(self) -> int:
        """Number of heads."""
        return self.count


def in_order(caller: str, k: tuple[Array, ...]) -> None:
    """Raise `PositionError` where known keys (NumPy) are out of order, for sums over keys."""
    if (np.diff(k[0], axis=-1) < 0).any():
        todo = "Sort the keys, as the gates between key and query are counted in their order."
        raise bad_position(
            f"{caller}: k_positions", "keys in the order of their positions", "others", todo
        )
