"""The candidates, in the order in which they are asked, and the choice of one."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple, Protocol

from posenc._core.array import is_compiling
from posenc._core.errors import ArgumentError, mismatch
from posenc.kernels.cpu import Cpu
from posenc.kernels.gpu import Gpu
from posenc.kernels.refusal import Refusal
from posenc.kernels.requests import Add, Bias, CosSin, Request, Rotate, Table

__all__ = ["KERNELS", "OPERATIONS", "Candidate", "report", "serve"]

OPERATIONS: dict[str, type[Request]] = {
    "table": Table,
    "add": Add,
    "rotate": Rotate,
    "cos_sin": CosSin,
    "bias": Bias,
}


class Candidate(Protocol):
    """One way to compute some of the operations."""

    name: str
    serves: tuple[type[Request], ...]

    @property
    def about(self) -> str:
        """What runs, where it is not absent."""

    def absent(self) -> str | None:
        """Why it does not run here at all, or None."""

    def why_not(self, request: Request) -> str | None:
        """Why it cannot do what is asked, or None."""

    def run(self, request: Request) -> Any:
        """The result; raises `Refusal`, with nothing written, for what only the kernel sees."""


CANDIDATES: tuple[Candidate, ...] = (Cpu(), Gpu())
KERNELS = ("auto", "reference", *(candidate.name for candidate in CANDIDATES))


class Served(NamedTuple):
    """The result of a kernel."""

    value: Any


def serve(request: Request, kernel: str, caller: str) -> Served | None:
    """The result of the kernel of that name, or of the first that can; None if none can.

    Raises
    ------
    ArgumentError
        If a kernel that is asked for by name cannot do it; with the reason.
    """
    if kernel == "auto" and _left_to_tracer(request):
        return None
    reason = "nothing"
    for candidate in CANDIDATES:
        if kernel not in ("auto", candidate.name):
            continue
        reason = _reason(candidate, request) or ""
        if not reason:
            try:
                return Served(candidate.run(request))
            except Refusal as refusal:
                reason = str(refusal)
    if kernel == "auto":
        return None
    todo = "kernel='auto' falls back on the reference."
    raise ArgumentError(mismatch(f"{caller}: kernel={kernel!r}", "what it computes", reason, todo))


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
        if not isinstance(request, Rotate) or _exporting(torch):
            return True
        x = request.arrays[0]
        # The compiler knows the length 1 from all others, without a condition in the graph.
        return bool(x.device.type != "cpu" or x.shape[request.seq_dim] == 1)
    from posenc.kernels.torch_state import traced

    return traced() is not None


def _exporting(torch: Any) -> bool:
    # torch 2.6 cannot say.
    return torch.compiler.is_exporting() if hasattr(torch.compiler, "is_exporting") else True


def _reason(candidate: Candidate, request: Request) -> str | None:
    if type(request) not in candidate.serves:
        return "no such operation there"
    if is_compiling():
        from posenc.kernels.torch_state import absent_here

        return absent_here(candidate) or candidate.why_not(request)
    return candidate.absent() or candidate.why_not(request)


def report() -> list[dict[str, Any]]:
    """For each operation and kernel whether it runs here, and why not."""
    rows = []
    for operation, kind in OPERATIONS.items():
        for candidate in CANDIDATES:
            reason = candidate.absent()
            if kind not in candidate.serves:
                reason = "no such operation there"
            said = reason or candidate.about
            rows.append(
                {"op": operation, "kernel": candidate.name, "runs": reason is None, "reason": said}
            )
        rows.append(
            {
                "op": operation,
                "kernel": "reference",
                "runs": True,
                "reason": "any array library, dtype and spec",
            }
        )
    rows.append(
        {
            "op": "relative",
            "kernel": "reference",
            "runs": True,
            "reason": "the only one there is for content",
        }
    )
    return rows
