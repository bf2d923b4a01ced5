"""Solutions and the order of axes, on any array library."""

from __future__ import annotations

import sys
from typing import Any

from posenc._core.arrays.array import Array, is_jax, is_torch


def moveaxis(x: Array, source: int, target: int, *, xp: Any) -> Array:
    """The same values with one axis elsewhere; `torch.vmap` has no rule for torch's own."""
    axes = list(range(len(x.shape)))
    axes.insert(target % len(axes), axes.pop(source))
    return xp.permute_dims(x, tuple(axes))


def solved(lower: Array, right: Array, *, xp: Any) -> Array:
    """The x of lower @ x = right, where `lower` has ones on its diagonal and zeros above.

    A row follows from those before it, to the bit where the library has such a solver.
    """
    if is_torch(lower):
        torch = sys.modules["torch"]
        return torch.linalg.solve_triangular(lower, right, upper=False, unitriangular=True)
    if is_jax(lower):
        from jax.scipy.linalg import solve_triangular

        return solve_triangular(lower, right, lower=True, unit_diagonal=True)
    return xp.linalg.solve(lower, right)
