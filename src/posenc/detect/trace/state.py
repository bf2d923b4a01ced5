"""A model that runs and is afterwards bit for bit as it was."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

DEEPEST = 6  # containers inside each other, in which a cache keeps its tensors


@contextlib.contextmanager
def kept(model: Any) -> Iterator[None]:
    """Run a model on copies of its buffers; put back what its modules hold, and random states.

    Parameters stay as they are: no forward writes to them. Nothing asks them for gradients.
    """
    modules = [*model.modules()] if isinstance(model, nn.Module) else []
    before = [(holder, dict(holder)) for m in modules
              for holder in (vars(m), m._buffers, m._modules)]  # fmt: skip
    asked = {
        p for m in modules for p in m._parameters.values() if p is not None and p.requires_grad
    }
    copies: dict[int, Any] = {}
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()  # noqa: NPY002
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    try:
        for module in modules:
            vars(module).update({
                key: _copied(v, copies)
                for key, v in vars(module).items() if not key.startswith("_")
            })  # fmt: skip
            module._buffers.update({k: _copied(v, copies) for k, v in module._buffers.items()})
        for parameter in asked:
            parameter.requires_grad_(False)
        yield
    finally:
        for parameter in asked:
            parameter.requires_grad_(True)
        for holder, values in before:
            holder.clear()
            holder.update(values)
        torch.set_rng_state(states[0])
        random.setstate(states[1])
        np.random.set_state(states[2])  # noqa: NPY002
        torch.cuda.set_rng_state_all(devices)


def _copied(value: Any, copies: dict[int, Any], depth: int = 0) -> Any:
    """Tensors that are written to, such as a cache, as copies; what shares them, shares a copy."""
    if id(value) in copies:
        return copies[id(value)][1]
    copy = value
    if isinstance(value, Tensor) and not isinstance(value, nn.Parameter):
        copy = value.detach().clone() if value.is_leaf and not value.is_meta else value
    elif type(value) in (list, tuple, dict) and depth < DEEPEST:
        items = [*value.values()] if isinstance(value, dict) else [*value]
        new = [_copied(item, copies, depth + 1) for item in items]
        if any(a is not b for a, b in zip(items, new, strict=True)):
            copy = dict(zip(value, new, strict=True)) if type(value) is dict else type(value)(new)
    copies[id(value)] = (value, copy)
    return copy


def without_graphs(value: Any, depth: int = 0, seen: set[int] | None = None) -> None:
    """Let a cache that grew forget the graphs of its tensors, wherever it keeps them."""
    seen = set() if seen is None else seen
    if id(value) in seen or depth > DEEPEST or isinstance(value, (str, bytes, nn.Module, type)):
        return
    seen.add(id(value))
    plain = isinstance(value, (list, dict, tuple))
    holder: Any = value if plain else getattr(value, "__dict__", {})
    for key, item in [*(holder.items() if isinstance(holder, dict) else enumerate(holder))]:
        if not isinstance(item, Tensor):
            without_graphs(item, depth + 1, seen)
        elif item.requires_grad and not isinstance(holder, tuple):
            holder[key] = item.detach()
