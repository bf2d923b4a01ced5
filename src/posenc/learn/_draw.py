"""Chance that is the same on every machine and in every version of Python."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Draw:
    """A stream of choices that its key alone decides.

    word[i] = SHA-256(key, i)
    """

    def __init__(self, *key: object) -> None:
        self._key = "\0".join(map(str, key)).encode()
        self._count = 0

    def below(self, n: int) -> int:
        """An integer from 0 to n - 1; the bias of the remainder is below n / 2**256."""
        self._count += 1
        word = hashlib.sha256(self._key + b"\0" + str(self._count).encode()).digest()
        return int.from_bytes(word, "big") % n

    def choice(self, items: Sequence[T]) -> T:
        """One of the items."""
        return items[self.below(len(items))]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """The items in another order."""
        left = list(items)
        return [left.pop(self.below(len(left))) for _ in items]
