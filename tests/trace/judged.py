"""What a trace says of a broken model, beside what is right to say of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from posenc.torch import LayerFinding, Trace, trace, tracing
from tests.trace.broken import Right
from tests.trace.models import Case


def traced(case: Case) -> Trace:
    """The trace of all calls of a case."""
    if len(case.calls) == 1:
        return trace(case.model, case.calls[0], expected=case.expected, positions=case.positions)
    with tracing(case.model, expected=case.expected) as tracer:
        for call in case.calls:
            case.model(**call)
    result: Any = tracer.result
    return result


def complaint(right: Right, findings: Sequence[LayerFinding]) -> str:
    """Why these findings are not what is right to say, or nothing: no layer is blamed wrongly."""
    if not findings:
        return "nothing is found"
    fields = {*(right.field or "").split("|")}
    if right.field and not fields & {finding.field for finding in findings}:
        return f"{findings[0].field}, where {right.field} would be right: {findings[0]}"
    if not any(right.says in str(finding) for finding in findings):
        return f"nothing says {right.says}: {findings[0]}"
    seen: dict[str, set[Any]] = {
        "layers": {finding.layer for finding in findings},
        "tensors": {finding.tensor for finding in findings},
        **{
            name: {index for finding in findings for index in getattr(finding, name)}
            for name in ("heads", "pairs", "tokens")
        },
    }
    for name, here in seen.items():
        due = getattr(right, name)
        if due is not None and here != {*due}:
            return f"{name} {sorted(here)}, where {sorted(due)} would be right: {findings[0]}"
    return ""
