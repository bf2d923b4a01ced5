"""The first kind: tables, added to (or appended to) the embeddings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from posenc._core.arrays.array import (
    astype,
    concrete,
    device_of,
    fixed,
    has_int64,
    interleaved,
    library,
    marked,
    product,
    summed,
)
from posenc._core.arrays.lookups import gather
from posenc._core.errors import bad_position, bad_spec
from posenc._core.spec.checks import (
    AROUND,
    Example,
    around,
    at_least,
    distinct,
    not_too_many,
    positive,
    width_of,
)
from posenc._core.spec.parameters import Init
from posenc._core.spec.spec import Parameter, Spec

if TYPE_CHECKING:
    from posenc._core.spec.verbs import Rows, Turned

__all__ = [
    "AROUND",
    "Array",
    "Constants",
    "Example",
    "Init",
    "Parameter",
    "TableSpec",
    "around",
    "astype",
    "at_least",
    "bad_position",
    "bad_spec",
    "columns",
    "concrete",
    "device_of",
    "distinct",
    "fixed",
    "gather",
    "has_int64",
    "library",
    "marked",
    "not_too_many",
    "positive",
    "product",
    "summed",
    "width_of",
]

Array = Any
Constants = Mapping[str, Array]  # constants and parameters by their names


class TableSpec(Spec, ABC):
    """An encoding that is a row of numbers for each position."""

    kind: ClassVar[Literal["table"]] = "table"
    dim: int
    if TYPE_CHECKING:
        table: Rows
        add: Turned

    @property
    def embedding_scale(self) -> float:
        """Factor on the embeddings when the table is added to them: what a `magnitude` says."""
        return getattr(vars(self).get("magnitude"), "embedding", lambda _: 1.0)(self.dim)

    @property
    def width(self) -> int:
        """Width of the embeddings after the table is added to (or appended to) them."""
        return self.dim

    def join(self, x: Array, rows: Array, *, xp: Any) -> Array:  # noqa: ARG002
        """Embeddings and rows in one: x (..., dim) -> (..., width)."""
        return x + rows

    def check_count(self, first: int, count: int) -> None:
        """Raise `PositionError` unless the positions first, first + 1, … `count` of them exist."""

    @abstractmethod
    def rows(
        self, positions: Array, constants: Mapping[str, Array], *, dtype: Any, xp: Any
    ) -> Array:
        """The rows of the table.

        Parameters
        ----------
        positions : array of integers
            (..., axes).
        constants : mapping
            The arrays of `constants()` and the values of `parameters()`, of the library `xp`.
        dtype : dtype
            `xp.float32` or `xp.float64`.
        xp : namespace
            An array-API namespace.

        Returns
        -------
        array
            (..., dim) in `dtype`; of a table that is appended, only its own columns.
        """


def columns(
    cos: Array,
    sin: Array,
    order: str,
    dim: int,
    blocks: tuple[int, ...],
    *,
    lone_sine: bool = False,
    xp: Any,
) -> Array:
    """Lay sines and cosines out as the columns of a table.

    Parameters
    ----------
    cos, sin : array
        (..., pairs).
    order : {"interleaved", "sin_cos", "cos_sin"}
        The order within each block.
    dim : int
        Width of the table. Where pairs give more, the last of them is cut; where they give less, it
        is filled with zeros.
    blocks : tuple of int
        Pairs in each block.
    lone_sine : bool
        Whether an odd width loses the last cosine, wherever it stands, rather than the last column.
    xp : namespace
        An array-API namespace.

    Returns
    -------
    array
        (..., dim).
    """
    pieces = []
    begin = 0
    for pairs in blocks:
        c, s = cos[..., begin : begin + pairs], sin[..., begin : begin + pairs]
        begin += pairs
        if order == "interleaved":
            pieces.append(interleaved(s, c, xp=xp))
        elif order == "sin_cos":
            pieces += [s, c]
        elif lone_sine and 2 * pairs > dim:
            pieces += [c[..., :-1], s]
        else:
            pieces += [c, s]
    table = pieces[0] if len(pieces) == 1 else xp.concat(pieces, axis=-1)
    missing = dim - table.shape[-1]
    if missing < 0:
        return table[..., :dim]
    if missing > 0:
        shape = (*table.shape[:-1], missing)
        zeros = xp.zeros(shape, dtype=table.dtype, device=device_of(table))
        return xp.concat([table, zeros], axis=-1)
    return table
