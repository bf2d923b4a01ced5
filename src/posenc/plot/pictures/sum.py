"""Sum: embedding, encoding and input, token by token."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from posenc.plot import palette
from posenc.plot.panels.axes import cells, words
from posenc.plot.panels.grammar import Heatmap, Matrix
from posenc.plot.panels.text import number
from posenc.plot.views.sum import SumView


def panels(data: SumView) -> tuple[Matrix]:
    """The three parts one below the other, on one scale."""
    return (Matrix("sum", "", tuple(_parts(data)), across=1),)


def _parts(data: SumView) -> Iterator[Heatmap]:
    named = "embedding" if data.scale == 1 else f"embedding × {data.scale:.4g}"
    whole = "= input" if data.total.shape[1] == data.scaled.shape[1] else "side by side: input"
    parts = ((named, data.scaled), ("+ encoding", data.encoding), (whole, data.total))
    names = tuple(f"{token[:10]} {data.offset + n}" for n, token in enumerate(data.tokens))
    tokens = words("", names)
    for name, rows in parts:
        yield Heatmap(
            id=name,
            title=name,
            tile=palette.indices(rows, data.limit),
            lut="diverging",
            x=cells("dimension", 0, rows.shape[1]),
            y=tokens,
            low=number(-data.limit),
            high=number(data.limit),
            values=np.asarray(rows),
            limit=data.limit,
        )
