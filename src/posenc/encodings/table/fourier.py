"""Fourier features: sines and cosines of real coordinates."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, final

from posenc._core.numeric.arrangement import Arrangement
from posenc._core.numeric.ladder import Ladder
from posenc._core.numeric.matrix import DenseMatrix, FrequencyMatrix, Gaussian, PhaseMatrix
from posenc.encodings.table.base import Array, Constants, TableSpec, astype, bad_spec, columns


@final
@dataclass(frozen=True)
class Fourier(TableSpec):
    """Fourier features of real coordinates (Mildenhall et al. 2020, Tancik et al. 2020).

        row(x) = sin(f[a, j] x[a]),  cos(f[a, j] x[a])        for axes a and bands j

    The paper of NeRF has octaves, f[j] = 2 ** j pi; Perceiver (Jaegle et al. 2021) has bands evenly
    spaced from pi to pi times half the resolution; random features mix the axes with a matrix of
    normally distributed frequencies. Sinusoidal tables of normalised grids and boxes are Fourier
    features too, with the ladder of Vaswani et al. (2017) and `first=2 * pi`.

    Positions may be integers, float32 or float64; float16 and bfloat16 raise, as they merge
    neighbours. Coordinates are used as they are: builders in `posenc.positions` normalise.

    Parameters
    ----------
    dim : int
        Width of a row, raw coordinates included.
    base : float, or tuple of float
        Base of geometric ladders: one, or one for each axis in the order of `arrangement.axes`.
    ladder : Ladder, tuple of Ladder, FrequencyMatrix, or Gaussian
        The frequencies of an axis: one rule, or one for each axis. With `rule="mixed"` in the
        arrangement, a matrix.
    order : {"sin_cos", "cos_sin", "interleaved"}
        The order within a block of channels: a half each, or sine and cosine of each pair in turn.
    blocks : {"all", "axis", "band"}
        What a block holds: everything; one axis; or one band, with all axes (`axial_cyclic`).
    arrangement : Arrangement
        Names of the axes, their order in the channels, and the number of bands of each: `axial`,
        `axial_cyclic` (bands outside, axes inside), or `mixed`.
    raw : {"none", "first", "last"}
        Whether the coordinates themselves stand in the row, and at which end.
    phase : {"exact", "float32"}
        `float32` repeats the classic arithmetic, `float32(x) * float32(f)`, and its error.

    Raises
    ------
    SpecError
        If the width, ladders, blocks and arrangement contradict each other.

    Notes
    -----
    With exact phases, float32 rows are right to 1.5e-7 + 6e-20 * f for positions as they are
    given, whatever the frequency; the classic arithmetic loses 6e-8 * f * `|x|`. A float32 position
    is itself known to 6e-8 * `|x|`: where that matters, give float64 or integers.

    Gradients with respect to positions are right to all orders, in torch and JAX.

    Examples
    --------
    >>> import math, posenc
    >>> from posenc import Arrangement, Fourier, Ladder
    >>> xy = Arrangement(rule="axial", axes=("x", "y"))
    >>> bands = Ladder(spacing="linear", first=math.pi, last=4 * math.pi)
    >>> pe = Fourier(258, ladder=bands, arrangement=xy, raw="first")
    >>> posenc.table(pe, [[0.5, -0.25]]).shape
    (1, 258)
    """

    dim: int
    _: KW_ONLY
    base: float | tuple[float, ...] = 10_000.0
    ladder: Ladder | tuple[Ladder, ...] | FrequencyMatrix | Gaussian = Ladder(
        spacing="octave", first=math.pi
    )
    order: Literal["sin_cos", "cos_sin", "interleaved"] = "sin_cos"
    blocks: Literal["all", "axis", "band"] = "all"
    arrangement: Arrangement = Arrangement()
    raw: Literal["none", "first", "last"] = "none"
    phase: Literal["exact", "float32"] = "exact"

    paper = "tancik2020fourier"
    coordinates = "real"

    def check(self) -> None:
        """Raise `SpecError` when the fields contradict each other."""
        arrangement, axes = self.arrangement, self.axes
        room = self.dim - self.raw_width
        if room < 2 or room % 2:
            raise bad_spec(
                "Fourier: dim",
                "a width of two channels for each pair"
                + (f", and {self.raw_width} for the coordinates" if self.raw_width else ""),
                self.dim,
            )
        self._require(
            not arrangement.start and arrangement.pad is None,
            "arrangement",
            "start 0 and no pad",
            f"start={arrangement.start}, pad={arrangement.pad}",
            "Shift the positions themselves.",
        )
        mixed = isinstance(self.ladder, FrequencyMatrix | Gaussian)
        self._require(
            mixed == (arrangement.rule == "mixed"),
            "",
            "a matrix of frequencies with rule='mixed', and with no other",
            f"{type(self.ladder).__name__} with rule={arrangement.rule!r}",
        )
        needed = {"axis": ("axial", "single"), "band": ("axial_cyclic", "single")}
        if self.blocks != "all" and arrangement.rule not in needed[self.blocks]:
            raise self._mismatch(
                "arrangement",
                f"rule={needed[self.blocks][0]!r} with blocks={self.blocks!r}",
                repr(arrangement.rule),
            )
        for name in ("base", "ladder"):
            value = getattr(self, name)
            if isinstance(value, tuple) and len(value) != len(axes):
                raise self._mismatch(
                    name, f"one entry for each of the axes {axes}", f"{len(value)} entries"
                )
        bases = self.base if isinstance(self.base, tuple) else (self.base,)
        self._require(all(base > 0 for base in bases), "base", "positive numbers")
        if arrangement.rule in ("axial", "axial_cyclic"):
            shares = arrangement.shares(self.pairs)
            self._require(
                self.blocks != "band" or len(set(shares)) <= 1,
                "arrangement",
                "as many bands per axis",
                shares,
            )

    @property
    def raw_width(self) -> int:
        """Channels that hold coordinates themselves."""
        return 0 if self.raw == "none" else len(self.axes)

    @property
    def pairs(self) -> int:
        """Number of (sine, cosine) pairs."""
        return (self.dim - self.raw_width) // 2

    @property
    def matrix(self) -> PhaseMatrix | DenseMatrix:
        """The phases of the pairs."""
        if isinstance(self.ladder, FrequencyMatrix | Gaussian):
            return DenseMatrix(self.ladder, len(self.axes), self.pairs, self.phase)
        return PhaseMatrix(
            self.base,
            self.ladder,
            self.arrangement,
            self.pairs,
            2 * self.pairs,
            self.phase,
            "real",
        )

    def sizes(self) -> tuple[int, ...]:
        """Pairs in each block of channels."""
        if self.blocks == "axis":
            return self.arrangement.shares(self.pairs)
        if self.blocks == "band":
            return (len(self.axes),) * (self.pairs // len(self.axes))
        return (self.pairs,)

    def rows(self, positions: Array, constants: Constants, *, dtype: Any, xp: Any) -> Array:
        """The rows of the table: (..., axes) -> (..., dim)."""
        cos, sin = self.matrix.cos_sin(positions, constants, dtype=dtype, xp=xp)
        table = columns(cos, sin, self.order, 2 * self.pairs, self.sizes(), xp=xp)
        if self.raw == "none":
            return table
        coordinates = astype(positions, dtype, xp)
        return xp.concat(
            [coordinates, table] if self.raw == "first" else [table, coordinates], axis=-1
        )
