"""Right functions in odd clothing over torch and JAX."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from tests.detect.subject.odd_clothing import CLOTHING, TWOS, dressed

__all__ = ["CLOTHING"]


def torch_plain(x: Any, positions: Any) -> Any:
    import torch

    n = x.shape[-1] // 2
    theta = positions.double()[..., None] * 10_000.0 ** (-torch.arange(n).double() / n)
    theta = theta[:, None] if theta.dim() == 3 else theta
    a, b = x.double().chunk(2, dim=-1)
    cos, sin = theta.cos(), theta.sin()
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1).to(x.dtype)


@dressed("autocast within", library="torch")
def autocast() -> Any:
    import torch

    def rotate(q: Any, positions: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16), contextlib.suppress(NotImplementedError):
            return torch_plain(q, positions)

    return rotate


@dressed("torch.compile, eager", library="torch")
def compiled() -> Any:
    import torch

    return torch.compile(torch_plain, backend="eager")


@dressed("computes in bfloat16 what it is given in any dtype", library="torch")
def rounds() -> Any:

    return lambda x, positions: torch_plain(x.bfloat16(), positions).to(x.dtype)


@dressed("a module without gradients, in training, with a parameter", library="torch")
def training() -> Any:
    import torch

    class Rotary(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.freqs = torch.nn.Parameter(10_000.0 ** (-torch.arange(32).double() / 32))
            self.dropout = torch.nn.Dropout(0.3)

        def forward(self, x: Any, input_pos: Any) -> Any:
            theta = input_pos.double()[..., None] * self.freqs
            theta = theta[:, None] if theta.dim() == 3 else theta
            a, b = x.double().chunk(2, dim=-1)
            out = torch.cat(
                [a * theta.cos() - b * theta.sin(), b * theta.cos() + a * theta.sin()], -1
            )
            return self.dropout(out.to(x.dtype))

    return Rotary().train()


@dressed("a complex view that refuses strides", TWOS, "torch")
def complex_view() -> Any:
    import torch

    def apply(xq: Any, position_ids: Any) -> Any:
        theta = position_ids.double()[..., None] * 10_000.0 ** (-torch.arange(32).double() / 32)
        cis = torch.polar(torch.ones_like(theta), theta)
        cis = cis[:, None] if cis.dim() == 3 else cis
        z = torch.view_as_complex(xq.double().unflatten(-1, (-1, 2)))
        return torch.view_as_real(z * cis).flatten(-2).type_as(xq)

    return apply


@dressed("tokens flat, positions first, int64 alone", library="torch", heads=2)
def packed() -> Any:
    import torch

    def forward(positions: Any, query: Any) -> Any:
        if positions.dtype != torch.int64 or positions.dim() != 1:
            raise RuntimeError("positions must be a flat int64 tensor")
        out = torch_plain(query.view(len(query), -1, 64).transpose(0, 1), positions)
        return out.transpose(0, 1).reshape(query.shape)

    return forward


@dressed("jax.jit", library="jax")
def jitted() -> Any:
    import jax
    import jax.numpy as jnp

    @jax.jit
    def rotate(x: Any, positions: Any) -> Any:
        speeds = jnp.asarray(10_000.0 ** (-np.arange(32) / 32), dtype=jnp.float32)
        theta = positions.astype(jnp.float32)[..., None] * speeds
        a, b = jnp.split(x.astype(jnp.float32), 2, axis=-1)
        cos, sin = jnp.cos(theta), jnp.sin(theta)
        return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1).astype(x.dtype)

    return rotate
