"""What the layers of a list do alike: no fault of any of them where nothing states it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from posenc.detect.trace.compared import TensorFault
from posenc.detect.trace.findings import CLOSE, Judgement
from posenc.detect.trace.result import LayerFinding

UNSTATED = "and nothing states what is meant"
HARMLESS = "which changes no score of a rotation"


def compare_layers(stacks: Mapping[Any, Sequence[Judgement]], *, read: bool, stated: bool) -> None:
    """Find layers that differ from most of their list; what all do alike becomes a remark."""
    for layers in stacks.values():
        _compare_habits(layers)
        alike = Counter(_what(f) for one in layers for f in one.findings)
        shifts = Counter(f.found for one in layers for f in one.findings if _shifts(f))

        def why(finding: LayerFinding) -> str:
            """Why it is a remark, or nothing."""
            if alike[_what(finding)] == len(layers) and read and finding.field == "heads":  # noqa: B023
                return UNSTATED
            every = shifts[finding.found] == 2 * len(layers)  # noqa: B023 - queries and keys
            return HARMLESS if every and _shifts(finding) and not stated else ""

        for one in layers:
            texts = {str(f).partition(", ")[2]: why(f) for f in one.findings if why(f)}
            one.remarks += [f"all {len(layers)} layers, {t}, {w}" for t, w in texts.items()]
            one.findings = [finding for finding in one.findings if not why(finding)]


def _compare_habits(layers: Sequence[Judgement]) -> None:
    """What a layer does otherwise than most of its list."""
    for key in dict.fromkeys(key for one in layers for key in one.habits):
        count: Counter[str] = Counter()
        for one in layers:
            own = one.habits.get(key, "")
            one.habits[key] = next((other for other in count if _same(other, own)), own)
            count[one.habits[key]] += 1
        usual, most = count.most_common(1)[0]
        for one in layers:
            if one.habits[key] != usual and 2 * most > len(layers):
                expected, own = (text or "none" for text in (usual, one.habits[key]))
                one.add(key[0], TensorFault(key[1], expected, own))


def _same(one: str, other: str) -> bool:
    """Whether two numbers are the same but for rounding."""
    try:
        return math.isclose(float(one), float(other), rel_tol=CLOSE)
    except ValueError:
        return one == other


def _what(finding: LayerFinding) -> tuple[Any, ...]:
    return tuple(value for name, value in vars(finding).items() if name != "layer")


def _shifts(finding: LayerFinding) -> bool:
    """Whether all positions are moved by a number."""
    return finding.field == "positions" and finding.found.startswith("position p ")
