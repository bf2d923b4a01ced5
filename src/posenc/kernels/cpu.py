"""The compiled kernels for CPUs: NumPy arrays and torch tensors in memory, read where they lie."""

from __future__ import annotations

import functools
import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np

from posenc import positions as _positions
from posenc._core.array import dtype_name, is_compiling, is_torch
from posenc.encodings.bias.alibi import ALiBi
from posenc.encodings.bias.t5 import T5
from posenc.kernels import plans
from posenc.kernels.refusal import Refusal
from posenc.kernels.requests import (
    Add,
    Bias,
    CosSin,
    Counted,
    Packed,
    Request,
    Rotate,
    Table,
    Where,
)

__all__ = ["Cpu"]

Array = Any
DTYPES = ("float32", "float16", "bfloat16")
MISSING = Path(__file__).with_name("_native_missing.txt")
# The cache of pip keeps what it built without a compiler, and would install it once more.
AGAIN = "install posenc again by pip install --force-reinstall --no-cache-dir --no-deps"
INTERFACE = 1  # of the compiled module that these calls are written for


@functools.cache
def _native() -> Any:
    """The compiled module, or a text that says why there is none."""
    try:
        module = importlib.import_module("posenc.kernels._native")
    except ImportError as error:
        said = str(error)
        if MISSING.exists():  # the build leaves its last words there
            said = MISSING.read_text(encoding="utf-8", errors="replace").strip()
        return f"not compiled ({said}); {AGAIN}, with a C++ compiler at hand"
    found = getattr(module, "INTERFACE", None)
    if found != INTERFACE:
        return f"compiled for interface {found}, where {INTERFACE} is needed; {AGAIN}"
    return module


class Cpu:
    """C++ for several instruction sets, chosen when it is loaded."""

    name = "cpu"
    serves: tuple[type[Request], ...] = (Rotate, CosSin, Table, Add, Bias)

    @property
    def about(self) -> str:
        """Which instructions run."""
        return f"{_native().instruction_set()}, {_native().default_threads()} threads"

    def absent(self) -> str | None:
        """Why it does not run here at all, or None."""
        native = _native()
        return native if isinstance(native, str) else None

    def why_not(self, request: Request) -> str | None:
        """Why it cannot do what is asked, or None."""
        if isinstance(request, Rotate):
            return plans.why_no_turning(request.spec) or _first(
                *map(_why_not_array, request.arrays), *map(_why_not_where, request.where)
            )
        if isinstance(request, Add):
            return (
                _why_no_rows(request.spec)
                or _why_not_array(request.x)
                or _why_not_where(request.where)
            )
        if isinstance(request, Bias):
            return _why_not_bias(request)
        known = (
            plans.why_no_turning(request.spec)
            if isinstance(request, CosSin)
            else _why_no_rows(request.spec)
        )
        known = known or _why_not_dtype(request.dtype)
        if isinstance(request.positions, Counted):
            return known or _why_not_library(request.xp)
        return known or _why_not_host(request.positions) or _why_not_where(request.positions)

    def run(self, request: Request) -> Any:
        """The result; raises `Refusal`, with nothing written, for what only the kernel sees."""
        try:
            if isinstance(request, Rotate):
                return _rotated(request)
            if isinstance(request, Add):
                return _added(request)
            if isinstance(request, Bias):
                return _biased(request)
            return _cos_sin(request) if isinstance(request, CosSin) else _table(request)
        except (ValueError, TypeError, BufferError) as error:
            raise Refusal(str(error)) from error


# --- what it takes --------------------------------------------------------------------------------


def _first(*reasons: str | None) -> str | None:
    return next((reason for reason in reasons if reason), None)


def _why_not_dtype(dtype: Any) -> str | None:
    name = dtype_name(dtype)
    if name in DTYPES:
        return None
    return f"{name}, where it has {', '.join(DTYPES)}"


def _why_not_array(x: Array) -> str | None:
    """Why an array cannot be read where it lies."""
    reason = _why_not_dtype(x.dtype)
    if reason:
        return reason
    if is_torch(x):
        if is_compiling():
            return None  # the operator stands in the graph
        from posenc.kernels.torch_state import why_not_memory

        return why_not_memory(x) if x.device.type == "cpu" else f"a tensor on {x.device.type}"
    if not isinstance(x, np.ndarray):
        return f"an array of {type(x).__module__.partition('.')[0]}, where it has NumPy and torch"
    if not x.dtype.isnative or not x.flags.aligned:
        return "an array in foreign byte order or unaligned memory"
    return None


def _why_not_host(x: Array) -> str | None:
    """Why a result cannot be made where positions are."""
    if is_torch(x):
        from posenc.kernels.torch_state import why_not_memory

        if is_compiling():
            return "positions under a compiler, which fuses the reference"
        return why_not_memory(x) if x.device.type == "cpu" else f"positions on {x.device.type}"
    if not isinstance(x, np.ndarray):
        return f"positions of {type(x).__module__.partition('.')[0]}"
    return None


def _why_not_library(xp: Any) -> str | None:
    """Why a result cannot be made for positions that are counted."""
    name = xp.__name__.removeprefix("array_api_compat.").partition(".")[0]
    if name in ("numpy", "torch"):
        return None
    return f"arrays of {name}, where it has NumPy and torch"


def _why_not_where(where: Where) -> str | None:
    if isinstance(where, (int, Packed)) or dtype_name(where.dtype).startswith("int"):
        return None
    return "real positions, where it takes integers"


def _why_no_rows(spec: Any) -> str | None:
    if "cosine_step" in spec.arrays:
        return plans.why_no_columns(spec) or "cosines with exponents of their own"
    return plans.why_no_columns(spec)


