"""What the rows of a table are made of, beside the sinusoids nearest to them: panels and facts."""

from __future__ import annotations

import functools

import numpy as np

from posenc._core.errors import PosencError
from posenc.explore.spectra import MOST_ROWS, LearnedRows, analysis
from posenc.explore.state.entry import Chosen
from posenc.explore.state.sources import held
from posenc.plot.panels.axes import cells, float32, logarithmic, values
from posenc.plot.panels.grammar import Block, Chart, Datum, Heading, Mark, Series
from posenc.plot.panels.text import number, plural, spread, whole

FEWEST = 8  # rows


@functools.lru_cache(maxsize=8)
def analysed(chosen: Chosen, rows: tuple[int, int]) -> LearnedRows:
    """Some rows of an encoding, taken apart."""
    first, last = rows
    if last - first < FEWEST:
        message = f"{chosen.label} has {plural(last - first, 'row')} here; its parts need {FEWEST}."
        raise PosencError(message)
    return analysis(held(chosen, last).rows(np.arange(first, min(last, first + MOST_ROWS))))


def panels(data: LearnedRows, first: int, p: int, j: int) -> tuple[Chart, ...]:
    """The column of the cursor and its nearest sinusoid, their shares, spectrum and components."""
    own = float(data.nearest.wavelengths[j])
    return _column(data, first, p, j), _nearest(data, j), _spectrum(data, own), _components(data)


def _column(data: LearnedRows, first: int, p: int, j: int) -> Chart:
    rows, near = data.rows[:, j], data.nearest.curve(j)
    own = float(data.nearest.wavelengths[j])
    places, inside = first + np.arange(len(rows)) + 0.5, 0 <= p - first < len(rows)
    point = (Mark("point", p + 0.5, to=float(rows[p - first]), style="point"),) if inside else ()
    return Chart(
        id="nearest-sinusoid",
        title=f"dimension {j} and its nearest sinusoid",
        x=cells("position", first, first + len(rows), key="p", at=p if inside else None),
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
        marks=point,
        place="half",
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
        place="half",
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
        place="half",
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
        place="half",
        height=130,
        label="Cumulated share of variance of the principal components",
    )


def _ninety(data: LearnedRows) -> int:
    return int(np.searchsorted(data.components, 0.9) + 1)


def facts(data: LearnedRows, j: int) -> tuple[Block, ...]:
    """How much of a dimension and of the table one sinusoid explains."""
    own, share = float(data.nearest.wavelengths[j]), float(data.nearest.shares[j])
    alone = [Datum("Nearest sinusoid", f"{number(own)} positions")] if np.isfinite(own) else []
    return (
        Heading("What it is made of"),
        *alone,
        Datum("How much it explains", f"{number(100 * share, 3)} %"),
        Datum("One sinusoid a dimension", f"{number(100 * data.nearest.explained, 3)} %"),
        Datum("Rows shuffled", f"{number(100 * data.by_chance, 3)} %"),
        Datum("Components for 90 %", whole(_ninety(data))),
    )
