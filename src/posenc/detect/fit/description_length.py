"""What numbers cost to write, so that a claim can be weighed against chance.

A rule explains data when stating it takes fewer bits than the data spell out. 10000 is cheap to
state, 9137.42 is not: a fit that ends at 10000 to eight digits was no accident.
"""

from __future__ import annotations

import math

import numpy as np

MARGIN = 20.0  # bits by which evidence must exceed description: one accident in a million tables
GUARD = 4.0  # bits by which a round number must be cheaper than the digits it stands for
FEW_DIGITS = 1e-3  # relative error beyond which all digits of a number are accidents
EXACT = 1e-15  # float64 knows no number better


def bits_of(value: float) -> float:
    """Bits to write a number: its digits, a power of two, or a multiple of pi; 53 for any other."""
    value = abs(value)
    if value in (0.0, 1.0):
        return 1.0
    if not math.isfinite(value):
        return math.inf
    return min(_decimal_bits(value), _binary_bits(value), 4 + _decimal_bits(value / math.pi))


def real_bits(error: float) -> float:
    """Bits to write a number of no roundness to a relative error, sign and size included."""
    return 6 - math.log2(2 * max(error, EXACT))


def roundest(value: float, error: float) -> float | None:
    """The cheapest number within a relative error, unless its roundness may be an accident."""
    return roundest_within(value * (1 - error), value * (1 + error))


def roundest_within(low: float, high: float) -> float | None:
    """The cheapest number from `low` to `high`, unless its roundness may be an accident."""
    best = cheapest(low, high)
    if best is not None and bits_of(best) + GUARD > real_bits((high - low) / (high + low)):
        best = None
    return best


def cheapest(low: float, high: float) -> float | None:
    """The number from `low` to `high` that is cheapest to write, however few its digits."""
    if not 0 < low <= high < math.inf:
        return None
    least, most = low * (1 - EXACT), high * (1 + EXACT)
    inside = [v for v in _candidates((low + high) / 2) if least <= v <= most]
    return min(inside, key=bits_of, default=None)


def stated(value: float, error: float) -> tuple[float, float]:
    """The round number that is meant, else the number itself; and the bits to write it."""
    return stated_within(value * (1 - error), value * (1 + error))


def stated_within(low: float, high: float) -> tuple[float, float]:
    """The same of a number from `low` to `high`; the cheapest, where there are few digits."""
    tidy, error = roundest_within(low, high), (high - low) / (high + low)
    if tidy is not None:
        return tidy, bits_of(tidy)
    few = cheapest(low, high) if error > FEW_DIGITS else None
    return few or (low + high) / 2, real_bits(error)


def bend_bits(lines: np.ndarray, allowed: float | np.ndarray) -> np.ndarray:
    """Bits of entries beyond rows that go on as the last two did, with some slack for each."""
    bend = np.abs(lines[2:] - 2 * lines[1:-1] + lines[:-2])
    return np.asarray(np.log2(np.maximum(bend / (8 * allowed), 1)))


def _candidates(value: float) -> list[float]:
    units, exponent = (1.0, math.pi), math.floor(math.log2(value))
    decimals = (float(f"{value / u:.{digits}e}") * u for u in units for digits in range(13))
    exponents = range(exponent, exponent - 7, -1)
    return [1.0, *decimals, *(math.ldexp(round(math.ldexp(value, -n)), n) for n in exponents)]


def _decimal_bits(value: float) -> float:
    for digits in range(13):
        text = f"{value:.{digits}e}"
        if abs(float(text) - value) <= EXACT * value:
            exponent = abs(int(text.partition("e")[2]))
            return 3 + (digits + 1) * math.log2(10) + math.log2(1 + exponent) / 2
    return 53.0


def _binary_bits(value: float) -> float:
    mantissa, exponent = math.frexp(value)
    odd = math.ldexp(mantissa, 6)  # an integer below 64 for the numbers meant here
    if odd != round(odd):
        return 53.0
    whole = int(odd)
    while whole % 2 == 0:
        whole //= 2
    return 4 + 2 * math.log2(whole) + math.log2(1 + abs(exponent)) / 2
