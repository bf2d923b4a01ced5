"""Findings in words: what an array is, how well that is known, and what was not settled."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from typing import Any

from posenc._core.spec.answers import brief
from posenc._core.spec.spec import Value
from posenc.detect.fit.description_length import MARGIN
from posenc.detect.identify.result import Finding, Identification

KINDS = {
    "table": "table of positions",
    "frequencies": "rotary frequencies",
    "slopes": "slopes of linear biases",
    "bias": "biases of relative positions",
    "other": "numbers",
}


def lines(result: Identification, *, most: int) -> Iterator[str]:
    """An identification for people: in full up to `most` findings, beyond that a line for each."""
    plural = "" if result.arrays == 1 else "s"
    yield f"{result.source}: {len(result)} of {result.arrays} array{plural} with positions"
    yield from (f"  {remark}" for remark in result.remarks)
    if len(result) > most:
        yield from _rows(result)
        return
    for finding in result:
        yield ""
        yield from _block(finding)


def _rows(result: Identification) -> Iterator[str]:
    width = min(max(len(finding.name) for finding in result), 48)
    for finding in result:
        name = finding.name if len(finding.name) <= width else f"…{finding.name[1 - width :]}"
        yield f"  {name.ljust(width)}  {headline(finding)}"
    yield "  --tensor NAME explains one."


def headline(finding: Finding) -> str:
    """A finding in one line."""
    what, spec = KINDS[finding.kind], told(finding.spec)
    off = finding.measures.get("relative_rms")
    return {
        "claimed": spec,
        "close": f"close to {spec}" + (f", {100 * off:.2g} % off" if off else ""),
        "by_name": f"{spec}, by its name and shape",
        "unknown": f"{what}: no rule that is known here",
        "unread": f"{what}: not read: {'; '.join(finding.remarks)}",
        "unclear": f"{what}: too little to tell",
    }[finding.verdict]


def _block(finding: Finding) -> Iterator[str]:
    shape = " x ".join(map(str, finding.shape))
    yield f"{finding.name}  {shape} {finding.dtype}: {KINDS[finding.kind]}"
    yield from (f"  {line}" for line in _verdict(finding))
    yield from (f"  - {remark}" for remark in finding.remarks)


def _verdict(finding: Finding) -> list[str]:
    """The verdict, and what it rests on."""
    measured = collections.defaultdict(float, finding.measures)
    bits = f"{measured['evidence']:,.0f} bits of evidence, {measured['description']:.0f}"
    spec = told(finding.spec)
    placement = [] if finding.placement is None else [finding.placement.words()]
    likeness = (
        "mean cosine of neighbouring rows, less that of all rows: "
        f"{measured['smoothness']:.2f}; effective rank: {measured['effective_rank']:.0f}"
    )
    return {
        "claimed": [spec, *placement, _rebuilt(finding), f"{bits} to state it"],
        "by_name": [f"{headline(finding)}; its numbers were not judged"],
        "close": [f"close to, but not, {spec}", *placement],
        "unknown": ["no rule that is known here rebuilds it"]
        + [likeness] * ("effective_rank" in finding.measures),
        "unclear": [f"too little to tell: no claim has {MARGIN:g} bits to spare"]
        + [f"perhaps {spec}"] * (finding.spec is not None),
        "unread": ["not read"],
    }[finding.verdict]


def _rebuilt(finding: Finding) -> str:
    residual, tolerance = (finding.measures.get(name, 0.0) for name in ("residual", "tolerance"))
    relative = "" if finding.kind in ("table", "bias") else ", relative"
    arithmetic = " in float32 arithmetic" if getattr(finding.spec, "phase", "") == "float32" else ""
    if not residual:
        return f"every entry rebuilt{arithmetic}, to the last bit"
    largest = f"every entry rebuilt{arithmetic}: largest difference {residual:.2g}{relative}"
    return f"{largest}, where {tolerance:.2g} is rounding" if tolerance else largest


def told(value: Any) -> str:
    """A spec in brief, rounded; or what stands in its place."""
    return brief(value, _plain) if isinstance(value, Value) else repr(value)


def _plain(argument: Any) -> str:
    if isinstance(argument, Value):
        return told(argument)
    if isinstance(argument, tuple):
        if len(argument) > 8:
            return f"({', '.join(map(_plain, argument[:3]))}, … {len(argument)} in all)"
        return f"({', '.join(map(_plain, argument))}{',' if len(argument) == 1 else ''})"
    if isinstance(argument, float):
        return f"{argument:.10g}"
    return repr(argument)
