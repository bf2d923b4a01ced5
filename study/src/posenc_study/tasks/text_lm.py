"""The next character of a text.

The measure is nats per character, over whole windows and over their last 32 characters. Windows do
not overlap, so the first characters of each have little before them; long windows have fewer such
characters in proportion, and would look better for that alone. Their last characters do not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from posenc._core.errors import DataError, mismatch
from posenc_study.model.inputs import Tokens
from posenc_study.tasks.base import Batch, Scalar, Task
from posenc_study.tasks.files import FOLDER, checked, text_of

CORPUS = FOLDER / "python-reference.txt.xz"
DIGEST = "2a95af4ac93f5b719944030ce3769070ddf827d847cba42192afa8da989e5dc4"

OTHER = "\N{REPLACEMENT CHARACTER}"
CHARACTERS = 254  # kept; a text in a large script has many that hardly occur
LAST = 32


class TextLM(Task):
    """A language model of characters, on the Python reference or any text."""

    name = "text-lm"
    words = "the next character of a text"
    metric = "nats"
    reads = True
    defaults: ClassVar[Mapping[str, Scalar]] = {
        "length": 64,
        "steps": 600,
        "rate": 0.004,
        "factors": "1 1.5 2 4 8",
        "examples": 192,
        "data": DIGEST,
    }

    def prepare(self, data: Path | None) -> None:
        """Read the text; its last tenth is for tests."""
        path = data or CORPUS
        checked(path, str(self.settings["data"]), f"Task {self.name}", DIGEST)
        text = text_of(path)
        common = [character for character, _ in Counter(text).most_common(CHARACTERS)]
        if len(common) < 2:
            raise DataError(mismatch(str(path), "a text of several characters", repr(common[0])))
        self._tokens = ("·", OTHER, *sorted(common))
        number = {character: i for i, character in enumerate(self._tokens)}
        codes = np.array([number.get(character, 1) for character in text], np.int64)
        cut = len(codes) * 9 // 10
        self.train, self.held = codes[:cut], codes[cut:]
        need = max(n for factor in self.factors for n in self.lengths(factor)) + 1
        if len(self.held) < need or len(self.train) < self.length + 1:
            expected = f"at least {10 * need} characters, as the last tenth is for tests"
            todo = "Test shorter lengths, or take a longer text."
            raise DataError(mismatch(str(path), expected, len(codes), todo))

    @property
    def tokens(self) -> Sequence[str]:
        """The characters of the text, after one for what is rare."""
        return self._tokens

    def span(self, length: int) -> int:
        """The number of tokens, which is that of the characters."""
        return length

    def draw(self, rng: np.random.Generator, count: int, length: int | None) -> Batch:
        """Windows: anywhere in training; in tests, never overlapping, of the same text.

        Blocks of the longest tested length, spread evenly, are cut into windows of each length, so
        that the lengths differ in what a model sees before a character and not in the characters.
        """
        if length is None:
            return self.draw_longer(rng, count, self.length)
        block = max(n for factor in self.factors for n in self.lengths(factor))
        fitting = (len(self.held) - 1) // block
        blocks = max(1, min(fitting, self._whole("examples") * self.length // block))
        places = np.linspace(0, len(self.held) - 1 - block, blocks).round().astype(np.int64)
        starts = places[:, None] + length * np.arange(block // length)
        return _windows(self.held, starts.ravel(), length)

    def draw_longer(self, rng: np.random.Generator, count: int, length: int) -> Batch:
        """Windows of the text for training, of another length than the one that is trained."""
        starts = rng.integers(0, len(self.train) - length, count)
        return _windows(self.train, starts, length)

    def score(self, logits: Tensor, batch: Batch) -> dict[str, Tensor]:
        """Nats per character, those of the last 32 places, and accuracy."""
        scores = super().score(logits, batch)
        nats = scores["nats"].view(batch.answers.shape)
        return {"nats": scores["nats"], "nats-last": nats[:, -LAST:].flatten()} | {
            "accuracy": scores["accuracy"]
        }


def _windows(codes: np.ndarray, starts: np.ndarray, length: int) -> Batch:
    rows = torch.from_numpy(codes[starts[:, None] + np.arange(length + 1)])
    return Batch(Tokens(rows[:, :-1].contiguous()), rows[:, 1:].contiguous())
