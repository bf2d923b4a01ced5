"""One of the two things that `diff` compares."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from posenc.detect.contract.asked import Asked
from posenc.detect.contract.contract import Part

__all__ = ["Side"]


class Side(NamedTuple):
    """One of the two things that are compared."""

    name: str
    parts: tuple[Part, ...] = ()  # what it describes
    whole: bool = True  # whether what it does not describe is absent
    answers: Callable[[Part], Asked] | None = None  # numbers, for a part that the other describes
    remarks: tuple[str, ...] = ()

    @property
    def describes(self) -> bool:
        """Whether it has specs."""
        return self.answers is None
