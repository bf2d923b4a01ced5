"""The compiled kernels for CPUs: NumPy arrays and torch tensors in memory, read where they lie.

Arrays of JAX are lent as the NumPy arrays that they are in memory. Only eager arrays of one CPU
have memory that can be looked at. What JAX traces, differentiates or divides between devices stays
with the reference.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from posenc._core.arrays.array import Array, is_jax, is_torch, limits
from posenc._core.tracing import is_compiling
from posenc.encodings.bias.alibi import ALiBi
from posenc.encodings.bias.t5 import T5
from posenc.kernels import plans
from posenc.kernels.plans import biases, flat, moving, native, phases, rotation, sinusoids, threads
from posenc.kernels.requests import (
    Add,
    Bias,
    CosSin,
    Counted,
    Packed,
    Positions,
    Refusal,
    Request,
    Rerotate,
    Rotate,
    Sides,
    Table,
)

LINE = 64  # bytes; memory that begins at a multiple of it becomes an array of JAX without a copy
SMALL = 1 << 16  # bytes, of which a copy costs nothing

# --- what it computes -----------------------------------------------------------------------------


def rotate(request: Rotate) -> tuple[Array, ...]:
    """The arrays turned."""
    arrays = request.arrays
    if is_torch(arrays[0]):
        from posenc.kernels.torch.eager import turned

        return turned(request, "cpu")
    if is_jax(arrays[0]):
        return lent(rotate, request, arrays[0])
    results = arrays if request.inplace else tuple([_memory(x.shape, x.dtype) for x in arrays])
    plan = rotation(request.spec, inverse=request.inverse, transposed=False)
    for x, y, positions in zip(arrays, results, request.positions, strict=True):
        plan.turn((x,), (y,), flat(positions, x.shape[request.seq_dim]), request.seq_dim, threads())
    return results


def move(request: Rerotate) -> Array:
    """The keys where they shall stand."""
    spec, target, x, old, new, seq_dim, xp, _ = request
    if is_jax(x):
        return lent(move, request, x)
    _, plan, alike = moving(spec, target)
    if isinstance(new, np.ndarray):
        new = new.astype(np.int64)  # the integers of JAX may not hold a difference
    places = new - old if alike else plans.sides_of_move(old, new, xp)
    result = _empty(x.shape, x.dtype, x)
    plan.turn((x,), (result,), places, seq_dim, threads())
    return result


def cos_sin(request: CosSin) -> tuple[Array, Array]:
    """Cosines and sines."""
    positions, spec = request.positions, request.spec
    if is_jax(positions):
        return lent(cos_sin, request, positions)
    shape = (*positions.shape[:-1], spec.pairs)
    cos, sin = (_empty(shape, request.dtype, positions) for _ in range(2))
    phases(spec).cos_sin(positions, cos, sin, spec.attention_factor, False, threads())
    return cos, sin


def table(request: Table) -> Array:
    """The rows of a table."""
    positions, spec = request.positions, request.spec
    if is_jax(positions):
        return lent(table, request, positions)
    start: Any = positions
    if isinstance(positions, Counted):
        shape, start = (positions.length, spec.dim), 0
        # Where the library puts what it is not told of, the kernel looks for itself.
        rows = request.xp.empty(shape, dtype=request.dtype, device=positions.device)
    else:
        rows = _empty((*positions.shape[:-1], spec.dim), request.dtype, positions)
    sinusoids(spec).table(rows, start, threads())
    return rows


def add(request: Add) -> Array:
    """The embeddings plus the rows."""
    x, spec, seq_dim = request.x, request.spec, request.seq_dim
    if is_torch(x):
        from posenc.kernels.torch.eager import added

        return added(request, "cpu")
    if is_jax(x):
        return lent(add, request, x)
    result, positions = _memory(x.shape, x.dtype), flat(request.positions, x.shape[seq_dim])
    sinusoids(spec).add(x, result, positions, spec.embedding_scale, seq_dim, threads())
    return result


def bias(request: Bias) -> Array:
    """The entries of ALiBi or of T5's buckets."""
    spec, (first, end), values = request.spec, request.heads, request.values
    if request.xp is not np and is_jax(request.sides.q[0]):
        return lent(bias, request, request.sides.q[0])
    # The first axis: what has several is no encoding that is known here.
    q, k = request.sides.q[0][:, 0], request.sides.k[0][0]
    result = _empty((end - first, q.shape[0], k.shape[0]), request.dtype, q)
    entries, weight, shape = biases(spec)
    weight = weight[first:end] if shape is None else values["weight"]
    entries(result, q, k, weight, threads())
    return result


