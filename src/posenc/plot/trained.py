"""What small models of the study left: their loss by position, and the rows that one learned.

`tools/measure/trained_losses.py` writes both files of `data/` from the committed rows of the study.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from posenc.encodings.rotary.rope import RoPE

LOSSES = Path(__file__).parent / "data" / "losses.json"
ROWS = LOSSES.with_name("learned.npz")


@dataclass(frozen=True)
class LossCurve:
    """The loss along a text, nats per character: over the seeds, one number for each stretch."""

    seeds: int
    mean: np.ndarray
    least: np.ndarray
    largest: np.ndarray


@dataclass(frozen=True)
class TrainedLosses:
    """Losses of models that read longer texts than in training, and what the models are.

    The names of `curves` are those of encodings, or of the rules that RoPE is put under after
    training; RoPE without a rule is `none`.
    """

    trained: int  # characters of a text in training
    stretch: int  # characters that one number is the mean of
    steps: int
    layers: int
    parameters: int  # of the model with RoPE
    dim: int  # of a head
    base: float
    curves: Mapping[str, LossCurve]

    @property
    def spec(self) -> RoPE:
        """The rotation of the models, without a rule."""
        return RoPE(self.dim, pairing="half", base=self.base)

    @property
    def length(self) -> int:
        """Characters of the texts that are read."""
        return self.stretch * len(self.curves["none"].mean)


@functools.cache
def trained_losses() -> TrainedLosses:
    """The losses that come with posenc."""
    stored = json.loads(LOSSES.read_text(encoding="utf-8"))
    curves = {
        name: LossCurve(
            seeds=curve.pop("seeds"),
            **{part: np.array(numbers) for part, numbers in curve.items()},
        )
        for name, curve in stored.pop("curves").items()
    }
    return TrainedLosses(**stored, curves=curves)


@functools.cache
def learned_rows() -> np.ndarray:
    """The rows that one of the models learned, (positions, width) float64, rounded to 1/32."""
    with np.load(ROWS, allow_pickle=False) as stored:
        return np.asarray(stored["weight"], dtype=np.float64)
