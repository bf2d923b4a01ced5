"""Similarity: the products of all rows with all rows."""

from __future__ import annotations

from posenc.plot import palette
from posenc.plot.panels.axes import cells
from posenc.plot.panels.grammar import Heatmap
from posenc.plot.panels.text import number, thin
from posenc.plot.views.similarity import Similarity

NAMES = {"dot": "dot product", "cosine": "cosine"}


def panels(data: Similarity) -> tuple[Heatmap]:
    """The matrix of products."""
    matrix = Heatmap(
        id="matrix",
        title=f"{NAMES[data.kind]} of all positions",
        tile=palette.indices(data.values, data.limit),
        lut="diverging",
        x=cells("the other position", *data.positions),
        y=cells("position", *data.positions, key="p"),
        low=number(-data.limit),
        high=number(data.limit),
        caption=thin(" ".join(data.caption)),
        place="full",
        values=data.values,
        limit=data.limit,
    )
    return (matrix,)
