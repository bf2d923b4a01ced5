"""Ladders of frequencies, and arrangements that say which pair of channels uses which rung.

Everything sinusoidal is one phase matrix,

    phase[p, j] = sum over axes a of  position[p, a] * frequency[j, a]

and in every published convention each row of `frequency` has at most one entry that is not zero. So
the matrix is two integer vectors, `axis[j]` and `index[j]`, into ladders such as
`first * base ** (-index / denominator)`. Tables and rotary embeddings share this file.

Frequencies are `decimal.Decimal` here: a frequency is multiplied by positions up to 2**31 and more,
so it must be known to many more digits than the result needs.
"""

from __future__ import annotations

import decimal
import functools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from itertools import accumulate, repeat
from operator import mul
from typing import Any, Literal, NamedTuple, Protocol, final

import numpy as np

from posenc._core.errors import bad_spec
from posenc._core.spec.checks import not_too_many
from posenc._core.spec.spec import Value

DIGITS = 50  # 2**64 needs 20; the rest covers positions, large frequencies and long recurrences
LARGEST_FREQUENCY = 2**40  # radians per position; beyond it no integer position tells them apart
MOST_OCTAVES = 1200  # from the smallest float to the largest frequency
MOST_FREQUENCIES = 2**18  # each is worked out to 50 digits


def context() -> decimal.Context:
    """The arithmetic of every constant; explicit, so that a user's own context changes nothing."""
    return decimal.Context(prec=DIGITS, rounding=decimal.ROUND_HALF_EVEN)


