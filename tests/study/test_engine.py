"""The engine: cells on workers, rerun, errors, dead workers, dead drivers."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from posenc._core.errors import ArgumentError
from posenc_study import engine
from posenc_study.engine import Cluster, Local, Summary, run_cells
from posenc_study.results.records import Record
from posenc_study.results.store import Store, read_store
from tests.study import fakes

ROOT = Path(__file__).resolve().parents[2]
WHERE = {"test": "yes"}
TWO = Local(2)


def run(path: Path, cells: list, train=fakes.quick, **more) -> Summary:
    with Store(path, WHERE) as store:
        return run_cells(cells, store, train=train, **{"workers": TWO, **more})


@pytest.mark.costly
def test_every_cell_is_run_and_a_rerun_does_nothing(tmp_path: Path) -> None:
    path, seen = tmp_path / "s.sqlite", []
    cells = [fakes.cell(seed) for seed in range(5)]
    assert run(path, cells, seen=seen.append) == Summary(finished=5)
    assert {record.cell for record in seen} == set(cells)
    results = read_store(path)
    assert [record.cell for record in results.records] == cells
    for seed, value in results.values("order", "rope", "accuracy", "2L").items():
        assert value == fakes.accuracy(fakes.cell(seed), "2L")
    assert run(path, cells) == Summary(skipped=5)
    assert run(path, [*cells, fakes.cell(9)]) == Summary(finished=1, skipped=5)


@pytest.mark.parametrize(
    ("train", "reason"),
    [
        (fakes.wrong, "ValueError: this cell cannot be trained"),
        (fakes.unfinite, "nats at L is nan"),
    ],
)
@pytest.mark.costly
def test_an_error_is_the_result_of_its_cell_alone(tmp_path: Path, train, reason: str) -> None:
    path = tmp_path / "s.sqlite"
    cells = [fakes.cell(seed) for seed in range(3)]
    assert run(path, cells, train) == Summary(finished=2, failed=1)
    failed = [record for record in read_store(path).records if record.failed]
    assert [(record.cell.seed, record.reason, record.rows) for record in failed] == [
        (1, reason, ())
    ]
    # What failed is run again by the next run, and its failure is then forgotten.
    assert run(path, cells) == Summary(finished=1, skipped=2)
    assert not any(record.failed for record in read_store(path).records)


@pytest.mark.costly
def test_a_worker_that_dies_takes_no_other_cell_along(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    cells = [fakes.cell(seed, folder=str(tmp_path)) for seed in range(6)]
    done = run(path, cells, fakes.deadly, retries=1)
    assert (done.finished, done.failed) == (5, 1)
    assert done.deaths >= 2
    records = {record.cell.seed: record for record in read_store(path).records}
    assert sorted(records) == list(range(6))
    assert [seed for seed, record in records.items() if record.failed] == [1]
    assert "its worker died" in records[1].reason
    assert (tmp_path / "once").exists(), "seed 2 has to kill its worker as well"


@pytest.mark.costly
def test_a_killed_driver_loses_the_running_cells_alone(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    code = (
        "import sys; from tests.study import fakes\n"
        "from pathlib import Path\n"
        "from posenc_study.engine import Local, run_cells\n"
        "from posenc_study.results.store import Store\n"
        "with Store(Path(sys.argv[1]), {}) as store:\n"
        "    cells = [fakes.cell(seed) for seed in range(12)]\n"
        "    seen = lambda r: print(r.cell.seed, flush=True)\n"
        "    run_cells(cells, store, workers=Local(2), train=fakes.slow, seen=seen)\n"
    )
    folders = (ROOT / "src", ROOT / "study" / "src", ROOT)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    ) as driver:
        told = [int(driver.stdout.readline()) for _ in range(4)]
        os.kill(driver.pid, signal.SIGKILL)
        driver.wait()
    kept = {record.cell.seed for record in read_store(path).records}
    assert set(told) <= kept
    assert len(kept) < 12, "the driver has to be killed before it is done"
    # Its workers end with it, and give back their memory.
    begun = time.monotonic()
    while (left := members(driver.pid)) and time.monotonic() - begun < 30:
        time.sleep(0.2)
    assert not left
    cells = [fakes.cell(seed) for seed in range(12)]
    done = run(path, cells)
    assert (done.finished, done.skipped) == (12 - len(kept), len(kept))
    assert len(read_store(path).records) == 12


@pytest.mark.costly
def test_an_interrupt_keeps_what_is_finished(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"

    def enough(record: Record) -> None:
        raise KeyboardInterrupt

    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run(path, [fakes.cell(seed) for seed in range(50)], fakes.slow, seen=enough)
    assert time.monotonic() - begun < 14, "fifty cells would take 7 s and more"
    assert len(read_store(path).records) == 1


def members(session: int) -> list[str]:
    """The processes of a session that still run, by their command lines."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state, _, _, number = folder.joinpath("stat").read_text().rpartition(")")[2].split()[:4]
            if int(number) == session and state != "Z":
                found.append(folder.joinpath("cmdline").read_text())
    return found


