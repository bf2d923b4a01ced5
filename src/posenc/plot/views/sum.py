"""Sum: what reaches the model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc._core.numeric.random_vectors import random_vectors
from posenc.encodings.table.base import TableSpec
from posenc.functional import add, table
from posenc.plot import palette
from posenc.plot.columns import Params, Table, check_learned
from posenc.plot.panels.grammar import Heatmap, Matrix, cells, words
from posenc.plot.panels.text import Described, brief, number, present
from posenc.plot.rows import refuse, require

MOST_TOKENS = 256
MOST_NUMBERS = 1 << 20


@dataclass(frozen=True)
class SumView(Described):
    """Embeddings, encodings, and what is added of them."""

    tokens: tuple[str, ...]
    offset: int  # position of the first
    embedding: np.ndarray
    scaled: np.ndarray
    encoding: np.ndarray
    total: np.ndarray
    scale: float
    origin: str
    limit: float
    ratio: float


def data(
    spec: Any,
    tokens: str | Sequence[str] = "the cat saw the dog",
    *,
    embeddings: np.ndarray | None = None,
    seed: int = 0,
    offset: int = 0,
    params: Params = None,
) -> SumView:
    """Embedding + encoding = input, token by token."""
    if not isinstance(spec, TableSpec) or len(spec.axes) != 1:
        refuse("sum", spec, "a table of one axis, which is added")
    check_learned(spec, params, "sum")
    words = tokens.split() if isinstance(tokens, str) else [str(t) for t in tokens]
    count = len(words)
    require(
        1 <= count <= MOST_TOKENS and count * spec.width <= MOST_NUMBERS,
        " sum: tokens",
        f"1 to {MOST_TOKENS:,} tokens, at most {MOST_NUMBERS:,} numbers",
        f"{count} of {spec.width}",
    )
    origin = f"random vectors from a hash of each token, seed {seed}; not from a model"
    if embeddings is None:
        x = random_vectors(words, spec.dim, seed).astype(np.float64)
    else:
        x, shape, origin = np.asarray(embeddings, dtype=np.float64), (count, spec.dim), "given"
        require(x.shape == shape, " sum: embeddings", f"shape {shape}", f"shape {x.shape}")
    index = np.arange(offset, offset + count)
    encoding = np.asarray(table(spec, index, params=params, dtype="float64"))
    total = np.asarray(add(spec, x, positions=index, params=params))
    scale = spec.embedding_scale
    scaled = x * scale
    size = float(np.sqrt(np.mean(scaled**2)))
    ratio = float(np.sqrt(np.mean(encoding**2))) / size if size else float("inf")
    return SumView(
        tuple(words),
        offset,
        x,
        scaled,
        encoding,
        total,
        scale,
        origin,
        max(float(np.abs(part).max()) for part in (x, scaled, encoding, total)) or 1.0,
        ratio,
        title=brief(spec),
        caption=present(
            f"Embeddings: {origin}.",
            f"Embeddings are multiplied by {number(scale)}." if scale != 1 else "",
            f"The encodings are {number(ratio, 3)} times as long as what they are added to."
            if spec.width == spec.dim
            else f"The table is appended: the input is {spec.width} wide.",
        ),
    )


def rows(data: Any) -> Table:
    """The numbers of a .csv."""
    return ["token", "place", "dimension", "embedding", "encoding", "input"], (
        [token, place, c, data.scaled[place, c], data.encoding[place, c], data.total[place, c]]
        for place, token in enumerate(data.tokens)
        for c in range(min(data.scaled.shape[1], data.encoding.shape[1]))
    )


# --- panels ---------------------------------------------------------------------------------------


def panels(data: SumView) -> tuple[Matrix]:
    """The three parts one below the other, on one scale."""
    return (Matrix("sum", "", tuple(_parts(data)), across=1),)


def _parts(data: SumView) -> Iterator[Heatmap]:
    whole = "= input" if data.total.shape[1] == data.scaled.shape[1] else "side by side: input"
    tokens = words(
        "", tuple(f"{word[:10]} {data.offset + n}" for n, word in enumerate(data.tokens))
    )
    for name, rows in {
        "embedding" if data.scale == 1 else f"embedding × {data.scale:.4g}": data.scaled,
        "+ encoding": data.encoding,
        whole: data.total,
    }.items():
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
