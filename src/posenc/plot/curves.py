"""One column over positions as a curve that shows what is there; NumPy only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from posenc._core.errors import ArgumentError, mismatch
from posenc.plot.columns import BLOCK, TableSource
from posenc.plot.raster import MOST_PIXELS, around, placed
from posenc.plot.response import centres, edges, gain, reduced

DENSE = 1 << 21  # positions up to which the extremes of a curve come from every one of them
DRAWN = 256  # positions looked at per pixel of a longer curve
LOOKED_AT = 1 << 14  # positions of a wave whose extremes are looked for
GOLDEN = 0.6180339887498949  # multiples of it, without their whole parts, spread evenly


@dataclass(frozen=True)
class Curve:
    """One column over positions, a point for each pixel."""

    dim: int
    label: str
    edges: np.ndarray
    middle: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    wavelength: float
    per_pixel: float
    shape: Literal["line", "band"]


def curve_of(
    table: TableSource,
    dim: int,
    positions: int | tuple[int, int] | None = None,
    *,
    pixels: int = 512,
) -> Curve:
    """One column over positions, in at most so many pixels."""
    start, stop = placed(table, positions)
    if not 0 <= dim < table.width:
        raise ArgumentError(mismatch("plot: dims", f"dimensions 0 to {table.width - 1}", dim))
    if not 1 <= pixels <= MOST_PIXELS:
        raise ArgumentError(mismatch("plot: pixels", f"1 to {MOST_PIXELS}", pixels))
    pixels = min(pixels, stop - start)
    limits = edges(start, stop, pixels)
    per_pixel = (stop - start) / pixels
    wavelength = float("nan") if table.waves is None else float(table.waves.wavelength[dim])
    if per_pixel == 1:
        low = high = mean = _values(table, dim, start, stop)
    elif table.waves is not None and not math.isnan(wavelength):
        low, high, mean = _of_wave(table, dim, start, stop, pixels)
    else:
        low, high, mean = _of_rows(table, dim, start, stop, pixels)
    return Curve(
        dim=dim,
        label=table.name(dim),
        edges=limits,
        middle=(limits[:-1] + limits[1:]) / 2 - 0.5,
        mean=mean,
        low=low,
        high=high,
        wavelength=wavelength,
        per_pixel=per_pixel,
        shape="line" if per_pixel == 1 or not (high > low).any() else "band",
    )


def _values(table: TableSource, dim: int, start: int, stop: int) -> np.ndarray:
    """The column at every position."""
    return table.blocks(np.arange(start, stop), np.array([dim]))[:, 0]


def _of_wave(
    table: TableSource, dim: int, start: int, stop: int, pixels: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What the gain leaves of a wave, and how far it goes where the gain takes something.

    Least and largest values under single pixels would beat with the wave, and their outline be a
    pattern of the drawing; those of the whole range do not.
    """
    waves = table.waves
    assert waves is not None, "the caller has looked"  # noqa: S101 - for the type checker
    dims = np.array([dim])
    share = float(gain(float(waves.wavelength[dim]) * pixels / (stop - start)))
    whole_part, part = centres(start, stop, pixels)
    mean = share * waves.at(whole_part, part, dims)[:, 0]
    if share == 1:
        return mean, mean, mean
    # Places that repeat with no wave, so that every phase of it is met.
    spread = (np.arange(LOOKED_AT) * GOLDEN) % 1.0
    few = stop - start <= LOOKED_AT
    some = np.arange(stop - start) if few else np.floor(spread * (stop - start)).astype(np.int64)
    some += start
    values = table.values(some, dims)
    return np.full(pixels, values.min()), np.full(pixels, values.max()), mean


def _of_rows(
    table: TableSource, dim: int, start: int, stop: int, pixels: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Filtered rows, as in the picture of the table, and the extremes around each pixel."""
    low, high, mean = _extremes(table, dim, start, stop, pixels)
    if stop - start <= max(DENSE // table.width, DRAWN * 4):

        def fetch(begin: int, end: int) -> np.ndarray:
            return _values(table, dim, start + begin, start + end)[:, None]

        mean = reduced(fetch, stop - start, pixels, 1, around(table, start, stop))[:, 0]
    low, high = around_each(low, np.minimum), around_each(high, np.maximum)
    return np.minimum(low, mean), np.maximum(high, mean), mean


def around_each(values: np.ndarray, choose: np.ufunc) -> np.ndarray:
    """The least or largest of each pixel and two to either side.

    Pixels that cover now one position, now two, would else differ for no other reason.
    """
    padded = np.pad(values, 2, mode="edge")
    return choose.reduce([padded[k : k + len(values)] for k in range(5)])


def _extremes(
    table: TableSource, dim: int, start: int, stop: int, pixels: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Least, largest and mean value under each pixel.

    Of ranges too long to look at every position, evenly spread ones are looked at, each at the
    position nearest to a place that does not repeat with any wave.
    """
    dims = np.array([dim])
    count = stop - start
    most = max(DENSE // table.width, DRAWN * 4)
    if count <= most:
        bounds = np.ceil(np.arange(pixels + 1) * (count / pixels) - 1e-9).astype(np.int64)
        values = _values(table, dim, start, stop)
        low = np.minimum.reduceat(values, bounds[:-1])
        high = np.maximum.reduceat(values, bounds[:-1])
        return low, high, np.add.reduceat(values, bounds[:-1]) / np.diff(bounds)
    spread = (np.arange(DRAWN) * GOLDEN) % 1.0
    spread[:2] = 0.0, 1.0 - 1e-9  # the ends, so that a slow wave reaches them
    extremes = np.empty((3, pixels))
    for begin in range(0, pixels, BLOCK // DRAWN):
        k = np.arange(begin, min(begin + BLOCK // DRAWN, pixels))
        index = start + np.floor((k[:, None] + spread) * (count / pixels)).astype(np.int64)
        values = table.values(index.reshape(-1), dims).reshape(index.shape)
        extremes[:, k] = values.min(axis=1), values.max(axis=1), values.mean(axis=1)
    return extremes[0], extremes[1], extremes[2]
