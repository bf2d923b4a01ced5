"""Rotation of queries and keys in one launch.

A program turns all channels of one token, or of some of its heads. Its cosines and sines live in
registers: no table is read or written, so the launch moves the tensors and nothing else. The
backward pass is the same kernel with the opposite angle. What engines do before and after it can
be done in the same pass: the norm of queries and keys, and the writing of keys to their slots.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from posenc._core.arrays.array_torch import constants
from posenc._core.errors import bad_argument
from posenc.encodings.rotary.base import RotarySpec
from posenc.kernels import plans
from posenc.kernels.requests import Packed, Positions
from posenc.kernels.triton.launch import axes_of, positions_beside, through
from posenc.kernels.triton.phase import cos_sin, position_in_sequence, turns

# Heads of a step, steps of a program (0: those of all heads) and warps, from so many tokens on. A
# program for each token computes its cosines and sines once; few tokens fill a device only where
# several programs share the heads of each. Nobody has tuned these numbers on a GPU.
SHAPES = ((2048, 8, 0, 4), (0, 8, 1, 4))


class Norms(NamedTuple):
    """What divides queries and keys by their root mean square before they are turned."""

    q: Tensor  # (width,) factors of the channels
    k: Tensor
    epsilon: float


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
    axes = axes_of(arrays[0], positions, way.seq_dim)
    shared = [[x.shape[a] for a in axes.before] for x in arrays]
    if any(shape != shared[0] for shape in shared):
        for x, y in zip(arrays, results, strict=True):
            turn(way, (x,), (y,), positions, transposed=transposed)
        return
    places = positions_beside(positions, arrays[0], axes)
    launch = functools.partial(_launch, p, constants(way.spec, arrays[0]), positions, places)
    for i in range(0, len(arrays), 2):
        through(launch, arrays[i : i + 2], results[i : i + 2], axes)


def turn_into(
    spec: RotarySpec,
    q: Tensor,
    k: Tensor,
    keys: Tensor,
    slots: Tensor,
    positions: Tensor,
    norms: Norms | None = None,
) -> None:
    """Turn queries in place, and keys into their slots of a paged cache, in one launch.

    q, k (tokens, heads, channels); keys (slots, heads, channels), as a view of all blocks; slots
    (tokens,), of which those outside of the cache are written nowhere; positions (tokens,), or
    (tokens, axes). Channels are neighbours in memory, and slots differ: tokens of one slot race.
    Raises `ArgumentError` for other shapes and dtypes, for what needs a gradient, and for specs by
    which the kernel does not turn.
    """
    arrays, axes = (q, k, keys), len(spec.axes)
    reason = plans.why_no_pairs(spec) or plans.why_other_order(spec)
    if spec.needs_length:
        reason = reason or "a scaling by the length, where it takes `spec.at(length)`"
    if torch.is_grad_enabled() and any(x.requires_grad for x in arrays):
        reason = reason or "tensors that need a gradient"
    if not (
        all(x.ndim == 3 and x.stride(2) == 1 and x.shape[2] >= spec.dim for x in arrays)
        and q.dtype == k.dtype == keys.dtype
        and k.shape[1:] == keys.shape[1:]
        and len(q) == len(k)
        and not (slots.is_floating_point() or positions.is_floating_point())
        and len({x.device for x in (*arrays, slots, positions)}) == 1
        and slots.shape == (len(q),)
        and positions.shape in ((len(q), axes), (len(q),) if axes == 1 else ())
        and (norms is None or (norms.q.shape, norms.k.shape) == (q.shape[2:], k.shape[2:]))
    ):
        reason = reason or ", ".join(str(tuple(x.shape)) for x in (*arrays, slots, positions))
    if reason:
        raise bad_argument("turn_into", "a spec and tensors as its description has them", reason)
    places, slots = positions.reshape(1, len(q), axes), slots.contiguous()
    if norms is not None:
        norms = Norms(norms.q.contiguous(), norms.k.contiguous(), norms.epsilon)
    launch = functools.partial(_launch, plans.turning(spec, inverse=False), constants(spec, q))
    launch(positions, places, [q[None], k[None]], [q[None], keys[None]], slots, norms)
    torch.autograd.graph.increment_version((q, keys))


def _launch(
    p: plans.Turning,
    on_device: Mapping[str, Tensor],
    positions: Positions,
    places: Tensor | None,
    inputs: list[Tensor],
    outputs: list[Tensor],
    slots: Tensor | None = None,
    norms: Norms | None = None,
) -> None:
    """Turn one or two tensors (n0, n1, heads, channels); an output may be its input.

    Positions are those of any strides beside the rows; or ends, which start the sequences that are
    packed along n1; or neither, and positions count from a start.
    """
    steps, origins = on_device["step"], on_device.get("origin")
    ends = positions.ends if isinstance(positions, Packed) else None
    q, q_out, k, k_out = inputs[0], outputs[0], inputs[-1], outputs[-1]
    n0, n1, _, width = q.shape
    count, pairs = steps.shape
    heads, some, warps = next(row for least, *row in SHAPES if n0 * n1 >= least)
    tiles = [triton.cdiv(x.shape[2], heads) for x in inputs]
    if not n0 * n1 * sum(tiles):
        return
    rest = max(width, k.shape[3]) - 2 * pairs
    leading = p.part == "leading"
    _kernel[n0 * n1, triton.cdiv(sum(tiles), some or sum(tiles))](
        q,
        q_out,
        k,
        k_out,
        steps if places is None else places,
        steps if ends is None else ends,
        steps if slots is None else slots,
        q if norms is None else norms.q,
        q if norms is None else norms.k,
        0.0 if norms is None else norms.epsilon,
        steps,
        steps if origins is None else origins,
        positions if isinstance(positions, int) else 0,
        0 if ends is None else ends.shape[0],
        p.factor,
        float(p.sign),
        n1,
        q.shape[2],
        k.shape[2],
        k_out.shape[1],
        tiles[0],
        sum(tiles),
        *(step for x in (q, q_out, k, k_out) for step in x.stride()[:3]),
        *((0, 0, 0) if places is None else places.stride()),
        width=width,
        k_width=k.shape[3],
        first=0 if leading else width - 2 * pairs,
        k_first=0 if leading else k.shape[3] - 2 * pairs,
        pairs=pairs,
        AXES=count,
        LANES=triton.next_power_of_2(pairs),
        HEADS=heads,
        SOME=some,
        REST=triton.next_power_of_2(rest) if rest else 0,
        INTERLEAVED=p.source == "interleaved",
        WHERE=2 if places is not None else 1 if ends is not None else 0,
        ORIGIN=origins is not None,
        DIVIDE=p.divide,
        INPLACE=q.data_ptr() == q_out.data_ptr(),
        KEYS_INPLACE=k.data_ptr() == k_out.data_ptr(),
        SLOTS=slots is not None,
        NORM=norms is not None,
        num_warps=warps,
        # Contracted products would give other bits than the array engine, and memory is the limit.
        enable_fp_fusion=False,
    )


# A number of 1, or one that 16 divides, would have a program of its own: these change at each call.
@triton.jit(do_not_specialize=["start", "sequences", "n1", "capacity"])
def _kernel(
    q,
    q_out,
    k,
    k_out,
    positions,
    ends,
    slots,
    q_norm,
    k_norm,
    epsilon,
    steps,
    origins,
    start,
    sequences,
    factor,
    sine,
    n1,
    q_heads,
    k_heads,
    capacity,
    q_tiles,
    tiles,
    q0,
    q1,
    qh,
    qo0,
    qo1,
    qoh,
    k0,
    k1,
    kh,
    ko0,
    ko1,
    koh,
    p0,
    p1,
    pa,
    width,
    k_width,
    first,
    k_first,
    pairs,
    AXES: tl.constexpr,
    LANES: tl.constexpr,
    HEADS: tl.constexpr,
    SOME: tl.constexpr,
    REST: tl.constexpr,
    INTERLEAVED: tl.constexpr,
    WHERE: tl.constexpr,
    ORIGIN: tl.constexpr,
    DIVIDE: tl.constexpr,
    INPLACE: tl.constexpr,
    KEYS_INPLACE: tl.constexpr,
    SLOTS: tl.constexpr,
    NORM: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
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
    into = k_out + i0 * ko0 + i1 * ko1
    if SLOTS:
        slot = tl.load(slots + row).to(tl.int64)
        inside = (slot >= 0) & (slot < capacity)
        into = k_out + tl.where(inside, slot, 0) * ko1
        k_heads = tl.where(inside, k_heads, 0)
    begin, end = 0, tiles
    if SOME > 0:
        begin = tl.program_id(1) * SOME
        end = tl.minimum(begin + SOME, tiles)
    for tile in range(begin, tl.minimum(end, q_tiles)):
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
            q_norm,
            epsilon,
            LANES,
            HEADS,
            REST,
            INTERLEAVED,
            INPLACE,
            NORM,
        )
    for tile in range(tl.maximum(begin, q_tiles), end):
        _turn(
            k + i0 * k0 + i1 * k1,
            into,
            (tile - q_tiles) * HEADS,
            k_heads,
            kh,
            koh,
            k_width,
            k_first,
            cos,
            sin,
            pairs,
            k_norm,
            epsilon,
            LANES,
            HEADS,
            REST,
            INTERLEAVED,
            KEYS_INPLACE,
            NORM,
        )


@triton.jit
def _turn(
    x,
    y,
    begin,
    heads,
    x_stride,
    y_stride,
    width,
    first,
    cos,
    sin,
    pairs,
    factors,
    epsilon,
    LANES: tl.constexpr,
    HEADS: tl.constexpr,
    REST: tl.constexpr,
    INTERLEAVED: tl.constexpr,
    INPLACE: tl.constexpr,
    NORM: tl.constexpr,
):
    """Turn the pairs of some heads of one token, and copy the other channels."""
    head = (begin + tl.arange(0, HEADS)).to(tl.int64)[:, None]
    some = head < heads
    x += head * x_stride
    y += head * y_stride
    cos, sin = cos[None, :], sin[None, :]
    lane = tl.arange(0, LANES)[None, :]
    channel = tl.arange(0, 2 * LANES)[None, :]
    if INTERLEAVED:
        # Whole rows are read and written, and taken apart in registers.
        wide = some & (channel < 2 * pairs)
        both = tl.load(x + first + channel, mask=wide, other=0).to(tl.float32)
        a, b = tl.split(tl.reshape(both, (HEADS, LANES, 2)))
    else:
        mask = some & (lane < pairs)
        a = tl.load(x + first + lane, mask=mask, other=0).to(tl.float32)
        b = tl.load(x + first + pairs + lane, mask=mask, other=0).to(tl.float32)
    if REST > 0 and (NORM or not INPLACE):
        other = tl.arange(0, REST)[None, :]
        other = tl.where(other < first, other, other + 2 * pairs)
        outside = some & (other < width)
        rest = tl.load(x + other, mask=outside, other=0)
    if NORM:
        # As models have it: the normal entries are rounded, and so is their product with a factor.
        total = tl.sum(a * a + b * b, axis=1)
        if REST > 0:
            total += tl.sum(rest.to(tl.float32) * rest.to(tl.float32), axis=1)
        size = (1.0 / tl.sqrt_rn(total / width + epsilon))[:, None]
        at_a, at_b = first + lane, first + pairs + lane
        if INTERLEAVED:
            at_a, at_b = first + 2 * lane, first + 2 * lane + 1
        a = _scaled(a * size, factors + at_a, lane < pairs, y)
        b = _scaled(b * size, factors + at_b, lane < pairs, y)
        if REST > 0:
            rest = _scaled(rest.to(tl.float32) * size, factors + other, other < width, y)
    if INTERLEAVED:
        turned = tl.join(a * cos - b * sin, b * cos + a * sin)
        turned = tl.reshape(turned, (HEADS, 2 * LANES))
        tl.store(y + first + channel, turned.to(y.dtype.element_ty), mask=wide)
    else:
        tl.store(y + first + lane, (a * cos - b * sin).to(y.dtype.element_ty), mask=mask)
        tl.store(y + first + pairs + lane, (b * cos + a * sin).to(y.dtype.element_ty), mask=mask)
    if REST > 0 and (NORM or not INPLACE):
        tl.store(y + other, rest.to(y.dtype.element_ty), mask=outside)


@triton.jit
def _scaled(x, factors, mask, like):
    """Entries times factors, each rounded to the dtype that a pointer points at."""
    factor = tl.load(factors, mask=mask, other=0).to(tl.float32)
    rounded = x.to(like.dtype.element_ty).to(tl.float32)
    return (rounded * factor).to(like.dtype.element_ty).to(tl.float32)
