"""Rotation with a decay, so that scores of distant tokens shrink smoothly (xPos)."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, final

import numpy as np

from posenc._core.arrays.words import Halves
from posenc._core.numeric.arrangement import Arrangement
from posenc._core.numeric.matrix import PhaseMatrix
from posenc._core.numeric.phase import turns
from posenc.encodings.rotary.base import (
    Array,
    Constants,
    Ladder,
    PairingField,
    Role,
    RotarySpec,
    bad_position,
    concrete,
    even_width,
    positive,
)

SINGLE = Arrangement()
# ln of the largest and of the least normal number.
RANGE = {
    "float64": (709.78, 708.39),
    "float32": (88.72, 87.33),
    "bfloat16": (88.72, 87.33),
    "float16": (11.09, 9.70),
}
# Of powers.
FRACTION = 55  # bits below the unit; exponents up to 2**8 in size
KEPT = 17  # of them in the high part, which has 7 bits above the unit
LARGEST = 100.0  # float32 ends at exponents of 88.7 and -103.3


@final
@dataclass(frozen=True)
class XPos(RotarySpec):
    """Extrapolatable position embedding (Sun et al. 2022, arXiv:2212.10554).

        q'[j] = R(p f[j]) q[j] * zeta[j] ** ((p - centre) / scale)
        k'[j] = R(p f[j]) k[j] / zeta[j] ** ((p - centre) / scale)
        zeta[j] = (2j/d + gamma) / (1 + gamma)

    The score of a query at m and a key at n is multiplied by zeta ** ((m - n) / scale), whatever
    the centre. The centre is a field and not half of the current length, as in the paper's code, so
    a key cached early and a query that comes later agree.

    Parameters
    ----------
    dim : int
        The rotated width d, even.
    pairing : {"half", "interleaved"} or Pairing
        Which channels form a pair.
    base : float
        10000 in the paper.
    scale : float
        Positions over which the decay acts; 512 in the paper.
    gamma : float
        Smoothing of the decay; 0.4 in the paper.
    centre : int
        Position of decay 1. Half the longest sequence uses the range best.
    ladder : Ladder
        How the frequencies follow from the base.
    phase : {"exact", "float32"}
        As for `RoPE`.

    Raises
    ------
    SpecError
        If the width is odd, or a number does not belong to its range.

    Notes
    -----
    The factors on queries and keys leave the range of a dtype at a distance `reach(dtype)` from the
    centre: 35,691 for float32 at scale 512. Positions beyond it raise `PositionError`. Within it
    float32 results are right to 5e-7 of the size of the pair, as long as they are normal numbers.

    Examples
    --------
    >>> import posenc
    >>> posenc.XPos(64, pairing="interleaved").reach("float32")
    35691
    """

    dim: int
    _: KW_ONLY
    pairing: PairingField
    base: float = 10_000.0
    scale: float = 512.0
    gamma: float = 0.4
    centre: int = 0
    ladder: Ladder = Ladder()
    phase: Literal["exact", "float32"] = "exact"

    paper = "sun2022xpos"
    sided = True  # queries and keys grow against each other

    def check(self) -> None:
        """Raise `SpecError` when the fields contradict each other."""
        even_width("XPos", dim=self.dim)
        positive("XPos", base=self.base, scale=self.scale, gamma=self.gamma)
        self._require(abs(self.centre) <= 2**31, "centre", "at most 2**31 in size")
        self._require(
            not self.ladder.cos_shift,
            "ladder",
            "one frequency for the cosine and sine of a pair",
            f"cos_shift={self.ladder.cos_shift}",
        )
        self.channels.sizes(self.pairs)

    @property
    def matrix(self) -> PhaseMatrix:
        """The phases of the pairs."""
        return PhaseMatrix(self.base, self.ladder, SINGLE, self.pairs, self.dim, self.phase)

    @property
    def decays(self) -> np.ndarray:
        """The decay of each pair per position: ln(zeta) / scale."""
        j = np.arange(self.pairs, dtype=np.float64)
        return np.log((2 * j / self.dim + self.gamma) / (1 + self.gamma)) / self.scale

    def reach(self, dtype: str = "float32") -> int:
        """The largest distance from the centre at which both factors are normal numbers."""
        return math.floor(min(RANGE[dtype]) / -float(self.decays[0]))

    def constants(self) -> dict[str, np.ndarray]:
        """The steps and the decays of the pairs."""
        rates = self.decays  # natural logarithms for each position
        whole = [
            min(max(round(float(rate) * 2.0**FRACTION), -(2**63)), 2**63 - 1) for rate in rates
        ]
        powers = {"rate": rates, "exponent_step": np.array([whole], dtype=np.int64)}
        return {**self.matrix.constants(), **powers}

    def sizes(
        self,
        positions: Array,
        role: Role,
        constants: Constants,
        *,
        dtype: Any,
        xp: Any,
    ) -> Array | float:
        """Zeta ** (±(p - centre) / scale): (..., 1) -> (..., pairs)."""
        sign = 1 if role == "query" else -1
        return _power(positions - self.centre, constants, sign=sign, dtype=dtype, xp=xp)

    def check_positions(self, positions: Array, dtype: str) -> None:
        """Raise `PositionError` where a factor leaves the range of `dtype`."""
        known = concrete(positions)
        if known is None or not known.size:
            return
        reach = self.reach(dtype)
        least, most = int(known.min()) - self.centre, int(known.max()) - self.centre
        if max(-least, most) > reach:
            raise bad_position(
                "XPos",
                f"positions within {reach} of {self.centre}, beyond which {dtype} overflows",
                f"{least + self.centre} to {most + self.centre}",
                "Move the centre, or choose a larger scale.",
            )


def _power(positions: Array, constants: Constants, *, sign: int, dtype: Any, xp: Any) -> Array:
    """exp(sign * positions * rate): integers (..., 1) -> (..., pairs), to the last bits of float32.

    The product of a position and a rate reaches 88 in size before float32 ends, and rounded to 24
    bits it is off by up to 4e-6, which is then the relative error of the power. So it is formed as
    a phase is, from integers: 2**55 to the unit, nothing rounded, and taken apart into a part that
    float32 holds exactly and a small rest.

        exp(high + low) = exp(high) * (1 + low)        |low| <= 2**-18

    What is left is the error of the library's exponential, half an ulp to two, and two roundings.
    """
    rough = xp.astype(positions, dtype) * xp.astype(constants["rate"], dtype)
    if dtype == xp.float64:
        return xp.exp(sign * rough)
    high, low = _parts(turns(positions, constants["exponent_step"]), dtype, xp)
    # Beyond what the dtype holds the integers wrap, and only infinity or zero is asked for.
    within = xp.abs(rough) < LARGEST
    size = xp.exp(sign * xp.where(within, high, rough))
    return xp.where(within, size * (1 + sign * low), size)


def _parts(total: Array | Halves, dtype: Any, xp: Any) -> tuple[Array, Array]:
    """The exponent as a float with few bits, and the rest."""
    cut = FRACTION - KEPT
    if not isinstance(total, Halves):
        kept = (total + (1 << cut - 1)) >> cut
        rest = total - (kept << cut)
        return xp.astype(kept, dtype) * 2.0**-KEPT, xp.astype(rest, dtype) * 2.0**-FRACTION
    # The high word alone decides, as the low one cannot move it across a boundary.
    kept = (total.high + (1 << cut - 33)) >> cut - 32
    # A low word with its top bit set is negative as int32; the carry makes the sum right again.
    rest = total.high - (kept << cut - 32) - (total.low >> 31)
    low = xp.astype(rest, dtype) * 2.0 ** (32 - FRACTION)
    return (
        xp.astype(kept, dtype) * 2.0**-KEPT,
        low + xp.astype(total.low, dtype) * 2.0**-FRACTION,
    )
