"""Arrays on their way to somebody's code and back: libraries, dtypes, and the order of axes."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from posenc._core.arrays.array import dtype_name
from posenc._core.arrays.array_mlx import is_mlx
from posenc._core.errors import DependencyError, bad_argument, mismatch
from posenc._core.spec.spec import Spec

LIBRARIES = ("torch", "numpy", "jax", "mlx")
MODULES = {"jax": "jax.numpy", "mlx": "mlx.core"}  # of array functions, under another name
# Orders of axes, the widest first: b batch, h heads, s sequence, d channels; t is the tokens of all
# rows, f the channels of all heads, 3 queries, keys and values in one.
LAYOUTS = (
    "bhsd", "bshd", "sbhd", "thd", "bsf", "tf", "hsd", "shd", "bsd", "sbd", "td", "sd",
    "bs3hd", "t3hd",
)  # fmt: skip
AXES = {
    "b": "batch", "h": "heads", "s": "seq", "d": "channels",
    "t": "tokens", "f": "heads * channels", "3": "3",
}  # fmt: skip

NO_NAMES = "a tuple. Hand over arrays by their names, such as {'cos': cos, 'sin': sin}"
# What is handed over in place of code, and what is done with it.
NO_CODE: dict[type, str] = {
    Spec: "a spec. Hand over posenc.testing.of_spec(spec)",
    np.ndarray: "an array. posenc.identify(array) looks at numbers, posenc.diff(array, spec) too",
    str: "a text. posenc.testing.load('rope.py:rotate') imports code, as the command does",
}


def laid(x: Any, layout: str) -> Any:
    """(batch, heads, seq, channels) in a layout; axes that it lacks must be 1."""
    letters = _letters(layout)
    order = [c for c in "bh" if c not in letters] + [*letters]
    sizes = dict(zip("bhsd", x.shape, strict=True))
    sizes |= {"t": sizes["b"] * sizes["s"], "f": sizes["h"] * sizes["d"]}
    return _with_axes(x, [*map("bhsd".index, order)]).reshape(
        [sizes[c] for c in layout if c != "3"]
    )


def _letters(layout: str) -> str:
    return layout.replace("t", "bs").replace("f", "hd").replace("3", "")


def _with_axes(x: Any, order: list[int]) -> Any:
    return x.permute(*order) if hasattr(x, "permute") else x.transpose(order)


def unlaid(y: Any, layout: str, shape: tuple[int, ...]) -> Any:
    """The other way round, for an x of shape (batch, heads, seq, channels)."""
    letters = _letters(layout)
    sizes = dict(zip("bhsd", shape, strict=True))
    missing = [c for c in "bhsd" if c not in letters]
    inner = y.reshape([1] * len(missing) + [sizes[c] for c in letters])
    order = "".join(missing) + letters
    return _with_axes(inner, [order.index(c) for c in "bhsd"])


def carried(array: Any, library: str, dtype: str | None = None) -> Any:
    """An array of NumPy as one of a library, never the same memory."""
    array = np.array(array)
    if library == "torch":
        tensor = library_of(library).from_numpy(array)
        return tensor if dtype is None else tensor.to(dtype_in(library, dtype))
    return library_of(library).array(
        array, dtype=None if dtype is None else dtype_in(library, dtype)
    )


def dtype_in(library: str, dtype: str) -> Any:
    """A dtype of a library by its name."""
    home = "ml_dtypes" if (library, dtype) == ("numpy", "bfloat16") else library
    return getattr(library_of(home), dtype)


def library_of(library: str) -> Any:
    """Its module of array functions."""
    try:
        return importlib.import_module(MODULES.get(library, library))
    except ImportError as error:
        raise DependencyError(
            mismatch("ask", f"the library {library}", "none", f"pip install {library}")
        ) from error


def numbers(out: Any) -> np.ndarray:
    """An array of any library in double precision."""
    if hasattr(out, "detach"):
        out = out.detach().to("cpu").resolve_conj()
        out = (out if out.is_complex() else out.double()).numpy()
    elif is_mlx(out) and dtype_name(out.dtype) == "bfloat16":
        out = out.astype(library_of("mlx").float32)  # which NumPy reads, as it does not this dtype
    array = np.asarray(out)
    if array.dtype.kind == "c":
        return array.astype(np.complex128)
    if array.dtype.kind not in "fiu" and dtype_name(array.dtype) not in ("bfloat16", "float16"):
        raise bad_argument("ask", "an array of numbers", str(array.dtype))
    return array.astype(np.float64)


def parts_of(out: Any) -> list[np.ndarray]:
    """What a function returned, as arrays in their order; cosines before sines by their names."""
    return [numbers(part) for part in pieces_of(out)]


def pieces_of(out: Any) -> list[Any]:
    """The same as it came, without what is no array beside those that are."""
    if isinstance(out, Mapping):
        out = tuple(
            out[name]
            for name in sorted(out, key=lambda name: ("sin" in str(name), "k" in str(name)[:1]))
        )
    if isinstance(out, (tuple, list)) and any(hasattr(part, "shape") for part in out):
        return [part for part in out if np.ndim(part)]
    return [] if out is None else [out]


def libraries_of(function: Any) -> list[str]:
    """Libraries in the order in which a function is likely to take their arrays."""
    seen = {name.partition(".")[0].replace("jaxlib", "jax") for name in _named(function, 0, set())}
    loaded = [name for name in LIBRARIES if name == "numpy" or name in sys.modules]
    # Code that imports several mostly computes in the largest, and uses NumPy for constants.
    choice = [name for name in ("torch", "jax", "numpy") if name in seen and name in loaded]
    # JAX compiles each new shape: code that does not name it is not tried with its arrays.
    return list(dict.fromkeys([*choice, *(name for name in loaded if name != "jax")]))


def _named(value: Any, depth: int, seen: set[int]) -> Iterator[str]:
    """Modules that a function and what it calls name."""
    value = getattr(value, "__wrapped__", getattr(value, "_torchdynamo_orig_callable", value))
    yield from (str(getattr(each, "__module__", "")) for each in (value, type(value)))
    yield str(getattr(value, "__name__", ""))  # of a module
    if hasattr(value, "named_buffers") or hasattr(value, "schema"):
        yield "torch"
    method = value if hasattr(value, "__code__") else type(value).__dict__.get("__call__")
    if (code := getattr(method, "__code__", None)) is None or id(code) in seen or depth > 3:
        return
    seen.add(id(code))
    names, around = _names(code), getattr(method, "__globals__", {})
    modules = [m for name in names if isinstance(m := around.get(name), types.ModuleType)]
    own = [vars(m) for m in modules if m.__name__ not in LIBRARIES]
    inner = [scope[name] for scope in (around, *own) for name in names & scope.keys()]
    inner += [
        cell.cell_contents
        for cell in getattr(method, "__closure__", None) or ()
        if cell != types.CellType()
    ]
    for each in (*inner, *getattr(getattr(method, "__self__", None), "__dict__", {}).values()):
        yield from _named(each, depth + 1, seen)


def _names(code: types.CodeType) -> set[str]:
    return {*code.co_names}.union(
        *(_names(each) for each in code.co_consts if isinstance(each, types.CodeType))
    )


def followed(turns: np.ndarray, places: list[int]) -> np.ndarray:
    """What pairs turn by, from turns (places, pairs) since the first of places that double."""
    angles = np.angle(turns[1:])
    speed = angles[0]
    for place, angle in zip(places[2:], angles[1:], strict=True):
        off = np.angle(np.exp(1j * (angle - speed * place)))
        speed = np.where(np.abs(off) < 0.5, speed + off / place, speed)
    return np.asarray(speed)


def one_of_each(turns: np.ndarray) -> slice:
    """One column of each pair, where two are alike for each; else all."""
    half, odd = divmod(turns.shape[-1], 2)
    halves = (np.s_[:half], np.s_[half:]), (np.s_[::2], np.s_[1::2])
    for one, two in halves if half and not odd else ():
        if ((off := turns[..., one] - turns[..., two]) == 0)[np.isfinite(off)].all():
            return one  # NaN in one of the two says nothing of where the others stand
    return slice(None)
