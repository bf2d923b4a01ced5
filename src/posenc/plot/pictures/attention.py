"""Attention: what each word of a sentence looks at, on one scale from 0 to 1."""

from __future__ import annotations

import numpy as np

from posenc.plot import palette
from posenc.plot.panels.axes import words
from posenc.plot.panels.grammar import Heatmap
from posenc.plot.panels.text import number, signed
from posenc.plot.views.attention import AttentionView

LONGEST = 9  # letters of a word
MOST_NUMBERS = 16  # words up to which the numbers stand in the cells


def short(word: str) -> str:
    """A word, cut where it is long."""
    return word if len(word) <= LONGEST else f"{word[: LONGEST - 1]}…"


def panels(data: AttentionView) -> tuple[Heatmap]:
    """The grid of queries and keys, with the numbers in its cells."""
    shares = data.softmax == "rows"
    values = np.where(np.isfinite(data.scores), data.weights if shares else data.scores, np.nan)
    missing, limit = ~np.isfinite(values), data.limit
    names = tuple(map(short, data.words))
    few = len(names) <= MOST_NUMBERS
    return (
        Heatmap(
            id="attention",
            title="",
            tile=palette.shares(values, limit) if shares else palette.indices(values, limit),
            lut="sequential" if shares else "diverging",
            x=words("key", names),
            y=words("query", names),
            low="0" if shares else number(-limit, 3),
            high=number(limit, 3),
            mask=missing.astype(np.uint8) if missing.any() else None,
            numbers=tuple(tuple(map(_written, row)) for row in values.tolist()) if few else (),
            values=values,
            limit=limit,
        ),
    )


def _written(value: float) -> str:
    return signed(value, 2) if np.isfinite(value) else ""
