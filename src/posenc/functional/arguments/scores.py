"""What the verbs of the attention scores share: positions of queries and keys, and heads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from posenc._core.arrays.array import Array, concrete, constants, device_of, limits, rectangular
from posenc._core.arrays.coordinates import integers
from posenc._core.errors import bad_argument, bad_position
from posenc._core.spec.spec import Spec
from posenc.encodings.relative.base import RelativeSpec
from posenc.functional.arguments.common import parameters
from posenc.functional.arguments.tokens import counted, is_number, with_axes
from posenc.kernels import Sides


def sides(
    axes: tuple[str, ...], q_positions: Any, k_positions: Any, *, xp: Any, device: Any, caller: str
) -> Sides:
    """Positions of both sides, checked against each other."""
    q = _side(axes, q_positions, xp=xp, device=device, caller=f"{caller}: q_positions")
    lead: tuple[int, ...] = ()
    if type(q_positions) is int and k_positions is None:
        k = q  # counted positions are never too far apart
    else:
        keys = q_positions if k_positions is None else k_positions
        if type(q_positions) is type(keys) is int and 0 < q_positions < keys:
            raise bad_argument(
                f"{caller}: q_positions",
                f"the positions of the queries beside {keys} keys",
                f"a number, {q_positions}",
                f"Write range({keys - q_positions}, {keys}) for the last of them, as with a KV "
                f"cache, or range({q_positions}) for the first.",
            )
        k = _side(axes, keys, xp=xp, device=device, caller=f"{caller}: k_positions")
        lead = _lead(tuple(q.shape[:-2]), tuple(k.shape[:-2]), caller)
    rows = concrete(q)
    columns = rows if k is q else concrete(k)
    if rows is None or columns is None:
        return Sides(q, k, lead)
    if k is not q and rows.size and columns.size:
        _check_range(rows, columns, limits(xp)[1], caller)
    return Sides(q, k, lead, (rows, columns))


def _side(axes: tuple[str, ...], positions: Any, *, xp: Any, device: Any, caller: str) -> Array:
    """The positions of queries or keys: (..., n, axes)."""
    if not is_number(positions):
        rectangular(caller, positions)
        array = integers(positions, xp=xp, device=device, caller=caller)
    elif len(axes) > 1:
        raise bad_argument(
            caller, f"an array of coordinates {axes} in its last axis", "a number of positions"
        )
    else:
        array = counted(positions, xp=xp, device=device, caller=caller)
    if not len(array.shape):
        raise bad_argument(
            caller, "shape (seq,) or (batch, seq)", "shape ()", "One position is `[p]`."
        )
    array = with_axes(axes, array, caller)
    if len(array.shape) < 2:
        raise bad_argument(caller, "a sequence of positions", f"shape {array.shape}")
    return array


def check_sides(spec: Any, both: Sides) -> None:
    """Raise where known positions are outside what a spec has learned."""
    if both.seen is not None:
        if not isinstance(both.q[0], np.ndarray):
            both = Sides(*both.seen, both.lead)
        spec.check_positions(both.q, both.k)


def sides_of_content(
    spec: RelativeSpec,
    q: Array,
    keys: int,
    q_positions: Any,
    k_positions: Any,
    *,
    heads: Any,
    xp: Any,
    caller: str,
) -> tuple[Sides, int, int]:
    """Positions of both sides and the range of heads, checked against the shape of the queries."""
    rows, count, lead = q.shape[-2], q.shape[-3], tuple(q.shape[:-3])
    if q_positions is None and k_positions is None and rows == keys and len(spec.axes) == 1:
        q_positions = rows
    elif q_positions is None or k_positions is None:
        raise bad_argument(
            f"{caller}: positions",
            "those of queries and keys",
            None,
            "Queries of a decoding step are the last of their sequence, not the first.",
        )
    both = sides(spec.axes, q_positions, k_positions, xp=xp, device=device_of(q), caller=caller)
    for name, came, length in (
        ("q_positions", both.rows, rows),
        ("k_positions", both.columns, keys),
    ):
        if came != length:
            raise bad_argument(f"{caller}: {name}", f"{length} positions", came)
    fits = len(both.lead) in (0, len(lead)) and all(
        a in (1, b) for a, b in zip(both.lead, lead[: len(both.lead)], strict=True)
    )
    if not fits:
        raise bad_argument(caller, f"positions of the batch shape {lead}, or none", both.lead)
    if spec.heads is None and heads is not None:
        raise bad_argument(
            f"{caller}: heads", "none", repr(heads), "Leave it out: all heads share the parameters."
        )
    first, end = head_range(heads, count if spec.heads is None else spec.heads, caller)
    if end - first != count:
        raise bad_argument(
            f"{caller}: q",
            f"{end - first} heads" + ("" if heads is None else f", those of heads={heads}"),
            f"{count} heads",
        )
    check_sides(spec, both)
    return both, first, end


def _lead(q: tuple[int, ...], k: tuple[int, ...], caller: str) -> tuple[int, ...]:
    """The batch shape of both; a side without one serves every row."""
    if not q or not k:
        return q or k
    if len(q) != len(k) or any(a != b and 1 not in (a, b) for a, b in zip(q, k, strict=True)):
        raise bad_argument(
            caller,
            "one batch shape of q_positions and k_positions",
            f"{q} and {k}",
            "A side that is the same for every row has shape (seq,).",
        )
    return tuple(b if a == 1 else a for a, b in zip(q, k, strict=True))


def _check_range(rows: np.ndarray, columns: np.ndarray, limit: int, caller: str) -> None:
    """Raise where a distance does not fit the integers of the library."""
    for axis in range(rows.shape[-1]):
        first, second = rows[..., axis], columns[..., axis]
        far = max(int(second.max()) - int(first.min()), int(first.max()) - int(second.min()))
        if far > limit:
            raise bad_position(caller, f"queries and keys at most {limit} apart", far)


def head_range(heads: Any, total: int, caller: str) -> tuple[int, int]:
    """The heads [h0, h1) that are asked for, of `total`."""
    if heads is None:
        return 0, total
    pair = isinstance(heads, (tuple, list)) and len(heads) == 2
    if not pair or not all(isinstance(h, int) and not isinstance(h, bool) for h in heads):
        raise bad_argument(f"{caller}: heads", f"(first, end) of the {total} heads", repr(heads))
    first, end = heads
    if not 0 <= first < end <= total:
        raise bad_argument(
            f"{caller}: heads", f"(first, end) with 0 <= first < end <= {total}", (first, end)
        )
    return first, end


def part_shapes(spec: Any, first: int, end: int) -> dict[str, tuple[int, ...]]:
    """The shapes of the parameters of some heads alone."""
    shapes = {}
    for name, shape in spec.shapes.items():
        axis = spec.by_head.get(name)
        shapes[name] = shape if axis is None else (*shape[:axis], end - first, *shape[axis + 1 :])
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
    part = part_shapes(spec, first, end) if spec.shapes else None
    learned = parameters(spec, params, xp=xp, device=device, caller=caller, part=part)
    values = {**constants(spec, beside, xp=xp), **learned}
    for name, axis in spec.by_head.items():
        if name in values:
            # A traced constant does not tell its shape, so that of the spec is asked.
            shape = learned[name].shape if name in learned else spec.texts[name][1]
            if shape[axis] != end - first:
                values[name] = values[name][(slice(None),) * axis + (slice(first, end), ...)]
    return values
