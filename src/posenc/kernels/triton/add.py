"""Embeddings plus sinusoids in one launch, without a table in memory.

Each column of a table is the sine of a phase of its own: a cosine begins a quarter of a turn
later, a column of zeros has a step and an origin of 0. So a program needs no layout, only a step
and an origin for each of its columns.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl
from torch import Tensor

from posenc.kernels.triton.phase import cos_sin, turns

REPEATS = 4  # rows of one position per program
COLUMNS = 256
WARPS = 4


class Columns(NamedTuple):
    """The phases of the columns of a table: steps (axes, dim) and origins (dim,), int64.

    `positions` holds (n0, n1, axes) integers of any strides, or is None where they count from
    `start` along n1. The row of the position `pad` is 0.
    """

    steps: Tensor
    origins: Tensor
    positions: Tensor | None
    start: int
    factor: float
    pad: int | None


def add(x: Tensor, result: Tensor, columns: Columns, scale: float) -> None:
    """Write `scale * x + table` for x (n0, n1, repeats, dim) with a contiguous last axis."""
    n0, n1, repeats, dim = x.shape
    positions = columns.positions
    grid = (n0 * n1, triton.cdiv(repeats, REPEATS), triton.cdiv(dim, COLUMNS))
    if not x.numel():
        return
    _kernel[grid](
        x,
        result,
        columns.steps if positions is None else positions,
        columns.steps,
        columns.origins,
        columns.start,
        columns.pad or 0,
        scale,
        columns.factor,
        n1,
        repeats,
        dim,
        *(x.stride()[:3]),
        *(result.stride()[:3]),
        *((0, 0, 0) if positions is None else positions.stride()),
        AXES=columns.steps.shape[0],
        REPEATS=REPEATS,
        COLUMNS=COLUMNS,
        GIVEN=positions is not None,
        PAD=columns.pad is not None,
        num_warps=WARPS,
        # Contracted products would give other bits than the array engine, and memory is the limit.
        enable_fp_fusion=False,
    )


@triton.jit
def _kernel(
    x: Any,
    result: Any,
    positions: Any,
    steps: Any,
    origins: Any,
    start: Any,
    pad: Any,
    scale: Any,
    factor: Any,
    n1: Any,
    repeats: Any,
    dim: Any,
    x0: Any,
    x1: Any,
    xr: Any,
    r0: Any,
    r1: Any,
    rr: Any,
    p0: Any,
    p1: Any,
    pa: Any,
    AXES: tl.constexpr,
    REPEATS: tl.constexpr,
    COLUMNS: tl.constexpr,
    GIVEN: tl.constexpr,
    PAD: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    i0, i1 = row // n1, row % n1
    repeat = (tl.program_id(1) * REPEATS + tl.arange(0, REPEATS)).to(tl.int64)[:, None]
    column = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    mask = column < dim
    if GIVEN:
        here = positions + i0 * p0 + i1 * p1
        first = tl.load(here).to(tl.int64)
        phase = turns(here, pa, steps, origins, column, mask, dim, AXES, True)
    else:
        first = i1 + start
        phase = first * tl.load(steps + column, mask=mask, other=0)
        phase += tl.load(origins + column, mask=mask, other=0)
    _, sin = cos_sin(phase)
    rows = sin * factor
    if PAD:
        rows = tl.where(first == pad, 0.0, rows)
    some = (repeat < repeats) & mask[None, :]
    values = tl.load(x + i0 * x0 + i1 * x1 + repeat * xr + column[None, :], mask=some)
    total = values.to(tl.float32) * scale + rows[None, :]
    place = result + i0 * r0 + i1 * r1 + repeat * rr + column[None, :]
    tl.store(place, total.to(result.dtype.element_ty), mask=some)
