"""The pictures: functions that draw, each of which hands what it was asked for to one machine."""

from posenc.plot.draw.picture import Picture
from posenc.plot.draw.pictures.scores import (
    attention,
    bias,
    compare,
    offset,
    rotation,
    similarity,
    stretch,
)
from posenc.plot.draw.pictures.tables import (
    counter,
    find,
    scene,
    sum,  # noqa: A004
    table,
    wavelengths,
    waves,
)

__all__ = [
    "Picture",
    "attention",
    "bias",
    "compare",
    "counter",
    "find",
    "offset",
    "rotation",
    "scene",
    "similarity",
    "stretch",
    "sum",
    "table",
    "wavelengths",
    "waves",
]
