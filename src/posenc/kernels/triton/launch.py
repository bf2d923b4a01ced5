"""Tensors of any layout as the arrays of four axes that the Triton kernels take."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from torch import Tensor

from posenc.kernels.requests import Packed, Positions


class Axes(NamedTuple):
    """The axes of an array as a kernel takes them: (n0, n1, repeats, channels)."""

    before: tuple[int, ...]  # joined to n0
    place: int  # n1: the sequence
    repeats: tuple[int, ...]  # one at most: positions do not vary along it
    last: int


def axes_of(x: Tensor, positions: Positions, seq_dim: int) -> Axes:
    """The axes of an array beside its positions."""
    place = x.ndim + seq_dim
    others = [a for a in range(x.ndim - 1) if a != place]
    alike = [a for a in others if isinstance(positions, (int, Packed)) or positions.shape[a] == 1]
    repeats = (max(alike, key=lambda a: x.shape[a]),) if alike else ()
    return Axes(tuple(a for a in others if a not in repeats), place, repeats, x.ndim - 1)


def _rows(x: Tensor, axes: Axes) -> Tensor | None:
    """The view of `x` with these axes, where its strides allow one."""
    joined = math.prod(x.shape[a] for a in axes.before)
    repeats = math.prod(x.shape[a] for a in axes.repeats)
    moved = x.permute(*axes.before, axes.place, *axes.repeats, axes.last)
    if x.stride(-1) != 1:
        return None
    try:
        return moved.view(joined, x.shape[axes.place], repeats, x.shape[-1])
    except RuntimeError:
        return None


def through(launch: Any, arrays: Any, results: Any, axes: Axes) -> None:
    """Launch on views, or on copies of what has none: gradients may come with any strides."""
    into = [_rows(x, axes) for x in arrays]
    out = [_rows(y, axes) for y in results]
    if all(view is not None for view in (*into, *out)):
        launch(into, out)
        return
    copies = [y.new_empty(y.shape) for y in results]
    launch([_rows(x.contiguous(), axes) for x in arrays], [_rows(y, axes) for y in copies])
    for y, new in zip(results, copies, strict=True):
        y.copy_(new)


def positions_beside(positions: Positions, x: Tensor, axes: Axes) -> Tensor | None:
    """Positions (n0, n1, axes of a position) beside the rows of `x`."""
    if isinstance(positions, (int, Packed)):
        return None
    kept = [*axes.before, axes.place, axes.last]
    dropped = [a for a in range(x.ndim) if a not in kept]
    moved = positions.permute(*kept, *dropped).flatten(len(kept) - 1)
    moved = moved.expand(*(x.shape[a] for a in kept[:-1]), moved.shape[-1])
    return moved.reshape(-1, x.shape[axes.place], moved.shape[-1])
