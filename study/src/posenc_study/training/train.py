"""Training and testing of one cell of the study.

Everything random is a function of the seed: weights by their names, batches and drawn positions by
the step. So all encodings of a seed begin with the same weights and see the same batches, and a
cell that is trained again, anywhere on one kind of machine, gives the same bits.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

from posenc_study.cell import Cell
from posenc_study.model.transformer import Transformer
from posenc_study.tasks.base import IGNORED, Batch
from posenc_study.tasks.extension import Extension64
from posenc_study.training.extension import compared
from posenc_study.training.run import Run
from posenc_study.training.saved import save as write

RECENT = 20  # steps whose loss is averaged in the end
TESTED = 2**31  # steps of training are below it, so drawn positions of tests are others
EXPLODED = 1e4  # nats per token


@dataclass(frozen=True)
class Outcome:
    """What training and testing a cell gave.

    Parameters
    ----------
    rows : list of dict
        `{"metric", "bucket", "length", "value"}`, one for each metric and bucket of lengths; empty
        where training diverged.
    seconds : float
        Of training and testing.
    steps : int
        Steps that were made.
    final_loss : float
        Mean of the last steps, nats per token; NaN or infinite where training diverged.
    parameters : int
        Number of weights, those of encodings included.
    verdict : {"finished", "diverged"}
        Whether the loss stayed finite.
    """

    rows: list[dict[str, Any]]
    seconds: float
    steps: int
    final_loss: float
    parameters: int
    verdict: Literal["finished", "diverged"] = "finished"


def train(cell: Cell, *, save: Path | None = None, data: Path | None = None) -> Outcome:
    """Train and test one cell, with one thread.

    AdamW, a rate that rises to its peak and falls to 0 as a cosine, gradients clipped, no dropout.
    """
    begun = time.perf_counter()
    with _one_thread():
        run = Run(cell, data)
        losses = _trained(run)
        recent = losses[-RECENT:]
        final = math.fsum(recent) / len(recent) if all(map(math.isfinite, recent)) else math.nan
        good = math.isfinite(final) and final < EXPLODED
        rows = _tested(run) if good else []
        if good and "tuning" in run.task.settings:
            rows += _tuned(run)
        if good and isinstance(run.task, Extension64):
            rows += compared(run)
        if save is not None:
            write(run, save)
    count = sum(p.numel() for p in run.model.parameters())
    seconds = time.perf_counter() - begun
    verdict: Literal["finished", "diverged"] = "finished" if good else "diverged"
    return Outcome(rows, seconds, len(losses), final, count, verdict)


def _trained(run: Run) -> list[float]:
    """The loss of each step; the last is not finite where training diverged."""
    settings = run.task.settings
    steps, peak = int(settings["steps"]), float(settings["rate"])
    return _descend(run, run.model, lambda step: run.task.batch(run.cell.seed, step), (steps, peak))


def _descend(
    run: Run, model: Transformer, batches: Callable[[int], Batch], course: tuple[int, float]
) -> list[float]:
    """Make some steps with a peak rate: the course."""
    settings, (steps, peak) = run.task.settings, course
    warmup = int(settings["warmup"])
    optimiser = torch.optim.AdamW(
        _groups(model, float(settings["decay"])), lr=peak, betas=(0.9, 0.98)
    )
    clip, losses = float(settings["clip"]), []
    model.train()
    for step in range(steps):
        batch = run.placed(batches(step), step)
        loss = _loss(model, batch)
        losses.append(loss.item())
        if not math.isfinite(losses[-1]):
            break
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        for group in optimiser.param_groups:
            group["lr"] = peak * _schedule(step, steps, warmup)
        optimiser.step()
    return losses


def _groups(model: Transformer, decay: float) -> list[dict[str, Any]]:
    """Matrices decay; gains, shifts and what encodings learn do not."""
    from posenc.torch.learned import LearnedModule

    kept = {id(p) for m in model.modules() if isinstance(m, LearnedModule) for p in m.parameters()}
    parameters = list(model.parameters())
    matrices = [p for p in parameters if p.ndim == 2 and id(p) not in kept]
    chosen = set(map(id, matrices))
    rest = [p for p in parameters if id(p) not in chosen]
    return [{"params": matrices, "weight_decay": decay}, {"params": rest, "weight_decay": 0.0}]


def _schedule(step: int, steps: int, warmup: int) -> float:
    rising = (step + 1) / max(1, min(warmup, steps))
    return min(1.0, rising) * 0.5 * (1 + math.cos(math.pi * step / steps))


def _loss(model: Transformer, batch: Batch) -> Tensor:
    logits = model(batch.target, batch.source)
    return functional.cross_entropy(
        logits.flatten(0, 1), batch.answers.flatten(), ignore_index=IGNORED
    )


@torch.no_grad()
def _tested(run: Run) -> list[dict[str, Any]]:
    """A row for each bucket and metric. In float64, where no answer hangs on a rounding."""
    run.model.double().eval()
    rows = []
    for test in run.task.tests():
        values: dict[str, list[Tensor]] = defaultdict(list)
        for number, batch in enumerate(test.batches):
            placed = run.placed(batch, TESTED + test.length + number)
            model = run.model_at(batch.target.ids.shape[1])
            for metric, numbers in run.task.score(
                model(placed.target, placed.source), batch
            ).items():
                values[metric].append(numbers)
        for metric, parts in values.items():
            value = torch.cat(parts).mean().item()
            rows.append(
                {"metric": metric, "bucket": test.bucket, "length": test.length, "value": value}
            )
    run.model.float()
    return rows


def _tuned(run: Run) -> list[dict[str, Any]]:
    """The last bucket again, after some steps at its length."""
    settings, last = run.task.settings, max(run.task.factors)
    longer = round(last * run.task.length)
    steps = int(settings["tuning"])
    model = run.model_at(run.task.span(longer))
    first = int(settings["steps"])
    count = max(1, int(settings["batch"]) * run.task.length // longer)

    def batches(step: int) -> Batch:
        rng = run.task.rng(run.cell.seed, first + step)
        return run.task.draw_longer(rng, count, longer)

    _descend(run, model, batches, (steps, float(settings["tuning_rate"])))
    trained, run.model = run.model, model
    rows = [row for row in _tested(run) if row["length"] == longer]
    run.model = trained
    return [{**row, "metric": f"{row['metric']}-tuned"} for row in rows]


@contextmanager
def _one_thread() -> Iterator[None]:
    """Sums in one order, and as many cells beside each other as there are cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
