"""What the verbs of the attention scores share: positions of queries and keys, and heads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from posenc import positions as _positions
from posenc._core.array import (
    concrete,
    constants,
    integers,
    is_symbolic,
    limits,
)
from posenc._core.errors import ArgumentError, PositionError, mismatch
from posenc._core.spec import Spec
from posenc.functional._parameters import parameters
from posenc.functional.arguments import with_axes

__all__ = ["Sides", "head_range", "known", "part_shapes", "sides"]

Array = Any


class Sides:
    """Coordinates of queries and keys, an array for each axis, and what is known of them.

    Queries are (*lead, queries, 1), keys (*lead, 1, keys), with one `lead` of 1s and lengths.
    """

    def __init__(self, q: Array, k: Array, lead: tuple[int, ...]) -> None:
        self.lead, self.rows, self.columns = lead, q.shape[-2], k.shape[-2]
        ones = (None,) * len(lead)
        q, k = (side if len(side.shape) > 2 else side[(*ones, ...)] for side in (q, k))
        self.q = tuple(q[..., axis][..., :, None] for axis in range(q.shape[-1]))
        self.k = tuple(k[..., axis][..., None, :] for axis in range(k.shape[-1]))

    def with_heads(self) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        """The same with an axis for heads: (*lead, 1, queries, 1) and (*lead, 1, 1, keys)."""
        return (
            tuple(c[..., None, :, :] for c in self.q),
            tuple(c[..., None, :, :] for c in self.k),
        )

    def wrapped(self, xp: Any) -> Array | None:
        """Where a distance does not fit 32 bits, for positions whose values are not known.

        With known positions this raises, and with 64-bit integers it cannot happen.
        """
        seen = all(concrete(side[0]) is not None for side in (self.q, self.k))
        if seen or limits(xp)[1] > 2**31:
            return None
        found = None
        for q, k in zip(self.q, self.k, strict=True):
            rel = k - q
            past = (k < 0) & (q >= 0) & (rel >= 0)
            bad = past | ((k >= 0) & (q < 0) & (rel < 0)) | (rel == -(2**31))
            found = bad if found is None else found | bad
        return found


def sides(
    axes: tuple[str, ...], q_positions: Any, k_positions: Any, *, xp: Any, device: Any, caller: str
) -> Sides:
    """Positions of both sides, checked against each other."""
    read = []
    k_positions = q_positions if k_positions is None else k_positions
    for name, given in (("q_positions", q_positions), ("k_positions", k_positions)):
        label = f"{caller}: {name}"
        counted = isinstance(given, (int, np.integer)) and not isinstance(given, bool)
        if counted or is_symbolic(given):
            if len(axes) > 1:
                expected = f"an array of coordinates {axes} in its last axis"
                raise ArgumentError(mismatch(label, expected, "a number of positions"))
            where = _positions.offset(given, 0, xp=xp, device=device)
        else:
            where = integers(given, xp=xp, device=device, caller=label)
        if not len(where.shape):
            expected = "shape (seq,) or (batch, seq)"
            raise ArgumentError(mismatch(label, expected, "shape ()", "One position is `[p]`."))
        where = with_axes(axes, where, caller)
        if len(where.shape) < 2:
            raise ArgumentError(mismatch(label, "a sequence of positions", f"shape {where.shape}"))
        read.append(where)
    q, k = read
    lead = _lead(tuple(q.shape[:-2]), tuple(k.shape[:-2]), caller)
    _check_range(q, k, axes, xp, caller)
    return Sides(q, k, lead)


def _lead(q: tuple[int, ...], k: tuple[int, ...], caller: str) -> tuple[int, ...]:
    """The batch shape of both; a side without one serves every row."""
    if not q or not k:
        return q or k
    fits = len(q) == len(k) and all(a == b or 1 in (a, b) for a, b in zip(q, k, strict=True))
    if not fits:
        todo = "A side that is the same for every row has shape (seq,)."
        raise ArgumentError(
            mismatch(caller, "one batch shape of q_positions and k_positions", f"{q} and {k}", todo)
        )
    return tuple(b if a == 1 else a for a, b in zip(q, k, strict=True))


def _check_range(q: Array, k: Array, axes: tuple[str, ...], xp: Any, caller: str) -> None:
    """Raise where a distance does not fit the integers of the library, if values are known."""
    rows, columns = concrete(q), concrete(k)
    if rows is None or columns is None or not rows.size or not columns.size:
        return
    limit = limits(xp)[1]
    for axis in range(len(axes)):
        first, second = rows[..., axis], columns[..., axis]
        far = max(
            int(second.max()) - int(first.min()),
            int(first.max()) - int(second.min()),
        )
        if far > limit:
            expected = f"queries and keys at most {limit} apart"
            raise PositionError(mismatch(caller, expected, far))


def head_range(heads: Any, total: int, caller: str) -> tuple[int, int]:
    """The heads [h0, h1) that are asked for, of `total`."""
    if heads is None:
        return 0, total
    pair = isinstance(heads, (tuple, list)) and len(heads) == 2
    if not pair or not all(isinstance(h, int) and not isinstance(h, bool) for h in heads):
        expected = f"(first, end) of the {total} heads"
        raise ArgumentError(mismatch(f"{caller}: heads", expected, repr(heads)))
    first, end = heads
    if not 0 <= first < end <= total:
        expected = f"(first, end) with 0 <= first < end <= {total}"
        raise ArgumentError(mismatch(f"{caller}: heads", expected, (first, end)))
    return first, end


def part_shapes(spec: Any, first: int, end: int) -> dict[str, tuple[int, ...]]:
    """The shapes of the parameters of some heads alone."""
    shapes = {}
    for name, shape in spec.shapes.items():
        axis = spec.by_head.get(name)
        cut = () if axis is None else (*shape[:axis], end - first, *shape[axis + 1 :])
        shapes[name] = shape if axis is None else cut
    return shapes


def known(
    spec: Spec,
    params: Mapping[str, Array] | None,
    first: int,
    end: int,
    beside: Array,
    *,
    xp: Any,
    device: Any,
    caller: str,
) -> dict[str, Array]:
    """Constants and parameters of the heads [first, end), those of all heads cut to them.

    Parameters may come whole, or as the part that belongs to these heads.
    """
    part = part_shapes(spec, first, end)
    given = parameters(spec, params, xp=xp, device=device, caller=caller, part=part)
    values = {**constants(spec, beside, xp=xp), **given}
    by_head: Mapping[str, int] = getattr(spec, "by_head", {})
    for name, axis in by_head.items():
        if name not in values:
            continue
        # A traced constant does not tell its shape, so that of the spec is asked.
        shape = given[name].shape if name in given else spec.texts[name][1]
        if shape[axis] != end - first:
            values[name] = values[name][(slice(None),) * axis + (slice(first, end), ...)]
    return values
