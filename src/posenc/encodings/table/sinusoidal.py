"""Sinusoidal positions (Vaswani et al. 2017) with each choice that published code makes of them."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, final

from posenc._core.numeric.arrangement import Arrangement, Magnitude
from posenc._core.numeric.ladder import Ladder
from posenc._core.numeric.matrix import PhaseMatrix
from posenc.encodings.table.base import (
    Array,
    Constants,
    Parameter,
    TableSpec,
    bad_spec,
    columns,
    positive,
    width_of,
)


@final
@dataclass(frozen=True)
class Sinusoidal(TableSpec):
    """Sinusoidal positional encoding (Vaswani et al. 2017, arXiv:1706.03762, section 3.5).

        PE(pos, 2i)   = sin(pos / base ** (2i / d))
        PE(pos, 2i+1) = cos(pos / base ** (2i / d))

    tensor2tensor, the code behind that paper, writes the sines first, then the cosines, and divides
    the exponent by d/2 - 1: `order="sin_cos", ladder=Ladder(denominator="n-1")`.

    Parameters
    ----------
    dim : int
        Width d of the table.
    base : float
        10000 in the paper; below 1 the frequencies rise.
    ladder : Ladder
        How the frequencies follow from the base.
    order : {"interleaved", "sin_cos", "cos_sin"}
        Order of the channels: sine and cosine of each pair in turn, or a half each. With an `axial`
        arrangement it is the order within the block of each axis.
    odd : {"sin_extra", "zero_pad", "cut", "error"}
        What happens when pairs do not fill the width. `sin_extra`: the formula as printed, where
        the last dimension is a sine without its cosine and d stays odd in the exponent.
        `zero_pad`: as many pairs as fit, then columns of zeros. `cut`: as many as cover the width,
        then cut to it.
    arrangement : Arrangement
        Which axis and rung each pair uses; the first position; the row that is zero.
    magnitude : Magnitude
        Factors on the table and on the embeddings it is added to.
    phase : {"exact", "float32"}
        `float32` repeats the classic arithmetic and its error, to continue a checkpoint bit by bit.

    Raises
    ------
    SpecError
        If the width, base, ladder and arrangement contradict each other.

    Notes
    -----
    float32 rows are right to 1e-7 at every integer position up to 2**31, float64 rows to
    4e-16 + 2e-19 * position.

    Examples
    --------
    >>> import posenc
    >>> posenc.table(posenc.Sinusoidal(4), 2).round(4)
    array([[0.    , 1.    , 0.    , 1.    ],
           [0.8415, 0.5403, 0.01  , 1.    ]], dtype=float32)
    """

    dim: int
    _: KW_ONLY
    base: float = 10_000.0
    ladder: Ladder = Ladder()
    order: Literal["interleaved", "sin_cos", "cos_sin"] = "interleaved"
    odd: Literal["sin_extra", "zero_pad", "cut", "error"] = "sin_extra"
    arrangement: Arrangement = Arrangement()
    magnitude: Magnitude = Magnitude()
    phase: Literal["exact", "float32"] = "exact"

    paper = "vaswani2017attention"

    def check(self) -> None:
        """Raise `SpecError` when the fields contradict each other."""
        width_of("Sinusoidal", dim=self.dim)
        positive("Sinusoidal", base=self.base)
        missing = self.dim - 2 * self.pairs
        allowed = {
            "error": missing == 0,
            "cut": missing <= 0,
            "zero_pad": missing >= 0,
            "sin_extra": missing == 0 or (missing == -1 and len(self.axes) == 1),
        }
        if not allowed[self.odd]:
            raise bad_spec(
                "Sinusoidal",
                f"a width that odd={self.odd!r} allows for {self.pairs} pairs",
                f"dim={self.dim}",
                "odd='zero_pad' fills with zeros, odd='cut' cuts to the width.",
            )
        self._check_axes()

    def _check_axes(self) -> None:
        """Raise when a width is so small that an axis has no channel, unless `sizes` say so."""
        arrangement = self.arrangement
        if len(self.axes) == 1 or arrangement.given is not None:
            return
        blocks = arrangement.blocks(self.pairs) if self.pairs else ()
        if not blocks or 2 * sum(blocks[:-1]) >= self.dim:
            lost = (arrangement.order or arrangement.axes)[-1]
            raise self._mismatch(
                "dim",
                f"a width with room for each of the axes {self.axes}",
                todo=f"Nothing would be left for {lost!r}: use a wider table.",
            )

    @property
    def pairs(self) -> int:
        """Number of (sine, cosine) pairs."""
        if self.arrangement.given is not None:
            return self.arrangement.given
        axes = len(self.axes)
        fitting = axes * (self.dim // (2 * axes))
        covering = self.odd in ("cut", "sin_extra") and 2 * fitting < self.dim
        return fitting + axes if covering else fitting

    @property
    def whole(self) -> bool:
        """Whether every sine has its cosine, so that the offset property holds."""
        return 2 * self.pairs <= self.dim and not self.ladder.cos_shift

    @property
    def matrix(self) -> PhaseMatrix:
        """The phases of the pairs."""
        width = self.dim if self.odd == "sin_extra" else 2 * self.pairs
        return PhaseMatrix(self.base, self.ladder, self.arrangement, self.pairs, width, self.phase)

    def parameters(self) -> dict[str, Parameter]:
        """The factor on the table, where it is learned."""
        return self.magnitude.parameters(self.dim)

    def rows(self, positions: Array, constants: Constants, *, dtype: Any, xp: Any) -> Array:
        """The rows of the table: (..., axes) -> (..., dim)."""
        cos, sin = self.matrix.cos_sin(positions, constants, dtype=dtype, xp=xp)
        blocks, lone_sine = self.arrangement.blocks(self.pairs), self.odd == "sin_extra"
        table = columns(cos, sin, self.order, self.dim, blocks, lone_sine=lone_sine, xp=xp)
        table = self.magnitude.scaled(table, self.dim, constants, xp=xp)
        if self.arrangement.pad is None:
            return table
        padding = positions[..., :1] == self.arrangement.pad - self.arrangement.start
        return xp.where(padding, xp.zeros_like(table), table)
