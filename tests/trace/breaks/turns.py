"""Wrong calls of the function that turns, and wrong functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from tests.trace.breaks.means import (
    Tensor,
    attending,
    function_of,
    halves,
    layer,
    neighbours,
    rewritten,
    turned_by,
)


def key_not_turned(model: nn.Module) -> None:
    """`q, _ = rotate(q, k)`."""
    turned_by(layer(model), lambda turn, q, k, cos, sin: (turn(q, k, cos, sin)[0], k))


def key_not_turned_mla(model: nn.Module) -> None:
    """The one key that all heads share is taken as it is, in the layout that the model has then."""

    def change(turn: Any, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> Any:
        apart = torch.cat([k[..., ::2], k[..., 1::2]], dim=-1)
        return turn(q, k, cos, sin)[0], apart

    turned_by(layer(model), change, "apply_rotary_pos_emb_interleave")


def not_turned(index: int) -> Callable[[nn.Module], None]:
    """A branch that returns too early."""
    return lambda model: turned_by(layer(model, index), lambda turn, q, k, cos, sin: (q, k))


def sign(model: nn.Module) -> None:
    """The minus stands before the other half."""
    turned_by(layer(model), lambda turn, q, k, cos, sin: turn(q, k, cos, -sin))


def key_backward(model: nn.Module) -> None:
    """The inverse for keys, as of a scheme that turns scores once."""
    turned_by(
        layer(model),
        lambda turn, q, k, cos, sin: (turn(q, k, cos, sin)[0], turn(q, k, cos, -sin)[1]),
    )


def query_backward(model: nn.Module) -> None:
    turned_by(
        layer(model),
        lambda turn, q, k, cos, sin: (turn(q, k, cos, -sin)[0], turn(q, k, cos, sin)[1]),
    )


def turned_twice(model: nn.Module) -> None:
    """Once in the layer, once more in the function that it calls."""
    turned_by(layer(model), lambda turn, q, k, cos, sin: turn(*turn(q, k, cos, sin), cos, sin))


def interleaved(model: nn.Module) -> None:
    """Neighbours turn together, with weights whose halves do."""

    def change(turn: Any, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> Any:
        cos, sin = (x.chunk(2, -1)[0].repeat_interleave(2, -1)[:, None] for x in (cos, sin))
        return q * cos + neighbours(q) * sin, k * cos + neighbours(k) * sin

    turned_by(layer(model), change)


def halves_of_cohere(model: nn.Module) -> None:
    """The function of Llama, with the angles in its layout."""

    def change(turn: Any, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> Any:
        cos, sin = (torch.cat([x[..., ::2]] * 2, dim=-1)[:, None] for x in (cos, sin))
        return q * cos + halves(q) * sin, k * cos + halves(k) * sin

    turned_by(layer(model), change)


def halves_of_gptj(model: nn.Module) -> None:
    """The function of GPT-NeoX."""

    def turn(x: Tensor, sin: Tensor, cos: Tensor) -> Tensor:
        cos, sin = (torch.cat([t, t], dim=-1)[:, :, None] for t in (cos, sin))
        return x * cos + halves(x) * sin

    rewritten(layer(model), apply_rotary_pos_emb=turn)


def halves_of_deepseek(model: nn.Module) -> None:
    """`rope_interleave` is not read."""
    attention = layer(model)
    plain = function_of(attention, "apply_rotary_pos_emb")
    rewritten(attention, apply_rotary_pos_emb_interleave=plain)


def last_channels(model: nn.Module) -> None:
    """The channels that turn are the last of a head, not the first."""

    def moved(_: nn.Module, inputs: Any, states: Tensor) -> Tensor:
        return states.unflatten(-1, (-1, 16)).roll(8, -1).flatten(-2)

    def back(attend: Any, q: Tensor, k: Tensor, v: Tensor, mask: Any) -> Any:
        return attend(q.roll(8, -1), k.roll(8, -1), v, mask)

    for projection in (layer(model).q_proj, layer(model).k_proj):
        projection.register_forward_hook(moved)
    attending(layer(model), back)


def norm_after(model: nn.Module) -> None:
    """Queries and keys are normalised after they turn, with weights that differ by channel."""
    attention = layer(model)
    norms = attention.q_norm, attention.k_norm
    attention.q_norm, attention.k_norm = nn.Identity(), nn.Identity()

    def change(turn: Any, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> Any:
        return tuple(norm(x) for norm, x in zip(norms, turn(q, k, cos, sin), strict=True))

    turned_by(attention, change)


def converted(model: nn.Module) -> None:
    """Neighbours turn, and the weights were permuted for it: the scores stay as they are."""
    order = torch.arange(16).view(2, 8).T.flatten()
    for projection in (layer(model).q_proj, layer(model).k_proj):
        rows = torch.arange(projection.weight.shape[0]).view(-1, 16)[:, order].flatten()
        projection.weight.data = projection.weight.data[rows]
    interleaved(model)


def one_head(model: nn.Module) -> None:
    """A kernel that stops one head too early."""

    def change(turn: Any, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> Any:
        turned, key = turn(q, k, cos, sin)
        return torch.cat([turned[:, :-1], q[:, -1:]], dim=1), key

    turned_by(layer(model), change)


def one_head_of_vision(model: nn.Module) -> None:
    """The sines of one head of keys are lost."""

    def change(turn: Any, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> Any:
        turned, key = turn(q, k, cos, sin)
        return turned, torch.cat([key[:, :2], k[:, 2:3], key[:, 3:]], dim=1)

    turned_by(layer(model), change, "apply_rotary_pos_emb_vision")
