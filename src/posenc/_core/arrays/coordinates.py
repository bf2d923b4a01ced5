"""Numbers of callers as arrays of a library: integers, and real coordinates."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from posenc._core.arrays.array import (
    Array,
    carried,
    concrete,
    dtype_name,
    has_int64,
    is_foreign,
    is_jax,
    is_torch,
    library,
    limits,
    rectangular,
    same_library,
)
from posenc._core.errors import DTypeError, bad_argument, bad_dtype, bad_position
from posenc._core.tracing import is_compiling


def integers(value: Any, *, xp: Any, device: Any = None, caller: str) -> Array:
    """Positions as an array of int64 (int32 in JAX without x64) of the library `xp`."""
    if is_foreign(value):
        return _own_integers(value, xp, device, caller)
    array = _numpy_integers(value, caller)
    low, high = limits(xp)
    if array.size and (int(array.min()) < low or int(array.max()) > high):
        raise bad_position(
            caller,
            f"positions from {low} to {high}",
            f"{array.min()} to {array.max()}",
            "" if has_int64(xp) else "Set jax_enable_x64 for more.",
        )
    return carried(array.astype(np.int64 if has_int64(xp) else np.int32), xp, device)


def on_host(value: Any, caller: str) -> np.ndarray:
    """Integers of any library as an array of NumPy, where their values are known."""
    if is_foreign(value):
        _check_integers(value, caller)
        value = concrete(value)
        if value is None:
            raise bad_argument(caller, "values that are known", "traced ones")
    array: np.ndarray = integers(value, xp=library(np), caller=caller)
    return array


def reals(value: Any, *, xp: Any, device: Any = None, caller: str) -> Array:
    """Positions of a spec that takes real ones: integers as `integers` has them, else floats."""
    own = is_foreign(value)
    if own:
        rectangular(caller, value)
    array = value if own else _plain(value, caller, "numbers")
    name = dtype_name(array.dtype)
    empty = not own and not isinstance(value, np.ndarray) and array.size == 0
    if empty or name.startswith(("int", "uint", "object")):
        return integers(value, xp=xp, device=device, caller=caller)
    if name not in ("float32", "float64"):
        raise bad_dtype(
            caller,
            "integers, float32 or float64",
            name,
            "Form positions in float32 or as integers: half precision merges neighbours.",
        )
    values = concrete(array)
    limit = float(limits(xp)[1] + 1)
    if values is not None and not (np.abs(values) < limit).all():
        raise bad_position(
            caller,
            f"finite positions below {limit:.0f} in size",
            values[~(np.abs(values) < limit)][0],
        )
    return (
        _own_library(value, xp, device, caller)
        if own
        else carried(array if has_int64(xp) else array.astype(np.float32), xp, device)
    )


def _own_library(value: Array, xp: Any, device: Any, caller: str) -> Array:
    same_library(value, xp, caller)
    if is_jax(value) and device is not None:
        return sys.modules["jax"].device_put(value, device)
    return value.to(device=device) if is_torch(value) else value


def _plain(value: Any, caller: str, what: str) -> np.ndarray:
    """What is no array of another library as one of NumPy."""
    if isinstance(value, np.ma.MaskedArray):
        todo = "Give its .filled(…), or the mask to posenc.positions.from_mask."
        raise bad_argument(caller, f"an array of {what}", "a masked one", todo)
    try:
        return np.asarray(value)
    except (ValueError, TypeError, OverflowError) as error:
        raise bad_argument(caller, f"an array of {what}", f"{error}") from None


def _numpy_integers(value: Any, caller: str) -> np.ndarray:
    array = _plain(value, caller, "integers")
    if array.dtype.kind in "fO" and not isinstance(value, (np.ndarray, np.generic)):
        # NumPy makes floats of Python integers on both sides of 2**63, objects of larger ones.
        exact = np.asarray(value, dtype=object)
        if exact.size and all(type(item) is int for item in exact.flat):
            return exact  # the range check names them
    if array.size == 0 and not isinstance(value, (np.ndarray, np.generic)):
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise _refused(
            "text"
            if array.dtype.kind == "U"
            else type(value).__name__  # of what NumPy knows as an object alone
            if array.dtype.kind == "O" and not array.ndim and value is not array
            else array.dtype,
            caller,
        )
    return array


def _check_integers(value: Array, caller: str) -> str:
    """The name of the dtype of an array of another library, which must be of integers."""
    if not (is_torch(value) and value.is_nested):  # a table has rows of any lengths
        rectangular(caller, value)
    name = dtype_name(value.dtype)
    if not name.startswith(("int", "uint")):
        raise _refused(name, caller)
    return name


def _own_integers(value: Array, xp: Any, device: Any, caller: str) -> Array:
    name = _check_integers(value, caller)
    value = _own_library(value, xp, device, caller)
    if name == "uint64" or (name == "uint32" and not has_int64(xp)):
        raise bad_dtype(
            caller,
            "signed positions",
            name,
            "Convert them to a signed dtype yourself; values that do not fit would wrap.",
        )
    if is_torch(value):
        value = value.to(device=device, dtype=xp.int64)
        return value if is_compiling() else value.resolve_neg()
    return xp.astype(value, xp.int64 if has_int64(xp) else xp.int32)


def _refused(dtype: object, caller: str) -> DTypeError:
    return bad_dtype(
        caller,
        "integer positions",
        str(dtype),
        "Keep integers: a float merges neighbouring positions (bfloat16 beyond 256). Fractions "
        "are for posenc.Timestep and posenc.Fourier; interpolation is posenc.scaling.Linear(2)."
        if "float" in str(dtype)
        else "Positions count tokens: use integers.",
    )
