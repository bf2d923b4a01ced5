"""The claims in the report of the study: verdicts, and what they rest on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from posenc.study.claims import Claim, registrations
from posenc.study.document import (
    Block,
    Paragraph,
    SectionHeading,
    TextTable,
)
from posenc.study.results import Results
from posenc.study.statistics import detectable, shown
from posenc.study.verdicts import ALPHA, ClaimVerdict, PartResult, judge

__all__ = ["anew_part", "claims_part", "findings_part", "registered_part"]

MARKS = {"reproduced": "✓", "contradicted": "✗", "undecided": "?", "not run": "–"}
HOW = (
    "The unit is the seed: it settles initial weights and batches for every encoding alike, so "
    "differences are taken within seeds, and test examples are not counted as replicates. ± is "
    "half of a 95 % t-interval over seeds. A claim is **reproduced** where all of its parts hold "
    "with p < 0.05 after Holm's adjustment over all registered claims, whether or not they were "
    "run, **contradicted** where the contrary of a part does, and **undecided** otherwise. The p "
    "values are those of paired t tests, or of two one-sided tests for equality within a margin; a "
    "part whose exact p of sign flips is above 0.05 counts as saying nothing."
)
REGISTERED = (
    "Claims and margins were registered in `claims.toml` before the run, but not blindly: a pilot "
    "on the same tasks, with other code, had informed which claims were made and their margins."
)
ANEW = (
    "What is said of longer texts is judged by the last 32 characters of each window, which have "
    "nearly the whole length before them; most characters of a whole window have less. This was "
    "decided after the run: the claims were registered on whole windows, and both verdicts stand "
    "here."
)


def claims_part(verdicts: Sequence[ClaimVerdict]) -> Iterator[Block]:
    """A verdict for each claim."""
    yield SectionHeading(2, "What was claimed, and what came out")
    head = ("claim", "source", "verdict", "p")
    yield TextTable(head, tuple(_verdict(v) for v in verdicts if not v.claim.unexpected), left=3)
    yield SectionHeading(2, "Not expected at this size")
    yield Paragraph(
        "These statements were made of models a thousand times larger. A verdict on one of them "
        "says something about small models, and nothing about the paper."
    )
    rows = tuple(
        (*_verdict(v)[:3], v.claim.unexpected, _p(v)) for v in verdicts if v.claim.unexpected
    )
    yield TextTable(
        ("claim", "source", "verdict", "why it was not expected, as registered", "p"), rows, left=4
    )
    yield Paragraph(HOW)


def registered_part() -> Iterator[Block]:
    """When claims were registered, and what ran after."""
    yield Paragraph(REGISTERED)
    head = ("registered (UTC)", "SHA-256 of claims.toml", "what ran after it")
    rows = [(r.time, f"`{r.sha256}`", r.what) for r in registrations()]
    yield TextTable(head, tuple(rows), left=3)


def anew_part(
    results: Results, claims: Sequence[Claim], verdicts: Sequence[ClaimVerdict]
) -> Iterator[Block]:
    """The claims whose metric was changed after the run, with both verdicts."""
    before = judge(results, [claim.as_registered() for claim in claims])
    both = [
        (v, old)
        for v, old in zip(verdicts, before, strict=True)
        if v.claim.registered and v.word != "not run"
    ]
    if not both:
        return
    yield SectionHeading(2, "Judged by the last characters")
    yield Paragraph(ANEW)
    head = ("claim", "last characters", "p", "as registered, whole windows", "p")
    rows = [(v.claim.text, _verdict(v)[2], _p(v), _verdict(old)[2], _p(old)) for v, old in both]
    yield TextTable(head, tuple(rows), left=2)


def _verdict(v: ClaimVerdict) -> tuple[str, str, str, str]:
    return v.claim.text, v.claim.source, f"{MARKS[v.word]} **{v.word}**", _p(v)


def _p(v: ClaimVerdict) -> str:
    return "" if v.word == "not run" else probability(v.p)


def probability(p: float) -> str:
    """A p value as people read it.

    Parameters
    ----------
    p : float
        From 0 to 1.
    """
    return "< 0.0001" if p < 0.0001 else f"{p:.4f}" if p < 0.01 else f"{p:.2f}"


def findings_part(verdicts: Sequence[ClaimVerdict]) -> Iterator[Block]:
    """What the results say of each part of each claim."""
    yield SectionHeading(2, "The claims part by part")
    alpha = ALPHA / max(len(verdicts), 1)
    yield Paragraph(
        "Left minus right in the unit of the metric, over seeds. p is that of the part alone, "
        "before the adjustment for the number of claims; p of sign flips is exact. Detectable is "
        "the smallest difference, beyond the margin, that a paired t test of so many seeds finds "
        f"four times of five at the level of {alpha:.4f}, the strictest of Holm's adjustment: what "
        "is smaller may well be there and not be seen."
    )
    rows = [
        (v.claim.id if i == 0 else "", *_finding(f, alpha))
        for v in verdicts
        for i, f in enumerate(v.findings)
        if f.difference is not None
    ]
    head = ("claim", "part", "task", "difference", "detectable", "seeds", "p", "p of flips")
    yield TextTable(head, tuple(rows), left=3)


def _finding(f: PartResult, alpha: float) -> tuple[str, ...]:
    part, difference = f.part, f.difference
    assert difference is not None  # noqa: S101 - parts without data are left out
    p = min(f.holds, f.fails)
    return (
        f"`{part}`",
        f"{part.task}, {part.metric}",
        shown(difference, sign=True),
        "" if difference.count == 1 else f"{detectable(difference, alpha=alpha):.3f}",
        str(difference.count),
        "" if p == 1.0 else probability(p),
        probability(f.flips),
    )
