"""What a verb asks of a kernel, once its arguments are known to be right."""

from __future__ import annotations

from typing import Any, NamedTuple

from posenc.encodings.bias.base import BiasSpec
from posenc.encodings.rotary.base import RotarySpec
from posenc.encodings.table.base import TableSpec

__all__ = ["Add", "Bias", "CosSin", "Counted", "Packed", "Request", "Rotate", "Table", "Where"]

Array = Any


class Packed(NamedTuple):
    """Positions that count from 0 within each of the sequences packed along the sequence axis."""

    ends: Array  # (sequences + 1,), ascending from 0


class Counted(NamedTuple):
    """Positions 0 to length - 1 that no array has been made of."""

    length: int
    device: Any  # of the result


# The position of the first token; positions for each array that is turned, with an axis for each of
# its axes but the channels, of length 1 where they do not vary, and the axes of a position last; or
# packed sequences.
Where = int | Array | Packed


class Rotate(NamedTuple):
    """Turn arrays of one library at the same positions."""

    spec: RotarySpec
    arrays: tuple[Array, ...]
    where: tuple[Where, ...]  # one for each array
    seq_dim: int
    inverse: bool
    inplace: bool


class CosSin(NamedTuple):
    """Cosines and sines at positions (..., axes)."""

    spec: RotarySpec
    positions: Array
    dtype: Any
    xp: Any


class Table(NamedTuple):
    """The rows of a table at positions (..., axes)."""

    spec: TableSpec
    positions: Array | Counted
    dtype: Any
    xp: Any


class Add(NamedTuple):
    """Embeddings plus the rows of a table."""

    spec: TableSpec
    x: Array
    where: Where
    seq_dim: int


class Bias(NamedTuple):
    """Biases of some heads at positions of queries and keys, each (length,)."""

    spec: BiasSpec
    q: Array
    k: Array
    heads: tuple[int, int]
    params: dict[str, Array]
    dtype: Any
    xp: Any


Request = Rotate | CosSin | Table | Add | Bias
