"""Rotation of queries and keys in one launch.

A program turns all channels of some heads of one token. Its cosines and sines live in registers: no
table is read or written, so the launch moves the tensors and nothing else. The backward pass is the
same kernel with the opposite angle.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl
from torch import Tensor

from posenc._core.arrays.array_torch import constants
from posenc.kernels import plans
from posenc.kernels.requests import Packed, Positions
from posenc.kernels.triton.launch import axes_of, positions_beside, through
from posenc.kernels.triton.phase import cos_sin, position_in_sequence, turns

HEADS = 8  # per program
WARPS = 4


def turn(
    way: plans.Way,
    arrays: tuple[Tensor, ...],
    results: tuple[Tensor, ...],
    positions: Positions,
    *,
    transposed: bool,
) -> None:
    """Turn arrays of one dtype at the same positions: at most two to a launch."""
    p = plans.turning(way.spec, inverse=way.inverse, transposed=transposed)
    on_device = constants(way.spec, arrays[0])
    axes = axes_of(arrays[0], positions, way.seq_dim)
    shared = [[x.shape[a] for a in axes.before] for x in arrays]
    if any(shape != shared[0] for shape in shared):
        for x, y in zip(arrays, results, strict=True):
            turn(way, (x,), (y,), positions, transposed=transposed)
        return
    steps, origins = on_device["step"], on_device.get("origin")
    # Positions of any strides; or ends, which start the sequences that are packed along n1; or
    # neither, and positions count from a start.
    places = positions_beside(positions, arrays[0], axes)
    ends = positions.ends if isinstance(positions, Packed) else None

    def launch(inputs: list[Tensor], outputs: list[Tensor]) -> None:
        """Turn one or two tensors (n0, n1, heads, channels); an output may be its input."""
        q, q_out, k, k_out = inputs[0], outputs[0], inputs[-1], outputs[-1]
        n0, n1, _, width = q.shape
        count, pairs = steps.shape
        tiles = [triton.cdiv(x.shape[2], HEADS) for x in inputs]
        if not n0 * n1 * sum(tiles):
            return
        rest = max(width, k.shape[3]) - 2 * pairs
        leading = p.part == "leading"
        _kernel[n0 * n1, sum(tiles)](
            q,
            q_out,
            k,
            k_out,
            steps if places is None else places,
            steps if ends is None else ends,
            steps,
            steps if origins is None else origins,
            positions if isinstance(positions, int) else 0,
            0 if ends is None else ends.shape[0],
            p.factor,
            float(p.sign),
            n1,
            q.shape[2],
            k.shape[2],
            tiles[0],
            *(step for x in (q, q_out, k, k_out) for step in x.stride()[:3]),
            *((0, 0, 0) if places is None else places.stride()),
            width=width,
            k_width=k.shape[3],
            first=0 if leading else width - 2 * pairs,
            k_first=0 if leading else k.shape[3] - 2 * pairs,
            pairs=pairs,
            AXES=count,
            LANES=triton.next_power_of_2(pairs),
            HEADS=HEADS,
            REST=triton.next_power_of_2(rest) if rest else 0,
            INTERLEAVED=p.source == "interleaved",
            WHERE=2 if places is not None else 1 if ends is not None else 0,
            ORIGIN=origins is not None,
            DIVIDE=p.divide,
            INPLACE=q.data_ptr() == q_out.data_ptr(),
            num_warps=WARPS,
            # Contracted products would give other bits than the array engine, and memory is the
            # limit.
            enable_fp_fusion=False,
        )

    for i in range(0, len(arrays), 2):
        through(launch, arrays[i : i + 2], results[i : i + 2], axes)


@triton.jit
def _kernel(
    q: Any,
    q_out: Any,
    k: Any,
    k_out: Any,
    positions: Any,
    ends: Any,
    steps: Any,
    origins: Any,
    start: Any,
    sequences: Any,
    factor: Any,
    sine: Any,
    n1: Any,
    q_heads: Any,
    k_heads: Any,
    q_tiles: Any,
    q0: Any,
    q1: Any,
    qh: Any,
    qo0: Any,
    qo1: Any,
    qoh: Any,
    k0: Any,
    k1: Any,
    kh: Any,
    ko0: Any,
    ko1: Any,
    koh: Any,
    p0: Any,
    p1: Any,
    pa: Any,
    width: Any,
    k_width: Any,
    first: Any,
    k_first: Any,
    pairs: Any,
    AXES: tl.constexpr,
    LANES: tl.constexpr,
    HEADS: tl.constexpr,
    REST: tl.constexpr,
    INTERLEAVED: tl.constexpr,
    WHERE: tl.constexpr,
    ORIGIN: tl.constexpr,
    DIVIDE: tl.constexpr,
    INPLACE: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    tile = tl.program_id(1)
    i0, i1 = row // n1, row % n1
    lane = tl.arange(0, LANES)
    mask = lane < pairs
    if WHERE == 2:
        here = positions + i0 * p0 + i1 * p1
        phase = turns(here, pa, steps, origins, lane, mask, pairs, AXES, ORIGIN)
    else:
        position = i1 + start
        if WHERE == 1:
            position = position_in_sequence(i1, ends, sequences)
        phase = position * tl.load(steps + lane, mask=mask, other=0)
        if ORIGIN:
            phase += tl.load(origins + lane, mask=mask, other=0)
    cos, sin = cos_sin(phase)
    sin *= sine
    if DIVIDE:
        cos, sin = tl.div_rn(cos, factor), tl.div_rn(sin, factor)
    else:
        cos, sin = cos * factor, sin * factor
    if tile < q_tiles:
        _turn(
            q + i0 * q0 + i1 * q1,
            q_out + i0 * qo0 + i1 * qo1,
            tile * HEADS,
            q_heads,
            qh,
            qoh,
            width,
            first,
            cos,
            sin,
            pairs,
            LANES,
            HEADS,
            REST,
            INTERLEAVED,
            INPLACE,
        )
    else:
        _turn(
            k + i0 * k0 + i1 * k1,
            k_out + i0 * ko0 + i1 * ko1,
            (tile - q_tiles) * HEADS,
            k_heads,
            kh,
            koh,
            k_width,
            k_first,
            cos,
            sin,
            pairs,
            LANES,
            HEADS,
            REST,
            INTERLEAVED,
            INPLACE,
        )


@triton.jit
def _turn(
    x: Any,
    y: Any,
    begin: Any,
    heads: Any,
    x_stride: Any,
    y_stride: Any,
    width: Any,
    first: Any,
    cos: Any,
    sin: Any,
    pairs: Any,
    LANES: tl.constexpr,
    HEADS: tl.constexpr,
    REST: tl.constexpr,
    INTERLEAVED: tl.constexpr,
    INPLACE: tl.constexpr,
):
    """Turn the pairs of some heads of one token, and copy the other channels."""
    head = (begin + tl.arange(0, HEADS)).to(tl.int64)[:, None]
    some = head < heads
    x += head * x_stride
    y += head * y_stride
    cos, sin = cos[None, :], sin[None, :]
    if INTERLEAVED:
        # Whole rows are read and written, and taken apart in registers.
        channel = tl.arange(0, 2 * LANES)[None, :]
        mask = some & (channel < 2 * pairs)
        both = tl.load(x + first + channel, mask=mask, other=0).to(tl.float32)
        a, b = tl.split(tl.reshape(both, (HEADS, LANES, 2)))
        turned = tl.join(a * cos - b * sin, b * cos + a * sin)
        turned = tl.reshape(turned, (HEADS, 2 * LANES))
        tl.store(y + first + channel, turned.to(y.dtype.element_ty), mask=mask)
    else:
        lane = tl.arange(0, LANES)[None, :]
        mask = some & (lane < pairs)
        a = tl.load(x + first + lane, mask=mask, other=0).to(tl.float32)
        b = tl.load(x + first + pairs + lane, mask=mask, other=0).to(tl.float32)
        tl.store(y + first + lane, (a * cos - b * sin).to(y.dtype.element_ty), mask=mask)
        tl.store(y + first + pairs + lane, (b * cos + a * sin).to(y.dtype.element_ty), mask=mask)
    if REST > 0 and not INPLACE:
        rest = tl.arange(0, REST)[None, :]
        rest = tl.where(rest < first, rest, rest + 2 * pairs)
        mask = some & (rest < width)
        tl.store(y + rest, tl.load(x + rest, mask=mask), mask=mask)
