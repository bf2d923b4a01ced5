"""Writing a result over its input, in the ways that libraries allow it."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from posenc._core.array import is_torch
from posenc._core.errors import ArgumentError, explain

__all__ = ["overwrite"]

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
    who = f"{who}: inplace"
    if isinstance(x, np.ndarray):
        if not x.flags.writeable:
            raise ArgumentError(explain(who, "an array to write to", "a read-only one"))
        x[...] = value
        return x
    if not is_torch(x):
        todo = "Leave `inplace` out; under jit the compiler reuses the memory by itself."
        got = type(x).__module__.partition(".")[0]
        raise ArgumentError(explain(who, "a NumPy array or torch tensor", got, todo))
    return _torch(x, value, who)


def _torch(x: Array, value: Array, who: str) -> Array:
    torch = sys.modules["torch"]
    if torch.compiler.is_compiling():
        return x.copy_(value)
    if any(size > 1 and stride == 0 for size, stride in zip(x.shape, x.stride(), strict=True)):
        todo = "Call .contiguous() first."
        raise ArgumentError(explain(who, "memory of its own", "an expanded view", todo))
    if not (torch.is_grad_enabled() and x.requires_grad):
        return x.copy_(value)
    base = x._base
    if x.is_leaf or (base is not None and base.is_leaf and base.requires_grad):
        todo = "An optimiser steps from its old value. Leave `inplace` out."
        raise ArgumentError(explain(who, "the result of a computation", "a leaf", todo))
    try:
        # A copy that autograd sees. A kernel that wrote behind its back would give wrong gradients
        # without a word.
        return x.copy_(value)
    except RuntimeError as error:
        if "view" not in str(error):
            raise
        todo = "Slices can be written in place; chunk, split and unbind give views that cannot."
        raise ArgumentError(explain(who, "a tensor or a slice", "such a view", todo)) from error
