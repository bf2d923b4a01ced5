"""What a statement of Python costs in a process of its own, beside another: `import numpy`.

Each statement runs in fresh processes, in turns, timed inside them, so that the interpreter's own
start does not count, with the bytecode that a first run left.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping

from benchmarks.rows import append, circumstances


def milliseconds(statement: str) -> float:
    """The time of a statement in a fresh process."""
    code = f"import time; t = time.perf_counter(); {statement}; print(time.perf_counter() - t)"
    settings = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=settings)
    return 1e3 * float(done.stdout)


def main(
    bench: str, statements: Mapping[str, str], *packages: str, runs: int, about: str | None
) -> None:
    """Measure, print, store.

    Parameters
    ----------
    bench : str
        The name of the file of results.
    statements : mapping of str to str
        By what they are called; the others are beside the first.
    *packages : str
        Whose versions are stored.
    runs : int
        Times of each.
    about : str, optional
        What `--help` says.
    """
    parser = argparse.ArgumentParser(description=(about or "").partition("\n")[0])
    parser.add_argument("--dry-run", action="store_true", help="print the rows, keep none")
    dry = parser.parse_args().dry_run
    times: dict[str, list[float]] = {name: [] for name in statements}
    for run in range(runs + 1):
        for name, statement in statements.items():
            taken = milliseconds(statement)
            if run:  # the first one fills the caches of the disk, and writes the bytecode
                times[name].append(taken)
    rows = []
    for name, taken in times.items():
        deciles = statistics.quantiles(taken, n=10)
        row = {
            "bench": bench,
            "statement": name,
            "median_ms": round(statistics.median(taken), 1),
            "p20_ms": round(deciles[1], 1),
            "p80_ms": round(deciles[7], 1),
            "n": len(taken),
        }
        row["above_numpy_ms"] = round(row["median_ms"] - (rows[0] if rows else row)["median_ms"], 1)
        print(*row.values(), sep="  ")
        rows.append(row)
    if not dry:
        print(append(bench, [{**row, **circumstances(*packages)} for row in rows]))
