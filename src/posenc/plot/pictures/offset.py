"""Offset: the product of two rows against their distance."""

from __future__ import annotations

import numpy as np

from posenc.plot.panels.axes import banded, logarithmic, values
from posenc.plot.panels.grammar import Chart
from posenc.plot.panels.text import spread, thin
from posenc.plot.pictures.similarity import NAMES
from posenc.plot.views.offset import Offset

BANDS = {
    "none": "",
    "positions": "band: from the least to the largest over positions",
    "offsets": "band: from the least to the largest of the distances under a pixel",
}


def panels(data: Offset, label: str = "") -> tuple[Chart]:
    """The curve with its band, which its title names."""
    name = NAMES[data.kind]
    low, high = spread(float(data.low.min()), float(data.high.max()))
    first, last = float(data.offsets[0]), float(data.offsets[-1])
    x = values("distance, positions", min(first, last - 1), max(last, 1.0), most=8)
    if data.scale == "log":
        x = logarithmic("distance, positions (log)", max(first, 1.0), max(last, 2.0))
    band = BANDS[data.band]
    curve = banded(label, data.offsets.astype(np.float64), data, band=bool(band))
    return (
        Chart(
            id="offset",
            title=f"{name} of two rows, by their distance" + (f"; {band}" if band else ""),
            x=x,
            y=values("", low, high),
            series=(curve,),
            caption=thin(" ".join(data.caption)),
            height=230,
            label=f"The {name} of two rows against their distance",
        ),
    )
