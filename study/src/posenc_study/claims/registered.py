"""The published statements that the study tests: data, registered before a run.

`claims.toml` holds them. A claim has parts, all of which must hold. A part compares two sides, each
a number, a score such as `rope@2L`, or a difference of two scores such as `rope@2L - rope@1L`:

    better      left is better than right, by more than the margin: more accuracy, fewer nats
    equal       left and right differ by less than the margin
    condition   as better, but where it fails the claim is not tested, rather than contradicted

`each` writes a part once for every name of a list, in the place of `{each}`. A claim that was
thought of when some seeds had been seen is tested on others: `seeds = [8, 16]` is 8 to 15.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any, Literal, get_args

from posenc._core.errors import DataError, mismatch, suggest
from posenc._core.io import inputs

Kind = Literal["better", "equal", "condition"]

# Metric -> 1 where more is better, -1 where less is.
BETTER: dict[str, int] = {
    **dict.fromkeys(("accuracy", "exact", "apart"), 1),
    **dict.fromkeys(("nats", "nats-last", "nats-tuned", "nats-last-tuned", "excess"), -1),
    **dict.fromkeys(("rank-unseen", "rank-arc", "rank-lost", "rank-short", "rank-order"), 1),
    "rank-within": 1,
    "regret": -1,
}

PART_FIELDS = ("kind", "left", "right", "margin", "task", "metric", "each")
FILE = inputs.FileKind("claims", 2**17)
LONGEST_LINE = 400
CLAIM_FIELDS = (
    "id",
    "text",
    "source",
    "task",
    "metric",
    "registered",
    "seeds",
    "unexpected",
    "family",
    "part",
)

SCORE = re.compile(r"(?P<encoding>[a-z0-9-]*[a-z0-9])@(?P<bucket>[0-9.]+L)")


@dataclass(frozen=True)
class Score:
    """The score of an encoding in a bucket of lengths.

    Parameters
    ----------
    encoding, bucket : str
        Their names.
    """

    encoding: str
    bucket: str

    def __str__(self) -> str:
        return f"{self.encoding}@{self.bucket}"


@dataclass(frozen=True)
class ClaimSide:
    """One side of a comparison: number + score - other score.

    Parameters
    ----------
    number : float
        0 where there are scores.
    plus, minus : Score, optional
        What is added, what is subtracted.
    """

    number: float = 0.0
    plus: Score | None = None
    minus: Score | None = None

    @property
    def scores(self) -> tuple[Score, ...]:
        """The scores in it."""
        return tuple(score for score in (self.plus, self.minus) if score is not None)

    def __str__(self) -> str:
        if self.plus is None:
            return f"{self.number:g}"
        return f"{self.plus} - {self.minus}" if self.minus is not None else str(self.plus)


@dataclass(frozen=True)
class ClaimPart:
    """One comparison.

    Parameters
    ----------
    kind : {"better", "equal", "condition"}
        What must hold.
    left, right : ClaimSide
        What is compared.
    margin : float
        In the unit of the metric.
    task, metric : str
        Where the scores come from.
    seeds : (int, int), optional
        The first seed it is tested on and the first that it is not; all by default.
    """

    kind: Kind
    left: ClaimSide
    right: ClaimSide
    margin: float
    task: str
    metric: str
    seeds: tuple[int, int] | None = None

    def __str__(self) -> str:
        by = f" by {self.margin:g}" if self.margin else ""
        relation = f"= (± {self.margin:g})" if self.kind == "equal" else f"better than{by}"
        return f"{self.left} {relation} {self.right}"


@dataclass(frozen=True)
class Claim:
    """A published statement.

    Parameters
    ----------
    id : str
        A short name.
    text : str
        The statement.
    source : str
        Who published it.
    parts : tuple of ClaimPart
        What must hold for it to be reproduced.
    unexpected : str
        Why it is not expected at this size; empty where it is.
    registered : str
        The metric that it was registered on, where it is judged by another since; else empty.
    family : str
        The question that it is part of: p values are adjusted over the claims of one.
    """

    id: str
    text: str
    source: str
    parts: tuple[ClaimPart, ...]
    unexpected: str = ""
    registered: str = ""
    family: str = ""

    def as_registered(self) -> Claim:
        """The claim on the metric that it was registered on."""
        if not self.registered:
            return self
        parts = tuple(replace(part, metric=self.registered) for part in self.parts)
        return replace(self, parts=parts)


@dataclass(frozen=True)
class ClaimRegistration:
    """A version of the claims as it was before a run.

    Parameters
    ----------
    time, sha256 : str
        When it was committed, in UTC, and the digest of the file.
    what : str
        What ran after it.
    """

    time: str
    sha256: str
    what: str


def registrations() -> tuple[ClaimRegistration, ...]:
    """When `claims.toml` was registered, and with which digest."""
    return tuple(ClaimRegistration(**row) for row in tomllib.loads(_own())["registered"])


def _own() -> str:
    return (
        resources.files("posenc_study.claims").joinpath("claims.toml").read_text(encoding="utf-8")
    )


def claims() -> tuple[Claim, ...]:
    """The claims that are registered."""
    return _claims(_own(), "claims.toml")


def read_claims(path: Path) -> tuple[Claim, ...]:
    """The claims in a file of one's own."""
    text = inputs.text_of(path, FILE)
    longest = max(map(len, text.splitlines()), default=0)
    if longest > LONGEST_LINE:  # the time for a name of n parts grows with their square
        raise DataError(mismatch(str(path), f"lines of at most {LONGEST_LINE} characters", longest))
    with inputs.understood(str(path), "TOML with tables [[claim]]"):
        return _claims(text, str(path))


