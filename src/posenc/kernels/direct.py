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

from posenc.kernels.torch_state import PLAIN, traced

__all__ = ["rotated"]

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
    plans = getattr(spec, "plans", None)
    plan = plans.get(("turn", inverse, False)) if plans else None
    if plan is None or len(spec.axes) > 1 or type(seq_dim) is not int or traced():
        return None
    arrays = tuple([x for x, _ in inputs])
    grad = torch.is_grad_enabled()
    for x, role in inputs:
        if type(x) not in PLAIN or not x.is_cpu or (grad and x.requires_grad) or x.is_neg():
            return None
        if role not in ("query", "key"):
            return None
    where: Any = 0
    if positions is not None:
        x = arrays[0]
        # Rows of a batch, or one row for all; any other shape is read with more care.
        if (
            offset is not None
            or type(positions) is not Tensor
            or positions.dtype is not torch.int64
        ):
            return None
        if not (positions.ndim == 1 or (positions.ndim == 2 and x.ndim == 4)):
            return None
        if positions.shape[-1] != x.shape[seq_dim]:
            return None
        where = positions
    elif offset is not None:
        if type(offset) is not int or not -(2**62) < offset < 2**62:
            return None
        where = offset
    results = arrays if inplace else tuple([torch.empty_like(x) for x in arrays])
    try:
        plan.turn(arrays, results, where, seq_dim, torch.get_num_threads())
    except (ValueError, TypeError, BufferError):
        return None
    if inplace:
        _version(arrays)
    return results
