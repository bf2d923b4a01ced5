"""The results of runs in one SQLite file, written by the driver alone.

A cell is committed when it is finished, in one transaction with its rows, so a driver that is
killed loses the cells that were running and nothing else. The journal is a write-ahead log: a
report can read while a run writes. A second driver is refused by a lock on a file beside the store,
which the system lifts with the process that held it, however it ended.

What is not a store of this version is told so and left alone: the header is read as bytes before
SQLite, which repairs what it opens, sees the file at all.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import sqlite3
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType, UnionType
from typing import IO, Self

from posenc._core.errors import DataError, mismatch
from posenc._core.io import inputs
from posenc._core.io.outputs import write_whole
from posenc_study.cell import PROTOCOL, Cell
from posenc_study.results.records import MOST_ROWS, Record, Results, Row

APPLICATION = 0x706F7365  # "pose", in the header of the file
VERSION = 1

MAGIC = b"SQLite format 3\0"
AT_VERSION, AT_APPLICATION = 60, 68  # bytes of the header, big-endian

# What SQLite says of a disk, which is no damage of the store.
DISK = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_IOERR: errno.EIO,
    sqlite3.SQLITE_READONLY: errno.EACCES,
}

FILE = inputs.FileKind("a store of the study", 2**30)
LONGEST_VALUE = 2**20  # bytes of a text in it

SCHEMA = """
CREATE TABLE provenance (number INTEGER PRIMARY KEY, json TEXT NOT NULL UNIQUE);
CREATE TABLE cells (
  key TEXT PRIMARY KEY,
  cell TEXT NOT NULL,
  seconds REAL NOT NULL,
  steps INTEGER NOT NULL,
  parameters INTEGER NOT NULL,
  final_loss REAL,
  reason TEXT NOT NULL,
  provenance INTEGER NOT NULL REFERENCES provenance (number)
) WITHOUT ROWID;
CREATE TABLE metrics (
  key TEXT NOT NULL REFERENCES cells (key) ON DELETE CASCADE,
  metric TEXT NOT NULL,
  bucket TEXT NOT NULL,
  length INTEGER NOT NULL,
  value REAL NOT NULL,
  PRIMARY KEY (key, metric, bucket, length)
) WITHOUT ROWID;
"""


class Store:
    """The store that a driver writes: a context, which holds the lock.

    Parameters
    ----------
    path : Path
        A store, or a file that is not there yet.
    provenance : dict of str to str
        What the rows written from here on come from.

    Raises
    ------
    DataError
        For a file that is no store of this version, is damaged, or is being written by another
        driver.
    """

    def __init__(self, path: Path, provenance: dict[str, str]) -> None:
        self.path = path
        self._provenance = json.dumps(provenance, sort_keys=True)

    def __enter__(self) -> Self:
        self._lock = _locked(self.path)
        try:
            if not self.path.exists():
                _create(self.path)
            check_header(self.path)
            with _as_data_errors(self.path):
                self._open()
        except BaseException:
            self._lock.close()
            raise
        return self

    def _open(self) -> None:
        self._database = sqlite3.connect(self.path, isolation_level=None)
        try:
            self._prepare()
        except BaseException:
            self._database.close()
            raise

    def _prepare(self) -> None:
        execute = self._database.execute
        _check_contents(self.path, self._database)
        execute("PRAGMA journal_mode = WAL")
        execute("PRAGMA foreign_keys = ON")
        execute("INSERT OR IGNORE INTO provenance (json) VALUES (?)", (self._provenance,))
        query = "SELECT number FROM provenance WHERE json = ?"
        (self._number,) = execute(query, (self._provenance,)).fetchone()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with contextlib.suppress(sqlite3.Error):  # what was committed stays in the log
            self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._database.close()
        self._lock.close()

    def finished(self) -> set[str]:
        """The keys of the cells that have measurements; failed ones are tried again by a rerun."""
        with _as_data_errors(self.path):
            rows = self._database.execute("SELECT key FROM cells WHERE reason = ''")
            return {key for (key,) in rows}

    def add(self, record: Record) -> None:
        """Write a record and its rows in one transaction, in place of an earlier failure."""
        loss = record.final_loss if math.isfinite(record.final_loss) else None
        cost = (record.seconds, record.steps, record.parameters, loss)
        cell = (record.cell.key, record.cell.to_json(), *cost, record.reason, self._number)
        rows = [(record.cell.key, r.metric, r.bucket, r.length, r.value) for r in record.rows]
        with _as_data_errors(self.path), _transaction(self._database) as database:
            database.execute("DELETE FROM cells WHERE key = ?", cell[:1])
            database.execute("INSERT INTO cells VALUES (?, ?, ?, ?, ?, ?, ?, ?)", cell)
            database.executemany("INSERT INTO metrics VALUES (?, ?, ?, ?, ?)", rows)


def read_store(path: Path) -> Results:
    """Everything in a store; a driver may be writing to it meanwhile."""
    check_header(path)
    with _as_data_errors(path):
        database = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
        with contextlib.closing(database):
            _check_contents(path, database)
            with inputs.understood(str(path), "rows of a store"):
                return _all(database)


def _all(database: sqlite3.Connection) -> Results:
    database.execute("BEGIN")  # one state of the file, whatever is written meanwhile
    for table in ("metrics", "cells", "provenance"):
        (count,) = database.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608
        if count > MOST_ROWS:
            raise DataError(mismatch("the store", f"at most {MOST_ROWS} rows in {table}", count))
    rows: dict[str, list[Row]] = {}
    query = "SELECT key, metric, bucket, length, value FROM metrics ORDER BY 1, 2, 4, 3"
    for key, *row in database.execute(query):
        _check_types(row, (str, str, int, float))
        rows.setdefault(key, []).append(Row(*row))
    lines = database.execute("SELECT number, json FROM provenance ORDER BY number")
    provenance = {n: inputs.parse(text, "provenance", inputs.PAGE) for n, text in lines}
    records = [
        _record(line, tuple(rows.get(line[0], ())), provenance)
        for line in database.execute("SELECT * FROM cells ORDER BY key")
    ]
    return Results.of(records, list(provenance.values()))


def _check_types(values: Sequence[object], types: tuple[type | UnionType, ...]) -> None:
    """SQLite keeps in a column what does not fit its type."""
    for value, wanted in zip(values, types, strict=True):
        if not isinstance(value, wanted):
            raise DataError(mismatch("a row", f"values of the types {types}", repr(value)[:80]))


def _record(line: tuple, rows: tuple[Row, ...], provenance: dict[int, dict[str, str]]) -> Record:
    _check_types(line, (str, str, float, int, int, float | None, str, int))
    key, text, seconds, steps, parameters, loss, reason, number = line
    cell, numbers = Cell.from_json(text), list(provenance)
    if cell.key_of(int(provenance[number].get("protocol", PROTOCOL))) != key:
        todo = "The store was changed: run the cell again into another one."
        raise DataError(mismatch(str(cell), f"a cell of the key {key[:12]}…", text[:120], todo))
    return Record(
        cell,
        rows,
        seconds=seconds,
        steps=steps,
        parameters=parameters,
        final_loss=math.nan if loss is None else loss,
        reason=reason,
        provenance=numbers.index(number),
    )


# --- the file -------------------------------------------------------------------------------------


def check_header(path: Path) -> None:
    """Raise unless the first bytes are those of a store of this version."""
    with inputs.opened(path, FILE) as file:
        head = file.read(100)
    todo = "Name another file with --store; this one is left as it is."
    if not head.startswith(MAGIC) or len(head) < 100:
        what = "an empty file" if not head else "another file"
        raise DataError(mismatch(str(path), "a store of the study", what, todo))
    (application,) = struct.unpack_from(">I", head, AT_APPLICATION)
    (version,) = struct.unpack_from(">I", head, AT_VERSION)
    if application != APPLICATION:
        what = "an SQLite database of another program"
        raise DataError(mismatch(str(path), "a store of the study", what, todo))
    if version != VERSION:
        raise DataError(mismatch(str(path), f"a store of version {VERSION}", version, todo))


def _check_contents(path: Path, database: sqlite3.Connection) -> None:
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
    # A definition is a program: a view in place of a table may never end.
    with contextlib.closing(_empty()) as empty:
        if _schema(database) != _schema(empty):
            expected = "the tables cells, metrics and provenance of a store, and nothing else"
            raise DataError(mismatch(str(path), expected, "others"))
    (verdict,) = database.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise sqlite3.DatabaseError(verdict)


def _create(path: Path) -> None:
    """Make an empty store that appears under its name only when it is whole."""
    with contextlib.closing(_empty()) as database:
        write_whole(path, database.serialize(), existing="refuse")


def _empty() -> sqlite3.Connection:
    """An empty store in memory."""
    database = sqlite3.connect(":memory:")
    database.executescript(SCHEMA)
    database.execute(f"PRAGMA application_id = {APPLICATION}")
    database.execute(f"PRAGMA user_version = {VERSION}")
    return database


def _schema(database: sqlite3.Connection) -> set[tuple[str, str, str]]:
    """What a database holds besides rows: kinds, names and definitions."""
    rows = database.execute("SELECT type, name, ifnull(sql, '') FROM sqlite_master LIMIT 100")
    return {(kind, name, " ".join(sql.split())) for kind, name, sql in rows}


def _locked(path: Path) -> IO[str]:
    """The open file whose lock this process holds."""
    import fcntl

    beside = path.with_name(path.name + ".lock")
    file = beside.open("a+", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.seek(0)
        caller = file.read(40).strip() or "unknown"
        file.close()
        todo = "Wait for it, or name another file with --store; `posenc study status` may look on."
        what = f"one that process {caller} is writing"
        raise DataError(mismatch(str(path), "a store for this run alone", what, todo)) from None
    file.seek(0)
    file.truncate()
    file.write(str(os.getpid()))
    file.flush()
    return file


@contextlib.contextmanager
def _transaction(database: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    database.execute("BEGIN IMMEDIATE")
    try:
        yield database
    except BaseException:
        if database.in_transaction:  # SQLite ends it itself where the disk is full
            database.execute("ROLLBACK")
        raise
    database.execute("COMMIT")


@contextlib.contextmanager
def _as_data_errors(path: Path) -> Iterator[None]:
    """What SQLite says of a damaged store or a full disk, in the words of this package."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:
        code = DISK.get(getattr(error, "sqlite_errorcode", 0) & 255)
        if code is not None:
            reason = f"{os.strerror(code)} (SQLite: {error}); finished cells are kept"
            raise OSError(code, reason, str(path)) from error
        todo = "Copy it aside, with the files -wal and -shm beside it, before anything else."
        raise DataError(mismatch(str(path), "a store that is whole", error, todo)) from error
