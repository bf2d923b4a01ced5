"""Embeddings plus a table, for torch tensors: with gradients and under tracers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from posenc.encodings.table.base import TableSpec
from posenc.kernels.cpu import placed, sinusoids
from posenc.kernels.refusal import Refusal
from posenc.kernels.requests import Add, Where
from posenc.kernels.torch_state import traced

__all__ = ["added", "launch", "scaled"]


def added(request: Add, kernel: str) -> Tensor:
    """The sum of a request, by the kernel of that name."""
    x, spec, where, seq_dim = request.x, request.spec, request.where, request.seq_dim
    watcher = traced()
    if watcher == "forward-mode differentiation":
        raise Refusal(watcher)
    if watcher:
        from posenc.kernels import operators

        return operators.added(x, where, spec, seq_dim)
    if torch.is_grad_enabled() and x.requires_grad:
        total: Tensor = Sum.apply(x, where, spec, seq_dim, kernel)
        return total
    return launch(x, where, spec, seq_dim, kernel)


def launch(x: Tensor, where: Where, spec: TableSpec, seq_dim: int, kernel: str) -> Tensor:
    """The sum in new memory."""
    result = torch.empty_like(x)
    if kernel == "triton":
        from posenc.kernels import gpu

        gpu.add(x, result, where, spec, seq_dim)
        return result
    given, count = placed(where, x.shape[seq_dim]), torch.get_num_threads()
    sinusoids(spec).add(x, result, given, spec.embedding_scale, seq_dim, count)
    return result


def scaled(gradient: Tensor, scale: float) -> Tensor:
    """The gradient of the embeddings: the factor acts in float32, as it did on them."""
    return gradient if scale == 1 else (gradient.float() * scale).to(gradient.dtype)


class Sum(torch.autograd.Function):
    """The sum with its rule: nothing but the factor on the embeddings."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, where: Where, spec: TableSpec, seq_dim: int, kernel: str
    ) -> Tensor:
        ctx.scale = spec.embedding_scale
        return launch(x.detach(), where, spec, seq_dim, kernel)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return scaled(gradient, ctx.scale), None, None, None, None