def _empty(shape: tuple[int, ...], dtype: Any, beside: Array) -> Array:
    return beside.new_empty(shape, dtype=dtype) if is_torch(beside) else _memory(shape, dtype)


# --- what it takes --------------------------------------------------------------------------------


class Cpu:
    """C++ for several instruction sets, chosen when it is loaded."""

    name = "cpu"
    operations: Mapping[type[Request], Callable[[Any], Any]] = {
        Rotate: rotate,
        Rerotate: move,
        CosSin: cos_sin,
        Table: table,
        Add: add,
        Bias: bias,
    }
    # The compiled code looks at memory, shapes and values before it writes.
    refusals: tuple[type[Exception], ...] = (Refusal, ValueError, TypeError, BufferError)

    @property
    def about(self) -> str:
        """Which instructions run."""
        return f"{native().instruction_set()}, {native().default_threads()} threads"

    def absent(self) -> str | None:
        """Why it does not run here at all, or None."""
        module = native()
        return module if isinstance(module, str) else None

    def why_not(self, request: Request) -> str | None:
        """Why it cannot do what is asked, or None."""
        if isinstance(request, Rotate):
            return plans.why_no_turning(request) or _first(
                *map(_why_not_array, request.arrays),
                *map(_why_not_places, request.positions),
            )
        if isinstance(request, Add):
            return (
                _why_no_rows(request.spec)
                or _why_not_array(request.x)
                or _why_not_places(request.positions)
            )
        if isinstance(request, Bias):
            return _why_not_bias(request)
        if isinstance(request, Rerotate):
            return _why_not_move(request)
        reason = (
            plans.why_no_turning(request)
            if isinstance(request, CosSin)
            else _why_no_rows(request.spec)
        )
        reason = reason or plans.why_not_dtype(request.dtype)
        if isinstance(request.positions, Counted):
            return reason or _why_not_library(request.xp)
        return reason or _why_not_host(request.positions) or _why_not_places(request.positions)


def _first(*reasons: str | None) -> str | None:
    return next((reason for reason in reasons if reason), None)


def _why_not_array(x: Array) -> str | None:
    """Why an array cannot be read where it lies."""
    reason = plans.why_not_dtype(x.dtype)
    if reason:
        return reason
    if is_torch(x):
        if is_compiling():
            return None  # the operator stands in the graph
        from posenc.kernels.torch.state import why_not_memory

        return why_not_memory(x) if x.device.type == "cpu" else f"a tensor on {x.device.type}"
    if is_jax(x):
        return _why_not_lent(x)
    if not isinstance(x, np.ndarray):
        return f"an array of {type(x).__module__.partition('.')[0]}, where it has NumPy and torch"
    if not x.dtype.isnative or not x.flags.aligned:
        return "an array in foreign byte order or unaligned memory"
    return None


def _why_not_places(positions: Positions) -> str | None:
    """Why positions cannot be read where they lie."""
    numbers = positions.ends if isinstance(positions, Packed) else positions
    return plans.why_not_positions(positions) or (
        _why_not_lent(numbers) if is_jax(numbers) else None
    )


def _why_not_host(x: Array) -> str | None:
    """Why a result cannot be made where positions are."""
    if is_torch(x):
        from posenc.kernels.torch.state import why_not_memory

        if is_compiling():
            return "positions inside torch.compile, which fuses the reference itself"
        return why_not_memory(x) if x.device.type == "cpu" else f"positions on {x.device.type}"
    if is_jax(x):
        return _why_not_lent(x)
    if not isinstance(x, np.ndarray):
        return f"positions of {type(x).__module__.partition('.')[0]}"
    return None


def _why_not_library(xp: Any) -> str | None:
    """Why a result cannot be made for positions that are counted."""
    name = xp.__name__.removeprefix("array_api_compat.").partition(".")[0]
    return None if name in ("numpy", "torch") else f"arrays of {name}, where it has NumPy and torch"


