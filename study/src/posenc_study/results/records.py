"""Results in memory: what the report reads, whether from a store or from CSV files.

Three files hold a set of results, so that its rows can be read by anything:

    study_cells.csv        number, key, task, encoding, seed, settings, cost, provenance
    study_metrics.csv      cell (its number), metric, bucket, length, value
    study_provenance.csv   number, name, value

Numbers count from 0 in the order of (task, encoding, seed, key), so equal results are equal bytes.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from posenc._core.errors import DataError, mismatch
from posenc._core.io import inputs
from posenc._core.io.outputs import write_whole
from posenc_study.cell import Cell

T = TypeVar("T")

CELLS, METRICS, PROVENANCE = "study_cells.csv", "study_metrics.csv", "study_provenance.csv"
CELL_COLUMNS = (
    "number",
    "key",
    "task",
    "encoding",
    "seed",
    "settings",
    "seconds",
    "steps",
    "final_loss",
    "parameters",
    "reason",
    "provenance",
)
METRIC_COLUMNS = ("cell", "metric", "bucket", "length", "value")
MOST_ROWS = 2**18  # of one file
PROVENANCE_COLUMNS = ("number", "name", "value")


@dataclass(frozen=True)
class Row:
    """One measured number of a cell.

    Parameters
    ----------
    metric : str
        What was measured: `accuracy`, `exact`, `nats`.
    bucket : str
        The group of test lengths: `L`, `1.5L`, `2L`, `4L`, `8L`.
    length : int
        The length in tokens that stands for the bucket.
    value : float
        Finite.
    """

    metric: str
    bucket: str
    length: int
    value: float


@dataclass(frozen=True)
class Record:
    """What became of a cell.

    Parameters
    ----------
    cell : Cell
        What was run.
    rows : tuple of Row
        What was measured; empty where the run failed.
    seconds : float
        What it took.
    steps, parameters : int
        Optimiser steps, and numbers of the model.
    final_loss : float
        Of the training; NaN where the run failed.
    reason : str
        Why it failed; empty where it did not.
    provenance : int
        Which of the provenances of its results.
    """

    cell: Cell
    rows: tuple[Row, ...] = ()
    seconds: float = 0.0
    steps: int = 0
    parameters: int = 0
    final_loss: float = math.nan
    reason: str = ""
    provenance: int = 0

    @property
    def failed(self) -> bool:
        """Whether there is no measurement."""
        return bool(self.reason)


@dataclass(frozen=True)
class Results:
    """Records, sorted, and where they come from.

    Parameters
    ----------
    records : tuple of Record
        In the order of (task, encoding, seed, key).
    provenances : tuple of mapping
        As of `posenc_study.results.provenance.provenance`.
    """

    records: tuple[Record, ...]
    provenances: tuple[Mapping[str, str], ...]

    @classmethod
    def of(cls, records: Iterable[Record], provenances: Sequence[Mapping[str, str]]) -> Results:
        """Results in their order, with the provenances that they use, in the order of their use."""
        ordered = sorted(records, key=_order)
        used = list(dict.fromkeys(record.provenance for record in ordered))
        renumbered = [replace(r, provenance=used.index(r.provenance)) for r in ordered]
        return cls(tuple(renumbered), tuple(provenances[i] for i in used))

    def finished(self, task: str) -> list[Record]:
        """The records of a task that have measurements."""
        return [r for r in self.records if r.cell.task == task and not r.failed]

    def tasks(self) -> list[str]:
        """The tasks that have measurements."""
        return list(dict.fromkeys(r.cell.task for r in self.records if not r.failed))

    def values(self, task: str, encoding: str, metric: str, bucket: str) -> dict[int, float]:
        """The number that each seed has."""
        values: dict[int, float] = {}
        records = [r for r in self.finished(task) if r.cell.encoding == encoding]
        for cell, row in ((r.cell, row) for r in records for row in r.rows):
            if (row.metric, row.bucket) != (metric, bucket):
                continue
            if cell.seed in values:
                todo = "Export the cells of one protocol and tier by themselves."
                received = f"several of {cell}"
                raise DataError(mismatch("the results", "one cell for each seed", received, todo))
            values[cell.seed] = row.value
        return values


def _order(record: Record) -> tuple[str, str, int, str]:
    cell = record.cell
    return cell.task, cell.encoding, cell.seed, cell.key


# --- CSV ------------------------------------------------------------------------------------------


def write_csv(results: Results, folder: Path) -> list[Path]:
    """Write the three files."""
    folder.mkdir(parents=True, exist_ok=True)
    tables = (
        (CELLS, CELL_COLUMNS, _cell_lines(results)),
        (METRICS, METRIC_COLUMNS, _metric_lines(results)),
        (PROVENANCE, PROVENANCE_COLUMNS, _provenance_lines(results)),
    )
    for name, columns, lines in tables:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(lines)
        write_whole(folder / name, text.getvalue())
    return [folder / name for name, _, _ in tables]


def _cell_lines(results: Results) -> Iterator[tuple[Any, ...]]:
    for number, r in enumerate(results.records):
        cell = (r.cell.key, r.cell.task, r.cell.encoding, r.cell.seed, _settings(r.cell))
        cost = (round(r.seconds, 2), r.steps, r.final_loss, r.parameters)
        yield (number, *cell, *cost, r.reason, r.provenance)


def _settings(cell: Cell) -> str:
    return json.dumps(dict(cell.settings), separators=(",", ":"))


def _metric_lines(results: Results) -> Iterator[tuple[Any, ...]]:
    for number, record in enumerate(results.records):
        for row in record.rows:
            yield number, row.metric, row.bucket, row.length, repr(row.value)


def _provenance_lines(results: Results) -> Iterator[tuple[Any, ...]]:
    for number, values in enumerate(results.provenances):
        yield from ((number, name, value) for name, value in values.items())


def read_csv(folder: Path) -> Results:
    """Read the three files, and check that no cell was changed by hand."""
    provenances: dict[int, dict[str, str]] = {}
    for number, name, value in _read(folder / PROVENANCE, PROVENANCE_COLUMNS, _provenance):
        provenances.setdefault(number, {})[name] = value
    rows: dict[int, list[Row]] = {}
    for number, row in _read(folder / METRICS, METRIC_COLUMNS, _row):
        rows.setdefault(number, []).append(row)
    cells = dict(_read(folder / CELLS, CELL_COLUMNS, _record))
    strangers = sorted(set(rows) - set(cells))
    if strangers:
        received = f"rows of number {strangers[0]}"
        raise DataError(mismatch(str(folder / METRICS), f"rows of the cells in {CELLS}", received))
    if {record.provenance for record in cells.values()} - set(range(len(provenances))):
        raise DataError(mismatch(str(folder / PROVENANCE), "a row for every cell", "fewer"))
    records = [replace(cell, rows=tuple(rows.get(n, ()))) for n, cell in cells.items()]
    return Results.of(records, [provenances[n] for n in sorted(provenances)])


def _provenance(line: dict[str, str]) -> tuple[int, str, str]:
    return int(line["number"]), line["name"], line["value"]


def _row(line: dict[str, str]) -> tuple[int, Row]:
    row = Row(line["metric"], line["bucket"], int(line["length"]), float(line["value"]))
    if not math.isfinite(row.value):
        raise DataError(mismatch("value", "a finite number", line["value"]))
    return int(line["cell"]), row


def _record(line: dict[str, str]) -> tuple[int, Record]:
    settings = inputs.parse(line["settings"], "settings", inputs.PAGE)
    cell = Cell.of(line["task"], line["encoding"], seed=int(line["seed"]), settings=settings)
    if cell.key != line["key"]:
        todo = "The file was changed, or another protocol wrote it: export it again"
        raise DataError(mismatch(str(cell), f"the key {cell.key[:12]}…", line["key"][:12], todo))
    return int(line["number"]), Record(
        cell,
        seconds=float(line["seconds"]),
        steps=int(line["steps"]),
        parameters=int(line["parameters"]),
        final_loss=float(line["final_loss"]),
        reason=line["reason"],
        provenance=int(line["provenance"]),
    )


def _read(path: Path, columns: Sequence[str], make: Callable[[dict[str, str]], T]) -> list[T]:
    """The lines of a file; whatever is wrong with one is told with its place."""
    rows: list[T] = []
    place = str(path)
    try:
        with (
            inputs.opened(path, inputs.TABLE) as raw,
            io.TextIOWrapper(io.BufferedReader(raw), encoding="utf-8", newline="") as file,  # type: ignore[type-var]
        ):
            reader = csv.DictReader(file, strict=True)
            received = ", ".join(reader.fieldnames or ("nothing",))
            if tuple(reader.fieldnames or ()) != tuple(columns):
                raise DataError(f"expected the columns {', '.join(columns)}, got {received[:120]}")
            for line in reader:
                place = f"{path}:{reader.line_num}"
                if None in line or None in line.values():
                    raise DataError(mismatch("a row", f"{len(columns)} fields", "others"))
                if len(rows) == MOST_ROWS:
                    raise DataError(f"expected at most {MOST_ROWS} rows, got more")
                rows.append(make(line))
    except (ValueError, TypeError, AttributeError, KeyError, ArithmeticError, csv.Error) as error:
        raise DataError(f"{place}: {error}") from None
    return rows
