"""Embeddings plus sinusoids in one launch, without a table in memory.

Each column of a table is the sine of a phase of its own: a cosine begins a quarter of a turn
later, a column of zeros has a step and an origin of 0. So a program needs no layout, only a step
and an origin for each of its columns.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from posenc.encodings.table.base import TableSpec
from posenc.kernels import plans
from posenc.kernels.requests import Positions
from posenc.kernels.triton.launch import axes_of, positions_beside, through
from posenc.kernels.triton.phase import cos_sin, turns

REPEATS = 4  # rows of one position per program
COLUMNS = 256
WARPS = 4


def add(x: Tensor, result: Tensor, positions: Positions, spec: TableSpec, seq_dim: int) -> None:
    """Write `x` times its factor plus the rows of a table."""
    axes = axes_of(x, positions, seq_dim)
    steps, origins, factor, pad = _columns(spec, x)
    places = positions_beside(positions, x, axes)

    def launch(inputs: list[Tensor], outputs: list[Tensor]) -> None:
        (into,), (out,) = inputs, outputs
        n0, n1, repeats, dim = into.shape
        if not into.numel():
            return
        _kernel[n0 * n1, triton.cdiv(repeats, REPEATS), triton.cdiv(dim, COLUMNS)](
            into,
            out,
            steps if places is None else places,
            steps,
            origins,
            positions if isinstance(positions, int) else 0,
            pad or 0,
            spec.embedding_scale,
            factor,
            n1,
            repeats,
            dim,
            *(into.stride()[:3]),
            *(out.stride()[:3]),
            *((0, 0, 0) if places is None else places.stride()),
            AXES=steps.shape[0],
            REPEATS=REPEATS,
            COLUMNS=COLUMNS,
            GIVEN=places is not None,
            PAD=pad is not None,
            num_warps=WARPS,
            # Contracted products would give other bits than the array engine, and memory is the
            # limit.
            enable_fp_fusion=False,
        )

    through(launch, (x,), (result,), axes)


def _columns(spec: Any, beside: Tensor) -> tuple[Tensor, Tensor, float, int | None]:
    """The phases of the columns: steps (axes, dim) and origins (dim,), int64, on a device.

    With them the factor of the rows, and the position whose row is 0.
    """
    key = ("columns", beside.device)
    if key not in spec.plans:
        step, origin, factor, pad = plans.column_phases(spec)
        on_device = (torch.from_numpy(a.copy()).to(beside.device) for a in (step, origin))
        spec.plans[key] = (*on_device, factor, pad)
    return spec.plans[key]


@triton.jit(do_not_specialize=["start", "pad", "n1"])
def _kernel(
    x,
    result,
    positions,
    steps,
    origins,
    start,
    pad,
    scale,
    factor,
    n1,
    repeats,
    dim,
    x0,
    x1,
    xr,
    r0,
    r1,
    rr,
    p0,
    p1,
    pa,
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
