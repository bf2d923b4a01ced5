"""Which function of which pair stands in each column of a table."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from posenc._core.arrays.array import library
from posenc._core.errors import bad_argument
from posenc._core.numeric.matrix import PhaseMatrix
from posenc._core.numeric.phase import steps, whole_turns
from posenc.encodings.table.base import columns
from posenc.encodings.table.concatenated import Concatenated
from posenc.encodings.table.fourier import Fourier
from posenc.encodings.table.sinusoidal import Sinusoidal
from posenc.encodings.table.timestep import Timestep

FUNCTIONS = ("sin", "cos")


class ColumnFunctions(NamedTuple):
    """For each column its pair, -1 where there is none, and its function: 0 a sine, 1 a cosine."""

    pair: np.ndarray
    function: np.ndarray


class Phases(NamedTuple):
    """How the phases of the pairs follow from a position."""

    axes: tuple[str, ...]
    axis: np.ndarray  # (pairs,): the axis that each pair reads
    turns: np.ndarray  # (2, pairs) whole turns and (2, pairs) below: for sines and for cosines
    steps: np.ndarray
    start: int
    real: bool

    def frequencies(self) -> np.ndarray:
        """Radians per position, (2, pairs): for integer positions, without their whole turns."""
        part = self.steps.astype(np.float64) * 2.0**-64
        return (part + (self.turns if self.real else 0)) * (2 * np.pi)


def columns_of(spec: Any) -> ColumnFunctions:
    """The columns of a sinusoidal table, by laying out the numbers of its pairs as if values."""
    n = spec.pairs
    number = np.arange(1, n + 1, dtype=np.float64)
    if isinstance(spec, Sinusoidal):
        blocks, lone = spec.arrangement.blocks(n), spec.odd == "sin_extra"
        width = spec.dim
    elif isinstance(spec, Fourier):
        blocks, lone, width = spec.sizes(), False, 2 * n
    else:
        blocks, lone, width = (n,), False, spec.dim
    laid = columns(number + n, number, spec.order, width, blocks, lone_sine=lone, xp=library(np))
    cell = laid.astype(np.int64) - 1  # -1: zeros
    pair, function = np.where(cell < 0, -1, cell % max(n, 1)), np.where(cell >= n, 1, 0)
    if isinstance(spec, Fourier) and spec.raw != "none":
        before = spec.raw_width if spec.raw == "first" else 0
        around = (before, spec.raw_width - before)
        pair, function = np.pad(pair, around, constant_values=-1), np.pad(function, around)
    return ColumnFunctions(pair, function)


def phases_of(spec: Any) -> Phases:
    """The phases of a spec whose pairs read one axis each."""
    matrix = spec.matrix
    if not isinstance(matrix, PhaseMatrix):
        raise bad_argument(
            f"locate({type(spec).__name__})",
            "pairs that read one axis each",
            "a matrix",
            "Where every pair mixes the axes, no coordinate can be found by itself.",
        )
    layout = matrix.arrangement.layout(matrix.pairs)
    both = [matrix.frequencies(), matrix.frequencies(cosine=True)]
    return Phases(
        matrix.arrangement.axes,
        np.array(layout.axis, dtype=np.int64),
        np.array([whole_turns(f) for f in both]),
        np.array([steps(f) for f in both]),
        matrix.arrangement.start,
        matrix.coordinates == "real",
    )


def sinusoids(spec: Any) -> bool:
    """Whether a spec is a table of sines and cosines whose columns are known."""
    return isinstance(spec, Sinusoidal | Fourier | Timestep)


def inner(spec: Any) -> Any:
    """The table itself, of one that is appended to embeddings."""
    return spec.table if isinstance(spec, Concatenated) else spec
