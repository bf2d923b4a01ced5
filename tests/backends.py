"""The array libraries that every case runs on; an absent one is skipped with a reason."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.drawing import drawn, kind


@functools.cache
def _library(module: str) -> Any:
    return pytest.importorskip(module, reason=f"{module} is not installed")


@dataclass(frozen=True)
class Backend:
    """One array library: how to make its arrays and how to read them."""

    name: str
    module: str
    dtypes: tuple[str, ...]

    def xp(self) -> Any:
        """The library, or a skip when it is not installed."""
        return _library(self.module)

    def whole(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """The call; on JAX under `jit`, which costs a tenth of compiling operation by operation."""
        return importlib.import_module("jax").jit(call) if self.name == "jax" else call

    def asarray(self, values: Any, dtype: str | None = None) -> Any:
        """An array of this library with the given values."""
        array = np.asarray(values)
        xp = self.xp()
        if self.name == "jax" and array.dtype == np.int64:
            array = array.astype(np.int32)  # JAX has no int64 by default
        made = xp.array(array) if self.name == "mlx" else xp.asarray(array)
        if dtype is None or dtype == str(array.dtype):
            return made
        if self.name == "torch":
            return made.to(getattr(xp, dtype))
        if self.name == "mlx":
            return made.astype(getattr(xp, dtype))
        return made.astype(dtype) if self.name != "strict" else xp.astype(made, getattr(xp, dtype))

    def numpy(self, array: Any) -> np.ndarray:
        """The values as float64 (integers stay integers)."""
        if self.name == "torch":
            torch = importlib.import_module("torch")
            array = array.detach()
            array = array.to(torch.float64) if array.is_floating_point() else array
            return array.numpy()
        if self.name == "strict":
            array = array._array
        if self.name == "mlx" and array.dtype == self.xp().bfloat16:
            array = array.astype(self.xp().float32)
        array = np.asarray(array)
        return array if array.dtype.kind in "iub" else array.astype(np.float64)

    def dtype_of(self, array: Any) -> str:
        """The name of an array's dtype."""
        return str(array.dtype).rpartition(".")[2]


BACKENDS = (
    Backend("numpy", "numpy", ("float64", "float32", "float16")),
    Backend("strict", "array_api_strict", ("float64", "float32")),
    Backend("torch", "torch", ("float64", "float32", "float16", "bfloat16")),
    Backend("jax", "jax.numpy", ("float32", "float16", "bfloat16")),
)
MLX = Backend("mlx", "mlx.core", ("float32", "float16", "bfloat16"))
SLOW = pytest.mark.slow("_core/arrays")
COMBINATIONS = [(b, d) for b in BACKENDS for d in b.dtypes]

each_backend: Callable[..., Any] = pytest.mark.parametrize(
    "backend", [*(pytest.param(b, id=b.name) for b in BACKENDS),
                pytest.param(MLX, id="mlx", marks=SLOW)],
)  # fmt: skip
# For what broadcasts alike in every library; JAX compiles each operation for each shape.
each_eager_backend: Callable[..., Any] = pytest.mark.parametrize(
    "backend",
    [
        pytest.param(b, id=b.name, marks=SLOW if b.name in ("jax", "mlx") else ())
        for b in (*BACKENDS, MLX)
    ],
)


def _row(backend: Backend, dtype: str) -> Any:
    """JAX compiles each operation for each dtype; float16 is rounded by the code of bfloat16."""
    rare = backend.name == "jax" and dtype == "float16"
    marks = pytest.mark.slow("_core/arrays/array.py") if rare else ()
    return pytest.param(backend, dtype, id=f"{backend.name}-{dtype}", marks=marks)


each_backend_and_dtype: Callable[..., Any] = pytest.mark.parametrize(
    ("backend", "dtype"), [_row(*row) for row in COMBINATIONS]
)


# --- rows on libraries ----------------------------------------------------------------------------


def each_row_and_backend(
    name: str,
    rows: Sequence[Any],
    count: int = 1,
    *subjects: str,
    by: Callable[[Any], Hashable] = kind,
    ids: Callable[[Any], str] = lambda row: row.name,
) -> pytest.MarkDecorator:
    """Every row on every library; on JAX, `count` rows of each group, and the others are slow."""
    marks = [row.marks for row in drawn(rows, count, *subjects, by=by)]
    return pytest.mark.parametrize(
        (name, "backend"),
        [
            pytest.param(
                row,
                backend,
                id=f"{backend.name}-{ids(row)}",
                marks=own if is_jax(backend) else SLOW if backend is MLX else (),
            )
            for backend in (*BACKENDS, MLX)
            for row, own in zip(rows, marks, strict=True)
        ],
    )


def each_row_and_dtypes(
    rows: Sequence[Any], count: int = 1, *, by: Callable[[Any], Hashable] = kind
) -> pytest.MarkDecorator:
    """As above, with the dtypes of the library: one test asks all, as JAX shares what it compiles.

    float16 on JAX is slow, being rounded by the code of bfloat16.
    """
    marks = [row.marks for row in drawn(rows, count, by=by)]
    rare = pytest.mark.slow("_core/arrays/array.py")
    made = []
    for backend in (*BACKENDS, MLX):
        jax = is_jax(backend)
        dtypes = tuple(d for d in backend.dtypes if not (jax and d == "float16"))
        for row, own in zip(rows, marks, strict=True):
            label = f"{backend.name}-{row.name}"
            slow = own if jax else SLOW if backend is MLX else ()
            made.append(pytest.param(row, backend, dtypes, id=label, marks=slow))
            if jax:
                half = pytest.param(row, backend, ("float16",), id=f"{label}-float16", marks=rare)
                made.append(half)
    return pytest.mark.parametrize(("case", "backend", "dtypes"), made)


def is_jax(backend: Backend) -> bool:
    return backend.name == "jax"


def cycled(values: Sequence[Any], length: int = 12) -> tuple[Any, ...]:
    """The values over and over, up to one length for all rows: JAX compiles for each shape."""
    return tuple(values[i % len(values)] for i in range(length))
