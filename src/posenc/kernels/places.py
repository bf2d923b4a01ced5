"""Where tokens stand, in the forms in which a request has it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from posenc._core.arrays.array import Array, arange, device_of, limits
from posenc._core.positions.counting import offset
from posenc.positions import packed


class Packed(NamedTuple):
    """Positions that count from 0 within each of the sequences packed along the sequence axis."""

    ends: Array  # (sequences + 1,), ascending from 0


class Counted(NamedTuple):
    """Positions 0 to length - 1 that no array has been made of."""

    length: int
    device: Any  # of the result

    def array(self, xp: Any) -> Array:
        """The positions (length, 1)."""
        return arange(self.length, xp=xp, device=self.device)[:, None]


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

    def wrapped(self, xp: Any) -> Array | None:
        """Where a distance does not fit 32 bits, for positions whose values are not known.

        With known positions reading them raises, and with 64-bit integers it cannot happen.
        """
        if self.seen is not None or limits(xp)[1] > 2**31:
            return None
        far = None
        for q, k in zip(self.q, self.k, strict=True):
            rel = k - q
            past = (k < 0) & (q >= 0) & (rel >= 0)
            bad = past | ((k >= 0) & (q < 0) & (rel < 0)) | (rel == -(2**31))
            far = bad if far is None else far | bad
        return far