def _why_not_bias(request: Bias) -> str | None:
    spec = request.spec
    if not isinstance(spec, (ALiBi, T5)):
        return f"{type(spec).__name__}, where it knows ALiBi and T5"
    if isinstance(spec, ALiBi) and spec.slopes == "learned":
        return "learned slopes"
    if isinstance(spec, T5) and spec.buckets % 2 and spec.direction == "bidirectional":
        return "an odd number of buckets for two directions"
    if len(request.q.shape) != 1 or len(request.k.shape) != 1:
        return "positions that differ from row to row"
    if dtype_name(request.dtype) == "float16":
        return "float16, to whose range the reference keeps large biases"
    reason = _why_not_dtype(request.dtype) or _why_not_host(request.q) or _why_not_host(request.k)
    for value in request.params.values():
        reason = reason or _why_not_array(value)
        if is_torch(value) and value.requires_grad and sys.modules["torch"].is_grad_enabled():
            reason = reason or "parameters that need a gradient"
    return reason


# --- what it does ---------------------------------------------------------------------------------


def phases(spec: Any) -> Any:
    """The steps of a spec, as the compiled code holds them."""
    if "phases" not in spec.plans:
        spec.plans["phases"] = _native().Phases(spec.arrays["step"], spec.arrays.get("origin"))
    return spec.plans["phases"]


def rotation(spec: Any, *, inverse: bool, transposed: bool) -> Any:
    """What turns channels, made once for each spec and way."""
    key = ("turn", inverse, transposed)
    if key not in spec.plans:
        p = plans.turning(spec, inverse=inverse, transposed=transposed)
        spec.plans[key] = _native().Rotation(
            phases(spec), p.source, p.target, p.part, p.blocks, p.sign, p.factor, p.divide
        )
        if len(spec.axes) == 1 and not transposed:
            spec.plans["direct", inverse] = spec.plans[key]  # what `direct` asks for
    return spec.plans[key]


def sinusoids(spec: Any) -> Any:
    """What makes the rows of a table, made once for each spec."""
    if "rows" not in spec.plans:
        blocks, lone = spec.arrangement.blocks(spec.pairs), spec.odd == "sin_extra"
        factor, pad = spec.magnitude.table(spec.dim), plans.padding(spec)
        spec.plans["rows"] = _native().Sinusoids(
            phases(spec), spec.dim, spec.order, blocks, lone, factor, pad
        )
    return spec.plans["rows"]


def threads() -> int:
    """How many threads torch would use where it is loaded; 0 leaves it to the kernel.

    Arrays of NumPy follow torch as well: one process has one number. torch carries what
    `set_num_threads` said to every thread and to forked children, and OpenMP alone does not.
    """
    ask = getattr(sys.modules.get("torch"), "get_num_threads", None)
    return 0 if ask is None else int(ask())


def placed(where: Where, total: int) -> int | Array:
    """Positions as the compiled code takes them."""
    return _positions.packed(where.ends, total) if isinstance(where, Packed) else where


def _rotated(request: Rotate) -> tuple[Array, ...]:
    if is_torch(request.arrays[0]):
        from posenc.kernels.torch_turn import turned

        return turned(request, "cpu")
    arrays = request.arrays
    results = arrays if request.inplace else tuple(np.empty(x.shape, x.dtype) for x in arrays)
    plan = rotation(request.spec, inverse=request.inverse, transposed=False)
    for x, y, where in zip(arrays, results, request.where, strict=True):
        at = placed(where, x.shape[request.seq_dim])
        plan.turn((x,), (y,), at, request.seq_dim, threads())
    return results


def _added(request: Add) -> Array:
    x = request.x
    if is_torch(x):
        from posenc.kernels.torch_add import added

        return added(request, "cpu")
    result = np.empty(x.shape, x.dtype)
    where = placed(request.where, x.shape[request.seq_dim])
    scale = request.spec.embedding_scale
    sinusoids(request.spec).add(x, result, where, scale, request.seq_dim, threads())
    return result


def _made(shape: tuple[int, ...], dtype: Any, beside: Array) -> Array:
    if is_torch(beside):
        return beside.new_empty(shape, dtype=dtype)
    return np.empty(shape, dtype)


def _cos_sin(request: CosSin) -> tuple[Array, Array]:
    where = request.positions
    shape = (*where.shape[:-1], request.spec.pairs)
    cos, sin = (_made(shape, request.dtype, where) for _ in range(2))
    factor = request.spec.attention_factor
    phases(request.spec).cos_sin(where, cos, sin, factor, False, threads())
    return cos, sin


def _table(request: Table) -> Array:
    where = request.positions
    if isinstance(where, Counted):
        shape = (where.length, request.spec.dim)
        # Where the library puts what it is not told of, the kernel looks for itself.
        rows = request.xp.empty(shape, dtype=request.dtype, device=where.device)
        sinusoids(request.spec).table(rows, 0, threads())
        return rows
    rows = _made((*where.shape[:-1], request.spec.dim), request.dtype, where)
    sinusoids(request.spec).table(rows, where, threads())
    return rows


def _biased(request: Bias) -> Array:
    spec, (first, end) = request.spec, request.heads
    shape = (end - first, request.q.shape[0], request.k.shape[0])
    result = _made(shape, request.dtype, request.q)
    if isinstance(spec, ALiBi):
        slopes = spec.arrays["slopes"][first:end].astype(np.float32)
        _native().alibi(result, request.q, request.k, slopes, spec.form, threads())
        return result
    assert isinstance(spec, T5)  # noqa: S101 - for the type checker
    (weight,) = request.params.values()
    _native().buckets(
        result,
        request.q,
        request.k,
        spec.arrays["thresholds"],
        weight,
        spec.direction,
        threads(),
    )
    return result
