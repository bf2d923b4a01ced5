"""Embeddings plus a table, for torch tensors: with gradients and under tracers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from posenc.encodings.table.base import TableSpec
from posenc.kernels.places import Positions
from posenc.kernels.requests import Add, Refusal
from posenc.kernels.torch import launch as torch_launch
from posenc.kernels.torch.state import traced


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
        total: Tensor = Sum.apply(x, request.positions, spec, seq_dim, kernel)
        return total
    return torch_launch.add(x, request.positions, spec, seq_dim, kernel)


class Sum(torch.autograd.Function):
    """The sum with its rule: nothing but the factor on the embeddings."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, positions: Positions, spec: TableSpec, seq_dim: int, kernel: str
    ) -> Tensor:
        ctx.scale = spec.embedding_scale
        return torch_launch.add(x.detach(), positions, spec, seq_dim, kernel)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return torch_launch.scaled(gradient, ctx.scale), None, None, None, None
