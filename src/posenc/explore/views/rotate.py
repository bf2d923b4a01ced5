"""Rotate: what a rotation does to a query and a key, pair by pair."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from posenc.explore import pair_use, snippets
from posenc.explore.state.entry import Chosen
from posenc.explore.state.fields import Option, choice, integer
from posenc.explore.state.scene import Page, Scene, ViewShape
from posenc.plot.columns import channels_of, pairs_of, width_of
from posenc.plot.panels.axes import stops, under
from posenc.plot.panels.grammar import (
    Block,
    Datum,
    Heading,
    Panel,
    Prose,
)
from posenc.plot.panels.text import number, plural, signed, whole
from posenc.plot.views import rotation
from posenc.plot.views.rotation import RotationView

FARTHEST = 2**31
NEAR, FAR = 64, 256  # distances of a curve, and the most
SHAPE = ViewShape(
    "rotate",
    "Rotate",
    "What does a rotation do to queries and keys?",
    "rope",
    (
        integer(
            "m", "Position of the query", 7, 0, FARTHEST, section="cursor", gently=True, plays=True
        ),
        integer(
            "off",
            "Query minus key",
            4,
            -FARTHEST,
            FARTHEST,
            section="cursor",
            gently=True,
            hint="The query's position moves both; this moves the key alone.",
        ),
        choice(
            "mix",
            "Scores against the distance",
            (
                Option("own", "one layout of pairs"),
                Option("mixed", "and layouts mixed up"),
            ),
            "mixed",
        ),
        integer("seed", "Seed of query and key", 0, 0, 2**31 - 1),
    ),
    defaults={"d": "16", "j": "2"},
    cursor=("j",),
    first=("m", "off", "pairing"),
)
MOST_DIALS = 8


def _distances(k: int) -> tuple[int, int]:
    """The distances of the curve, which holds the one of query and key."""
    if abs(k) >= FAR:
        return k - FAR // 2, k + FAR // 2
    return min(k, 0), max(NEAR, 1 << max(k, 0).bit_length())


@functools.lru_cache(maxsize=64)
def _rotation(
    chosen: Chosen, positions: tuple[int, int], pairs: tuple[int, ...], seed: int
) -> RotationView:
    return rotation.data(
        chosen.spec,
        positions,
        pairs=pairs,
        offsets=_distances(positions[0] - positions[1]),
        seed=seed,
        params=chosen.params,
        length=max(positions) + 1,
    )


def show(scene: Scene) -> Page:
    """Dials of query and key, the terms of their product, and the product against the distance."""
    spec: Any = scene.a.spec
    m = scene["m"]
    n = min(max(m - scene["off"], 0), FARTHEST)
    layout = pairs_of(spec)
    assert layout is not None  # noqa: S101 - a rotation has pairs
    channels, pair = channels_of(spec), int(layout.pair[scene["j"]])
    data = _rotation(scene.a, (m, n), _chosen(spec.pairs, pair), scene["seed"])
    panels = list(_panels(data, scene, pair, channels))
    if scene.session.heads is not None:
        panels.append(pair_use.panel(scene.session.heads, spec, pair))
    dial = next((d for d in data.dials if d.pair == pair), data.dials[0])
    say = (
        f"Query at {whole(m)}, key at {whole(n)}: score {number(data.score)}; pair {pair} adds "
        f"{number(float(data.terms[pair]))}"
    )
    return Page(
        lead=_lead(data, m, n),
        panels=tuple(panels),
        readout=_readout(data, dial.between, _members(spec, pair), m, n),
        say=say,
        cursor={
            "x": stops("j", scene["j"], 0, len(layout.pair) - 1),
            "y": stops("m", m, 0, FARTHEST),
        },
        python=snippets.rotate(scene, m, n),
        table=_numbers(data),
    )


def _chosen(pairs: int, pair: int) -> tuple[int, ...]:
    """The pairs whose dials are shown: all of a few, else from fast to slow and the cursor's."""
    if pairs <= MOST_DIALS:
        return tuple(range(pairs))
    some = np.linspace(0, pairs - 1, MOST_DIALS - 1).astype(int).tolist()
    return tuple(sorted({*some, pair}))


def _panels(data: RotationView, scene: Scene, pair: int, channels: np.ndarray) -> Iterator[Panel]:
    """The panels of the picture; a click on a dial or a bar puts the cursor on its pair."""
    k, alone = data.positions[0] - data.positions[1], scene["mix"] == "own"
    shown = replace(data, scores=data.scores[:1]) if alone else data
    dials, *arcs, terms, scores = rotation.panels(shown, pair)
    here = zip(data.dials, dials.dials, strict=True)
    keyed = (replace(dial, key="j", value=str(int(channels[d.pair]))) for d, dial in here)
    yield replace(dials, dials=tuple(keyed))
    yield from arcs
    yield under(replace(terms, x=replace(terms.x, to=channels)), pair)
    inside = data.offsets[0] <= k <= data.offsets[-1]
    scores = replace(scores, x=replace(scores.x, key="off"))
    yield under(scores, k, to=data.score) if inside else scores


def _lead(data: RotationView, m: int, n: int) -> str:
    after = "the same score, as only the distance counts"
    if not data.stays:
        after = f"{number(data.moved)}; the place counts too"
    return (
        f"A query at {whole(m)} and a key at {whole(n)}: their product is a sum over "
        f"{plural(len(data.terms), 'pair')}. Both moved by {whole(data.shift)}: {after}."
    )


def _members(spec: Any, pair: int) -> tuple[int, Datum]:
    """A pair, and the channels that form it."""
    channels = " and ".join(map(str, spec.channels.channels(2 * spec.pairs)[pair]))
    place = f"of the last {width_of(spec)} of the head" if spec.channels.part == "trailing" else ""
    return pair, Datum("Channels", channels, place)


def _readout(
    data: RotationView, between: float, members: tuple[int, Datum], m: int, n: int
) -> tuple[Block, ...]:
    pair, channels = members
    return (
        Heading(f"Query at {whole(m)}, key at {whole(n)}"),
        Datum("q · k", signed(data.score, 6)),
        Datum(f"both {whole(data.shift)} later", signed(data.moved, 6)),
        Datum("Distance", whole(m - n)),
        Heading(f"Pair {pair}"),
        channels,
        Datum("Adds", signed(float(data.terms[pair]), 6)),
        Datum("The distance turns q from k by", f"{signed(between, 4)} rad"),
        Datum("In turns", signed(between / (2 * math.pi), 4)),
        Prose(
            "Query and key are random numbers of the seed. A model trained with one layout of "
            "pairs and run with the other gets the mixed curves."
        ),
    )


def _numbers(data: RotationView) -> dict[str, Any]:
    return {
        "caption": "what the first pairs add",
        "columns": ["pair", "term"],
        "rows": [[str(i), signed(float(x), 6)] for i, x in enumerate(data.terms[:20])],
    }


def on_paper(scene: Scene) -> tuple[str, dict[str, Any]]:
    """The picture of `posenc.plot` that shows the same, and its arguments."""
    key = max(scene["m"] - scene["off"], 0)
    return "rotation", {"positions": (scene["m"], key), "seed": scene["seed"]}
