"""Rotation: what a rotation does to a query and a key, pair by pair."""

from __future__ import annotations

import numpy as np

from posenc.plot.panels.axes import cells, float32, values
from posenc.plot.panels.grammar import Chart, Dial, Dials, Series
from posenc.plot.panels.text import number, spread, thin, whole
from posenc.plot.views.rotation import RotationView


def panels(data: RotationView, front: int | None = None) -> tuple[Dials, Chart, Chart]:
    """Dials of some pairs, what each pair adds, and the score against the distance."""
    return _dials(data, front), _terms(data), _scores(data)


def _dials(data: RotationView, front: int | None) -> Dials:
    m, n = map(whole, data.positions)
    dials = tuple(
        Dial(
            f"pair {d.pair}",
            ((*d.query, 0, f"q at {m}"), (*d.key, 1, f"k at {n}")),
            f"wavelength {number(d.wavelength, 3)}; adds {number(d.term, 3)}",
            d.trail.astype(np.float32),
            chosen=d.pair == front,
        )
        for d in data.dials
    )
    return Dials(
        "dials",
        f"where each pair has turned to: the query at {m}, the key at {n}",
        dials,
        caption="Move the query's position and both turn together: the angle between them stays.",
    )


def _terms(data: RotationView) -> Chart:
    pairs = len(data.terms)
    low, high = spread(min(float(data.terms.min()), 0.0), max(float(data.terms.max()), 0.0))
    return Chart(
        id="terms",
        title=f"q · k = {number(data.score)}: what each pair adds",
        x=cells("pair", 0, pairs, key="j"),
        y=values("", low, high),
        series=(Series("term", np.arange(pairs) + 0.5, float32(data.terms), draw="bars"),),
        height=130,
        label="What each pair adds to the product of query and key",
    )


def _scores(data: RotationView) -> Chart:
    everything = np.concatenate([s.values for s in data.scores])
    low, high = spread(float(everything.min()), float(everything.max()))
    places = data.offsets.astype(np.float64)
    return Chart(
        id="scores",
        title="the score against the distance",
        x=values("query − key", places[0], places[-1], most=8),
        y=values("", low, high),
        series=tuple(
            Series(thin(s.label), places, float32(s.values), n, front=n == 0)
            for n, s in enumerate(data.scores)
        ),
        caption=thin(data.caption[-1]) if len(data.scores) > 1 else "",
        height=210,
        label="The score of one query and one key against their distance",
    )
