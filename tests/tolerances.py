"""The tolerances of all tests, by dtype: what the documentation promises, in one place."""

from __future__ import annotations

import numpy as np

# |result - exact| for cosines, sines and tables of unit scale, at every integer position.
ABSOLUTE = {"float64": 4e-16, "float32": 1e-7, "float16": 2.5e-4, "bfloat16": 2e-3}
# The same as a fraction of the exact value, away from zeros.
RELATIVE = {"float64": 1e-15, "float32": 3e-7, "float16": 2.0**-10, "bfloat16": 2.0**-7}
# A step is rounded to 2**-65 turn; the error of a phase grows by this much with each position.
PER_POSITION = 2e-19
# Pairs turned by xPos, as a fraction of the pair's size, in float32 while entries stay normal.
XPOS = 5e-7
# Biases of TUPE in float32, of max(1, |bias|); and where sums cannot be formed in float64.
TUPE_SUMS, TUPE_SUMS_32 = 2e-6, 1e-4
# Agreement with other people's float32 code at positions up to 64.
ORIGINAL = 1.5e-6
# Cosines and sines of diffusers in float32, at positions up to a few hundred.
DIFFUSERS = 1e-5
# Interpolated rows of entries up to 1 in size, float32: a few taps, each rounded once.
RESAMPLED = 1e-6
# The floor of settings: of 1 + |exact|, the inputs rounded to the dtype and a sum of 64 products.
SETTINGS = {"float64": 1e-12, "float32": 1e-5, "float16": 2e-3, "bfloat16": 1.6e-2}
# Derivatives in float64 beside differences over 1e-6, of 1 + the largest.
DERIVATIVE = 1e-6
# Results of a few float64 operations on numbers near 1.
FLOAT64 = 1e-14


def assert_close(
    got: np.ndarray, exact: np.ndarray, tolerance: float | np.ndarray, what: str = ""
) -> None:
    """Raise unless every entry agrees; says where the worst one is."""
    got, exact = np.asarray(got, dtype=np.float64), np.asarray(exact, dtype=np.float64)
    if got.shape != exact.shape:
        raise AssertionError(f"{what}: shape {got.shape}, expected {exact.shape}")
    error = np.abs(got - exact)
    bad = ~(error <= tolerance)  # also true for NaN
    if bad.any():
        worst = np.unravel_index(np.argmax(np.where(np.isnan(error), np.inf, error)), error.shape)
        bound = np.broadcast_to(tolerance, error.shape)[worst]
        raise AssertionError(
            f"{what}: {int(bad.sum())} of {bad.size} entries differ; the worst, at "
            f"{tuple(map(int, worst))}, is {got[worst]!r} where {exact[worst]!r} is exact: "
            f"|difference| {error[worst]:.3g} > {bound:.3g}"
        )
