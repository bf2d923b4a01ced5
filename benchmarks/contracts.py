"""What a golden file costs: `python benchmarks/contracts.py`.

Each row is `posenc golden CONFIG -o FILE` in fresh processes, the interpreter's start included, for
models of 64 layers. The target is 2 s.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.rows import append, circumstances

RUNS = 15
COMMON = {"num_hidden_layers": 64, "num_attention_heads": 40, "hidden_size": 5120}
LONG = {"rope_type": "longrope", "short_factor": [1.0] * 64, "long_factor": [4.0] * 64}
CONFIGS: dict[str, dict[str, Any]] = {
    "one kind of layer (Qwen3)": {
        "model_type": "qwen3",
        "head_dim": 128,
        "rope_theta": 1e6,
        "max_position_embeddings": 40_960,
    },
    "two kinds of layer (Gemma 3)": {
        "model_type": "gemma3_text",
        "head_dim": 256,
        "rope_theta": 1e6,
        "rope_local_base_freq": 1e4,
        "rope_scaling": {"rope_type": "linear", "factor": 8.0},
        "sliding_window": 1024,
        "sliding_window_pattern": 6,
        "max_position_embeddings": 131_072,
    },
    "two lengths (Phi 3)": {
        "model_type": "phi3",
        "rope_theta": 1e4,
        "rope_scaling": LONG,
        "original_max_position_embeddings": 4096,
        "max_position_embeddings": 131_072,
    },
}


def main() -> None:
    """Measure, print, store."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--dry-run", action="store_true", help="print the rows, keep none")
    dry = parser.parse_args().dry_run
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        config, target = Path(folder, "config.json"), Path(folder, "model.golden.json")
        for name, keys in CONFIGS.items():
            config.write_text(json.dumps({**COMMON, **keys}), encoding="utf-8")
            command = [sys.executable, "-m", "posenc.cli", "golden", str(config)]
            command += ["-o", str(target), "--force"]
            times = []
            for run in range(RUNS + 1):
                begin = time.perf_counter()
                subprocess.run(command, check=True, capture_output=True)
                if run:  # the first one fills the caches of the disk
                    times.append(1e3 * (time.perf_counter() - begin))
            deciles = statistics.quantiles(times, n=10)
            row = {
                "model": name,
                "layers": COMMON["num_hidden_layers"],
                "median_ms": round(statistics.median(times)),
                "p20_ms": round(deciles[1]),
                "p80_ms": round(deciles[7]),
                "n": len(times),
                "bytes": target.stat().st_size,
            }
            print(*row.values(), sep="  ")
            rows.append(row)
    if not dry:
        common = circumstances("numpy", "posenc")
        print(append("contracts", [{"bench": "contracts", **row, **common} for row in rows]))


if __name__ == "__main__":
    main()
