"""Interpolation weights by plain loops from their definitions. Nothing here imports posenc."""

from __future__ import annotations

import math


def triangle(x: float) -> float:
    """1 - |x| within one pixel."""
    return max(0.0, 1 - abs(x))


def keys(x: float, a: float) -> float:
    """Cubic convolution (Keys 1981, equation 4 with a free)."""
    x = abs(x)
    if x <= 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    if x < 2:
        return a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a
    return 0.0


def weights(i: int, source: int, target: int, method: str) -> list[float]:
    """How much of each of `source` rows is in row i of `target`."""
    kernel, _, variant = method.partition("_")
    reach = 1 if kernel == "linear" else 2
    row = [0.0] * source
    if variant == "antialias":
        stretch = max(1.0, source / target)
        centre = (i + 0.5) * source / target
        for j in range(source):
            # A pixel counts when its centre, rounded to a half, is within the support.
            if math.floor(centre - reach * stretch + 0.5) <= j < centre + reach * stretch - 0.5:
                x = (j + 0.5 - centre) / stretch
                row[j] = triangle(x) if kernel == "linear" else keys(x, -0.5)
        total = sum(row)
        return [value / total for value in row]
    if variant == "corners":
        centre = i * (source - 1) / (target - 1) if target > 1 else 0.0
    else:
        centre = (i + 0.5) * source / target - 0.5
    if kernel == "linear":
        centre = max(centre, 0.0)
    for j in range(math.floor(centre) - reach + 1, math.floor(centre) + reach + 1):
        value = triangle(j - centre) if kernel == "linear" else keys(j - centre, -0.75)
        row[min(max(j, 0), source - 1)] += value  # the edge is repeated
    return row
