"""What the laws found: one result each, and the card that holds them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from posenc.detect.subject import Reach

Status = Literal["pass", "fail", "refused", "not offered"]


@dataclass(frozen=True)
class Result:
    """What one law found.

    Parameters
    ----------
    law : str
        Its name.
    statement : str
        What it says, in words.
    status : {"pass", "fail", "refused", "not offered"}
        `refused`: the implementation raised an error where that is a fair answer, such as for an
        odd width. `not offered`: there is no way to ask it.
    measured, bound : float, optional
        The largest departure that was seen, and the one allowed.
    says : str
        What went wrong, or why it was not asked.
    input : dict
        What it was given, where it failed: shapes, positions, seeds.
    reach : Reach, optional
        What was asked in all, where it made a survey.
    """

    law: str
    statement: str
    status: Status
    measured: float | None = None
    bound: float | None = None
    says: str = ""
    input: dict[str, Any] = field(default_factory=dict)
    reach: Reach | None = None

    def __str__(self) -> str:
        return self.law

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON holds it."""
        return {
            "law": self.law,
            "statement": self.statement,
            "status": self.status,
            "measured": _finite(self.measured),
            "bound": self.bound,
            "says": self.says,
            "input": self.input,
        }


@dataclass(frozen=True)
class Card:
    """The score card of an implementation.

    Parameters
    ----------
    name : str
        Of the implementation.
    kind : str
        Where it acts.
    results : tuple of Result
        One for each law, in order.
    versions : dict
        Of the packages that ran.
    """

    name: str
    kind: str
    results: tuple[Result, ...]
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether no law failed."""
        return not self.failures

    @property
    def failures(self) -> tuple[Result, ...]:
        """The results of the laws that failed."""
        return tuple(r for r in self.results if r.status == "fail")

    @property
    def reach(self) -> Reach | None:
        """How far its calls were looked at; None where the law of calls was not tried."""
        return next((r.reach for r in self.results if r.reach is not None), None)

    def count(self, status: Status) -> int:
        """How many laws ended so."""
        return sum(r.status == status for r in self.results)

    def __getitem__(self, law: str) -> Result:
        return {result.law: result for result in reversed(self.results)}[law]

    def lines(self) -> Iterator[str]:
        """The card for people: a line for each law, and under a failure what it was given."""
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        yield f"{self.name} ({self.kind}{'; ' + versions if versions else ''})"
        widest = max((len(r.law) for r in self.results), default=0)
        for r in self.results:
            yield f"  {_MARKS[r.status]} {r.law:<{widest}}  {r.statement}{_figures(r)}"
            if r.says:
                yield f"    {'':<{widest}}    {r.says}"
            if r.status == "fail" and r.input:
                shown = ", ".join(f"{key} {value}" for key, value in r.input.items())
                yield f"    {'':<{widest}}    input: {shown}"
        yield "  " + ", ".join(f"{self.count(s)} {s}" for s in _MARKS if self.count(s))
        yield from (f"  {line}" for line in (self.reach.lines() if self.reach else ()))

    def to_dict(self) -> dict[str, Any]:
        """The card as JSON holds it."""
        return {
            "name": self.name,
            "kind": self.kind,
            "passed": self.passed,
            "versions": self.versions,
            "reach": None if self.reach is None else asdict(self.reach),
            "results": [r.to_dict() for r in self.results],
        }


_MARKS: dict[Status, str] = {"pass": "✓", "fail": "✗", "refused": "·", "not offered": "-"}


def _figures(result: Result) -> str:
    if result.measured is None or result.bound is None:
        return ""
    # A law that holds with more than its bound asks for at least that much.
    least = (result.measured > result.bound) == (result.status == "pass")
    return f"  [{result.measured:.2g}, at {'least' if least else 'most'} {result.bound:.2g}]"


def _finite(value: float | None) -> float | str | None:
    if value is None or abs(value) < float("inf"):
        return value
    return "NaN" if value != value else "infinity"  # noqa: PLR0124
