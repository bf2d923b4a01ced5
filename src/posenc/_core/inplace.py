"""Writing a result over its input, in the ways that libraries allow it."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from posenc._core.array import is_compiling, is_torch
from posenc._core.errors import ArgumentError, explain

__all__ = ["check_writable", "overwrite"]

Array = Any


def overwrite(x: Array, value: Array, who: str) -> Array:
    """Replace the contents of `x` by `value`, which was computed from it, and return `x`.

    Parameters
    ----------
    x : array
        A NumPy array or torch tensor that may be written to.
    value : array
        As `x`; a linear function of it, so that gradients do not need its old contents.
    who : str
        The name to begin an error with.

    Raises
    ------
    ArgumentError
        If the array cannot be written to, or writing would spoil a gradient.
    """
    check_writable(x, who)
    if is_torch(x):
        # A copy that autograd sees; writing behind its back would give wrong gradients in silence.
        return x.copy_(value)
    x[...] = value
    return x


def check_writable(x: Array, who: str) -> None:
    """Raise `ArgumentError` if an array cannot be written to, or writing would spoil a gradient."""
    who = f"{who}: inplace"
    if isinstance(x, np.ndarray):
        if not x.flags.writeable:
            raise ArgumentError(explain(who, "an array to write to", "a read-only one"))
    elif is_torch(x):
        if not is_compiling():
            _check_torch(x, who)
    else:
        todo = "Leave `inplace` out; under jit the compiler reuses the memory by itself."
        got = type(x).__module__.partition(".")[0]
        raise ArgumentError(explain(who, "a NumPy array or torch tensor", got, todo))


def _check_torch(x: Array, who: str) -> None:
    torch = sys.modules["torch"]
    if any(size > 1 and stride == 0 for size, stride in zip(x.shape, x.stride(), strict=True)):
        todo = "Call .contiguous() first."
        raise ArgumentError(explain(who, "memory of its own", "an expanded view", todo))
    if not (torch.is_grad_enabled() and x.requires_grad):
        return
    base = x._base
    if x.is_leaf or (base is not None and base.is_leaf and base.requires_grad):
        todo = "An optimiser steps from its old value. Leave `inplace` out."
        raise ArgumentError(explain(who, "the result of a computation", "a leaf", todo))
    made = torch._C._autograd._get_creation_meta(x) if base is not None else None
    if made is not None and made != torch._C._autograd.CreationMeta.DEFAULT:
        todo = "Slices can be written in place; chunk, split and unbind give views that cannot."
        raise ArgumentError(explain(who, "a tensor or a slice", "such a view", todo))
