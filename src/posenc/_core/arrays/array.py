"""Every quirk of an array library, in one file. Nothing is imported that nobody handed over.

What the rest of posenc may rely on:

- `namespace` finds the library of an array, under Dynamo too;
- `integers` turns what people pass as positions into an integer array, or refuses it;
- `constants` puts the constants of a spec beside an array, cached per device where that is safe.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

from posenc._core.arrays import array_mlx
from posenc._core.arrays.words import Halves, halves
from posenc._core.errors import bad_argument, bad_dtype
from posenc._core.tracing import is_compiling

Array = Any
FLOATS = ("float64", "float32", "float16", "bfloat16")


# --- which library --------------------------------------------------------------------------------


def is_torch(x: object) -> bool:
    """Whether `x` is a torch tensor, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def is_divided(*values: object) -> bool:
    """Whether one of the values is a DTensor, divided between processes."""
    # Where nobody imported its module there is none; importing it would cost a second.
    kind = getattr(sys.modules.get("torch.distributed.tensor"), "DTensor", None)
    return kind is not None and any(isinstance(value, kind) for value in values)


def undivided(caller: str, *values: object) -> None:
    """Raise for a DTensor, where only the tensors of one process will do."""
    if is_divided(*values):
        raise bad_argument(
            caller,
            "tensors of this process",
            "a DTensor",
            "Call it on local tensors: inside local_map, or on x.to_local().",
        )


def rectangular(caller: str, *values: Array) -> None:
    """Raise for a tensor of torch whose rows have lengths of their own, or which is not dense."""
    for value in filter(is_torch, values):
        if value.is_nested:
            todo = "Pass x.values() with cu_seqlens=x.offsets(), or a padded tensor."
            raise bad_argument(caller, "rows of one length", "a nested tensor", todo)
        if value.layout is not sys.modules["torch"].strided:
            kind = f"a tensor of layout {value.layout}"
            raise bad_argument(caller, "a dense tensor", kind, "Pass its to_dense().")


def is_jax(x: object) -> bool:
    """Whether `x` is a JAX array or tracer, without importing JAX."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(x, jax.Array)


def is_array(x: object) -> bool:
    """Whether `x` is an array rather than a number or a sequence of numbers."""
    if isinstance(x, (int, float, list, tuple)):
        return False  # asking a symbolic number for an attribute stops Dynamo
    return (
        isinstance(x, (np.ndarray, np.generic))
        or is_torch(x)
        or is_jax(x)
        or hasattr(type(x), "__array_namespace__")
    )


def is_foreign(x: object) -> bool:
    """Whether `x` is an array of a library other than NumPy, which results then follow."""
    return is_array(x) and not isinstance(x, (np.ndarray, np.generic))


def is_symbolic(x: object) -> bool:
    """Whether `x` is a number whose value a tracer does not know; it must not become an `int`."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(x, (torch.SymInt, torch.Tensor)):
        return False
    if isinstance(x, torch.SymInt) or torch.compiler.is_compiling():
        return isinstance(x, torch.SymInt)
    # In `torch.jit.trace` the entries of a shape are tensors.
    return torch.jit.is_tracing() and len(x.shape) == 0


def namespace(x: Array, caller: str) -> Any:
    """The array-API namespace of an array."""
    # Dynamo cannot trace the caches of `array_namespace`, so torch is recognised first.
    if is_torch(x):
        import array_api_compat.torch as compat

        return compat
    if isinstance(x, (np.ndarray, np.generic)) and not isinstance(x, np.ma.MaskedArray):
        return _numpy()
    if array_mlx.is_mlx(x):
        return array_mlx.namespace()
    if is_array(x) and not isinstance(x, np.ma.MaskedArray):
        from array_api_compat import array_namespace

        return array_namespace(x)
    raise bad_argument(
        caller, "an array of NumPy, torch, JAX or the array API standard", type(x).__name__
    )


def same_library(x: Array, xp: Any, caller: str) -> None:
    """Raise for what is no array of the library `xp`."""
    own = namespace(x, caller)
    if own is not xp:
        wanted, came = (
            module.__name__.removeprefix("array_api_compat.").partition(".")[0]
            for module in (xp, own)
        )
        todo = "Convert one of them."
        raise bad_argument(caller, f"an array of {wanted}, as the input", came, todo)


def library(xp: Any) -> Any:
    """The array-API namespace for a module from the user, such as `numpy`, `torch`, `jax.numpy`."""
    name = getattr(xp, "__name__", "")
    if name == "torch":
        import array_api_compat.torch as compat

        return compat
    if name == "numpy":
        return _numpy()
    if name == array_mlx.NAME:
        return array_mlx.namespace()
    if name == "jax":
        return xp.numpy
    if not hasattr(xp, "float32"):
        raise bad_argument("xp", "an array module such as numpy, torch, jax.numpy", xp)
    return xp


