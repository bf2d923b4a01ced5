"""Wrong scores: heads, keys, windows, scales and biases; values and outputs that turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from tests.trace.breaks.means import Tensor, attending, causal, cos_sin, halves, ladder, layer

# --- attention ------------------------------------------------------------------------------------


def heads_exchanged(model: nn.Module) -> None:
    """The first head and the last, after a reshape in the wrong order."""
    attending(layer(model), lambda attend, q, k, v, mask: attend(q[:, [3, 1, 2, 0]], k, v, mask))


def heads_tiled(model: nn.Module) -> None:
    """`repeat` for `repeat_interleave`: queries meet the keys and values of other heads."""
    attention = layer(model)
    attention.num_key_value_groups = 1

    def around(attend: Any, q: Tensor, k: Tensor, v: Tensor, mask: Any) -> Any:
        return attend(q, k.repeat(1, 2, 1, 1), v.repeat(1, 2, 1, 1), mask)

    attending(attention, around)


def keys_pooled(model: nn.Module) -> None:
    """Each key is the mean of itself and the one before."""

    def around(attend: Any, q: Tensor, k: Tensor, v: Tensor, mask: Any) -> Any:
        before = torch.cat([k[:, :, :1], k[:, :, :-1]], dim=2)
        return attend(q, (k + before) / 2, v, mask)

    attending(layer(model), around)


def _turned(x: Tensor, backward: bool = False) -> Tensor:
    cos, sin = cos_sin(torch.arange(x.shape[2]), ladder(1e4, x.shape[-1]))
    return x * cos + halves(x) * (-sin if backward else sin)


def value_turned(model: nn.Module) -> None:
    """Values go through the function too."""
    attending(layer(model), lambda attend, q, k, v, mask: attend(q, k, _turned(v), mask))


def output_turned(model: nn.Module) -> None:
    """What attention returns is turned back, as of values that had turned."""

    def around(attend: Any, q: Tensor, k: Tensor, v: Tensor, mask: Any) -> Any:
        output, *rest = attend(q, k, v, mask)
        return _turned(output.transpose(1, 2), backward=True).transpose(1, 2), *rest

    attending(layer(model), around)


def window(size: int | None) -> Callable[[nn.Module], None]:
    """A mask of another window."""

    def around(attend: Any, q: Tensor, k: Tensor, v: Tensor, mask: Any) -> Any:
        return attend(q, k, v, causal(q.shape[2], size))

    return lambda model: attending(layer(model), around)


def next_seen(model: nn.Module) -> None:
    """The diagonal of the mask is one too high: each token sees the one after it."""

    def around(attend: Any, q: Tensor, k: Tensor, v: Tensor, mask: Any) -> Any:
        tokens = q.shape[2]
        return attend(q, k, v, causal(tokens + 1, None)[..., 1:, :tokens])

    attending(layer(model), around)


def cap_left_out(model: nn.Module) -> None:
    """Scores are not held within the cap."""
    layer(model).attn_logit_softcapping = None


def scale_of_width(model: nn.Module) -> None:
    """One over the root of the width, where the model has another number."""
    layer(model).scaling = 16**-0.5


def scale_of_width_mla(model: nn.Module) -> None:
    """The factor of YaRN on scores is left out."""
    layer(model).scaling = 20**-0.5


def scale_of_t5(model: nn.Module) -> None:
    """Scores are divided by the root of the width, as everywhere else."""
    layer(model).scaling = 16**-0.5


def turns_at(index: int, turns: Any) -> Callable[[nn.Module], None]:
    """The list of layers without positions is read with an error of one."""

    def damage(model: nn.Module) -> None:
        layer(model, index).use_rope = turns

    return damage


# --- biases ---------------------------------------------------------------------------------------


def _with_bias(model: nn.Module, name: str, change: Callable[[Tensor], Tensor]) -> None:
    def hook(_: nn.Module, inputs: Any, keywords: dict[str, Any]) -> Any:
        return inputs, {**keywords, name: change(keywords[name])}

    layer(model).register_forward_pre_hook(hook, with_kwargs=True)


def plain_slopes(model: nn.Module) -> None:
    """Slopes of the formula for powers of two, with six heads."""

    def change(alibi: Tensor) -> Tensor:
        slopes = torch.tensor([2.0 ** (-8 * (i + 1) / 6) for i in range(6)])
        return slopes[:, None, None] * torch.arange(alibi.shape[-1])

    _with_bias(model, "alibi", change)


def no_bias(model: nn.Module) -> None:
    _with_bias(model, "alibi", torch.zeros_like)


def bias_backward(model: nn.Module) -> None:
    """What is far is liked best."""
    _with_bias(model, "position_bias", torch.neg)


def one_direction(model: nn.Module) -> None:
    """The buckets of a decoder in an encoder: whatever comes after is at distance zero."""
    attention = layer(model, 0)
    buckets = attention._relative_position_bucket
    attention._relative_position_bucket = lambda relative, **more: buckets(
        relative, **{**more, "bidirectional": False}
    )
