"""What a Transformer is made from and called with: sizes, plans, tokens, and what it keeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from posenc import Plan
from posenc._core.errors import ArgumentError, mismatch

Stacks = Literal["encoder", "decoder", "encoder-decoder"]


@dataclass(frozen=True)
class Shape:
    """The sizes of a model.

    Parameters
    ----------
    stacks : {"encoder", "decoder", "encoder-decoder"}
        Which halves of the Transformer there are.
    vocabulary : int
        Number of tokens, shared by source and target; the output weights are the embeddings.
    width, heads, layers : int
        Width of the model, heads of each attention, layers of each stack.
    hidden : int
        Width of the perceptrons.
    norm : {"pre", "post"}
        Whether the input of a sublayer is normalised, or the sum after it, as in the paper.

    Raises
    ------
    ArgumentError
        If a number is below 1, or the heads do not divide the width.

    Examples
    --------
    >>> from posenc_study.model.transformer import Shape
    >>> Shape("decoder", vocabulary=100, width=64, heads=4, layers=2, hidden=256).head_dim
    16
    """

    stacks: Stacks
    vocabulary: int
    width: int
    heads: int
    layers: int
    hidden: int
    norm: Literal["pre", "post"] = "pre"

    def __post_init__(self) -> None:
        for name in ("vocabulary", "width", "heads", "layers", "hidden"):
            if getattr(self, name) < 1:
                raise ArgumentError(mismatch(f"Shape: {name}", "at least 1", getattr(self, name)))
        if self.width % self.heads:
            expected = f"a number that divides the width {self.width}"
            raise ArgumentError(mismatch("Shape: heads", expected, self.heads))
        for name, choices in (
            ("stacks", ("encoder", "decoder", "encoder-decoder")),
            ("norm", ("pre", "post")),
        ):
            if getattr(self, name) not in choices:
                raise ArgumentError(
                    mismatch(f"Shape: {name}", f"one of {choices}", getattr(self, name))
                )

    @property
    def head_dim(self) -> int:
        """Width of a head."""
        return self.width // self.heads


@dataclass(frozen=True)
class Scheme:
    """What a model knows of positions: a plan for each stack.

    Parameters
    ----------
    encoder, decoder : Plan
        Of the stacks; one that the model has not is not read.
    drawn : int, optional
        Positions are drawn from this many, rising, instead of counted (`positions.randomised`).
    reach : int
        What positions are divided by for tables that take real coordinates.
    """

    encoder: Plan
    decoder: Plan
    drawn: int | None = None
    reach: int = 1


@dataclass(frozen=True)
class Tokens:
    """Sequences of tokens and where they stand.

    Parameters
    ----------
    ids : Tensor
        (batch, seq) int64.
    at : Tensor, optional
        Positions, (seq,) or (batch, seq) integers; 0, 1, … by default.
    seen : Tensor, optional
        (batch, seq) boolean, false for padding; all true by default.
    """

    ids: Tensor
    at: Tensor | None = None
    seen: Tensor | None = None

    def positions(self) -> Tensor:
        """The positions, counted where none were given."""
        if self.at is not None:
            return self.at
        return torch.arange(self.ids.shape[1], device=self.ids.device)


class Cache:
    """Keys and values of the tokens so far, for each layer, before positions touch them.

    Keys that are stored before they are turned serve every kind of encoding, and positions may
    still change when the sequence grows; the price is turning all of them at every step.
    """

    def __init__(self) -> None:
        self.at: Tensor | None = None
        self.seen: Tensor | None = None
        self.layers: dict[int, tuple[Tensor, Tensor]] = {}

    def extend(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of a layer with new ones (batch, heads, new, dim) behind them."""
        if layer in self.layers:
            old_k, old_v = self.layers[layer]
            k, v = torch.cat([old_k, k], dim=2), torch.cat([old_v, v], dim=2)
        self.layers[layer] = (k, v)
        return k, v

    def place(self, at: Tensor, seen: Tensor | None, batch: int) -> tuple[Tensor, Tensor | None]:
        """Positions of all keys, and which of them are seen, with those of new tokens."""
        if self.at is not None:
            if self.seen is not None or seen is not None:
                old = _ones(self.seen, batch, self.at)
                seen = torch.cat([old, _ones(seen, batch, at)], dim=1)
            rows = max(self.at.ndim, at.ndim) - 1  # positions of each sequence, or of all
            at = torch.cat([side.expand(*[batch] * rows, -1) for side in (self.at, at)], dim=-1)
        self.at, self.seen = at, seen
        return at, seen

    def select(self, rows: Tensor) -> None:
        """Keep some sequences, in a new order: those that a beam search goes on with."""
        self.layers = {i: (k[rows], v[rows]) for i, (k, v) in self.layers.items()}
        if self.at is not None and self.at.ndim > 1:
            self.at = self.at[rows]
        if self.seen is not None:
            self.seen = self.seen[rows]


def _ones(seen: Tensor | None, batch: int, at: Tensor) -> Tensor:
    shape = (batch, at.shape[-1])
    return torch.ones(shape, dtype=torch.bool, device=at.device) if seen is None else seen


@dataclass(frozen=True)
class Memory:
    """What the encoder made of the source: (batch, seq, width), and which of it is no padding."""

    values: Tensor
    seen: Tensor | None

    def select(self, rows: Tensor) -> Memory:
        """Some of the sequences."""
        return Memory(self.values[rows], None if self.seen is None else self.seen[rows])
