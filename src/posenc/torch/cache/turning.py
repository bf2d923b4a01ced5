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
from posenc.kernels import Rerotate, run


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
    old, new = (side[:, None].to(keys.device) for side in (old, new))
    xp = namespace(keys, "posenc.torch.cache")
    moved: Tensor = run(
        Rerotate(before, after, keys, old, new, -2, xp, "posenc.torch.cache"), "auto"
    )
    return moved


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
