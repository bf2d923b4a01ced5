"""One token in eager torch: the way from a call to the compiled kernel with nothing in between.

A step of decoding turns a few thousand numbers in two microseconds. Checks, requests and choices of
the usual way cost ten times that, so this one leaves them out: it takes a call only where all of it
is plain, and where the usual way has made a plan for the spec before. What the compiled code
refuses goes the usual way too, which finds the words for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from posenc.kernels.torch.state import PLAIN, followed

_version = torch.autograd.graph.increment_version


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
    if followed() or type(seq_dim) is not int:
        return None
    grad = torch.is_grad_enabled()
    arrays = []
    for x, role in inputs:
        if type(x) not in PLAIN or (grad and x.requires_grad) or not x.is_cpu or x.is_neg():
            return None
        if role != "query" and role != "key":  # noqa: PLR1714 - a tuple costs more
            return None
        arrays.append(x)
    first: Any = 0
    if positions is not None:
        if offset is not None or type(positions) is not Tensor:
            return None
        # Rows of a batch, or one row for all; any other shape is read with more care.
        shape, whole = positions.shape, x.shape
        if not -len(whole) <= seq_dim < -1 or positions.dtype is not torch.int64:
            return None
        if not (len(shape) == 1 or (len(shape) == 2 and len(whole) == 4)):
            return None
        if shape[-1] != whole[seq_dim]:
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
    except (ValueError, TypeError, BufferError):
        return None
    if inplace:
        _version(tensors)
    return results
