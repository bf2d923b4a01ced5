"""What a verb asks of a kernel: its arguments, read once and known to be right."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from posenc._core.arrays.array import (
    Array,
    constants,
    device_of,
    is_array,
    is_torch,
    limits,
    marked,
)
from posenc._core.arrays.words import Halves, Words
from posenc._core.positions.counting import offset
from posenc.encodings.api import BiasSpec, Role, RotarySpec, TableSpec
from posenc.positions import packed


class Refusal(Exception):  # noqa: N818 - it reaches no user: the next candidate is asked, or an ArgumentError is raised
    """The reason why a kernel did not run; nothing has been written."""


# --- where tokens stand ---------------------------------------------------------------------------


class Packed(NamedTuple):
    """Positions that count from 0 within each of the sequences packed along the sequence axis."""

    ends: Array  # (sequences + 1,), ascending from 0


class Counted(NamedTuple):
    """Positions 0 to length - 1 that no array has been made of."""

    length: int
    device: Any  # of the result


# The position of the first token; positions with an axis for each axis of what they belong to but
# the channels, of length 1 where they do not vary, and the axes of a position last; or packed
# sequences.
Positions = int | Array | Packed


def beside(x: Array, positions: Positions, seq_dim: int, *, xp: Any) -> Array:
    """Positions of any form as an array (..., axes) that broadcasts to the tokens of `x`."""
    if not isinstance(positions, (int, Packed)):
        return positions
    length = x.shape[seq_dim]
    if isinstance(positions, Packed):
        row = packed(positions.ends, length)
    else:
        row = offset(length, positions, xp=xp, device=device_of(x))
    lead = [1] * len(x.shape)
    lead[seq_dim] = length
    return xp.reshape(row, tuple(lead))


class Sides:
    """Positions of queries and keys, an array for each axis, and what is known of them.

    Queries are (*lead, queries, 1), keys (*lead, 1, keys), with one `lead` of 1s and lengths.
    `seen` has the positions (..., n, axes) in NumPy where they can be looked at.
    """

    def __init__(
        self,
        queries: Array,
        keys: Array,
        lead: tuple[int, ...],
        seen: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> None:
        self.lead, self.seen = lead, seen
        self.rows, self.columns, axes = queries.shape[-2], keys.shape[-2], range(keys.shape[-1])
        if lead:
            ones = (None,) * len(lead)
            queries = queries if len(queries.shape) > 2 else queries[(*ones, ...)]
            keys = keys if len(keys.shape) > 2 else keys[(*ones, ...)]
        self.q = tuple([queries[..., axis][..., :, None] for axis in axes])
        self.k = tuple([keys[..., axis][..., None, :] for axis in axes])

    def with_heads(self) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        """The same with an axis for heads: (*lead, 1, queries, 1) and (*lead, 1, 1, keys)."""
        return (
            tuple([c[..., None, :, :] for c in self.q]),
            tuple([c[..., None, :, :] for c in self.k]),
        )

    def without_wrapped(self, entries: Array, xp: Any) -> Array:
        """Entries (..., heads, queries, keys), NaN where a distance does not fit 32 bits.

        With known positions reading them raises, and with 64-bit integers it cannot happen.
        """
        if self.seen is not None or limits(xp)[1] > 2**31:
            return entries
        far: Any = None
        for q, k in zip(self.q, self.k, strict=True):
            rel = k - q
            past = (k < 0) & (q >= 0) & (rel >= 0)
            bad = past | ((k >= 0) & (q < 0) & (rel < 0)) | (rel == -(2**31))
            far = bad if far is None else far | bad
        return marked(entries, far[..., None, :, :], math.nan, xp=xp)


# --- a length that is not known yet ---------------------------------------------------------------


class Choice(NamedTuple):
    """The rotation `long` where a length is larger than `last`, else `short`."""

    short: RotarySpec
    long: RotarySpec
    length: Any
    last: int

    def phasors(
        self, positions: Array, values: dict[str, Array], *, dtype: Any, xp: Any
    ) -> tuple[Array, Array]:
        """As that of the spec that holds; `values` are those of `short`."""
        others = constants(self.long, positions, xp=xp)
        if "step" in self.short.arrays:  # the frequencies are among the constants, and nowhere else
            chosen = {key: self.of(values[key], others[key], dtype=dtype, xp=xp) for key in values}
            return self.short.phasors(positions, chosen, dtype=dtype, xp=xp)
        short = self.short.phasors(positions, values, dtype=dtype, xp=xp)
        long = self.long.phasors(positions, others, dtype=dtype, xp=xp)
        cos, sin = (self.of(a, b, dtype=dtype, xp=xp) for a, b in zip(short, long, strict=True))
        return cos, sin

    def sizes(
        self, positions: Array, role: Role, values: dict[str, Array], *, dtype: Any, xp: Any
    ) -> Any:
        """As those of the spec that holds."""
        size = self.short.sizes(positions, role, values, dtype=dtype, xp=xp)
        return self.of(size, self.long.amplitude(positions, dtype=dtype, xp=xp), dtype=dtype, xp=xp)

    def of(self, short: Any, long: Any, *, dtype: Any, xp: Any) -> Any:
        """What the one rotation has, or the other: arrays of one shape, or numbers."""
        if isinstance(long, (Halves, Words)):
            pairs = zip(short, long, strict=True)
            return type(long)(*[self.of(a, b, dtype=dtype, xp=xp) for a, b in pairs])
        if isinstance(long, (int, float)):
            if isinstance(short, (int, float)) and long == short:
                return long
            device = device_of(self.length) if is_array(self.length) else None
            long = xp.full((), long, dtype=dtype, device=device)
        if not is_array(self.length):
            length = xp.full((), self.length, dtype=xp.int64, device=device_of(long))
        else:
            length = self.length.to(long.device) if is_torch(long) else self.length
        return xp.where(length > self.last, long, short)


# --- requests -------------------------------------------------------------------------------------


class Rotate(NamedTuple):
    """Turn arrays of one library at the same positions."""

    spec: RotarySpec
    arrays: tuple[Array, ...]
    roles: tuple[Role, ...]  # one for each array
    positions: tuple[Positions, ...]  # likewise
    seq_dim: int
    inverse: bool
    inplace: bool
    params: dict[str, Array]
    choice: Choice | None
    xp: Any
    caller: str


class Rerotate(NamedTuple):
    """Turn keys from where one rotation put them to where another one would."""

    spec: RotarySpec  # what turned them
    target: RotarySpec  # of the same pairs
    x: Array
    old: Array  # positions (..., axes), with an axis for each of those of `x` but the channels
    new: Array
    seq_dim: int
    xp: Any
    caller: str


class CosSin(NamedTuple):
    """Cosines and sines at positions (..., axes)."""

    spec: RotarySpec
    positions: Array
    role: Role
    params: dict[str, Array]
    choice: Choice | None
    dtype: Any
    xp: Any
    caller: str


class Table(NamedTuple):
    """The rows of a table at positions (..., axes)."""

    spec: TableSpec
    positions: Array | Counted
    params: dict[str, Array]
    dtype: Any
    xp: Any
    caller: str


class Add(NamedTuple):
    """Embeddings plus the rows of a table."""

    spec: TableSpec
    x: Array
    positions: Positions
    seq_dim: int
    params: dict[str, Array]
    xp: Any
    caller: str


class Bias(NamedTuple):
    """Biases of some heads at positions of queries and keys."""

    spec: BiasSpec
    sides: Sides
    heads: tuple[int, int]
    values: dict[str, Array]  # constants and parameters, of these heads
    dtype: Any
    xp: Any
    caller: str


Request = Rotate | Rerotate | CosSin | Table | Add | Bias
