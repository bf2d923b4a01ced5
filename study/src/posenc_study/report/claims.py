"""The claims in the report of the study: verdicts, and what they rest on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from posenc_study.claims.registered import Claim, registrations
from posenc_study.claims.verdicts import ALPHA, ClaimVerdict, PartResult, judge, untrained
from posenc_study.report.document import (
    Block,
    Paragraph,
    SectionHeading,
    TextTable,
)
from posenc_study.results.records import Record, Results
from posenc_study.statistics import detectable, shown

MARKS = {"reproduced": "✓", "contradicted": "✗", "undecided": "?", "not run": "–"}
HOW = (
    "The unit is the seed: it settles initial weights and batches for every encoding alike, so "
    "differences are taken within seeds, and test examples are not counted as replicates. ± is "
    "half of a 95 % t-interval over seeds. A claim is **reproduced** where all of its parts hold "
    "with p < 0.05 after Holm's adjustment over all claims registered for the question, whether or "
    "not they were run, **contradicted** where the contrary of a part does, and **undecided** "
    "otherwise. The p values are those of paired t tests, or of two one-sided tests for equality "
    "within a margin; a part whose exact p of sign flips is above 0.05 counts as saying nothing."
)
RATE = (
    "All encodings of a task are trained at one rate; none had a search of its own. Where "
    "encodings are compared, the difference is one at that rate: one that learns better at another "
    "is shown worse than it can be."
)
UNTRAINED = (
    "A model did not train if its last loss is more than twice the median of its encoding and "
    "task, and more than 0.1 nats above it. This rule was made after the run; every comparison "
    "leaves out the seed of such a model."
)
INVENTED = {"seq2seq": "an invented grammar"}
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


def claims_part(results: Results, verdicts: Sequence[ClaimVerdict]) -> Iterator[Block]:
    """A verdict for each claim, and what it rests on."""
    yield SectionHeading(2, "What was claimed, and what came out")
    head = ("claim", "source", "verdict", "rests on", "p")
    lost = untrained(results)
    rows = tuple(
        (*_verdict(v)[:3], _basis(results, v, lost), _p(v))
        for v in verdicts
        if not v.claim.unexpected
    )
    yield TextTable(head, rows, left=4)
    yield SectionHeading(2, "Not expected at this size")
    yield Paragraph(
        "These statements were made of models a thousand times larger. A verdict on one of them "
        "says something about small models, and nothing about the paper."
    )
    others = tuple(
        (*_verdict(v)[:3], v.claim.unexpected, _basis(results, v, lost), _p(v))
        for v in verdicts
        if v.claim.unexpected
    )
    why = "why it was not expected, as registered"
    yield TextTable(("claim", "source", "verdict", why, "rests on", "p"), others, left=5)
    yield Paragraph(HOW)
    yield Paragraph(RATE)


def _basis(results: Results, v: ClaimVerdict, lost: Sequence[Record]) -> str:
    """The tasks of a claim, their rate, and models in it that did not train."""
    words = []
    for task in dict.fromkeys(f.part.task for f in v.findings):
        note = f" ({INVENTED[task]})" if task in INVENTED else ""
        settings = [dict(record.cell.settings) for record in results.finished(task)]
        rates = {f"{own['rate']:g}" for own in settings if "rate" in own}
        rate = f", rate {'/'.join(sorted(rates))}" if rates else ""
        words.append(f"{task}{note}{rate}")
        absent = _encodings(v, task) - {record.cell.encoding for record in results.finished(task)}
        words += [f"not run: {', '.join(sorted(absent))}"] * bool(absent and settings)
        seeds = {record.cell.seed for record in results.finished(task)}
        words += ["1 seed, where a verdict takes at least 2"] * (len(seeds) == 1)
    count = sum(_uses(v, record) for record in lost)
    if count:
        words.append(f"{count} {'model' if count == 1 else 'models'} that did not train")
    return "; ".join(words)


def _encodings(v: ClaimVerdict, task: str) -> set[str]:
    """The encodings whose scores a claim compares in a task."""
    parts = [f.part for f in v.findings if f.part.task == task]
    return {s.encoding for part in parts for s in part.left.scores + part.right.scores}


def _uses(v: ClaimVerdict, record: Record) -> bool:
    cell = record.cell
    return any(
        f.part.task == cell.task
        and cell.encoding in {s.encoding for s in f.part.left.scores + f.part.right.scores}
        and (f.part.seeds is None or f.part.seeds[0] <= cell.seed < f.part.seeds[1])
        for f in v.findings
    )


def untrained_part(
    results: Results, claims: Sequence[Claim], verdicts: Sequence[ClaimVerdict]
) -> Iterator[Block]:
    """The models that did not train, and the verdicts without them."""
    lost = untrained(results)
    if not lost:
        return
    kept = Results(tuple(r for r in results.records if r not in lost), results.provenances)
    both = [
        (v, other)
        for v, other in zip(verdicts, judge(kept, claims), strict=True)
        if any(_uses(v, record) for record in lost)
    ]
    yield SectionHeading(2, "Without the models that did not train")
    total = f"{sum(not r.failed for r in results.records)} models"
    names = [f"{r.cell} (last loss {r.final_loss:.2f})" for r in lost]
    yield Paragraph(f"{UNTRAINED} There are {len(lost)} among {total}: {'; '.join(names)}.")
    changed = sum(v.word != other.word for v, other in both)
    yield Paragraph(
        f"Without them, {changed or 'none'} of the {len(both)} verdicts that rest on them would "
        "change. Other claims keep their p but for Holm's adjustment."
    )
    head = ("claim", "all models", "p", "without them", "p")
    rows = [(v.claim.text, _verdict(v)[2], _p(v), _verdict(o)[2], _p(o)) for v, o in both]
    yield TextTable(head, tuple(rows), left=2)


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
    """A p value as people read it."""
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
