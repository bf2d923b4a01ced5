"""Bias: the curve of each head against the offset, and its matrix."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from posenc.plot import palette
from posenc.plot.panels.axes import cells, float32, values
from posenc.plot.panels.grammar import Chart, Heatmap, Mark, Matrix, Series
from posenc.plot.panels.text import number, spread, thin
from posenc.plot.views.bias import BiasView

MOST_EDGES = 64
WHAT = {"none": "bias", "rows": "attention of the bias alone"}


def panels(data: BiasView, front: int | None = None) -> tuple[Chart | Matrix, ...]:
    """The curves, one of them in front, and the matrices."""
    matrices = Matrix(
        "matrices",
        "each head: queries down, keys across",
        tuple(map(_matrix, [data] * len(data.heads), range(len(data.heads)))),
        thin(" ".join(data.caption)),
    )
    return (_curves(data, front), matrices) if len(data.offsets) else (matrices,)


def _curves(data: BiasView, front: int | None) -> Chart:
    finite = data.curves[np.isfinite(data.curves)]
    low, high = spread(float(finite.min(initial=0.0)), float(finite.max(initial=0.0)))
    last = 0 if np.isnan(data.curves[:, data.offsets > 0]).all() else data.offsets[-1]
    x = values("key − query", float(min(data.offsets[0], -1)), float(last), most=8)
    places = data.offsets.astype(np.float64)
    series = tuple(
        Series(f"head {head}", places, float32(curve), n, front=head == front)
        for n, (head, curve) in enumerate(zip(data.heads, data.curves, strict=True))
    )
    before = "" if front is None else f", head {front} in front"
    return Chart(
        id="offset",
        title=f"{WHAT[data.softmax]} against the offset{before}",
        x=x,
        y=values("", low, high),
        series=series,
        marks=tuple(_edges(data, last)),
        caption="" if data.by_offset else "Curves of the first and the last query.",
        height=230,
        label="Bias of each head against key minus query",
    )


def _edges(data: BiasView, last: float) -> Iterator[Mark]:
    """Where buckets begin, if those are few."""
    edges = [edge for edge in data.edges.tolist() if edge > 1]
    for at in (at for edge in edges for at in (-edge, edge)):
        if len(edges) <= MOST_EDGES and data.offsets[0] <= at <= last:
            yield Mark("x", float(at), style="faint")


def _matrix(data: BiasView, place: int) -> Heatmap:
    """One head on its own scale, so that each is seen; attention on one scale for all."""
    head, matrix, shares = data.heads[place], data.values[place], data.softmax == "rows"
    limit = data.limit if shares else palette.largest(matrix) or 1.0
    missing = np.broadcast_to(data.masked, matrix.shape) | ~np.isfinite(matrix)
    slope = "" if data.slopes is None else f", slope {number(float(data.slopes[place]), 3)}"
    return Heatmap(
        id=f"head-{head}",
        title=f"head {head}{slope}" + ("" if shares else f", to ±{number(limit, 3)}"),
        tile=palette.shares(matrix, limit) if shares else palette.indices(matrix, limit),
        lut="sequential" if shares else "diverging",
        x=cells("key", *data.positions, key="kp", most=3),
        y=cells("query", *data.positions, key="p", most=3),
        low="0" if shares else "−most",
        high=number(limit) if shares else "most",
        mask=missing.astype(np.uint8) if missing.any() else None,
        label=f"Head {head}",
        place="full",
        values=matrix,
        limit=limit,
    )
