"""Who likes whom? "John likes Jane" and "Jane likes John" hold the same words.

    um John well likes er Jane ?    ->    John

Two distinct names, a verb, and fillers anywhere; asked at the last token is the first name. A model
that does not know the order of its words cannot do better than one answer in two. Each test holds
every sentence beside its mirror image, with the names exchanged, so that such a model, which must
answer both alike, is right in exactly half of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from posenc_study.model.inputs import Tokens
from posenc_study.tasks.base import IGNORED, PAD, Batch, Scalar, Task, padded

NAMES = "John Jane Alice Bob Carol David Eve Frank Grace Henry Irene Jack Kate Liam Mary Noah"
VERBS = "likes sees knows calls"
FILLERS = "um well er so oh ah now then"

WORDS = ("·", "?", *NAMES.split(), *VERBS.split(), *FILLERS.split())
ASK = WORDS.index("?")
NAME = np.arange(len(NAMES.split())) + 2
VERB = np.arange(len(VERBS.split())) + NAME[-1] + 1
FILLER = np.arange(len(FILLERS.split())) + VERB[-1] + 1


class Order(Task):
    """Which of two names stands first, asked of an encoder that sees all words at once."""

    name = "order"
    words = "who likes whom: the order of two names among fillers"
    stacks = "encoder"
    defaults: ClassVar[Mapping[str, Scalar]] = {
        "length": 8,
        "steps": 300,
        "batch": 64,
        "rate": 0.005,
        "examples": 384,
    }

    @property
    def tokens(self) -> Sequence[str]:
        """Words; the length of a sentence is the number of its fillers."""
        return WORDS

    def span(self, length: int) -> int:
        """Two names, a verb, the question and the fillers."""
        return length + 4

    def draw(self, rng: np.random.Generator, count: int, length: int | None) -> Batch:
        """Sentences; where a length is given, each beside its mirror image."""
        rows = []
        for _ in range(count if length is None else (count + 1) // 2):
            fillers = int(rng.integers(self.length + 1)) if length is None else length
            row = self.sentence(rng, fillers)
            rows += [row] if length is None else [row, mirrored(row)]
        ids = padded(rows)
        answers = torch.full_like(ids, IGNORED)
        for i, row in enumerate(rows):
            answers[i, len(row) - 1] = next(word for word in row if word in NAME)
        return Batch(Tokens(ids, seen=ids != PAD), answers)

    @staticmethod
    def sentence(rng: np.random.Generator, fillers: int) -> list[int]:
        """Name, verb, name and the question, with fillers between and around them."""
        first, second = rng.choice(NAME, 2, replace=False)
        row = rng.choice(FILLER, fillers + 3)
        places = np.sort(rng.choice(fillers + 3, 3, replace=False))
        row[places] = first, rng.choice(VERB), second
        return [*row.tolist(), ASK]

    def score(self, logits: Tensor, batch: Batch) -> dict[str, Tensor]:
        """The common metrics, and `apart`: whether a sentence and its image are told apart."""
        scores = super().score(logits, batch)
        asked = batch.answers != IGNORED
        answers = logits.argmax(-1)[asked].view(-1, 2)
        return {**scores, "apart": (answers[:, 0] != answers[:, 1]).double()}


class OrderCausal(Order):
    """The same, asked of a decoder: that a word sees those before it is a sense of order too."""

    name = "order-causal"
    words = "the same task for a decoder"
    stacks = "decoder"


def mirrored(row: Sequence[int]) -> list[int]:
    """The sentence with the two names exchanged."""
    out = list(row)
    i, j = (place for place, word in enumerate(row) if word in NAME)
    out[i], out[j] = out[j], out[i]
    return out
