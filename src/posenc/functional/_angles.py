"""What the rotary verbs share: cosines and sines of the tokens, and the turn by them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from posenc import positions as _positions
from posenc._core.array import (
    astype,
    compute_dtype,
    constants,
    device_of,
    integers,
    namespace,
    result_dtype,
)
from posenc._core.errors import ArgumentError, SpecError, mismatch
from posenc._core.inplace import overwrite
from posenc._core.phase import Halves, Words
from posenc.encodings.rotary.base import Role, RotarySpec
from posenc.encodings.rotary.pairing import Pairing, turn
from posenc.functional._lengths import Choice
from posenc.functional._parameters import parameters
from posenc.functional.arguments import Kernel, asks, name_of, place_of, token_positions

__all__ = [
    "asks_kernel",
    "check_role",
    "checked",
    "factors",
    "positions_of_tokens",
    "require_plain",
    "sequence_ends",
    "turned_by",
    "unit_cos_sin",
]

Array = Any


def require_plain(spec: RotarySpec, caller: str) -> None:
    """Raise unless angles may be subtracted: they are fixed, and those of all heads."""
    if not spec.plain:
        expected = "an encoding that turns pairs by fixed angles, all heads alike"
        todo = "Rotate both from scratch: posenc.rotate(spec, x, positions=..., params=...)."
        raise SpecError(mismatch(caller, expected, name_of(spec), todo))


def checked(spec: RotarySpec, x: Array, caller: str) -> tuple[Any, Any, Any]:
    """The library of `x`, its dtype, and the dtype to compute in."""
    xp = namespace(x, f"{caller}: x")
    dtype = result_dtype(x, caller)
    if len(x.shape) < 2 or x.shape[-1] < spec.dim:
        expected = f"shape (..., seq, channels) with at least {spec.dim} channels"
        raise ArgumentError(mismatch(f"{caller}: x", expected, f"shape {tuple(x.shape)}"))
    return xp, dtype, compute_dtype(dtype, xp)


def check_role(role: Any, caller: str) -> None:
    """Raise unless the role is one of the two."""
    if role not in ("query", "key"):
        raise ArgumentError(mismatch(f"{caller}: role", '"query" or "key"', repr(role)))


def positions_of_tokens(
    spec: RotarySpec,
    x: Array,
    positions: Any,
    offset: Any,
    cu_seqlens: Any,
    *,
    seq_dim: int,
    xp: Any,
    caller: str,
) -> Array:
    """Where the tokens of `x` stand, ready to broadcast: (..., axes)."""
    if cu_seqlens is not None:
        place = place_of(tuple(x.shape), seq_dim, caller)
        ends = sequence_ends(spec, x, (positions, offset, cu_seqlens), xp, caller)
        positions = _positions.packed(ends, total=x.shape[place])
        if positions.shape[0] != x.shape[place]:
            expected = f"lengths that add up to at most {x.shape[place]} tokens"
            raise ArgumentError(mismatch(f"{caller}: cu_seqlens", expected, positions.shape[0]))
    return token_positions(
        tuple(x.shape),
        positions,
        offset,
        axes=len(spec.axes),
        seq_dim=seq_dim,
        xp=xp,
        device=device_of(x),
        caller=caller,
        coordinates=spec.coordinates,
    )


def sequence_ends(
    spec: RotarySpec, x: Array, given: tuple[Any, Any, Any], xp: Any, caller: str
) -> Array:
    """The cumulative lengths of packed sequences beside `x`."""
    positions, offset, cu_seqlens = given
    if positions is not None or offset is not None:
        todo = "Positions within sequences follow from their lengths."
        raise ArgumentError(mismatch(caller, "cu_seqlens alone", "positions besides", todo))
    if len(spec.axes) > 1:
        expected = f"positions with a trailing axis {spec.axes}"
        raise ArgumentError(mismatch(caller, expected, "cu_seqlens"))
    return integers(cu_seqlens, xp=xp, device=device_of(x), caller=f"{caller}: cu_seqlens")


def factors(
    spec: RotarySpec,
    where: Array,
    *,
    role: Role,
    params: Any,
    inner: Any,
    dtype: str,
    xp: Any,
    caller: str,
    inverse: bool = False,
    seq_dim: int = -2,
    choice: Choice | None = None,
) -> tuple[Array, Array, dict[str, Array]]:
    """Cosines and sines with their sizes, (..., axes) -> two arrays (..., pairs), and constants."""
    check_role(role, caller)
    spec.check_positions(where, dtype)
    given = parameters(spec, params, xp=xp, device=device_of(where), caller=caller)
    known = _of_heads(spec, {**constants(spec, where, xp=xp), **given}, seq_dim)
    cos, sin, known = unit_cos_sin(spec, where, known, choice, inner=inner, xp=xp)
    size = spec.sizes(where, role, known, dtype=inner, xp=xp)
    if choice is not None:
        size = choice.of(size, choice.spec.attention_factor, dtype=inner, xp=xp)
    if isinstance(size, float) and size == 1:
        return cos, sin, known
    return (cos / size, sin / size, known) if inverse else (cos * size, sin * size, known)


def unit_cos_sin(
    spec: RotarySpec,
    where: Array,
    known: dict[str, Any],
    choice: Choice | None,
    *,
    inner: Any,
    xp: Any,
) -> tuple[Array, Array, dict[str, Any]]:
    """Cosines and sines of unit size, of the one spec or the other, and the constants."""
    if choice is None:
        return *spec.cos_sin(where, known, dtype=inner, xp=xp), known
    other = constants(choice.spec, where, xp=xp)
    if "step" in spec.arrays:  # the frequencies are among the constants, and nowhere else
        known = {key: choice.of(known[key], other[key], dtype=inner, xp=xp) for key in known}
        return *spec.cos_sin(where, known, dtype=inner, xp=xp), known
    both = zip(
        spec.cos_sin(where, known, dtype=inner, xp=xp),
        choice.spec.cos_sin(where, other, dtype=inner, xp=xp),
        strict=True,
    )
    cos, sin = (choice.of(a, b, dtype=inner, xp=xp) for a, b in both)
    return cos, sin, known


def _of_heads(spec: RotarySpec, known: dict[str, Any], seq_dim: int) -> dict[str, Any]:
    """Constants and parameters with the axis of the heads where the input has it."""
    for name, place in spec.by_head.items():
        if name not in known:
            continue
        value = known[name]
        if isinstance(value, (Halves, Words)):
            known[name] = type(value)(*(_of_head(v, spec, place, seq_dim) for v in value))
        else:
            known[name] = _of_head(value, spec, place, seq_dim)
    return known


def _of_head(value: Array, spec: RotarySpec, place: int, seq_dim: int) -> Array:
    before = (slice(None),) * place
    if spec.per_head == 1:
        return value[(*before, 0, ...)]
    return value if seq_dim == -3 else value[(*before, slice(None), None, ...)]


def turned_by(
    x: Array,
    cos: Array,
    sin: Array,
    pairing: Pairing,
    *,
    dim: int,
    inner: Any,
    xp: Any,
    caller: str,
    inverse: bool = False,
    inplace: bool = False,
    how: Callable[..., Array] | None = None,
) -> Array:
    """Turn the rotated part of `x`, pass the rest through, and round once."""
    part = x
    if x.shape[-1] != dim:
        part = x[..., :dim] if pairing.part == "leading" else x[..., x.shape[-1] - dim :]
    wide = astype(part, inner, xp)
    if how is None:
        turned = turn(wide, cos, sin, pairing, transposed=inverse, xp=xp)
    else:
        turned = how(wide, cos, sin, inverse=inverse, xp=xp)
    turned = astype(turned, x.dtype, xp)
    if inplace:
        written = overwrite(part, turned, caller)
        return written if x.shape[-1] == dim else x
    if x.shape[-1] == dim:
        return turned
    if pairing.part == "leading":
        return xp.concat([turned, x[..., dim:]], axis=-1)
    return xp.concat([x[..., : x.shape[-1] - dim], turned], axis=-1)


def asks_kernel(kernel: Kernel, choice: Choice | None, caller: str) -> bool:
    """Whether a kernel is asked: it takes one spec, and does not choose between two."""
    if choice is not None and kernel not in ("auto", "reference") and asks(kernel, caller):
        expected = "a length that is a number"
        raise ArgumentError(
            mismatch(f"{caller}: kernel={kernel!r}", expected, type(choice.length).__name__)
        )
    return asks(kernel, caller) and choice is None
