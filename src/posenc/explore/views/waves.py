"""Waves: how fast each pair turns, and a counter in binary beside it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from posenc.explore.snippets import spec_lines
from posenc.explore.state.catalogue import held
from posenc.explore.state.fields import switch
from posenc.explore.state.scene import LENGTH, START, Page, Scene, ViewShape
from posenc.explore.views import table as table_view
from posenc.plot.columns import TableSource, channels_of
from posenc.plot.panels.grammar import (
    Axis,
    Block,
    Datum,
    Heading,
    Link,
    Links,
    Panel,
    Prose,
    cells,
    under,
)
from posenc.plot.panels.text import count, number, plural, signed, whole
from posenc.plot.views import counter, wavelengths, waves

SHAPE = ViewShape(
    "waves",
    "Waves",
    "How fast does each dimension turn?",
    "sinusoidal",
    (
        START,
        LENGTH,
        switch("counter", "Binary counter", hint="Bits above the waves of that speed."),
    ),
    first=("enc", "L", "counter"),
)
# A way to the table that counts in binary, from one that does not.
HALVES = {"enc": "sinusoidal", "ladder": "halves", "n": "2", "d": "16"}
BITS = (Links("With a wave for each bit", (Link("a table of halves", HALVES),)),)
MOST_COUNTED = 64  # positions of the counter


def show(scene: Scene) -> Page:
    """Wavelengths, some curves, and the counter."""
    rows, j, p = (scene["s"], scene["s"] + scene["L"]), scene["j"], scene["p"]
    table = held(scene.a, rows[1])
    pair = table.pair_of(j)
    data = wavelengths.data(table.spec, mark=scene["L"], labels=[scene.a.label])
    ladder = data.ladders[0]
    own = math.inf if pair is None else float(ladder.wavelengths[pair])
    (chart,) = wavelengths.panels(data)
    turns = "it never turns"
    if math.isfinite(own):
        turns = f"{number(scene['L'] / own, 3)} turns within {plural(scene['L'], 'position')}"
    return Page(
        lead=" ".join(data.caption),
        panels=(
            under(replace(chart, x=pair_axis(table, len(ladder.wavelengths), pair)), pair, to=own),
            *(_counter(scene, rows, p) if scene["counter"] else _curves(scene, table, rows)),
        ),
        readout=(
            *_readout(ladder.wavelengths, pair, own, scene),
            *(BITS if scene["counter"] and scene.values.get("ladder") != "halves" else ()),
        ),
        say=f"Dimension {j} belongs to no pair"
        if pair is None
        else f"Pair {pair}: wavelength {waves.length(own)}, {turns}",
        cursor=table_view.cursor(scene, table.width),
        python="\n".join([*spec_lines(scene), "posenc.wavelengths(pe)"]),
        table=lambda: _numbers(ladder.wavelengths, scene),
        paper=("counter", {"at": p}) if scene["counter"] else ("wavelengths", {"mark": scene["L"]}),
    )


def pair_axis(table: TableSource, pairs: int, pair: int | None) -> Axis:
    """The axis of pairs; a click puts the cursor on the first channel of one."""
    return cells(wavelengths.PAIRS, 0, pairs, key="j", at=pair, to=channels_of(table.spec))


def _curves(scene: Scene, table: TableSource, rows: tuple[int, int]) -> list[Panel]:
    """Small multiples: the dimension of the cursor, then five from fast to slow."""
    more: dict[str, Any] = {"params": scene.a.params, "length": rows[1]}
    data = waves.data(scene.a.spec, None, rows, pixels=scene.width, **more)
    curves = (
        waves.curve_of(table, scene["j"], rows, pixels=scene.width),
        *[curve for curve in data.curves if curve.dim != scene["j"]],
    )
    at = table.values(np.array([scene["p"]]), np.array([curve.dim for curve in curves]))[0]
    return [
        under(chart, scene["p"], to=float(y))
        for chart, y in zip(waves.panels(replace(data, curves=curves)), at, strict=True)
    ]


def _counter(scene: Scene, rows: tuple[int, int], p: int) -> list[Panel]:
    """Bits of the positions around one, each above the wave that turns as fast."""
    first = max(0, min(p - MOST_COUNTED // 2, rows[1] - MOST_COUNTED))
    last = min(first + MOST_COUNTED, max(rows[1], first + 1))
    return [
        counter.panels(counter.data(scene.a.spec, (first, last), at=p, params=scene.a.params))[0]
    ]


def _readout(lengths: np.ndarray, pair: int | None, own: float, scene: Scene) -> tuple[Block, ...]:
    length, finite = scene["L"], lengths[np.isfinite(lengths)]
    here: tuple[Block, ...] = (Heading(f"Dimension {scene['j']}"), Prose("It belongs to no pair."))
    if pair is not None:
        here = (
            Heading(f"Pair {pair}, dimension {scene['j']}"),
            Datum("Wavelength", waves.length(own)),
            Datum("Frequency", f"{number(2 * math.pi / own)} rad" if own else "0"),
            Datum(f"Turns within {whole(length)}", number(length / own, 3) if own else "0"),
        )
    return (
        *here,
        Heading("All pairs"),
        Datum("Shortest", waves.length(float(finite.min())) if len(finite) else "none turns"),
        Datum("Longest", waves.length(float(finite.max())) if len(finite) else "none turns"),
        Datum(
            "No full turn",
            count((lengths > length).sum(), len(lengths)),
            "pairs longer than the positions shown",
        ),
        Datum("Under 8 positions", count((lengths < 8).sum(), len(lengths))),
        Prose(
            "Fast pairs tell neighbours apart, slow pairs tell far places apart. The fast end is "
            + ("on the left." if len(lengths) < 2 or lengths[0] <= lengths[-1] else "on the right.")
        ),
    )


def _numbers(lengths: np.ndarray, scene: Scene) -> dict[str, object]:
    pairs = plural(len(lengths), "pair")
    return {
        "caption": f"{scene.a.label}: the first {min(20, len(lengths))} of {pairs}",
        "columns": ["pair", "turns per position", "wavelength"],
        "rows": [
            [str(i), signed(1 / x, 6) if math.isfinite(x) else "0", waves.length(float(x))]
            for i, x in enumerate(lengths[:20].tolist())
        ],
    }
