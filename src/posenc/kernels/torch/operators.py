"""The operators `posenc::rotate`, `posenc::rotate_` and `posenc::add`, for graphs.

A call in eager code goes to the kernels directly. An operator is what a tracer can hold: it has a
fake form, a rule for gradients and one for batches, and its spec travels as JSON, so that a graph
says what it computes and a saved one can be loaded wherever this module is imported.

Under `kernel="auto"` compiled code has them where they are faster than the array engine's form,
which Inductor fuses with what stands beside it: for rotations of more than one token on a CPU.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from posenc import registry
from posenc._core.positions.packing import packed
from posenc._core.spec.spec import to_json
from posenc._core.tracing import outside
from posenc.kernels.plans import Way
from posenc.kernels.requests import Packed, Positions, Rotate
from posenc.kernels.torch import launch
from posenc.kernels.torch.state import transformed

SIGNATURE = "Tensor x, Tensor positions, str spec, int seq_dim, bool inverse, bool transposed"
library = torch.library.Library("posenc", "DEF")
library.define(f"rotate({SIGNATURE}) -> Tensor")
library.define(f"rotate_({SIGNATURE.replace('Tensor x', 'Tensor(a!) x')}) -> ()")
library.define("add(Tensor x, Tensor positions, str spec, int seq_dim) -> Tensor")


@functools.lru_cache(maxsize=256)
def _spec(text: str) -> Any:
    return registry.from_json(text)


@outside
def _text(spec: Any) -> str:
    return to_json(spec)


def _kernel(x: Tensor) -> str:
    return "cpu" if x.device.type == "cpu" else "triton"


# --- rotate ---------------------------------------------------------------------------------------


def rotated(x: Tensor, positions: Positions, request: Rotate) -> Tensor:
    """An array of a request by the operator."""
    text, seq_dim, inverse = _text(request.spec), request.seq_dim, request.inverse
    places = _tensor(x, positions, seq_dim)
    # Not so under Dynamo, which knows the rule of the operator and not the function's stack.
    through = torch.compiler.is_compiling() or not transformed()
    rotate = torch.ops.posenc.rotate if through else Followed.apply
    if not request.inplace:
        return rotate(x, places, text, seq_dim, inverse, False)
    if not through or (torch.is_grad_enabled() and x.requires_grad):
        # Autograd follows a copy over the input, and the compiler drops the copy where it can.
        return x.copy_(rotate(x, places, text, seq_dim, inverse, False))
    torch.ops.posenc.rotate_(x, places, text, seq_dim, inverse, False)
    return x


def turned(x: Tensor, positions: Positions, way: Way, transposed: bool) -> Tensor:
    """The backward pass of an eager call, by the operator."""
    places = _tensor(x, positions, way.seq_dim)
    rotate = Followed.apply if transformed() else torch.ops.posenc.rotate
    return rotate(x, places, _text(way.spec), way.seq_dim, way.inverse, transposed)


def _tensor(x: Tensor, positions: Positions, seq_dim: int) -> Tensor:
    """Positions of any form as a tensor: a graph has no other."""
    length = x.shape[seq_dim]
    if isinstance(positions, Packed):
        positions = packed(positions.ends, length)
    elif not isinstance(positions, Tensor):
        positions = torch.arange(length, device=x.device) + positions
    if positions.ndim != 1:
        return positions
    place = x.ndim + seq_dim
    return positions.reshape((1,) * place + (length,) + (1,) * (x.ndim - 1 - place))


def _way(x: Tensor, spec: str, seq_dim: int, inverse: bool) -> Way:
    return Way(_kernel(x), _spec(spec), False, seq_dim, inverse)


def _rotate(
    x: Tensor, positions: Tensor, spec: str, seq_dim: int, inverse: bool, transposed: bool
) -> Tensor:
    result = torch.empty_like(x)
    way = _way(x, spec, seq_dim, inverse)
    launch.turn(way, (x.detach(),), (result,), (positions,), transposed=transposed)
    return result


def _rotate_in_place(
    x: Tensor, positions: Tensor, spec: str, seq_dim: int, inverse: bool, transposed: bool
) -> None:
    way = _way(x, spec, seq_dim, inverse)
    launch.turn(way, (x.detach(),), (x.detach(),), (positions,), transposed=transposed)


def _guarded(x: Tensor, *rest: Any) -> None:
    """Below autograd, for inputs that need no gradient; with the change of contents announced."""
    if torch.is_grad_enabled() and x.requires_grad:
        raise RuntimeError(
            "posenc::rotate_: expected a tensor without gradient, got one that needs it. "
            "Use posenc.rotate(..., inplace=True), which keeps the gradients right."
        )
    with torch._C._AutoDispatchBelowAutograd():
        torch.ops.posenc.rotate_(x, *rest)
    torch.autograd.graph.increment_version(x)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ARG001
    _, positions, *ctx.rest = inputs
    ctx.save_for_backward(positions)


def _backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    spec, seq_dim, inverse, transposed = ctx.rest
    (positions,) = ctx.saved_tensors
    turned = torch.ops.posenc.rotate(gradient, positions, spec, seq_dim, inverse, not transposed)
    return turned, None, None, None, None, None


def _batched(
    name: str, info: Any, dims: tuple[Any, ...], x: Tensor, positions: Tensor, *rest: Any
) -> Any:
    """One more leading axis; positions have an axis for each of those of `x` already."""
    x = x.expand(info.batch_size, *x.shape) if dims[0] is None else x.movedim(dims[0], 0)
    positions = positions[None] if dims[1] is None else positions.movedim(dims[1], 0)
    return getattr(torch.ops.posenc, name)(x, positions, *rest), 0


class Followed(torch.autograd.Function):
    """The operator for `torch.func.grad`, which does not know the rules of other operators."""

    @staticmethod
    def forward(*inputs: Any) -> Tensor:
        return torch.ops.posenc.rotate(*inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _remember(ctx, inputs, output)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        *rest, transposed = ctx.rest
        turned = Followed.apply(gradient, *ctx.saved_tensors, *rest, not transposed)
        return turned, None, None, None, None, None

    @staticmethod
    def vmap(info: Any, dims: tuple[Any, ...], *inputs: Any) -> Any:
        return _batched("rotate", info, dims, *inputs)


library.impl("rotate_", _guarded, "Autograd")
torch.library.register_fake("posenc::rotate", lambda x, *_: torch.empty_like(x), lib=library)
torch.library.register_fake("posenc::rotate_", lambda *_: None, lib=library)
torch.library.register_autograd("posenc::rotate", _backward, setup_context=_remember, lib=library)
torch.library.register_vmap("posenc::rotate", functools.partial(_batched, "rotate"), lib=library)


# --- add ------------------------------------------------------------------------------------------


def added(x: Tensor, positions: Positions, spec: Any, seq_dim: int) -> Tensor:
    """Embeddings plus a table by the operator."""
    return torch.ops.posenc.add(x, _tensor(x, positions, seq_dim), _text(spec), seq_dim)


def _add(x: Tensor, positions: Tensor, spec: str, seq_dim: int) -> Tensor:
    return launch.add(x.detach(), positions, _spec(spec), seq_dim, _kernel(x))


def _add_remember(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ARG001
    ctx.scale = _spec(inputs[2]).embedding_scale


def _add_backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    return launch.scaled(gradient, ctx.scale), None, None, None


for device in ("CPU", "CUDA"):
    library.impl("rotate", _rotate, device)
    library.impl("rotate_", _rotate_in_place, device)
    library.impl("add", _add, device)
torch.library.register_fake("posenc::add", lambda x, *_: torch.empty_like(x), lib=library)
torch.library.register_autograd(
    "posenc::add", _add_backward, setup_context=_add_remember, lib=library
)
torch.library.register_vmap("posenc::add", functools.partial(_batched, "add"), lib=library)
