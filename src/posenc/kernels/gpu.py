"""Triton as a candidate: torch tensors on a GPU, or on a CPU in its interpreter."""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from posenc._core.arrays.array import Array, is_torch
from posenc._core.tracing import is_compiling
from posenc.kernels import plans
from posenc.kernels.places import Positions
from posenc.kernels.requests import Add, Refusal, Request, Rotate


def rotate(request: Rotate) -> tuple[Array, ...]:
    """The arrays turned."""
    from posenc.kernels.torch.turn import turned

    return turned(request, "triton")


def add(request: Add) -> Array:
    """The embeddings plus the rows."""
    from posenc.kernels.torch.add import added

    return added(request, "triton")


@functools.cache
def _installed() -> bool:
    return importlib.util.find_spec("triton") is not None


@functools.cache
def gpu_device() -> bool:
    """Whether the system shows a device that may be a GPU; only torch can say what it can do.

    Linux names them under `/dev`: drivers of NVIDIA, also in a Jetson, of AMD, and those of WSL.
    """
    names = ("nvidia*", "nvhost*", "nvmap", "kfd", "dxg")
    return sys.platform != "linux" or any(any(Path("/dev").glob(name)) for name in names)


def _interpreted() -> bool:
    """Whether Triton runs its kernels in Python; it decides so where they are defined."""
    return os.environ.get("TRITON_INTERPRET") == "1"


class Gpu:
    """Triton for NVIDIA and AMD."""

    name = "triton"
    operations: Mapping[type[Request], Callable[[Any], Any]] = {Rotate: rotate, Add: add}
    refusals: tuple[type[Exception], ...] = (Refusal,)

    @property
    def about(self) -> str:
        """What it takes."""
        return "interpreted" if _interpreted() else "tensors on a GPU"

    def absent(self) -> str | None:
        """Why it does not run here at all, or None."""
        if not _installed():
            return "triton is not installed"
        if _interpreted():
            return None
        torch = sys.modules.get("torch")
        if not gpu_device() or (torch is not None and not torch.cuda.is_available()):
            return "no GPU"
        return None

    def why_not(self, request: Request) -> str | None:
        """Why it cannot do what is asked, or None."""
        arrays: tuple[Array, ...]
        places: tuple[Positions, ...]
        if isinstance(request, Rotate):
            pairing = request.spec.channels
            reason = plans.why_no_turning(request)
            if pairing.blocks or pairing.output != "same":
                reason = reason or "pairs in blocks, or a result in another order"
            arrays, places = request.arrays, request.positions
        else:
            assert isinstance(request, Add)  # noqa: S101 - for the type checker
            reason = plans.why_no_columns(request.spec)
            arrays, places = (request.x,), (request.positions,)
        for x, positions in zip(arrays, places, strict=True):
            reason = reason or _why_not_array(x) or plans.why_not_positions(positions)
        return reason


def _why_not_array(x: Array) -> str | None:
    if not is_torch(x):
        return "an array that is no tensor of torch"
    reason = plans.why_not_dtype(x.dtype)
    if reason or is_compiling():
        return reason  # under a compiler the operator stands in the graph
    if x.device.type != ("cpu" if _interpreted() else "cuda"):
        return f"a tensor on {x.device.type}"
    from posenc.kernels.torch.state import why_not_memory

    return why_not_memory(x)
