"""What is particular about MLX: no devices, and functions of float64 that are right in float32."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from posenc._core.tracing import is_compiling

NAME = "mlx.core"


def is_mlx(x: object) -> bool:
    """Whether `x` is an array of MLX, without importing it."""
    core = None if is_compiling() else sys.modules.get(NAME)  # Dynamo would guard all modules
    return core is not None and isinstance(x, core.array)


@functools.cache
def namespace() -> Any:
    """MLX, with functions that may be told a device, which is none, and keep float64 of NumPy."""
    core, own = sys.modules[NAME], ModuleType(NAME)
    vars(own).update({name: getattr(core, name) for name in dir(core) if name[:2] != "__"})
    for name in ("arange", "asarray", "eye", "full", "ones", "zeros"):
        vars(own)[name] = functools.partial(_made, getattr(core, name))
    return own


def _made(make: Callable[..., Any], *args: Any, **more: Any) -> Any:
    more.pop("device", None)
    if isinstance(args[0], np.ndarray) and args[0].dtype == np.float64:
        more.setdefault("dtype", sys.modules[NAME].float64)
    return make(*args, **more)
