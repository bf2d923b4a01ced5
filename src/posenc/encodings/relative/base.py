"""The fourth kind: positions that meet the content of queries and keys."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np

from posenc._core.arrays.array import (
    Array,
    arange,
    astype,
    clipped,
    device_of,
    marked,
    product,
    summed,
    within,
)
from posenc._core.arrays.lookups import along, gather, lookup, moveaxis, rank, solved
from posenc._core.errors import bad_argument, bad_position
from posenc._core.spec.checks import Example, at_least, even_width, not_too_many, positive
from posenc._core.spec.parameters import Init
from posenc._core.spec.spec import Parameter, Spec

__all__ = [
    "Array",
    "Constants",
    "Example",
    "HeadedRelativeSpec",
    "Init",
    "Parameter",
    "Places",
    "RelativeSpec",
    "along",
    "arange",
    "astype",
    "at_least",
    "bad_argument",
    "bad_position",
    "clipped",
    "device_of",
    "even_width",
    "gather",
    "in_order",
    "key_products",
    "lookup",
    "marked",
    "moveaxis",
    "not_too_many",
    "positive",
    "product",
    "query_products",
    "rank",
    "solved",
    "summed",
    "sums_of_angles",
    "weighted_rows",
    "weighted_vectors",
    "within",
]

Constants = Mapping[str, Array]  # constants and parameters by their names


class Places(NamedTuple):
    """Where queries and keys stand.

    Parameters
    ----------
    q : tuple of arrays of integers
        Coordinates of queries, an array (..., 1, q, 1) for each axis.
    k : tuple of arrays of integers
        Those of keys, (..., 1, 1, k).
    rows : array of integers, optional
        What `RelativeSpec.rows` says of them, where that is known: (..., q, k).
    """

    q: tuple[Array, ...]
    k: tuple[Array, ...]
    rows: Array | None = None

    @property
    def rel(self) -> Array:
        """Key - query along the first axis."""
        return self.k[0] - self.q[0]


class RelativeSpec(Spec, ABC):
    """An encoding that adds products of positions with queries and keys to the scores."""

    kind: ClassVar[Literal["relative"]] = "relative"
    _counted = ("dim", "heads", "count")
    sums_over_keys: ClassVar[bool] = False  # from key to query, so that keys have to be in order
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
        """Whether positions are added to the values as well: said by `acts_on`, if anything."""
        return "values" in vars(self).get("acts_on", "").split("_")

    @property
    def clipping(self) -> tuple[tuple[int, int], bool] | None:
        """The ends of the distances with rows of their own, and whether those are query - key."""
        return None

    def rows(self, at: Places, xp: Any) -> Array:
        """The row of each distance, where those beyond the ends have that of an end."""
        if at.rows is not None:
            return at.rows
        assert self.clipping is not None  # noqa: S101 - who asks has rows
        ends, backward = self.clipping
        return clipped(-at.rel if backward else at.rel, *ends, xp=xp) - ends[0]

    def check_positions(self, q: tuple[Array, ...], k: tuple[Array, ...]) -> None:  # noqa: ARG002
        """Raise where known positions (NumPy) are outside what is learned, or out of order."""
        if self.sums_over_keys:
            in_order(type(self).__name__, k)

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


def query_products(q: Array, table: Array, row: Array, *, xp: Any) -> Array:
    """The products of queries with rows of a table, q . table[row]: (..., heads, q, k)."""
    return along(product(q, xp.matrix_transpose(table), xp=xp), row, xp=xp)


def key_products(k: Array, table: Array, row: Array, *, xp: Any) -> Array:
    """The products of keys with rows of a table, k . table[row]: (..., heads, q, k)."""
    return xp.matrix_transpose(query_products(k, table, xp.matrix_transpose(row), xp=xp))


def sums_of_angles(
    s: Array, c: Array, own: tuple[Array, Array], other: tuple[Array, Array], *, xp: Any
) -> Array:
    """The sum of s[i] sin(i - j) + c[i] cos(i - j) over pairs: (..., i, j).

    `own` and `other` are the cosines and sines at i and at j. Sorted by what has j, the sum is one
    product of matrices.
    """
    (cos, sin), (cos_other, sin_other) = own, other
    turned = xp.concat([s * sin + c * cos, c * sin - s * cos], axis=-1)
    table = xp.concat([cos_other, sin_other], axis=-1)
    return product(turned, xp.matrix_transpose(table), xp=xp)


def weighted_rows(weights: Array, table: Array, row: Array, *, xp: Any) -> Array:
    """Rows of a table that heads share, weighted: sum_n weight[m, n] table[row[m, n]]."""
    return weighted_vectors(weights, gather(table, row[..., 0, :, :], xp=xp), xp=xp)


def weighted_vectors(weights: Array, vectors: Array, *, xp: Any) -> Array:
    """Vectors (..., q, k, dim) that heads share, weighted: one product for each query."""
    # Heads share the vectors, so they stand where rows of a matrix stand.
    turned = product(moveaxis(weights, -3, -2, xp=xp), vectors, xp=xp)
    return moveaxis(turned, -2, -3, xp=xp)


def in_order(caller: str, k: tuple[Array, ...]) -> None:
    """Raise `PositionError` where known keys (NumPy) are out of order, for sums over keys."""
    if (np.diff(k[0], axis=-1) < 0).any():
        raise bad_position(
            f"{caller}: k_positions",
            "keys in the order of their positions",
            "others",
            "Sort the keys, as the gates between key and query are counted in their order.",
        )
