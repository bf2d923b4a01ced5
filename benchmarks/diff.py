"""What comparing two configs costs beside NumPy's own import: `python benchmarks/diff.py`.

Each statement runs in fresh processes, in turns, timed inside them, with bytecode that a first run
left. The target is NumPy's time + 500 ms.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.rows import append, circumstances

RUNS = 15
PLAIN = {"model_type": "llama", "head_dim": 128, "rope_theta": 5e5, "num_hidden_layers": 32}
PLAIN |= {"max_position_embeddings": 131_072}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768}
STATEMENTS = {
    "NumPy": "import numpy",
    "posenc.diff of two configs": f"import posenc; posenc.diff({PLAIN}, {PLAIN} | "
    f"{{'rope_scaling': {YARN}}})",
}


def milliseconds(statement: str) -> float:
    """The time of a statement in a fresh process."""
    code = f"import time; t = time.perf_counter(); {statement}; print(time.perf_counter() - t)"
    settings = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=settings)
    return 1e3 * float(done.stdout)


def main() -> None:
    """Measure, print, store."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--dry-run", action="store_true", help="print the rows, keep none")
    dry = parser.parse_args().dry_run
    times: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    for run in range(RUNS + 1):
        for name, statement in STATEMENTS.items():
            taken = milliseconds(statement)
            if run:  # the first one writes the bytecode
                times[name].append(taken)
    rows = []
    for name, taken in times.items():
        deciles = statistics.quantiles(taken, n=10)
        median = round(statistics.median(taken), 1)
        above = round(median - (rows[0]["median_ms"] if rows else median), 1)
        rows.append(
            {
                "bench": "diff",
                "statement": name,
                "median_ms": median,
                "p20_ms": round(deciles[1], 1),
                "p80_ms": round(deciles[7], 1),
                "n": len(taken),
                "above_numpy_ms": above,
            }
        )
        print(*rows[-1].values(), sep="  ")
    if not dry:
        common = circumstances("numpy", "posenc")
        print(append("diff", [{**row, **common} for row in rows]))


if __name__ == "__main__":
    main()
