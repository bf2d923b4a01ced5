"""Rows, channels and thresholds looked up with arrays of integers, on any library."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from posenc._core.arrays.array import Array, is_jax, is_torch
from posenc._core.tracing import is_compiling


def gather(table: Array, rows: Array, *, xp: Any) -> Array:
    """The rows of a table (n, width) at integers of any shape (...): (..., width)."""
    taken = xp.take(table, xp.reshape(rows, (-1,)), axis=0)
    return xp.reshape(taken, (*rows.shape, table.shape[-1]))


def lookup(table: Array, *indices: Array, xp: Any) -> Array:
    """`table[i, j, …]` for integers of shapes that broadcast; each index in range."""
    if isinstance(table, np.ndarray) or is_torch(table):
        return table[indices]
    if is_jax(table):
        return _jax_lookup(table, indices, xp)
    number = indices[0]
    for axis in range(1, len(indices)):
        number = number * table.shape[axis] + indices[axis]
    tail = tuple(table.shape[len(indices) :])
    rows = xp.reshape(table, (-1, *tail))
    return xp.reshape(xp.take(rows, xp.reshape(number, (-1,)), axis=0), (*number.shape, *tail))


def _jax_lookup(table: Array, indices: tuple[Array, ...], xp: Any) -> Array:
    """`table[indices]`, and how it is divided where a mesh asks for that to be said.

    What an axis of the table is divided along, the axis of the result is where its index varies.
    """
    given = _divisions(table)
    if given is None:
        return table[indices]
    shape = xp.broadcast_shapes(*(index.shape for index in indices))
    found: list[Any] = [None] * len(shape)
    for index, axis in zip(indices, given, strict=False):
        missing = len(shape) - len(index.shape)
        own = _divisions(index) or (None,) * len(index.shape)
        for place, name in enumerate(own, start=missing):
            found[place] = name if name is not None else found[place]
        wide = [place for place, n in enumerate(index.shape, start=missing) if n != 1]
        # One that varies along several axes, as buckets do, needs the whole axis everywhere.
        if axis is not None and axis not in found and len(wide) == 1:
            found[wide[0]] = axis if shape[wide[0]] == table.shape[given.index(axis)] else None
    jax = sys.modules["jax"]
    spec = jax.sharding.PartitionSpec(*found, *given[len(indices) :])
    # The mesh is named, as arrays carry theirs where none is set.
    own = jax.sharding.NamedSharding(jax.typeof(table).sharding.mesh, spec)
    return table.at[indices].get(out_sharding=own)


def _divisions(x: Array) -> tuple[Any, ...] | None:
    """The axis of an explicit mesh that each axis is divided along; None without such a mesh."""
    sharding = getattr(getattr(x, "aval", None), "sharding", None)
    mesh, spec = getattr(sharding, "mesh", None), getattr(sharding, "spec", None)
    if spec is None or not getattr(mesh, "_any_axis_explicit", False):
        return None
    return (*spec, *(None,) * (len(x.shape) - len(spec)))


def along(x: Array, index: Array, *, xp: Any) -> Array:
    """Entries of the last axis by number: (..., n), (..., m) -> (..., m); the rest broadcasts."""
    if is_torch(x):
        torch, count = sys.modules["torch"], index.shape[-1]
        if not is_compiling() and index.ndim <= x.ndim and index.numel() == count:
            # One row of numbers for all: a step of decoding, in which the general way is slow.
            taken = x.reshape(-1, x.shape[-1]).index_select(1, index.reshape(-1))
            return taken.reshape(*x.shape[:-1], count)
        lead = torch.broadcast_shapes(x.shape[:-1], index.shape[:-1])
        index = index.expand(*lead, count)
        return torch.gather(x.expand(*lead, x.shape[-1]), -1, index)
    if isinstance(x, np.ndarray) or is_jax(x):
        # Lengths that a program leaves open are known to the library alone.
        shape = xp.broadcast_shapes(x.shape[:-1], index.shape[:-1])
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
