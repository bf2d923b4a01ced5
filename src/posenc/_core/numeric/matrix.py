"""The phase matrix of a spec: its constants, worked out once, and its cosines and sines.

    phase[p, j] = sum over axes a of  (position[p, a] + start) * frequency[j, a]

Tables and rotary embeddings hold a `PhaseMatrix` made from their fields; it is no field itself.
"""

from __future__ import annotations

import decimal
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Literal, NamedTuple

import numpy as np

from posenc._core.numeric import real
from posenc._core.numeric.arrangement import Arrangement
from posenc._core.numeric.ladder import Ladder, context
from posenc._core.numeric.phase import Array, classic, evaluate, steps, turns
from posenc._core.numeric.rungs import DECIMAL, FLOAT, Float32Rungs, Rescaling, Rungs


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
        chosen = zip(layout.axis, layout.index, strict=True)
        return [ladders[a][j] if j >= 0 else zero for a, j in chosen]

    def _sizes(self) -> list[tuple[int, int]]:
        """(rungs, channels served) of the ladder of each axis."""
        counts = self.arrangement.layout(self.pairs).counts
        return [(n, self.width if n == self.pairs else 2 * n) for n in counts]

    def frequencies(self, *, cosine: bool = False) -> tuple[Decimal, ...]:
        """Radians per position of each pair, to about 45 digits."""
        with decimal.localcontext(context()):
            ladders = [self._rungs(a, cosine) for a in range(len(self.arrangement.axes))]
        return tuple(self._of_rungs(ladders, Decimal(0)))

    def _rungs(self, axis: int, cosine: bool) -> tuple[Decimal, ...]:
        (ladder, plain), (count, width) = self.ladders[axis], self._sizes()[axis]
        if not count:
            return ()
        base = Decimal(plain)
        for scaling in self.scaling:
            base = scaling.rebase(base, width, axis, DECIMAL)
        frequencies = ladder.rungs(base, count=count, width=width, cosine=cosine)
        rungs = Rungs(frequencies, base, width, axis, DECIMAL)
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
        numbers, total = [], 0
        for a, ((ladder, _), (count, width)) in enumerate(
            zip(self.ladders, self._sizes(), strict=True)
        ):
            numbers.append(range(total, total + count))
            total += count
            if count:
                base = self._float32_base(a)
                terms = ladder.float32_terms(base, count=count, width=width, cosine=cosine)
                constants[f"terms{a}"] = np.array(terms, dtype=np.float32)
                constants[f"index{a}"] = np.arange(count, dtype=np.float32)
        # Pairs that do not turn read any rung and multiply it by the zero of the mask.
        picked = np.array(self._of_rungs(numbers, -1))
        constants["pick"] = np.maximum(picked, 0).astype(np.int32)
        constants["mask"] = (onehot & (picked >= 0)).astype(np.float32)
        return constants

    def _float32_base(self, axis: int) -> float:
        base, width = self.ladders[axis][1], self._sizes()[axis][1]
        for scaling in self.scaling:
            base = scaling.rebase(base, width, axis, FLOAT)
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
        moved = positions + self.arrangement.start if self.arrangement.start else positions
        frequencies = self._float32(constants, prefix, xp)
        cos, sin = classic(moved, frequencies, xp=xp)
        return xp.astype(cos, dtype), xp.astype(sin, dtype)

    def _float32(self, constants: Mapping[str, Array], prefix: str, xp: Any) -> Array:
        """The frequencies (axes, pairs) in float32.

        The functions run in the caller's library, as its bits are the ones to repeat.
        """
        ladders = []
        for a, ((ladder, _), (count, width)) in enumerate(
            zip(self.ladders, self._sizes(), strict=True)
        ):
            if not count:
                continue
            base = self._float32_base(a)
            terms, index = constants[f"{prefix}terms{a}"], constants[f"{prefix}index{a}"]

            # A power's bits may depend on the length of its vector, as tails take another path.
            def leading(
                k: int, ladder: Ladder = ladder, terms: Array = terms, base: float = base
            ) -> Array:
                return ladder.float32_values(terms[:k], base, xp=xp)

            values = ladder.float32_values(terms, base, xp=xp)
            powers = ladder.powers
            for scaling in self.scaling:
                periods = base**terms if powers else 1.0 / values
                rungs = Float32Rungs(values, periods, index, base, width, a, leading)
                values, powers = scaling.float32(rungs, xp=xp), False
            ladders.append(values)
        values = ladders[0] if len(ladders) == 1 else xp.concat(ladders)
        return xp.take(values, constants[f"{prefix}pick"], axis=0) * constants[f"{prefix}mask"]


def pair_steps(base: float, width: int, ladder: Ladder = Ladder()) -> np.ndarray:  # noqa: B008
    """The exact steps of the pairs of a width along one axis: (1, pairs)."""
    matrix = PhaseMatrix(base, ladder, Arrangement(), width // 2, width, "exact")
    return matrix.constants()["step"]