def _numpy() -> Any:
    # NumPy speaks the standard itself from 2.1 on. The copy that array-api-compat makes of it
    # costs 80 ms, as it imports what NumPy leaves for later.
    if hasattr(np, "cumulative_sum"):
        return np
    import array_api_compat.numpy as compat

    return compat


def has_int64(xp: Any) -> bool:
    """Whether 64-bit integers exist; JAX drops them silently unless told otherwise."""
    if not getattr(xp, "__name__", "").startswith("jax"):
        return True
    return bool(sys.modules["jax"].config.jax_enable_x64)


def has_float64(xp: Any) -> bool:
    """Whether cosines and powers of float64 are as precise."""
    return has_int64(xp) and getattr(xp, "__name__", "") != array_mlx.NAME


def limits(xp: Any) -> tuple[int, int]:
    """The least and the largest position that the integers of the library hold."""
    return (-(2**63), 2**63 - 1) if has_int64(xp) else (-(2**31), 2**31 - 1)


def device_of(x: Array) -> Any:
    """Where new arrays must go to meet `x`; None where the library decides by itself."""
    if is_torch(x):
        return x.device
    if isinstance(x, (np.ndarray, np.generic)) or is_jax(x):
        return None  # JAX moves uncommitted arrays to the committed ones, also under jit
    return getattr(x, "device", None)


def concrete(x: Array) -> np.ndarray | None:
    """The values of an array for a check, or None where they cannot be looked at cheaply.

    Parameters
    ----------
    x : array
        Tracers and fake tensors have no values; looking at those of a GPU would stop it.

    Returns
    -------
    numpy.ndarray or None
        The values.
    """
    if type(x) is np.ndarray:
        return x
    if is_torch(x):
        torch = sys.modules["torch"]
        if torch.compiler.is_compiling() or type(x) is not torch.Tensor or x.device.type != "cpu":
            return None
        if torch._C._functorch.is_functorch_wrapped_tensor(x):
            return None
        with torch._C._DisableFuncTorch():  # jvp would wrap a float that it does not concern
            return x.detach().numpy()
    if is_jax(x):
        return None if isinstance(x, sys.modules["jax"].core.Tracer) else np.asarray(x)
    values = np.asarray(x)
    # What NumPy cannot read becomes one object: an array of ndonnx, which may have no values yet.
    return None if values.dtype.kind == "O" else values


# --- dtypes ---------------------------------------------------------------------------------------


def dtype_name(dtype: Any) -> str:
    """`float32` for NumPy's, torch's and JAX's float32 alike."""
    if isinstance(dtype, np.dtype):
        return dtype.name
    if isinstance(dtype, type) and issubclass(dtype, np.generic):
        return np.dtype(dtype).name
    text = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    return str(text).rpartition(".")[2]


def dtype_named(dtype: Any, xp: Any, caller: str) -> Any:
    """The floating dtype of `xp` that `dtype` (a name or any library's dtype) stands for."""
    name = dtype if isinstance(dtype, str) else dtype_name(dtype)
    if name not in FLOATS:
        raise bad_dtype(f"{caller}: dtype", " or ".join(FLOATS), name)
    if name == "float64" and not has_float64(xp):
        why, todo = "JAX runs without x64", "Set jax_enable_x64, or ask for float32."
        if has_int64(xp):
            why, todo = "MLX takes sines of float64 in float32", "Ask for float32."
        raise bad_dtype(f"{caller}: dtype", f"float32, as {why}", name, todo)
    native = getattr(xp, name, None)
    if native is None and getattr(xp, "__name__", "").endswith("numpy") and name in FLOATS:
        native = _numpy_dtype(name, caller)
    if native is None:
        raise bad_dtype(f"{caller}: dtype", f"a dtype of {xp.__name__}", name)
    return native


def _numpy_dtype(name: str, caller: str) -> Any:
    try:
        return np.dtype(name)  # bfloat16 is known once ml_dtypes is imported
    except TypeError:
        raise bad_dtype(
            f"{caller}: dtype",
            "a dtype that NumPy knows",
            name,
            "Give positions as a tensor, import ml_dtypes, or ask for float32.",
        ) from None


def result_dtype(x: Array, caller: str) -> Any:
    """The dtype of `x`, which must be floating, as the result keeps it."""
    rectangular(caller, x)
    name = dtype_name(x.dtype)
    floats = FLOATS[array_mlx.is_mlx(x) :]
    if name not in floats:
        raise bad_dtype(
            caller, f"an array of {' or '.join(floats)}", name,
            "Convert it to a floating dtype first.",
        )  # fmt: skip
    return x.dtype


