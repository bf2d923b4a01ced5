"""What code that reads a tensor's memory would not see: who else is looking at the tensor."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from posenc._core.tracing import outside

PLAIN = (Tensor, nn.Parameter)
NARROW = (torch.float32, torch.bfloat16, torch.float16)  # what the compiled kernels take and give
_functorch = torch._C._functorch
_modes = torch._C._len_torch_dispatch_stack


def traced() -> str | None:
    """Who follows every operation, and would miss one that is none of torch's."""
    return "a compiler" if torch.compiler.is_compiling() else followed()


def followed() -> str | None:
    """The same, for code that no compiler sees."""
    if _modes():
        return "a dispatch mode, such as that of fake tensors or make_fx"
    if _functorch.peek_interpreter_stack() is not None:
        return "a transform of torch.func"
    if forward_ad._current_level >= 0:
        return "forward-mode differentiation"
    return "torch.jit.trace" if torch._C._get_tracing_state() is not None else None


@outside
def absent_here(candidate: Any) -> str | None:
    """Why a kernel does not run here at all; found out outside of what is traced."""
    return candidate.absent()


def has_memory(x: Tensor) -> bool:
    """Whether a tensor that passed for plain has memory; batched gradients have not."""
    try:
        x.data_ptr()
    except RuntimeError:
        return False
    return True


def transformed() -> bool:
    """Whether a transform of torch.func is at work."""
    return _functorch.peek_interpreter_stack() is not None


def why_not_memory(x: Tensor) -> str | None:
    """Why the memory of `x` is not its contents, or None; no matter where an operator is asked."""
    if traced():
        return None
    if type(x) not in PLAIN:
        return f"a {type(x).__name__}, whose contents are not in its own memory"
    if x.layout is not torch.strided or x.is_neg():
        return "a tensor whose values are not those in its memory (sparse, or a negative view)"
    return None
