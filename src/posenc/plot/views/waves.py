"""Waves: how one dimension changes over positions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from posenc.plot.columns import (
    BLOCK,
    ColumnWaves,
    Params,
    Table,
    TableSource,
    evenly,
    matrix,
    source,
)
from posenc.plot.panels.grammar import Chart, Series, banded, cells, values
from posenc.plot.panels.text import Described, brief, number, plural, present
from posenc.plot.raster import MOST_PIXELS, around, placed
from posenc.plot.response import FADE, FULL, centres, edges, gain, reduced
from posenc.plot.rows import require

MOST_CURVES = 16
USUAL = 5  # curves where none are named


@dataclass(frozen=True)
class WavesView(Described):
    """Some columns over positions."""

    curves: tuple[Curve, ...]
    positions: tuple[int, int]
    limit: float


def data(
    spec: Any,
    dims: Sequence[int] | None = None,
    positions: int | tuple[int, int] | None = None,
    *,
    pixels: int = 512,
    params: Params = None,
    length: int | None = None,
    grid: tuple[int, ...] | None = None,
) -> WavesView:
    """Curves of some dimensions; a band where a wave has less than 8 pixels."""
    table = source(spec, params=params, length=length, grid=grid, caller="waves")
    chosen = _usual(table) if dims is None else [int(d) for d in dims]
    require(1 <= len(chosen) <= MOST_CURVES, " waves: dims", f"1 to {MOST_CURVES:,}", len(chosen))
    ends = placed(table, positions)
    curves = tuple(curve_of(table, dim, ends, pixels=pixels) for dim in chosen)
    most = max(float(max(abs(c.low.min()), abs(c.high.max()))) for c in curves)
    limit = most if table.waves is None else abs(table.waves.amplitude)
    return WavesView(curves, ends, limit or 1.0, title=brief(table.spec), caption=_caption(curves))


def _usual(table: TableSource) -> list[int]:
    """Sines from the fastest pair to the slowest, or columns evenly apart."""
    waves, usable = table.waves, np.arange(table.width)
    if waves is not None:
        usable = np.flatnonzero((waves.function == 0) & (waves.pair >= 0))
        usable = usable[np.argsort(waves.wavelength[usable], kind="stable")]
    return usable[evenly(len(usable), USUAL)].tolist()


def _caption(curves: tuple[Curve, ...]) -> tuple[str, ...]:
    bands = sum(c.shape == "band" for c in curves)
    ends = [*dict.fromkeys(number(c.wavelength) for c in curves if np.isfinite(c.wavelength))]
    covered = curves[0].per_pixel
    return present(
        f"A pixel covers {number(covered)} positions." if covered > 1 else "",
        f"{plural(bands, 'curve')} of {len(curves)} cannot be drawn in full: the line is what "
        f"pixels can show, nothing below {FADE:g} for each wave and all from {FULL:g} on; the "
        "band goes from the least to the largest value."
        if bands
        else "",
        f"Wavelengths λ from {ends[0]} to {ends[-1]} positions."
        if ends[1:]
        else "".join(f"Wavelength λ {wavelength} positions." for wavelength in ends),
    )


def rows(data: Any) -> Table:
    """The numbers of a .csv."""
    parts = {
        f"{what}{c.dim}": getattr(c, what) for c in data.curves for what in ("mean", "low", "high")
    }
    return matrix("position", data.curves[0].middle, parts, np.stack([*parts.values()], axis=1))


# --- panels --------------------------------------------------------------------------------------


def panels(data: WavesView) -> tuple[Chart, ...]:
    """A chart for each curve, all on one scale; the last has the name of the axis."""
    last = len(data.curves) - 1
    return tuple(chart(data, curve, n, last=n == last) for n, curve in enumerate(data.curves))


def chart(data: WavesView, curve: Curve, place: int, *, last: bool) -> Chart:
    """One dimension."""
    what = "" if curve.label.startswith("dim") else f": {curve.label}"
    return Chart(
        id=f"wave-{place}",
        title=f"dimension {curve.dim}{what}, λ = {length(curve.wavelength).split()[0]}",
        x=cells("position" if last else "", *data.positions, key="p"),
        y=values("value", -data.limit, data.limit, most=3),
        series=(series(curve),),
        caption=unresolved(curve),
        place="half",
        height=72,
        label=f"Dimension {curve.dim} over the positions",
        compact=True,
    )


def series(curve: Curve) -> Series:
    """A column over positions, with its band where pixels cannot show all of it."""
    return banded(
        curve.label, (curve.edges[:-1] + curve.edges[1:]) / 2, curve, band=curve.shape == "band"
    )


def unresolved(curve: Curve) -> str:
    """What stands below a curve that has fewer pixels than it needs."""
    return (
        "Line: what pixels can show. Band: from the least to the largest value."
        if curve.shape == "band"
        else ""
    )


def length(wavelength: float) -> str:
    """A wavelength in positions."""
    return f"{number(wavelength)} positions" if math.isfinite(wavelength) else "endless"


# --- curves ---------------------------------------------------------------------------------------


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
    require(0 <= dim < table.width, ": dims", f"dimensions 0 to {table.width - 1}", dim)
    require(1 <= pixels <= MOST_PIXELS, ": pixels", f"1 to {MOST_PIXELS:,}", pixels)
    pixels = min(pixels, stop - start)
    limits = edges(start, stop, pixels)
    waves, per_pixel = table.waves, (stop - start) / pixels
    wavelength = float("nan") if waves is None else float(waves.wavelength[dim])
    if per_pixel == 1:
        low = high = mean = _values(table, dim, start, stop)
    elif waves is not None and not math.isnan(wavelength):
        low, high, mean = _of_wave(table, waves, dim, start, stop, pixels)
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
    table: TableSource, waves: ColumnWaves, dim: int, start: int, stop: int, pixels: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What the gain leaves of a wave, and how far it goes where the gain takes something.

    Least and largest values under single pixels would beat with the wave, and their outline be a
    pattern of the drawing; those of the whole range do not.
    """
    dims, count = np.array([dim]), stop - start
    share = float(gain(float(waves.wavelength[dim]) * pixels / count))
    mean = share * waves.at(*centres(start, stop, pixels), dims)[:, 0]
    if share == 1:
        return mean, mean, mean
    # Places that repeat with no wave, so that every phase of it is met.
    spread = (np.arange(LOOKED_AT) * GOLDEN) % 1.0
    some = np.arange(count) if count <= LOOKED_AT else np.floor(spread * count).astype(np.int64)
    values = table.values(start + some, dims)
    return np.full(pixels, values.min()), np.full(pixels, values.max()), mean


