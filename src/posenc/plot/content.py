"""Where the queries, keys and values of a picture come from: chance, a trained model, or a file.

Two heads of a small model come with the package, in `data/heads.npz`; `data/README.md` says how it
was trained and how they were chosen.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from posenc._core.errors import ArgumentError, mismatch
from posenc._core.random_vectors import random_vectors
from posenc.encodings.rotary.rope import RoPE
from posenc.functional import rotate

__all__ = ["HEADS", "Content", "TrainedHead", "from_arrays", "random_content", "trained_content"]

FOLDER = Path(__file__).parent / "data"
UNIT = math.sqrt(3.0)  # makes numbers that are uniform in [-1, 1) of variance 1
BEGIN, THEN, END, FIRST = 1, 2, 3, 4  # tokens of the trained model; its symbols follow
MARKS = {"[": BEGIN, "→": THEN, "]": END}

Weights = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Content:
    """What the words of a sentence bring to one head, whatever their order.

    Parameters
    ----------
    words : tuple of str
        As typed.
    inputs : numpy.ndarray
        (words, width): what the projections read.
    q, k, v : numpy.ndarray
        (words, dim): queries, keys and values before any position, float64.
    weights : tuple of numpy.ndarray
        (width, dim) each: the projections of queries, keys and values, through which a table goes.
    origin : str
        A sentence that says where the numbers are from.
    head, heads : int
        Which head of how many: what an encoding with numbers for each head is asked for.
    causal : bool
        Whether the head was trained to see no later word.
    """

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
        return int(self.weights[0].shape[0])

    def beside(self, width: int) -> Weights:
        """Random projections of columns that are appended, as large as the others.

        Parameters
        ----------
        width : int
            How many columns.
        """
        sizes = [float(np.sqrt((w**2).mean())) for w in self.weights]
        q, k, v = (
            matrix * size * math.sqrt(width)
            for matrix, size in zip(_projections(width, self.dim, "appended"), sizes, strict=True)
        )
        return q, k, v


# --- chance ---------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=16)
def _projections(width: int, dim: int, name: str) -> Weights:
    """Random matrices (width, dim) that keep variances: of queries, keys and values."""
    q, k, v = (
        random_vectors([f"{name} {side} {row}" for row in range(width)], dim, 0).astype(np.float64)
        * (UNIT / math.sqrt(width))
        for side in ("query", "key", "value")
    )
    return q, k, v


def random_content(
    words: Sequence[str], dim: int, *, width: int | None = None, head: int = 0
) -> Content:
    """Random vectors for words, and random projections, of seed 0.

    Parameters
    ----------
    words : sequence of str
        The same word brings the same numbers.
    dim : int
        Width of the head.
    width : int, optional
        Width of the vectors; that of the head by default.
    head : int
        Which of the projections.

    Returns
    -------
    Content
        Entries of variance about 1.

    Examples
    --------
    >>> from posenc.plot.content import random_content
    >>> random_content(["John", "likes", "Jane"], 16).q.shape
    (3, 16)
    """
    width = dim if width is None else width
    inputs = random_vectors(list(words), width, 0).astype(np.float64) * UNIT
    weights = _projections(width, dim, f"head {head}")
    q, k, v = (inputs @ weight for weight in weights)
    origin = "Queries and keys are random vectors of seed 0, the same for the same word."
    return Content(tuple(words), inputs, q, k, v, weights, origin, head)


# --- a trained model ------------------------------------------------------------------------------


class TrainedHead(NamedTuple):
    """A head that comes with the package.

    Parameters
    ----------
    name, label : str
        Its key, and what it is.
    layer, head : int
        Where it is in the model.
    weight : float
        The measure that it was chosen by, a mean attention weight.
    measured : str
        On what that weight lies.
    """

    name: str
    label: str
    layer: int
    head: int
    weight: float
    measured: str


class _Model(NamedTuple):
    weights: Mapping[str, np.ndarray]
    spec: Any
    about: Mapping[str, Any]


@functools.cache
def _model() -> _Model:
    with np.load(FOLDER / "heads.npz", allow_pickle=False) as stored:
        weights = {name: stored[name].astype(np.float64) for name in stored.files}
    about = json.loads((FOLDER / "heads.json").read_text(encoding="utf-8"))
    return _Model(weights, RoPE(about["dim"], pairing=about["pairing"], base=about["base"]), about)


def _described() -> dict[str, TrainedHead]:
    about = json.loads((FOLDER / "heads.json").read_text(encoding="utf-8"))
    return {row["name"]: TrainedHead(**row) for row in about["chosen"]}


HEADS: Mapping[str, TrainedHead] = _described()


def trained_content(words: Sequence[str], name: str) -> Content:
    """Queries, keys and values of a trained head.

    The model copies lists of symbols that mean nothing, so the words of a sentence stand for its
    symbols, in the order in which they first come; `[`, `→` and `]` are its own marks. Words bring
    what they have in the sentence as typed, with the rotation that the model was trained with.

    Parameters
    ----------
    words : sequence of str
        At most as many different ones as the model has symbols.
    name : str
        A key of `HEADS`.

    Returns
    -------
    Content
        In float64, from weights that are stored in float16.

    Raises
    ------
    ArgumentError
        If there is no such head, or there are too many words.

    Examples
    --------
    >>> from posenc.plot.content import trained_content
    >>> trained_content("John likes Jane".split(), "previous").q.shape
    (3, 16)
    """
    if name not in HEADS:
        raise ArgumentError(mismatch("trained_content", f"one of {sorted(HEADS)}", repr(name)))
    chosen = HEADS[name]
    weights, _, about = _model()
    symbols = {
        word: FIRST + n for n, word in enumerate(dict.fromkeys(w for w in words if w not in MARKS))
    }
    if FIRST + len(symbols) > len(weights["embedding"]):
        most = len(weights["embedding"]) - FIRST
        raise ArgumentError(mismatch("trained_content", f"{most} words at most", len(symbols)))
    ids = [BEGIN, *({**symbols, **MARKS}[word] for word in words)]
    x = weights["embedding"][ids] * math.sqrt(about["width"])
    for layer in range(chosen.layer):
        x = _layer(x, layer)
    y = _norm(x, f"{chosen.layer}.self")[1:]
    own = slice(chosen.head * about["dim"], (chosen.head + 1) * about["dim"])
    q, k, v = (
        (y @ weights[f"{chosen.layer}.{side}.weight"].T + weights[f"{chosen.layer}.{side}.bias"])[
            :, own
        ]
        for side in "qkv"
    )
    maps = tuple(weights[f"{chosen.layer}.{side}.weight"][own].T for side in "qkv")
    origin = (
        f"Queries and keys are those of {chosen.label} of a small model, which posenc trained with "
        f"RoPE to copy lists: {chosen.weight:.2f} of its attention is on {chosen.measured}. Words "
        "stand for its symbols."
    )
    return Content(
        tuple(words),
        y,
        q,
        k,
        v,
        (maps[0], maps[1], maps[2]),
        origin,
        chosen.head,
        about["heads"],
        True,
    )


def _layer(x: np.ndarray, layer: int) -> np.ndarray:
    """A layer of the model, with its own rotation and mask."""
    weights, spec, about = _model()

    def linear(y: np.ndarray, name: str) -> np.ndarray:
        return y @ weights[f"{layer}.{name}.weight"].T + weights[f"{layer}.{name}.bias"]

    def split(y: np.ndarray) -> np.ndarray:
        return y.reshape(len(y), about["heads"], -1).swapaxes(0, 1)

    y = _norm(x, f"{layer}.self")
    q, k, v = (split(linear(y, side)) for side in "qkv")
    scores = rotate(spec, q) @ rotate(spec, k).swapaxes(1, 2) / math.sqrt(about["dim"])
    scores = np.where(np.triu(np.ones(scores.shape[1:]), 1) > 0, -np.inf, scores)
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    out = powers / powers.sum(axis=-1, keepdims=True) @ v
    x = x + linear(out.swapaxes(0, 1).reshape(len(x), -1), "o")
    hidden = linear(_norm(x, f"{layer}.mlp"), "up")
    erf = np.frompyfunc(math.erf, 1, 1)
    return x + linear(hidden * 0.5 * (1 + erf(hidden / math.sqrt(2)).astype(np.float64)), "down")


def _norm(x: np.ndarray, name: str) -> np.ndarray:
    weights = _model().weights
    centred = x - x.mean(axis=-1, keepdims=True)
    sized = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)
    return sized * weights[f"{name}.norm.weight"] + weights[f"{name}.norm.bias"]


# --- a file ---------------------------------------------------------------------------------------


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

    Parameters
    ----------
    words : sequence of str
        Their tokens.
    q, k, v : numpy.ndarray
        (words, dim) of one head.
    name : str
        The file, for the sentence that says where they are from.
    head : (int, int)
        Which head, of how many.

    Returns
    -------
    Content
        In float64.
    """
    dim = q.shape[1]
    weights = (np.eye(dim), np.eye(dim), np.zeros((dim, v.shape[1])))
    origin = f"Queries and keys are those of head {head[0]} of {head[1]} in {name}."
    q, k, v = (np.asarray(side, dtype=np.float64) for side in (q, k, v))
    return Content(tuple(words), q, q, k, v, weights, origin, *head, causal=True)
