"""Resampling along an axis, linear and cubic, antialiased or not, as PyTorch defines it.

    y[i] = sum over taps t of  weight[i, t] * x[index[i, t]]

Rows are pixels of width 1 whose centres stand at half-integers: target i has its centre at
(i + 1/2) * source / target - 1/2 of the source. The kernels are the triangle and the cubic
convolution of Keys (1981), with a = -3/4; under antialiasing, the kernel is stretched by the factor
of the reduction, cut at the edges, normalised, and has a = -1/2.

Coordinates and kernels are rounded to float32 where the code that trained models were resized with
rounds them: float64 would give the better number, and a different one.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from posenc._core.arrays.array import Array, carried, device_of

Method = Literal[
    "cubic_antialias", "linear_antialias", "cubic", "linear", "cubic_corners", "linear_corners"
]
METHODS: tuple[Method, ...] = (
    "cubic_antialias",
    "linear_antialias",
    "cubic",
    "linear",
    "cubic_corners",
    "linear_corners",
)
SHARP, SOFT = -0.75, -0.5  # the parameter a of Keys, plain and antialiased


def taps(source: int, target: int, method: Method) -> tuple[np.ndarray, np.ndarray]:
    """Which rows each new row is made of, and how much of each."""
    kernel, _, variant = method.partition("_")
    if variant == "antialias":
        return _antialiased(source, target, kernel)
    one = np.float32(1)
    places = np.arange(target, dtype=np.float32)
    if variant == "corners":
        scale = np.float32(source - 1) / np.float32(target - 1) if target > 1 else np.float32(0)
        centre = scale * places
    else:
        scale = np.float32(source) / np.float32(target)
        centre = _fused(scale, places + one / 2, -0.5)
    if kernel == "linear":
        centre = np.maximum(centre, np.float32(0))
    below = np.floor(centre)
    t = np.clip(centre - below, 0, 1)
    if kernel == "linear":
        offsets, weights = [0, 1], [one - t, t]
    else:
        offsets = [-1, 0, 1, 2]
        weights = [_cubic(t - np.float32(offset), SHARP) for offset in offsets]
    rows = below.astype(np.int64)[:, None] + np.array(offsets, dtype=np.int64)
    return np.clip(rows, 0, source - 1), np.stack(weights, axis=-1).astype(np.float32)


def _antialiased(source: int, target: int, kernel: str) -> tuple[np.ndarray, np.ndarray]:
    scale = np.float32(source) / np.float32(target)
    stretch = max(scale, np.float32(1))
    support = (1 if kernel == "linear" else 2) * stretch
    centre = (scale * (np.arange(target) + 0.5)).astype(np.float32)
    first = np.maximum((centre - support + np.float32(0.5)).astype(np.int64), 0)
    last = np.minimum((centre + support + np.float32(0.5)).astype(np.int64), source)
    rows = first[:, None] + np.arange(int((last - first).max()), dtype=np.int64)
    distance = (rows - centre[:, None] + 0.5).astype(np.float32) / stretch
    weights = np.maximum(1 - np.abs(distance), 0) if kernel == "linear" else _cubic(distance, SOFT)
    weights = np.where(rows < last[:, None], weights, np.float32(0))
    weights = weights / weights.sum(axis=-1, keepdims=True)
    return np.minimum(rows, source - 1), weights.astype(np.float32)


def _cubic(x: np.ndarray, a: float) -> np.ndarray:
    x = np.abs(x)
    near = _fused(_fused(a + 2, x, -(a + 3)) * x, x, 1.0)
    far = _fused(_fused(_fused(a, x, -5 * a), x, 8 * a), x, -4 * a)
    return np.where(x <= 1, near, np.where(x < 2, far, np.float32(0)))


def _fused(x: Any, y: np.ndarray, z: float) -> np.ndarray:
    """The value of x * y + z, rounded to float32 once, as processors that fuse the two do."""
    return np.asarray(np.float64(x) * y + z, dtype=np.float32)


def resample(x: Array, axis: int, target: int, method: Method, *, xp: Any) -> Array:
    """An array with `target` rows along an axis; itself at the same length."""
    source = x.shape[axis]
    if source == target:
        return x
    index, weight = taps(source, target, method)
    device = device_of(x)
    shape = [1] * len(x.shape)
    shape[axis] = target
    total = None
    for tap in range(index.shape[1]):
        rows = carried(index[:, tap].copy(), xp, device)
        share = xp.astype(carried(weight[:, tap].copy(), xp, device), x.dtype)
        part = xp.take(x, rows, axis=axis) * xp.reshape(share, tuple(shape))
        total = part if total is None else total + part
    return total
