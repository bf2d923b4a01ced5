"""Writing a result over its input, in the ways that libraries allow it."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from posenc._core.arrays.array import Array, is_symbolic, is_torch
from posenc._core.errors import ArgumentError, bad_argument, mismatch
from posenc._core.tracing import is_compiling


def overwrite(x: Array, value: Array, caller: str) -> Array:
    """Replace the contents of `x` by `value`, which was computed from it, and return `x`."""
    check_writable(x, caller)
    if is_torch(x):
        # A copy that autograd sees; writing behind its back would give wrong gradients in silence.
        return x.copy_(value)
    x[...] = value
    return x


def check_writable(x: Array, caller: str) -> None:
    """Raise `ArgumentError` if an array cannot be written to, or writing would spoil a gradient."""
    caller = f"{caller}: inplace"
    if isinstance(x, np.ndarray):
        if not x.flags.writeable:
            raise bad_argument(caller, "an array to write to", "a read-only one")
        if not x.flags.forc and _overlaps_itself(x.shape, x.strides, x.itemsize):
            raise _overlapping(caller, ".copy()")
    elif is_torch(x):
        if not is_compiling():
            _check_torch(x, caller)
    else:
        todo = "Leave `inplace` out; under jit the compiler reuses the memory by itself."
        raise bad_argument(
            caller, "a NumPy array or torch tensor", type(x).__module__.partition(".")[0], todo
        )


def _check_torch(x: Array, caller: str) -> None:
    torch = sys.modules["torch"]
    if any(size > 1 and stride == 0 for size, stride in zip(x.shape, x.stride(), strict=True)):
        raise bad_argument(
            caller, "memory of its own", "an expanded view", "Call .contiguous() first."
        )
    if not x.is_contiguous() and _overlaps_itself(x.shape, x.stride(), 1):
        raise _overlapping(caller, ".clone()")
    if not (torch.is_grad_enabled() and x.requires_grad):
        return
    base = x._base
    if x.is_leaf or (base is not None and base.is_leaf and base.requires_grad):
        todo = "An optimiser steps from its old value. Leave `inplace` out."
        raise bad_argument(caller, "the result of a computation", "a leaf", todo)
    origin = torch._C._autograd._get_creation_meta(x) if base is not None else None
    if origin is not None and origin != torch._C._autograd.CreationMeta.DEFAULT:
        todo = "Slices can be written in place; chunk, split and unbind give views that cannot."
        raise bad_argument(caller, "a tensor or a slice", "such a view", todo)


def check_apart(arrays: Sequence[Array], caller: str) -> None:
    """Raise `ArgumentError` if two arrays that are to be written to have an element in common."""
    if is_compiling():
        return
    memories = [memory for x in arrays if (memory := _memory(x)) is not None]
    for x, y in itertools.combinations(memories, 2):
        try:
            shared = np.shares_memory(x, y, 10**6)  # type: ignore[arg-type] # the stubs know -1 and 0
        except np.exceptions.TooHardError:
            shared = True  # no view that slices and transposes make
        if shared:
            todo = "Their common elements would turn twice: copy one of them first."
            raise bad_argument(
                f"{caller}: inplace", "arrays apart", "arrays that share memory", todo
            )


class _Span:
    """The place of a tensor in memory, in the words of NumPy, which reads nothing there."""

    def __init__(self, x: Any) -> None:
        item = x.element_size()
        self.__array_interface__ = {
            "version": 3,
            "data": (x.data_ptr(), False),
            "shape": tuple(x.shape),
            "strides": tuple(step * item for step in x.stride()),
            "typestr": f"|V{item}",
        }


def _memory(x: Array) -> np.ndarray | None:
    """An array of NumPy where `x` is, for what has memory; its contents are not to be touched."""
    if isinstance(x, np.ndarray):
        return x
    torch = sys.modules.get("torch")
    if torch is None or type(x) not in (torch.Tensor, torch.nn.Parameter) or not x.numel():
        return None
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor(x)
    if wrapped or x.is_meta or x.layout is not torch.strided:
        return None
    return np.asarray(_Span(x))


def _overlapping(caller: str, copy: str) -> ArgumentError:
    todo = f"Their common elements would turn several times: {copy} first."
    return ArgumentError(mismatch(caller, "memory of its own", "windows that overlap", todo))


def _overlaps_itself(shape: Iterable[Any], strides: Iterable[Any], item: int) -> bool:
    """Whether two elements of a view share memory; strides in the unit of `item`."""
    axes = list(zip(shape, strides, strict=True))
    if any(is_symbolic(number) for axis in axes for number in axis):
        return False
    steps = sorted((abs(step), size) for size, step in axes if size != 1)
    reach = item
    apart = True
    for step, size in steps:
        if size == 0:
            return False
        apart = apart and step >= reach  # each axis steps over all that is within it
        reach += step * (size - 1)
    if apart:
        return False
    count = math.prod(size for _, size in steps)
    if count * item > reach:
        return True
    starts = np.zeros(1, np.int64)
    for step, size in steps:
        starts = (starts[:, None] + step * np.arange(size)).ravel()
    return bool((np.diff(np.sort(starts)) < item).any())
