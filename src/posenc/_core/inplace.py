"""Writing a result over its input, in the ways that libraries allow it."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from posenc._core.array import is_torch
from posenc._core.errors import ArgumentError, explain

__all__ = ["overwrite"]

Array = Any


def overwrite(
    x: Array, forward: Callable[[Array], Array], backward: Callable[[Array], Array], who: str
) -> Array:
    """Replace the contents of `x` by `forward(x)` and return `x`.

    Parameters
    ----------
    x : array
        A NumPy array or torch tensor that may be written to.
    forward : callable
        A linear map that keeps shape and dtype.
    backward : callable
        Its transpose, for gradients.
    who : str
        The name to begin an error with.

    Raises
    ------
    ArgumentError
        If the array cannot be written to, or writing would spoil a gradient.
    """
    if isinstance(x, np.ndarray):
        if not x.flags.writeable:
            raise ArgumentError(explain(f"{who}: inplace", "an array to write to", "a read-only one"))
        x[...] = forward(x)
        return x
    if not is_torch(x):
        todo = "Leave `inplace` out; under jit the compiler reuses the memory by itself."
        want = "a NumPy array or torch tensor"
        raise ArgumentError(explain(f"{who}: inplace", want, type(x).__module__, todo))
    torch = sys.modules["torch"]
    if any(size > 1 and stride == 0 for size, stride in zip(x.shape, x.stride(), strict=True)):
        todo = "Call .contiguous() first."
        raise ArgumentError(explain(f"{who}: inplace", "memory of its own", "an expanded view", todo))
    if not (torch.is_grad_enabled() and x.requires_grad):
        return x.copy_(forward(x))
    if x.is_leaf:
        todo = "Its old value is what an optimiser would step from. Leave `inplace` out."
        raise ArgumentError(explain(f"{who}: inplace", "the result of a computation", "a leaf", todo))
    try:
        return _function().apply(x, forward, backward)
    except RuntimeError as error:
        if "view" not in str(error):
            raise
        todo = "Slices can be written in place; chunk, split and unbind give views that cannot."
        raise ArgumentError(explain(f"{who}: inplace", "a tensor or a slice", "such a view", todo)) from error


@functools.cache
def _function() -> Any:
    torch = sys.modules["torch"]

    class Overwrite(torch.autograd.Function):  # type: ignore[misc,name-defined]
        """A linear map in place: autograd learns that `x` changed, and how to go back."""

        @staticmethod
        def forward(ctx: Any, x: Any, forward: Any, backward: Any) -> Any:
            ctx.back = backward
            ctx.mark_dirty(x)
            return x.copy_(forward(x))

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return ctx.back(grad), None, None

    return Overwrite
