"""The polynomial coefficients of `_core/numeric/phase.py`, anew: `python tools/fit_cos_sin.py`.

Least squares on Chebyshev nodes, which is within a few percent of the minimax polynomial:

    sin(pi u / 4) / u   =  S0 + S1 z + S2 z**2 + S3 z**3
    cos(pi u / 4) - 1   =  z (C0 + C1 z + C2 z**2 + C3 z**3)          z = u * u, |u| <= 1

S0 is split into a float32 and the remainder, since it multiplies u where the sine is small and its
rounding alone would cost a quarter of an ulp.
"""

from __future__ import annotations

import numpy as np


def fit() -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The coefficients (sine with its first one split, cosine)."""
    u = np.cos(np.pi * (np.arange(2000) + 0.5) / 4000)  # the positive Chebyshev nodes
    z = u * u
    powers = z[:, None] ** np.arange(4)
    sine = np.linalg.lstsq(powers, np.sin(np.pi / 4 * u) / u, rcond=None)[0]
    cosine = np.linalg.lstsq(powers * z[:, None], np.cos(np.pi / 4 * u) - 1, rcond=None)[0]
    head = float(np.float32(sine[0]))
    split = (head, float(sine[0]) - head, *map(float, sine[1:]))
    return split, tuple(map(float, cosine))


if __name__ == "__main__":
    for name, coefficients in zip(("SIN", "COS"), fit(), strict=True):
        print(name, coefficients)
