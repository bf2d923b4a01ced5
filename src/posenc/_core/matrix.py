"""The phase matrix of a spec: its constants, worked out once, and its cosines and sines.

    phase[p, j] = sum over axes a of  (position[p, a] + start) * frequency[j, a]

Tables and rotary embeddings hold a `PhaseMatrix` made from their fields; it is no field itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Literal, NamedTuple

import numpy as np

from posenc._core import real
from posenc._core.ladder import Arrangement, Ladder
from posenc._core.phase import Array, classic, cos_sin, steps

__all__ = ["PhaseMatrix"]


class PhaseMatrix(NamedTuple):
    """Which frequencies turn which pairs, and with which arithmetic."""

    base: float | tuple[float, ...]  # one for all axes, or one for each
    ladder: Ladder | tuple[Ladder, ...]  # likewise
    arrangement: Arrangement
    pairs: int
    width: int  # channels served: 2 * pairs, or one less where the last sine stands alone
    phase: Literal["exact", "float32"]
    coordinates: Literal["integer", "real"] = "integer"

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
        ladders = [
            ladder.rungs(base, count=n, width=w, cosine=cosine) if n else ()
            for (ladder, base), (n, w) in zip(self.ladders, self._sizes(), strict=True)
        ]
        return tuple(self._of_rungs(ladders, Decimal(0)))

    def constants(self) -> dict[str, np.ndarray]:
        """What `cos_sin` needs; the cosines have entries of their own where they differ."""
        made = self._constants(cosine=False)
        if self._two_exponents:
            made |= {f"cosine_{k}": v for k, v in self._constants(cosine=True).items()}
        return made

    def _constants(self, *, cosine: bool) -> dict[str, np.ndarray]:
        axes, start = len(self.arrangement.axes), self.arrangement.start
        axis = np.array(self.arrangement.layout(self.pairs).axis, dtype=np.int64)
        onehot = axis == np.arange(axes)[:, None]
        if self.phase == "float32":
            ladders = [
                ladder.float32_terms(base, count=n, width=w, cosine=cosine)
                for (ladder, base), (n, w) in zip(self.ladders, self._sizes(), strict=True)
            ]
            turning = np.array(self._of_rungs([np.ones(n) for n, _ in self._sizes()], 0.0))
            terms = np.array(self._of_rungs(ladders, 0.0), dtype=np.float32)
            return {"terms": terms, "mask": (onehot * turning).astype(np.float32)}
        frequencies = self.frequencies(cosine=cosine)
        made = {"step": np.where(onehot, steps(frequencies), 0)}
        if start:
            with np.errstate(over="ignore"):
                made["origin"] = made["step"].sum(axis=0) * np.array([start])
        if self.coordinates == "real":
            made |= real.constants(np.where(onehot, np.array(frequencies, dtype=object), 0))
        return made

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
                return cos_sin(positions, step, origin, dtype=dtype, xp=xp)
            whole, slope = constants.get(f"{prefix}whole"), constants[f"{prefix}slope"]
            return real.cos_sin(positions, step, whole, slope, origin, dtype=dtype, xp=xp)
        moved = positions + self.arrangement.start if self.arrangement.start else positions
        frequencies = self._float32(constants[f"{prefix}terms"], constants[f"{prefix}mask"], xp)
        cos, sin = classic(moved, frequencies, xp=xp)
        return xp.astype(cos, dtype), xp.astype(sin, dtype)

    def _float32(self, terms: Array, mask: Array, xp: Any) -> Array:
        """The frequencies (axes, pairs) in float32."""
        # The functions run in the caller's library, as its bits are the ones to repeat.
        if isinstance(self.ladder, Ladder) and not isinstance(self.base, tuple):
            return self.ladder.float32_values(terms, self.base, xp=xp) * mask
        # A term of one ladder may overflow in the rule of another, so each sees its own alone.
        rows = []
        for a, (ladder, base) in enumerate(self.ladders):
            own = mask[a, :]
            rows.append(ladder.float32_values(terms * own, base, xp=xp) * own)
        return xp.stack(rows)
