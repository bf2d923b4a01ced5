"""The reference: what every number is, on any array library and device. It refuses no request.

    rotate   turn(x, cos, sin), with (cos, sin) = spec.phasors(positions) * spec.sizes(positions)
    move     turn(x, cos, sin) of the angle between two rotations, from one difference of phases
    table    spec.rows(positions)
    add      spec.join(embedding_scale * x, spec.rows(positions))
    bias     spec.score(queries, keys, heads)

The arithmetic is float32, or float64 for float64, and a result is rounded once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from posenc._core.arrays.array import (
    Array,
    arange,
    astype,
    compute_dtype,
    constants,
    device_of,
    dtype_name,
)
from posenc._core.arrays.lookups import overwrite
from posenc._core.arrays.words import Halves, Words
from posenc._core.errors import bad_argument
from posenc._core.numeric.phase import cos_sin as phase_cos_sin
from posenc.encodings.api import RotarySpec, TableSpec
from posenc.encodings.rotary.pairing import Pairing, advanced, turn as pairs_turned
from posenc.kernels.plans import difference, sides_of_move
from posenc.kernels.requests import (
    Add,
    Bias,
    CosSin,
    Counted,
    Request,
    Rerotate,
    Rotate,
    Table,
    beside,
)

# --- rotations ------------------------------------------------------------------------------------


def rotate(request: Rotate) -> tuple[Array, ...]:
    """The arrays turned; cosines and sines once where they can be."""
    spec, seq_dim, inverse, xp = request.spec, request.seq_dim, request.inverse, request.xp
    source = spec if request.choice is None else request.choice
    results: list[Array] = []
    last: Any = None
    for x, role, places in zip(request.arrays, request.roles, request.positions, strict=True):
        inner, name = compute_dtype(x.dtype, xp), dtype_name(x.dtype)
        positions = beside(x, places, seq_dim, xp=xp)
        # Positions that do not vary with the heads are the same for all arrays.
        kind = (tuple(positions.shape), inner, name, role if spec.sided else None)
        if last is None or last[0] != kind:
            spec.check_positions(positions, name)
            values = _values(spec, request.params, positions, seq_dim, xp=xp)
            cos, sin = source.phasors(positions, values, dtype=inner, xp=xp)
            cos, sin = advanced(cos, sin, spec.quarters if role == "query" else 0)
            size = source.sizes(positions, role, values, dtype=inner, xp=xp)
            last = kind, *_sized(cos, sin, size, inverse=inverse), values
        _, cos, sin, values = last
        turn = functools.partial(
            spec.turned, cos=cos, sin=sin, role=role, constants=values, inverse=inverse, xp=xp
        )
        caller = request.caller if request.inplace else None
        results.append(
            turned_by(x, turn, spec.channels, dim=spec.dim, inner=inner, xp=xp, inplace=caller)
        )
    return tuple(results)


def move(request: Rerotate) -> Array:
    """The keys, turned by the angle between the two rotations and rounded once."""
    spec, target, x, old, new, _, xp, _ = request
    inner = compute_dtype(x.dtype, xp)
    cos, sin = _angle_between(spec, target, old, new, inner=inner, xp=xp)
    before = spec.sizes(old, "key", constants(spec, old, xp=xp), dtype=inner, xp=xp)
    after = target.sizes(new, "key", constants(target, new, xp=xp), dtype=inner, xp=xp)
    target.check_positions(new, dtype_name(x.dtype))
    cos, sin = _sized(cos, sin, after / before, inverse=False)
    by_angle = functools.partial(pairs_turned, cos=cos, sin=sin, pairing=spec.channels, xp=xp)
    return turned_by(x, by_angle, spec.channels, dim=spec.dim, inner=inner, xp=xp)


def _angle_between(
    spec: RotarySpec, target: RotarySpec, old: Array, new: Array, *, inner: Any, xp: Any
) -> tuple[Array, Array]:
    """Cosine and sine of the new angle less the old one."""
    whole = not any(xp.isdtype(side.dtype, "real floating") for side in (old, new))
    if whole and "step" in spec.arrays and "step" in target.arrays:
        both = sides_of_move(old, new, xp)
        values = constants(difference(spec, target), both, xp=xp)
        return phase_cos_sin(both, values["step"], values.get("origin"), dtype=inner, xp=xp)
    c0, s0 = spec.phasors(old, constants(spec, old, xp=xp), dtype=inner, xp=xp)
    c1, s1 = target.phasors(new, constants(target, new, xp=xp), dtype=inner, xp=xp)
    return c1 * c0 + s1 * s0, s1 * c0 - c1 * s0


def cos_sin(request: CosSin) -> tuple[Array, Array]:
    """Cosines and sines with their sizes: positions (..., axes) -> two arrays (..., pairs)."""
    spec, positions, role, xp = request.spec, request.positions, request.role, request.xp
    source = spec if request.choice is None else request.choice
    inner = compute_dtype(request.dtype, xp)
    if (spec.per_head or 1) > 1 and len(positions.shape) > 2:
        positions = positions[..., None, :, :]  # heads stand before the sequence
    spec.check_positions(positions, dtype_name(request.dtype))
    values = _values(spec, request.params, positions, -2, xp=xp)
    cos, sin = source.phasors(positions, values, dtype=inner, xp=xp)
    cos, sin = advanced(cos, sin, spec.quarters if role == "query" else 0)
    size = source.sizes(positions, role, values, dtype=inner, xp=xp)
    cos, sin = _sized(cos, sin, size, inverse=False)
    return astype(cos, request.dtype, xp), astype(sin, request.dtype, xp)


def _values(
    spec: RotarySpec, params: Mapping[str, Array], positions: Array, seq_dim: int, *, xp: Any
) -> dict[str, Any]:
    """Constants and parameters, with the axis of the heads where the input has it."""
    values: dict[str, Any] = {**constants(spec, positions, xp=xp), **params}
    for name, place in spec.by_head.items():
        value = values.get(name)
        if isinstance(value, (Halves, Words)):
            values[name] = type(value)(*(_of_head(v, spec, place, seq_dim) for v in value))
        elif value is not None:
            values[name] = _of_head(value, spec, place, seq_dim)
    return values


def _of_head(value: Array, spec: RotarySpec, place: int, seq_dim: int) -> Array:
    before = (slice(None),) * place
    if spec.per_head == 1:
        return value[(*before, 0, ...)]
    return value if seq_dim == -3 else value[(*before, slice(None), None, ...)]


def _sized(cos: Array, sin: Array, size: Any, *, inverse: bool) -> tuple[Array, Array]:
    if isinstance(size, float) and size == 1:
        return cos, sin
    return (cos / size, sin / size) if inverse else (cos * size, sin * size)


def turned_by(
    x: Array,
    turn: Callable[[Array], Array],
    pairing: Pairing,
    *,
    dim: int,
    inner: Any,
    xp: Any,
    inplace: str | None = None,
) -> Array:
    """Turn the rotated part of `x`, pass the rest through, and round once.

    `inplace` is the caller that asks to write over `x`.
    """
    part = x
    if x.shape[-1] != dim:
        part = x[..., :dim] if pairing.part == "leading" else x[..., x.shape[-1] - dim :]
    turned = astype(turn(astype(part, inner, xp)), x.dtype, xp)
    if inplace is not None:
        written = overwrite(part, turned, inplace)
        return written if x.shape[-1] == dim else x
    if x.shape[-1] == dim:
        return turned
    if pairing.part == "leading":
        return xp.concat([turned, x[..., dim:]], axis=-1)
    return xp.concat([x[..., : x.shape[-1] - dim], turned], axis=-1)


# --- tables ---------------------------------------------------------------------------------------


def table(request: Table) -> Array:
    """The rows (..., dim) at positions (..., axes)."""
    positions, xp = request.positions, request.xp
    if isinstance(positions, Counted):
        positions = arange(positions.length, xp=xp, device=positions.device)[:, None]
    rows = _rows(request.spec, positions, request.params, compute_dtype(request.dtype, xp), xp)
    return astype(rows, request.dtype, xp)


def add(request: Add) -> Array:
    """The embeddings times their factor, plus the rows."""
    spec, x, xp = request.spec, request.x, request.xp
    inner, scale = compute_dtype(x.dtype, xp), spec.embedding_scale
    positions = beside(x, request.positions, request.seq_dim, xp=xp)
    rows = _rows(spec, positions, request.params, inner, xp)
    wide = astype(x, inner, xp)
    return astype(spec.join(wide if scale == 1 else wide * scale, rows, xp=xp), x.dtype, xp)


def _rows(
    spec: TableSpec, positions: Array, params: Mapping[str, Array], inner: Any, xp: Any
) -> Array:
    values = {**constants(spec, positions, xp=xp), **params}
    rows: Array = spec.rows(positions, values, dtype=inner, xp=xp)
    if rows.ndim != positions.ndim:  # of a class of another package
        raise bad_argument(
            f"{type(spec).__name__}.rows", "rows (..., dim) of positions (..., axes)",
            f"{tuple(rows.shape)} of {tuple(positions.shape)}",
            "Their axes are last: take positions[..., 0].",
        )  # fmt: skip
    return rows


# --- biases ---------------------------------------------------------------------------------------


def bias(request: Bias) -> Array:
    """The entries (*lead, heads, queries, keys)."""
    spec, sides, (first, end), xp = request.spec, request.sides, request.heads, request.xp
    inner = compute_dtype(request.dtype, xp)
    prepared = spec.prepare(request.values, dtype=inner, xp=xp)
    head = arange(end - first, xp=xp, device=device_of(sides.q[0]))[:, None, None]
    q, k = sides.with_heads()
    entries = sides.without_wrapped(spec.score(q, k, head, prepared, dtype=inner, xp=xp), xp)
    if request.dtype == getattr(xp, "float16", None):
        entries = _within_float16(entries, xp)
    shape = (*sides.lead, end - first, sides.rows, sides.columns)
    return xp.broadcast_to(astype(entries, request.dtype, xp), shape)


def _within_float16(x: Array, xp: Any) -> Array:
    """Finite entries within the range of float16: an infinity would be a mask, or a NaN later."""
    infinity, largest = float("inf"), xp.full_like(x, 65504.0)
    x = xp.where((x > 65504.0) & (x < infinity), largest, x)
    return xp.where((x < -65504.0) & (x > -infinity), -largest, x)


OPERATIONS: Mapping[type[Request], Callable[[Any], Any]] = {
    Rotate: rotate,
    Rerotate: move,
    CosSin: cos_sin,
    Table: table,
    Add: add,
    Bias: bias,
}
