"""Bias: what is added to the scores of attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from posenc.encodings.bias.base import BiasSpec
from posenc.functional import bias
from posenc.plot import palette
from posenc.plot.columns import (
    Params,
    Table,
    cells_of,
    check_learned,
    check_word,
    matrix,
    settled,
    sides_of,
)
from posenc.plot.panels.grammar import Chart, Heatmap, Mark, Matrix, Series, cells, float32, values
from posenc.plot.panels.text import Described, brief, number, plural, present, spread, whole
from posenc.plot.raster import span
from posenc.plot.response import reduced
from posenc.plot.rows import refuse, require

MOST_HEADS = 64
SHOWN = 16  # heads drawn unasked
MOST_NUMBERS = 1 << 28
BLOCK = 1 << 20
NEVER = 2**31 - 1  # fills up lists of thresholds
MOST_EDGES = 64
WHAT = {"none": "bias", "rows": "attention of the bias alone"}


@dataclass(frozen=True)
class BiasView(Described):
    """Biases of some heads."""

    heads: tuple[int, ...]
    values: np.ndarray
    masked: np.ndarray
    positions: tuple[int, int]
    per_pixel: float
    offsets: np.ndarray
    curves: np.ndarray
    by_offset: bool
    edges: np.ndarray
    slopes: np.ndarray | None
    softmax: str
    limit: float


def data(
    spec: Any,
    positions: int | tuple[int, int] = 64,
    *,
    heads: Sequence[int] | None = None,
    mask: str = "none",
    softmax: str = "none",
    pixels: int = 256,
    params: Params = None,
    grid: tuple[int, ...] | None = None,
) -> BiasView:
    """The bias of each head as a matrix and against the offset."""
    spec = settled(spec)
    if not isinstance(spec, BiasSpec):
        refuse("bias", spec, "a bias on attention scores")
    check_word("plot bias: mask", mask, ("none", "causal"))
    check_word("plot bias: softmax", softmax, ("none", "rows"))
    check_learned(spec, params, "bias")
    chosen = _heads(spec, heads)
    view = _BiasEntries(spec, positions, params, grid, mask=mask, softmax=softmax)
    values = np.stack([view.matrix(head, pixels) for head in chosen])
    offsets, curves, by_offset = view.curves(chosen)
    slopes = spec.arrays.get("slopes")
    edges = np.unique(np.asarray(spec.arrays.get("thresholds", ()), dtype=np.int64))
    bias = BiasView(
        heads=chosen,
        values=values,
        masked=view.masked(pixels),
        positions=(view.start, view.stop),
        per_pixel=view.count / values.shape[1],
        offsets=offsets,
        curves=curves,
        by_offset=by_offset,
        edges=np.asarray(edges[(edges < NEVER) & (edges < view.count)]),
        slopes=None if slopes is None else np.asarray(slopes)[list(chosen)],
        softmax=softmax,
        # Of attention the last query says it, which sees most keys: one of one key has the share 1.
        limit=(
            palette.largest(values[:, -1])
            if softmax == "rows"
            else max(map(palette.largest, (values, curves)))
        )
        or 1.0,
        title=brief(spec),
        caption=(),
    )
    return replace(bias, caption=_caption(bias, spec, mask))


def _heads(spec: Any, heads: Sequence[int] | None) -> tuple[int, ...]:
    chosen = tuple(range(min(spec.heads, SHOWN))) if heads is None else tuple(map(int, heads))
    require(
        1 <= len(chosen) <= MOST_HEADS and all(0 <= h < spec.heads for h in chosen),
        " bias: heads",
        f"1 to {MOST_HEADS:,} heads from 0 to {spec.heads - 1}",
        chosen,
    )
    return chosen


class _BiasEntries:
    """Entries of one encoding over a range of positions, head by head."""

    def __init__(
        self, spec: Any, positions: Any, params: Params, grid: Any, *, mask: str, softmax: str
    ) -> None:
        self.spec, self.params, self.mask, self.softmax = spec, params, mask, softmax
        self.sides = sides_of(spec, grid, "bias")
        self.start, self.stop = span(positions, "positions")
        if self.sides:
            self.start, self.stop = 0, int(np.prod(self.sides))
        self.count = self.stop - self.start
        require(
            self.count**2 <= MOST_NUMBERS,
            " bias: positions",
            f"at most {whole(MOST_NUMBERS**0.5)} positions",
            f"{whole(self.count)} positions",
            "Draw fewer positions; curves against the offset show long distances.",
        )

    def rows(self, head: int, queries: np.ndarray, keys: np.ndarray) -> np.ndarray:
        """Entries of some queries and keys, counted from the first position; NaN for no number."""
        places = (cells_of(side + self.start, self.sides) for side in (queries, keys))
        more: dict[str, Any] = {"params": self.params, "heads": (head, head + 1)}
        values = np.array(bias(self.spec, *places, dtype="float64", **more))[0]
        later = (keys[None, :] > queries[:, None]) & (self.mask == "causal")
        values[later] = -np.inf
        if self.softmax == "rows":
            top = values.max(axis=1, keepdims=True)
            share = np.exp(values - np.where(np.isfinite(top), top, 0))
            values = share / np.maximum(share.sum(axis=1, keepdims=True), 1e-300)
        values[later | ~np.isfinite(values)] = np.nan
        return values

    def matrix(self, head: int, pixels: int) -> np.ndarray:
        """The matrix in at most so many pixels, filtered along both sides; NaN spreads nowhere."""
        keys, step = np.arange(self.count), max(1, BLOCK // self.count)
        if self.count <= pixels:
            return self.rows(head, keys, keys)

        def narrowed(first: int, end: int) -> np.ndarray:
            block = self.rows(head, np.arange(first, min(first + step, end)), keys)
            numbers = np.where(np.isnan(block), 0.0, block).T
            return reduced(lambda b, e: numbers[b:e], self.count, pixels, numbers.shape[1]).T

        def fetch(begin: int, end: int) -> np.ndarray:
            return np.concatenate([narrowed(first, end) for first in range(begin, end, step)])

        return np.where(self.masked(pixels), np.nan, reduced(fetch, self.count, pixels, pixels))

    def masked(self, pixels: int) -> np.ndarray:
        """Pixels of which every entry is masked."""
        side = min(pixels, self.count)
        edge = np.arange(side + 1) * (self.count / side)
        return (self.mask != "none") & (edge[None, :-1] >= edge[1:, None])

    def curves(self, heads: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, bool]:
        """Against the offset: of the last query to its past, of the first to its future."""
        n = self.count
        if self.sides:
            return np.zeros(0, dtype=np.int64), np.zeros((len(heads), 0)), False
        keys, queries = np.arange(n), np.array([n - 1, 0, n // 2])
        last, first, middle = np.stack([self.rows(head, queries, keys) for head in heads], axis=1)
        curves = np.concatenate([last, first[:, 1:]], axis=1)
        there = curves[:, keys - n // 2 + n - 1]
        same = np.isnan(middle) == np.isnan(there)
        there, middle = np.nan_to_num(there), np.nan_to_num(middle)
        close = np.abs(middle - there) <= 1e-9 * (1 + np.abs(there))
        return (
            np.concatenate([keys - (n - 1), keys[1:]]),
            curves,
            bool((same & close).all()) and self.softmax == "none",
        )


def _caption(bias: BiasView, spec: Any, mask: str) -> tuple[str, ...]:
    heads, rows = len(bias.heads), bias.softmax == "rows"
    buckets = plural(len(bias.edges) + 1, "bucket")
    return present(
        f"{heads} of {plural(spec.heads, 'head')}." if heads < spec.heads else "",
        "One scale for all heads: the attention that the bias alone gives, from 0 to "
        f"{number(bias.limit)}, the most of the last query; others may go beyond."
        if rows
        else f"Biases up to {number(bias.limit)} in size; each head has a scale of its own.",
        ""
        if bias.slopes is None
        else f"Slopes: {', '.join(number(float(slope), 3) for slope in bias.slopes)}.",
        f"A pixel covers {number(bias.per_pixel)} positions of each side."
        if bias.per_pixel > 1
        else "",
        f"Hatched: {'masked' if mask == 'causal' else 'minus infinity'}."
        if np.isnan(bias.values).any()
        else "",
        f"{buckets} per direction within this range." if len(bias.edges) else "",
        "It depends on more than the offset: curves are of the first and last query."
        if (len(bias.offsets) and not bias.by_offset and not rows)
        else "",
    )


def rows(data: Any) -> Table:
    """The numbers of a .csv."""
    if len(data.offsets):
        return matrix("offset", data.offsets, (f"head{h}" for h in data.heads), data.curves.T)
    return ["head", "row", *(f"k{k}" for k in range(data.values.shape[2]))], (
        [head, place, *row]
        for head, matrix in zip(data.heads, data.values, strict=True)
        for place, row in enumerate(matrix)
    )


# --- panels ---------------------------------------------------------------------------------------


def panels(data: BiasView, front: int | None = None) -> tuple[Chart | Matrix, ...]:
    """The curves, one of them in front, and the matrices."""
    matrices = Matrix(
        "matrices",
        "each head: queries down, keys across",
        tuple(map(_matrix, [data] * len(data.heads), range(len(data.heads)))),
        caption=" ".join(data.caption),
    )
    return (_curves(data, front), matrices) if len(data.offsets) else (matrices,)


def _curves(data: BiasView, front: int | None) -> Chart:
    finite = data.curves[np.isfinite(data.curves)]
    low, high = spread(float(finite.min(initial=0.0)), float(finite.max(initial=0.0)))
    last = 0 if np.isnan(data.curves[:, data.offsets > 0]).all() else data.offsets[-1]

    places = data.offsets.astype(np.float64)
    before = "" if front is None else f", head {front} in front"
    return Chart(
        id="offset",
        title=f"{WHAT[data.softmax]} against the offset{before}",
        x=values("key − query", float(min(data.offsets[0], -1)), float(last), most=8),
        y=values("bias" if data.softmax == "none" else "attention", low, high),
        series=tuple(
            Series(f"head {head}", places, float32(curve), n, front=head == front)
            for n, (head, curve) in enumerate(zip(data.heads, data.curves, strict=True))
        ),
        marks=_edge_marks(data, last),
        caption="" if data.by_offset else "Curves of the first and the last query.",
        height=170,
        label="Bias of each head against key minus query",
    )


def _edge_marks(data: BiasView, last: float) -> tuple[Mark, ...]:
    """Where buckets begin, if those are few."""
    edges = [edge for edge in data.edges.tolist() if edge > 1]
    places = [at for edge in edges for at in (-edge, edge) if data.offsets[0] <= at <= last]
    few = len(edges) <= MOST_EDGES
    return tuple(Mark("x", float(at), style="faint") for at in places) if few else ()


def _matrix(data: BiasView, place: int) -> Heatmap:
    """One head on its own scale, so that each is seen; attention on one scale for all."""
    head, matrix, shares = data.heads[place], data.values[place], data.softmax == "rows"
    # Pixels are means, so the curves may reach further.
    limit = (
        data.limit if shares else (max(map(palette.largest, (matrix, data.curves[place]))) or 1.0)
    )
    missing = np.broadcast_to(data.masked, matrix.shape) | ~np.isfinite(matrix)
    return Heatmap(
        id=f"head-{head}",
        title=f"head {head}" + ("" if shares else f"\n|b|≤{number(limit, 3 if limit >= 1 else 2)}"),
        tile=palette.shares(matrix, limit) if shares else palette.indices(matrix, limit),
        lut="sequential" if shares else "diverging",
        x=cells("key", *data.positions, key="kp", most=3),
        y=cells("query", *data.positions, key="p", most=3),
        low="0" if shares else "−1",
        high=number(limit) if shares else "1",
        mask=missing.astype(np.uint8) if missing.any() else None,
        label=f"Head {head}",
        place="full",
        values=matrix,
        limit=limit,
        scale="" if shares else "share of its largest",
    )
