"""Columns that are waves, at any position."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

TURN = 2.0**-64 * 2 * math.pi  # radians in one unit of phase

QUARTER = 2**62


@dataclass(frozen=True)
class ColumnWaves:
    """Columns that are sines and cosines: amplitude * sin(position * step + origin)."""

    pair: np.ndarray
    function: np.ndarray
    step: np.ndarray
    origin: np.ndarray
    amplitude: float

    @property
    def frequency(self) -> np.ndarray:
        """Radians per position, from -pi to pi: what integer positions can show of them."""
        return self.step * TURN

    @property
    def wavelength(self) -> np.ndarray:
        """Positions per wave; infinite where nothing turns."""
        with np.errstate(divide="ignore"):
            return 2 * math.pi / np.abs(self.frequency)

    def at(self, whole: np.ndarray, part: np.ndarray | None, dims: np.ndarray) -> np.ndarray:
        """Values between positions too."""
        step = self.step[dims]
        phase = whole[:, None] * step + self.origin[dims]
        if part is not None:
            phase = phase + np.rint(part[:, None] * step.astype(np.float64)).astype(np.int64)
        return np.where(self.pair[dims] < 0, 0.0, self.amplitude * np.sin(phase * TURN))
