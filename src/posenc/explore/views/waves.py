"""Waves: how fast each pair turns, and a counter in binary beside it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from posenc.explore import snippets
from posenc.explore.state.fields import switch
from posenc.explore.state.scene import LENGTH, START, Page, Scene, ViewShape
from posenc.explore.state.sources import held
from posenc.explore.views import table as table_view
from posenc.plot import palette
from posenc.plot.columns import TableSource, channels_of
from posenc.plot.curves import curve_of
from posenc.plot.panels.axes import cells, logarithmic, values
from posenc.plot.panels.grammar import (
    Axis,
    Block,
    Chart,
    Fact,
    Heading,
    Mark,
    Panel,
    Prose,
    Series,
    Strip,
    Strips,
)
from posenc.plot.panels.text import count, number, plural, signed, thin, whole
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
)
MOST_COUNTED = 64  # positions of the counter


def show(scene: Scene) -> Page:
    """Wavelengths, some curves, and the counter."""
    table = held(scene.a, scene["s"] + scene["L"])
    rows = (scene["s"], scene["s"] + scene["L"])
    j, p = scene["j"], scene["p"]
    pair = table.pair_of(j)
    data = wavelengths.data(table.spec, length=scene["L"], labels=[scene.a.label])
    ladder = data.ladders[0]
    own = math.inf if pair is None else float(ladder.wavelengths[pair])
    panels: list[Panel] = [ladder_chart(ladder.wavelengths, table, pair, scene["L"], scene.a.label)]
    if scene["counter"]:
        panels.append(_counter(scene, rows, p))
    else:
        panels += _curves(scene, table, rows, j, p)
    say = f"Dimension {j} belongs to no pair"
    if pair is not None:
        say = f"Pair {pair}: wavelength {_length(own)}, {_turns(own, scene['L'])}"
    return Page(
        lead=thin(" ".join(data.caption)),
        panels=tuple(panels),
        readout=_readout(ladder.wavelengths, pair, own, scene),
        say=say,
        cursor=table_view.cursor(scene, table.width),
        python=snippets.waves(scene),
        table=lambda: _numbers(ladder.wavelengths, scene),
    )


def pair_axis(table: TableSource, pairs: int, pair: int | None) -> Axis:
    """The axis of pairs; a click puts the cursor on the first channel of one."""
    return cells("pair: fast → slow", 0, pairs, key="j", at=pair, to=channels_of(table.spec))


def ladder_chart(
    lengths: np.ndarray, table: TableSource, pair: int | None, length: int, label: str
) -> Chart:
    """The wavelength of each pair on a logarithmic axis, with the length marked."""
    finite = lengths[np.isfinite(lengths)]
    low = min(float(finite.min(initial=6.0)), length) / 1.3
    high = max(float(finite.max(initial=10.0)), length) * 1.3
    shown = np.where(np.isfinite(lengths), lengths, np.nan).astype(np.float32)
    series = Series(label, np.arange(len(lengths)) + 0.5, shown, draw="line")
    marks = [Mark("y", length, plural(length, "position"), style="solid")]
    if pair is not None and np.isfinite(lengths[pair]):
        marks.append(Mark("point", pair + 0.5, to=float(lengths[pair]), style="point"))
    unmoved = len(lengths) - len(finite)
    return Chart(
        id="wavelengths",
        title="wavelength of each pair, in positions (log)",
        x=pair_axis(table, len(lengths), pair),
        y=logarithmic("", low, high),
        series=(series,),
        marks=tuple(marks),
        caption=f"{plural(unmoved, 'pair')} never turn." if unmoved else "",
        height=260,
        label="Wavelength of each pair against the number of positions",
    )


def _curves(scene: Scene, table: TableSource, rows: tuple[int, int], j: int, p: int) -> list[Chart]:
    """Small multiples: the dimension of the cursor, then five from fast to slow."""
    chosen = waves.data(
        scene.a.spec, None, rows, pixels=scene.width, params=scene.a.params, length=rows[1]
    )
    curves = [curve_of(table, j, rows, pixels=scene.width)]
    curves += [c for c in chosen.curves if c.dim != j]
    charts = []
    for n, one in enumerate(curves):
        at = table.values(np.array([p]), np.array([one.dim]))[0, 0]
        long = f", wavelength {_length(one.wavelength)}"
        charts.append(
            Chart(
                id=f"wave-{n}",
                title=f"dimension {one.dim}: {one.label}{long}",
                x=cells("position" if n == len(curves) - 1 else "", *rows, key="p", at=p),
                y=values("", -chosen.limit, chosen.limit, most=2),
                series=(table_view.curve_series(one),),
                marks=(Mark("point", p + 0.5, to=float(at), style="point"),),
                caption=table_view.unresolved(one),
                height=72,
                label=f"Dimension {one.dim} over the positions",
            )
        )
    return charts


def _counter(scene: Scene, rows: tuple[int, int], p: int) -> Strips:
    """Bits of positions, each above the wave whose wavelength is nearest to its period."""
    first = max(0, min(p - MOST_COUNTED // 2, rows[1] - MOST_COUNTED))
    last = min(first + MOST_COUNTED, max(rows[1], first + 1))
    data = counter.data(scene.a.spec, (first, last), at=p, params=scene.a.params)
    strips: list[Strip] = []
    for bits, line, partner in zip(data.bits, data.waves, data.partners, strict=True):
        strips.append(
            Strip(
                f"bit {partner.bit}, period {whole(partner.period)}",
                palette.indices(bits.astype(np.float64) * 2 - 1),
                tuple(map(str, bits.tolist())),
                key="p",
                at=p - first if first <= p < last else None,
            )
        )
        # Without a partner the wave is no number anywhere, which has no colour.
        label = f"no wave: {partner.why}"
        if partner.pair is not None:
            label = f"pair {partner.pair}, wavelength {number(partner.wavelength)}"
        strips.append(Strip(label, palette.indices(line[:: counter.FINE][: len(bits)])))
    return Strips(
        "counter",
        f"position {whole(p)} in binary: {data.digits}",
        tuple(strips),
        "diverging",
        "0 or −1",
        "1 or +1",
        columns=tuple(whole(n) for n in range(first, last)),
        caption=thin(" ".join(data.caption)),
        first=first,
    )


def _length(wavelength: float) -> str:
    return f"{number(wavelength)} positions" if math.isfinite(wavelength) else "endless"


def _turns(wavelength: float, length: int) -> str:
    if not math.isfinite(wavelength):
        return "it never turns"
    return f"{number(length / wavelength, 3)} turns within {plural(length, 'position')}"


def _readout(lengths: np.ndarray, pair: int | None, own: float, scene: Scene) -> tuple[Block, ...]:
    length = scene["L"]
    finite = lengths[np.isfinite(lengths)]
    here: tuple[Block, ...] = (Heading(f"Dimension {scene['j']}"), Prose("It belongs to no pair."))
    if pair is not None:
        here = (
            Heading(f"Pair {pair}, dimension {scene['j']}"),
            Fact("Wavelength", _length(own)),
            Fact("Frequency", f"{number(2 * math.pi / own)} rad" if own else "0"),
            Fact(f"Turns within {whole(length)}", number(length / own, 3) if own else "0"),
        )
    return (
        *here,
        Heading("All pairs"),
        Fact("Shortest", _length(float(finite.min())) if len(finite) else "none turns"),
        Fact("Longest", _length(float(finite.max())) if len(finite) else "none turns"),
        Fact(
            "No full turn",
            count((lengths > length).sum(), len(lengths)),
            "pairs longer than the positions shown",
        ),
        Fact("Under 8 positions", count((lengths < 8).sum(), len(lengths))),
        Prose(
            "Fast pairs tell neighbours apart, slow pairs tell far places apart. The fast end is "
            + ("on the left." if len(lengths) < 2 or lengths[0] <= lengths[-1] else "on the right.")
        ),
    )


def _numbers(lengths: np.ndarray, scene: Scene) -> dict[str, object]:
    rows = [
        [str(i), signed(1 / x, 6) if math.isfinite(x) else "0", _length(float(x))]
        for i, x in enumerate(lengths[:20].tolist())
    ]
    shown = min(20, len(lengths))
    return {
        "caption": f"{scene.a.label}: the first {shown} of {plural(len(lengths), 'pair')}",
        "columns": ["pair", "turns per position", "wavelength"],
        "rows": rows,
    }


def on_paper(scene: Scene) -> tuple[str, dict[str, Any]]:
    """The picture of `posenc.plot` that shows the same, and its arguments."""
    if scene["counter"]:
        return "counter", {"at": scene["p"]}
    return "wavelengths", {"length": scene["L"]}
