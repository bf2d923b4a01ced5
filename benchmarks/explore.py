"""What a frame of the explorer costs Python: `python benchmarks/explore.py`.

A step is what one press of a key or one move of a slider asks for, so no two requests are alike.
Time is that of the thread, which other programs do not lengthen; the browser's share is not in it.
The targets are 10 ms at 512 x 128 and 25 ms at 40,960 x 512.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.rows import append, circumstances
from posenc.explore import frame

STEPS = 60
SCREEN = {"w": "1100", "h": "800"}
SMALL = {"v": "table", "L": "512", "d": "128"}
LARGE = {"v": "table", "L": "40960", "d": "512"}

State = dict[str, str]
CASES: dict[str, Callable[[int], State]] = {
    "table 512x128, cursor": lambda i: {**SMALL, "p": str(i)},
    "table 512x128, width": lambda i: {**SMALL, "d": str(68 + 2 * i)},
    "table 512x128, base": lambda i: {**SMALL, "n": str(1000 + i)},
    "table 40960x512, cursor": lambda i: {**LARGE, "p": str(i)},
    "table 40960x512, width": lambda i: {**LARGE, "d": str(452 + 2 * i)},
    "table 40960x512, positions": lambda i: {**LARGE, "L": str(40_000 + 17 * i)},
    "waves": lambda i: {"v": "waves", "L": "40960", "d": "512", "p": str(i)},
    "sentence": lambda i: {"v": "sentence", "seed": str(i)},
    "distance": lambda i: {"v": "distance", "L": "512", "d": str(68 + 2 * i)},
    "rotate": lambda i: {"v": "rotate", "m": str(i)},
    "bias": lambda i: {"v": "bias", "L": str(100 + i)},
    "stretch": lambda i: {"v": "stretch", "f": str(2 + i)},
    "compare": lambda i: {**SMALL, "b.enc": "sinusoidal", "b.n": str(100 + i)},
}


def milliseconds(make: Callable[[int], State]) -> tuple[list[float], int]:
    """The time of each step, and the bytes of the last frame."""
    frame({**SCREEN, **make(0)})
    taken, size = [], 0
    for step in range(1, STEPS + 1):
        state = {**SCREEN, **make(step)}
        begin = time.thread_time()
        size = len(frame(state))
        taken.append(1e3 * (time.thread_time() - begin))
    return taken, size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--dry-run", action="store_true", help="print the rows, keep none")
    dry = parser.parse_args().dry_run
    rows = []
    for name, make in CASES.items():
        taken, size = milliseconds(make)
        deciles = statistics.quantiles(taken, n=10)
        row = {
            "step": name,
            "p50_ms": round(statistics.median(taken), 1),
            "p90_ms": round(deciles[8], 1),
            "kib": round(size / 1024),
            "n": len(taken),
        }
        print(*row.values(), sep="  ")
        rows.append(row)
    if not dry:
        common = circumstances("numpy", "posenc")
        print(append("explore", [{"bench": "explore", **row, **common} for row in rows]))


if __name__ == "__main__":
    main()
