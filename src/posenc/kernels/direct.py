"""One token in eager torch: the way from a call to the compiled kernel with nothing in between.

A step of decoding turns a few thousand numbers in two microseconds. Checks, requests and choices of
the usual way cost ten times that, so this one leaves them out: it takes a call only where all of it
is plain, and where the usual way has made a plan for the spec before. What the compiled code
refuses goes the usual way too, which finds the words for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import array_api_compat.torch as compat
import torch
from torch import Tensor

from posenc._core.arrays.array_torch import constants
from posenc.encodings.relative.base import Places
from posenc.kernels.plans import FAR
from posenc.kernels.torch.state import NARROW, PLAIN, followed

_version = torch.autograd.graph.increment_version
_int64, _strided = torch.int64, torch.strided
REFUSALS = (ValueError, TypeError, BufferError)  # of the compiled code, with nothing written


def _plain(x: Any, grad: bool) -> bool:
    """Whether the memory of an array is its contents, and nobody wants a gradient."""
    if type(x) not in PLAIN or x.layout is not _strided or x.is_nested:
        return False
    return x.is_cpu and not (grad and x.requires_grad) and not x.is_neg()


def _are_places(positions: Any, x: Tensor, seq_dim: int) -> bool:
    """Whether positions are those of rows of a batch, or one row for all."""
    if type(positions) is not Tensor or positions.dtype is not _int64:
        return False
    if positions.layout is not _strided or positions.is_nested or positions.is_neg():
        return False
    shape, whole = positions.shape, x.shape
    fits = len(shape) == 1 or (len(shape) == 2 and len(whole) == 4)
    return fits and -len(whole) <= seq_dim < -1 and shape[-1] == whole[seq_dim]


def rotated(
    spec: Any,
    inputs: Sequence[tuple[Any, Any]],
    positions: Any,
    offset: Any,
    seq_dim: int,
    inverse: bool,
    inplace: bool,
) -> tuple[Tensor, ...] | None:
    """The inputs turned, or None where it must be looked at more closely."""
    if torch.compiler.is_compiling():
        return None
    try:
        plan = spec.plans["direct", inverse]
    except (AttributeError, KeyError):
        return None
    if followed() or type(seq_dim) is not int or type(inplace) is not bool:
        return None
    grad = torch.is_grad_enabled()
    arrays = []
    for x, role in inputs:
        if not _plain(x, grad):
            return None
        if role != "query" and role != "key":  # noqa: PLR1714 - a tuple costs more
            return None
        arrays.append(x)
    first: Any = 0
    if positions is not None:
        if offset is not None or not _are_places(positions, x, seq_dim):
            return None
        first = positions
    elif offset is not None:
        if type(offset) is not int or not -(2**62) < offset < 2**62:
            return None
        first = offset
    if len(arrays) > 1:
        try:
            tokens = x.size(seq_dim)
            for other in arrays[:-1]:
                if other.size(seq_dim) != tokens:
                    return None
        except IndexError:
            return None
    tensors = tuple(arrays)
    results = tensors if inplace else tuple([torch.empty_like(x) for x in arrays])
    try:
        plan.turn(tensors, results, first, seq_dim, torch.get_num_threads())
    except REFUSALS:
        return None
    if inplace:
        _version(tensors)
    return results


def moved(spec: Any, target: Any, k: Any, old: Any, new: Any, seq_dim: Any) -> Tensor | None:
    """Keys where they shall stand, or None where it must be looked at more closely."""
    if torch.compiler.is_compiling():
        return None
    try:
        planned, plan, alike = spec.plans["move"]
    except (AttributeError, KeyError):
        return None
    if planned is not target or len(spec.axes) != 1 or followed() or type(seq_dim) is not int:
        return None
    if not (
        _plain(k, torch.is_grad_enabled())
        and _are_places(old, k, seq_dim)
        and _are_places(new, k, seq_dim)
        and new.shape == old.shape
    ):
        return None
    places = new - old if alike else torch.stack((new, old), -1)
    # Small moves in half precision are warned of.
    narrow = alike and k.dtype is not torch.float32 and places.numel()
    if narrow and int(places.abs().max()) < FAR:
        return None
    result = torch.empty_like(k, memory_format=torch.contiguous_format)
    try:
        plan.turn((k,), (result,), places, seq_dim, torch.get_num_threads())
    except REFUSALS:
        return None
    return result


def biased(spec: Any, q: Any, k: Any, params: Any, dtype: Any, device: Any) -> Tensor | None:
    """The entries of a bias, or None where it must be looked at more closely."""
    if torch.compiler.is_compiling():
        return None
    try:
        entries, weight, shape = spec.plans["bias"]
    except (AttributeError, KeyError):
        return None
    k = q if k is None else k
    dtype = torch.float32 if dtype is None else dtype
    if followed() or type(dtype) is not torch.dtype or dtype not in NARROW[:2]:
        return None
    for side in (q, k):
        if not _plain(side, False) or side.dtype is not _int64 or side.ndim != 1:
            return None
    if not (device is None or (type(device) is torch.device and device == q.device)):
        return None
    if shape is not None:
        if type(params) is not dict or len(params) != 1 or "weight" not in params:
            return None
        weight = params["weight"]
        if not _plain(weight, torch.is_grad_enabled()) or weight.shape != shape:
            return None
    elif params is not None:
        return None
    result = torch.empty((spec.heads, len(q), len(k)), dtype=dtype)
    try:
        entries(result, q, k, weight, torch.get_num_threads())
    except REFUSALS:
        return None
    return result


def scored(
    spec: Any, q: Any, k: Any, q_positions: Any, k_positions: Any, params: Any
) -> Tensor | None:
    """What a relative encoding adds to scores, or None where it must be looked at more closely."""
    if torch.compiler.is_compiling():
        return None
    try:
        near, shapes, clipping = spec.plans["relative"]
    except (AttributeError, KeyError):
        return None
    params = {} if params is None else params
    if followed() or type(params) is not dict or params.keys() != shapes.keys():
        return None
    for x in (q, k, *params.values()):
        if not _plain(x, False) or x.dtype is not torch.float32:
            return None
    for name, shape in shapes.items():
        if params[name].shape != shape:
            return None
    whole, keys = q.shape, k.shape
    if len(whole) < 3 or whole[:-2] != keys[:-2] or whole[-1] != spec.dim or keys[-1] != spec.dim:
        return None
    for side, count in ((q_positions, whole[-2]), (k_positions, keys[-2])):
        if not _plain(side, False) or side.dtype is not _int64 or side.shape != (count,):
            return None
    rows = None if clipping is None else torch.empty((1, whole[-2], keys[-2]), dtype=_int64)
    try:
        near(q_positions, k_positions, rows, *clipping or ())
    except REFUSALS:
        return None
    values = {**constants(spec, q_positions), **params} if spec.texts else params
    at = Places((q_positions.view(1, -1, 1),), (k_positions.view(1, 1, -1),), rows)
    scores: Tensor = spec.score(q, k, at, values, dtype=torch.float32, xp=compat)
    return scores
