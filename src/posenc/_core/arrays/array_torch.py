"""The constants of a spec as torch tensors: what `array` can define only once torch is there.

Tensors that belong to a graph must never be kept: a fake tensor or a traced constant left in a
cache would poison every later call. So there are three ways:

- eager code and `torch.compile` share real tensors, made once per device and kept on the spec. The
  compiler takes them as they are, and a compiled call copies nothing from the host;
- export writes plain numbers into its graph, and nothing is kept;
- beside fake tensors, tensors under a transform, and other subclasses, nothing is kept either.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from posenc._core.arrays.words import words
from posenc._core.tracing import outside


def constants(spec: Any, beside: Tensor) -> dict[str, Any]:
    """The constants of `spec` on the device of `beside`."""
    device = beside.device
    if torch.compiler.is_compiling():
        # The compiler names a constant after the function it came from, and refuses two of one
        # name. Taking all of it gives each a name of its own, and costs nothing in the graph.
        constants = (
            {key: _resident(spec, key, device)[...] for key in spec.texts}
            if holds_tensors()
            else _made(spec, device)
        )
        # The compiler writes C++, where the overflow of a signed product is undefined.
        return {k: words(v) if v.dtype == torch.int64 else v for k, v in constants.items()}
    return _kept(spec, device) if type(beside) is Tensor else _made(spec, device)


def holds_tensors() -> bool:
    """Whether the graph that is traced may hold tensors of ours, rather than their numbers."""
    # torch 2.6 cannot say; numbers in the graph are right under export and under compile.
    exporting = torch.compiler.is_exporting() if hasattr(torch.compiler, "is_exporting") else True
    return not (exporting or _every_length_symbolic())


@outside
def _every_length_symbolic() -> bool:
    """Whether this is `torch.compile(dynamic=True)`.

    It makes a symbol of a resident's length too, and then finds nothing that defines it.
    """
    return not torch._dynamo.config.assume_static_by_default


@outside
def _resident(spec: Any, key: str, device: torch.device) -> Tensor:
    """What the compiler calls, outside its graph, in place of tracing: one guard, on the spec."""
    return _kept(spec, device)[key]


def _kept(spec: Any, device: torch.device) -> dict[str, Tensor]:
    cache: dict[torch.device, dict[str, Tensor]] = spec.device_arrays
    if device not in cache:
        jit: Any = torch._C
        tracing = jit._get_tracing_state()
        jit._set_tracing_state(None)  # `torch.jit.trace` would take them for its own
        try:
            # An inference tensor in the cache would be refused by autograd ever after.
            with torch.inference_mode(mode=False):
                tensors = _made(spec, device)
        finally:
            jit._set_tracing_state(tracing)
        if any(type(value) is not Tensor for value in tensors.values()):
            return tensors
        cache[device] = tensors
    return cache[device]


def _made(spec: Any, device: torch.device) -> dict[str, Tensor]:
    tensors = {}
    for key, (dtype, shape, text) in spec.texts.items():
        number = float if dtype.startswith("float") else int
        values = [number(word) for word in text.split(" ")] if text else []
        tensors[key] = torch.tensor(values, dtype=getattr(torch, dtype), device=device).reshape(
            shape
        )
    return tensors
