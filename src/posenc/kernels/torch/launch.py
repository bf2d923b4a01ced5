"""The kernels on torch tensors in eager code, with nobody looking: results written into memory."""

from __future__ import annotations

import torch
from torch import Tensor

from posenc.encodings.table.base import TableSpec
from posenc.kernels.plans import Way, flat, rotation, sinusoids
from posenc.kernels.requests import Positions


def turn(
    way: Way,
    arrays: tuple[Tensor, ...],
    results: tuple[Tensor, ...],
    positions: tuple[Positions, ...],
    *,
    transposed: bool,
) -> None:
    """Write the turned arrays into results."""
    first = positions[0]
    alike = all(p is first and x.dtype == arrays[0].dtype for x, p in zip(arrays, positions))  # noqa: B905
    if not alike:
        for x, y, p in zip(arrays, results, positions, strict=True):
            turn(way, (x,), (y,), (p,), transposed=transposed)
    elif way.kernel == "triton":
        from posenc.kernels.triton import rotate

        rotate.turn(way, arrays, results, first, transposed=transposed)
    else:
        plan = rotation(way.spec, inverse=way.inverse, transposed=transposed)
        numbers = flat(first, arrays[0].shape[way.seq_dim])
        plan.turn(arrays, results, numbers, way.seq_dim, torch.get_num_threads())


def add(x: Tensor, positions: Positions, spec: TableSpec, seq_dim: int, kernel: str) -> Tensor:
    """Embeddings plus a table in new memory."""
    result = torch.empty_like(x)
    if kernel == "triton":
        from posenc.kernels.triton import add as triton_add

        triton_add.add(x, result, positions, spec, seq_dim)
        return result
    numbers, count = flat(positions, x.shape[seq_dim]), torch.get_num_threads()
    sinusoids(spec).add(x, result, numbers, spec.embedding_scale, seq_dim, count)
    return result


def scaled(gradient: Tensor, scale: float) -> Tensor:
    """The gradient of the embeddings: the factor acts in float32, as it did on them."""
    return gradient if scale == 1 else (gradient.float() * scale).to(gradient.dtype)
