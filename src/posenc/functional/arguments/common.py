"""Arguments that verbs of all kinds have: the spec, the library and device, the kernel."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Literal, Protocol, TypeVar

import numpy as np

from posenc._core.arrays.array import device_of, is_foreign, library, namespace
from posenc._core.errors import ArgumentError, mismatch
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
        todo = ""
        if isinstance(spec, type) and issubclass(spec, Spec):
            todo = f"Construct it first: {spec.__name__}(...)."
        expected = EXAMPLES.get(kind.__name__, kind.__name__)
        raise ArgumentError(mismatch(verb, expected, name_of(spec), todo))


def values_of(params: Any) -> tuple[Any, ...]:
    """The parameters of a call, as far as they are any."""
    return tuple(params.values()) if isinstance(params, Mapping) else ()


def wrong_shape(caller: str, expected: str, x: Array, todo: str = "") -> ArgumentError:
    """The error of an array that has another shape."""
    return ArgumentError(mismatch(caller, expected, f"shape {tuple(x.shape)}", todo))


def name_of(spec: object) -> str:
    """The name of a spec for a message."""
    return spec.__name__ if isinstance(spec, type) else type(spec).__name__
