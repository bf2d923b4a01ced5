"""A rotation that is asked for, read into a request; and what needs no request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from posenc import kernels
from posenc._core.arrays.array import (
    device_of,
    is_divided,
    is_torch,
    namespace,
    numpy_rules,
    result_dtype,
)
from posenc._core.arrays.coordinates import integers
from posenc._core.arrays.lookups import check_apart
from posenc._core.errors import ArgumentError, SpecError, mismatch
from posenc.encodings.rotary.base import Role, RotarySpec
from posenc.functional._parameters import parameters
from posenc.functional.arguments.common import (
    DIRECT,
    Array,
    Kernel,
    name_of,
    require,
    without_request,
    wrong_shape,
)
from posenc.functional.arguments.lengths import at_length
from posenc.functional.arguments.tokens import (
    check_length,
    check_tokens,
    is_start,
    place_of,
    token_positions,
)
from posenc.positions import packed

# The fields of `Rotation` from `positions` on.
Options = tuple[Any, Any, Any, int, bool, Any, bool, Any, Kernel]


class Rotation(NamedTuple):
    """The arguments of `rotate`, as they came."""

    spec: RotarySpec
    inputs: Sequence[tuple[Array, Role]]
    positions: Any
    offset: Any
    cu_seqlens: Any
    seq_dim: int
    inverse: bool
    length: Any
    inplace: bool
    params: Any
    kernel: Kernel


# --- without a request ----------------------------------------------------------------------------


def at_once(
    spec: RotarySpec, inputs: Sequence[tuple[Array, Role]], options: Options
) -> tuple[Array, ...] | None:
    """One token in eager torch, for a spec that has come this way before; and DTensors.

    None where the arguments are to be read. What is in doubt is read, which has the words for
    errors.
    """
    positions, offset, cu_seqlens, seq_dim, inverse, length, inplace, params, kernel = options
    if length is not None:
        tokens, caller = _tokens(inputs, seq_dim), f"rotate({name_of(spec)})"
        check_length(length, tokens, positions, offset, cu_seqlens, caller=caller)
    if cu_seqlens is None and kernel in DIRECT and (params is None or params.__class__ is dict):
        direct = without_request()
        if direct is not None and not params:
            turned: tuple[Array, ...] | None = direct.rotated(
                spec, inputs, positions, offset, seq_dim, inverse, inplace
            )
            if turned is not None:
                return turned
    learned = params.values() if isinstance(params, Mapping) else ()
    arrays = [x for x, _ in inputs]
    if is_divided(*arrays, positions, offset, cu_seqlens, *learned):
        check_tokens(arrays, seq_dim, f"rotate({name_of(spec)})")
        asked = Rotation(spec, inputs, *options)
        return tuple([_divided_turn(asked, x, role) for x, role in inputs])
    return None


def _tokens(inputs: Sequence[tuple[Array, Role]], seq_dim: Any) -> int | None:
    """The number of tokens, or None where whoever reads the array has the words for the error."""
    try:
        tokens: int = inputs[0][0].shape[seq_dim]
    except (AttributeError, TypeError, IndexError):
        return None
    return tokens


def _divided_turn(asked: Rotation, x: Array, role: Role) -> Array:
    """The turn of an array that is divided between processes."""
    from posenc.functional.arguments import divided as _divided
    from posenc.functional.arguments.shards import Part

    spec, seq_dim, rank = asked.spec, asked.seq_dim, len(x.shape)
    require(spec, RotarySpec, "rotate")
    refused = {}
    if (spec.per_head or 1) > 1 and rank > 2:
        todo = "Its heads turn differently: divide the batch."
        refused = {str(rank - (3 if seq_dim == -2 else 2)): ("all heads", todo)}

    def turned(x: Array, positions: Any, offset: Any, ends: Any, **params: Array) -> Array:
        part = asked._replace(
            inputs=((x, role),),
            positions=positions,
            offset=offset,
            cu_seqlens=ends,
            params=_divided.params_of(params),
        )
        (result,) = kernels.run(read(part), asked.kernel)
        return result

    return _divided.on_tokens(
        turned,
        ("x", x),
        seq_dim,
        {"positions": asked.positions},
        f"rotate({name_of(spec)})",
        last=int(len(spec.axes) > 1),
        more={
            "offset": _divided.of_offset(asked.offset),
            "ends": Part(asked.cu_seqlens, ("axes",)),
            **_divided.of_parameters(spec, asked.params),
        },
        refused=refused,
        inplace=asked.inplace,
    )


# --- a request ------------------------------------------------------------------------------------


@numpy_rules
def read(asked: Rotation) -> kernels.Rotate:
    """The arguments, right and in the forms of a request."""
    seq_dim, caller = asked.seq_dim, f"rotate({name_of(asked.spec)})"
    arrays = tuple([x for x, _ in asked.inputs])
    check_tokens(arrays, seq_dim, caller)
    spec, choice = at_length(asked.spec, asked.length, "rotate")
    if asked.inplace:
        if spec.shapes or spec.output_dim != spec.dim:
            todo = "Gradients of what is learned need what stood there before."
            if spec.output_dim != spec.dim:
                todo = f"The result has {spec.output_dim} channels for each {spec.dim}."
            raise ArgumentError(mismatch(f"{caller}: inplace", "False", asked.inplace, todo))
        check_apart(arrays, caller)
    places: list[Any] = []
    for x, role in asked.inputs:
        xp, _ = checked(spec, x, caller)
        check_role(role, caller)
        places.append(_place(asked, spec, x, places, xp=xp, caller=caller))
    params = parameters(spec, asked.params, xp=xp, device=device_of(x), caller=caller)
    return kernels.Rotate(
        spec,
        arrays,
        tuple([role for _, role in asked.inputs]),
        tuple(places),
        seq_dim,
        asked.inverse,
        asked.inplace,
        params,
        choice,
        xp,
        caller,
    )


def _place(
    asked: Rotation, spec: RotarySpec, x: Array, before: list[Any], *, xp: Any, caller: str
) -> kernels.Positions:
    """Where the tokens of an array stand; as for an earlier array if it fits.

    Positions that do not vary with the heads are the same for all arrays.
    """
    positions, offset, seq_dim = asked.positions, asked.offset, asked.seq_dim
    place = place_of(tuple(x.shape), seq_dim, caller)
    if asked.cu_seqlens is not None:
        ends = _sequence_ends(asked, spec, x, xp=xp, caller=caller)
        if is_torch(x) and x.device.type != "cpu":
            return kernels.Packed(ends)  # a launch finds the sequence of each token by itself
        positions = packed(ends, total=x.shape[place])
    elif positions is None and len(spec.axes) == 1 and is_start(offset):
        return offset or 0
    if before and len(before[0].shape) == len(x.shape):
        lead, seq = tuple(before[0].shape[:-1]), before[0].shape[place]
        if seq == x.shape[place] and all(
            a in (1, n) for a, n in zip(lead, x.shape[:-1], strict=True)
        ):
            return before[0]
    return token_positions(spec, x, positions, offset, seq_dim=seq_dim, xp=xp, caller=caller)


def _sequence_ends(asked: Rotation, spec: RotarySpec, x: Array, *, xp: Any, caller: str) -> Array:
    """The cumulative lengths of packed sequences beside `x`."""
    if asked.positions is not None or asked.offset is not None:
        todo = "Positions within sequences follow from their lengths."
        raise ArgumentError(mismatch(caller, "cu_seqlens alone", "positions besides", todo))
    if len(spec.axes) > 1:
        expected = f"positions with a trailing axis {spec.axes}"
        raise ArgumentError(mismatch(caller, expected, "cu_seqlens"))
    return integers(asked.cu_seqlens, xp=xp, device=device_of(x), caller=f"{caller}: cu_seqlens")


def checked(spec: RotarySpec, x: Array, caller: str) -> tuple[Any, Any]:
    """The library and the dtype of `x`."""
    xp = namespace(x, f"{caller}: x")
    dtype = result_dtype(x, caller)
    if len(x.shape) < 2 or x.shape[-1] < spec.dim:
        expected = f"shape (..., seq, channels) with at least {spec.dim} channels"
        raise wrong_shape(f"{caller}: x", expected, x)
    return xp, dtype


def check_role(role: Any, caller: str) -> None:
    """Raise unless the role is one of the two."""
    if role not in ("query", "key"):
        raise ArgumentError(mismatch(f"{caller}: role", '"query" or "key"', repr(role)))


def require_plain(spec: RotarySpec, caller: str) -> None:
    """Raise unless angles may be subtracted: they are fixed, and those of all heads."""
    if not spec.plain:
        expected = "an encoding that turns pairs by fixed angles, all heads alike"
        todo = "Rotate both from scratch: posenc.rotate(spec, x, positions=..., params=...)."
        raise SpecError(mismatch(caller, expected, name_of(spec), todo))
