"""A rotation that is asked for, read into a request; and what needs no request."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from posenc import kernels
from posenc._core.annotations import check_values
from posenc._core.arrays.array import (
    concrete,
    device_of,
    dtype_name,
    is_array,
    is_divided,
    is_symbolic,
    is_torch,
    namespace,
    result_dtype,
)
from posenc._core.arrays.coordinates import integers
from posenc._core.arrays.lookups import check_apart
from posenc._core.calls import numpy_rules
from posenc._core.errors import (
    bad_argument,
    bad_dtype,
    bad_spec,
)
from posenc._core.tracing import is_compiling, is_followed
from posenc.encodings.rotary.base import Role, RotarySpec
from posenc.functional.arguments.common import (
    DIRECT,
    Array,
    Kernel,
    name_of,
    parameters,
    require,
    without_request,
    wrong_shape,
)
from posenc.functional.arguments.tokens import (
    check_length,
    check_tokens,
    is_start,
    place_of,
    token_positions,
)
from posenc.kernels.plans import FAR
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
        check_length(spec, length, tokens, positions, offset, cu_seqlens, caller=caller)
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
    from posenc.functional.arguments.divided import Part

    spec, seq_dim, rank = asked.spec, asked.seq_dim, len(x.shape)
    require(spec, RotarySpec, "rotate")
    refused = {}
    if (spec.per_head or 1) > 1 and rank > 2:
        heads = str(rank - (3 if seq_dim == -2 else 2))
        refused = {heads: ("all heads", "Its heads turn differently: divide the batch.")}

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
    if not (type(asked.inverse) is type(asked.inplace) is bool):
        switches = {"inverse": (asked.inverse, bool), "inplace": (asked.inplace, bool)}
        check_values(caller, switches)
    if asked.inplace:
        if spec.shapes or spec.output_dim != spec.dim:
            todo = (
                "Gradients of what is learned need what stood there before."
                if spec.output_dim == spec.dim
                else f"The result has {spec.output_dim} channels for each {spec.dim}."
            )
            raise bad_argument(f"{caller}: inplace", "False", asked.inplace, todo)
        check_apart(arrays, caller)
    places: list[Any] = []
    for x, role in asked.inputs:
        xp, _ = checked(spec, x, f"{caller}: x")
        if role not in ("query", "key"):
            check_values(caller, {"role": (role, Role)})
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
        raise bad_argument(
            caller,
            "cu_seqlens or positions",
            "both",
            "Positions within sequences follow from cu_seqlens.",
        )
    if len(spec.axes) > 1:
        raise bad_argument(caller, f"positions with a trailing axis {spec.axes}", "cu_seqlens")
    return integers(asked.cu_seqlens, xp=xp, device=device_of(x), caller=f"{caller}: cu_seqlens")


def checked(spec: RotarySpec, x: Array, caller: str) -> tuple[Any, Any]:
    """The library and the dtype of `x`, which the caller names."""
    xp = namespace(x, caller)
    dtype = result_dtype(x, caller)
    if len(x.shape) < 2 or x.shape[-1] < spec.dim:
        raise wrong_shape(
            caller, f"shape (..., seq, channels) with at least {spec.dim} channels", x
        )
    return xp, dtype


def require_plain(spec: RotarySpec, caller: str) -> None:
    """Raise unless angles may be subtracted: they are fixed, and those of all heads."""
    if not spec.plain:
        raise bad_spec(
            caller,
            "an encoding that turns pairs by fixed angles, all heads alike",
            name_of(spec),
            "Rotate both from scratch: posenc.rotate(spec, x, positions=..., params=...).",
        )


def at_length(spec: RotarySpec, length: Any, verb: str) -> tuple[RotarySpec, kernels.Choice | None]:
    """The spec for a length, where it depends on one; and which other one it may turn out to be."""
    require(spec, RotarySpec, verb)
    if not spec.needs_length:
        return spec, None
    if type(length) is int and length >= 1 and not is_followed():
        return spec.at(length), None  # decoding comes this way for each token
    caller = f"{verb}({name_of(spec)})"
    if length is None:
        raise bad_argument(
            caller,
            "`length=`, on which its frequencies depend",
            None,
            "Pass the length of the sequence, cached tokens included, or fix it: spec.at(length).",
        )
    if is_array(length):
        length = _number(length, f"{caller}: length")
    first, last = spec.lengths or (1, None)
    two = last == first + 1
    left_open = is_array(length) or is_symbolic(length)
    if is_followed() and not left_open and two:
        left_open = _left_open(length, first)
    if not left_open:
        if isinstance(length, bool) or not isinstance(length, int) or length < 1:
            raise bad_argument(
                f"{caller}: length", "a number of positions, at least 1", repr(length)
            )
        return spec.at(length), None
    if two:
        short, long = spec.at(first), spec.at(first + 1)
        return short, kernels.Choice(short, long, length, first)
    raise bad_argument(
        f"{caller}: length",
        f"a number, as each length beyond {first} has frequencies of its own",
        f"a {type(length).__name__} whose value is not known here",
        "Choose one length outside of the compiled graph: spec.at(length).",
    )


def _number(length: Array, caller: str) -> int | Array:
    """The value of an array, or the array where that is not to be looked at."""
    name = dtype_name(length.dtype)
    if not name.startswith(("int", "uint")):
        raise bad_dtype(caller, "an integer", name)
    if len(length.shape) != 0:
        raise wrong_shape(
            caller, "one number, of shape ()", length, "All rows of a batch share one length."
        )
    if is_torch(length) and _followed():
        return length
    value = concrete(length)
    return length if value is None else int(value)


def _left_open(length: int, last: int) -> bool:
    """Whether Dynamo, which calls every number an int, does not know on which side a length is."""
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    return not (statically_known_true(length > last) or statically_known_true(length <= last))


def _followed() -> bool:
    """Whether a tracer of torch would take the value of a tensor for a constant."""
    if is_compiling():
        return True
    from posenc.kernels.torch.state import followed

    return followed() is not None


# Half a unit in the last place of 1, which is also the angle below which a pair stays where it is.
HALF_UNIT = {"bfloat16": 2.0**-9, "float16": 2.0**-12}


def check_alike(spec: RotarySpec, target: RotarySpec, caller: str) -> None:
    """Raise `SpecError` unless both turn the same pairs."""
    one, other = ((type(s), s.dim, s.channels, s.axes) for s in (spec, target))
    if one != other:
        raise bad_spec(
            caller,
            "two specs of one width, pairing and axes",
            repr(target),
            "Other pairs cannot be reached by turning.",
        )


def warn_of_small_moves(spec: RotarySpec, k: Any, old: Any, new: Any, caller: str) -> None:
    """Warn if a move turns some pairs by less than the dtype of the keys can hold."""
    least = HALF_UNIT.get(dtype_name(k.dtype))
    if least is None or is_compiling():
        return
    before, after = concrete(old), concrete(new)
    if before is None or after is None or not before.size or not after.size:
        return
    moves = (after - before).reshape(-1, before.shape[-1])
    move = moves[np.abs(moves).sum(axis=-1).argmax()]
    if not 0 < np.abs(move).max() < FAR:
        return
    if "step" in spec.arrays and move.dtype.kind == "i":
        angles = move.astype(np.int64) @ spec.arrays["step"] * (2 * math.pi * 2.0**-64)
    elif "slope" in spec.arrays:
        angles = move @ spec.arrays["slope"]
    else:
        return
    lost = int(((np.abs(angles) > 0) & (np.abs(angles) < least)).sum())
    if lost:
        warnings.warn(
            f"{caller}: a move by {np.abs(move).max()} in {dtype_name(k.dtype)} turns {lost} of "
            f"{spec.pairs} pairs by less than half a unit in the last place: they stay where they "
            "are, and moves one after the other add up what is lost. Move keys seldom and far, or "
            "keep them in float32, or keep them unrotated and rotate them when they are read.",
            UserWarning,
            stacklevel=4,
        )
