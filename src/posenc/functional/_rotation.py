"""A rotation that is asked for: read once, and served by a kernel or by the reference."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

from posenc import kernels
from posenc._core.array import dtype_name, is_compiling, is_divided, is_torch, numpy_rules
from posenc._core.errors import ArgumentError, mismatch
from posenc._core.inplace import check_apart
from posenc.encodings.rotary.base import Role, RotarySpec
from posenc.functional._angles import (
    asks_kernel,
    check_role,
    checked,
    factors,
    positions_of_tokens,
    sequence_ends,
    turned_by,
)
from posenc.functional._lengths import Choice, at_length
from posenc.functional.arguments import Kernel, check_tokens, name_of, place_of, require

__all__ = ["Rotation", "run"]

Array = Any


class Rotation(NamedTuple):
    """What `rotate` is asked for."""

    spec: RotarySpec
    inputs: tuple[tuple[Array, Role], ...]
    given: tuple[Any, Any, Any]  # positions, offset, cumulative lengths of packed sequences
    seq_dim: int
    inverse: bool
    inplace: bool
    length: Any
    params: Any
    kernel: Kernel


@numpy_rules
def run(asked: Rotation) -> tuple[Array, ...]:
    """The arrays turned by the first kernel that can, else by the reference."""
    spec, params = asked.spec, asked.params
    caller = f"rotate({name_of(spec)})"
    arrays = [x for x, _ in asked.inputs]
    check_tokens(arrays, asked.seq_dim, caller)
    learned = params.values() if isinstance(params, Mapping) else ()
    if is_divided(*arrays, *asked.given, *learned):
        return tuple(_divided_turn(asked, x, role) for x, role in asked.inputs)
    spec, choice = at_length(spec, asked.length, "rotate")
    if asked.inplace and (spec.shapes or spec.output_dim != spec.dim):
        todo = "Gradients of what is learned need what stood there before."
        if spec.output_dim != spec.dim:
            todo = f"The result has {spec.output_dim} channels for each {spec.dim}."
        raise ArgumentError(mismatch(f"{caller}: inplace", "False", asked.inplace, todo))
    if asked.inplace:
        check_apart(arrays, caller)
    if spec is not asked.spec:
        asked = asked._replace(spec=spec)
    if asks_kernel(asked.kernel, choice, caller):
        request = kernels.Rotate(
            spec,
            tuple(arrays),
            _places(asked, caller),
            asked.seq_dim,
            asked.inverse,
            asked.inplace,
        )
        served = kernels.serve(request, asked.kernel, caller)
        if served is not None:
            turned: tuple[Array, ...] = served.value
            return turned
    return _by_reference(asked, choice, caller)


def _by_reference(asked: Rotation, choice: Choice | None, caller: str) -> tuple[Array, ...]:
    """The arrays turned by the array engine; cosines and sines once where they can be."""
    spec, seq_dim, inverse = asked.spec, asked.seq_dim, asked.inverse
    results: list[Array] = []
    last: Any = None
    for x, role in asked.inputs:
        xp, dtype, inner = checked(spec, x, caller)
        name = dtype_name(dtype)
        where = positions_of_tokens(spec, x, *asked.given, seq_dim=seq_dim, xp=xp, caller=caller)
        # Positions that do not vary with the heads are the same for all inputs.
        kind = (tuple(where.shape), inner, name, role if spec.sided else None)
        if last is None or last[0] != kind:
            cos, sin, known = factors(
                spec,
                where,
                role=role,
                params=asked.params,
                inner=inner,
                dtype=name,
                xp=xp,
                caller=caller,
                inverse=inverse,
                seq_dim=seq_dim,
                choice=choice,
            )
            last = kind, cos, sin, known
        _, cos, sin, known = last
        results.append(
            turned_by(
                x,
                cos,
                sin,
                spec.channels,
                dim=spec.dim,
                inner=inner,
                xp=xp,
                caller=caller,
                inverse=inverse,
                inplace=asked.inplace,
                how=functools.partial(spec.turned, role=role, constants=known),
            )
        )
    return tuple(results)


def _places(asked: Rotation, caller: str) -> tuple[Any, ...]:
    """Where the tokens of each array stand, as a kernel takes it."""
    places: list[Any] = []
    for x, role in asked.inputs:
        xp, _, _ = checked(asked.spec, x, caller)
        check_role(role, caller)
        places.append(_place(asked, x, places, xp=xp, caller=caller))
    return tuple(places)


def _place(asked: Rotation, x: Array, before: list[Any], *, xp: Any, caller: str) -> Any:
    """Where the tokens of an array stand; as for an earlier array if it fits.

    Positions that do not vary with the heads are the same for all arrays.
    """
    spec, given, seq_dim = asked.spec, asked.given, asked.seq_dim
    positions, offset, cu_seqlens = given
    place = place_of(tuple(x.shape), seq_dim, caller)
    counted = positions is None and cu_seqlens is None and len(spec.axes) == 1
    # Comparing a symbolic offset would put a bound on it into the graph.
    counted = counted and not is_compiling()
    if counted and (offset is None or type(offset) is int) and abs(offset or 0) < 2**62:
        return offset or 0
    if cu_seqlens is not None and is_torch(x) and x.device.type != "cpu":
        # A launch finds the sequence of each token by itself.
        return kernels.Packed(sequence_ends(spec, x, given, xp, caller))
    if before and len(before[0].shape) == len(x.shape):
        lead, seq = tuple(before[0].shape[:-1]), before[0].shape[place]
        if seq == x.shape[place] and all(
            a in (1, n) for a, n in zip(lead, x.shape[:-1], strict=True)
        ):
            return before[0]
    return positions_of_tokens(spec, x, *given, seq_dim=seq_dim, xp=xp, caller=caller)


def _divided_turn(asked: Rotation, x: Array, role: Role) -> Array:
    """The turn of an array that is divided between processes."""
    from posenc.functional import _divided

    spec, (positions, offset, cu_seqlens), seq_dim = asked.spec, asked.given, asked.seq_dim

    require(spec, RotarySpec, "rotate")
    caller = f"rotate({name_of(spec)})"
    tokens, refused = _divided.of_tokens(x, seq_dim, positions, caller)
    last = 1 if len(spec.axes) > 1 else 0
    if (spec.per_head or 1) > 1 and len(tokens) > 2:
        todo = "Its heads turn differently: divide the batch."
        refused = {**refused, tokens[-3 if seq_dim == -2 else -2]: ("all heads", todo)}

    def turned(x: Array, positions: Any, offset: Any, ends: Any, **params: Array) -> Array:
        given, learned = (positions, offset, ends), _divided.params_of(params)
        (result,) = run(asked._replace(inputs=((x, role),), given=given, params=learned))
        return result

    parts = {
        "x": _divided.Part(x, tokens, leads=True),
        "positions": _divided.of_positions(positions, tokens, last, x),
        "offset": _divided.of_offset(offset),
        "ends": _divided.Part(cu_seqlens, ("axes",)),
        **_divided.of_parameters(spec, asked.params),
    }
    return _divided.apply(turned, parts, tokens, caller, refused, inplace=asked.inplace)
