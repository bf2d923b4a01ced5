"""Waves: single dimensions over positions, a small chart for each."""

from __future__ import annotations

import math

from posenc.plot.curves import Curve
from posenc.plot.panels.axes import banded, cells, values
from posenc.plot.panels.grammar import Chart, Series
from posenc.plot.panels.text import number
from posenc.plot.views.waves import WavesView


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
