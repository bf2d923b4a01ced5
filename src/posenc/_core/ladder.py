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
from dataclasses import KW_ONLY, dataclass
from decimal import Decimal
from typing import Any, Literal, NamedTuple, final

import numpy as np

from posenc._core.checks import distinct, not_too_many
from posenc._core.errors import SpecError, mismatch
from posenc._core.spec import Value

__all__ = ["LADDERS", "Arrangement", "Ladder", "RungLayout", "context", "pi"]

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

    scaled = 16 * arctan_of_inverse(5) - 4 * arctan_of_inverse(239)
    return context().divide(Decimal(scaled), Decimal(one))


_DENOMINATOR = re.compile(
    r"(?P<factor>\d{1,9})?(?P<unit>[nd])(/(?P<divisor>(?!0+(?!\d))\d{1,9}))?"
    r"(?P<shift>[+-]\d{1,9}(\.\d{1,20})?)?"
)


@final
@dataclass(frozen=True)
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

    _: KW_ONLY
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
        if isinstance(self.denominator, str) and not _DENOMINATOR.fullmatch(self.denominator):
            raise SpecError(
                mismatch(
                    "Ladder: denominator",
                    "a number, or an expression such as 'd/2', 'n', 'n-1', 'n-0.5', 'd'",
                    repr(self.denominator),
                )
            )
        if self.denominator == 0:
            raise SpecError(mismatch("Ladder: denominator", "a number other than 0", 0))
        for name, needed in (("last", "linear"), ("frequencies", "explicit")):
            stated = getattr(self, name) is not None
            if stated != (self.spacing == needed):
                expected = f"`{name}` " + ("only with" if stated else "with")
                raise SpecError(
                    mismatch("Ladder", f"{expected} spacing={needed!r}", repr(self.spacing))
                )
        if self.spacing != "geometric" and (self.start or self.cos_shift):
            raise SpecError(
                mismatch("Ladder", "start and cos_shift 0 unless geometric", repr(self.spacing))
            )
        if self.spacing != "explicit" and not self.first > 0:
            raise SpecError(mismatch("Ladder: first", "a positive frequency", self.first))

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
                received = f"{type(error).__name__} in {self}"
                raise SpecError(
                    mismatch("Ladder", "frequencies that are numbers", received)
                ) from None
            if any(abs(rung) > LARGEST_FREQUENCY for rung in rungs):
                worst = max(abs(rung) for rung in rungs)
                raise SpecError(
                    mismatch("Ladder", "frequencies up to 2**40 rad/position", f"{worst:.3g}")
                )
            return rungs

    def _rungs(self, base: Decimal, count: int, width: int, cosine: bool) -> tuple[Decimal, ...]:
        first = Decimal(self.first)
        if self.frequencies is not None:
            if len(self.frequencies) != count:
                what = f"{count} frequencies, one for each rung"
                raise SpecError(mismatch("Ladder: frequencies", what, len(self.frequencies)))
            return tuple(Decimal(value) for value in self.frequencies)
        if self.last is not None:
            gap = (Decimal(self.last) - first) / max(count - 1, 1)
            return tuple(first + gap * j for j in range(count))
        if self.spacing == "octave":
            if count > MOST_OCTAVES:
                received = f"{count} octaves"
                raise SpecError(
                    mismatch("Ladder", "frequencies up to 2**40 rad/position", received)
                )
            return tuple(first * 2**j for j in range(count))
        start = Decimal(self.start) + (Decimal(self.cos_shift) if cosine else 0)
        divisor = self.divisor(count=count, width=width)
        if divisor == 0:
            if count == 1 and start == 0:  # one rung needs no ratio: tensor2tensor's max(n - 1, 1)
                return (first,)
            caller = f"Ladder: denominator {self.denominator!r} for {count} pairs"
            raise SpecError(mismatch(caller, "a divisor other than 0", 0, "Use more pairs."))
        ratio = (-base.ln() / divisor).exp()
        # One exact-looking product per rung: at 50 digits a thousand of them cost three digits.
        rung = first * (-base.ln() * start / divisor).exp()
        rungs = []
        for _ in range(count):
            rungs.append(rung)
            rung *= ratio
        return tuple(rungs)

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


