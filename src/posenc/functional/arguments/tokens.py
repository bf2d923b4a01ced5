"""Where tokens stand: positions, offsets and lengths as callers give them, beside their arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from posenc._core.annotations import MOST
from posenc._core.arrays.array import (
    arange,
    concrete,
    device_of,
    is_array,
    is_foreign,
    is_symbolic,
    namespace,
    rectangular,
)
from posenc._core.arrays.coordinates import integers, reals
from posenc._core.errors import bad_argument
from posenc._core.positions.counting import offset as counted_from
from posenc._core.tracing import is_compiling
from posenc.encodings.rotary.magnitude import Temperature
from posenc.functional.arguments.common import Array, wrong_shape

# Where the sequence stands in the two common layouts of attention.
LAYOUTS = {-2: "(batch, heads, seq, channels)", -3: "(batch, seq, heads, channels)"}


def place_of(shape: tuple[int, ...], seq_dim: Any, caller: str) -> int:
    """The axis of the sequence, counted from the first."""
    rank = len(shape)
    if not isinstance(seq_dim, int) or not -rank <= seq_dim < -1:
        raise bad_argument(
            f"{caller}: seq_dim",
            f"an axis from -{rank} to -2",
            repr(seq_dim),
            "The last axis holds the channels.",
        )
    return rank + seq_dim


def align(
    received: tuple[int, ...], lead: tuple[int, ...], place: int, seq: int
) -> tuple[int, ...] | None:
    """The shape that makes positions of shape `received` broadcast to `lead`, or None."""
    if len(received) == 1 and received[0] == seq:
        return (1,) * place + (seq,) + (1,) * (len(lead) - place - 1)
    if len(received) == 2 and place > 0 and received[1] == seq and received[0] in (1, lead[0]):
        return (received[0],) + (1,) * (place - 1) + (seq,) + (1,) * (len(lead) - place - 1)
    fits = len(received) == len(lead) and received[place] == seq
    if fits and all(g in (1, n) for g, n in zip(received, lead, strict=True)):
        return received
    return None


def is_start(offset: Any) -> bool:
    """Whether an offset stays a number, rather than positions that are counted from it."""
    if is_compiling():  # comparing a symbolic offset would put a bound on it into the graph
        return False
    return offset is None or (type(offset) is int and abs(offset) < 2**62)


def token_positions(
    spec: Any,
    x: Array,
    positions: Any,
    offset: Any,
    *,
    seq_dim: int,
    xp: Any,
    caller: str,
    name: str = "positions",
) -> Array:
    """Positions of the tokens of an array, ready to broadcast: (..., axes).

    The leading shape is that of the array without its last axis, with 1 where positions do not
    vary (heads).
    """
    shape, axes, device = tuple(x.shape), len(spec.axes), device_of(x)
    place = place_of(shape, seq_dim, caller)
    if positions is None and name != "positions":
        raise bad_argument(f"{caller}: {name}", "the positions of the keys", None)
    if positions is not None and offset is not None:
        raise bad_argument(
            caller,
            "positions or offset",
            "both",
            "An offset is for positions that count up from it: add it to your positions.",
        )
    lead, seq = shape[:-1], shape[seq_dim]
    if positions is None:
        if axes > 1:
            raise bad_argument(
                f"{caller}: {name}", f"{axes} axes", None, "Give them: (..., seq, axes)."
            )
        if is_foreign(offset):
            offset = integers(offset, xp=xp, device=device, caller=f"{caller}: offset")
        array = counted_from(seq, 0 if offset is None else offset, xp=xp, device=device)
    else:
        read = reals if spec.coordinates == "real" else integers
        array = read(positions, xp=xp, device=device, caller=f"{caller}: {name}")
    received = tuple(array.shape)
    if axes > 1:
        if not received or received[-1] != axes:
            label, expected = f"{caller}: {name}", f"a trailing axis of {axes} coordinates"
            raise wrong_shape(label, expected, array)
        received = received[:-1]
    aligned = align(received, lead, place, seq)
    if aligned is None and positions is None:
        rows = f" for each of the {lead[0]} rows" if place > 0 else ""
        raise bad_argument(
            f"{caller}: offset",
            f"one number{', or one' if rows else ''}{rows}",
            f"shape {received[:-1]}",
        )
    if aligned is None:
        shapes = dict.fromkeys([(seq,), *([(lead[0], seq)] if place > 0 else []), lead])
        hints = [
            f"Axis {other} is that long: say seq_dim={other} for {layout}."
            for other, layout in LAYOUTS.items()
            if received
            and other != seq_dim
            and -other <= len(shape)
            and received[-1] == shape[other]
        ]
        raise bad_argument(
            f"{caller}: {name}",
            f"shape {' or '.join(map(str, shapes))}",
            f"shape {received}",
            "".join(hints[-1:]),
        )
    return xp.reshape(array, (*aligned, axes))


def counted(number: Any, *, xp: Any, device: Any, caller: str) -> Array:
    """The positions 0 to number - 1."""
    # Comparing a symbolic number would put a bound on it into the graph.
    if isinstance(number, (int, np.integer)) and not is_compiling():
        if not 0 <= number < MOST:
            todo = "One position is [p]." if number > 0 else ""
            bound = "at least 0" if number < 0 else "at most 2**40"
            raise bad_argument(caller, f"a number of positions of {bound}", number, todo)
        if number < 2**31:
            return arange(int(number), xp=xp, device=device)
    return counted_from(number, 0, xp=xp, device=device)


def is_number(positions: Any) -> bool:
    """Whether positions are a number of them rather than an array."""
    if isinstance(positions, (int, np.integer)):
        return not isinstance(positions, bool)
    return is_symbolic(positions)


def asked_positions(spec: Any, positions: Any, *, xp: Any, device: Any, caller: str) -> Array:
    """The positions that a verb is asked for, a number of them or an array: (..., axes)."""
    label = f"{caller}: positions"
    if not is_number(positions):
        read = reals if spec.coordinates == "real" else integers
        array = read(positions, xp=xp, device=device, caller=label)
    elif len(spec.axes) > 1:
        raise bad_argument(
            label, f"an array of coordinates {spec.axes} in its last axis", "a number of positions"
        )
    else:
        array = counted(positions, xp=xp, device=device, caller=label)
    return with_axes(spec.axes, array, label)


def with_axes(names: tuple[str, ...], positions: Array, caller: str) -> Array:
    """Positions (...) or (..., axes) as (..., axes)."""
    axes = len(names)
    if axes == 1:
        return positions[..., None]
    if not positions.shape or positions.shape[-1] != axes:
        raise wrong_shape(caller, f"a trailing axis of {axes} coordinates {names}", positions)
    return positions


def check_tokens(arrays: Sequence[Array], seq_dim: Any, caller: str) -> None:
    """Raise unless arrays that are turned together, such as queries and keys, are equally long."""
    rectangular(caller, *arrays)
    if len(arrays) < 2:
        return
    shapes = []
    for x in arrays:
        namespace(x, f"{caller}: x")
        shapes.append(tuple(x.shape))
        place_of(shapes[-1], seq_dim, caller)
    lengths = [shape[seq_dim] for shape in shapes]
    for length in lengths:
        if length == lengths[0]:
            continue
        other = -3 if seq_dim == -2 else -2
        raise bad_argument(
            caller,
            f"one number of tokens along axis {seq_dim}, the sequence",
            f"{lengths[0]} and {length} (shapes {shapes})",
            f"Where axis {other} is the sequence, as in {LAYOUTS[other]}, say seq_dim={other}. One "
            "query beside a KV cache is turned with its own new key, with offset= the number of "
            "tokens in the cache. What counts apart (cross-attention) is turned one by one.",
        )


def check_length(
    spec: Any,
    length: Any,
    tokens: int | None,
    positions: Any,
    offset: Any = None,
    cu_seqlens: Any = None,
    *,
    caller: str,
) -> None:
    """Raise where no rule reads a length, or positions reach beyond it, if both are known.

    Nothing is read that lies on another device or in a graph.
    """
    if not getattr(spec, "needs_length", not isinstance(spec, Temperature)):
        todo = (
            "Leave it out: no scaling of this encoding reads it. Which tokens these are is said by"
        )
        raise bad_argument(f"{caller}: length", "none", length, f"{todo} positions= or offset=.")
    # A comparison with a symbolic length would put a bound on it into the graph.
    if is_compiling() or is_symbolic(length):
        return
    if is_array(length) or isinstance(length, np.integer):
        number = _values(length)
        if number is None or number.ndim or number.dtype.kind != "i":
            return  # where the length is used, it is read and has its words
        length = number.item()
    if isinstance(length, bool) or not isinstance(length, int) or length < 1:
        raise bad_argument(f"{caller}: length", "a number of positions, at least 1", repr(length))
    reach: Any = None
    if cu_seqlens is not None:
        ends = _values(cu_seqlens)
        reach = None if ends is None or ends.ndim != 1 else np.diff(ends).max(initial=0)
    elif positions is not None:
        values = _values(positions)
        reach = None if values is None else np.floor(values).max(initial=-1) + 1
    elif tokens is not None and not is_symbolic(tokens):
        first = _values(0 if offset is None else offset)
        reach = first.max() + tokens if first is not None and first.size and tokens else None
    if reach is not None and reach > length:
        raise bad_argument(
            f"{caller}: length",
            f"at least {int(reach)}, as positions reach {int(reach) - 1}",
            length,
            "It is that of the whole sequence, cached tokens included.",
        )


def _values(numbers: Any) -> np.ndarray | None:
    """Numbers that can be looked at for nothing, or None."""
    if is_symbolic(numbers):
        return None
    try:
        values = concrete(numbers)
    except (ValueError, TypeError, OverflowError):
        return None  # whoever reads it has the words
    return None if values is None or values.dtype.kind not in "iuf" else values
