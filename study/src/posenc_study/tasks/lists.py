"""Tasks on lists: copy and sort with a decoder, reverse with an encoder and a decoder."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from posenc._core.errors import ArgumentError, mismatch
from posenc_study.model.inputs import Tokens
from posenc_study.tasks.base import IGNORED, PAD, Batch, Scalar, Task, padded

BEGIN, THEN, END = 1, 2, 3
SPECIAL = ("·", "[", "→", "]")


class Lists(Task):
    """A list of symbols, and another that follows from it.

    A decoder reads `[ a b c → c b a ]` and is asked for all after the arrow; an encoder-decoder
    reads the list on one side and says the other.
    """

    repeats: ClassVar[bool] = False  # whether a symbol may stand in a list twice

    @abstractmethod
    def answer(self, row: np.ndarray) -> np.ndarray:
        """The list that follows from one."""

    def prepare(self, data: object) -> None:
        """Check that there are symbols enough."""
        del data
        longest = max(n for factor in self.factors for n in self.lengths(factor))
        if not self.repeats and self._whole("symbols") < longest:
            expected = f"at least {longest}, as no symbol repeats"
            raise ArgumentError(
                mismatch(f"Task {self.name}: symbols", expected, self.settings["symbols"])
            )

    @property
    def tokens(self) -> Sequence[str]:
        """Numbers in place of symbols, after the brackets and the arrow."""
        return (*SPECIAL, *(str(i) for i in range(self._whole("symbols"))))

    def span(self, length: int) -> int:
        """Both lists with their marks, or one with its own."""
        return length + 1 if self.stacks == "encoder-decoder" else 2 * length + 2

    def draw(self, rng: np.random.Generator, count: int, length: int | None) -> Batch:
        """Lists of random symbols."""
        lists = [self.symbols(rng, length) for _ in range(count)]
        answers = [self.answer(row) for row in lists]
        if self.stacks == "encoder-decoder":
            source = padded([row.tolist() for row in lists])
            inputs = padded([[BEGIN, *row] for row in answers])
            asked = padded([[*row, END] for row in answers], IGNORED)
            return Batch(Tokens(inputs), asked, Tokens(source, seen=source != PAD))
        inputs = padded([[BEGIN, *a, THEN, *b] for a, b in zip(lists, answers, strict=True)])
        asked = padded(
            [[IGNORED] * (len(a) + 1) + [*b, END] for a, b in zip(lists, answers, strict=True)],
            IGNORED,
        )
        return Batch(Tokens(inputs), asked)

    def symbols(self, rng: np.random.Generator, length: int | None) -> np.ndarray:
        """A list of symbols, of one length or any that is trained."""
        length = int(rng.integers(1, self.length + 1)) if length is None else length
        count = self._whole("symbols")
        symbols = rng.choice(count, length, replace=self.repeats)
        return symbols + len(SPECIAL)


class Copy(Lists):
    """The same list again. No symbol repeats, so each says where the next one is to be found."""

    name = "copy"
    words = "a list of distinct symbols again"
    defaults: ClassVar[Mapping[str, Scalar]] = {
        "length": 16,
        "symbols": 72,
        "layers": 3,
        "steps": 1200,
        "rate": 0.002,
    }

    def answer(self, row: np.ndarray) -> np.ndarray:
        """The list itself."""
        return row


class Sort(Lists):
    """The symbols in the order of their numbers, some of them repeated."""

    name = "sort"
    words = "a list of numbers in order"
    repeats = True
    defaults: ClassVar[Mapping[str, Scalar]] = {
        "length": 12,
        "symbols": 32,
        "layers": 2,
        "steps": 1000,
        "rate": 0.002,
    }

    def answer(self, row: np.ndarray) -> np.ndarray:
        """The list in order."""
        return np.sort(row)


class Reverse(Lists):
    """The list from its end, by an encoder and a decoder."""

    name = "reverse"
    words = "a list from its end, by an encoder and a decoder"
    stacks = "encoder-decoder"
    repeats = True
    defaults: ClassVar[Mapping[str, Scalar]] = {
        "length": 12,
        "symbols": 24,
        "layers": 2,
        "steps": 1000,
        "rate": 0.002,
    }

    def answer(self, row: np.ndarray) -> np.ndarray:
        """The list from its end."""
        return row[::-1]
