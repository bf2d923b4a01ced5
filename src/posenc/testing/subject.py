"""An implementation, how it is made and called, and the card of what the laws found of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np

from posenc._core.errors import ArgumentError, SpecError, mismatch
from posenc._core.guard import foreign
from posenc._core.spec.answers import Displayed
from posenc._core.spec.spec import Spec
from posenc.detect.subject import CannotAsk, Reach
from posenc.detect.subject.arrays import LIBRARIES, carried

Kind = Literal["table", "rotary", "bias"]
Library = Literal["numpy", "torch", "jax", "mlx"]
Status = Literal["pass", "fail", "refused", "not offered"]
Array = Any

_WORDS = {"dim": "width", "heads": "number of heads"}
KINDS = ("table", "rotary", "bias")


NotOffered = CannotAsk


@dataclass(frozen=True)
class Subject:
    """An implementation of positions, and how it is made and called.

    The battery asks in one way, whatever the implementation's own words are:

        rotary   call(made, x, positions)      x (batch, heads, seq, dim), turned, in its dtype
        table    call(made, positions, dtype)  rows (seq, dim), or (batch, seq, dim)
        bias     call(made, q_positions, k_positions)   (..., heads, q, k)

    Parameters
    ----------
    name : str
        How it is called in the score card.
    kind : {"table", "rotary", "bias"}
        Where it acts.
    make : callable
        Makes a fresh implementation; `make(dim=…)`, `make(heads=…)` or `make(base=…)` one of
        another width, number of heads or base. May raise `NotOffered`.
    call : callable
        As above. Positions are NumPy arrays of int64: (seq,), (batch, seq), and a last axis more
        where there are several axes; or None under a compiler, for 0, 1, … May raise `NotOffered`.
    dim : int
        Width of a head, or of a row of the table.
    heads : int
        Heads of a bias.
    axes : int
        Axes of the positions of a table.
    library : {"torch", "numpy", "jax", "mlx"}
        Whose arrays go in and come out.
    spec : Spec, optional
        What it should compute; without it the laws alone are checked.
    versions : mapping of str to str
        The packages that it comes from, and their versions, for the score card.
    asked : object, optional
        What `posenc.ask` made of it, where that has been asked.
    places : array, optional
        Coordinates (count, axes) that positions number, where these are no numbers from 0 on; then
        `call` gets the numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from posenc.testing import Subject, check
    >>> def rotate(made, x, positions):                    # pairs that turn ever faster
    ...     angle = positions[..., None, :, None] * np.arange(1.0, 3.0)
    ...     a, b, c, s = x[..., :2], x[..., 2:], np.cos(angle), np.sin(angle)
    ...     turned = [a * c - b * s, b * c + a * s]
    ...     return np.concatenate(turned, -1).astype(x.dtype)
    >>> mine = Subject("mine", "rotary", lambda: None, rotate, dim=4, library="numpy")
    >>> check(mine, laws=["norm", "shift", "calls"]).passed
    True
    """

    name: str
    kind: Kind
    make: Callable[..., Any]
    call: Callable[..., Any]
    dim: int = 64
    heads: int = 8
    axes: int = 1
    library: Library = "torch"
    spec: Spec | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    asked: Any = field(default=None, repr=False)
    places: np.ndarray | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name, words in (("kind", KINDS), ("library", LIBRARIES)):
            if getattr(self, name) not in words:
                *first, last = (f'"{word}"' for word in words)
                expected = f"{', '.join(first)} or {last}"
                raise ArgumentError(mismatch(f"Subject: {name}", expected, getattr(self, name)))
        for name in ("dim", "heads", "axes"):
            if getattr(self, name) < 1:
                raise ArgumentError(mismatch(f"Subject: {name}", "at least 1", getattr(self, name)))

    def build(self, **changes: Any) -> Any:
        """A fresh implementation.

        Parameters
        ----------
        **changes
            `dim`, `heads` or `base`, other than those of the subject.

        Returns
        -------
        object
            What `make` makes.

        Raises
        ------
        NotOffered
            If it has no such thing to set.
        """
        names = inspect.signature(self.make).parameters
        every = any(p.kind is p.VAR_KEYWORD for p in names.values())
        for name in () if every else (name for name in changes if name not in names):
            raise NotOffered(f"it has no {_WORDS.get(name, name)} to set")
        with foreign(f"the making of {self.name}"):
            return self.make(**changes)

    def answer(self, made: Any, *arguments: Any) -> Any:
        """What `call` returns, asked behind the guard."""
        with foreign(f"a call of {self.name}"):
            return self.call(made, *arguments)

    def resized(self, **changes: Any) -> Subject:
        """The same implementation at another `dim`, number of `heads`, or `base`."""

        def make(**more: Any) -> Any:
            return self.build(**{**changes, **more})

        spec = self.spec
        try:
            spec = spec if spec is None else replace(spec, **changes)  # type: ignore[type-var]
        except (SpecError, TypeError):
            spec = None  # what it should compute there is not known
        sizes = {name: changes[name] for name in changes.keys() & {"dim", "heads"}}
        return replace(self, make=make, spec=spec, **sizes)

    def array(self, values: np.ndarray, dtype: str | None = None) -> Array:
        """`values` in the library of the implementation."""
        return carried(values, self.library, dtype)

    def numpy(self, array: Array) -> np.ndarray:
        """An array of the implementation as float64."""
        if self.library == "torch":
            if not hasattr(array, "detach"):
                raise ArgumentError(mismatch(self.name, "a torch tensor", type(array).__name__))
            array = array.detach().to("cpu").double().numpy()
        return np.asarray(array, dtype=np.float64)


def not_offered_where(missing: object, why: str) -> None:
    """Raise `NotOffered` where an implementation has no way to be asked so."""
    if missing:
        raise NotOffered(why)


def start_of(positions: np.ndarray | None) -> int:
    """The first of positions that count up by one, for implementations that take an offset.

    Parameters
    ----------
    positions : array of int64 or None
        (seq,) or (batch, seq); None for 0, 1, …

    Returns
    -------
    int
        The first position.

    Raises
    ------
    NotOffered
        If they do not count up by one, or differ from row to row.
    """
    if positions is None:
        return 0
    flat = positions.reshape(-1, positions.shape[-1])
    not_offered_where((flat != flat[:1]).any(), "it has no positions that differ from row to row")
    not_offered_where(
        (np.diff(flat[0]) != 1).any(), "it has an offset, but no positions of one's own"
    )
    return int(flat[0, 0])


def check_from_zero(positions: np.ndarray | None) -> None:
    """Raise `NotOffered` unless positions are 0, 1, …, for implementations that take none."""
    not_offered_where(start_of(positions), "it takes no positions: sequences start at 0")


def tensor_of(positions: np.ndarray | None, x: Any) -> Any:
    """Positions as a torch tensor beside `x`; 0, 1, … where they are None."""
    import torch

    return (
        torch.arange(x.shape[-2], device=x.device)
        if positions is None
        else torch.from_numpy(np.array(positions, dtype=np.int64))
    )


# --- the card -------------------------------------------------------------------------------------


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
class Card(Displayed):
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
