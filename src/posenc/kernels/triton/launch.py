"""Launches of the Triton kernels: tensors of any layout as the arrays of four axes they take."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from posenc._core.arrays.array_torch import constants
from posenc.encodings.table.base import TableSpec
from posenc.kernels import plans
from posenc.kernels.plans import Way
from posenc.kernels.requests import Packed, Positions
from posenc.kernels.triton import add as triton_add
from posenc.kernels.triton import rotate as triton_rotate


def turn(
    way: Way,
    arrays: tuple[Tensor, ...],
    results: tuple[Tensor, ...],
    positions: Positions,
    *,
    transposed: bool,
) -> None:
    """Turn arrays of one dtype at the same positions: at most two to a launch."""
    p = plans.turning(way.spec, inverse=way.inverse, transposed=transposed)
    on_device = constants(way.spec, arrays[0])
    axes = _axes(arrays[0], positions, way.seq_dim)
    shared = [[x.shape[a] for a in axes.before] for x in arrays]
    if any(shape != shared[0] for shape in shared):
        for x, y in zip(arrays, results, strict=True):
            turn(way, (x,), (y,), positions, transposed=transposed)
        return
    angles = triton_rotate.Angles(
        on_device["step"],
        on_device.get("origin"),
        _positions(positions, arrays[0], axes),
        positions.ends if isinstance(positions, Packed) else None,
        positions if isinstance(positions, int) else 0,
        p.source == "interleaved",
        0 if p.part == "leading" else -1,
        p.factor,
        p.divide,
        float(p.sign),
    )
    for i in range(0, len(arrays), 2):
        pair = slice(i, i + 2)
        _through(
            lambda into, out: triton_rotate.rotate(into, out, angles),
            arrays[pair],
            results[pair],
            axes,
        )


def add(x: Tensor, result: Tensor, positions: Positions, spec: TableSpec, seq_dim: int) -> None:
    """Write `x` times its factor plus the rows of a table."""
    axes = _axes(x, positions, seq_dim)
    steps, origins, factor, pad = _columns(spec, x)
    start = positions if isinstance(positions, int) else 0
    columns = triton_add.Columns(steps, origins, _positions(positions, x, axes), start, factor, pad)
    scale = spec.embedding_scale
    _through(
        lambda into, out: triton_add.add(into[0], out[0], columns, scale), (x,), (result,), axes
    )


def _columns(spec: Any, beside: Tensor) -> tuple[Tensor, Tensor, float, int | None]:
    key = ("columns", beside.device)
    if key not in spec.plans:
        step, origin, factor, pad = plans.column_phases(spec)
        on_device = (torch.from_numpy(a.copy()).to(beside.device) for a in (step, origin))
        spec.plans[key] = (*on_device, factor, pad)
    return spec.plans[key]


class Axes(NamedTuple):
    """The axes of an array as a kernel takes them: (n0, n1, repeats, channels)."""

    before: tuple[int, ...]  # joined to n0
    place: int  # n1: the sequence
    repeats: tuple[int, ...]  # one at most: positions do not vary along it
    last: int


def _axes(x: Tensor, positions: Positions, seq_dim: int) -> Axes:
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


def _through(launch: Any, arrays: Any, results: Any, axes: Axes) -> None:
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


def _positions(positions: Positions, x: Tensor, axes: Axes) -> Tensor | None:
    """Positions (n0, n1, axes of a position) beside the rows of `x`."""
    if isinstance(positions, (int, Packed)):
        return None
    kept = [*axes.before, axes.place, axes.last]
    dropped = [a for a in range(x.ndim) if a not in kept]
    moved = positions.permute(*kept, *dropped).flatten(len(kept) - 1)
    moved = moved.expand(*(x.shape[a] for a in kept[:-1]), moved.shape[-1])
    return moved.reshape(-1, x.shape[axes.place], moved.shape[-1])
