"""Conventions: what `posenc.locate` says of each that has a position, and its siblings.

Siblings are what people write in place of a convention; they are tried beside it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from posenc._core.numeric.ladder import LADDERS, Ladder
from posenc._core.spec.answers import Displayed
from posenc._core.spec.spec import Spec
from posenc.encodings.table.sinusoidal import Sinusoidal
from posenc.encodings.table.timestep import Timestep

FARTHEST = 2**31 - 1  # what is looked at without a range
LEAST_BITS = math.log2(20)  # of a fit that chance does not explain
DEPTH = 2  # deviations at once, the way of reading digits not counted
CUT = "the digits are cut, not rounded"
FROM_ONE = "dimensions are counted from 1"
SWAPPED = "sines and cosines are swapped"

ORDERS = {
    "interleaved": "sines and cosines alternate",
    "sin_cos": "the sines come first, then the cosines",
    "cos_sin": "the cosines come first, then the sines",
}
# Ladders in words, by the sentence that a story is made of.
EXPONENTS = {
    f"the {name}"
    .replace("exponent ", "exponent is ")
    .replace("the cosine exponent is", "the exponent of cosines is"): ladder
    for name, ladder in LADDERS.items()
}  # fmt: skip

EXPLANATIONS = {
    "the exponent is i/d": "the factor 2 of 2i/d is lost, so the exponents end at 1/2 instead of 1",
    "the exponent is j/(n-1)": "tensor2tensor and code that follows it divide by one pair less",
    "the exponent is 4i/d": "the factor 2 stands twice, as the loop already steps by 2",
    "the exponent is 2i/(d-1)": "the width is counted from 0",
    "the exponent is 2(i+1)/d": "pairs are counted from 1",
    "the exponent is c/d for channel c": "the number of the channel takes the place of 2i, so that "
    "a sine and its cosine have different frequencies",
    "the exponent is 2c/d for channel c": "the number of the channel takes the place of i",
    "the exponent of cosines is 2(i+1)/d": "the cosine takes the exponent of the next pair",
    FROM_ONE: "the first dimension is called 1",
    CUT: "a value that is printed short is often cut off where it ends",
}


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

    @property
    def alone(self) -> bool:
        """Whether no other position of the range fits under this convention."""
        return len(self.positions) == 1 and self.listed == "all"


@dataclass(frozen=True)
class Location(Displayed):
    """Where numbers come from, by every convention that was tried, the least accidental first.

    A convention that is not stated and that chance may give stands behind the stated one.

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
    (1, False, 'Position 1.')
    """

    fits: tuple[Fit, ...]
    stated: Spec
    within: tuple[float, float]
    tried: int
    story: tuple[str, ...] = ()

    @property
    def best(self) -> Fit | None:
        """The first fit: the least likely by chance, or the stated one where chance gives all."""
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
        """Whether the best fit is one position, expected by chance less than once in 20."""
        return self.best is not None and self.best.alone and self.best.bits > LEAST_BITS

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
            "fits": [
                {
                    "convention": list(fit.convention) or ["as stated"],
                    "positions": [_plain(position) for position in fit.positions],
                    "listed": fit.listed,
                    "expected_by_chance": fit.expected,
                    "residual": fit.residual,
                    "bits": fit.bits,
                    "rival": None
                    if fit.rival is None
                    else {"position": _plain(fit.rival[0]), "residual": fit.rival[1]},
                    "spec": fit.spec.to_dict(),
                }
                for fit in self.fits
            ],
            "stated": self.stated.to_dict(),
            "story": list(self.story),
        }


def _plain(position: Any) -> Any:
    return list(position) if isinstance(position, tuple) else position


# --- siblings -------------------------------------------------------------------------------------


class Sibling(NamedTuple):
    """A convention near the stated one."""

    words: tuple[str, ...]
    ladder: Ladder | None = None  # None: as stated
    order: str | None = None
    counted_from: Literal[0, 1] = 0
    roles: Literal["stated", "swapped"] = "stated"
    scale: float = 1.0  # on the stated table
    start: int | None = None

    def scale_and_start(self, spec: Any) -> tuple[float, int]:
        """The factor on rows, and the position that the first one is computed at."""
        start = spec.matrix.arrangement.start if self.start is None else self.start
        return self.scale * scale_of(spec), start

    def of(self, spec: Any) -> Any:
        """The stated encoding changed so, as far as a spec can say it."""
        changes: dict[str, Any] = {
            name: own
            for name, own in {"ladder": self.ladder, "order": self.order}.items()
            if own is not None
        }
        if self.start is not None:
            changes["arrangement"] = spec.arrangement.replace(start=self.start)
        if self.scale != 1.0:
            factor = self.scale * spec.magnitude.table(spec.dim)
            root = math.sqrt(spec.dim)
            close = [
                name
                for value, name in {root: "sqrt_dim", 1 / root: "rsqrt_dim"}.items()
                if math.isclose(value, factor)
            ]
            changes["magnitude"] = spec.magnitude.replace(table_scale=(close or [factor])[0])
        return spec.replace(**changes) if changes else spec


def scale_of(spec: Any, params: Mapping[str, Any] | None = None) -> float:
    """The factor on the rows of a table."""
    if not hasattr(spec, "magnitude"):
        return 1.0
    return (
        float(params["scale"])
        if params is not None and "scale" in params
        else float(spec.magnitude.table(spec.dim))
    )


def siblings(spec: Any, *, of: Literal["values", "vectors"]) -> list[Sibling]:
    """The stated convention, then those that differ from it in one and in two ways."""
    groups: list[list[dict[str, Any]]] = [ladders_of(spec)]
    if isinstance(spec, Sinusoidal | Timestep):
        orders = [
            {"words": (words,), "order": order}
            for order, words in ORDERS.items()
            if order != spec.order and (isinstance(spec, Sinusoidal) or order != "interleaved")
        ]
        groups += [orders, [{"words": (SWAPPED,), "roles": "swapped"}]]
    if of == "values":
        groups.append([{"words": (FROM_ONE,), "counted_from": 1}])
        groups += [_scales(spec), _starts(spec)] if isinstance(spec, Sinusoidal) else []
    depths = (itertools.combinations(groups, depth) for depth in range(DEPTH + 1))
    return [
        Sibling(
            tuple(word for part in parts for word in part["words"]),
            **{k: v for part in parts for k, v in part.items() if k != "words"},
        )
        for chosen in itertools.chain.from_iterable(depths)
        for parts in itertools.product(*chosen)
    ]


def ladders_of(spec: Any) -> list[dict[str, Any]]:
    """Other exponents, where those of a spec are geometric."""
    ladder = getattr(spec, "ladder", None)
    if not isinstance(ladder, Ladder) or ladder.spacing != "geometric":
        return []
    fields = ("denominator", "start", "cos_shift")
    changed = {
        name: ladder.replace(**{field: getattr(other, field) for field in fields})
        for name, other in EXPONENTS.items()
    }
    return [
        {"words": (name,), "ladder": other}
        for name, other in changed.items()
        if other != ladder and (isinstance(spec, Sinusoidal) or not other.cos_shift)
    ]


def _scales(spec: Sinusoidal) -> list[dict[str, Any]]:
    stated = spec.magnitude.table(spec.dim)
    named = {
        1.0: "the table is not scaled",
        math.sqrt(spec.dim): "the table is multiplied by sqrt(d)",
    }
    return [
        {"words": (words,), "scale": factor / stated}
        for factor, words in named.items()
        if spec.dim > 1 and not math.isclose(factor, stated)
    ]


def _starts(spec: Sinusoidal) -> list[dict[str, Any]]:
    other = 0 if spec.arrangement.start else 1
    return [{"words": (f"positions are counted from {other}",), "start": other}]
