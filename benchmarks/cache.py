"""Keys of a KV cache moved to other positions, beside a copy of them: `python benchmarks/cache.py`.

A cache of 32 layers x 8 heads x 8192 tokens x 128 channels in bfloat16 is read after a shift, an
eviction, a switch to another base, and a switch of keys that were shifted; and its keys are copied.
These take turns in one run. Results go into fresh memory, which the system has to clear each time,
or (`--memory warm`) into memory that the run has used before; its environment says so to the C
library. Layers are alike and are handled one after the other, as a model reads them, so four layers
stand for all: times are for 32, from four. A read gives new tensors and keeps none. Times are
medians in CPU time of one thread. `--write` adds rows to `benchmarks/results/cache.jsonl`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

import posenc
from benchmarks.rows import append, circumstances
from benchmarks.turns import in_turns
from posenc.torch.cache import evict, shift, switch, track

MEMORY = {
    "fresh": {"MALLOC_MMAP_THRESHOLD_": "1048576", "MALLOC_TRIM_THRESHOLD_": "1048576"},
    "warm": {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "4294967296"},
}
LAYERS, STAND_IN, HEADS, TOKENS, DIM = 32, 4, 8, 8192, 128


def main() -> None:
    """Measure, print, and append the rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--write", action="store_true", help="append the rows")
    parser.add_argument("--memory", choices=MEMORY, default="fresh")
    options = parser.parse_args()
    if not MEMORY[options.memory].items() <= os.environ.items():
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | MEMORY[options.memory])
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rope = posenc.RoPE(DIM, pairing="half", base=500_000.0)
    pairs = [
        (torch.randn(1, HEADS, TOKENS, DIM).bfloat16(), torch.zeros(1, HEADS, TOKENS, 1))
        for _ in range(STAND_IN)
    ]
    cache = track([(keys, values) for keys, values in pairs], rope)
    ways = {
        "copy": lambda: _drop(keys.clone() for keys, _ in pairs),
        "shift": _read(shift(cache, 1000)),
        "evict": _read(evict(cache, [*range(4), *range(1024, TOKENS)])),
        "switch": _read(switch(cache, rope.replace(base=1e6))),
        "switch after a shift": _read(switch(shift(cache, 1000), rope.replace(base=1e6))),
        "unmoved": _read(cache),
    }
    times = in_turns(ways, seconds=options.seconds, clock=time.thread_time)
    copy = statistics.median(times["copy"])
    common = {
        "memory": options.memory,
        **circumstances("posenc", "torch"),
        "layers": LAYERS,
        "of": STAND_IN,
        "tokens": TOKENS,
    }
    rows: list[dict[str, Any]] = []
    for way, seconds_each in times.items():
        tokens = TOKENS - 1020 if way == "evict" else TOKENS
        median = statistics.median(seconds_each)
        ratio = median / copy * TOKENS / tokens
        whole = median * LAYERS / STAND_IN
        rows.append({**common, "way": way, "seconds": whole, "of_a_copy": round(ratio, 3),
                     "n": len(seconds_each)})  # fmt: skip
        print(
            f"{way:20} {whole:7.3f} s for {LAYERS} layers, {ratio:5.2f} of a copy of as many keys"
        )
    if options.write:
        append("cache", rows)


def _read(cache: Any) -> Any:
    return lambda: _drop(pair[0] for pair in cache)


def _drop(tensors: Iterable[Any]) -> None:
    for _ in tensors:
        pass


if __name__ == "__main__":
    main()
