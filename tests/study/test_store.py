"""The store, the files of its results, and files that are something else."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import lzma
import math
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from posenc._core.errors import DataError
from posenc_study import cell as cells, grid
from posenc_study.engine import Local, Summary, run_cells
from posenc_study.results import store as module
from posenc_study.results.provenance import DECIDING, PACKAGE, provenance
from posenc_study.results.records import Record, Results, Row, read_csv, write_csv
from posenc_study.results.store import Store, read_store
from tests.study.fakes import cell

WHERE = {"posenc": "1", "date": "2020-01-01"}


def record(seed: int = 0, encoding: str = "rope", value: float = 0.75) -> Record:
    rows = (Row("accuracy", "1L", 8, value), Row("accuracy", "2L", 16, value / 3))
    return Record(cell(seed, encoding), rows, 1.25, 3, 7, 0.1, provenance=0)


def made(path: Path, records: list[Record], where: dict[str, str] = WHERE) -> Results:
    with Store(path, where) as store:
        for one in records:
            store.add(one)
    return read_store(path)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    records = [record(1), record(0), record(0, "alibi", 1 / 3)]
    failed = Record(cell(5), reason="it did not want to")
    found = made(tmp_path / "s.sqlite", [*records, failed])
    assert found.records[:3] == (records[2], records[1], records[0])
    assert found.records[3].failed
    assert math.isnan(found.records[3].final_loss)
    assert found.provenances == (WHERE,)
    assert found.values("order", "rope", "accuracy", "1L") == {0: 0.75, 1: 0.75}
    assert [r.cell.seed for r in found.finished("order")] == [0, 0, 1]


def test_rows_know_the_run_that_made_them(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    made(path, [record(0)])
    found = made(path, [record(1)], {"posenc": "2"})
    assert [found.provenances[r.provenance]["posenc"] for r in found.records] == ["1", "2"]


def test_a_failure_is_replaced_and_a_result_with_all_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    failed = Record(cell(0), reason="no")
    with Store(path, WHERE) as store:
        store.add(failed)
        assert store.finished() == set()
        store.add(record(0))
        assert store.finished() == {cell(0).key}
        store.add(dataclasses.replace(record(0), rows=record(0).rows[:1]))
    assert read_store(path).records == (dataclasses.replace(record(0), rows=record(0).rows[:1]),)


def test_a_record_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    twice = dataclasses.replace(record(0), rows=record(0).rows[:1] * 2)
    with Store(path, WHERE) as store:
        store.add(record(1))
        with pytest.raises(DataError, match="UNIQUE"):
            store.add(twice)
        store.add(record(2))
    assert [r.cell.seed for r in read_store(path).records] == [1, 2]


def test_a_reader_looks_on_while_a_driver_writes(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    with Store(path, WHERE) as store:
        store.add(record(0))
        assert len(read_store(path).records) == 1
        store.add(record(1))
        assert len(read_store(path).records) == 2


def test_a_second_driver_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    with Store(path, WHERE):
        with (
            pytest.raises(DataError, match=f"process {os.getpid()} is writing"),
            Store(path, WHERE),
        ):
            pass
        code = (
            "import sys; from pathlib import Path; from posenc_study.results.store import Store\n"
            "with Store(Path(sys.argv[1]), {}): pass"
        )
        done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True)
        assert f"process {os.getpid()} is writing" in done.stderr
    with Store(path, WHERE) as store:
        store.add(record())


def test_cells_that_are_no_replicates_are_told_apart(tmp_path: Path) -> None:
    other = dataclasses.replace(record(), cell=cell(0, steps=4))
    found = made(tmp_path / "s.sqlite", [record(), other])
    with pytest.raises(DataError, match="one cell for each seed"):
        found.values("order", "rope", "accuracy", "1L")


# --- files that are something else ----------------------------------------------------------------


def foreign(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE cells (a)")
    database.close()


def older(path: Path) -> None:
    made(path, [record()])
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 7")
    database.close()


def torn(path: Path) -> None:
    """Of a store with many rows, the first pages."""
    made(path, [record(seed) for seed in range(200)])
    path.write_bytes(path.read_bytes()[:9000])


def scribbled(path: Path) -> None:
    made(path, [record(seed) for seed in range(200)])
    data = bytearray(path.read_bytes())
    data[4096:12000] = b"\xa5" * (12000 - 4096)
    path.write_bytes(data)


def leaf(path: Path) -> None:
    """The last page alone, which opening the file does not touch."""
    made(path, [record(seed) for seed in range(200)])
    data = bytearray(path.read_bytes())
    data[-4096:-3000] = b"\xa5" * 1096
    path.write_bytes(data)


def other_tables(path: Path) -> None:
    made(path, [record()])
    with sqlite3.connect(path) as database:
        database.execute("DROP TABLE metrics")
    database.close()


HOSTILE = {
    "text": (lambda path: path.write_text("cell,value\n" * 20), "a store of the study"),
    "empty": (lambda path: path.touch(), "an empty file"),
    "header alone": (lambda path: path.write_bytes(module.MAGIC), "a store of the study"),
    "foreign": (foreign, "an SQLite database of another program"),
    "older": (older, "a store of version 1, got 7"),
    "torn": (torn, "a store that is whole"),
    "scribbled": (scribbled, "a store that is whole"),
    "a page": (leaf, "a store that is whole"),
    "other tables": (other_tables, "the tables cells, metrics and provenance"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_another_file_is_told_and_left_alone(tmp_path: Path, name: str) -> None:
    path = tmp_path / "s.sqlite"
    make, message = HOSTILE[name]
    make(path)
    before = path.read_bytes()
    with pytest.raises(DataError, match=message):
        read_store(path)
    with pytest.raises(DataError, match=message), Store(path, WHERE):
        pass
    assert path.read_bytes() == before
    # A refused file is not left locked.
    with pytest.raises(DataError, match=message), Store(path, WHERE):
        pass


@pytest.mark.costly
def test_a_store_that_was_made_by_hand_is_refused_in_words(tmp_path: Path) -> None:
    """Definitions that are programs, names that are no text, rows of other types."""
    from tests.cli.hostile import stores

    stores(tmp_path)
    for name in ("letters", "view", "trigger", "types", "number", "deep"):
        with pytest.raises(DataError, match="store"):
            read_store(tmp_path / f"{name}.sqlite")


def test_no_store_and_no_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_store(tmp_path / "none.sqlite")
    with pytest.raises(FileNotFoundError), Store(tmp_path / "no" / "s.sqlite", WHERE):
        pass
    assert not list(tmp_path.iterdir())


# --- CSV ------------------------------------------------------------------------------------------


def results() -> Results:
    failed = Record(cell(5), reason='a, "b"\nc')
    return Results.of([record(1), record(0), record(2, value=1 / 3), failed], [WHERE])


def same(a: Results, b: Results) -> bool:
    """Equal, with NaN equal to itself."""
    return repr(a) == repr(b)


def test_csv_there_and_back(tmp_path: Path) -> None:
    written = write_csv(results(), tmp_path / "a")
    assert [path.name for path in written] == [
        "study_cells.csv",
        "study_metrics.csv",
        "study_provenance.csv",
    ]
    back = read_csv(tmp_path / "a")
    assert same(back, results())
    write_csv(back, tmp_path / "b")
    for path in written:
        assert (tmp_path / "b" / path.name).read_bytes() == path.read_bytes()


def test_a_cell_that_was_edited_in_a_store_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    made(path, [record(3), record(1)])
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE cells SET cell = replace(cell, '\"seed\":3', '\"seed\":4')")
        database.commit()
    with pytest.raises(DataError, match=r"seed 4: expected a cell of the key"):
        read_store(path)


def test_rows_of_an_earlier_protocol_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.sqlite"
    with Store(path, {"protocol": str(cells.PROTOCOL)}) as store:
        store.add(record(3))
    monkeypatch.setattr(cells, "PROTOCOL", cells.PROTOCOL + 1)
    assert [found.cell.seed for found in read_store(path).records] == [3]


def test_a_store_and_its_files_are_the_same_results(tmp_path: Path) -> None:
    found = made(tmp_path / "s.sqlite", [record(3), record(1)])
    write_csv(found, tmp_path)
    assert same(read_csv(tmp_path), found)


def edited(path: Path, column: str, value: str) -> None:
    with path.open(newline="") as file:
        lines = list(csv.DictReader(file))
    lines[1][column] = value
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, lines[0])
        writer.writeheader()
        writer.writerows(lines)


@pytest.mark.parametrize(
    ("name", "column", "value", "message"),
    [
        ("cells", "seed", "9", "cells.csv:3: .*expected the key"),
        ("cells", "settings", '{"steps":4}', "expected the key"),
        ("cells", "settings", "{", "cells.csv:3"),
        ("cells", "settings", "[]", "cells.csv:3"),
        ("cells", "steps", "many", "cells.csv:3"),
        ("cells", "provenance", "4", "a row for every cell"),
        ("metrics", "value", "nan", "metrics.csv:3: .*a finite number"),
        ("metrics", "value", "high", "metrics.csv:3"),
        ("metrics", "cell", "77", "rows of number 77"),
        ("provenance", "number", "x", "provenance.csv:3"),
    ],
)
def test_files_that_were_changed(
    tmp_path: Path, name: str, column: str, value: str, message: str
) -> None:
    write_csv(results(), tmp_path)
    edited(tmp_path / f"study_{name}.csv", column, value)
    with pytest.raises(DataError, match=message):
        read_csv(tmp_path)


def test_files_of_another_shape(tmp_path: Path) -> None:
    write_csv(results(), tmp_path)
    path = tmp_path / "study_metrics.csv"
    text = path.read_text()
    for broken in ("", "a,b\n1,2\n", text + "1,2\n", text + "1,2,3,4,5,6\n", '"' + text):
        path.write_text(broken)
        with pytest.raises(DataError, match="study_metrics.csv"):
            read_csv(tmp_path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="study_metrics.csv"):
        read_csv(tmp_path)


# --- provenance -----------------------------------------------------------------------------------


def test_provenance_names_what_produced_a_row() -> None:
    found = provenance()
    assert {"posenc", "commit", "sources", "protocol", "torch", "numpy", "python", "cpu"} <= set(
        found
    )
    assert all(isinstance(value, str) for value in found.values())
    assert found["torch"]
    assert found["numpy"]
    assert len(found["sources"]) == 16


def test_every_file_of_the_study_is_of_one_kind() -> None:
    """What decides numbers is hashed; a file that is renamed must not drop out of it."""
    names = {path.stem for part in DECIDING for path in (PACKAGE / part).glob("*.py")}
    assert {"transformer", "encodings", "text_lm", "extension", "train"} <= names
    beside = {path.name for path in PACKAGE.iterdir() if any(path.glob("*.py"))} - set(DECIDING)
    assert beside == {"claims", "commands", "generation", "report", "results"}


# --- before the study was a distribution of its own -----------------------------------------------

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "study"
# What `posenc study run smoke` was told, so that the cells are small.
SETTINGS = {"steps": 2, "batch": 2, "width": 8, "heads": 2, "hidden": 8, "examples": 4}


def unpacked(name: str, folder: Path) -> Path:
    path = folder / name
    path.write_bytes(lzma.decompress((GOLDEN / f"{name}.xz").read_bytes()))
    return path


def test_an_old_store_is_read_and_gone_on_with(tmp_path: Path) -> None:
    path = unpacked("study.sqlite", tmp_path)
    found = read_store(path)
    wanted = grid.cells("smoke", grid.Narrowing(settings=SETTINGS))
    assert {record.cell.key for record in found.records} == {one.key for one in wanted}
    assert found.values("order", "rope", "nats", "2L") == {0: 3.2910115190891216}
    assert found.provenances[0]["commit"].startswith("7fd7655e")
    with Store(path, WHERE) as store:
        assert run_cells(wanted, store, workers=Local(1), train=never) == Summary(skipped=4)


def never(one: cells.Cell) -> None:
    raise AssertionError(f"{one} is in the store")


def test_an_old_model_is_read(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    from posenc_study.generation.answers import say
    from posenc_study.training.saved import load

    unpacked("model.safetensors", tmp_path)
    first, second = say(load(tmp_path), "John likes Jane")
    assert (first.text, second.text) == ("John", "Jane")
    assert (first.probability, second.probability) == pytest.approx((0.149318616, 0.0325092127))