def _claims(text: str, caller: str) -> tuple[Claim, ...]:
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DataError(mismatch(caller, "TOML", error)) from None
    rows = document.get("claim")
    if not isinstance(rows, list) or not rows:
        raise DataError(mismatch(caller, "tables [[claim]]", list(document) or "nothing"))
    claims = tuple(_claim(row, f"{caller}, claim {number}") for number, row in enumerate(rows, 1))
    names = [claim.id for claim in claims]
    if len(set(names)) < len(names):
        raise DataError(mismatch(caller, "a different id for each claim", names))
    return claims


def _claim(row: Any, caller: str) -> Claim:
    _check_fields(row, CLAIM_FIELDS, caller)
    parts = tuple(part for table in row.get("part", ()) for part in _parts(table, row, caller))
    if not parts:
        raise DataError(mismatch(caller, "tables [[claim.part]]", "none"))
    try:
        words = (row["id"], row["text"], row["source"])
    except KeyError as error:
        raise DataError(mismatch(caller, "id, text and source", f"no {error}")) from None
    before = row.get("registered", "")
    if before and before not in BETTER:
        raise DataError(mismatch(f"{caller}: registered", f"one of {', '.join(BETTER)}", before))
    return Claim(*words, parts, row.get("unexpected", ""), before, row.get("family", ""))


def _parts(table: Any, row: Mapping[str, Any], caller: str) -> Iterator[ClaimPart]:
    _check_fields(table, PART_FIELDS, caller)
    kind, metric = table.get("kind"), table.get("metric", row.get("metric"))
    if kind not in get_args(Kind):
        raise DataError(mismatch(f"{caller}: kind", " or ".join(get_args(Kind)), kind))
    if metric not in BETTER:
        raise DataError(mismatch(f"{caller}: metric", f"one of {', '.join(BETTER)}", metric))
    margin = float(table.get("margin", 0.0))
    if margin < 0 or (kind == "equal" and not margin):
        raise DataError(mismatch(f"{caller}: margin", "more than 0 for `equal`", margin))
    seeds = _seeds(row.get("seeds"), caller)
    for name in table.get("each", [""]):
        left, right = (_side(table.get(side), name, caller) for side in ("left", "right"))
        if not left.scores + right.scores:
            raise DataError(mismatch(caller, "a score in each part", f"{left} and {right}"))
        task = str(table.get("task", row.get("task")))
        yield ClaimPart(kind, left, right, margin, task, metric, seeds)


def _seeds(value: Any, caller: str) -> tuple[int, int] | None:
    if value is None:
        return None
    match value:
        case [int(first), int(end)] if 0 <= first < end:
            return first, end
    raise DataError(mismatch(f"{caller}: seeds", "two rising numbers, [first, end]", repr(value)))


def _side(value: Any, each: str, caller: str) -> ClaimSide:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return ClaimSide(float(value))
    terms = [SCORE.fullmatch(t.replace("{each}", each)) for t in str(value).split(" - ")]
    if None in terms or len(terms) > 2:
        expected = "a number, `rope@2L` or `rope@2L - rope@1L`"
        raise DataError(mismatch(f"{caller}: left and right", expected, repr(value)))
    scores = [Score(**term.groupdict()) for term in terms if term is not None]
    return ClaimSide(plus=scores[0], minus=scores[1] if len(scores) > 1 else None)


def _check_fields(table: Any, names: tuple[str, ...], caller: str) -> None:
    if not isinstance(table, dict):
        raise DataError(mismatch(caller, "a table", repr(table)))
    for name in table:
        if name not in names:
            raise DataError(mismatch(caller, f"the fields {names}", name, suggest(name, names)))
