"""Entries and axes of arrays: looked up by arrays of integers, solved for, written over."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from posenc._core.arrays.array import Array, is_jax, is_symbolic, is_torch
from posenc._core.errors import ArgumentError, bad_argument
from posenc._core.tracing import is_compiling


def gather(table: Array, rows: Array, *, xp: Any) -> Array:
    """The rows of a table (n, width) at integers of any shape (...): (..., width)."""
    return xp.reshape(
        xp.take(table, xp.reshape(rows, (-1,)), axis=0), (*rows.shape, table.shape[-1])
    )


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
    # The mesh is named, as arrays carry theirs where none is set.
    own = jax.sharding.NamedSharding(
        jax.typeof(table).sharding.mesh, jax.sharding.PartitionSpec(*found, *given[len(indices) :])
    )
    return table.at[indices].get(out_sharding=own)


def _divisions(x: Array) -> tuple[Any, ...] | None:
    """The axis of an explicit mesh that each axis is divided along; None without such a mesh."""
    sharding = getattr(getattr(x, "aval", None), "sharding", None)
    mesh, spec = getattr(sharding, "mesh", None), getattr(sharding, "spec", None)
    return (
        None
        if spec is None or not getattr(mesh, "_any_axis_explicit", False)
        else (*spec, *(None,) * (len(x.shape) - len(spec)))
    )


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
    taken = xp.take(
        xp.reshape(xp.broadcast_to(x, (*shape, x.shape[-1])), (-1,)),
        xp.reshape(rows * x.shape[-1] + index, (-1,)),
        axis=0,
    )
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
        return sys.modules["torch"].linalg.solve_triangular(
            lower, right, upper=False, unitriangular=True
        )
    if is_jax(lower):
        from jax.scipy.linalg import solve_triangular

        return solve_triangular(lower, right, lower=True, unit_diagonal=True)
    return xp.linalg.solve(lower, right)


# --- writing over an input ------------------------------------------------------------------------


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
        raise bad_argument(
            caller,
            "a NumPy array or torch tensor",
            type(x).__module__.partition(".")[0],
            "Leave `inplace` out; under jit the compiler reuses the memory by itself.",
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
            raise bad_argument(
                f"{caller}: inplace",
                "arrays apart",
                "arrays that share memory",
                "Their common elements would turn twice: copy one of them first.",
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
    placed = not (wrapped or x.is_meta) and x.layout is torch.strided
    return np.asarray(_Span(x)) if placed else None


def _overlapping(caller: str, copy: str) -> ArgumentError:
    return bad_argument(
        caller,
        "memory of its own",
        "windows that overlap",
        f"Their common elements would turn several times: {copy} first.",
    )


def _overlaps_itself(shape: Iterable[Any], strides: Iterable[Any], item: int) -> bool:
    """Whether two elements of a view share memory; strides in the unit of `item`."""
    axes = list(zip(shape, strides, strict=True))
    if any(is_symbolic(number) for axis in axes for number in axis):
        return False
    steps = sorted((abs(step), size) for size, step in axes if size != 1)
    reach, apart, count = item, True, math.prod(size for _, size in steps)
    for step, size in steps:
        apart = apart and step >= reach  # each axis steps over all that is within it
        reach += step * (size - 1)
    if apart or count == 0:
        return False
    if count * item > reach:
        return True
    starts = np.zeros(1, np.int64)
    for step, size in steps:
        starts = (starts[:, None] + step * np.arange(size)).ravel()
    return bool((np.diff(np.sort(starts)) < item).any())
