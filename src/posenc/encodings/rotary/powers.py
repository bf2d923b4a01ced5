"""Powers with exact exponents: exp(position * rate), to the last bits of float32.

The product of a position and a rate reaches 88 in size before float32 ends, and rounded to 24 bits
it is off by up to 4e-6, which is then the relative error of the power. So it is formed as a phase
is, from integers: 2**55 to the unit, nothing rounded, and taken apart into a part that float32
holds exactly and a small rest.

    exp(high + low) = exp(high) * (1 + low)        |low| <= 2**-18

What is left is the error of the library's exponential, half an ulp to two, and two roundings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from posenc._core.arrays.words import Array, Halves
from posenc._core.numeric.phase import turns

FRACTION = 55  # bits below the unit; exponents up to 2**8 in size
KEPT = 17  # of them in the high part, which has 7 bits above the unit
LARGEST = 100.0  # float32 ends at exponents of 88.7 and -103.3


def constants(rates: np.ndarray) -> dict[str, np.ndarray]:
    """What `power` needs of the rates (pairs,), natural logarithms for each position."""
    whole = [min(max(round(float(rate) * 2.0**FRACTION), -(2**63)), 2**63 - 1) for rate in rates]
    return {"rate": rates, "exponent_step": np.array([whole], dtype=np.int64)}


def power(
    positions: Array, constants: Mapping[str, Array], *, sign: int, dtype: Any, xp: Any
) -> Array:
    """exp(sign * positions * rate): integers (..., 1) -> (..., pairs) in `dtype`."""
    rate = xp.astype(constants["rate"], dtype)
    rough = xp.astype(positions, dtype) * rate
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
