"""The candidates, in the order in which they are asked, and the choice of one.

`run` gives a request to the first candidate that can do it. The reference comes last and refuses
none. A kernel that is asked for by name does it, or the error says why not.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from posenc._core.arrays.array import is_strict, numpy_rules
from posenc._core.errors import bad_argument, suggest
from posenc._core.tracing import is_compiling
from posenc.kernels import reference
from posenc.kernels.cpu import Cpu
from posenc.kernels.gpu import Gpu
from posenc.kernels.requests import Add, Bias, CosSin, Request, Rerotate, Rotate, Table

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
        todo = "kernel='auto' falls back on the reference."
        raise bad_argument(f"{request.caller}: kernel={kernel!r}", "what it computes", reason, todo)
    compute = reference.OPERATIONS[kind]
    # The other verbs are under these rules from the start; `rotate` is spared the frame.
    if kind is Rotate and "jax" in sys.modules and is_strict():
        return numpy_rules(compute)(request)
    return compute(request)


def check_kernel(kernel: Any, caller: str) -> None:
    """Raise unless `kernel` is the name of one."""
    if kernel not in KERNELS:
        todo = suggest(kernel, KERNELS) if isinstance(kernel, str) else ""
        raise bad_argument(f"{caller}: kernel", f"one of {KERNELS}", repr(kernel), todo)


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
    from posenc.kernels.torch.state import traced

    return traced() is not None


def _exporting(torch: Any) -> bool:
    # torch 2.6 cannot say.
    return torch.compiler.is_exporting() if hasattr(torch.compiler, "is_exporting") else True


def _why_not(candidate: Candidate, request: Request) -> str | None:
    if type(request) not in candidate.operations:
        return "no such operation there"
    if is_compiling():
        from posenc.kernels.torch.state import absent_here

        return absent_here(candidate) or candidate.why_not(request)
    return candidate.absent() or candidate.why_not(request)


def report() -> list[dict[str, Any]]:
    """For each operation and kernel whether it runs here, and why not."""
    rows = []
    for operation, kind in OPERATIONS.items():
        for candidate in CANDIDATES:
            reason = candidate.absent()
            if kind not in candidate.operations:
                reason = "no such operation there"
            runs, text = reason is None, reason or candidate.about
            rows.append({"op": operation, "kernel": candidate.name, "runs": runs, "reason": text})
        text = "any array library, dtype and spec"
        rows.append({"op": operation, "kernel": "reference", "runs": True, "reason": text})
    text = "the only one there is for content"
    rows.append({"op": "relative", "kernel": "reference", "runs": True, "reason": text})
    return rows
