"""Rotations of torch tensors by a kernel: with gradients, in place, and under tracers.

    nothing follows the call     the kernel writes the result; autograd hears of what changed
    a gradient is needed         an `autograd.Function`, whose backward turns by the opposite angle
    a tracer follows the call    the registered operator, which stands in the graph

A kernel that wrote in place behind autograd's back would give wrong gradients without a word, and
so would an operator that is declared to mutate its input: torch takes no autograd rule for one. A
`Function` that marks its input as dirty gives the right ones, and torch itself refuses what cannot
be overwritten. It does so after its forward has run, so those cases are told apart before.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from posenc._core.inplace import check_writable
from posenc.encodings.rotary.base import RotarySpec
from posenc.kernels.cpu import placed, rotation
from posenc.kernels.refusal import Refusal
from posenc.kernels.requests import Packed, Rotate, Where
from posenc.kernels.torch_state import has_memory, traced

__all__ = ["Turn", "Way", "launch", "turned"]


def turned(request: Rotate, kernel: str) -> tuple[Tensor, ...]:
    """The arrays of a request, turned by the kernel of that name."""
    watcher = traced()
    if watcher == "forward-mode differentiation":
        raise Refusal(watcher)
    if watcher:
        from posenc.kernels import operators

        return tuple(operators.rotated(x, w, request) for x, w in _each(request))
    if request.inplace:
        for x in request.arrays:
            check_writable(x, f"rotate({type(request.spec).__name__})")
    arrays = request.arrays
    spec, seq_dim, inverse = request.spec, request.seq_dim, request.inverse
    if torch.is_grad_enabled() and any(x.requires_grad for x in arrays):
        # One call for each: torch takes no function that overwrites a view and has two results.
        return tuple(
            Turn.apply(
                x,
                _tensor(w),
                Way(kernel, spec, isinstance(w, Packed), seq_dim, inverse),
                False,
                request.inplace,
            )
            for x, w in _each(request)
        )
    results = arrays if request.inplace else tuple(map(torch.empty_like, arrays))
    way = Way(kernel, spec, isinstance(request.where[0], Packed), seq_dim, inverse)
    launch(way, arrays, results, request.where, transposed=False)
    if request.inplace:
        torch.autograd.graph.increment_version(arrays)
    return results


def _each(request: Rotate) -> list[tuple[Tensor, Where]]:
    return list(zip(request.arrays, request.where, strict=True))


class Way(NamedTuple):
    """How arrays are turned, apart from where they are and what they hold."""

    kernel: str
    spec: RotarySpec
    packed: bool  # whether positions are the ends of packed sequences
    seq_dim: int
    inverse: bool


def launch(
    way: Way,
    arrays: tuple[Tensor, ...],
    results: tuple[Tensor, ...],
    where: tuple[Where, ...],
    *,
    transposed: bool,
) -> None:
    """Write the turned arrays into results."""
    alike = all(w is where[0] and x.dtype == arrays[0].dtype for x, w in zip(arrays, where))  # noqa: B905
    if not alike:
        for x, y, w in zip(arrays, results, where, strict=True):
            launch(way, (x,), (y,), (w,), transposed=transposed)
        return
    if way.kernel == "triton":
        from posenc.kernels import gpu

        gpu.turn(way, arrays, results, where[0], transposed=transposed)
        return
    plan = rotation(way.spec, inverse=way.inverse, transposed=transposed)
    given = placed(where[0], arrays[0].shape[way.seq_dim])
    plan.turn(arrays, results, given, way.seq_dim, torch.get_num_threads())


def _tensor(where: Where) -> int | Tensor:
    return where.ends if isinstance(where, Packed) else where


class Turn(torch.autograd.Function):
    """A rotation with its rule: the gradient is turned by the transpose."""

    @staticmethod
    def forward(
        x: Tensor, where: int | Tensor, way: Way, transposed: bool, inplace: bool
    ) -> Tensor:
        memory = x.detach()
        result = memory if inplace else torch.empty_like(memory)
        given: Where = Packed(where) if way.packed else where
        launch(way, (memory,), (result,), (given,), transposed=transposed)
        return x if inplace else result

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ARG004
        x, where, ctx.way, ctx.transposed, inplace = inputs
        tensor = isinstance(where, Tensor)
        ctx.start = None if tensor else where
        ctx.save_for_backward(*((where,) if tensor else ()))
        if inplace:
            ctx.mark_dirty(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        where = ctx.saved_tensors[0] if ctx.start is None else ctx.start
        if traced() or not has_memory(gradient):  # batched, or under a compiler of backward passes
            from posenc.kernels import operators

            given = Packed(where) if ctx.way.packed else where
            turned = operators.turned(gradient, given, ctx.way, not ctx.transposed)
        else:
            turned = Turn.apply(gradient, where, ctx.way, not ctx.transposed, False)
        return turned, None, None, None, None
