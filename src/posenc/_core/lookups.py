"""Rows, channels and thresholds looked up with arrays of integers, on any library."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from posenc._core.array import is_jax, is_torch

__all__ = ["along", "gather", "lookup", "rank"]

Array = Any


def gather(table: Array, rows: Array, *, xp: Any) -> Array:
    """The rows of a table (n, width) at integers of any shape (...): (..., width)."""
    taken = xp.take(table, xp.reshape(rows, (-1,)), axis=0)
    return xp.reshape(taken, (*rows.shape, table.shape[-1]))


def lookup(table: Array, *indices: Array, xp: Any) -> Array:
    """`table[i, j, …]` for integers of shapes that broadcast; each index in range."""
    if isinstance(table, np.ndarray) or is_torch(table) or is_jax(table):
        return table[indices]
    number = indices[0]
    for axis in range(1, len(indices)):
        number = number * table.shape[axis] + indices[axis]
    tail = tuple(table.shape[len(indices) :])
    rows = xp.reshape(table, (-1, *tail))
    return xp.reshape(xp.take(rows, xp.reshape(number, (-1,)), axis=0), (*number.shape, *tail))


def along(x: Array, index: Array, *, xp: Any) -> Array:
    """Entries of the last axis by number: (..., n), (..., m) -> (..., m); the rest broadcasts."""
    if is_torch(x):
        torch = sys.modules["torch"]
        lead = torch.broadcast_shapes(x.shape[:-1], index.shape[:-1])
        index = index.expand(*lead, index.shape[-1])
        return torch.gather(x.expand(*lead, x.shape[-1]), -1, index)
    if isinstance(x, np.ndarray) or is_jax(x):
        shape = np.broadcast_shapes(x.shape[:-1], index.shape[:-1])
        x = xp.broadcast_to(x, (*shape, x.shape[-1]))
        return xp.take_along_axis(x, xp.broadcast_to(index, (*shape, index.shape[-1])), axis=-1)
    shape = np.broadcast_shapes(x.shape[:-1], index.shape[:-1])
    rows = xp.reshape(xp.arange(math.prod(shape)), shape)[..., None]
    index = xp.broadcast_to(index, (*shape, index.shape[-1]))
    flat = xp.reshape(xp.broadcast_to(x, (*shape, x.shape[-1])), (-1,))
    taken = xp.take(flat, xp.reshape(rows * x.shape[-1] + index, (-1,)), axis=0)
    return xp.reshape(taken, index.shape)


def rank(sorted_values: Array, n: Array, size: int, *, xp: Any) -> Array:
    """How many of `size` = 2**s - 1 rising values are at most n, for each n, by s halvings.

    Values of 2**31 - 1 stand for none, and no n reaches them. Each halving works entry by entry, so
    that it runs inside a fused attention kernel, where `searchsorted` does not exist.
    """
    n = xp.where(n < 2**31 - 2, n, xp.full_like(n, 2**31 - 2))
    count, step = xp.zeros_like(n), (size + 1) // 2
    while step:
        reached = lookup(sorted_values, count + (step - 1), xp=xp) <= n
        count = count + step * xp.astype(reached, count.dtype)
        step //= 2
    return count
