"""One column over positions as a curve that shows what is there; NumPy only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from posenc._core.errors import ArgumentError, explain
from posenc.plot.columns import Params, Source, source
from posenc.plot.raster import BLOCK, MOST_PIXELS, placed
from posenc.plot.response import FADE, centres, edges

__all__ = ["Curve", "curve", "curve_of"]

DENSE = 1 << 21  # positions up to which the extremes of a curve come from every one of them
DRAWN = 256  # positions looked at per pixel of a longer curve


@dataclass(frozen=True)
class Curve:
    """One column over positions, a point for each pixel.

    Parameters
    ----------
    dim : int
        The dimension.
    label : str
        What it is, in words.
    edges, middle : numpy.ndarray
        Of the pixels, in positions: (pixels + 1,), (pixels,).
    mean, low, high : numpy.ndarray
        (pixels,) over the positions under each pixel; all alike where it has one position. The
        mean of a wave is what the response of a pixel leaves of it: its value, or nothing.
    wavelength : float
        Positions per wave; NaN where the column is no wave.
    per_pixel : float
        Positions to a pixel.
    shape : {"line", "band"}
        A line where a wave has 2 pixels or more, or each position a pixel; else low to high is a
        band around the mean.
    """

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


def curve(
    spec: Any,
    dim: int,
    positions: int | tuple[int, int] | None = None,
    *,
    pixels: int = 512,
    params: Params = None,
    length: int | None = None,
    grid: tuple[int, ...] | None = None,
) -> Curve:
    """One column over positions, in at most so many pixels.

    Parameters
    ----------
    spec : Spec
        A table, or a rotation.
    dim : int
        The dimension, as the table stores it.
    positions : int or (int, int), optional
        A number of positions from 0, or from and to (excluded); 128 by default, or all there are.
    pixels : int
        Points of the curve.
    params, length, grid
        See `posenc.plot.columns.source`.

    Returns
    -------
    Curve
        A line where the picture can show one, else a band from the least to the largest value
        under each pixel, and the mean.

    Examples
    --------
    >>> import posenc
    >>> from posenc.plot.curves import curve
    >>> found = curve(posenc.Sinusoidal(50), 0, 45_000, pixels=670)
    >>> found.shape, float(found.low.max().round(2)), float(abs(found.mean).max())
    ('band', -1.0, 0.0)
    """
    return curve_of(
        source(spec, params=params, length=length, grid=grid, who="waves"),
        dim,
        positions,
        pixels=pixels,
    )


def curve_of(
    held: Source, dim: int, positions: int | tuple[int, int] | None = None, *, pixels: int = 512
) -> Curve:
    """As `curve`, of a source that is at hand."""
    start, stop = placed(held, positions)
    if not 0 <= dim < held.width:
        raise ArgumentError(explain("plot: dims", f"dimensions 0 to {held.width - 1}", dim))
    if not 1 <= pixels <= MOST_PIXELS:
        raise ArgumentError(explain("plot: pixels", f"1 to {MOST_PIXELS}", pixels))
    pixels = min(pixels, stop - start)
    limits = edges(start, stop, pixels)
    per_pixel = (stop - start) / pixels
    wavelength = float("nan") if held.waves is None else float(held.waves.wavelength[dim])
    low, high, mean = _extremes(held, dim, start, stop, pixels)
    line = per_pixel == 1 or wavelength / per_pixel >= FADE
    if per_pixel > 1 and held.waves is not None and np.isfinite(wavelength):
        # A wave of less than 2 pixels has nothing but its extent: its means under single pixels
        # beat, and so would its extremes if a pixel saw less than a whole wave.
        whole_part, part = centres(start, stop, pixels)
        mean = held.waves.at(whole_part, part, np.array([dim]))[:, 0] if line else 0.0 * mean
        if not line:
            low, high = _beside(low, np.minimum), _beside(high, np.maximum)
    return Curve(
        dim=dim,
        label=held.name(dim),
        edges=limits,
        middle=(limits[:-1] + limits[1:]) / 2 - 0.5,
        mean=mean,
        low=low,
        high=high,
        wavelength=wavelength,
        per_pixel=per_pixel,
        shape="line" if line else "band",
    )


def _beside(values: np.ndarray, choose: np.ufunc) -> np.ndarray:
    """The least or largest of each pixel and its two neighbours."""
    padded = np.pad(values, 1, mode="edge")
    found: np.ndarray = choose(choose(padded[:-2], padded[1:-1]), padded[2:])
    return found


def _extremes(
    held: Source, dim: int, start: int, stop: int, pixels: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Least, largest and mean value under each pixel.

    Of ranges too long to look at every position, evenly spread ones are looked at, each at the
    position nearest to a place that does not repeat with any wave.
    """
    dims = np.array([dim])
    count = stop - start
    most = DENSE if held.waves is not None else max(DENSE // held.width, DRAWN * 4)
    if count <= most:
        bounds = np.ceil(np.arange(pixels + 1) * (count / pixels) - 1e-9).astype(np.int64)
        step = max(1, BLOCK // (held.width if held.waves is None else 1))
        parts = [
            held.values(np.arange(begin, min(begin + step, stop)), dims)[:, 0]
            for begin in range(start, stop, step)
        ]
        values = np.concatenate(parts)
        sizes = np.diff(bounds)
        low = np.minimum.reduceat(values, bounds[:-1])
        high = np.maximum.reduceat(values, bounds[:-1])
        return low, high, np.add.reduceat(values, bounds[:-1]) / sizes
    spread = (np.arange(DRAWN) * 0.6180339887498949) % 1.0
    spread[:2] = 0.0, 1.0 - 1e-9  # the ends, so that a slow wave reaches them
    per_pixel = count / pixels
    found = np.empty((3, pixels))
    for begin in range(0, pixels, BLOCK // DRAWN):
        k = np.arange(begin, min(begin + BLOCK // DRAWN, pixels))
        index = start + np.floor((k[:, None] + spread) * per_pixel).astype(np.int64)
        values = held.values(index.reshape(-1), dims).reshape(index.shape)
        found[:, k] = values.min(axis=1), values.max(axis=1), values.mean(axis=1)
    return found[0], found[1], found[2]
