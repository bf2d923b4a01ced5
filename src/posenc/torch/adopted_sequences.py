"""Rotary modules of models that take no positions: they count the tokens of their input."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from posenc.torch.adopted import AdoptedRotary, CosSinForm, unhooked


class SequenceRotary(nn.Module):
    """A rotary module that is called with hidden states alone, as one that takes positions.

    It counts the tokens of (batch, sequence, channels) from 0, and returns cosines and sines behind
    each other, (2, sequence, 1, 1, channels), or angles, (1, sequence, channels).
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = unhooked(module)
        own = vars(self.module)
        # It may remember the last sequence, whose dtype may be another.
        own.update({name: None for name, value in own.items() if isinstance(value, Tensor)})

    def answer(self, x: Tensor, count: int) -> Tensor:
        """What it says of so many tokens; `ValueError` where it does not count them."""
        answer = copy.copy(self.module)(x.new_zeros(1, count, 1))
        shape = tuple(answer.shape[:-1]) if isinstance(answer, Tensor) else type(answer).__name__
        if shape not in ((2, count, 1, 1), (1, count)):
            raise ValueError(f"{shape} for {count} tokens")
        return answer

    def forward(self, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines at positions."""
        answer = self.answer(x, int(position_ids.max()) + 1)
        cos, sin = (answer.cos(), answer.sin()) if answer.ndim == 3 else answer[:, None, :, 0, 0]
        return cos[0, position_ids], sin[0, position_ids]


class AdoptedSequence(AdoptedRotary):
    """The same for a module that counts the tokens of its input itself, in the form of that one."""

    def __init__(
        self,
        asked: SequenceRotary,
        original: Any,
        forms: Mapping[str | None, CosSinForm],
        *more: Any,
    ) -> None:
        super().__init__(original, forms, *more)
        self._is_angle = asked.answer(torch.zeros(1), 2).ndim == 3

    def forward(self, hidden_states: Tensor) -> Tensor:  # type: ignore[override]
        """Cosines and sines of a sequence that begins at 0, or its angles."""
        places = torch.arange(hidden_states.shape[1], device=hidden_states.device)
        cos, sin = super().forward(hidden_states, places)
        # Angles from -π to π: farther ones in float32 would be off.
        return (
            torch.atan2(sin, cos)[None]
            if self._is_angle
            else torch.stack((cos, sin))[:, :, None, None]
        )
