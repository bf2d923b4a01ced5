"""Bias: what is added to the attention scores, head by head."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from posenc.explore import snippets
from posenc.explore.state.catalogue import grid_of, kept, window
from posenc.explore.state.entry import Chosen
from posenc.explore.state.fields import integer, switch
from posenc.explore.state.scene import Page, Scene, ViewShape
from posenc.functional import bias as bias_of
from posenc.plot.columns import cells_of, some_of
from posenc.plot.panels.grammar import (
    Block,
    Chart,
    Datum,
    Heading,
    Matrix,
    Prose,
    stops,
    under,
)
from posenc.plot.panels.text import number, plural, present, signed, whole
from posenc.plot.views import bias

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
    first=("enc", "heads", "softmax"),
)


SHOWN = 8  # heads at a time
PIXELS = 160


def places(spec: Any, length: int, index: Any) -> np.ndarray:
    """Positions as the spec takes them: cells of a grid have coordinates."""
    return cells_of(np.asarray(index), grid_of(spec, length))


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
        problems = (
            *problems,
            ("head", f"Head must be at most {head}; {scene['head']} came. Drawn with it."),
        )
    p, kp = min(scene["p"], length - 1), min(scene["kp"], length - 1)
    mask = "causal" if scene["mask"] else "none"
    softmax, sides = "rows" if scene["softmax"] else "none", grid_of(spec, scene["L"])
    data: bias.BiasView = kept(
        bias.data,
        scene.a,
        length,
        heads=some_of(spec.heads, SHOWN, head),
        mask=mask,
        softmax=softmax,
        pixels=PIXELS,
        grid=grid_of(spec, length) or None,
    )
    entries = _entries(scene.a, length, head, [p], np.arange(length))[0]
    entry, seen = float(entries[kp]), entries[: p + 1] if scene["mask"] else entries
    masked = bool(scene["mask"]) and kp > p
    # With softmax the cell holds the share of the key.
    share = math.exp(entry - float(np.logaddexp.reduce(seen))) if scene["softmax"] else None
    query, key = (_told(spec, length, at) for at in (p, kp))
    say = f"Head {head}, query at {query}, key at {key}: " + (
        "masked" if masked else number(entry if share is None else share)
    )
    return Page(
        lead=_lead(data, spec, head, scene),
        panels=tuple(_panels(data, (head, p, kp), say)),
        readout=_readout(data, scene, (head, p, kp), None if masked else entry, share),
        say=say,
        cursor={
            "x": stops("kp", kp, 0, length - 1),
            "y": stops("p", p, 0, length - 1),
        },
        python=snippets.bias(scene, head, p, kp),
        table=lambda: _numbers(scene, head, p, kp),
        problems=problems,
        paper=(
            "bias",
            {
                **({"grid": sides} if sides else {"positions": scene["L"]}),
                "mask": mask,
                "softmax": softmax,
            },
        ),
    )


def _length(spec: Any, scene: Scene) -> tuple[int, tuple[tuple[str, str], ...]]:
    """The positions that are drawn, and why not all."""
    asked: int = scene["L"]
    if not spec.shapes or asked <= LONGEST_LEARNED:
        return asked, ()
    return LONGEST_LEARNED, (
        ("L", f"{scene.a.label} is drawn for at most {plural(LONGEST_LEARNED, 'position')}."),
    )


def _panels(data: bias.BiasView, cell: tuple[int, int, int], say: str) -> Iterator[Chart | Matrix]:
    """The panels of the picture under the cursor: a head, a query and a key."""
    head, p, kp = cell
    for panel in bias.panels(data, head):
        if isinstance(panel, Matrix):
            yield replace(
                panel,
                cells=tuple(
                    replace(c, label=say) if c.id == f"head-{head}" else c
                    for c in (under(cell, kp, p) for cell in panel.cells)
                ),
            )
        else:
            at = np.flatnonzero(data.offsets == kp - p)
            yield under(
                panel,
                float(kp - p),
                to=float(data.curves[data.heads.index(head)][at[0]]) if len(at) else None,
            )


def _lead(data: bias.BiasView, spec: Any, head: int, scene: Scene) -> str:
    far = data.curves[data.heads.index(head), data.offsets == -100]
    example = (
        f" A key 100 positions back gets {number(float(far[0]))} in head {head}."
        if np.isfinite(far).any()
        else ""
    )
    how = "It depends on the distance alone." if data.by_offset else ""
    sides = grid_of(spec, scene["L"])
    if sides:
        how = f"Positions are the cells of a grid of {' × '.join(map(whole, sides))}, row by row."
    if scene["softmax"]:
        how = "With nothing else in the scores, this is what a query would attend to."
    return f"{scene.a.label} in {plural(spec.heads, 'head')}. {how}{example}".replace("  ", " ")


def _readout(
    data: bias.BiasView,
    scene: Scene,
    cell: tuple[int, int, int],
    entry: float | None,
    share: float | None,
) -> tuple[Block, ...]:
    """What stands in the cell of a head, a query and a key; None is masked."""
    head, p, kp = cell
    query, key = (_told(scene.a.spec, scene["L"], at) for at in (p, kp))
    edges = ", ".join(whole(e) for e in data.edges[:12].tolist()) + " …" * (len(data.edges) > 12)
    return present(
        Heading(f"Head {head}, query at {query}, key at {key}"),
        Datum("Bias", "masked" if entry is None else number(entry, 6)),
        Datum("Attention", number(share, 3), "of the bias alone")
        if share is not None and entry is not None
        else None,
        Datum("Key − query", whole(kp - p)) if len(scene.a.spec.axes) == 1 else None,
        Datum("Slope", number(float(data.slopes[data.heads.index(head)]), 6))
        if data.slopes is not None
        else None,
        Datum("Factor on attention", number(math.exp(min(entry, 700.0)), 3), "exp(bias)")
        if entry is not None and math.isfinite(entry)
        else None,
        Datum("Buckets begin at", edges, "distances") if edges else None,
        Prose("Hatched: keys after the query, which a causal mask takes away.")
        if scene["mask"]
        else None,
    )


def _numbers(scene: Scene, head: int, p: int, kp: int) -> dict[str, Any]:
    rows, columns = window(p, 0, scene["L"]), window(kp, 0, scene["L"])
    return {
        "caption": f"{scene.a.label}, head {head}: the bias, queries down, keys across",
        "columns": ["query", *map(whole, columns.tolist())],
        "rows": [
            [
                whole(q),
                *(
                    "masked" if scene["mask"] and k > q else signed(float(x), 4)
                    for k, x in zip(columns.tolist(), line, strict=True)
                ),
            ]
            for q, line in zip(
                rows.tolist(), _entries(scene.a, scene["L"], head, rows, columns), strict=True
            )
        ],
    }
