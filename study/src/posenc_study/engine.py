"""Run cells on workers, keep what is finished, and outlive workers that die.

On this machine joblib's `loky` does it, on a cluster the client of Dask. No cell is ever run in the
driver: it dies with its cells, and would be deaf to Ctrl-C. Little is dispatched ahead, since the
workers of a cluster finish what they were given after a driver died; those of this machine end with
their driver.

An exception of a cell is its result: it would come again. A worker that dies (killed, out of
memory) is another matter. loky then aborts the whole run and names no culprit, so every cell that
was out is run again by itself; one that kills its worker again and again is recorded as failed,
and the rest go on together.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posenc._core.errors import ArgumentError, DependencyError, mismatch
from posenc._core.io import inputs
from posenc_study.cell import Cell
from posenc_study.results.records import Record, Row
from posenc_study.results.store import Store

PATIENCE = 10  # seconds until a scheduler answers
POLL = 2  # seconds between looks at the workers of a cluster, and of a worker at its driver

Train = Callable[[Cell], Any]
Say = Callable[[str], object]
Dispatch = Callable[[Iterable[Cell], Train, list[str]], "Generator[Record, None, None]"]


@dataclass(frozen=True)
class Local:
    """Processes on this machine.

    Parameters
    ----------
    workers : int
        How many, each with one thread.
    """

    workers: int

    @contextlib.contextmanager
    def dispatcher(self, say: Say) -> Iterator[Dispatch]:  # noqa: ARG002 - they are always there
        """What runs cells on them."""
        from joblib import parallel_config  # type: ignore[import-untyped]

        with parallel_config(backend="loky", inner_max_num_threads=1):
            yield self._dispatched

    def _dispatched(
        self, cells: Iterable[Cell], train: Train, out: list[str]
    ) -> Generator[Record, None, None]:
        from joblib import Parallel, delayed

        driver = os.getpid()

        def handed_over() -> Iterator[Any]:
            for cell in cells:
                out.append(cell.key)
                yield delayed(work)(cell, train, driver)

        # With one worker joblib would run the cells in this process, which then dies with them.
        parallel = Parallel(
            n_jobs=max(2, self.workers),
            batch_size=1,
            pre_dispatch=max(1, self.workers),
            return_as="generator_unordered",
        )
        records = parallel(handed_over())
        try:
            for record in records:  # noqa: UP028 - `yield from` would close it outside of the `finally`
                yield record
        finally:
            with warnings.catch_warnings():
                # It says that unfinished cells are lost, which is what leaving early means.
                warnings.simplefilter("ignore")
                records.close()


@dataclass(frozen=True)
class Cluster:
    """A Dask cluster that is running: its workers should have one thread each.

    Parameters
    ----------
    address : str
        Of the scheduler, `tcp://host:8786`; or empty.
    file : Path, optional
        What the scheduler wrote with `--scheduler-file`, in place of the address.
    """

    address: str = ""
    file: Path | None = None

    @contextlib.contextmanager
    def dispatcher(self, say: Say) -> Iterator[Dispatch]:
        """Connect, and run cells on the cluster; whoever waits for workers is told."""
        client = self._client()
        with contextlib.closing(client):
            yield functools.partial(self._dispatched, client, say)

    def _dispatched(
        self, client: Any, say: Say, cells: Iterable[Cell], train: Train, out: list[str]
    ) -> Generator[Record, None, None]:
        from distributed import wait

        left, waiting = iter(cells), False
        running: set[Any] = set()
        try:
            while True:
                try:
                    threads = sum(client.nthreads().values())
                except OSError as error:
                    what = f"nothing there any more ({str(error)[:120]})"
                    todo = "What is finished is kept: run the same command again."
                    address = client.scheduler.address
                    raise ArgumentError(
                        mismatch(address, "a Dask scheduler", what, todo)
                    ) from error
                if (not threads) != waiting:
                    waiting = not threads
                    start = f"start some: dask worker {self.address or '--scheduler-file FILE'}"
                    text = f"no workers; {start}" if waiting else f"{threads} threads of workers"
                    say(f"The cluster has {text}.")
                # Workers may come and go: as many cells are out as there are threads.
                for cell in itertools.islice(left, max(0, max(1, threads) - len(running))):
                    out.append(cell.key)
                    running.add(client.submit(work, cell, train, pure=False))
                if not running:
                    return
                with contextlib.suppress(TimeoutError):
                    wait(running, timeout=POLL, return_when="FIRST_COMPLETED")  # type: ignore[no-untyped-call]
                for future in [future for future in running if future.done()]:
                    running.remove(future)
                    yield future.result()
        finally:
            with contextlib.suppress(Exception):  # the scheduler may be gone
                client.cancel(list(running))

    def _client(self) -> Any:
        try:
            from distributed import Client
        except ImportError as error:
            todo = "Install it: pip install 'posenc-study[cluster]'"
            raise DependencyError(mismatch("a cluster", "Dask", error, todo)) from error
        address = self.address if self.file is None else _address(self.file)
        try:
            return Client(address, timeout=PATIENCE, set_as_default=True)  # type: ignore[no-untyped-call]
        except (OSError, ValueError) as error:
            what = f"nothing there ({str(error)[:120]})"
            raise ArgumentError(mismatch(address, "a Dask scheduler", what)) from error


def _address(file: Path) -> str:
    """What a scheduler wrote of itself; Dask would wait for ever for a file that is not there."""
    try:
        scheduler = inputs.parse(
            inputs.text_of(file, inputs.SCHEDULER), str(file), inputs.SCHEDULER
        )
        return str(scheduler["address"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        todo = "It is made by: dask scheduler --scheduler-file FILE"
        expected = "the file of a Dask scheduler"
        raise ArgumentError(mismatch(str(file), expected, error, todo)) from None


@dataclass(frozen=True)
class Summary:
    """What a run did.

    Parameters
    ----------
    finished, failed : int
        Cells of this run.
    skipped : int
        Cells that the store had.
    deaths : int
        Times that a worker died.
    """

    finished: int = 0
    failed: int = 0
    skipped: int = 0
    deaths: int = 0


def run_cells(
    cells: Sequence[Cell],
    store: Store,
    *,
    workers: Local | Cluster,
    train: Train,
    retries: int = 2,
    seen: Callable[[Record], object] = lambda _: None,
    say: Say = lambda _: None,
) -> Summary:
    """Run the cells that a store does not have yet."""
    have = store.finished()
    pending = {cell.key: cell for cell in cells if cell.key not in have}
    skipped = len(cells) - len(pending)
    counts = {True: 0, False: 0}
    deaths: dict[str, int] = {}
    died = 0

    def keep(record: Record) -> None:
        store.add(record)
        del pending[record.cell.key]
        counts[record.failed] += 1
        seen(record)

    with workers.dispatcher(say) as dispatched:
        while pending:
            # Cells that were out when a worker died: one by one, so that the next death has a name.
            suspects = [key for key in pending if deaths.get(key)]
            batch = [pending[suspects[0]]] if suspects else list(pending.values())
            out: list[str] = []
            try:
                with contextlib.closing(dispatched(batch, train, out)) as records:
                    for record in records:
                        keep(record)
            except _deadly_errors() as error:
                died += 1
                for key in [key for key in out if key in pending]:
                    deaths[key] = deaths.get(key, 0) + 1
                    if deaths[key] > retries and suspects:
                        keep(Record(pending[key], reason=_death(error, deaths[key])))
    return Summary(counts[False], counts[True], skipped, died)


def work(cell: Cell, train: Train, driver: int | None = None) -> Record:
    """Run one cell, in a worker."""
    _prepare_worker()
    if driver is not None:
        _end_with(driver)
    try:
        outcome = train(cell)
    except Exception as error:  # noqa: BLE001 - whatever a cell raises is its result
        return Record(cell, reason=f"{type(error).__name__}: {error}"[:500])
    rows = tuple(Row(**dict(row)) for row in outcome.rows)
    record = Record(
        cell,
        rows,
        seconds=float(outcome.seconds),
        steps=int(outcome.steps),
        parameters=int(outcome.parameters),
        final_loss=float(outcome.final_loss),
    )
    lost = [row for row in rows if not math.isfinite(row.value)]
    if lost or not rows:
        what = f"{lost[0].metric} at {lost[0].bucket} is {lost[0].value}" if lost else "no rows"
        return Record(cell, seconds=record.seconds, steps=record.steps, reason=what)
    return record


def _prepare_worker() -> None:
    """Make it deaf to the Ctrl-C that the terminal sends to every process."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


@functools.cache
def _end_with(driver: int) -> None:
    """End this process when its driver has: it would keep its memory, and nobody hears it."""

    def watch() -> None:
        while os.getppid() == driver:
            time.sleep(POLL)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _deadly_errors() -> tuple[type[BaseException], ...]:
    """What says that a worker died."""
    from joblib.externals.loky.process_executor import (  # type: ignore[import-untyped]
        BrokenProcessPool,
        TerminatedWorkerError,
    )

    kinds: tuple[type[BaseException], ...] = (TerminatedWorkerError, BrokenProcessPool)
    with contextlib.suppress(ImportError):
        from distributed.scheduler import KilledWorker

        kinds += (KilledWorker,)
    return kinds


def _death(error: BaseException, times: int) -> str:
    words = str(error).strip().splitlines() or [""]
    return f"its worker died {times} times: {type(error).__name__}: {words[0]}"[:500]


def cpus() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
