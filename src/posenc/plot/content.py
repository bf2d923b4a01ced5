"""Where the queries, keys and values of a picture come from: chance, a trained model, or a file.

Two heads of a small model come with the package, in `data/`, with the command that trained it and
the measures by which they were chosen.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from posenc._core.errors import bad_argument
from posenc._core.numeric.random_vectors import random_vectors
from posenc.encodings.rotary.rope import RoPE
from posenc.functional import rotate

FOLDER = Path(__file__).parent / "data"
UNIT = math.sqrt(3.0)  # makes numbers that are uniform in [-1, 1) of variance 1
USUAL = 64  # width of a random head
BEGIN, FIRST = 1, 4  # tokens of the trained model; its symbols follow
INSIDE = ("rotary", "relative")  # kinds that work inside a head
MARKS = {"[": BEGIN, "→": 2, "]": 3}

Weights = tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Content:
    """What the words of a sentence bring to one head, whatever their order."""

    words: tuple[str, ...]
    inputs: np.ndarray
    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    weights: Weights
    origin: str
    head: int = 0
    heads: int = 8
    causal: bool = False

    @property
    def dim(self) -> int:
        """Width of the head."""
        return int(self.q.shape[1])

    @property
    def width(self) -> int:
        """Width of what a table is added to."""
        return len(self.weights[0])

    def beside(self, width: int) -> Weights:
        """Random projections for columns that are appended, of the size of the others."""
        return tuple(
            w * math.sqrt(size)
            for w, size in zip(
                _projections(width, self.dim, "appended"),
                [float((w**2).mean()) * width for w in self.weights],
                strict=True,
            )
        )


@functools.lru_cache(maxsize=4)  # of up to 25 MB each
def _projections(width: int, dim: int, name: str) -> Weights:
    """Random matrices (width, dim) that keep variances: of queries, keys and values."""
    scale = UNIT / math.sqrt(width)
    return tuple(
        random_vectors([f"{name} {side} {row}" for row in range(width)], dim, 0).astype(np.float64)
        * scale
        for side in ("query", "key", "value")
    )


def random_content(
    words: Sequence[str],
    dim: int,
    *,
    width: int | None = None,
    head: int = 0,
    stored: tuple[str, np.ndarray] | None = None,
) -> Content:
    """Random vectors for words, and random projections, of seed 0.

    `stored` rows of a file, which has a name, take the place of the vectors: one for each new word.
    """
    width = dim if width is None else width
    inputs = random_vectors(list(words), width, 0).astype(np.float64) * UNIT
    origin = "Queries and keys are random vectors of seed 0, the same for the same word."
    name, rows = stored or ("", inputs[:0])
    if name and rows.shape[1] != width:
        origin += (
            f" {name} is {rows.shape[1]} wide, not {width}: set d to {rows.shape[1]} to use it."
        )
    elif name:
        kinds = list(dict.fromkeys(words))
        inputs = rows[[kinds.index(word) % len(rows) for word in words]].astype(np.float64)
        origin = f"Each new word takes the next row of {name}; the head is random, of seed 0."
    weights = _projections(width, dim, f"head {head}")
    q, k, v = (_product(inputs, weight) for weight in weights)
    return Content(tuple(words), inputs, q, k, v, weights, origin, head)


def sizes_of(spec: Any) -> tuple[int, int]:
    """Widths of a random head that suits an encoding, and of what a table is added to."""
    kind = getattr(spec, "kind", "bias")
    wide = USUAL if kind == "bias" else int(spec.dim)
    return wide if kind in INSIDE else max(2, min(wide - wide % 2, USUAL)), wide


def content_of(spec: Any, words: Sequence[str], source: str | None) -> Content:
    """What words bring: of the trained head where its sizes suit the spec, else at random."""
    kind, (dim, width) = getattr(spec, "kind", ""), sizes_of(spec)
    if source is None:
        wanted = _about()["dim" if kind in INSIDE else "width"]
        source = "previous" if kind == "bias" or width == wanted else "random"
    return (
        random_content(words, dim, width=width)
        if source == "random"
        else trained_content(words, source)
    )


def from_arrays(
    words: Sequence[str],
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    name: str,
    head: tuple[int, int],
) -> Content:
    """Queries, keys and values that somebody saved, before any position.

    There are no projections, so a table is added to queries and keys as it is, and not to values.
    """
    weights = (np.eye(q.shape[1]), np.eye(q.shape[1]), np.zeros((q.shape[1], v.shape[1])))
    q, k, v = (np.asarray(side, dtype=np.float64) for side in (q, k, v))
    return Content(
        tuple(words),
        q,
        q,
        k,
        v,
        weights,
        f"Queries and keys are those of head {head[0]} of {head[1]} in {name}.",
        *head,
        causal=True,
    )


# --- a trained model ------------------------------------------------------------------------------


@functools.cache
def _about() -> dict[str, Any]:
    return dict(json.loads((FOLDER / "heads.json").read_text(encoding="utf-8")))


@functools.cache
def _weights() -> dict[str, np.ndarray]:
    with np.load(FOLDER / "heads.npz", allow_pickle=False) as stored:
        return {name: stored[name].astype(np.float64) for name in stored.files}


def trained_content(words: Sequence[str], name: str) -> Content:
    """Queries, keys and values of a trained head.

    The model copies lists of symbols that mean nothing, so the words of a sentence stand for its
    symbols, in the order in which they first come; `[`, `→` and `]` are its own marks. Words bring
    what they have in the sentence as typed, with the rotation that the model was trained with.
    """
    about, weights = _about(), _weights()
    heads = {row["name"]: row for row in about["chosen"]}
    if name not in heads:
        raise bad_argument("trained_content", f"one of {', '.join(heads)}", repr(name))
    chosen, symbols = heads[name], dict.fromkeys(word for word in words if word not in MARKS)
    most = len(weights["embedding"]) - FIRST
    if len(symbols) > most:
        raise bad_argument("trained_content", f"at most {most} different words", len(symbols))
    tokens = {**{word: FIRST + n for n, word in enumerate(symbols)}, **MARKS}
    x = weights["embedding"][[BEGIN, *(tokens[word] for word in words)]] * about["width"] ** 0.5
    layer, first = chosen["layer"], chosen["head"] * about["dim"]
    own = slice(first, first + about["dim"])
    for below in range(layer):
        x = _layer(x, below)
    inputs = _norm(x, f"{layer}.self")[1:]
    q, k, v = (_linear(inputs, f"{layer}.{side}")[:, own] for side in "qkv")
    return Content(
        tuple(words),
        inputs,
        q,
        k,
        v,
        tuple(weights[f"{layer}.{side}.weight"][own].T for side in "qkv"),
        f"Queries and keys are those of {chosen['label']} of a small model, which posenc trained "
        f"with RoPE to copy lists: {chosen['weight']:.2f} of its attention is on "
        f"{chosen['measured']}. Words stand for its symbols.",
        chosen["head"],
        about["heads"],
        causal=True,
    )


def _layer(x: np.ndarray, layer: int) -> np.ndarray:
    """A layer of the model, with its own rotation and mask."""
    about = _about()
    spec = RoPE(about["dim"], pairing=about["pairing"], base=about["base"])
    y = _norm(x, f"{layer}.self")
    q, k, v = (
        _linear(y, f"{layer}.{side}").reshape(len(y), about["heads"], -1).swapaxes(0, 1)
        for side in "qkv"
    )
    scores = rotate(spec, q) @ rotate(spec, k).swapaxes(1, 2) * about["dim"] ** -0.5
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True)) * np.tri(len(y))
    x = x + _linear(
        (powers / powers.sum(axis=-1, keepdims=True) @ v).swapaxes(0, 1).reshape(len(x), -1),
        f"{layer}.o",
    )
    hidden = _linear(_norm(x, f"{layer}.mlp"), f"{layer}.up")
    return x + _linear(
        hidden * (1 + np.vectorize(math.erf)(hidden * 0.5**0.5)) / 2, f"{layer}.down"
    )


def _linear(x: np.ndarray, name: str) -> np.ndarray:
    weights = _weights()
    return _product(x, weights[f"{name}.weight"].T) + weights[f"{name}.bias"]


def _product(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """X @ weight, row by row: at once, equal rows may be rounded by where they stand."""
    return np.stack([row @ weight for row in x])


def _norm(x: np.ndarray, name: str) -> np.ndarray:
    weights, centred = _weights(), x - x.mean(axis=-1, keepdims=True)
    sized = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)
    return sized * weights[f"{name}.norm.weight"] + weights[f"{name}.norm.bias"]
