"""Which pairs of a rotation the queries and keys of a file use: |q| |k|, pair by pair."""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc.explore.state.session import HeadsFile
from posenc.plot.columns import channels_of, pairs_of
from posenc.plot.panels.axes import cells, float32, values
from posenc.plot.panels.grammar import Chart, Mark, Paragraphs, Series
from posenc.plot.panels.text import number, plural, whole


def use_of_pairs(q: np.ndarray, k: np.ndarray, spec: Any) -> np.ndarray | None:
    """The mean of |q| |k| over all words, of each head and pair: the most that a score can get.

    A score is the sum over pairs of |q| |k| cos(angle between them + frequency x distance), so a
    pair with a small product hardly tells distances, however fast it turns.
    """
    layout = pairs_of(spec)
    assert layout is not None  # noqa: S101 - a rotation has pairs
    pair = layout.pair
    if q.shape[-1] < len(pair):
        return None
    own = slice(len(pair)) if spec.channels.part == "leading" else slice(-len(pair), None)

    def size(side: np.ndarray) -> np.ndarray:
        squares = side[..., own] ** 2 @ (pair[:, None] == np.arange(spec.pairs))
        return np.asarray(np.sqrt(squares).mean(axis=1))

    return size(q) * size(k)


def _words(heads: HeadsFile) -> str:
    drawn = heads.q.shape[1]
    return f"the first {drawn} words of {whole(heads.total)}" if heads.total > drawn else "words"


def panel(heads: HeadsFile, spec: Any, chosen: int) -> Chart | Paragraphs:
    """The use of each pair, the mean of the heads with the least and the largest of them."""
    use = use_of_pairs(heads.q, heads.k, spec)
    if use is None:
        sentence = f"Heads of {heads.name} have {plural(heads.q.shape[2], 'channel')}, and "
        sentence += f"{plural(2 * spec.pairs, 'channel')} turn here: choose a smaller head size d."
        return Paragraphs("use", "use of pairs", (sentence,))
    mean, places = use.mean(axis=0), np.arange(use.shape[1]) + 0.5
    most = float(use.max()) or 1.0
    rest = heads.q.shape[2] - 2 * spec.pairs
    return Chart(
        id="use",
        title=f"|q| |k| of each pair, {plural(len(use), 'head')} of {heads.name}",
        x=cells("pair", 0, use.shape[1], key="j", at=chosen, to=channels_of(spec)),
        y=values("", 0.0, most * 1.05),
        series=(
            Series(
                "mean of heads",
                places,
                float32(mean),
                lo=float32(use.min(axis=0)),
                hi=float32(use.max(axis=0)),
            ),
        ),
        marks=(Mark("point", chosen + 0.5, to=float(mean[chosen]), style="point"),),
        caption="The most that a pair can add to q · k, on average over "
        f"{_words(heads)}; the band runs from the least head to the largest. "
        f"Here {number(float(mean[chosen]))}."
        + (f" {plural(rest, 'channel')} of the heads do not turn here." if rest else ""),
        height=170,
        label="Product of the lengths of query and key in each pair",
    )
