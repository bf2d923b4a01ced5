"""Trainings that take no time; workers find them by their import."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from posenc_study.cell import Cell


@dataclass(frozen=True)
class FakeOutcome:
    rows: list[dict[str, Any]]
    seconds: float = 0.01
    steps: int = 3
    final_loss: float = 0.5
    parameters: int = 7
    extra: dict[str, Any] = field(default_factory=dict)


BUCKETS = {"L": 8, "2L": 16, "4L": 32}


def cell(seed: int = 0, encoding: str = "rope", task: str = "order", **settings: Any) -> Cell:
    return Cell.of(task, encoding, seed=seed, settings={"steps": 3, **settings})


def accuracy(cell: Cell, bucket: str) -> float:
    """A number that the cell alone decides."""
    return float(np.random.default_rng([cell.seed, len(cell.encoding), BUCKETS[bucket]]).random())


def quick(cell: Cell) -> FakeOutcome:
    rows = [
        {"metric": "accuracy", "bucket": b, "length": n, "value": accuracy(cell, b)}
        for b, n in BUCKETS.items()
    ]
    return FakeOutcome(rows)


def slow(cell: Cell) -> FakeOutcome:
    time.sleep(0.3)
    return quick(cell)


def placed(cell: Cell) -> FakeOutcome:
    """Leave the number of the process that ran it."""
    Path(cell.setting("folder"), f"{cell.seed}.pid").write_text(str(os.getpid()))
    return slow(cell)


def unfinite(cell: Cell) -> FakeOutcome:
    rows = [{"metric": "nats", "bucket": "L", "length": 8, "value": float("nan")}]
    return FakeOutcome(rows) if cell.seed == 1 else quick(cell)


def wrong(cell: Cell) -> FakeOutcome:
    if cell.seed == 1:
        raise ValueError("this cell cannot be trained")
    return quick(cell)


def deadly(cell: Cell) -> FakeOutcome:
    """Seed 1 kills its worker each time; seed 2 once, and leaves a mark where it did.

    The others take a while, so that they are out when a worker dies.
    """
    if cell.seed == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if cell.seed == 2:
        mark = Path(cell.setting("folder")) / "once"
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
    return slow(cell)