def _why_no_rows(spec: Any) -> str | None:
    own = "cosines with exponents of their own" if "cosine_step" in spec.arrays else None
    return plans.why_no_columns(spec) or own


def _why_not_move(request: Rerotate) -> str | None:
    x, places = request.x, (request.old, request.new)
    followed = is_torch(x) and x.requires_grad and sys.modules["torch"].is_grad_enabled()
    return (
        plans.why_no_pairs(request.spec)
        or plans.why_no_pairs(request.target)
        or _why_not_array(x)
        or _first(*map(_why_not_places, places))
        or ("keys that need a gradient" if followed else None)
    )


def _why_not_bias(request: Bias) -> str | None:
    spec, sides = request.spec, request.sides
    if not isinstance(spec, (ALiBi, T5)):
        return f"{type(spec).__name__}, where it knows ALiBi and T5"
    odd = isinstance(spec, T5) and spec.buckets % 2 and spec.direction == "bidirectional"
    float16 = request.dtype == getattr(request.xp, "float16", None)
    why = (
        (isinstance(spec, ALiBi) and spec.recipe == "learned", "learned slopes"),
        (odd, "an odd number of buckets for two directions"),
        (sides.lead, "positions that differ from row to row"),
        (sides.seen is None and is_jax(sides.q[0]), "positions that JAX traces"),
        (float16, "float16, to whose range the reference keeps large biases"),
    )
    for wrong, text in why:
        if wrong:
            return text
    # Keys are of the library and on the device of the queries.
    reason = plans.why_not_dtype(request.dtype) or _why_not_host(sides.q[0])
    for name in spec.shapes:
        value = request.values[name]
        reason = reason or _why_not_array(value)
        if is_torch(value) and value.requires_grad and sys.modules["torch"].is_grad_enabled():
            reason = reason or "parameters that need a gradient"
    return reason


# --- arrays of JAX --------------------------------------------------------------------------------


def _why_not_lent(x: Array) -> str | None:
    """Why the memory of an array of JAX is not its contents, or None."""
    if isinstance(x, sys.modules["jax"].core.Tracer):
        return "an array that JAX traces"
    devices = x.devices()
    alone = len(devices) == 1 and next(iter(devices)).platform == "cpu"
    return None if alone else "an array of JAX that is not on one CPU"


def lent(operation: Callable[[Any], Any], request: Any, beside: Array) -> Any:
    """What an operation makes of a request in NumPy, as arrays of JAX on the device of another."""
    places = getattr(request, "positions", ())
    for start in places if type(places) is tuple else (places,):
        if type(start) is int and abs(start) > limits(request.xp)[1] // 2:
            raise Refusal("a start of positions that the integers of JAX may not hold")
    fields = {name: _view(value) for name, value in request._asdict().items()}
    if "dtype" in fields:
        fields["dtype"] = np.dtype(request.dtype)
    result = operation(request._replace(**fields | {"xp": np}))
    jax = sys.modules["jax"]
    arrays = result if isinstance(result, tuple) else (result,)
    if jax.config.jax_debug_nans and any(np.isnan(array).any() for array in arrays):
        raise Refusal("NaN, which `jax_debug_nans` looks for in operations of JAX")
    return jax.device_put(result, beside.sharding if beside.committed else None)


def _view(value: Any) -> Any:
    if is_jax(value):
        return np.asarray(value)
    if type(value) is tuple:
        return tuple([_view(item) for item in value])
    if isinstance(value, dict):
        return {name: _view(item) for name, item in value.items()}
    if isinstance(value, Sides) and value.seen is not None:
        return Sides(*value.seen, value.lead, value.seen)
    return Packed(_view(value.ends)) if isinstance(value, Packed) else value


def _memory(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Memory for a result that JAX can take over."""
    dtype = np.dtype(dtype)
    size = math.prod(shape) * dtype.itemsize
    if size < SMALL:
        return np.empty(shape, dtype)
    memory = np.empty(size + LINE, np.uint8)
    begin = -memory.ctypes.data % LINE
    return memory[begin : begin + size].view(dtype).reshape(shape)
