"""One layer's keys, turned from where they were written to where they stand."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from posenc._core.arrays.array import is_divided, namespace
from posenc._core.errors import bad_argument
from posenc.encodings.rotary.base import RotarySpec
from posenc.encodings.rotary.rope import RoPE
from posenc.functional.arguments.moves import difference, moved
from posenc.kernels.native import native
from posenc.kernels.torch.state import NARROW, PLAIN, traced


@functools.lru_cache(maxsize=256)
def as_stored(spec: RotarySpec) -> RotarySpec:
    """A rotation of keys in the order of channels that they have in the cache."""
    pairing = spec.channels
    if pairing.output == "half" and pairing.order != "half":
        return spec.replace(pairing=pairing.replace(order="half", output="same"))
    return spec


def turned(keys: Tensor, before: RotarySpec, after: RotarySpec, old: Tensor, new: Tensor) -> Tensor:
    """A copy of keys, rotated by `before` at `old`, as `after` would have them at `new`."""
    if is_divided(keys):
        return of_heads(keys, lambda part: turned(part, before, after, old, new))
    kernel = _kernel(before, after) if _plain(keys) else None
    if kernel is not None:
        result = torch.empty_like(keys, memory_format=torch.contiguous_format)
        far = new - old if before == after else torch.cat([new, old.expand_as(new)], dim=-1)
        kernel.turn((keys,), (result,), far[:, None].contiguous(), -2, torch.get_num_threads())
        return result
    xp = namespace(keys, "posenc.torch.cache")
    old, new = (t[:, None].to(keys.device) for t in (old, new))
    return moved(before, after, keys, old, new, xp=xp)


def of_heads(t: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
    """What changes all heads alike, where processes may have divided them among each other."""
    if not is_divided(t):
        return change(t)
    whole: Any = t
    if not all(place.is_replicate() or place.is_shard(1) for place in whole.placements):
        todo = "Redistribute them, or track the part of each process."
        expected = "keys and values that are whole, or divided over heads (axis 1)"
        raise bad_argument("posenc.torch.cache", expected, f"placements {whole.placements}", todo)
    part = change(whole.to_local()).contiguous()
    shape = torch.Size((*t.shape[:2], *part.shape[2:]))
    sizes = {"shape": shape, "stride": torch.empty(shape, device="meta").stride()}
    result: Tensor = type(whole).from_local(
        part, whole.device_mesh, whole.placements, run_check=False, **sizes
    )
    return result


def _plain(keys: Tensor) -> bool:
    """Whether the compiled kernel may read the keys where they lie."""
    followed = torch.is_grad_enabled() and keys.requires_grad
    return (
        type(keys) in PLAIN and keys.is_cpu and keys.dtype in NARROW and not followed
        and not keys.is_neg() and traced() is None
    )  # fmt: skip


@functools.lru_cache(maxsize=256)
def _kernel(before: RotarySpec, after: RotarySpec) -> Any:
    """What turns by the difference of two rotations, or None where there is no such kernel."""
    module = native()
    if isinstance(module, str) or not all(
        isinstance(spec, RoPE) and "step" in spec.arrays for spec in (before, after)
    ):
        return None
    pairing, factor = before.channels, after.attention_factor / before.attention_factor
    if before == after:  # the angle of how far a key moves
        phases = module.Phases(before.arrays["step"])
    else:
        arrays = difference(before, after).arrays
        phases = module.Phases(arrays["step"], arrays.get("origin"))
    sign = -1 if pairing.direction == "backward" else 1
    return module.Rotation(
        phases, pairing.order, pairing.order, pairing.part, pairing.blocks, sign, factor, False
    )
