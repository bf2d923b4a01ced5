"""Waves: how one dimension changes over positions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc._core.errors import ArgumentError, mismatch
from posenc.plot.columns import Params, TableSource, evenly, source
from posenc.plot.curves import Curve, curve_of
from posenc.plot.export import Table, matrix
from posenc.plot.panels.axes import banded, cells, values
from posenc.plot.panels.grammar import Chart, Series
from posenc.plot.panels.text import brief, number, plural
from posenc.plot.raster import placed
from posenc.plot.response import FADE, FULL

MOST_CURVES = 16
USUAL = 5  # curves where none are named


@dataclass(frozen=True)
class WavesView:
    """Some columns over positions."""

    curves: tuple[Curve, ...]
    positions: tuple[int, int]
    limit: float
    title: str
    caption: tuple[str, ...]


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
    if not 1 <= len(chosen) <= MOST_CURVES:
        raise ArgumentError(mismatch("plot waves: dims", f"1 to {MOST_CURVES}", len(chosen)))
    start, stop = placed(table, positions)
    curves = tuple(curve_of(table, dim, (start, stop), pixels=pixels) for dim in chosen)
    limit = max(float(max(abs(c.low.min()), abs(c.high.max()))) for c in curves)
    if table.waves is not None:
        limit = abs(table.waves.amplitude)
    return WavesView(curves, (start, stop), limit or 1.0, brief(table.spec), _caption(curves))


def _usual(table: TableSource) -> list[int]:
    """Sines from the fastest pair to the slowest, or columns evenly apart."""
    waves = table.waves
    usable = np.arange(table.width)
    if waves is not None:
        usable = np.flatnonzero((waves.function == 0) & (waves.pair >= 0))
        usable = usable[np.argsort(waves.wavelength[usable], kind="stable")]
    return usable[evenly(len(usable), USUAL)].tolist()


def _caption(curves: tuple[Curve, ...]) -> tuple[str, ...]:
    sentences = []
    if curves[0].per_pixel > 1:
        sentences.append(f"A pixel covers {number(curves[0].per_pixel)} positions.")
    bands = sum(c.shape == "band" for c in curves)
    if bands:
        sentences.append(
            f"{plural(bands, 'curve')} of {len(curves)} cannot be drawn in full: the line is what "
            f"pixels can show, nothing below {FADE:g} for each wave and all from {FULL:g} on; the "
            "band goes from the least to the largest value."
        )
    finite = [c for c in curves if np.isfinite(c.wavelength)]
    if finite:
        ends = number(finite[0].wavelength), number(finite[-1].wavelength)
        sentences.append(f"Wavelengths from {ends[0]} to {ends[1]} positions.")
    return tuple(sentences)


def rows(data: Any) -> Table:
    """The numbers of a .csv."""
    parts = [
        (f"{what}{c.dim}", getattr(c, what))
        for c in data.curves
        for what in ("mean", "low", "high")
    ]
    columns = np.stack([values for _, values in parts], axis=1)
    return matrix("position", data.curves[0].middle, (name for name, _ in parts), columns)


# --- panels ---------------------------------------------------------------------------------------


def panels(data: WavesView) -> tuple[Chart, ...]:
    """A chart for each curve, all on one scale; the last has the name of the axis."""
    last = len(data.curves) - 1
    return tuple(chart(data, curve, n, last=n == last) for n, curve in enumerate(data.curves))


def chart(data: WavesView, curve: Curve, place: int, *, last: bool) -> Chart:
    """One dimension."""
    what = "" if curve.label.startswith("dim") else f": {curve.label}"
    turns = f", wavelength {length(curve.wavelength)}"
    return Chart(
        id=f"wave-{place}",
        title=f"dimension {curve.dim}{what}{turns}",
        x=cells("position" if last else "", *data.positions, key="p"),
        y=values("", -data.limit, data.limit, most=2),
        series=(series(curve),),
        caption=unresolved(curve),
        place="half",
        height=72,
        label=f"Dimension {curve.dim} over the positions",
        compact=True,
    )


def series(curve: Curve) -> Series:
    """A column over positions, with its band where pixels cannot show all of it."""
    middle = (curve.edges[:-1] + curve.edges[1:]) / 2
    return banded(curve.label, middle, curve, band=curve.shape == "band")


def unresolved(curve: Curve) -> str:
    """What stands below a curve that has fewer pixels than it needs."""
    words = "Line: what pixels can show. Band: from the least to the largest value."
    return words if curve.shape == "band" else ""


def length(wavelength: float) -> str:
    """A wavelength in positions."""
    return f"{number(wavelength)} positions" if math.isfinite(wavelength) else "endless"
