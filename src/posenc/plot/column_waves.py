"""Columns that are waves, at any position."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

__all__ = ["QUARTER", "ColumnWaves"]

TURN = 2.0**-64 * 2 * math.pi  # radians in one unit of phase

QUARTER = 2**62


@dataclass(frozen=True)
class ColumnWaves:
    """Columns that are sines and cosines: amplitude * sin(position * step + origin).

    Parameters
    ----------
    pair : numpy.ndarray
        (dim,) the pair of each column; -1 where the column is zero.
    function : numpy.ndarray
        (dim,) 0 for a sine, 1 for a cosine.
    step, origin : numpy.ndarray
        (dim,) int64, 2**64 to the turn; a cosine's origin is a quarter further.
    amplitude : float
        The size of every wave.
    """

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
        """Values between positions too.

        Parameters
        ----------
        whole : numpy.ndarray
            (n,) int64 positions.
        part : numpy.ndarray or None
            (n,) what is added to them, at most 1 in size; None for nothing.
        dims : numpy.ndarray
            (m,) which columns.

        Returns
        -------
        numpy.ndarray
            (n, m), float64, right to 1e-15 of the amplitude at every position.
        """
        step = self.step[dims]
        phase = whole[:, None] * step + self.origin[dims]
        if part is not None:
            phase = phase + np.rint(part[:, None] * step.astype(np.float64)).astype(np.int64)
        return np.where(self.pair[dims] < 0, 0.0, self.amplitude * np.sin(phase * TURN))
