"""A thousand moves of cached keys, as others make them and as ours: `python benchmarks/moves.py`.

Keys of 8 heads x 1024 tokens x 128 channels are moved by -1, a thousand times; the error is that of
the norm, beside keys turned once in float64. The ways of others are rewritten here, in a few lines
of eager torch, from the sources of kvpress (`key_rerotation_press.py`) and llama.cpp (`ggml_rope`
of its K-shift: angles in float32, each the one before times a factor): they show their arithmetic,
and the second not its speed. A time is that of one move of 8192 tokens and of reading the keys,
over a copy of them; the ways take turns. `--write` adds rows to `benchmarks/results/moves.jsonl`.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from torch import Tensor

import posenc
from benchmarks.rows import append, circumstances
from benchmarks.turns import in_turns
from posenc.torch.cache import shift, track

HEADS, TOKENS, DIM, MOVES = 8, 1024, 128, 1000
ROPE = posenc.RoPE(DIM, pairing="half")
INVERSE = 1.0 / (1e4 ** (torch.arange(0, DIM, 2).float() / DIM))
FACTOR = torch.tensor(1e4).pow(torch.tensor(-2.0 / DIM))
DTYPES = (torch.bfloat16, torch.float16)


def swapped(x: Tensor) -> Tensor:
    """Halves exchanged, the first negated."""
    return torch.cat((-x[..., DIM // 2 :], x[..., : DIM // 2]), -1)


def of_kvpress(keys: Tensor, by: int) -> Tensor:
    """Angles in float32; cosines, sines and products in the dtype of the keys."""
    angles = torch.full((keys.shape[2], 1), float(by)) * INVERSE
    cos, sin = (torch.cat((t, t), -1).to(keys.dtype) for t in (angles.cos(), angles.sin()))
    return keys * cos + swapped(keys) * sin


def of_llama_cpp(keys: Tensor, by: int) -> Tensor:
    """Angles in float32, one from the other; products in float32, and one rounding."""
    angles = torch.cumprod(torch.cat((torch.tensor([float(by)]), FACTOR.expand(DIM // 2 - 1))), 0)
    cos, sin = (torch.cat((t, t), -1) for t in (angles.cos(), angles.sin()))
    wide = keys.float()
    return (wide * cos + swapped(wide) * sin).to(keys.dtype)


def of_rerotate(keys: Tensor, by: int) -> Tensor:
    """Our verb, which rounds at each move as well, and warns."""
    old = torch.zeros(keys.shape[2], dtype=torch.int64)
    return posenc.rerotate(ROPE, keys, old, old + by)


STEPS: dict[str, Callable[[Tensor, int], Tensor]] = {
    "kvpress": of_kvpress,
    "llama.cpp": of_llama_cpp,
    "posenc.rerotate": of_rerotate,
}


def error(name: str, dtype: torch.dtype) -> float:
    """What a thousand moves leave, as a part of the norm."""
    x = torch.randn(1, HEADS, TOKENS, DIM, generator=torch.Generator().manual_seed(0))
    keys = posenc.rotate(ROPE, x, offset=2000).to(dtype)
    exact = posenc.rotate(ROPE, x.double(), offset=2000 - MOVES)
    if name in STEPS:
        for _ in range(MOVES):
            keys = STEPS[name](keys, -1)
    else:
        cache = track([(keys, keys)], ROPE, positions=range(2000, 2000 + TOKENS))
        for _ in range(MOVES):
            cache = shift(cache, -1)
        keys = next(iter(cache))[0]
    return float((keys.double() - exact).norm() / exact.norm())


def times(seconds: float) -> dict[str, float]:
    """One move and a read, over a copy."""
    keys = torch.randn(1, HEADS, 8 * TOKENS, DIM).bfloat16()
    cache = track([(keys, torch.zeros(1, HEADS, 8 * TOKENS, 1))], ROPE)
    ways: dict[str, Callable[[], Any]] = {"copy": keys.clone}
    for name, step in STEPS.items():
        ways[name] = lambda step=step: step(keys, -1)
    ways["posenc.torch.cache"] = lambda: next(iter(shift(cache, -1)))
    found = in_turns(ways, seconds=seconds, clock=time.thread_time)
    medians = {name: statistics.median(values) for name, values in found.items()}
    return {name: medians[name] / medians["copy"] for name in ways if name != "copy"}


def main() -> None:
    """Measure, print, and append the rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--write", action="store_true", help="append the rows")
    options = parser.parse_args()
    torch.set_num_threads(1)
    common = {**circumstances("posenc", "torch"), "moves": MOVES}
    rows: list[dict[str, Any]] = []
    for name, ratio in times(options.seconds).items():
        errors = [error(name, dtype) for dtype in DTYPES]
        print(f"{name:20} bfloat16 {errors[0]:.2g}, float16 {errors[1]:.2g}; {ratio:.2f} of a copy")
        rows.append({**common, "way": name, "bfloat16": errors[0], "float16": errors[1],
                     "of_a_copy": round(ratio, 2)})  # fmt: skip
    if options.write:
        append("moves", rows)


if __name__ == "__main__":
    main()
