"""The phase matrix of a spec: its constants, worked out once, and its cosines and sines.

    phase[p, j] = sum over axes a of  (position[p, a] + start) * frequency[j, a]

Tables and rotary embeddings hold a `PhaseMatrix` made from their fields; it is no field itself. In
a `DenseMatrix` every pair mixes every axis, with no entry that must be zero: it is data, written
out, or drawn from a seed by a rule that is the same on every machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from decimal import Decimal, localcontext
from itertools import accumulate, chain, pairwise
from statistics import NormalDist
from typing import Any, Literal, NamedTuple, NoReturn, Protocol, final

import numpy as np

from posenc._core.errors import KeywordError, bad_spec
from posenc._core.numeric import real
from posenc._core.numeric.arrangement import Arrangement
from posenc._core.numeric.ladder import (
    DECIMAL,
    FLOAT,
    LARGEST_FREQUENCY,
    MOST_FREQUENCIES,
    Float32Rungs,
    Ladder,
    Number,
    Rescaling,
    RungArithmetic,
    Rungs,
    context,
    pi,
)
from posenc._core.numeric.phase import Array, classic, cos_sin, evaluate, steps, turns
from posenc._core.spec.checks import not_too_many, positive
from posenc._core.spec.spec import Value


class PhaseMatrix(NamedTuple):
    """Which frequencies turn which pairs, and with which arithmetic.

    Parameters
    ----------
    base : float or tuple of float
        One for all axes, or one for each.
    ladder : Ladder or tuple of Ladder
        Likewise.
    arrangement : Arrangement
        Which pair turns with which axis and rung.
    pairs : int
        How many there are.
    width : int
        Channels served: 2 pairs, or one less where the last sine stands alone.
    phase : {"exact", "float32"}
        Integer phases, or the arithmetic of published code.
    coordinates : {"integer", "real"}
        Whether positions may be real numbers.
    scaling : tuple of Scaling
        What changes the ladders, in this order.
    """

    base: float | tuple[float, ...]
    ladder: Ladder | tuple[Ladder, ...]
    arrangement: Arrangement
    pairs: int
    width: int
    phase: Literal["exact", "float32"]
    coordinates: Literal["integer", "real"] = "integer"
    scaling: tuple[Rescaling, ...] = ()

    @property
    def ladders(self) -> tuple[tuple[Ladder, float], ...]:
        """The ladder and the base of each axis."""
        axes = len(self.arrangement.axes)
        ladders = self.ladder if isinstance(self.ladder, tuple) else (self.ladder,) * axes
        bases = self.base if isinstance(self.base, tuple) else (self.base,) * axes
        return tuple(zip(ladders, bases, strict=True))

    @property
    def _two_exponents(self) -> bool:
        return any(ladder.cos_shift for ladder, _ in self.ladders)

    def _of_rungs(self, ladders: list[Any], zero: Any) -> list[Any]:
        """Pick for each pair its entry among those of the rungs."""
        layout = self.arrangement.layout(self.pairs)
        return [
            ladders[a][j] if j >= 0 else zero
            for a, j in zip(layout.axis, layout.index, strict=True)
        ]

    def _sizes(self) -> list[tuple[int, int]]:
        """(rungs, channels served) of the ladder of each axis."""
        return [
            (n, self.width if n == self.pairs else 2 * n)
            for n in self.arrangement.layout(self.pairs).counts
        ]

    def frequencies(self, *, cosine: bool = False) -> tuple[Decimal, ...]:
        """Radians per position of each pair, to about 45 digits."""
        with localcontext(context()):
            ladders = [self._rungs(a, cosine) for a in range(len(self.arrangement.axes))]
            return tuple(self._of_rungs(ladders, Decimal(0)))

    def _rungs(self, axis: int, cosine: bool) -> tuple[Decimal, ...]:
        (ladder, _), (count, width) = self.ladders[axis], self._sizes()[axis]
        if not count:
            return ()
        base = self._base(axis, DECIMAL)
        rungs = Rungs(
            ladder.rungs(base, count=count, width=width, cosine=cosine), base, width, axis, DECIMAL
        )
        for scaling in self.scaling:
            rungs = scaling.scale(rungs)
        return rungs.frequencies

    def constants(self) -> dict[str, np.ndarray]:
        """What `cos_sin` needs; the cosines have entries of their own where they differ."""
        constants = self._constants(cosine=False)
        if self._two_exponents:
            constants |= {f"cosine_{k}": v for k, v in self._constants(cosine=True).items()}
        return constants

    def _constants(self, *, cosine: bool) -> dict[str, np.ndarray]:
        axes, start = len(self.arrangement.axes), self.arrangement.start
        axis = np.array(self.arrangement.layout(self.pairs).axis, dtype=np.int64)
        onehot = axis == np.arange(axes)[:, None]
        if self.phase == "float32":
            return self._float32_constants(onehot, cosine)
        frequencies = self.frequencies(cosine=cosine)
        constants = {"step": np.where(onehot, steps(frequencies), 0)}
        if start:
            with np.errstate(over="ignore"):
                constants["origin"] = constants["step"].sum(axis=0) * np.array([start])
        if self.coordinates == "real":
            constants |= real.constants(np.where(onehot, np.array(frequencies, dtype=object), 0))
        return constants

    def _float32_constants(self, onehot: np.ndarray, cosine: bool) -> dict[str, np.ndarray]:
        constants: dict[str, np.ndarray] = {}
        for a, ladder, base, (count, width) in self._float32_ladders():
            constants[f"terms{a}"] = np.array(
                ladder.float32_terms(base, count=count, width=width, cosine=cosine),
                dtype=np.float32,
            )
            constants[f"index{a}"] = np.arange(count, dtype=np.float32)
        ends = [0, *accumulate(count for count, _ in self._sizes())]
        # Pairs that do not turn read any rung and multiply it by the zero of the mask.
        picked = np.array(self._of_rungs([range(*place) for place in pairwise(ends)], -1))
        constants["pick"] = np.maximum(picked, 0).astype(np.int32)
        constants["mask"] = (onehot & (picked >= 0)).astype(np.float32)
        return constants

    def _float32_ladders(self) -> list[tuple[int, Ladder, float, tuple[int, int]]]:
        """(axis, ladder, its base after the scalings, its sizes) of each axis that has rungs."""
        ladders = enumerate(zip(self.ladders, self._sizes(), strict=True))
        return [(a, ladder, self._base(a, FLOAT), n) for a, ((ladder, _), n) in ladders if n[0]]

    def _base(self, axis: int, numbers: RungArithmetic) -> Number:
        base, width = numbers.number(self.ladders[axis][1]), self._sizes()[axis][1]
        for scaling in self.scaling:
            base = scaling.rebase(base, width, axis, numbers)
        return base

    def cos_sin(
        self, positions: Array, constants: Mapping[str, Array], *, dtype: Any, xp: Any
    ) -> tuple[Array, Array]:
        """Cosines and sines: positions (..., axes) -> two arrays (..., pairs) in `dtype`."""
        cos, sin = self._cos_sin(positions, constants, "", dtype, xp)
        if self._two_exponents:
            cos, _ = self._cos_sin(positions, constants, "cosine_", dtype, xp)
        return cos, sin

    def _cos_sin(
        self, positions: Array, constants: Mapping[str, Array], prefix: str, dtype: Any, xp: Any
    ) -> tuple[Array, Array]:
        if self.phase == "exact":
            step, origin = constants[f"{prefix}step"], constants.get(f"{prefix}origin")
            if xp.isdtype(positions.dtype, "integral"):
                return evaluate(turns(positions, step, origin), dtype=dtype, xp=xp)
            whole, slope = constants.get(f"{prefix}whole"), constants[f"{prefix}slope"]
            return real.cos_sin(positions, step, whole, slope, origin, dtype=dtype, xp=xp)
        return classic(
            positions + self.arrangement.start if self.arrangement.start else positions,
            self._float32(constants, prefix, xp),
            dtype=dtype,
            xp=xp,
        )

    def _float32(self, constants: Mapping[str, Array], prefix: str, xp: Any) -> Array:
        """The frequencies (axes, pairs) in float32.

        The functions run in the caller's library, as its bits are the ones to repeat.
        """
        ladders = []
        for a, ladder, base, (_, width) in self._float32_ladders():
            terms, index = constants[f"{prefix}terms{a}"], constants[f"{prefix}index{a}"]

            # A power's bits may depend on the length of its vector, as tails take another path.
            def leading(
                k: int, ladder: Ladder = ladder, terms: Array = terms, base: float = base
            ) -> Array:
                return ladder.float32_values(terms[:k], base, xp=xp)

            values = ladder.float32_values(terms, base, xp=xp)
            powers = ladder.powers
            for scaling in self.scaling:
                rungs = Float32Rungs(
                    values, base**terms if powers else 1.0 / values, index, base, width, a, leading
                )
                values, powers = scaling.float32(rungs, xp=xp), False
            ladders.append(values)
        values = ladders[0] if len(ladders) == 1 else xp.concat(ladders)
        return xp.take(values, constants[f"{prefix}pick"], axis=0) * constants[f"{prefix}mask"]


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
        self._require(
            len(lengths) == 1 and 0 not in lengths,
            "rows",
            "rows of one length",
            f"rows of {sorted(lengths)} numbers",
        )

    @property
    def shape(self) -> tuple[int, int]:
        """(axes, pairs)."""
        return len(self.rows), len(self.rows[0])

    def matrix(self, axes: int, pairs: int) -> list[list[Decimal]]:
        """The frequencies in radians per position: `axes` rows of `pairs`."""
        self._require(
            self.shape == (axes, pairs),
            "rows",
            f"{axes} rows of {pairs} numbers",
            f"shape {self.shape}",
        )
        return [[_radians(Decimal(value), self.unit) for value in row] for row in self.rows]


@final
@dataclass(frozen=True, kw_only=True)
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

    sigma: float = 1.0
    seed: int = 0

    def check(self) -> None:
        """Raise `SpecError` for a deviation or seed that cannot be."""
        positive("Gaussian", sigma=self.sigma)
        self._require(0 <= self.seed < 2**64, "seed", "a number from 0 to 2**64 - 1")

    def matrix(self, axes: int, pairs: int) -> list[list[Decimal]]:
        """The frequencies in radians per position: `axes` rows of `pairs`."""
        words = np.random.Philox(key=self.seed).random_raw(axes * pairs)
        normal = NormalDist(0.0, self.sigma)
        drawn = [normal.inv_cdf(((int(word) >> 11) + 0.5) * 2.0**-53) for word in words]
        radians = [_radians(Decimal(float(np.float32(value))), "turns") for value in drawn]
        return [radians[a * pairs : (a + 1) * pairs] for a in range(axes)]


def _radians(value: Decimal, unit: str) -> Decimal:
    return context().multiply(value, context().multiply(2, pi())) if unit == "turns" else value


class FrequencyRows(Protocol):
    """What gives frequencies when asked, in the decimal `context` and in no traced graph."""

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
        with localcontext(context()):
            rows = self.rows.matrix(self.axes, self.pairs)
        for value in chain(*rows):
            if abs(value) > LARGEST_FREQUENCY:
                raise bad_spec("frequencies", "up to 2**40 rad/position", f"{value:.3g}")
        return tuple(map(tuple, rows))

    def constants(self) -> dict[str, np.ndarray]:
        """What `cos_sin` needs."""
        frequencies = np.array(self.frequencies(), dtype=object)
        if self.phase == "float32":
            return {"slope": frequencies.astype(np.float64).astype(np.float32)}
        return {
            "step": np.array([steps(row) for row in frequencies]),
            **real.constants(frequencies),
        }

    def cos_sin(
        self, positions: Array, constants: Mapping[str, Array], *, dtype: Any, xp: Any
    ) -> tuple[Array, Array]:
        """Cosines and sines: positions (..., axes) -> two arrays (..., pairs) in `dtype`."""
        if self.phase == "float32":
            return classic(positions, constants["slope"], dtype=dtype, xp=xp)
        step, whole, slope = constants["step"], constants.get("whole"), constants["slope"]
        return (
            cos_sin(positions, step, dtype=dtype, xp=xp)
            if xp.isdtype(positions.dtype, "integral")
            else real.cos_sin(positions, step, whole, slope, dtype=dtype, xp=xp)
        )


def _uncalled(*_: Any, **__: Any) -> NoReturn:
    """Refuse the call of who takes it for the matrix of a position."""
    raise KeywordError(
        "matrix: it is for authors. The matrix of a rotation at p is spec.rotate(np.eye(spec.dim)"
        "[:, None], offset=p)[:, 0].T; that of a table is posenc.shift(spec, k)."
    )


PhaseMatrix.__call__ = DenseMatrix.__call__ = _uncalled  # type: ignore[method-assign]


def pair_steps(base: float, width: int, ladder: Ladder = Ladder()) -> np.ndarray:  # noqa: B008
    """The exact steps of the pairs of a width along one axis: (1, pairs)."""
    return PhaseMatrix(base, ladder, Arrangement(), width // 2, width, "exact").constants()["step"]
