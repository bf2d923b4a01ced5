"""The laws of biases, from their numbers alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc.testing._laws import (
    Found,
    largest,
)
from posenc.testing.lab import LONG, Lab, law


@law("shift", "a bias depends on the distance alone", "bias")
def shift_bias(lab: Lab) -> Found:
    """b(m + s, n + s) = b(m, n)."""
    places = np.arange(120)
    whole = lab.bias(places, places)
    bound = 1e-6 * largest(whole)
    return lab.same(whole[:, 100:, 100:], whole[:, :20, :20], bound, shift=100)


@law("history", "an answer does not depend on the calls before it", "bias")
def history_bias(lab: Lab) -> Found:
    """Short, long, short again."""
    target = lab.subject.build()
    few = np.arange(6)

    def ask() -> np.ndarray:
        return lab.bias(few, few, target=target)

    def other(many: int) -> None:
        keys = np.arange(many)
        lab.bias(keys if many < 1000 else keys[-1:], keys, target=target)

    calls = "6 tokens, {} tokens, 6 tokens"
    return lab.unmoved(ask(), ask, other, (40, 700, 133_000), calls, least=40)


@law("long", "the bias of the last query of up to 133,000 tokens is that of its distances", "bias")
def long_bias(lab: Lab) -> Found:
    """A row of a short sequence is the end of that of a long one."""
    short = np.arange(60)
    expected = lab.bias(short[-1:], short)

    def ask(length: int) -> np.ndarray:
        keys = np.arange(length)
        return lab.bias(keys[-1:], keys)

    length, received = lab.longest(ask, LONG)
    bound = 1e-6 * max(1.0, largest(expected))
    last = received[..., -60:]
    # A bias that counts keys, as a causal softmax allows, differs by a number for each head.
    last = last - (last[..., -1:] - expected[..., -1:])
    return lab.same(last, expected, max(bound, 1e-6 * largest(received)), length=length)


@law("rows", "each row of a batch has positions of its own", "bias")
def rows_bias(lab: Lab) -> Found:
    """As with left padding."""
    q = np.array([[0, 1, 2], [7, 8, 9], [0, 0, 1]])
    received = lab.bias(q, q)
    alone = np.stack([lab.bias(row, row) for row in q])
    return lab.same(received, alone, 1e-6 * largest(alone), positions=q)


def _beside_spec(lab: Lab, q: np.ndarray, k: np.ndarray, **case: Any) -> Found:
    expected = lab.truth(q, k)
    return lab.same(lab.bias(q, k), expected, 1e-6 * max(1.0, largest(expected)), **case)


@law("head counts", "1, 2, 3, 8, 12, 20 and 71 heads have the slopes of the spec", "bias")
def head_counts(lab: Lab) -> Found:
    """Counts that are no power of two are where recipes differ."""
    q = k = np.arange(9)
    counts = (1, 2, 3, 8, 12, 20, 71)
    return max(_beside_spec(lab.at(heads=count), q, k, heads=count) for count in counts)
