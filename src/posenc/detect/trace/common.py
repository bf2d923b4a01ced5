"""What the layers of a list do alike: no fault of any of them where nothing states it."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from posenc.detect.trace.compared import Fault
from posenc.detect.trace.findings import CLOSE, Judgement
from posenc.detect.trace.result import Finding

UNSTATED = "and nothing states what is meant"
HARMLESS = "which changes no score of a rotation"


def compare_layers(stacks: Mapping[Any, Sequence[Judgement]], *, read: bool, stated: bool) -> None:
    """Find layers that differ from most of their list; what all do alike becomes a remark."""
    for layers in stacks.values():
        habits: dict[Any, Counter[str]] = defaultdict(Counter)
        for judged in layers:
            for key, own in judged.habits.items():
                value = next((other for other in habits[key] if _same(other, own)), own)
                judged.habits[key] = value
                habits[key][value] += 1
        usual = {key: count.most_common(1)[0] for key, count in habits.items()}
        for judged in layers:
            for (tensor, field), value in judged.habits.items():
                most, count = usual[tensor, field]
                if value != most and 2 * count > len(layers):
                    judged.add(tensor, Fault(field, most, value))
        alike = Counter(_what(f) for judged in layers for f in judged.findings)
        shifts = Counter(f.found for judged in layers for f in judged.findings if _shifts(f))
        for judged in layers:
            kept = []
            for finding in judged.findings:
                why = ""
                if alike[_what(finding)] == len(layers) and read and finding.field == "heads":
                    why = UNSTATED
                elif not stated and shifts[finding.found] == 2 * len(layers) and _shifts(finding):
                    why = HARMLESS  # of queries and of keys
                if why:
                    text = str(finding).partition(", ")[2]
                    layers[0].remarks.append(f"all {len(layers)} layers, {text}, {why}")
                else:
                    kept.append(finding)
            judged.findings = kept


def _same(one: str, other: str) -> bool:
    """Whether two numbers are the same but for rounding."""
    try:
        return math.isclose(float(one), float(other), rel_tol=CLOSE)
    except ValueError:
        return one == other


def _what(finding: Finding) -> tuple[Any, ...]:
    return tuple(value for name, value in vars(finding).items() if name != "layer")


def _shifts(finding: Finding) -> bool:
    """Whether all positions are moved by a number."""
    return finding.field == "positions" and finding.found.startswith("position p ")
