"""The candidates, in the order in which they are asked, and the choice of one.

`run` gives a request to the first candidate that can do it. The reference comes last and refuses
none. A kernel that is asked for by name does it, or the error says why not.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from posenc._core.arrays.array import Array, is_torch
from posenc._core.calls import is_strict, numpy_rules
from posenc._core.errors import bad_argument, suggest
from posenc._core.tracing import is_compiling
from posenc.kernels import plans, reference
from posenc.kernels.cpu import Cpu
from posenc.kernels.requests import (
    Add,
    Bias,
    CosSin,
    Refusal,
    Request,
    Rerotate,
    Rotate,
    Table,
)

# --- Triton: torch tensors on a GPU, or on a CPU in its interpreter -------------------------------


def rotate(request: Rotate) -> tuple[Array, ...]:
    """The arrays turned."""
    from posenc.kernels.torch.eager import turned

    return turned(request, "triton")


def add(request: Add) -> Array:
    """The embeddings plus the rows."""
    from posenc.kernels.torch.eager import added

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
        if isinstance(request, Rotate):
            reason = plans.why_no_turning(request) or plans.why_other_order(request.spec)
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


# --- the choice -----------------------------------------------------------------------------------


OPERATIONS: dict[str, type[Request]] = {
    "table": Table,
    "add": Add,
    "rotate": Rotate,
    "rerotate": Rerotate,
    "cos_sin": CosSin,
    "bias": Bias,
}


class Candidate(Protocol):
    """One way to compute some of the operations."""

    name: str
    operations: Mapping[type[Request], Callable[[Any], Any]]
    refusals: tuple[type[Exception], ...]  # of an operation, with nothing written

    @property
    def about(self) -> str:
        """What runs, where it is not absent."""

    def absent(self) -> str | None:
        """Why it does not run here at all, or None."""

    def why_not(self, request: Request) -> str | None:
        """Why it cannot do what is asked, or None."""


CANDIDATES: tuple[Candidate, ...] = (Cpu(), Gpu())
KERNELS = ("auto", "reference", *(candidate.name for candidate in CANDIDATES))


def run(request: Request, kernel: str) -> Any:
    """The result of the kernel of that name, or of the first that can."""
    kind = type(request)
    asked = kernel != "reference" and not (kernel == "auto" and _left_to_tracer(request))
    reason = "nothing"
    for candidate in CANDIDATES if asked else ():
        if kernel not in ("auto", candidate.name):
            continue
        reason = _why_not(candidate, request) or ""
        if not reason:
            try:
                return candidate.operations[kind](request)
            except candidate.refusals as refusal:
                reason = str(refusal)
    if kernel not in ("auto", "reference"):
        check_kernel(kernel, request.caller)
        raise bad_argument(
            f"{request.caller}: kernel={kernel!r}",
            "a call that it can compute",
            reason,
            "kernel='auto' falls back on the reference.",
        )
    compute = reference.OPERATIONS[kind]
    # The other verbs are under these rules from the start; `rotate` is spared the frame.
    if kind is Rotate and "jax" in sys.modules and is_strict():
        return numpy_rules(compute)(request)
    return compute(request)


def check_kernel(kernel: Any, caller: str) -> Any:
    """The name of a kernel; raise unless it is one."""
    if kernel not in KERNELS:
        raise bad_argument(
            f"{caller}: kernel",
            f"one of {KERNELS}",
            repr(kernel),
            suggest(kernel, KERNELS) if isinstance(kernel, str) else "",
        )
    return kernel


def _left_to_tracer(request: Request) -> bool:
    """Whether a tracer of torch follows what is done, and is better served by the reference.

    For more than one token on a CPU the compiler is given our operator to rotate by: Inductor forms
    the phases of the array engine anew for every head, and is slower (`benchmarks/compiled.py`).
    For one token the call of an operator costs more than that, and an exported graph stays free of
    our operators. Every other tracer knows the operations of the reference.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    if torch.compiler.is_compiling():
        exporting = getattr(torch.compiler, "is_exporting", lambda: True)  # torch 2.6 cannot say
        if not isinstance(request, Rotate) or exporting():
            return True
        x = request.arrays[0]
        # The compiler knows the length 1 from all others, without a condition in the graph.
        return bool(x.device.type != "cpu" or x.shape[request.seq_dim] == 1)
    from posenc.kernels.torch.state import traced

    return traced() is not None


def _why_not(candidate: Candidate, request: Request) -> str | None:
    if type(request) not in candidate.operations:
        return "it has no such operation"
    if is_compiling():
        from posenc.kernels.torch.state import absent_here

        return absent_here(candidate) or candidate.why_not(request)
    return candidate.absent() or candidate.why_not(request)


def report() -> list[dict[str, Any]]:
    """For each operation and kernel whether it runs here, and why not."""
    rows = []
    for operation, kind in OPERATIONS.items():
        for candidate in CANDIDATES:
            there = kind in candidate.operations
            reason = candidate.absent() if there else "it has no such operation"
            rows.append((operation, candidate.name, reason is None, reason or candidate.about))
        rows.append((operation, "reference", True, "any array library, dtype and spec"))
    rows.append(("relative", "reference", True, "the only kernel of this operation"))
    return [dict(zip(("op", "kernel", "runs", "reason"), row, strict=True)) for row in rows]
