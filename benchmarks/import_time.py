"""What importing posenc costs beside NumPy's own import: `python benchmarks/import_time.py`.

Each statement runs in fresh processes, in turns, timed inside them, so that the interpreter's
own start does not count. The target is NumPy's time + 30 ms for a first table.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.rows import append, circumstances

RUNS = 21
STATEMENTS = {
    "NumPy": "import numpy",
    "posenc": "import posenc",
    "posenc, to a first table": "import posenc; posenc.table(posenc.Sinusoidal(512), 1)",
}


def milliseconds(statement: str) -> float:
    """The time of a statement in a fresh process."""
    code = f"import time; t = time.perf_counter(); {statement}; print(time.perf_counter() - t)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return 1e3 * float(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--dry-run", action="store_true", help="print the rows, keep none")
    dry = parser.parse_args().dry_run
    times: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    for run in range(RUNS + 1):
        for name, statement in STATEMENTS.items():
            taken = milliseconds(statement)
            if run:  # the first one fills the caches of the disk
                times[name].append(taken)
    rows = []
    for name, taken in times.items():
        deciles = statistics.quantiles(taken, n=10)
        row = {
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
        common = circumstances("numpy", "array-api-compat", "posenc")
        print(append("import_time", [{"bench": "import_time", **row, **common} for row in rows]))


if __name__ == "__main__":
    main()
