"""Arguments that verbs of all kinds have: spec, library and device, parameters, kernel."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Literal, Protocol, TypeVar

import numpy as np

from posenc._core.arrays.array import (
    FLOATS,
    carried,
    device_of,
    dtype_name,
    is_array,
    is_foreign,
    library,
    namespace,
    same_library,
)
from posenc._core.errors import (
    ArgumentError,
    bad_argument,
    bad_dtype,
    suggest,
)
from posenc._core.spec.spec import Spec
from posenc._core.tracing import is_compiling

Array = Any
Kernel = Literal["auto", "reference", "cpu", "triton"]
DIRECT = ("auto", "cpu")  # kernels whose calls may need no request


class SomeArray(Protocol):
    """An array of any library."""

    @property
    def shape(self) -> Any:
        """Lengths of the axes."""

    @property
    def dtype(self) -> Any:
        """What its numbers are."""


X = TypeVar("X", bound=SomeArray)  # what comes back as an array of the same library

EXAMPLES = {
    "BiasSpec": "a bias such as posenc.ALiBi(heads=8)",
    "RelativeSpec": "a relative encoding such as posenc.Shaw(64, clip=16)",
    "RotarySpec": 'a rotation such as posenc.RoPE(128, pairing="half")',
    "TableSpec": "a table such as posenc.Sinusoidal(512)",
}


def without_request() -> Any:
    """The ways of one token in eager torch, which need no request; None where there is no torch."""
    module = sys.modules.get("posenc.kernels.direct")  # an import statement costs too much
    if module is None and "torch" in sys.modules and not is_compiling():
        from posenc.kernels import direct as module
    return module


def library_of(*candidates: Any) -> Array | None:
    """The first array that is not of NumPy."""
    for value in candidates:
        if value is not None and type(value) is not int and is_foreign(value):
            return value
    return None


def home(positions: Any, params: Any, *, xp: Any, device: Any, caller: str) -> tuple[Any, Any]:
    """The library and device of a result: what was asked for, else where positions are.

    Where those are of NumPy, or no array, parameters of another library decide; else it is NumPy.
    """
    array = library_of(positions)
    if array is None and xp is None and isinstance(params, Mapping):
        array = library_of(*params.values())
    if array is None:
        return library(np if xp is None else xp), device
    return (
        namespace(array, caller) if xp is None else library(xp),
        device_of(array) if device is None else device,
    )


def require(spec: object, kind: type[Spec], verb: str) -> None:
    """Raise unless `spec` is an encoding of the kind that a verb works on."""
    if not isinstance(spec, kind):
        unmade = isinstance(spec, type) and issubclass(spec, Spec)
        todo = f"Construct it first: {name_of(spec)}(...)." if unmade else ""
        todo = todo or "The spec comes first." * hasattr(spec, "shape")
        raise bad_argument(verb, EXAMPLES.get(kind.__name__, kind.__name__), name_of(spec), todo)


def values_of(params: Any) -> tuple[Any, ...]:
    """The parameters of a call, as far as they are any."""
    return tuple(params.values()) if isinstance(params, Mapping) else ()


def wrong_shape(caller: str, expected: str, x: Array, todo: str = "") -> ArgumentError:
    """The error of an array that has another shape."""
    return bad_argument(caller, expected, f"shape {tuple(x.shape)}", todo)


def name_of(spec: object) -> str:
    """The name of a spec for a message."""
    return spec.__name__ if isinstance(spec, type) else type(spec).__name__


def parameters(
    spec: Spec,
    params: Mapping[str, Array] | None,
    *,
    xp: Any,
    device: Any,
    caller: str,
    part: Mapping[str, tuple[int, ...]] | None = None,
) -> dict[str, Array]:
    """The parameters of a spec as arrays of the library `xp`, or an error that says what is wrong.

    NumPy arrays are carried over to any library; others must be of the library already. `part`
    names second shapes that are right as well, such as those of a part of the heads.
    """
    shapes = spec.shapes
    if not shapes and (params is None or (isinstance(params, Mapping) and not params)):
        return {}
    caller = f"{caller}: params"
    if not shapes:
        names = list(params) if isinstance(params, Mapping) else type(params).__name__
        raise bad_argument(caller, "none, as the encoding learns nothing", names, "Leave them out.")
    if not isinstance(params, Mapping):
        raise bad_argument(
            caller,
            "a dict with "
            + ", ".join(f"{name!r} of shape {shape}" for name, shape in shapes.items()),
            None if params is None else type(params).__name__,
            "`posenc.init(spec, seed)` makes initial params.",
        )
    if set(params) != set(shapes):
        unknown = [name for name in params if name not in shapes]
        raise bad_argument(
            caller,
            f"the names {sorted(shapes)}",
            sorted(params),
            suggest(unknown[0], shapes) if unknown else "",
        )
    return {
        name: _given(
            params[name],
            shape,
            (part or {}).get(name),
            xp=xp,
            device=device,
            caller=f"{caller}[{name!r}]",
        )
        for name, shape in shapes.items()
    }


def _given(
    value: Array,
    shape: tuple[int, ...],
    part: tuple[int, ...] | None,
    *,
    xp: Any,
    device: Any,
    caller: str,
) -> Array:
    if isinstance(value, np.generic):  # what indexing and arithmetic make of an array without axes
        value = np.asarray(value)
    if not is_array(value):
        raise bad_argument(caller, f"an array of shape {shape}", type(value).__name__)
    if tuple(value.shape) not in (shape, part):
        other = f" or {part}" if part not in (None, shape) else ""
        raise wrong_shape(caller, f"shape {shape}{other}", value)
    if dtype_name(value.dtype) not in FLOATS:
        raise bad_dtype(caller, " or ".join(FLOATS), dtype_name(value.dtype))
    if not isinstance(value, np.ndarray) or namespace(value, caller) is xp:
        same_library(value, xp, caller)
        return value
    if dtype_name(value.dtype) == "bfloat16":
        value = value.astype(np.float32)  # exact; other libraries refuse NumPy's extension dtypes
    return carried(value, xp, device)
