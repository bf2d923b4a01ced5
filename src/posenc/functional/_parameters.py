"""Parameters of learned encodings: the first ones, and those that the verbs are given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from posenc._core.arrays.array import FLOATS, carried, dtype_name, is_array, namespace
from posenc._core.errors import ArgumentError, DTypeError, mismatch, suggest
from posenc._core.spec.spec import Spec
from posenc._core.tracing import compile_time
from posenc.functional.arguments.common import Array, name_of, wrong_shape


@compile_time
def init(spec: Spec, seed: int = 0) -> dict[str, np.ndarray]:
    """The first parameters of a learned encoding.

    The fields of the spec say how they begin. Each parameter draws from a stream of its own, so the
    result depends on the spec and the seed alone.

    Parameters
    ----------
    spec : Spec
        An encoding of any kind.
    seed : int
        At least 0. Two tables of one model, such as those of encoder and decoder, need two seeds.

    Returns
    -------
    dict of numpy.ndarray
        float32 arrays by name; empty for encodings that learn nothing.

    Raises
    ------
    ArgumentError
        If the seed is no integer of at least 0, or `spec` is none.

    Examples
    --------
    >>> import posenc
    >>> posenc.init(posenc.Learned(4, length=8), seed=1)["weight"].shape
    (8, 4)
    >>> posenc.init(posenc.Sinusoidal(4))
    {}
    """
    if not isinstance(spec, Spec):
        raise ArgumentError(mismatch("init", "a spec such as posenc.Learned(...)", name_of(spec)))
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ArgumentError(mismatch("init: seed", "an integer of at least 0", repr(seed)))
    return {
        name: spec.initial(name, np.random.default_rng([place, int(seed)]))
        for place, name in enumerate(spec.parameters())
    }


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
    part = part or {}
    caller = f"{caller}: params"
    if not shapes:
        todo = "Leave them out."
        names = list(params) if isinstance(params, Mapping) else type(params).__name__
        raise ArgumentError(mismatch(caller, "none, as the spec learns nothing", names, todo))
    if not isinstance(params, Mapping):
        expected = f"a dict with {_list(shapes)}"
        todo = "`posenc.init(spec, seed)` makes the first ones."
        received = None if params is None else type(params).__name__
        raise ArgumentError(mismatch(caller, expected, received, todo))
    if set(params) != set(shapes):
        unknown = [name for name in params if name not in shapes]
        todo = suggest(unknown[0], shapes) if unknown else ""
        raise ArgumentError(mismatch(caller, f"the names {sorted(shapes)}", sorted(params), todo))
    return {
        name: _given(
            params[name], shape, part.get(name), xp=xp, device=device, caller=f"{caller}[{name!r}]"
        )
        for name, shape in shapes.items()
    }


def _list(shapes: Mapping[str, tuple[int, ...]]) -> str:
    return ", ".join(f"{name!r} of shape {shape}" for name, shape in shapes.items())


def _given(
    value: Array,
    shape: tuple[int, ...],
    part: tuple[int, ...] | None,
    *,
    xp: Any,
    device: Any,
    caller: str,
) -> Array:
    if not is_array(value):
        raise ArgumentError(mismatch(caller, f"an array of shape {shape}", type(value).__name__))
    if tuple(value.shape) not in (shape, part):
        other = f" or {part}" if part not in (None, shape) else ""
        raise wrong_shape(caller, f"shape {shape}{other}", value)
    if dtype_name(value.dtype) not in FLOATS:
        raise DTypeError(mismatch(caller, " or ".join(FLOATS), dtype_name(value.dtype)))
    own = namespace(value, caller)
    if own is xp:
        return value
    if not isinstance(value, (np.ndarray, np.generic)):
        library, other = (module.__name__.rpartition(".")[2] for module in (xp, own))
        todo = "Convert one of them."
        raise ArgumentError(mismatch(caller, f"an array of {library}, as the input", other, todo))
    if dtype_name(value.dtype) == "bfloat16":
        value = value.astype(np.float32)  # exact; other libraries refuse NumPy's extension dtypes
    return carried(value, xp, device)
