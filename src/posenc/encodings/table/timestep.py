"""The embedding of a time: sinusoids of a real number (Ho et al. 2020)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, final

from posenc._core.numeric.arrangement import Arrangement
from posenc._core.numeric.ladder import Ladder
from posenc._core.numeric.matrix import PhaseMatrix
from posenc.encodings.table.base import Array, Constants, TableSpec, columns, positive, width_of

TIME = Arrangement(axes=("time",))  # made here, as tracers do not make values


@final
@dataclass(frozen=True)
class Timestep(TableSpec):
    """The embedding of a diffusion time (Ho et al. 2020, arXiv:2006.11239, appendix B).

        row(t) = sin(f[j] t) for all j, then cos(f[j] t)        f[j] = first * base ** (-j / n)

    The code of that paper divides the exponent by n - 1 (`Ladder(denominator="n-1")`); most later
    code divides by n and has the cosines first. Between two n lies a "frequency shift" s: the
    denominator "n-s". A factor on the time is the ladder's `first`: 1000 for times from 0 to 1.

    Times may be integers, float32 or float64; float16 and bfloat16 raise: above 256 a bfloat16 no
    longer tells one step from the next.

    Parameters
    ----------
    dim : int
        Width of a row; an odd one ends with a column of zeros.
    base : float
        The longest period over 2 pi, 10000 as in the paper.
    ladder : Ladder
        How the frequencies follow from the base.
    order : {"sin_cos", "cos_sin"}
        Which half comes first.
    phase : {"exact", "float32"}
        `float32` repeats the classic arithmetic, `float32(t) * float32(f)`, and its error.

    Raises
    ------
    SpecError
        If the width is below 2 or the base is not positive.

    Notes
    -----
    With exact phases, float32 rows are right to 1.5e-7 for the time as it is given. A float32 time
    is itself known to 6e-8 * `|t|`: where that matters, give float64 or integers.

    Examples
    --------
    >>> import posenc
    >>> posenc.table(posenc.Timestep(4, order="cos_sin"), [0.5]).round(4)
    array([[0.8776, 1.    , 0.4794, 0.005 ]], dtype=float32)
    """

    dim: int
    _: KW_ONLY
    base: float = 10_000.0
    ladder: Ladder = Ladder(denominator="n")
    order: Literal["sin_cos", "cos_sin"] = "sin_cos"
    phase: Literal["exact", "float32"] = "exact"

    paper = "ho2020denoising"
    coordinates = "real"
    axes = ("time",)

    def check(self) -> None:
        """Raise `SpecError` for a width or base that cannot be."""
        width_of("Timestep", 2, dim=self.dim)
        positive("Timestep", base=self.base)

    @property
    def pairs(self) -> int:
        """Number of (sine, cosine) pairs."""
        return self.dim // 2

    @property
    def matrix(self) -> PhaseMatrix:
        """The phases of the pairs."""
        return PhaseMatrix(
            self.base, self.ladder, TIME, self.pairs, 2 * self.pairs, self.phase, "real"
        )

    def rows(self, positions: Array, constants: Constants, *, dtype: Any, xp: Any) -> Array:
        """The rows of the table: (..., 1) -> (..., dim)."""
        cos, sin = self.matrix.cos_sin(positions, constants, dtype=dtype, xp=xp)
        return columns(cos, sin, self.order, self.dim, (self.pairs,), xp=xp)
