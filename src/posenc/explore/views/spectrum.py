"""Spectrum: what a table of positions is made of, beside the sinusoids nearest to it."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import numpy as np

from posenc._core.errors import PosencError
from posenc.explore import snippets
from posenc.explore.spectra import MOST_ROWS, LearnedRows, analysis
from posenc.explore.state.entry import Chosen
from posenc.explore.state.scene import Page, Scene, ViewShape
from posenc.explore.state.sources import held
from posenc.plot.panels.axes import cells, float32, logarithmic, stops, under, values
from posenc.plot.panels.grammar import Block, Chart, Datum, Heading, Heatmap, Mark, Prose, Series
from posenc.plot.panels.text import number, plural, spread, whole
from posenc.plot.views import similarity

FEWEST, USUAL = 8, 128  # rows
SHAPE = ViewShape(
    "spectrum", "Spectrum", "What is a table made of?", "sinusoidal", most={"d": 4096}
)


@functools.lru_cache(maxsize=8)
def _analysed(chosen: Chosen) -> LearnedRows:
    columns = held(chosen, USUAL)
    end = USUAL if columns.end is None else columns.end
    if end < FEWEST:
        raise PosencError(f"{chosen.label} has {plural(end, 'row')}; Spectrum needs {FEWEST}.")
    return analysis(columns.rows(np.arange(min(end, MOST_ROWS))))


@functools.lru_cache(maxsize=8)
def _alike(chosen: Chosen, count: int) -> similarity.Similarity:
    return similarity.data(
        chosen.spec, count, kind="cosine", pixels=256, params=chosen.params, length=count
    )


def show(scene: Scene) -> Page:
    """Norms, spectrum, components, nearest sinusoids, and which rows are alike."""
    data = _analysed(scene.a)
    count, width = data.rows.shape
    p, j = min(scene["p"], count - 1), min(scene["j"], width - 1)
    cut = "" if count < MOST_ROWS else f"Of the first {whole(MOST_ROWS)} positions."
    own, share = float(data.nearest.wavelengths[j]), float(data.nearest.shares[j])
    whole_table = number(100 * data.nearest.explained, 3)
    say = f"Dimension {j}: {number(100 * share, 3)} % of its variance is one sinusoid"
    return Page(
        lead=f"The sinusoid nearest to each dimension explains {whole_table} % of the variance of "
        f"the table; with its rows shuffled it would be {number(100 * data.by_chance, 2)} %. "
        f"{cut}".strip(),
        panels=(
            _column(data, p, j, own),
            _nearest(data, j),
            _spectrum(data, own),
            _components(data),
            _norms(data, p),
            _similarity(_alike(scene.a, count), p),
        ),
        readout=_readout(data, p, j),
        say=say if np.isfinite(own) else f"Dimension {j} is constant",
        cursor={
            "x": stops("j", j, 0, width - 1),
            "y": stops("p", p, 0, count - 1),
        },
        python=_code(scene, count),
    )


def _column(data: LearnedRows, p: int, j: int, own: float) -> Chart:
    rows, near = data.rows[:, j], data.nearest.curve(j)
    places = np.arange(len(rows)) + 0.5
    return Chart(
        id="column",
        title=f"dimension {j} and its nearest sinusoid",
        x=cells("position", 0, len(rows), key="p", at=p),
        y=values(
            "", *spread(float(min(rows.min(), near.min())), float(max(rows.max(), near.max())))
        ),
        series=(
            Series("the table", places, float32(rows)),
            Series(
                f"wavelength {number(own)}" if np.isfinite(own) else "constant",
                places,
                float32(near),
                1,
            ),
        ),
        marks=(Mark("point", p + 0.5, to=float(rows[p]), style="point"),),
        height=150,
        label=f"Dimension {j} over the positions, and its nearest sinusoid",
    )


def _nearest(data: LearnedRows, j: int) -> Chart:
    x, y = data.nearest.wavelengths, 100 * data.nearest.shares
    known = np.isfinite(x)
    order = np.argsort(x[known])
    here = (Mark("point", float(x[j]), to=float(y[j]), style="point"),) if known[j] else ()
    return Chart(
        id="nearest",
        title="% of each dimension that one sinusoid explains",
        x=logarithmic("wavelength, positions (log)", 1.9, 2.2 * len(data.rows)),
        y=values("", 0.0, 100.0),
        series=(Series("a dimension", x[known][order], float32(y[known][order]), draw="points"),),
        marks=here,
        caption="Wavelengths from 2 positions to twice the table. Very slow ones stand for any "
        "gentle bend.",
        height=190,
        label="Share of variance that one sinusoid explains, for each dimension",
    )


def _spectrum(data: LearnedRows, own: float) -> Chart:
    x, y = data.wavelengths[::-1], 100 * data.power[::-1]
    marks = (Mark("x", own, "the dimension's"),) if 2 <= own <= x[-1] else ()
    return Chart(
        id="spectrum",
        title="spectrum: % of variance at each wavelength",
        x=logarithmic("wavelength, positions (log)", 1.9, 1.1 * len(data.rows)),
        y=values("", 0.0, float(y.max()) * 1.05 or 1.0),
        series=(Series("share", x, float32(y)),),
        marks=marks,
        caption="All dimensions together.",
        height=150,
        label="Power at each wavelength",
    )


def _components(data: LearnedRows) -> Chart:
    y = 100 * data.components
    return Chart(
        id="components",
        title="% of variance in the first components",
        x=logarithmic("principal components (log)", 0.9, 1.1 * len(y)),
        y=values("", 0.0, 105.0),
        series=(Series("share", np.arange(len(y)) + 1.0, float32(y)),),
        marks=(Mark("x", float(_ninety(data)), f"90 %: {whole(_ninety(data))}"),),
        height=130,
        label="Cumulated share of variance of the principal components",
    )


def _ninety(data: LearnedRows) -> int:
    return int(np.searchsorted(data.components, 0.9) + 1)


def _norms(data: LearnedRows, p: int) -> Chart:
    y = data.norms
    return Chart(
        id="norms",
        title="length of each row",
        x=cells("position", 0, len(y), key="p", at=p),
        y=values("", 0.0, float(y.max()) * 1.05 or 1.0),
        series=(Series("length", np.arange(len(y)) + 0.5, float32(y)),),
        marks=(Mark("point", p + 0.5, to=float(y[p]), style="point"),),
        height=130,
        label="Length of the row of each position",
    )


def _similarity(data: similarity.Similarity, p: int) -> Heatmap:
    (matrix,) = similarity.panels(data)
    return under(replace(matrix, label="Cosine of the rows of all positions"), y=p)


def _readout(data: LearnedRows, p: int, j: int) -> tuple[Block, ...]:
    own, share = float(data.nearest.wavelengths[j]), float(data.nearest.shares[j])
    near = int((data.nearest.shares >= 0.9).sum())
    alone = [Datum("Nearest sinusoid", f"{number(own)} positions")] if np.isfinite(own) else []
    return (
        Heading(f"Dimension {j}"),
        *alone,
        Datum("How much it explains", f"{number(100 * share, 3)} %"),
        Heading(f"Position {whole(p)}"),
        Datum("Length of its row", number(float(data.norms[p]))),
        Heading("The table"),
        Datum("Positions, dimensions", " × ".join(map(whole, data.rows.shape))),
        Datum("One sinusoid a dimension", f"{number(100 * data.nearest.explained, 3)} %"),
        Datum("Rows shuffled", f"{number(100 * data.by_chance, 3)} %"),
        Datum("Dimensions over 90 %", f"{whole(near)} of {whole(data.rows.shape[1])}"),
        Datum("Components for 90 %", whole(_ninety(data))),
        Prose("Each dimension has a wavelength, size and phase of its own, by least squares."),
    )


def _code(scene: Scene, count: int) -> str:
    return "\n".join(
        [
            "from posenc.explore.spectra import analysis",
            *snippets.spec_lines(scene),
            f'rows = posenc.table(pe, {count}{snippets.params_of(scene)}, dtype="float64")',
            "data = analysis(rows)",
            "data.nearest.explained, data.nearest.wavelengths",
        ]
    )


def on_paper(scene: Scene) -> tuple[str, dict[str, Any]]:
    """The plot that shows which rows are alike."""
    del scene
    return "similarity", {"kind": "cosine"}
