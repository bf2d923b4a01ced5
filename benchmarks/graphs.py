"""How many graphs four lengths cost, verb by verb, in new processes: `graphs.py`.

Rows go to `benchmarks/results/graphs.jsonl`, which `tools/generate.py` shows in `docs/compile.md`.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.torch_modules.compiled import LENGTHS, ROWS, measure, prepare

from benchmarks.rows import append, circumstances


def main() -> None:
    warnings.simplefilter("ignore")
    prepare()
    common = circumstances("torch", "numpy") | {"lengths": LENGTHS}
    rows = []
    for name in ROWS:
        row = measure(name)
        if "error" in row or row["breaks"] or not row["same"]:
            raise SystemExit(f"{name}: {row}")
        rows.append(common | {"row": name, "graphs": row["graphs"]})
        print(name, row["graphs"])
    print(append("graphs", rows))


if __name__ == "__main__":
    main()
