"""What `posenc.locate` returns: positions that fit, and how unlikely they do so by chance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from posenc._core.spec.answers import Displayed
from posenc._core.spec.spec import Spec


@dataclass(frozen=True)
class Fit(Displayed):
    """A convention under which numbers have a position.

    Parameters
    ----------
    convention : tuple of str
        What it does otherwise than stated, in words; empty for the stated one.
    spec : Spec
        The encoding; what no spec can say (dimensions counted from 1) is in the words alone.
    positions : tuple
        The positions that fit, nearest to 0 first; tuples of coordinates for several axes, with
        None where nothing was given for an axis.
    listed : {"all", "first"}
        Whether these are all that fit in the range, or the first of too many.
    expected : float
        How many positions of the range would fit by chance.
    residual : float
        The root of the mean square difference between the numbers and the encoding at the first
        position.
    bits : float
        How unlikely the first hit is by chance: -log2 of (positions up to it) times (density of
        hits) times (conventions tried). Below about 4, it is too little to tell.
    rival : tuple, optional
        The next best position of this convention and its residual, for vectors.

    Examples
    --------
    >>> import posenc
    >>> pe = posenc.Sinusoidal(64)
    >>> fit = posenc.locate(pe, posenc.table(pe, [40])[0]).best
    >>> fit.positions, fit.convention, fit.rival[0]
    ((40,), (), 39)
    """

    convention: tuple[str, ...]
    spec: Spec
    positions: tuple[Any, ...]
    listed: Literal["all", "first"]
    expected: float
    residual: float
    bits: float
    rival: tuple[Any, float] | None = None

    @property
    def chance(self) -> float:
        """Expected number of hits as good as this one by chance, among all that were tried."""
        return 2.0 ** -min(max(self.bits, -1000.0), 1000.0)


@dataclass(frozen=True)
class Location(Displayed):
    """Where numbers come from, by every convention that was tried, the least accidental first.

    Parameters
    ----------
    fits : tuple of Fit
        The conventions that have a position in the range.
    stated : Spec
        The encoding as the caller stated it.
    within : tuple of number
        The range, both ends included.
    tried : int
        Conventions tried, ways to read digits included.
    story : tuple of str
        The answer in sentences.

    Examples
    --------
    >>> import posenc
    >>> found = posenc.locate(posenc.Sinusoidal(16, base=100), "0.85", at=3)
    >>> found.position, found.settled, found.story[0]
    (1, True, 'Position 1.')
    """

    fits: tuple[Fit, ...]
    stated: Spec
    within: tuple[float, float]
    tried: int
    story: tuple[str, ...] = ()

    @property
    def best(self) -> Fit | None:
        """The fit that is least likely by chance."""
        return self.fits[0] if self.fits else None

    @property
    def position(self) -> Any:
        """The position, None where there is none."""
        return self.fits[0].positions[0] if self.fits else None

    @property
    def positions(self) -> tuple[Any, ...]:
        """All positions that fit under the best convention, or the first of too many."""
        return self.fits[0].positions if self.fits else ()

    @property
    def convention(self) -> tuple[str, ...] | None:
        """How the best convention differs from the stated one, in words; None without a fit."""
        return self.fits[0].convention if self.fits else None

    @property
    def residual(self) -> float:
        """The residual of the best fit; infinite without one."""
        return self.fits[0].residual if self.fits else math.inf

    @property
    def as_stated(self) -> Fit | None:
        """The fit of the stated convention."""
        return next((fit for fit in self.fits if not fit.convention), None)

    @property
    def runner_up(self) -> Fit | None:
        """The next best convention."""
        return self.fits[1] if len(self.fits) > 1 else None

    @property
    def margin(self) -> float:
        """Bits between the best convention and the next; infinite where there is no other."""
        if len(self.fits) < 2:
            return math.inf if self.fits else 0.0
        return self.fits[0].bits - self.fits[1].bits

    @property
    def settled(self) -> bool:
        """Whether the best fit is a claim: expected by chance less than once in 20."""
        best = self.best
        return best is not None and best.bits > math.log2(20)

    def __str__(self) -> str:
        return "\n".join(self.story)

    def to_dict(self) -> dict[str, Any]:
        """The result as plain JSON types."""
        return {
            "position": _plain(self.position),
            "settled": self.settled,
            "within": list(self.within),
            "conventions_tried": self.tried,
            "margin_bits": None if math.isinf(self.margin) else self.margin,
            "fits": [_described(fit) for fit in self.fits],
            "stated": self.stated.to_dict(),
            "story": list(self.story),
        }


def _described(fit: Fit) -> dict[str, Any]:
    rival = fit.rival
    return {
        "convention": list(fit.convention) or ["as stated"],
        "positions": [_plain(position) for position in fit.positions],
        "listed": fit.listed,
        "expected_by_chance": fit.expected,
        "residual": fit.residual,
        "bits": fit.bits,
        "rival": None if rival is None else {"position": _plain(rival[0]), "residual": rival[1]},
        "spec": fit.spec.to_dict(),
    }


def _plain(position: Any) -> Any:
    return list(position) if isinstance(position, tuple) else position
