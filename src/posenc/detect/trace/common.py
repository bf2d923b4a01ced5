"""What all layers of a list do alike that nothing states: no fault of any of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from posenc.detect.trace.expected import Expectations
from posenc.detect.trace.places import Places
from posenc.detect.trace.result import Finding

UNSTATED = "and nothing states what is meant"
HARMLESS = "which changes no score of a rotation"


def parted(
    findings: Sequence[Finding], stacks: Mapping[int, Any], against: Expectations, places: Places
) -> tuple[list[Finding], list[str]]:
    """Findings of some layers, and remarks for what is the same in all of a list."""
    sizes = Counter(stacks.values())
    alike = Counter((stacks[f.layer], _what(f)) for f in findings)
    shifts = Counter((stacks[f.layer], f.found) for f in findings if _shifts(f))
    kept: list[Finding] = []
    remarks: dict[str, None] = {}
    for finding in findings:
        stack = stacks[finding.layer]
        every = alike[stack, _what(finding)] == sizes[stack]
        if every and against.read and finding.field in ("scale", "heads"):
            why = UNSTATED
        elif (
            _shifts(finding)
            and not places.stated
            and shifts[stack, finding.found] == 2 * sizes[stack]  # of queries and of keys
        ):
            why = HARMLESS
        else:
            kept.append(finding)
            continue
        text = str(finding).partition(", ")[2]
        remarks[f"all {sizes[stack]} layers, {text}, {why}"] = None
    return kept, list(remarks)


def _what(finding: Finding) -> tuple[Any, ...]:
    return tuple(value for name, value in vars(finding).items() if name != "layer")


def _shifts(finding: Finding) -> bool:
    """Whether all positions are moved by a number."""
    return finding.field == "positions" and finding.found.startswith("position p ")
