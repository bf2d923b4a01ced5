"""Remember the last thing written (Liu et al. 2023, arXiv:2306.00946).

    w 1  i 0  i 1  r 1  i 0  w 0  r 0        write, ignore, read

Each instruction is followed by a bit; the bit after a read is that of the last write. It is found
by content and order together: however many lie between, it is the nearest write that counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import torch

from posenc._core.errors import ArgumentError, mismatch
from posenc_study.model.inputs import Tokens
from posenc_study.tasks.base import IGNORED, Batch, Scalar, Task

TOKENS = ("·", "w", "i", "r", "0", "1")
WRITE, IGNORE, READ, ZERO = 1, 2, 3, 4


class FlipFlop(Task):
    """A memory of one bit, by a decoder. The length is the number of instructions."""

    name = "flip-flop"
    words = "the bit that was written last"
    defaults: ClassVar[Mapping[str, Scalar]] = {
        "length": 32,
        "layers": 2,
        "steps": 600,
        "rate": 0.003,
        "ignored": 0.8,
    }

    def prepare(self, data: object) -> None:
        """Check the share of instructions to ignore."""
        del data
        if not 0 <= float(self.settings["ignored"]) < 1:
            expected = "a share from 0 to below 1"
            received = self.settings["ignored"]
            raise ArgumentError(mismatch(f"Task {self.name}: ignored", expected, received))

    @property
    def tokens(self) -> Sequence[str]:
        """Instructions and bits."""
        return TOKENS

    def span(self, length: int) -> int:
        """An instruction and a bit each, but for the last bit, which is the answer."""
        return 2 * length - 1

    def draw(self, rng: np.random.Generator, count: int, length: int | None) -> Batch:
        """Sequences that begin with a write and end with a read."""
        number = self.length if length is None else length
        ignored = float(self.settings["ignored"])
        shares = [(1 - ignored) / 2, ignored, (1 - ignored) / 2]
        does = rng.choice([WRITE, IGNORE, READ], (count, number), p=shares)
        does[:, 0], does[:, -1] = WRITE, READ
        bits = rng.integers(0, 2, (count, number))
        # The place of the last write so far, at each instruction.
        last = np.maximum.accumulate(np.where(does == WRITE, np.arange(number), 0), axis=1)
        bits = np.where(does == READ, np.take_along_axis(bits, last, axis=1), bits)
        whole = np.stack([does, bits + ZERO], axis=2).reshape(count, 2 * number)
        asked = np.where(whole[:, :-1] == READ, whole[:, 1:], IGNORED)
        inputs = torch.from_numpy(np.ascontiguousarray(whole[:, :-1], np.int64))
        return Batch(Tokens(inputs), torch.from_numpy(asked.astype(np.int64)))
