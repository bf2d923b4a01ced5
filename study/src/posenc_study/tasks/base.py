"""What a task of the study is: sequences, questions about them, and lengths to test.

Batches are a function of the task, its settings, the seed and the step alone, so that all encodings
see the same ones. Tests are the same for all seeds. Token 0 is padding everywhere.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from posenc._core.errors import ArgumentError, mismatch, suggest
from posenc_study.model.inputs import Shape, Tokens

Scalar = int | float | str | bool

PAD = 0
IGNORED = -100  # in answers: nothing is asked here

COMMON: dict[str, Scalar] = {
    "steps": 1000,
    "batch": 32,
    "width": 64,
    "heads": 4,
    "layers": 2,
    "hidden": 256,
    "norm": "pre",
    "rate": 0.002,
    "warmup": 50,
    "decay": 0.01,
    "clip": 1.0,
    "base": 10_000.0,
    "factors": "1 1.5 2 4",
    "examples": 96,
}

# Apart from every seed that a batch of training can have.
TESTS = 2**32


@dataclass(frozen=True)
class Batch:
    """Sequences and what is asked about them.

    Parameters
    ----------
    target : Tokens
        What the model reads, or what its decoder does.
    answers : Tensor
        (batch, seq) int64: the right token at each place, `IGNORED` where nothing is asked.
    source : Tokens, optional
        What an encoder reads beside a decoder.
    """

    target: Tokens
    answers: Tensor
    source: Tokens | None = None


@dataclass(frozen=True)
class Test:
    """Examples of a bucket of lengths.

    Parameters
    ----------
    bucket : str
        Such as "1.5L".
    length : int
        The middle of its lengths.
    batches : tuple of Batch
        One for each length.
    """

    bucket: str
    length: int
    batches: tuple[Batch, ...]


class Task(ABC):
    """A task with its settings.

    Parameters
    ----------
    settings : mapping
        Hyper-parameters by name; those that are left out have the defaults.
    data : Path, optional
        A file in place of the one that comes with the task, for tasks that read one.

    Raises
    ------
    ArgumentError
        If a setting is unknown or impossible, or a task without a file is given one.
    DataError
        If the file is not what the task reads.
    """

    name: ClassVar[str]
    words: ClassVar[str]
    metric: ClassVar[str] = "accuracy"  # the one to look at first
    stacks: ClassVar[Any] = "decoder"
    defaults: ClassVar[Mapping[str, Scalar]]

    def __init__(self, settings: Mapping[str, Scalar] = {}, data: Path | None = None) -> None:
        self.settings = self.complete(settings)
        self.length = self._whole("length")
        if data is not None and not self.reads:
            todo = "Leave it out."
            raise ArgumentError(mismatch(f"Task {self.name}: data", "no file", str(data), todo))
        self.prepare(data)

    # --- what a task says

    reads: ClassVar[bool] = False

    def prepare(self, data: Path | None) -> None:  # noqa: B027
        """Read the file, and check what the settings ask for; by default there is nothing to do."""

    @property
    @abstractmethod
    def tokens(self) -> Sequence[str]:
        """The text of each token."""

    @abstractmethod
    def draw(self, rng: np.random.Generator, count: int, length: int | None) -> Batch:
        """Some examples, of one length or, in training, of any that is trained."""

    def draw_longer(self, rng: np.random.Generator, count: int, length: int) -> Batch:
        """Examples for a further training at a length that was not trained."""
        return self.draw(rng, count, length)

    @abstractmethod
    def span(self, length: int) -> int:
        """Tokens of the longest sequence in an example of some length."""

    # --- what follows

    @classmethod
    def complete(cls, settings: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """The settings with all defaults, checked for names and types."""
        kinds = {**COMMON, **cls.defaults}
        for name, value in settings.items():
            if name not in kinds:
                todo = suggest(name, kinds)
                expected = f"settings of the task {cls.name}"
                raise ArgumentError(mismatch("Task", expected, repr(name), todo))
            kind = type(kinds[name])
            if not (type(value) is kind or (kind is float and type(value) is int)):
                expected = f"of type {kind.__name__}, such as {kinds[name]!r}"
                raise ArgumentError(mismatch(f"Task {cls.name}: {name}", expected, repr(value)))
        merged = {**kinds, **settings}
        return {name: float(v) if type(kinds[name]) is float else v for name, v in merged.items()}

    @property
    def shape(self) -> Shape:
        """The sizes of the model."""
        numbers = {n: self._whole(n) for n in ("width", "heads", "layers", "hidden")}
        norm: Any = self.settings["norm"]
        return Shape(self.stacks, len(self.tokens), norm=norm, **numbers)

    @property
    def factors(self) -> tuple[float, ...]:
        """Tested lengths as multiples of the trained one."""
        text = str(self.settings["factors"])
        try:
            factors = tuple(float(part) for part in text.split())
        except ValueError:
            factors = ()
        if not factors or min(factors) < 1 or max(factors) > 64:
            expected = "multiples of the trained length from 1 to 64, such as '1 1.5 2 4'"
            raise ArgumentError(mismatch(f"Task {self.name}: factors", expected, repr(text)))
        return factors

    def lengths(self, factor: float) -> tuple[int, ...]:
        """The lengths of a bucket: around its middle, but none beyond L that was trained on."""
        middle = round(factor * self.length)
        near = middle // 8
        if factor == 1:
            return tuple(sorted({max(1, middle - near), middle}))
        return tuple(sorted({middle - near, middle, middle + near}))

    @property
    def longest(self) -> int:
        """Tokens of the longest sequence that is trained or tested."""
        return max(self.span(n) for factor in self.factors for n in self.lengths(factor))

    def batch(self, seed: int, step: int) -> Batch:
        """What is trained on in a step."""
        return self.draw(self.rng(seed, step), self._whole("batch"), None)

    def tests(self) -> Iterator[Test]:
        """The examples of each bucket."""
        for factor in self.factors:
            lengths = self.lengths(factor)
            count = max(1, self._whole("examples") // len(lengths))
            batches = tuple(self.draw(self.rng(TESTS, n), count, n) for n in lengths)
            yield Test(f"{factor:g}L", round(factor * self.length), batches)

    def score(self, logits: Tensor, batch: Batch) -> dict[str, Tensor]:
        """Metrics of a batch: a value for each thing that is counted, to be averaged.

        `accuracy` for each token asked for, `exact` for each sequence that is right throughout,
        `nats`, the negative log-likelihood of each token.
        """
        asked = batch.answers != IGNORED
        right = (logits.argmax(-1) == batch.answers) | ~asked
        nats = functional.cross_entropy(
            logits.transpose(1, 2), batch.answers, ignore_index=IGNORED, reduction="none"
        )
        return {
            "accuracy": right[asked].double(),
            "exact": right.all(dim=1).double(),
            "nats": nats[asked].double(),
        }

    def rng(self, seed: int, step: int) -> np.random.Generator:
        """Where the chance of a step comes from, the same on every machine."""
        digest = hashlib.sha256(f"{self.name}/{seed}/{step}".encode()).digest()
        return np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:16], "big")))

    def _whole(self, name: str) -> int:
        value = self.settings[name]
        if not isinstance(value, int) or value < 1:
            expected = "a whole number of at least 1"
            raise ArgumentError(mismatch(f"Task {self.name}: {name}", expected, repr(value)))
        return value


def padded(rows: Sequence[Sequence[int]], fill: int = PAD) -> Tensor:
    """Sequences of tokens as a rectangle, with padding on the right."""
    width = max(len(row) for row in rows)
    out = np.full((len(rows), width), fill, np.int64)
    for i, row in enumerate(rows):
        out[i, : len(row)] = row
    return torch.from_numpy(out)
