"""A cell of the study with its task, its encoding and its model."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import torch

from posenc import positions
from posenc_study.cell import Cell
from posenc_study.model.encodings import Encoding, encoding
from posenc_study.model.fitting import FittedSizes
from posenc_study.model.inputs import Tokens
from posenc_study.model.transformer import Transformer
from posenc_study.tasks import task
from posenc_study.tasks.base import Batch, Task


@dataclass
class Run:
    """A cell made ready: its task, its encoding and its model.

    Parameters
    ----------
    cell : Cell
        What is trained.
    data : Path, optional
        A file in place of the one that comes with the task.

    Raises
    ------
    ArgumentError
        If the task, the encoding or a setting is unknown or impossible.
    DataError
        If the file is not what the task reads.

    Examples
    --------
    >>> from posenc_study.cell import Cell
    >>> from posenc_study.training.run import Run
    >>> run = Run(Cell.of("order", "alibi", seed=0, settings={"width": 16, "hidden": 32}))
    >>> sum(p.numel() for p in run.model.parameters())
    4960
    """

    cell: Cell
    data: Path | None = None
    task: Task = field(init=False)
    encoding: Encoding = field(init=False)
    sizes: FittedSizes = field(init=False)
    model: Transformer = field(init=False)

    def __post_init__(self) -> None:
        self.task = task(self.cell.task)(dict(self.cell.settings), self.data)
        self.encoding = encoding(self.cell.encoding)
        shape = self.task.shape
        self.sizes = FittedSizes(
            width=shape.width,
            heads=shape.heads,
            layers=shape.layers,
            length=self.task.span(self.task.length),
            longest=self.task.longest,
            base=float(self.task.settings["base"]),
        )
        self.model = Transformer(shape, self.encoding.scheme(self.sizes), seed=self.cell.seed)

    def model_at(self, length: int) -> Transformer:
        """The trained model for a test with sequences of some length."""
        if self.encoding.stretched is None or length <= self.sizes.length:
            return self.model
        scheme = self.encoding.scheme(self.sizes, at=length)
        model = Transformer(self.task.shape, scheme, seed=self.cell.seed)
        model.load_state_dict(self.model.state_dict())
        return model.to(next(self.model.parameters()).dtype)

    def placed(self, batch: Batch, step: int) -> Batch:
        """The batch at its positions: drawn where the encoding says so, counted by default."""
        drawn = self.model.scheme.drawn
        if drawn is None:
            return batch

        def at(tokens: Tokens, side: int) -> Tokens:
            length = tokens.ids.shape[1]
            indices = positions.randomised(self.cell.seed, step, side, length, maximum=drawn)
            return Tokens(tokens.ids, torch.from_numpy(indices), tokens.seen)

        source = None if batch.source is None else at(batch.source, 1)
        return Batch(at(batch.target, 0), batch.answers, source)
