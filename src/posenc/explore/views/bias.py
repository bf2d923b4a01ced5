"""Bias: what is added to the attention scores, head by head."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import numpy as np

from posenc.explore import snippets
from posenc.explore.state.catalogue import grid_of
from posenc.explore.state.entry import Chosen
from posenc.explore.state.fields import integer, switch
from posenc.explore.state.scene import Page, Scene, ViewShape
from posenc.explore.state.sources import window
from posenc.functional import bias as bias_of
from posenc.plot import palette
from posenc.plot.panels.axes import cells, float32, stops, values
from posenc.plot.panels.grammar import (
    Block,
    Chart,
    Fact,
    Heading,
    Heatmap,
    Mark,
    Matrix,
    Prose,
    Series,
)
from posenc.plot.panels.text import number, plural, signed, spread, thin, whole
from posenc.plot.views import bias
from posenc.plot.views.bias import BiasView

LONGEST = 2048
LONGEST_LEARNED = 512  # of biases that a small network or many terms make, entry by entry
LENGTH = integer("L", "Positions", 128, 1, LONGEST, scale="log")
SHAPE = ViewShape(
    "bias",
    "Bias",
    "What is added to the attention scores?",
    "alibi",
    (
        LENGTH,
        integer("head", "Head", 0, 0, 255, section="cursor", gently=True),
        integer("kp", "Key position", 28, 0, LONGEST - 1, section="cursor", gently=True),
        switch("mask", "Causal mask", "1"),
        switch("softmax", "Softmax of the bias alone"),
    ),
    defaults={"p label": "Query position"},
    cursor=("p",),
    # Cells of a grid have no order, so nothing is masked unasked.
    usual=lambda chosen: {"mask": "0"} if len(chosen.spec.axes) > 1 else {},
)


SHOWN = 8  # heads at a time
PIXELS = 160


@functools.lru_cache(maxsize=32)
def _bias(chosen: Chosen, length: int, heads: tuple[int, ...], mask: str, softmax: str) -> BiasView:
    return bias.data(
        chosen.spec,
        length,
        heads=heads,
        mask=mask,
        softmax=softmax,
        pixels=PIXELS,
        params=chosen.params,
        grid=grid_of(chosen.spec, length) or None,
    )


def places(spec: Any, length: int, index: Any) -> np.ndarray:
    """Positions as the spec takes them: cells of a grid have coordinates."""
    sides = grid_of(spec, length)
    if not sides:
        return np.asarray(index)
    return np.stack(np.unravel_index(np.asarray(index), sides), axis=-1)


def _entries(chosen: Chosen, length: int, head: int, queries: Any, keys: Any) -> np.ndarray:
    """What one head adds to the scores of some queries and keys."""
    spec, heads = chosen.spec, (head, head + 1)
    sides = (places(spec, length, side) for side in (queries, keys))
    return np.asarray(bias_of(spec, *sides, params=chosen.params, heads=heads, dtype="float64"))[0]


def _told(spec: Any, length: int, at: int) -> str:
    """A position in words: its number, or its coordinates in a grid."""
    place = places(spec, length, [at])[0]
    return whole(at) if place.ndim == 0 else f"({', '.join(map(whole, place.tolist()))})"


def show(scene: Scene) -> Page:
    """A matrix for each head, the bias against the offset, and one entry."""
    spec: Any = scene.a.spec
    length, problems = _length(spec, scene)
    head = min(scene["head"], spec.heads - 1)
    if head < scene["head"]:
        last = f"Head must be at most {head}; {scene['head']} came. Drawn with it."
        problems = (*problems, ("head", last))
    p, kp = min(scene["p"], length - 1), min(scene["kp"], length - 1)
    data = _bias(
        scene.a,
        length,
        _heads(spec.heads, head),
        "causal" if scene["mask"] else "none",
        "rows" if scene["softmax"] else "none",
    )
    entry = float(_entries(scene.a, length, head, [p], [kp])[0, 0])
    masked = bool(scene["mask"]) and kp > p
    shown = "masked" if masked else number(entry)
    query, key = (_told(spec, length, at) for at in (p, kp))
    say = f"Head {head}, query at {query}, key at {key}: {shown}"
    curves = (_curves(data, head, kp - p),) if len(data.offsets) else ()
    return Page(
        lead=_lead(data, spec, head, scene),
        panels=(*curves, _matrices(data, head, p, kp, say)),
        readout=_readout(data, scene, (head, p, kp), None if masked else entry),
        say=say,
        cursor={
            "x": stops("kp", kp, 0, length - 1),
            "y": stops("p", p, 0, length - 1),
        },
        python=snippets.bias(scene, head, p, kp),
        table=lambda: _numbers(scene, head, p, kp),
        problems=problems,
    )


def _length(spec: Any, scene: Scene) -> tuple[int, tuple[tuple[str, str], ...]]:
    """The positions that are drawn, and why not all."""
    asked: int = scene["L"]
    if not spec.shapes or asked <= LONGEST_LEARNED:
        return asked, ()
    note = f"{scene.a.label} is drawn for at most {plural(LONGEST_LEARNED, 'position')}."
    return LONGEST_LEARNED, (("L", note),)


def _heads(count: int, head: int) -> tuple[int, ...]:
    """All heads of a few, else some from the first to the last and the chosen one."""
    if count <= SHOWN:
        return tuple(range(count))
    some = np.linspace(0, count - 1, SHOWN - 1).astype(int).tolist()
    return tuple(sorted({*some, head}))


def _curves(data: BiasView, head: int, rel: int) -> Chart:
    finite = data.curves[np.isfinite(data.curves)]
    low, high = spread(float(finite.min(initial=0.0)), float(finite.max(initial=0.0)))
    last = 0 if np.isnan(data.curves[:, data.offsets > 0]).all() else data.offsets[-1]
    x = values("key − query", float(min(data.offsets[0], -1)), float(last), most=8)
    places = data.offsets.astype(np.float64)
    series = tuple(
        Series(f"head {h}", places, float32(curve), n, front=h == head)
        for n, (h, curve) in enumerate(zip(data.heads, data.curves, strict=True))
    )
    marks = [
        Mark("x", -float(edge), "bucket edges" if n == 0 else "")
        for n, edge in enumerate(data.edges.tolist())
    ]
    at = np.flatnonzero(data.offsets == rel)
    place = data.heads.index(head)
    if len(at) and np.isfinite(data.curves[place, at[0]]):
        marks.append(Mark("point", rel, to=float(data.curves[place, at[0]]), style="point"))
    what = "attention of the bias alone" if data.softmax == "rows" else "bias"
    return Chart(
        id="offset",
        title=f"{what} against the offset, head {head} in front",
        x=replace(x, at=float(rel)),
        y=values("", low, high),
        series=series,
        marks=tuple(marks),
        caption="" if data.by_offset else "Curves of the first and the last query.",
        height=230,
        label="Bias of each head against key minus query",
    )


def _matrices(data: BiasView, head: int, p: int, kp: int, say: str) -> Matrix:
    start, stop = data.positions
    unsigned = data.softmax == "rows"
    tiles = []
    for h, matrix in zip(data.heads, data.values, strict=True):
        missing = ~np.isfinite(matrix)
        tile = palette.indices(matrix, data.limit)
        if unsigned:
            share = np.where(missing, 0.0, matrix)
            share /= np.maximum(share.max(axis=1, keepdims=True), np.finfo(np.float64).tiny)
            tile = np.rint(np.clip(share, 0, 1) * 255).astype(np.uint8)
        tiles.append(
            Heatmap(
                id=f"head-{h}",
                title=f"head {h}{_slope(data, h, ', slope ', 3)}",
                tile=tile,
                lut="sequential" if unsigned else "diverging",
                x=cells("key", start, stop, key="kp", at=kp, most=3),
                y=cells("query", start, stop, key="p", at=p, most=3),
                low="0" if unsigned else number(-data.limit),
                high="the largest of its row" if unsigned else number(data.limit),
                mask=missing.astype(np.uint8) if missing.any() else None,
                label=say if h == head else f"Head {h}",
                place="full",
                values=matrix,
                limit=data.limit,
            )
        )
    return Matrix(
        "matrices",
        "each head: queries down, keys across",
        tuple(tiles),
        thin(" ".join(data.caption)),
    )


def _slope(data: BiasView, head: int, front: str, digits: int) -> str:
    """The slope of a head behind some words; empty where it has none."""
    if data.slopes is None:
        return ""
    return front + number(float(data.slopes[data.heads.index(head)]), digits)


def _lead(data: BiasView, spec: Any, head: int, scene: Scene) -> str:
    place = data.heads.index(head)
    far = data.offsets == -100
    example = ""
    if far.any() and np.isfinite(data.curves[place, far][0]):
        value = float(data.curves[place, far][0])
        example = f" A key 100 positions back gets {number(value)} in head {head}."
    how = "It depends on the distance alone." if data.by_offset else ""
    sides = grid_of(spec, scene["L"])
    if sides:
        how = f"Positions are the cells of a grid of {' × '.join(map(whole, sides))}, row by row."
    if scene["softmax"]:
        how = "With nothing else in the scores, this is what a query would attend to."
    return f"{scene.a.label} in {plural(spec.heads, 'head')}. {how}{example}".replace("  ", " ")


def _readout(
    data: BiasView, scene: Scene, cell: tuple[int, int, int], entry: float | None
) -> tuple[Block, ...]:
    """What stands in the cell of a head, a query and a key; None is masked."""
    head, p, kp = cell
    blocks: list[Block] = [
        Heading(
            f"Head {head}, query at {_told(scene.a.spec, scene['L'], p)}, "
            f"key at {_told(scene.a.spec, scene['L'], kp)}"
        ),
        Fact("Bias", "masked" if entry is None else number(entry, 6)),
    ]
    if len(scene.a.spec.axes) == 1:
        blocks.append(Fact("Key − query", whole(kp - p)))
    if data.slopes is not None:
        blocks.append(Fact("Slope", _slope(data, head, "", 6)))
    if entry is not None and np.isfinite(entry):
        blocks.append(
            Fact("Factor on attention", number(float(np.exp(min(entry, 700.0))), 3), "exp(bias)")
        )
    if len(data.edges):
        shown = ", ".join(whole(e) for e in data.edges[:12].tolist())
        more = " …" if len(data.edges) > 12 else ""
        blocks.append(Fact("Buckets begin at", shown + more, "distances"))
    if scene["mask"]:
        blocks.append(Prose("Hatched: keys after the query, which a causal mask takes away."))
    return tuple(blocks)


def _numbers(scene: Scene, head: int, p: int, kp: int) -> dict[str, Any]:
    rows, columns = window(p, 0, scene["L"]), window(kp, 0, scene["L"])
    values = _entries(scene.a, scene["L"], head, rows, columns)
    return {
        "caption": f"{scene.a.label}, head {head}: queries down, keys across",
        "columns": ["query", *map(whole, columns.tolist())],
        "rows": [
            [
                whole(q),
                *(
                    "masked" if scene["mask"] and k > q else signed(float(x), 4)
                    for k, x in zip(columns.tolist(), line, strict=True)
                ),
            ]
            for q, line in zip(rows.tolist(), values, strict=True)
        ],
    }


def on_paper(scene: Scene) -> tuple[str, dict[str, Any]]:
    """The picture of `posenc.plot` that shows the same, and its arguments."""
    sides = grid_of(scene.a.spec, scene["L"])
    return "bias", {
        **({"grid": sides} if sides else {"positions": scene["L"]}),
        "mask": "causal" if scene["mask"] else "none",
        "softmax": "rows" if scene["softmax"] else "none",
    }
