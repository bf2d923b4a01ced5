"""A source whose entropy is known: what a model loses on it is exact.

A symbol depends on the two before it through a table of probabilities that is drawn once. No model
can be better than the entropy of the table, so `excess`, nats above it, has a true zero: each
symbol is scored against the probabilities that it was drawn with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from posenc_study.model.inputs import Tokens
from posenc_study.tasks.base import Batch, Scalar, Task

BEFORE = 2


class Markov(Task):
    """The next symbol of a Markov chain, by a decoder."""

    name = "markov"
    words = "the next symbol of a source of known entropy"
    metric = "excess"
    defaults: ClassVar[Mapping[str, Scalar]] = {
        "length": 64,
        "symbols": 8,
        "layers": 2,
        "steps": 800,
        "rate": 0.003,
        "factors": "1 2 4",
    }

    def prepare(self, data: object) -> None:
        """Draw the table, the same for every seed."""
        del data
        count = self._whole("symbols")
        rng = np.random.Generator(np.random.Philox(key=count))
        # Of a few likely symbols in each state: log-normal weights, far apart.
        weights = np.exp(2.0 * rng.standard_normal((count, count, count)))
        self.table = weights / weights.sum(axis=-1, keepdims=True)

    @property
    def tokens(self) -> Sequence[str]:
        """Symbols, after one for padding."""
        return ("·", *(chr(ord("a") + i) for i in range(self._whole("symbols"))))

    def span(self, length: int) -> int:
        """The number of tokens, which is that of the symbols."""
        return length

    def draw(self, rng: np.random.Generator, count: int, length: int | None) -> Batch:
        """Sequences of the chain, each from a start of its own."""
        number = (self.length if length is None else length) + 1
        rows = np.empty((count, number), np.int64)
        rows[:, :BEFORE] = rng.integers(0, len(self.table), (count, min(BEFORE, number)))
        sums = self.table.cumsum(axis=-1)
        chance = rng.random((count, number))
        for i in range(BEFORE, number):
            row = sums[rows[:, i - 2], rows[:, i - 1]]
            drawn = (row < chance[:, i, None]).sum(axis=-1)
            rows[:, i] = np.minimum(drawn, len(self.table) - 1)  # sums may end just below 1
        whole = torch.from_numpy(rows + 1)
        return Batch(Tokens(whole[:, :-1].contiguous()), whole[:, 1:].contiguous())

    def score(self, logits: Tensor, batch: Batch) -> dict[str, Tensor]:
        """The common metrics, and nats above those of the table where it knows both symbols."""
        scores = super().score(logits, batch)
        tokens = torch.cat([batch.target.ids[:, :1], batch.answers], dim=1).numpy() - 1
        best = -np.log(self.table[tokens[:, :-2], tokens[:, 1:-1], tokens[:, 2:]])
        nats = scores["nats"].view(batch.answers.shape)[:, 1:]
        return {**scores, "excess": (nats - torch.from_numpy(best)).flatten()}