class RungLayout(NamedTuple):
    """Which rung each pair uses: pair j turns with axis `axis[j]` at rung `index[j]`.

    `counts[a]` is the number of rungs of axis a's ladder, `index[j] == -1` marks a pair that does
    not turn.
    """

    axis: tuple[int, ...]
    index: tuple[int, ...]  # type: ignore[assignment]  # the word of the papers, not tuple.index
    counts: tuple[int, ...]


@final
@dataclass(frozen=True)
class Arrangement(Value):
    """How positions meet pairs of channels: which axis and rung each pair uses, and from where.

    Pairs are dealt to the axes in the order `order`, `sizes` of them to each:

        single       one axis; pair j uses rung j
        axial        a block of pairs for each axis, each with a ladder of its own
        axial_cyclic the same ladders, dealt out one pair to each axis in turn
        sections     a block of pairs for each axis, all on one shared ladder (M-RoPE)
        cyclic       axes in turn along the shared ladder, until an axis has its size
        alternate    as cyclic among all axes but the last in order, which takes the end
        parity       rung j of a shared ladder belongs to axis j modulo the number of axes,
                     in blocks by axis (Pixtral)
        explicit     the vectors `axis` and `index` themselves; index -1 is a pair that never turns
        mixed        each pair uses every axis; its frequencies are a column of a matrix

    Parameters
    ----------
    rule : str
        One of the rules above.
    axes : tuple of str
        Names of the trailing axis of the positions, in its order.
    order : tuple of str, optional
        The axes in the order in which channels use them; `axes` by default.
    sizes : tuple of int, optional
        Pairs of each axis, in `order`; equal shares by default.
    axis, index : tuple of int, optional
        For `rule="explicit"`: of each pair, its axis (a place in `axes`) and its rung.
    start : int
        Position p is computed at p + start: 2 for tables whose first two rows are reserved.
    pad : int, optional
        The row that is zero: rows with p + start == pad are filled with zeros.

    Raises
    ------
    SpecError
        If names repeat, sizes do not add up, or a field does not belong to the rule.

    Examples
    --------
    >>> from posenc import Arrangement
    >>> Arrangement(rule="sections", axes=("t", "h", "w"), sizes=(2, 1, 1)).layout(4)
    RungLayout(axis=(0, 0, 1, 2), index=(0, 1, 2, 3), counts=(4, 4, 4))
    """

    _: KW_ONLY
    rule: Literal[
        "single",
        "axial",
        "axial_cyclic",
        "sections",
        "cyclic",
        "alternate",
        "parity",
        "explicit",
        "mixed",
    ] = "single"
    axes: tuple[str, ...] = ("position",)
    order: tuple[str, ...] | None = None
    sizes: tuple[int, ...] | None = None
    axis: tuple[int, ...] | None = None
    index: tuple[int, ...] | None = None
    start: int = 0
    pad: int | None = None

    def check(self) -> None:
        """Raise `SpecError` when names repeat or a field does not belong to the rule."""
        distinct("Arrangement", axes=self.axes)
        if self.order is not None and sorted(self.order) != sorted(self.axes):
            raise SpecError(mismatch("Arrangement: order", f"the names {self.axes}", self.order))
        if self.rule == "single" and len(self.axes) != 1:
            todo = "Choose 'axial', 'sections' or another rule that says how pairs are dealt."
            raise SpecError(mismatch("Arrangement", "one axis with rule='single'", self.axes, todo))
        for name in ("axis", "index"):
            if (getattr(self, name) is not None) != (self.rule == "explicit"):
                caller = f"Arrangement: {name}"
                raise SpecError(mismatch(caller, "it with rule='explicit' alone", repr(self.rule)))
        if self.axis is not None and self.index is not None:
            bad = [a for a in self.axis if not 0 <= a < len(self.axes)]
            if bad or len(self.axis) != len(self.index) or any(i < -1 for i in self.index):
                expected = f"one axis below {len(self.axes)} and one rung >= -1 for each pair"
                raise SpecError(mismatch("Arrangement", expected, f"{self.axis} and {self.index}"))
        if abs(self.start) > 2**53 or abs(self.pad or 0) > 2**53:
            received = f"start={self.start}, pad={self.pad}"
            raise SpecError(mismatch("Arrangement", "start and pad up to 2**53 in size", received))
        sizes = self.sizes
        if sizes is not None and (len(sizes) != len(self.axes) or any(size < 0 for size in sizes)):
            expected = f"{len(self.axes)} counts of pairs"
            raise SpecError(mismatch("Arrangement: sizes", expected, sizes))

    @property
    def shared(self) -> bool:
        """Whether all axes use one ladder."""
        return self.rule not in ("axial", "axial_cyclic")

    @property
    def given(self) -> int | None:
        """The number of pairs, where the fields fix it."""
        if self.axis is not None:
            return len(self.axis)
        return None if self.sizes is None else sum(self.sizes)

    def blocks(self, pairs: int) -> tuple[int, ...]:
        """Pairs in each block of channels: one block to an axis if `axial`, else one in all."""
        return self.shares(pairs) if self.rule == "axial" else (pairs,)

    def shares(self, pairs: int) -> tuple[int, ...]:
        """Pairs of each axis, in channel order; they add up to `pairs`."""
        count = len(self.axes)
        if self.sizes is None:
            if pairs % count:
                todo = "Give `sizes`."
                expected = f"a number of pairs divisible by the {count} axes"
                raise SpecError(mismatch("Arrangement", expected, pairs, todo))
            return (pairs // count,) * count
        if sum(self.sizes) != pairs:
            received = f"{self.sizes}, which add up to {sum(self.sizes)}"
            raise SpecError(mismatch("Arrangement: sizes", f"{pairs} pairs in all", received))
        return self.sizes

    def layout(self, pairs: int) -> RungLayout:
        """The integer vectors for `pairs` pairs."""
        not_too_many("Arrangement", "pairs", pairs, MOST_FREQUENCIES)
        if self.rule == "mixed":
            expected = "a rule that gives each pair one axis"
            raise SpecError(mismatch("Arrangement: rule", expected, "'mixed'"))
        if self.axis is not None and self.index is not None:
            if len(self.axis) != pairs:
                raise SpecError(mismatch("Arrangement: axis", f"{pairs} entries", len(self.axis)))
            rungs = max(self.index, default=-1) + 1
            return RungLayout(self.axis, self.index, (rungs,) * len(self.axes))
        shares = self.shares(pairs)
        dealt = _deal(self.rule, shares)
        place = [self.axes.index(name) for name in self.order or self.axes]
        counts = [pairs] * len(self.axes)
        if not self.shared:
            for number, share in zip(place, shares, strict=True):
                counts[number] = share
        axis = tuple(place[a] for a, _ in dealt)
        return RungLayout(axis, tuple(rung for _, rung in dealt), tuple(counts))


def _deal(rule: str, shares: tuple[int, ...]) -> list[tuple[int, int]]:
    """(place in channel order, rung) for each pair."""
    axes, pairs = len(shares), sum(shares)
    blocks = [(a, k) for a, share in enumerate(shares) for k in range(share)]
    if rule in ("single", "axial"):
        return blocks
    if rule == "axial_cyclic":
        return sorted(blocks, key=lambda pair: (pair[1], pair[0]))
    if rule == "sections":
        return [(a, j) for j, (a, _) in enumerate(blocks)]
    if rule == "parity":
        return [(a, j) for a in range(axes) for j in range(a, pairs, axes)]
    if rule == "cyclic":
        # Rung j belongs to axis j mod axes while that axis has pairs left, else to the first axis.
        ends = [axes * share for share in shares]
        return [(j % axes if j < ends[j % axes] else 0, j) for j in range(pairs)]
    # alternate: the leading axes take turns, what is left of the ladder goes to the last in order.
    leading = axes - 1 if axes > 2 else axes
    turns = sorted((k, a) for a in range(leading) for k in range(shares[a]))
    dealt = [(a, j) for j, (_, a) in enumerate(turns)]
    return dealt + [(axes - 1, j) for j in range(len(dealt), pairs)]
