"""Rotation: what a rotary embedding does to queries and keys."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from posenc._core.numeric.matrix import PhaseMatrix
from posenc._core.numeric.random_vectors import random_vectors
from posenc.encodings.api import Pairing, Role, RotarySpec
from posenc.functional import cos_sin, rotate
from posenc.plot.columns import Params, Table, check_learned, evenly, matrix, settled
from posenc.plot.panels.grammar import Arcs, Chart, Dial, Dials, Series, cells, float32, values
from posenc.plot.panels.text import Described, brief, number, spread, whole
from posenc.plot.raster import span
from posenc.plot.rows import refuse, require

MOST_DIALS = 12
USUAL = 6
MOST_OFFSETS = 1 << 16
TRAIL = 64  # points of a trail
SHIFT = 1000  # by which both positions are moved to show that nothing changes
MOST_ARCS = 64  # channels that have an arc


@dataclass(frozen=True)
class PairDial:
    """One pair of a query and of a key as arrows of the plane, turned to their positions."""

    pair: int
    wavelength: float
    query: tuple[float, float]
    key: tuple[float, float]
    between: float  # angle by which their distance turns the query from the key
    trail: np.ndarray  # the way of the query
    term: float
    members: tuple[int, int]  # the channels before the turn


@dataclass(frozen=True)
class Scores:
    """Scores of one query and key against their distance."""

    label: str
    base: int
    values: np.ndarray


@dataclass(frozen=True)
class RotationView(Described):
    """A query and a key turned."""

    positions: tuple[int, int]
    dials: tuple[PairDial, ...]
    terms: np.ndarray
    score: float
    moved: float
    shift: int
    offsets: np.ndarray
    scores: tuple[Scores, ...]
    channels: np.ndarray  # (pairs, 2)
    order: str

    @property
    def stays(self) -> bool:
        """Whether the score is the same where both are moved."""
        return abs(self.score - self.moved) <= 1e-9 * max(float(np.abs(self.terms).sum()), 1e-300)


def data(
    spec: Any,
    positions: tuple[int, int] = (7, 3),
    *,
    pairs: Sequence[int] | None = None,
    offsets: int | tuple[int, int] = 64,
    seed: int = 0,
    query: np.ndarray | None = None,
    key: np.ndarray | None = None,
    params: Params = None,
    length: int | None = None,
) -> RotationView:
    """Dials of some pairs, the score as a sum over pairs, and the score against the distance."""
    spec = settled(spec, length)
    if not isinstance(spec, RotarySpec) or len(spec.axes) != 1:
        refuse("rotation", spec, "a rotation of one axis")
    check_learned(spec, params, "rotation")
    first, last = span(offsets, "offsets")
    count = last - first
    require(count <= MOST_OFFSETS, " rotation: offsets", f"1 to {MOST_OFFSETS:,}", count)
    drawn = random_vectors(["query", "key"], spec.dim, seed).astype(np.float64)
    q, k = _vector("query", query, drawn[0]), _vector("key", key, drawn[1])
    m, n = int(positions[0]), int(positions[1])
    products = _turn(spec, q, m, "query", params) * _turn(spec, k, n, "key", params)
    terms = products[turned_channels(spec)].sum(axis=1)
    moved = float(
        _turn(spec, q, m + SHIFT, "query", params) @ _turn(spec, k, n + SHIFT, "key", params)
    )
    chosen = evenly(len(terms), USUAL).tolist() if pairs is None else [int(p) for p in pairs]
    require(
        1 <= len(chosen) <= MOST_DIALS and all(0 <= p < len(terms) for p in chosen),
        " rotation: pairs",
        f"1 to {MOST_DIALS:,} pairs from 0 to {len(terms) - 1}",
        chosen,
    )
    distance = np.arange(first, last)
    picture = RotationView(
        (m, n),
        _dials(spec, (q, k), (m, n), chosen, params=params),
        terms,
        float(terms.sum()),
        moved,
        SHIFT,
        distance,
        _scores(spec, q, k, distance, n, params=params),
        np.array(spec.channels.channels(2 * spec.pairs)),
        spec.channels.order,
        title=brief(spec),
        caption=(),
    )
    return replace(picture, caption=_caption(picture))


def _vector(name: str, stated: np.ndarray | None, random: np.ndarray) -> np.ndarray:
    """A vector as it was given, of the shape of the random one that stands in for it."""
    x = random if stated is None else np.asarray(stated, dtype=np.float64)
    require(
        x.shape == random.shape, f" rotation: {name}", f"shape {random.shape}", f"shape {x.shape}"
    )
    return x


def _turn(spec: Any, x: np.ndarray, at: Any, role: Role, params: Params) -> np.ndarray:
    """A vector turned to one position, or to several: (dim,) or (n, dim)."""
    positions = np.atleast_1d(np.asarray(at))
    turned = np.asarray(
        rotate(
            spec,
            np.broadcast_to(x, (spec.per_head or 1, len(positions), len(x))),
            positions=positions,
            role=role,
            params=params,
        )
    )[0]
    return turned if np.ndim(at) else turned[0]


def turned_channels(spec: Any) -> np.ndarray:
    """The channels of each pair, as they stand after the rotation."""
    own = spec.channels
    # Where each channel became a pair, the pairs stand in the output in the same order.
    return np.array(
        (own.replace(order="half") if own.output == "half" else own).channels(spec.output_dim)
    )


def _dials(
    spec: Any,
    sides: tuple[np.ndarray, np.ndarray],
    positions: tuple[int, int],
    chosen: list[int],
    *,
    params: Params,
) -> tuple[PairDial, ...]:
    (q, k), (m, n) = sides, positions
    far = m if abs(m) >= abs(n) else n
    way = np.unique(np.rint(np.linspace(0, far, min(abs(far) + 1, TRAIL))).astype(np.int64))
    pairs, members = turned_channels(spec)[chosen], spec.channels.channels(2 * spec.pairs)
    query = _turn(spec, q, m, "query", params)[pairs]
    key = _turn(spec, k, n, "key", params)[pairs]
    trail = _turn(spec, q, way, "query", params)[:, pairs]
    wavelength, angle = _wavelengths(spec), _angles(spec, positions, params)
    return tuple(
        PairDial(
            pair,
            float(wavelength[pair]) if len(wavelength) else math.nan,
            (float(query[place, 0]), float(query[place, 1])),
            (float(key[place, 0]), float(key[place, 1])),
            float(angle[pair]),
            trail[:, place],
            float(query[place] @ key[place]),
            members[pair],
        )
        for place, pair in enumerate(chosen)
    )


def _angles(spec: Any, positions: tuple[int, int], params: Params) -> np.ndarray:
    """By how much the query turns more than the key, from minus to plus half a turn."""
    sides: tuple[tuple[int, Role], ...] = ((positions[0], "query"), (positions[1], "key"))
    turns = []
    for at, role in sides:
        parts = cos_sin(spec, np.asarray([at]), role=role, dtype="float64", params=params)
        turn = np.asarray(parts[0]) + 1j * np.asarray(parts[1])
        turns.append(turn[0][0] if turn.ndim > 2 else turn[0])
    return np.asarray(np.angle(turns[0] * turns[1].conj()))


def _wavelengths(spec: Any) -> np.ndarray:
    """Of each pair; empty where pairs have none."""
    if not isinstance(getattr(spec, "matrix", None), PhaseMatrix):
        return np.zeros(0)
    f = np.abs(np.array(spec.matrix.frequencies(), dtype=object).astype(np.float64))
    with np.errstate(divide="ignore"):
        return np.asarray(2 * math.pi / f)


def _scores(
    spec: Any,
    q: np.ndarray,
    k: np.ndarray,
    distance: np.ndarray,
    base: int,
    *,
    params: Params,
) -> tuple[Scores, ...]:
    """Scores in both layouts, and of a query in one with a key in the other, at two places."""

    def scores(label: str, for_q: Any, for_k: Any, at: int = base) -> Scores:
        return Scores(
            label,
            at,
            _turn(for_q, q, at + distance, "query", params) @ _turn(for_k, k, at, "key", params),
        )

    order, other = spec.channels.order, _other(spec, spec.channels)
    own = scores(f"pairs {order}", spec, spec)
    if other is None:
        return (own,)
    name = other.channels.order
    mixed = f"query {order}, key {name}"
    return (
        own,
        scores(f"pairs {name}", other, other),
        scores(mixed, spec, other),
        scores(f"{mixed}, both {whole(SHIFT)} later", spec, other, base + SHIFT),
    )


def _other(spec: Any, pairing: Pairing) -> Any:
    """The same rotation with its pairs laid out the other way, where that can be said."""
    return (
        None
        if not isinstance(getattr(spec, "pairing", None), Pairing) or pairing.output != "same"
        else spec.replace(
            pairing=pairing.replace(order="interleaved" if pairing.order == "half" else "half")
        )
    )


def _caption(picture: RotationView) -> tuple[str, ...]:
    m, n = map(whole, picture.positions)
    after = "the same score" if picture.stays else number(picture.moved)
    pairs = len(picture.terms)
    return (
        f"Query at {m}, key at {n}: the score {number(picture.score)} is a sum over {pairs} pairs.",
        "λ: positions to a turn. Dots: where q stood before.",
        f"Both moved by {whole(picture.shift)}: {after}.",
        *(
            f"Layouts mixed: the score depends on the position too, by up to {far} at one distance."
            for far in (
                number(float(np.abs(a.values - b.values).max()), 3)
                for a, b in zip(picture.scores[2:3], picture.scores[3:], strict=True)
            )
        ),
    )


def rows(data: Any) -> Table:
    """The numbers of a .csv."""
    columns = {scores.label: scores.values for scores in data.scores}
    return matrix("offset", data.offsets, columns, np.stack([*columns.values()], axis=1))


# --- panels ---------------------------------------------------------------------------------------


def panels(
    data: RotationView, front: int | None = None
) -> tuple[Dials, *tuple[Arcs, ...], Chart, Chart]:
    """Dials of some pairs, which channels form them, what each adds, the score by distance."""
    return _dial_panel(data, front), *_arcs(data, front or 0), _terms(data), _score_chart(data)


def _arcs(data: RotationView, front: int) -> tuple[Arcs, ...]:
    """Which two channels form a pair, where those are few."""
    if data.channels.size > MOST_ARCS:
        return ()
    pairs = tuple(map(tuple, data.channels.tolist()))
    return (Arcs("arcs", f"which channels form a pair: {data.order}", pairs, front, place="half"),)


def _dial_panel(data: RotationView, front: int | None) -> Dials:
    m, n = map(whole, data.positions)
    reach = max(math.hypot(*hand) for d in data.dials for hand in (d.query, d.key)) or 1.0
    most = max(abs(d.term) for d in data.dials) or 1.0
    return Dials(
        "dials",
        f"q and k, pair by pair, turned to their positions {m} and {n}",
        tuple(_dial(d, (m, n), reach, most, chosen=d.pair == front) for d in data.dials),
        caption="Arrows: the two channels of each pair of q and of k, all on one scale. Dots: the "
        "way of q from position 0. λ: the wavelength. Pale: the shadow of q on k; times the length "
        "of k it is what the pair adds, the bar. Move both, and the angle between them stays.",
    )


def _dial(d: PairDial, at: tuple[str, str], reach: float, most: float, *, chosen: bool) -> Dial:
    """A pair with all lengths as shares of the longest."""
    q, k = np.array(d.query) / reach, np.array(d.key) / reach
    shadow = k * (q @ k) / ((k @ k) or 1.0)
    return Dial(
        f"pair {d.pair}",
        ((*q.tolist(), 0, f"q at {at[0]}"), (*k.tolist(), 1, f"k at {at[1]}")),
        f"λ = {number(d.wavelength, 3)}; adds {number(d.term, 3)}",
        float32(d.trail / reach),
        chosen=chosen,
        shadow=(round(float(shadow[0]), 4), round(float(shadow[1]), 4)),
        bar=round(d.term / most, 4),
        turn=2 * math.pi / d.wavelength,
    )


def _terms(data: RotationView) -> Chart:
    low, high = spread(min(float(data.terms.min()), 0.0), max(float(data.terms.max()), 0.0))
    return Chart(
        id="terms",
        title=f"q · k = {number(data.score)}: what each pair adds",
        x=cells("pair", 0, len(data.terms), key="j"),
        y=values("term", low, high),
        series=(
            Series("term", np.arange(len(data.terms)) + 0.5, float32(data.terms), draw="bars"),
        ),
        place="half",
        height=130,
        label="What each pair adds to the product of query and key",
    )


def _score_chart(data: RotationView) -> Chart:
    everything = np.concatenate([s.values for s in data.scores])
    low, high = spread(float(everything.min()), float(everything.max()))
    places = data.offsets.astype(np.float64)
    return Chart(
        id="scores",
        title="the score against the distance",
        x=values("query − key", places[0], places[-1], most=8),
        y=values("score", low, high),
        series=tuple(
            Series(s.label, places, float32(s.values), n, front=n == 0)
            for n, s in enumerate(data.scores)
        ),
        caption=data.caption[-1] if len(data.scores) > 1 else "",
        place="half",
        height=210,
        label="The score of one query and one key against their distance",
    )
