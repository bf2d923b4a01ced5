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

from typing import Any

import torch
from torch import Tensor

from posenc._core.arrays.lookups import check_writable
from posenc.encodings.table.base import TableSpec
from posenc.kernels.plans import Way
from posenc.kernels.requests import Add, Packed, Positions, Refusal, Rotate
from posenc.kernels.torch.launch import add, scaled, turn
from posenc.kernels.torch.state import has_memory, traced


def turned(request: Rotate, kernel: str) -> tuple[Tensor, ...]:
    """The arrays of a request, turned by the kernel of that name."""
    watcher = traced()
    if watcher == "forward-mode differentiation":
        raise Refusal(watcher)
    if watcher:
        from posenc.kernels.torch import operators

        return tuple(operators.rotated(x, p, request) for x, p in _each(request))
    if request.inplace:
        for x in request.arrays:
            check_writable(x, request.caller)
    arrays = request.arrays
    spec, seq_dim, inverse = request.spec, request.seq_dim, request.inverse
    if torch.is_grad_enabled() and any(x.requires_grad for x in arrays):
        # One call for each: torch takes no function that overwrites a view and has two results.
        return tuple(
            Turn.apply(
                x,
                p.ends if isinstance(p, Packed) else p,
                Way(kernel, spec, isinstance(p, Packed), seq_dim, inverse),
                False,
                request.inplace,
            )
            for x, p in _each(request)
        )
    results = arrays if request.inplace else tuple(map(torch.empty_like, arrays))
    way = Way(kernel, spec, isinstance(request.positions[0], Packed), seq_dim, inverse)
    turn(way, arrays, results, request.positions, transposed=False)
    if request.inplace:
        torch.autograd.graph.increment_version(arrays)
    return results


def _each(request: Rotate) -> list[tuple[Tensor, Positions]]:
    return list(zip(request.arrays, request.positions, strict=True))


class Turn(torch.autograd.Function):
    """A rotation with its rule: the gradient is turned by the transpose."""

    @staticmethod
    def forward(
        x: Tensor, positions: int | Tensor, way: Way, transposed: bool, inplace: bool
    ) -> Tensor:
        memory = x.detach()
        result = memory if inplace else torch.empty_like(memory)
        places: Positions = Packed(positions) if way.packed else positions
        turn(way, (memory,), (result,), (places,), transposed=transposed)
        return x if inplace else result

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ARG004
        x, positions, ctx.way, ctx.transposed, inplace = inputs
        tensor = isinstance(positions, Tensor)
        ctx.start = None if tensor else positions
        ctx.save_for_backward(*((positions,) if tensor else ()))
        if inplace:
            ctx.mark_dirty(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        positions = ctx.saved_tensors[0] if ctx.start is None else ctx.start
        if traced() or not has_memory(gradient):  # batched, or under a compiler of backward passes
            from posenc.kernels.torch import operators

            places = Packed(positions) if ctx.way.packed else positions
            turned = operators.turned(gradient, places, ctx.way, not ctx.transposed)
        else:
            turned = Turn.apply(gradient, positions, ctx.way, not ctx.transposed, False)
        return turned, None, None, None, None


def added(request: Add, kernel: str) -> Tensor:
    """The sum of a request, by the kernel of that name."""
    x, spec, seq_dim = request.x, request.spec, request.seq_dim
    watcher = traced()
    if watcher == "forward-mode differentiation":
        raise Refusal(watcher)
    if watcher:
        from posenc.kernels.torch import operators

        return operators.added(x, request.positions, spec, seq_dim)
    if torch.is_grad_enabled() and x.requires_grad:
        return Sum.apply(x, request.positions, spec, seq_dim, kernel)
    return add(x, request.positions, spec, seq_dim, kernel)


class Sum(torch.autograd.Function):
    """The sum with its rule: nothing but the factor on the embeddings."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, positions: Positions, spec: TableSpec, seq_dim: int, kernel: str
    ) -> Tensor:
        ctx.scale = spec.embedding_scale
        return add(x.detach(), positions, spec, seq_dim, kernel)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return scaled(gradient, ctx.scale), None, None, None, None
