"""Addition of whole numbers, digit by digit, the last digit first.

    3 1 4 + 2 8 = 2 4 3        314 + 28 = 342, both summands and the sum as usual but for the sum's
                               order: the digit that the carry starts from is said first

The length of an example is the number of digits of its longer summand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from posenc_study.model.inputs import Tokens
from posenc_study.tasks.base import IGNORED, Batch, Scalar, Task, padded

TOKENS = ("·", "[", "+", "=", "]", *"0123456789")
BEGIN, PLUS, EQUAL, END, ZERO = 1, 2, 3, 4, 5


class Addition(Task):
    """Two numbers and their sum, by a decoder."""

    name = "addition"
    words = "the sum of two numbers, the last digit first"
    defaults: ClassVar[Mapping[str, Scalar]] = {
        "length": 4,
        "layers": 3,
        "steps": 1500,
        "batch": 64,
        "rate": 0.003,
        "factors": "1 1.5 2",
    }

    @property
    def tokens(self) -> Sequence[str]:
        """Digits and marks."""
        return TOKENS

    def span(self, length: int) -> int:
        """Two summands, a sum that may be a digit longer, and three marks."""
        return 3 * length + 4

    def draw(self, rng: np.random.Generator, count: int, length: int | None) -> Batch:
        """Sums whose longer summand has the length, and the other any up to it."""
        inputs, asked = [], []
        for _ in range(count):
            longer = int(rng.integers(1, self.length + 1)) if length is None else length
            shorter = int(rng.integers(1, longer + 1))
            pair = [_number(rng, longer), _number(rng, shorter)]
            a, b = pair if rng.random() < 0.5 else pair[::-1]
            question = [BEGIN, *_digits(a), PLUS, *_digits(b), EQUAL]
            answer = _digits(a + b)[::-1]
            inputs.append([*question, *answer])
            asked.append([*[IGNORED] * (len(question) - 1), *answer, END])
        return Batch(Tokens(padded(inputs)), padded(asked, IGNORED))


def _number(rng: np.random.Generator, digits: int) -> int:
    """A number of so many digits, which may be more than an int64 has."""
    figures = rng.integers(0, 10, digits).tolist()
    figures[0] = max(1, figures[0]) if digits > 1 else figures[0]
    return int("".join(map(str, figures)))


def _digits(number: int) -> list[int]:
    return [ZERO + int(digit) for digit in str(number)]
