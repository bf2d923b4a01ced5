"""Rotation: what a rotation does to a query and a key, pair by pair."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from posenc.plot.panels.axes import cells, float32, values
from posenc.plot.panels.grammar import Arcs, Chart, Dial, Dials, Series
from posenc.plot.panels.text import number, spread, thin, whole
from posenc.plot.views.rotation import PairDial, RotationView

MOST_ARCS = 64  # channels that have an arc


def panels(data: RotationView, front: int | None = None) -> tuple[Dials, Chart, Chart]:
    """Dials of some pairs, what each pair adds, and the score against the distance."""
    return _dials(data, front), _terms(data), _scores(data)


def arcs(pairs: Iterable[tuple[int, int]], front: int, order: str) -> tuple[Arcs, ...]:
    """Which two channels form a pair, where those are few."""
    several = tuple(pairs)
    title = f"which channels form a pair: {order}"
    return (Arcs("arcs", title, several, front, "j"),) if 2 * len(several) <= MOST_ARCS else ()


def _dials(data: RotationView, front: int | None) -> Dials:
    m, n = map(whole, data.positions)
    reach = max(math.hypot(*hand) for d in data.dials for hand in (d.query, d.key)) or 1.0
    most = max(abs(d.term) for d in data.dials) or 1.0
    return Dials(
        "dials",
        f"q and k, pair by pair, turned to their positions {m} and {n}",
        tuple(_dial(d, (m, n), reach, most, chosen=d.pair == front) for d in data.dials),
        caption="Arrows: the two channels of each pair of q and of k, all on one scale. Dots: the "
        "way of q from position 0. Pale: the shadow of q on k; times the length of k it is what "
        "the pair adds, the bar. Move both positions, and the angle between them stays.",
    )


def _dial(d: PairDial, at: tuple[str, str], reach: float, most: float, *, chosen: bool) -> Dial:
    """A pair with all lengths as shares of the longest."""
    q, k = np.array(d.query) / reach, np.array(d.key) / reach
    shadow = k * (q @ k) / ((k @ k) or 1.0)
    hands = ((*q.tolist(), 0, f"q at {at[0]}"), (*k.tolist(), 1, f"k at {at[1]}"))
    return Dial(
        f"pair {d.pair}",
        hands,
        f"wavelength {number(d.wavelength, 3)}; adds {number(d.term, 3)}",
        float32(d.trail / reach),
        chosen=chosen,
        shadow=(round(float(shadow[0]), 4), round(float(shadow[1]), 4)),
        bar=round(d.term / most, 4),
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
