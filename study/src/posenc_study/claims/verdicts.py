"""What the results say of each claim: reproduced, contradicted or undecided.

Every part of a claim gives two p values: that it holds, and that its contrary does. A claim holds
where all parts do, so its p is the largest of theirs. It is contradicted where one part is, so that
p is the smallest, times their number. Both go through Holm's adjustment over *all* claims
that are registered for one question (a family), those without data counting as p = 1: running fewer
cells makes nothing easier.

    reproduced     adjusted p that it holds is below 0.05
    contradicted   adjusted p of the contrary is below 0.05
    undecided      neither

Sign flips veto: a part whose exact two-sided p of sign flips is above 0.05 says nothing, whatever
its t test says. Fewer than six seeds can therefore settle nothing.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from posenc_study.claims.registered import BETTER, Claim, ClaimPart, ClaimSide
from posenc_study.results.records import Record, Results
from posenc_study.statistics import (
    ConfidenceInterval,
    beyond,
    equivalence,
    holm,
    interval,
    sign_flip,
    t_test,
)

ALPHA = 0.05
UNTRAINED = 0.1  # nats

Word = Literal["reproduced", "contradicted", "undecided", "not run"]


@dataclass(frozen=True)
class PartResult:
    """What the results say of one part.

    Parameters
    ----------
    part : ClaimPart
        The comparison.
    difference : ConfidenceInterval or None
        Left minus right over the seeds, with 95 %; None without data.
    holds, fails : float
        p that the part holds, and that its contrary does.
    flips : float
        The exact p of sign flips of the test that these come from.
    """

    part: ClaimPart
    difference: ConfidenceInterval | None
    holds: float = 1.0
    fails: float = 1.0
    flips: float = 1.0


@dataclass(frozen=True)
class ClaimVerdict:
    """What the results say of a claim.

    Parameters
    ----------
    claim : Claim
        What was registered.
    word : {"reproduced", "contradicted", "undecided", "not run"}
        The verdict.
    p : float
        Adjusted, that the claim holds; that the contrary does, where it is contradicted.
    findings : tuple of PartResult
        One for each part.
    """

    claim: Claim
    word: Word
    p: float
    findings: tuple[PartResult, ...]


def judge(results: Results, claims: Sequence[Claim]) -> tuple[ClaimVerdict, ...]:
    """The verdict of each claim."""
    findings = [tuple(finding(results, part) for part in claim.parts) for claim in claims]
    families = [claim.family for claim in claims]
    holds = _adjusted([max(f.holds for f in parts) for parts in findings], families)
    fails = _adjusted(
        [min(1.0, len(parts) * min(f.fails for f in parts)) for parts in findings], families
    )
    return tuple(
        _verdict(claim, parts, yes, no)
        for claim, parts, yes, no in zip(claims, findings, holds, fails, strict=True)
    )


def _adjusted(p: Sequence[float], families: Sequence[str]) -> list[float]:
    """Holm's adjustment within each family."""
    adjusted = [1.0] * len(p)
    for family in dict.fromkeys(families):
        own = [i for i, name in enumerate(families) if name == family]
        for i, value in zip(own, holm([p[i] for i in own]), strict=True):
            adjusted[i] = value
    return adjusted


def _verdict(
    claim: Claim, parts: tuple[PartResult, ...], holds: float, fails: float
) -> ClaimVerdict:
    if all(f.difference is None for f in parts):
        return ClaimVerdict(claim, "not run", 1.0, parts)
    if holds < ALPHA:
        return ClaimVerdict(claim, "reproduced", holds, parts)
    if fails < ALPHA:
        return ClaimVerdict(claim, "contradicted", fails, parts)
    return ClaimVerdict(claim, "undecided", holds, parts)


def untrained(results: Results) -> tuple[Record, ...]:
    """The records whose training did not succeed, as that of their encoding does."""
    losses: dict[tuple[str, str], list[float]] = {}
    done = [record for record in results.records if not record.failed]
    for record in done:
        losses.setdefault((record.cell.task, record.cell.encoding), []).append(record.final_loss)
    usual = {place: statistics.median(values) for place, values in losses.items()}
    return tuple(
        record
        for record in done
        for median in [usual[record.cell.task, record.cell.encoding]]
        if record.final_loss > max(2 * median, median + UNTRAINED)
    )


def finding(results: Results, part: ClaimPart) -> PartResult:
    """What the results say of a part."""
    x = differences(results, part)
    if not x:
        return PartResult(part, None)
    measured = interval(x)
    if part.kind == "equal":
        return _equality(part, x, measured)
    gained = [BETTER[part.metric] * value - part.margin for value in x]
    p, flips = t_test(gained), sign_flip(gained)
    up, silent = sum(gained) > 0, flips > ALPHA
    holds = p if up and not silent else 1.0
    fails = p if not up and not silent and part.kind != "condition" else 1.0
    return PartResult(part, measured, holds, fails, flips)


def _equality(part: ClaimPart, x: list[float], measured: ConfidenceInterval) -> PartResult:
    below, above = [v + part.margin for v in x], [v - part.margin for v in x]
    flips = max(sign_flip(below), sign_flip(above))
    if flips > ALPHA:
        return PartResult(part, measured, flips=flips)
    if abs(measured.mean) <= part.margin:
        return PartResult(part, measured, equivalence(x, part.margin), 1.0, flips)
    return PartResult(part, measured, 1.0, beyond(x, part.margin), flips)


def differences(results: Results, part: ClaimPart) -> list[float]:
    """Left minus right, for each seed that has every score in it."""
    scores = {
        score: results.values(part.task, score.encoding, part.metric, score.bucket)
        for score in part.left.scores + part.right.scores
    }
    first, end = part.seeds or (0, math.inf)
    shared = set.intersection(*(set(values) for values in scores.values()))
    seeds = sorted(seed for seed in shared if first <= seed < end)

    def value(side: ClaimSide, seed: int) -> float:
        plus, minus = (0.0 if s is None else scores[s][seed] for s in (side.plus, side.minus))
        return side.number + plus - minus

    return [value(part.left, seed) - value(part.right, seed) for seed in seeds]
