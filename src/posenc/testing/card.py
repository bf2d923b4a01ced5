"""What the laws found: one result each, and the card that holds them."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

Status = Literal["pass", "fail", "refused", "not offered"]


@dataclass
class Looked:
    """What an implementation was asked: nothing else is claimed of it.

    Parameters
    ----------
    calls : int
        How many times.
    widths, heads, rows : set of int
        Widths of heads or rows of a table, numbers of heads, rows of a batch.
    dtypes : set of str
        Of what was given, or asked for.
    first, last : int, optional
        The least and the greatest position.
    length : int
        Of the longest sequence.
    """

    calls: int = 0
    widths: set[int] = field(default_factory=set)
    heads: set[int] = field(default_factory=set)
    rows: set[int] = field(default_factory=set)
    dtypes: set[str] = field(default_factory=set)
    first: int | None = None
    last: int | None = None
    length: int = 0

    def at(
        self,
        positions: np.ndarray,
        *,
        width: int | None = None,
        heads: int | None = None,
        rows: int | None = None,
        dtype: str = "float32",
    ) -> None:
        """Note a call."""
        self.calls += 1
        for values, value in ((self.widths, width), (self.heads, heads), (self.rows, rows)):
            if value is not None:
                values.add(value)
        self.dtypes.add(dtype)
        if positions.size:
            least, most = int(positions.min()), int(positions.max())
            self.first = least if self.first is None else min(self.first, least)
            self.last = most if self.last is None else max(self.last, most)
            self.length = max(self.length, positions.shape[-1] if positions.ndim else 1)

    def __or__(self, other: Looked) -> Looked:
        firsts = [f for f in (self.first, other.first) if f is not None]
        lasts = [f for f in (self.last, other.last) if f is not None]
        return Looked(
            self.calls + other.calls,
            self.widths | other.widths,
            self.heads | other.heads,
            self.rows | other.rows,
            self.dtypes | other.dtypes,
            min(firsts, default=None),
            max(lasts, default=None),
            max(self.length, other.length),
        )

    def __str__(self) -> str:
        if not self.calls:
            return "nothing"
        parts = [f"{self.calls} calls", _span("width", self.widths), _span("head", self.heads)]
        parts += [_span("row", self.rows), ", ".join(sorted(self.dtypes))]
        parts += [f"positions {self.first} to {self.last}", f"sequences up to {self.length}"]
        return "; ".join(text for text in parts if text)

    def describe(self) -> dict[str, Any]:
        """The same as JSON holds it."""
        sets = {k: sorted(getattr(self, k)) for k in ("widths", "heads", "rows", "dtypes")}
        ends = {"positions": [self.first, self.last], "length": self.length}
        return {"calls": self.calls, **sets, **ends}


def _span(what: str, values: set[int]) -> str:
    if not values:
        return ""
    if len(values) == 1:
        return f"{what} {min(values)}" if what == "width" else f"{min(values)} {what}s"
    return f"{what}s {', '.join(map(str, sorted(values)))}"


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
    looked : Looked
        What it was asked in all: calls, widths, heads, dtypes, positions.
    """

    law: str
    statement: str
    status: Status
    measured: float | None = None
    bound: float | None = None
    says: str = ""
    input: dict[str, Any] = field(default_factory=dict)
    looked: Looked = field(default_factory=Looked)

    def __str__(self) -> str:
        return self.law

    def describe(self) -> dict[str, Any]:
        """The result as JSON holds it."""
        return {
            "law": self.law,
            "statement": self.statement,
            "status": self.status,
            "measured": _finite(self.measured),
            "bound": self.bound,
            "says": self.says,
            "input": self.input,
            "looked": self.looked.describe(),
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
    def looked(self) -> Looked:
        """What all laws asked together."""
        return functools.reduce(operator.or_, (r.looked for r in self.results), Looked())

    def count(self, status: Status) -> int:
        """How many laws ended so."""
        return sum(r.status == status for r in self.results)

    def __getitem__(self, law: str) -> Result:
        for result in self.results:
            if result.law == law:
                return result
        raise KeyError(law)

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
        counts = [f"{self.count(s)} {s}" for s in _MARKS if self.count(s)]
        yield f"  {', '.join(counts)}"
        yield f"  looked at: {self.looked}"

    def describe(self) -> dict[str, Any]:
        """The card as JSON holds it."""
        return {
            "name": self.name,
            "kind": self.kind,
            "passed": self.passed,
            "versions": self.versions,
            "looked": self.looked.describe(),
            "results": [r.describe() for r in self.results],
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
