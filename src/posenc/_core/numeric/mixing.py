"""Frequencies where every pair mixes every axis: a matrix, given or drawn.

    phase[p, j] = sum over axes a of  position[p, a] * frequency[a, j]

with no entry that must be zero. The matrix is data: written out, or drawn from a seed by a rule
that is the same on every machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from decimal import Decimal
from statistics import NormalDist
from typing import Any, Literal, NamedTuple, Protocol, final

import numpy as np

from posenc._core.errors import bad_spec
from posenc._core.numeric import real
from posenc._core.numeric.ladder import LARGEST_FREQUENCY, MOST_FREQUENCIES, context, pi
from posenc._core.numeric.phase import Array, classic, cos_sin, steps
from posenc._core.spec.checks import not_too_many, positive
from posenc._core.spec.spec import Value


@final
@dataclass(frozen=True)
class FrequencyMatrix(Value):
    """A matrix of frequencies, written out: what a checkpoint stores.

    Parameters
    ----------
    rows : tuple of tuple of float
        One row for each axis, with one number for each pair.
    unit : {"radians", "turns"}
        Radians per position, or turns, which are 2 pi radians.

    Raises
    ------
    SpecError
        If the rows differ in length, or are empty.

    Examples
    --------
    >>> from posenc import FrequencyMatrix
    >>> FrequencyMatrix(((1.0, 0.0), (0.5, 2.0)), unit="turns").shape
    (2, 2)
    """

    rows: tuple[tuple[float, ...], ...]
    _: KW_ONLY
    unit: Literal["radians", "turns"] = "radians"

    def check(self) -> None:
        """Raise `SpecError` when the rows are no matrix."""
        lengths = {len(row) for row in self.rows}
        if len(lengths) != 1 or 0 in lengths:
            raise self._mismatch("rows", "rows of one length", f"rows of {sorted(lengths)} numbers")

    @property
    def shape(self) -> tuple[int, int]:
        """(axes, pairs)."""
        return len(self.rows), len(self.rows[0])

    def matrix(self, axes: int, pairs: int) -> list[list[Decimal]]:
        """The frequencies in radians per position: `axes` rows of `pairs`."""
        if self.shape != (axes, pairs):
            raise self._mismatch("rows", f"{axes} rows of {pairs} numbers", f"shape {self.shape}")
        return [[_radians(Decimal(value), self.unit) for value in row] for row in self.rows]


@final
@dataclass(frozen=True)
class Gaussian(Value):
    """A matrix of frequencies drawn from a normal distribution: random Fourier features.

        frequency[a, j] = 2 pi * sigma * normal()

    Tancik et al. (2020, arXiv:2006.10739). The numbers follow from the seed alone, on every machine
    and in every version: the upper 53 bits of each word of the generator Philox-4x64-10, whose key
    is the seed, taken as a uniform number in (0, 1), through the inverse of the normal
    distribution, rounded to float32, row by row. They are not those that other code draws from the
    same seed; a trained matrix is data, for `FrequencyMatrix`.

    Parameters
    ----------
    sigma : float
        Standard deviation, in turns per unit of position.
    seed : int
        A number of at least 0.

    Raises
    ------
    SpecError
        If sigma is not positive or the seed is negative.

    Examples
    --------
    >>> from posenc import Gaussian
    >>> [round(float(f), 3) for f in Gaussian(sigma=1.0, seed=0).matrix(1, 2)[0]]
    [-14.275, -4.407]
    """

    _: KW_ONLY
    sigma: float = 1.0
    seed: int = 0

    def check(self) -> None:
        """Raise `SpecError` for a deviation or seed that cannot be."""
        positive("Gaussian", sigma=self.sigma)
        if not 0 <= self.seed < 2**64:
            raise self._mismatch("seed", "a number from 0 to 2**64 - 1")

    def matrix(self, axes: int, pairs: int) -> list[list[Decimal]]:
        """The frequencies in radians per position: `axes` rows of `pairs`."""
        words = np.random.Philox(key=self.seed).random_raw(axes * pairs)
        normal = NormalDist(0.0, self.sigma)
        drawn = [normal.inv_cdf(((int(word) >> 11) + 0.5) * 2.0**-53) for word in words]
        turns = [Decimal(float(np.float32(value))) for value in drawn]
        rows = [turns[a * pairs : (a + 1) * pairs] for a in range(axes)]
        return [[_radians(value, "turns") for value in row] for row in rows]


def _radians(value: Decimal, unit: str) -> Decimal:
    arithmetic = context()
    if unit == "turns":
        value = arithmetic.multiply(value, arithmetic.multiply(2, pi()))
    return value


def _limited(value: Decimal) -> Decimal:
    if abs(value) > LARGEST_FREQUENCY:
        raise bad_spec("frequencies", "up to 2**40 rad/position", f"{value:.3g}")
    return value


class FrequencyRows(Protocol):
    """What gives a matrix of frequencies when asked, which is never while a graph is traced."""

    def matrix(self, axes: int, pairs: int) -> list[list[Decimal]]:
        """The frequencies in radians per position: `axes` rows of `pairs`."""


class DenseMatrix(NamedTuple):
    """The phases of pairs that mix axes: what `PhaseMatrix` is for pairs with one axis each.

    Parameters
    ----------
    rows : FrequencyMatrix, Gaussian, or what has a method `matrix` like theirs
        (axes, pairs) -> radians per position, one row for each axis.
    axes, pairs : int
        Its shape.
    phase : {"exact", "float32"}
        Integer phases, or the arithmetic of published code.
    """

    rows: FrequencyRows
    axes: int
    pairs: int
    phase: Literal["exact", "float32"]

    def frequencies(self) -> tuple[tuple[Decimal, ...], ...]:
        """Radians per position, one row for each axis, to about 45 digits."""
        not_too_many("frequencies", "of them", self.axes * self.pairs, MOST_FREQUENCIES)
        rows = self.rows.matrix(self.axes, self.pairs)
        return tuple(tuple(_limited(value) for value in row) for row in rows)

    def constants(self) -> dict[str, np.ndarray]:
        """What `cos_sin` needs."""
        frequencies = np.array(self.frequencies(), dtype=object)
        if self.phase == "float32":
            return {"slope": frequencies.astype(np.float64).astype(np.float32)}
        step = np.array([steps(row) for row in frequencies])
        return {"step": step, **real.constants(frequencies)}

    def cos_sin(
        self, positions: Array, constants: Mapping[str, Array], *, dtype: Any, xp: Any
    ) -> tuple[Array, Array]:
        """Cosines and sines: positions (..., axes) -> two arrays (..., pairs) in `dtype`."""
        if self.phase == "float32":
            cos, sin = classic(positions, constants["slope"], xp=xp)
            return xp.astype(cos, dtype), xp.astype(sin, dtype)
        step, whole, slope = constants["step"], constants.get("whole"), constants["slope"]
        if xp.isdtype(positions.dtype, "integral"):
            return cos_sin(positions, step, dtype=dtype, xp=xp)
        return real.cos_sin(positions, step, whole, slope, dtype=dtype, xp=xp)