def _of_rows(
    table: TableSource, dim: int, start: int, stop: int, pixels: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Filtered rows, as in the picture of the table, and the extremes around each pixel."""
    low, high, mean = _extremes(table, dim, start, stop, pixels)
    if stop - start <= _looked_at(table):
        mean = reduced(
            lambda begin, end: _values(table, dim, start + begin, start + end)[:, None],
            stop - start,
            pixels,
            1,
            around(table, start, stop),
        )[:, 0]
    low, high = around_each(low, np.minimum), around_each(high, np.maximum)
    return np.minimum(low, mean), np.maximum(high, mean), mean


def _looked_at(table: TableSource) -> int:
    """Positions up to which each is looked at."""
    return max(DENSE // table.width, DRAWN * 4)


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
    count = stop - start
    if count <= _looked_at(table):
        bounds = np.ceil(np.arange(pixels + 1) * (count / pixels) - 1e-9).astype(np.int64)
        values = _values(table, dim, start, stop)
        low, high, total = (
            choose.reduceat(values, bounds[:-1]) for choose in (np.minimum, np.maximum, np.add)
        )
        return low, high, total / np.diff(bounds)
    spread = (np.arange(DRAWN) * GOLDEN) % 1.0
    spread[:2] = 0.0, 1.0 - 1e-9  # the ends, so that a slow wave reaches them
    extremes = np.empty((3, pixels))
    for begin in range(0, pixels, BLOCK // DRAWN):
        k = np.arange(begin, min(begin + BLOCK // DRAWN, pixels))
        index = start + np.floor((k[:, None] + spread) * (count / pixels)).astype(np.int64)
        values = table.values(index.reshape(-1), np.array([dim])).reshape(index.shape)
        extremes[:, k] = values.min(axis=1), values.max(axis=1), values.mean(axis=1)
    return extremes[0], extremes[1], extremes[2]