@functools.lru_cache(maxsize=1)
def pi() -> Decimal:
    """Pi to `DIGITS` digits, by Machin's formula 16 atan(1/5) - 4 atan(1/239) in integers."""
    one = 10 ** (DIGITS + 10)

    def arctan_of_inverse(n: int) -> int:
        total, power, k = 0, one // n, 0
        while power:
            total += (-1) ** k * (power // (2 * k + 1))
            power //= n * n
            k += 1
        return total

    return context().divide(16 * arctan_of_inverse(5) - 4 * arctan_of_inverse(239), one)


_DENOMINATOR = re.compile(
    r"(?P<factor>\d{1,9})?(?P<unit>[nd])(/(?P<divisor>(?!0+(?!\d))\d{1,9}))?"
    r"(?P<shift>[+-]\d{1,9}(\.\d{1,20})?)?"
)


@final
@dataclass(frozen=True, kw_only=True)
class Ladder(Value):
    """The frequencies of the pairs, in radians per position, before any scaling.

        geometric   f[j] = first * base ** (-(j + start) / denominator)
        linear      f[j] = first + (last - first) * j / (count - 1)
        octave      f[j] = first * 2 ** j
        explicit    f[j] = frequencies[j]

    Parameters
    ----------
    spacing : {"geometric", "linear", "octave", "explicit"}
        The rule.
    denominator : str or float
        What the exponent is divided by: a number, or an expression in the number of pairs `n` or
        the width `d`. `"d/2"` is the exponent 2i/d of Vaswani et al. (2017), equal to `"n"` for an
        even width; `"n-1"` is tensor2tensor's, `"n-0.5"` any shift of it.
    first : float
        Frequency of rung 0 (1; pi/2, pi and 2*pi occur for normalised coordinates).
    last : float, optional
        Frequency of the last rung, for `spacing="linear"` alone.
    start : float
        Added to the index in the exponent; 1 is the mistake of counting pairs from one.
    cos_shift : float
        Added to the index in the exponent of the cosines alone. The published formula has 0; the
        mistakes that give the channels 2i and 2i+1 different exponents have 1/2 or 1.
    expression : {"power", "exp", "exp_quotient"}
        How float32 code writes the geometric rule: `1 / base ** (j/n)`, `exp(-j * (log(base)/n))`,
        or `exp((-log(base) * j) / n)`. It matters only under `phase="float32"`, which repeats that
        code's rounding.
    frequencies : tuple of float, optional
        The values, for `spacing="explicit"` alone.

    Raises
    ------
    SpecError
        If a field does not belong to the spacing, or the denominator cannot be read.

    Examples
    --------
    >>> from posenc import Ladder
    >>> [float(f) for f in Ladder().rungs(10_000, count=2, width=4)]
    [1.0, 0.01]
    >>> [float(f) for f in Ladder(denominator="n-1").rungs(10_000, count=2, width=4)]
    [1.0, 0.0001]
    """

    spacing: Literal["geometric", "linear", "octave", "explicit"] = "geometric"
    denominator: str | float = "d/2"
    first: float = 1.0
    last: float | None = None
    start: float = 0.0
    cos_shift: float = 0.0
    expression: Literal["power", "exp", "exp_quotient"] = "power"
    frequencies: tuple[float, ...] | None = None

    def check(self) -> None:
        """Raise `SpecError` when a field does not belong to the spacing."""
        text, plain = self.denominator, self.spacing == "geometric"
        self._require(
            not isinstance(text, str) or _DENOMINATOR.fullmatch(text) is not None,
            "denominator",
            "a number, or an expression such as 'd/2', 'n', 'n-1', 'n-0.5', 'd'",
            repr(text),
        )
        self._require(text != 0, "denominator", "a number other than 0", 0)
        for name, needed in (("last", "linear"), ("frequencies", "explicit")):
            stated = getattr(self, name) is not None
            self._require(
                stated == (self.spacing == needed),
                "",
                f"`{name}` {'only with' if stated else 'with'} spacing={needed!r}",
                repr(self.spacing),
            )
        self._require(
            plain or not (self.start or self.cos_shift),
            "",
            "start and cos_shift 0 unless geometric",
            repr(self.spacing),
        )
        self._require(self.spacing == "explicit" or self.first > 0, "first", "a positive frequency")

    def divisor(self, *, count: int, width: int) -> Decimal:
        """The denominator as a number, for `count` rungs that serve `width` channels."""
        if not isinstance(self.denominator, str):
            return Decimal(self.denominator)
        parts = _DENOMINATOR.fullmatch(self.denominator)
        assert parts is not None, "`check` has matched it"  # noqa: S101 - for the type checker
        value = Decimal(count if parts["unit"] == "n" else width)
        value = value * int(parts["factor"] or 1) / int(parts["divisor"] or 1)
        return value + Decimal(parts["shift"] or 0)

    def rungs(
        self, base: float | Decimal, *, count: int, width: int, cosine: bool = False
    ) -> tuple[Decimal, ...]:
        """The frequencies of a ladder of `count` rungs that serves `width` channels, exactly.

        Parameters
        ----------
        base : float or Decimal
            The base of the geometric rule.
        count, width : int
            Number of rungs, and number of channels they serve (2 * count, or less for odd widths).
        cosine : bool
            Whether to give the frequencies of the cosines, which `cos_shift` moves.

        Returns
        -------
        tuple of Decimal
            `count` frequencies in radians per position, to about 45 digits.
        """
        not_too_many("Ladder", "frequencies", count, MOST_FREQUENCIES)
        with decimal.localcontext(context()):
            try:
                rungs = self._rungs(Decimal(base), count, width, cosine)
            except decimal.DecimalException as error:
                raise bad_spec(
                    "Ladder", "frequencies that are numbers", f"{type(error).__name__} in {self}"
                ) from None
            worst = max(map(abs, rungs), default=0)
            self._require(
                worst <= LARGEST_FREQUENCY,
                "",
                "frequencies up to 2**40 rad/position",
                f"{worst:.3g}",
            )
            return rungs

    def _rungs(self, base: Decimal, count: int, width: int, cosine: bool) -> tuple[Decimal, ...]:
        first = Decimal(self.first)
        if self.frequencies is not None:
            own, what = self.frequencies, f"{count} frequencies, one for each rung"
            self._require(len(own) == count, "frequencies", what, len(own))
            return tuple(map(Decimal, own))
        if self.last is not None:
            gap = (Decimal(self.last) - first) / max(count - 1, 1)
            return tuple(first + gap * j for j in range(count))
        if self.spacing == "octave":
            if count > MOST_OCTAVES:
                raise self._mismatch("", "frequencies up to 2**40 rad/position", f"{count} octaves")
            return tuple(first * 2**j for j in range(count))
        start = Decimal(self.start) + (Decimal(self.cos_shift) if cosine else 0)
        divisor = self.divisor(count=count, width=width)
        if divisor == 0 and count == 1 and start == 0:
            return (first,)  # one rung needs no ratio: tensor2tensor's max(n - 1, 1)
        if divisor == 0:
            raise bad_spec(
                f"Ladder: denominator {self.denominator!r} for {count} pairs",
                "a divisor other than 0",
                0,
                "Use more pairs.",
            )
        log = -base.ln()
        # One exact-looking product per rung: at 50 digits a thousand of them cost three digits.
        lowest = first * (log * start / divisor).exp()
        return tuple(accumulate(repeat((log / divisor).exp(), count), mul, initial=lowest))[:count]

    @property
    def powers(self) -> bool:
        """Whether float32 code has `base ** terms` before it divides 1 by it."""
        return self.spacing == "geometric" and self.expression == "power" and self.first == 1

    def float32_terms(
        self, base: float, *, count: int, width: int, cosine: bool = False
    ) -> list[float]:
        """What float32 code has before its power or exponential, one number for each rung."""
        if self.spacing != "geometric":
            return [float(rung) for rung in self.rungs(base, count=count, width=width)]
        start = self.start + (self.cos_shift if cosine else 0.0)
        index = (np.arange(count) + start).astype(np.float32)
        divisor = float(self.divisor(count=count, width=width)) or 1.0
        if self.expression == "power":
            terms = index / np.float32(divisor)
        elif self.expression == "exp_quotient":
            terms = np.float32(-math.log(base)) * index / np.float32(divisor)
        else:
            terms = index * np.float32(-(math.log(base) / divisor))
        return [float(term) for term in terms]

    def float32_values(self, terms: Any, base: float, *, xp: Any) -> Any:
        """The float32 frequencies from their terms, by the functions of the library `xp`."""
        if self.spacing != "geometric":
            return terms
        values = 1.0 / base**terms if self.expression == "power" else xp.exp(terms)
        return values if self.first == 1 else values * self.first


# What code and tutorials write in place of the exponent 2i/d, by name, so that tools can say which.
LADDERS: dict[str, Ladder] = {
    "exponent 2i/d": Ladder(),
    "exponent j/(n-1)": Ladder(denominator="n-1"),
    "exponent i/d": Ladder(denominator="d"),
    "exponent 4i/d": Ladder(denominator="d/4"),
    "exponent 2i/(d-1)": Ladder(denominator="d/2-0.5"),
    "exponent 2(i+1)/d": Ladder(start=1.0),
    "exponent c/d for channel c": Ladder(cos_shift=0.5),
    "exponent 2c/d for channel c": Ladder(denominator="d/4", cos_shift=0.5),
    "cosine exponent 2(i+1)/d": Ladder(cos_shift=1.0),
}


# --- ladders on their way through scalings --------------------------------------------------------

# A scaling is arithmetic on a handful of numbers. It is written once, against `RungArithmetic`, and
# runs in 50-digit decimals where phases need it, and in floats for pictures.
Array = Any
Number = Any  # Decimal or float


class RungArithmetic(NamedTuple):
    """The functions that scalings need beside `+ - * / <`; `math.floor` must accept the numbers."""

    number: Callable[[float], Number]  # of a float or integer, exactly
    ln: Callable[[Number], Number]
    exp: Callable[[Number], Number]
    pi: Callable[[], Number]  # half a turn in radians


DECIMAL = RungArithmetic(Decimal, Decimal.ln, Decimal.exp, pi)  # in the context of its caller
FLOAT = RungArithmetic(float, math.log, math.exp, lambda: math.pi)


class Rungs(NamedTuple):
    """The ladder of one axis, while scalings act on it.

    Parameters
    ----------
    frequencies : tuple of numbers
        Radians per position.
    base : number
        What the ladder was built with.
    width : int
        Channels that it serves: the d of the papers.
    axis : int
        Which axis of the positions, for scalings with a factor for each.
    numbers : RungArithmetic
        Their arithmetic: `Decimal` of 50 digits, or float64.
    """

    frequencies: tuple[Number, ...]
    base: Number
    width: int
    axis: int
    numbers: RungArithmetic

    def with_frequencies(self, frequencies: list[Number]) -> Rungs:
        """The same ladder with other frequencies."""
        return self._replace(frequencies=tuple(frequencies))


class Float32Rungs(NamedTuple):
    """The same in the float32 arithmetic of the array library that the caller uses.

    Parameters
    ----------
    frequencies : array
        (rungs,).
    periods : array
        (rungs,): base ** (2j/d), of which the frequencies are the reciprocals.
    index : array
        (rungs,): 0, 1, … as float32.
    base : float
        What the ladder was built with.
    width : int
        Channels that it serves.
    axis : int
        Which axis of the positions.
    leading : callable
        k -> the first k frequencies of the plain ladder, computed alone.
    """

    frequencies: Array
    periods: Array
    index: Array
    base: float
    width: int
    axis: int
    leading: Callable[[int], Array]


class Rescaling(Protocol):
    """What a phase matrix asks of a scaling."""

    def rebase(self, base: Number, width: int, axis: int, numbers: RungArithmetic) -> Number:
        """The base to build the ladder with."""

    def scale(self, rungs: Rungs) -> Rungs:
        """The scaled ladder."""

    def float32(self, rungs: Float32Rungs, *, xp: Any) -> Array:
        """The scaled frequencies by the float32 expression of published code."""
