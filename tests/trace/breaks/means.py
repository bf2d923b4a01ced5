"""Ways to break one layer: its own forward with one other function, or one other argument."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Tensor = torch.Tensor


def rewritten(module: nn.Module, **functions: Any) -> None:
    """Let this instance run the lines of its class with other functions under these names."""
    forward = inspect.unwrap(getattr(module.forward, "__func__", module.forward))
    missing = functions.keys() - set(forward.__code__.co_names)
    if missing:
        raise AssertionError(f"{type(module).__name__}.forward does not call {sorted(missing)}")
    own = types.FunctionType(
        forward.__code__, {**forward.__globals__, **functions}, forward.__name__,
        forward.__defaults__, forward.__closure__,
    )  # fmt: skip
    own.__kwdefaults__ = forward.__kwdefaults__
    module.forward = types.MethodType(own, module)


def function_of(module: nn.Module, name: str) -> Any:
    """The function that the forward of a module calls under this name."""
    forward = inspect.unwrap(getattr(module.forward, "__func__", module.forward))
    return forward.__globals__[name]


def turned_by(
    module: nn.Module, change: Callable[..., Any], name: str = "apply_rotary_pos_emb"
) -> None:
    """Put `change(turn, q, k, cos, sin)` in the place of the function that turns."""
    theirs = function_of(module, name)

    def turn(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, **more: Any) -> Any:
        def as_before(*tensors: Tensor) -> Any:
            return theirs(*tensors, **more)

        return change(as_before, q, k, cos, sin)

    rewritten(module, **{name: turn})


def with_angles(module: nn.Module, change: Callable[..., Any], name: str = "position_embeddings"):
    """Hand `change(cos, sin)` to a layer in the place of the cosines and sines of the model."""

    def hook(_: nn.Module, inputs: Any, keywords: dict[str, Any]) -> Any:
        if name not in keywords:
            raise AssertionError(f"{type(module).__name__} is not called with {name}")
        return inputs, {**keywords, name: change(*keywords[name])}

    module.register_forward_pre_hook(hook, with_kwargs=True)


def attending(module: nn.Module, around: Callable[..., Any]) -> None:
    """Put `around(attend, q, k, v, mask)` around the attention of one layer."""
    theirs = function_of(module, "ALL_ATTENTION_FUNCTIONS")

    class Functions:
        @staticmethod
        def get_interface(name: str, eager: Any) -> Any:
            inner = theirs.get_interface(name, eager)

            def attend(own: Any, q: Tensor, k: Tensor, v: Tensor, attention_mask: Any, **more: Any):
                def as_before(q: Tensor, k: Tensor, v: Tensor, mask: Any) -> Any:
                    return inner(own, q, k, v, attention_mask=mask, **more)

                return around(as_before, q, k, v, attention_mask)

            return attend

    rewritten(module, ALL_ATTENTION_FUNCTIONS=Functions)


def layer(model: nn.Module, index: int = 1) -> Any:
    """The attention of one layer: what is called so and holds nothing else of that name."""
    named = [m for m in model.modules() if type(m).__name__.endswith("Attention")]
    inner = [m for m in named if not any(other in named for other in [*m.modules()][1:])]
    return inner[index]


# --- cosines and sines as the libraries have them -------------------------------------------------


def ladder(base: float, width: int) -> Tensor:
    return 1.0 / base ** (torch.arange(0, width, 2).float() / width)


def cos_sin(positions: Tensor, frequencies: Tensor) -> tuple[Tensor, Tensor]:
    """Cosines and sines of the angles, which stand there twice: for both halves of a head."""
    phases = positions[..., None].float() * frequencies
    phases = torch.cat([phases, phases], dim=-1)
    return phases.cos(), phases.sin()


def line(cos: Tensor, first: int = 0) -> Tensor:
    """A position for each token of the rows that these cosines are of, counted from `first`."""
    return torch.arange(first, first + cos.shape[-2]).expand(cos.shape[:-1])


def halves(x: Tensor) -> Tensor:
    a, b = x.chunk(2, dim=-1)
    return torch.cat([-b, a], dim=-1)


def neighbours(x: Tensor) -> Tensor:
    return torch.stack([-x[..., 1::2], x[..., ::2]], dim=-1).flatten(-2)


def causal(tokens: int, window: int | None) -> Tensor:
    """What is added to scores: a token sees itself and, with a window, the ones just before."""
    behind = torch.arange(tokens)[:, None] - torch.arange(tokens)[None]
    unseen = (behind < 0) | (behind >= (window or tokens))
    return torch.zeros(1, 1, tokens, tokens).masked_fill(unseen, torch.finfo(torch.float32).min)
