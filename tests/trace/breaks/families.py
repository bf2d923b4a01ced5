"""What is wrong in blocks of diffusers, and in models of one file."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from tests.trace.breaks.means import Tensor, rewritten

# --- diffusers ------------------------------------------------------------------------------------


def _processor(model: nn.Module, index: int, change: Callable[..., Tensor]) -> None:
    """Give one block a processor that turns otherwise."""
    block = [*model.transformer_blocks, *model.single_transformer_blocks][index]
    theirs = type(block.attn.processor)

    class Processor(theirs):  # type: ignore[misc, valid-type]
        pass

    rotate = theirs.__call__.__globals__["apply_rotary_emb"]
    holder = nn.Module()
    holder.forward = theirs.__call__
    rewritten(holder, apply_rotary_emb=lambda x, turns, **more: change(rotate, x, *turns, **more))
    Processor.__call__ = holder.forward.__func__  # type: ignore[method-assign]
    block.attn.set_processor(Processor())


def base_of_flux(model: nn.Module) -> None:
    """A base of 2,000, as newer models have it."""
    rope = type(model.pos_embed)(2000, model.pos_embed.axes_dim)
    places = _ids()

    def change(rotate: Any, x: Tensor, cos: Tensor, sin: Tensor, **more: Any) -> Tensor:
        return rotate(x, rope(places), **more)

    _processor(model, 1, change)


def axis_left_out(model: nn.Module) -> None:
    """Columns are not handed over."""
    places = _ids()
    places[:, 2] = 0

    def change(rotate: Any, x: Tensor, cos: Tensor, sin: Tensor, **more: Any) -> Tensor:
        return rotate(x, model.pos_embed(places), **more)

    _processor(model, 3, change)


def halves_of_flux(model: nn.Module) -> None:
    """Two halves turn, with the angles of neighbours."""

    def change(rotate: Any, x: Tensor, cos: Tensor, sin: Tensor, **more: Any) -> Tensor:
        cos, sin = (torch.cat([t[:, ::2]] * 2, dim=-1) for t in (cos, sin))
        return rotate(x, (cos, sin), use_real_unbind_dim=-2, **more)

    _processor(model, 2, change)


def _ids() -> Tensor:
    rows, columns = torch.meshgrid(torch.arange(4), torch.arange(5), indexing="ij")
    image = torch.stack([torch.zeros(20), rows.flatten(), columns.flatten()], dim=-1)
    return torch.cat([torch.zeros(6, 3), image])


# --- written by hand ------------------------------------------------------------------------------


def base_of_complex(model: Any) -> None:
    model.layers[1].base = 500000.0


def scale_left_out(model: Any) -> None:
    model.layers[1].scale = 1.0


def pairs_exchanged(model: Any) -> None:
    """Two frequencies stand in each other's place."""
    attention = model.layers[1]
    turns = attention.turns
    attention.turns = lambda tokens: turns(tokens)[:, [0, 2, 1, 3, 4, 5, 6, 7]]


def begins_again_in_halves(model: Any) -> None:
    """The step counts its token as the first."""
    model.layers[1].places = torch.arange


def sine_first(model: Any) -> None:
    """`a * sin - b * cos`: the two columns of a table in the wrong order."""

    def turn(x: Tensor, places: Tensor) -> Tensor:
        phases = math.pi / 2 - torch.outer(places, model.layers[1].f)
        a, b = x.chunk(2, dim=-1)
        return torch.cat(
            [a * phases.cos() - b * phases.sin(), b * phases.cos() + a * phases.sin()], dim=-1
        )

    model.layers[1].turn = turn
