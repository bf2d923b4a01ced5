"""The compiled kernels beside the floor, what memory allows: `python benchmarks/kernels.py`.

The floor of a rotation is a copy of its input: into memory that exists, for one in place, and into
fresh memory for one that returns a new tensor. The floor of a table is `fill_`, that of a sum a
copy, that of a bias `fill_`. Each group is measured in turns, one call of each candidate after the
other, so that a busy machine slows all of them alike; ratios are of medians, and of minima.

`growth` is the time at positions around a million over that around none; `memory` is what a call
adds to the peak of the process, in MiB beyond its result.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import posenc
from benchmarks.rows import append, circumstances
from benchmarks.turns import Way, in_turns
from posenc.kernels import _native as native

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
MILLION = 2**20
# What each may cost, as a multiple of its floor.
TARGETS = {"in place": 1.1, "fresh": 1.15, "table": 1.3, "add": 1.15, "bias": 2.0}

Group = tuple[dict[str, Any], dict[str, Way], dict[str, tuple[str, str]]]


def rotations() -> Iterator[Group]:
    for dtype in DTYPES:
        for heads, tokens in (((32, 8), 2048), ((32, 8), 128), ((8, 1), 8192)):
            arrays = tuple(torch.randn(1, n, tokens, 128).to(dtype) for n in heads)
            results = tuple(torch.empty_like(x) for x in arrays)
            calls: dict[str, Way] = {
                "copy": lambda a=arrays, r=results: [y.copy_(x) for x, y in zip(a, r, strict=True)],
                "copy, fresh": lambda a=arrays: [torch.empty_like(x).copy_(x) for x in a],
            }
            pairs = {}
            for order in ("half", "interleaved"):
                spec = posenc.RoPE(128, pairing=order)
                plan = native.Rotation(native.Phases(spec.arrays["step"]), order, order)

                def fresh(plan: Any = plan, arrays: Any = arrays) -> None:
                    plan.turn(arrays, tuple(torch.empty_like(x) for x in arrays))

                calls[f"{order}, in place"] = lambda p=plan, a=arrays: p.turn(a, a)
                calls[f"{order}, fresh"] = fresh
                calls[f"{order}, existing"] = lambda p=plan, a=arrays, r=results: p.turn(a, r)
                calls[f"{order}, at 1M"] = lambda p=plan, a=arrays: p.turn(a, a, MILLION)
                pairs[f"{order}, in place"] = ("copy", "in place")
                pairs[f"{order}, fresh"] = ("copy, fresh", "fresh")
                pairs[f"{order}, existing"] = ("copy", "")
                pairs[f"{order}, at 1M"] = (f"{order}, in place", "")
            about = {"op": "rotate", "heads": heads, "tokens": tokens, "dtype": name_of(dtype)}
            yield about, calls, pairs


def tables() -> Iterator[Group]:
    for dtype in DTYPES:
        for count, dim in ((8192, 128), (131072, 128), (8192, 1024)):
            result = torch.empty(count, dim, dtype=dtype)
            calls: dict[str, Way] = {
                "fill": lambda r=result: r.fill_(1.0),
                "fill, fresh": lambda c=count, d=dim, t=dtype: torch.full((c, d), 1.0, dtype=t),
            }
            pairs = {}
            for order in ("interleaved", "sin_cos"):
                spec = posenc.Sinusoidal(dim, order=order)
                plan = native.Sinusoids(native.Phases(spec.arrays["step"]), dim, order)

                def fresh(
                    plan: Any = plan, count: int = count, dim: int = dim, dtype: Any = dtype
                ) -> None:
                    plan.table(torch.empty(count, dim, dtype=dtype))

                calls[order] = lambda p=plan, r=result: p.table(r)
                calls[f"{order}, fresh"] = fresh
                calls[f"{order}, at 1M"] = lambda p=plan, r=result: p.table(r, MILLION)
                goal = "table" if dtype == torch.float32 else ""
                pairs[order] = ("fill", goal)
                pairs[f"{order}, fresh"] = ("fill, fresh", goal)
                pairs[f"{order}, at 1M"] = (order, "")
            yield {"op": "table", "shape": (count, dim), "dtype": name_of(dtype)}, calls, pairs


def sums() -> Iterator[Group]:
    plan = native.Sinusoids(native.Phases(posenc.Sinusoidal(768).arrays["step"]), 768)
    for dtype in DTYPES:
        x = torch.randn(8, 1024, 768).to(dtype)
        y = torch.empty_like(x)
        calls: dict[str, Way] = {
            "copy": lambda x=x, y=y: y.copy_(x),
            "existing": lambda x=x, y=y: plan.add(x, y),
            "in place": lambda x=x: plan.add(x, x, 0, 0.5),
            "scaled": lambda x=x, y=y: plan.add(x, y, 0, 27.7),
        }
        goals = dict.fromkeys(("existing", "in place", "scaled"), ("copy", "add"))
        yield {"op": "add", "shape": tuple(x.shape), "dtype": name_of(dtype)}, calls, goals


def biases() -> Iterator[Group]:
    alibi, t5 = posenc.ALiBi(heads=16), posenc.T5(heads=16)
    slopes = torch.tensor(alibi.arrays["slopes"], dtype=torch.float32)
    weight = posenc.init(t5, 0)["weight"]
    for length in (1024, 4096):
        result = torch.empty(16, length, length)
        where = torch.arange(length)
        calls: dict[str, Way] = {
            "fill": lambda r=result: r.fill_(1.0),
            "ALiBi": lambda r=result, p=where: native.alibi(r, p, p, slopes),
            "T5": lambda r=result, p=where: native.buckets(
                r, p, p, t5.arrays["thresholds"], weight
            ),
        }
        pairs = {"ALiBi": ("fill", "bias"), "T5": ("fill", "bias")}
        yield {"op": "bias", "shape": (16, length, length), "dtype": "float32"}, calls, pairs


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def extra_memory() -> float:
    """MiB that a rotation in place of 128 MiB adds to the peak of the process."""
    x = torch.randn(1, 32, 8192, 128)
    plan = native.Rotation(native.Phases(posenc.RoPE(128, pairing="half").arrays["step"]))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    plan.turn((x,), (x,), MILLION)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


GROUPS = {"rotate": rotations, "table": tables, "add": sums, "bias": biases}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=3.0, help="for each group of calls")
    parser.add_argument("--threads", type=int, default=0, help="torch's own choice by default")
    parser.add_argument("--only", choices=GROUPS, action="append")
    parser.add_argument("--dry", action="store_true", help="print, and keep nothing")
    asked = parser.parse_args()
    if asked.threads:
        torch.set_num_threads(asked.threads)
    common = {
        **circumstances("numpy", "torch"),
        "threads": torch.get_num_threads(),
        "instructions": native.instruction_set(),
        "team": native.team(),
    }
    rows = [{"op": "memory", "MiB": extra_memory(), **common}]
    print(f"extra memory of a rotation in place: {rows[0]['MiB']:.1f} MiB")
    for about, calls, pairs in (g for op in asked.only or GROUPS for g in GROUPS[op]()):
        times = in_turns(calls, seconds=asked.seconds)
        print(" ".join(map(str, about.values())))
        for name, spent in times.items():
            row = {**about, "call": name, "ms": statistics.median(spent) * 1e3, **common}
            text = f"  {name:22} {row['ms']:9.3f} ms"
            if name in pairs:
                floor, goal = pairs[name]
                row |= {
                    "floor": floor,
                    "ratio": statistics.median(spent) / statistics.median(times[floor]),
                    "ratio of minima": min(spent) / min(times[floor]),
                    "target": TARGETS.get(goal),
                }
                text += f"   {row['ratio']:6.2f} x {floor}, minima {row['ratio of minima']:.2f}"
                if goal:
                    text += f"   (target {TARGETS[goal]})"
            print(text)
            rows.append(row)
    if not asked.dry:
        append("kernels", rows)


if __name__ == "__main__":
    main()
