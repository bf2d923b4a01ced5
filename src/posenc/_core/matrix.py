"""The phase matrix of a spec: its constants, worked out once, and its cosines and sines.

    phase[p, j] = sum over axes a of  (position[p, a] + start) * frequency[j, a]

Tables and rotary embeddings hold a `PhaseMatrix` made from their fields; it is no field itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Literal, NamedTuple

import numpy as np

from posenc._core.ladder import Arrangement, Ladder
from posenc._core.phase import Array, classic, cos_sin, steps

__all__ = ["PhaseMatrix"]


class PhaseMatrix(NamedTuple):
    """Which frequencies turn which pairs, and with which arithmetic."""

    base: float
    ladder: Ladder
    arrangement: Arrangement
    pairs: int
    width: int  # channels served: 2 * pairs, or one less where the last sine stands alone
    phase: Literal["exact", "float32"]

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
            self.ladder.rungs(self.base, count=n, width=w, cosine=cosine) if n else ()
            for n, w in self._sizes()
        ]
        return tuple(self._of_rungs(ladders, Decimal(0)))

    def constants(self) -> dict[str, np.ndarray]:
        """What `cos_sin` needs; the cosines have entries of their own where they differ."""
        made = self._constants(cosine=False)
        if self.ladder.cos_shift:
            made |= {f"cosine_{k}": v for k, v in self._constants(cosine=True).items()}
        return made

    def _constants(self, *, cosine: bool) -> dict[str, np.ndarray]:
        axes, start = len(self.arrangement.axes), self.arrangement.start
        axis = np.array(self.arrangement.layout(self.pairs).axis, dtype=np.int64)
        onehot = axis == np.arange(axes)[:, None]
        if self.phase == "float32":
            ladders = [
                self.ladder.float32_terms(self.base, count=n, width=w, cosine=cosine)
                for n, w in self._sizes()
            ]
            turning = np.array(self._of_rungs([np.ones(n) for n, _ in self._sizes()], 0.0))
            terms = np.array(self._of_rungs(ladders, 0.0), dtype=np.float32)
            return {"terms": terms, "mask": (onehot * turning).astype(np.float32)}
        step = np.where(onehot, steps(self.frequencies(cosine=cosine)), 0)
        if not start:
            return {"step": step}
        with np.errstate(over="ignore"):
            return {"step": step, "origin": step.sum(axis=0) * np.array([start])}

    def cos_sin(
        self, positions: Array, constants: Mapping[str, Array], *, dtype: Any, xp: Any
    ) -> tuple[Array, Array]:
        """Cosines and sines: positions (..., axes) -> two arrays (..., pairs) in `dtype`."""
        cos, sin = self._cos_sin(positions, constants, "", dtype, xp)
        if self.ladder.cos_shift:
            cos, _ = self._cos_sin(positions, constants, "cosine_", dtype, xp)
        return cos, sin

    def _cos_sin(
        self, positions: Array, constants: Mapping[str, Array], prefix: str, dtype: Any, xp: Any
    ) -> tuple[Array, Array]:
        if self.phase == "exact":
            step, origin = constants[f"{prefix}step"], constants.get(f"{prefix}origin")
            return cos_sin(positions, step, origin, dtype=dtype, xp=xp)
        # The functions run in the caller's library, as its bits are the ones to repeat.
        values = self.ladder.float32_values(constants[f"{prefix}terms"], self.base, xp=xp)
        moved = positions + self.arrangement.start if self.arrangement.start else positions
        cos, sin = classic(moved, values * constants[f"{prefix}mask"], xp=xp)
        return xp.astype(cos, dtype), xp.astype(sin, dtype)
