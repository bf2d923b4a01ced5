"""Arrays of JAX, lent to the compiled kernels as the NumPy arrays that they are in memory.

Only eager arrays of one CPU have memory that can be looked at. What JAX traces, differentiates or
divides between devices stays with the reference.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from posenc._core.arrays.array import Array, is_jax, limits
from posenc.kernels.places import Packed, Sides
from posenc.kernels.requests import Refusal

LINE = 64  # bytes; memory that begins at a multiple of it becomes an array of JAX without a copy
SMALL = 1 << 16  # bytes, of which a copy costs nothing


def why_not(x: Array) -> str | None:
    """Why the memory of an array of JAX is not its contents, or None."""
    jax = sys.modules["jax"]
    if isinstance(x, jax.core.Tracer):
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


def empty(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Memory for a result that JAX can take over."""
    dtype = np.dtype(dtype)
    size = math.prod(shape) * dtype.itemsize
    if size < SMALL:
        return np.empty(shape, dtype)
    memory = np.empty(size + LINE, np.uint8)
    begin = -memory.ctypes.data % LINE
    return memory[begin : begin + size].view(dtype).reshape(shape)