def compute_dtype(dtype: Any, xp: Any) -> Any:
    """float64 for float64, else float32: angles and sums never exist in half precision."""
    return xp.float64 if dtype_name(dtype) == "float64" else xp.float32


def widest(x: Array, dtype: Any, xp: Any) -> Any:
    """float64 where the library and the device of `x` have it, for short sums; else `dtype`."""
    return xp.float64 if has_float64(xp) and not (is_torch(x) and x.device.type == "mps") else dtype


def astype(x: Array, dtype: Any, xp: Any) -> Array:
    """`x` in another dtype; NumPy's extension dtypes (bfloat16) are not known to `xp.astype`."""
    if x.dtype == dtype:
        return x
    if is_torch(x):
        return x.to(dtype)
    return x.astype(dtype) if hasattr(x, "astype") else xp.astype(x, dtype)


def product(a: Array, b: Array, *, xp: Any) -> Array:
    """The matrix product in the dtype of the arrays, under autocast too."""
    if is_torch(a):
        torch = sys.modules["torch"]
        # Leaving autocast costs more than a small product does, and the meta device, for one, knows
        # none that could be left.
        left = is_compiling() or torch._C._is_any_autocast_enabled()
        if not left or not torch.amp.is_autocast_available(a.device.type):
            return torch.matmul(a, b)
        with torch.autocast(a.device.type, enabled=False):
            return torch.matmul(a, b)
    return xp.matmul(a, b)


def summed(terms: Iterable[Array]) -> Array:
    """The sum of arrays, one after the other."""
    return functools.reduce(operator.add, terms)


def marked(x: Array, mask: Array, mark: float, *, xp: Any) -> Array:
    """The same values with NaN or an infinity where a condition holds."""
    # An array of NaN would raise under `jax_debug_nans` where nothing is marked.
    return xp.where(mask, mark if is_jax(x) else xp.full_like(x, mark), x)


def clipped(x: Array, low: int, high: int, *, xp: Any) -> Array:
    """The same integers, none below `low` or above `high`."""
    if is_torch(x):
        return x.clamp(low, high)
    x = xp.where(x < low, xp.full_like(x, low), x)
    return xp.where(x > high, xp.full_like(x, high), x)


def interleaved(a: Array, b: Array, *, xp: Any) -> Array:
    """Entries of two arrays in turn: twice (..., n) -> (..., 2 n)."""
    both = xp.stack([a, b], axis=-1)
    return xp.reshape(both, (*both.shape[:-2], 2 * both.shape[-2]))


def within(number: Array, count: int, *, xp: Any) -> tuple[Array, Array]:
    """Integers from 0 to `count` - 1, with 0 for all others, and where these are."""
    outside = (number < 0) | (number >= count)
    return xp.where(outside, xp.zeros_like(number), number), outside


def fixed(x: Array) -> Array:
    """The same values without a gradient."""
    if is_torch(x):
        return x.detach()
    return sys.modules["jax"].lax.stop_gradient(x) if is_jax(x) else x


# --- positions ------------------------------------------------------------------------------------


def arange(length: int, *, xp: Any, device: Any = None) -> Array:
    """0, 1, … as the widest integers of the library."""
    dtype = xp.int64 if has_int64(xp) else xp.int32
    if device is None:
        return xp.arange(length, dtype=dtype)  # not every library has such a keyword
    return xp.arange(length, dtype=dtype, device=device)


# --- constants ------------------------------------------------------------------------------------


def carried(array: np.ndarray, xp: Any, device: Any) -> Array:
    """A NumPy array as one of the library `xp`."""
    if xp.__name__.endswith("numpy") and not xp.__name__.startswith("jax"):
        return array if device is None else np.asarray(array, device=device)
    if not is_compiling():  # Dynamo knows no dtype of NumPy's, nor an order of bytes
        array = array.astype(array.dtype.newbyteorder("="), copy=False)
    return xp.asarray(array, device=device) if device is not None else xp.asarray(array)


def constants(spec: Any, beside: Array, *, xp: Any) -> dict[str, Array | Halves]:
    """The constants of a spec as arrays of the library `xp`, on the device of the array `beside`.

    int64 constants are 64-bit patterns; they become `Halves` where there are no 64-bit integers.
    """
    if is_torch(beside):
        from posenc._core.arrays.array_torch import constants as torch_constants

        return torch_constants(spec, beside)
    if isinstance(beside, (np.ndarray, np.generic)):
        return spec.arrays
    device = device_of(beside)
    return {key: _carry(value, xp, device) for key, value in spec.arrays.items()}


def _carry(value: np.ndarray, xp: Any, device: Any) -> Array | Halves:
    if value.dtype == np.int64 and not has_int64(xp):
        words = halves(value)
        return Halves(xp.asarray(words.high), xp.asarray(words.low))
    return carried(value, xp, device)
