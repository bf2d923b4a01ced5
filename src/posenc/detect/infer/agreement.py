"""What an encoding makes of inputs, and the difference that arithmetic explains."""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc.detect.fit import tolerances
from posenc.detect.fit.rotations.pairs import (
    FLOAT32,
)
from posenc.detect.fit.rotations.rotation import MeasuredTurns
from posenc.detect.fit.rotations.rotation_specs import RotationFit
from posenc.functional import rotate


class Expectation:
    """What a fit makes of queries and keys at steps of some unit, and what arithmetic explains."""

    def __init__(self, fit: RotationFit, turns: MeasuredTurns, unit: float) -> None:
        self.fit, self.turns, self.unit = fit, turns, unit

    def __call__(self, x: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Queries (batch, heads, seq, channels) at rows of positions, turned."""
        return self._made(x, rows, self.fit)

    def keys(self, x: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """The same of keys."""
        other: Any = "key" if self.fit.role == "query" else "query"
        return self._made(x, rows, self.fit._replace(role=other))

    def _made(self, x: np.ndarray, rows: np.ndarray, fit: RotationFit) -> np.ndarray:
        places = in_units(rows, self.unit)
        if (places == places[:1]).all():
            return made_by(fit, x, places[0])
        return np.concatenate([made_by(fit, x[[b]], row) for b, row in enumerate(places)])

    def allowed(
        self, x: np.ndarray, wanted: np.ndarray, rows: np.ndarray, dtype: str
    ) -> np.ndarray:
        """The difference that the arithmetic of the implementation explains."""
        steps = rows[..., None] if rows.ndim == 2 else rows
        # Coordinates that are no integers are handed over in float32.
        eps = self.turns.eps if self.unit == 1 and dtype not in tolerances.HALVES else FLOAT32
        room = self.turns.allowed(x, wanted, steps[:, None], eps)
        if dtype not in tolerances.HALVES:
            return room
        return room + 4 * tolerances.ROUNDING[dtype] * np.abs(wanted).max(axis=-1, keepdims=True)


def in_units(steps: np.ndarray, unit: float) -> np.ndarray:
    """Coordinates of some steps."""
    return steps if unit == 1 else (steps * unit).astype(np.float32)


def made_by(fit: RotationFit, x: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """What the encoding makes of x (..., seq, channels), float64."""
    inputs = x.astype(np.float64)
    inner = inputs if fit.channels is None else inputs[..., list(fit.channels)]
    # Learned values are those of one head, whatever the axes of x.
    flat = inner.reshape(-1, 1, *inner.shape[-2:]) if fit.params else inner
    turned = rotate(
        fit.exact if fit.departed else fit.spec, flat, positions=positions, role=fit.role,
        params=fit.params or None,
    ).reshape(inner.shape)  # fmt: skip
    if fit.channels is None:
        return np.asarray(turned)
    out = inputs.copy()
    out[..., list(fit.channels)] = turned
    return out
