"""Callables that encode no position, each of which somebody once handed over by mistake."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

NUMBERS = np.random.default_rng(8)
STATE = {"calls": 0}


def layer_norm(x: Any, eps: float = 1e-5) -> Any:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)


def softmax(x: Any, axis: int = -1) -> Any:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def attention(q: Any, k: Any, v: Any) -> Any:
    return softmax(q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1])) @ v


def digest(x: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(x).tobytes()).hexdigest()


def tokenize(text: str) -> list[int]:
    return [len(word) for word in text.split()]


def read(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")


def noise(x: Any) -> Any:
    return x + NUMBERS.normal(size=np.shape(x))


def dropout(x: Any, p: float = 0.5) -> Any:
    return np.where(NUMBERS.random(np.shape(x)) < p, 0.0, x) / (1 - p)


def projection(x: Any) -> Any:
    """Equal rows come out unlike by a rounding, as of some products of matrices in float32."""
    weight = np.random.default_rng(0).normal(size=(np.shape(x)[-1],) * 2) / 8
    rows = np.arange(np.shape(x)[-2])[:, None]
    return np.float32(x @ weight) * np.float32(1 + 2.0**-22 * (rows % 3))


def coarse_projection(x: Any, positions: Any) -> Any:
    """Equal rows come out unlike by as much as half precision rounds."""
    return projection(x) * np.float32(1 + 2.0**-11 * (np.arange(np.shape(x)[-2])[:, None] % 3))


def relu(x: Any) -> Any:
    return np.maximum(x, 0)


def cumsum(x: Any, positions: Any = None) -> Any:
    return np.cumsum(x, axis=-2)


def no_such_luck(x: Any, positions: Any) -> Any:
    raise RuntimeError("no such luck")


def nothing(x: Any, positions: Any) -> None:
    np.sin(x)


def sleeps(x: Any, positions: Any) -> Any:
    time.sleep(0.5)
    return x


def counts(x: Any, positions: Any) -> Any:
    total = 0.0
    for number in range(400_000):
        total += number
    return x * 1.0


def prints(x: Any, positions: Any) -> Any:
    print("tokens:", np.shape(x))
    return x


def scale_by_length(x: Any, seq_len: int = 1) -> Any:
    return x * np.log(np.shape(x)[-2] + 1)


def remembers(x: Any, positions: Any) -> Any:
    STATE["calls"] += 1
    return x + STATE["calls"]


def causal_mask(size: int) -> Any:
    return np.where(np.tril(np.ones((size, size))) > 0, 0.0, -np.inf)


def words(x: Any, positions: Any) -> str:
    return f"{np.shape(x)} at {positions!r}"


def reverse(x: Any) -> Any:
    return np.flip(x, axis=-2)


def add(a: Any, b: Any) -> Any:
    return a + b


def not_numbers(x: Any, positions: Any) -> Any:
    return np.full(np.shape(x), np.nan)


def leaves(x: Any, positions: Any) -> Any:
    raise SystemExit(0)


def no_arguments() -> float:
    return time.time()


class Linear:
    """A layer with weights."""

    def __init__(self, width: int = 64) -> None:
        self.weight = np.random.default_rng(2).normal(size=(width, width))

    def __call__(self, x: Any) -> Any:
        return x @ self.weight


class Empty:
    """Nothing that can be called."""


NOT_ENCODINGS: dict[str, Callable[..., Any] | Any] = {
    "layer norm": layer_norm,
    "softmax": softmax,
    "attention": attention,
    "a hash": digest,
    "a tokenizer": tokenize,
    "a reader of files": read,
    "noise": noise,
    "dropout": dropout,
    "relu": relu,
    "a projection": projection,
    "a projection in half precision": coarse_projection,
    "cumsum": cumsum,
    "raises": no_such_luck,
    "returns None": nothing,
    "prints and returns its input": prints,
    "scales by the length": scale_by_length,
    "remembers": remembers,
    "a causal mask": causal_mask,
    "returns text": words,
    "reverses": reverse,
    "adds": add,
    "not a number": not_numbers,
    "no arguments": no_arguments,
    "a linear layer": Linear(),
    "a class that cannot be called": Empty,
    "a number": 3,
    "a module": math,
    "text": "rotate",
    "None": None,
}


SLOW: dict[str, Any] = {"sleeps": sleeps, "takes long": counts}


def of_torch() -> dict[str, Any]:
    """The same over torch."""
    import torch
    from torch import nn

    return {
        "LayerNorm": nn.LayerNorm(64),
        "Linear": nn.Linear(64, 64),
        "Dropout": nn.Dropout(0.5),
        "MultiheadAttention": nn.MultiheadAttention(64, 4, batch_first=True),
        "attention": torch.nn.functional.scaled_dot_product_attention,
        "GRU": nn.GRU(64, 64, batch_first=True),
        "Conv1d": nn.Conv1d(64, 64, 3, padding=1),
        "gelu": torch.nn.functional.gelu,
        "randn_like": torch.randn_like,
        "a layer": nn.TransformerEncoderLayer(64, 4, batch_first=True),
    }