# --- a cluster ------------------------------------------------------------------------------------


@pytest.mark.costly
def test_a_cluster_does_the_same_and_outlives_a_worker(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="Dask is not installed")
    path = tmp_path / "s.sqlite"
    cells = [fakes.cell(seed, folder=str(tmp_path)) for seed in (0, 2, 3, 4)]
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0", host="127.0.0.1"
    ) as cluster:
        workers = Cluster(cluster.scheduler_address)
        done = run(path, cells, fakes.deadly, workers=workers)
    assert (done.finished, done.failed) == (4, 0)
    assert (tmp_path / "once").exists()
    for seed, value in read_store(path).values("order", "rope", "accuracy", "L").items():
        assert value == fakes.accuracy(fakes.cell(seed), "L")


@pytest.mark.costly
def test_a_cluster_of_one_thread_trains_and_the_driver_does_not(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="Dask is not installed")
    cells = [fakes.cell(seed, folder=str(tmp_path)) for seed in range(4)]
    told: list[str] = []
    with distributed.LocalCluster(
        n_workers=0, threads_per_worker=1, dashboard_address=":0", host="127.0.0.1"
    ) as cluster:

        def say(text: str) -> None:
            told.append(text)
            if "no workers" in text:  # the cells wait for the first
                cluster.scale(1)

        path, workers = tmp_path / "s.sqlite", Cluster(cluster.scheduler_address)
        done = run(path, cells, fakes.placed, workers=workers, say=say)
    assert (done.finished, done.failed) == (4, 0)
    assert ["no workers; start some" in text for text in told] == [True, False]
    ran = {int(file.read_text()) for file in tmp_path.glob("*.pid")}
    assert len(ran) == 1
    assert os.getpid() not in ran


@pytest.mark.costly
def test_an_interrupt_ends_the_wait_for_workers(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="Dask is not installed")
    with distributed.LocalCluster(n_workers=0, dashboard_address=":0", host="127.0.0.1") as cluster:

        def interrupt(text: str) -> None:
            threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()

        workers, begun = Cluster(cluster.scheduler_address), time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "s.sqlite", [fakes.cell()], workers=workers, say=interrupt)
    assert time.monotonic() - begun < 60


@pytest.mark.costly
def test_no_cluster_is_told_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed", reason="Dask is not installed")
    monkeypatch.setattr(engine, "PATIENCE", 1)
    with pytest.raises(ArgumentError, match="tcp://127.0.0.1:1: expected a Dask scheduler"):
        run(tmp_path / "s.sqlite", [fakes.cell()], workers=Cluster("tcp://127.0.0.1:1"))
    file = tmp_path / "scheduler.json"
    for text in (None, "{", "{}", "[]"):
        if text is not None:
            file.write_text(text)
        with pytest.raises(ArgumentError, match="expected the file of a Dask scheduler"):
            run(tmp_path / "s.sqlite", [fakes.cell()], workers=Cluster(file=file))
