"""The cells that a run of the study trains, and where."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from posenc_study.commands.options import bar, need

if TYPE_CHECKING:
    from posenc_study.cell import Cell
    from posenc_study.engine import Cluster, Local, Summary


def place_of(workers: int | None, cluster: str | None, file: Path | None) -> Local | Cluster:
    """Where cells run: workers of this machine, or those of a cluster."""
    from posenc_study.engine import Cluster, Local, cpus

    if sum(option is not None for option in (workers, cluster, file)) > 1:
        raise click.UsageError("--workers, --cluster or --scheduler-file: one of them.")
    if cluster is not None or file is not None:
        need("distributed")
        return Cluster(cluster or "", file)
    return Local(workers or cpus())


def cells_of(tier: str, narrowing: Any, data: Path | None) -> list[Cell]:
    """The cells of a tier, on a file of the caller where one is named."""
    from posenc_study.grid import cells

    if data is None:
        return cells(tier, narrowing)
    from posenc_study.tasks import TASKS
    from posenc_study.tasks.files import digest

    reading = [name for name, task in TASKS.items() if task.reads]
    if not narrowing.tasks or set(narrowing.tasks) - set(reading):
        raise click.UsageError(f"--data: name the task that reads it, --tasks {reading[0]}.")
    settings = {**narrowing.settings, "data": digest(data)}
    return cells(tier, dataclasses.replace(narrowing, settings=settings))


def run_on(
    wanted: list[Cell], path: Path, place: Local | Cluster, retries: int, data: Path | None
) -> Summary:
    """Train what the store does not have; an interrupted run says how to go on."""
    from posenc_study.engine import run_cells
    from posenc_study.grid import cost
    from posenc_study.results.provenance import of_others, provenance
    from posenc_study.results.store import Store
    from posenc_study.training.run import Run
    from posenc_study.training.train import train

    finished, command = 0, shlex.join(["posenc", *sys.argv[1:]])
    made = {**provenance(), **of_others(wanted, partial(Run, data=data)), "command": command}
    with Store(path, made) as store:
        have = store.finished()
        pending = [cell for cell in wanted if cell.key not in have]
        try:
            with bar(pending, cost) as seen:
                return run_cells(
                    wanted,
                    store,
                    workers=place,
                    train=train if data is None else partial(train, data=data.resolve()),
                    retries=retries,
                    seen=seen,
                    say=lambda text: click.echo(f"\n{text}", err=True),
                )
        except BaseException:
            finished = len(store.finished() & {cell.key for cell in wanted})
            done = f"{finished} of {len(wanted)} cells are finished and in {path}."
            hint = f"{done} Run the same command again to train the others."
            click.echo(f"\n{hint}", err=True)
            raise
