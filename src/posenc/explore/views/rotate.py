"""Rotate: what a rotation does to a query and a key, pair by pair."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from posenc.explore.snippets import params_of, spec_lines
from posenc.explore.state.catalogue import kept
from posenc.explore.state.entry import HeadsFile
from posenc.explore.state.fields import Option, choice, integer
from posenc.explore.state.scene import Page, Scene, ViewShape
from posenc.plot.columns import channels_of, pairs_of_rotation, some_of, width_of
from posenc.plot.panels.grammar import (
    Block,
    Chart,
    Datum,
    Heading,
    Mark,
    Panel,
    Paragraphs,
    Prose,
    Series,
    cells,
    float32,
    stops,
    under,
    values,
)
from posenc.plot.panels.text import number, plural, present, signed, whole
from posenc.plot.views import rotation

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
    dead=lambda scene: () if rotation.other_layout(scene.a.spec) else ("mix",),
    first=("m", "off", "pairing"),
)
MOST_DIALS = 8


def show(scene: Scene) -> Page:
    """Dials of query and key, the terms of their product, and the product against the distance."""
    spec: Any = scene.a.spec
    m = scene["m"]
    n = min(max(m - scene["off"], 0), FARTHEST)
    pairs = pairs_of_rotation(spec).pair
    pair, heads = int(pairs[scene["j"]]), scene.session.heads
    k = m - n
    data: rotation.RotationView = kept(
        rotation.data,
        scene.a,
        (m, n),
        pairs=some_of(spec.pairs, MOST_DIALS, pair),
        # They hold the distance of query and key.
        offsets=(k - FAR // 2, k + FAR // 2)
        if abs(k) >= FAR
        else (min(k, 0), max(NEAR, 1 << max(k, 0).bit_length())),
        seed=scene["seed"],
        length=max(m, n) + 1,
    )
    after = (
        "the same score, as only the distance counts"
        if data.stays
        else f"{number(data.moved)}; the place counts too"
    )
    return Page(
        lead=(
            f"A query at {whole(m)} and a key at {whole(n)}: their product is a sum over "
            f"{plural(len(data.terms), 'pair')}. Both moved by {whole(data.shift)}: {after}."
        ),
        panels=present(
            *_panels(data, scene, pair, channels_of(spec)),
            use_panel(heads, spec, pair) if heads is not None else None,
        ),
        readout=_readout(
            data,
            next(d for d in data.dials if d.pair == pair),
            Datum(
                "Channels",
                " and ".join(map(str, spec.channels.channels(2 * spec.pairs)[pair])),
                f"of the last {width_of(spec)} of the head"
                if spec.channels.part == "trailing"
                else "",
            ),
            m,
            n,
        ),
        say=f"Query at {whole(m)}, key at {whole(n)}: score {number(data.score)}; pair {pair} adds "
        f"{number(float(data.terms[pair]))}",
        cursor={
            "x": stops("j", scene["j"], 0, len(pairs) - 1),
            "y": stops("m", m, 0, FARTHEST),
        },
        python="\n".join(
            [
                "from posenc.plot.views import rotation",
                *spec_lines(scene, "rope"),
                f"found = rotation.data(rope, {(m, n)}, seed={scene['seed']}{params_of(scene)})",
                "found.score, found.terms",
            ]
        ),
        table={
            "caption": "what the first pairs add",
            "columns": ["pair", "term"],
            "rows": [[str(i), signed(float(x), 6)] for i, x in enumerate(data.terms[:20])],
        },
        paper=("rotation", {"positions": (m, n), "seed": scene["seed"]}),
    )


def _panels(
    data: rotation.RotationView, scene: Scene, pair: int, channels: np.ndarray
) -> Iterator[Panel]:
    """The panels of the picture; a click on a dial or a bar puts the cursor on its pair."""
    k, alone = data.positions[0] - data.positions[1], scene["mix"] == "own"
    dials, *arcs, terms, scores = rotation.panels(
        replace(data, scores=data.scores[:1]) if alone else data, pair
    )
    here = zip(data.dials, dials.dials, strict=True)
    yield replace(
        dials,
        dials=tuple((replace(dial, key="j", value=str(int(channels[d.pair]))) for d, dial in here)),
    )
    yield from arcs
    yield under(replace(terms, x=replace(terms.x, to=channels)), pair)
    scores = replace(scores, x=replace(scores.x, key="off"))
    yield under(scores, k, to=data.score) if (data.offsets[0] <= k <= data.offsets[-1]) else scores


def _readout(
    data: rotation.RotationView, dial: rotation.PairDial, channels: Datum, m: int, n: int
) -> tuple[Block, ...]:
    return (
        Heading(f"Query at {whole(m)}, key at {whole(n)}"),
        Datum("q · k", signed(data.score, 6)),
        Datum(f"both {whole(data.shift)} later", signed(data.moved, 6)),
        Datum("Distance", whole(m - n)),
        Heading(f"Pair {dial.pair}"),
        channels,
        Datum("Adds", signed(float(data.terms[dial.pair]), 6)),
        Datum("The distance turns q from k by", f"{signed(dial.between, 4)} rad"),
        Datum("In turns", signed(dial.between / (2 * math.pi), 4)),
        Prose(
            "Query and key are random numbers of the seed. A model trained with one layout of "
            "pairs and run with the other gets the mixed curves."
        ),
    )


# --- the heads of a file --------------------------------------------------------------------------


def use_of_pairs(q: np.ndarray, k: np.ndarray, spec: Any) -> np.ndarray | None:
    """The mean of |q| |k| over all words, of each head and pair: the most that a score can get.

    A score is the sum over pairs of |q| |k| cos(angle between them + frequency x distance), so a
    pair with a small product hardly tells distances, however fast it turns.
    """
    pair = pairs_of_rotation(spec).pair
    if q.shape[-1] < len(pair):
        return None
    own = slice(len(pair)) if spec.channels.part == "leading" else slice(-len(pair), None)
    members = pair[:, None] == np.arange(spec.pairs)
    of_q, of_k = (np.sqrt(side[..., own] ** 2 @ members).mean(axis=1) for side in (q, k))
    return np.asarray(of_q * of_k)


def use_panel(heads: HeadsFile, spec: Any, chosen: int) -> Chart | Paragraphs:
    """The use of each pair, the mean of the heads with the least and the largest of them."""
    use, drawn = use_of_pairs(heads.q, heads.k, spec), heads.q.shape[1]
    if use is None:
        wide, turn = (plural(n, "channel") for n in (heads.q.shape[2], 2 * spec.pairs))
        why = f"{wide}, and {turn} turn here: choose a smaller head size d."
        return Paragraphs("use", "use of pairs", (f"Heads of {heads.name} have {why}",))
    mean, places = use.mean(axis=0), np.arange(use.shape[1]) + 0.5
    rest = heads.q.shape[2] - 2 * spec.pairs
    words = f"the first {drawn} words of {whole(heads.total)}" if heads.total > drawn else "words"
    low, high = float32(use.min(axis=0)), float32(use.max(axis=0))
    return Chart(
        id="use",
        title=f"|q| |k| of each pair, {plural(len(use), 'head')} of {heads.name}",
        x=cells("pair", 0, use.shape[1], key="j", at=chosen, to=channels_of(spec)),
        y=values("", 0.0, (float(use.max()) or 1.0) * 1.05),
        series=(Series("mean of heads", places, float32(mean), lo=low, hi=high),),
        marks=(Mark("point", chosen + 0.5, to=float(mean[chosen]), style="point"),),
        caption=f"The most that a pair can add to q · k, on average over {words}; the band runs "
        f"from the least head to the largest. Here {number(float(mean[chosen]))}."
        + (f" {plural(rest, 'channel')} of the heads do not turn here." if rest else ""),
        height=170,
        label="Product of the lengths of query and key in each pair",
    )
