"""What the time of a row goes to, part by part, where its target is missed: `reasons.py`.

Each part is measured by itself: a floor, the compiled code alone, its arithmetic without memory to
write to, the call from Python. All run on one thread and take turns; the figure is the
least of all repeats, as what else a machine does only ever adds. Rows go to
`benchmarks/results/reasons.jsonl`, a part each, in nanoseconds per number written.
"""

from __future__ import annotations

import argparse
import math
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import posenc
from benchmarks.rows import append, circumstances
from benchmarks.turns import Way, in_turns
from posenc.kernels import _native as native
from posenc.kernels.plans import sinusoids
from posenc.torch import PositionTable, RotaryEmbedding


class Part(NamedTuple):
    """Something that takes time, and how many numbers it writes."""

    way: Way
    values: int


def main() -> None:
    """Measure, print, store."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=3.0, help="for each row")
    parser.add_argument("--dry", action="store_true", help="print, and keep nothing")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    common = circumstances("numpy", "torch") | {"instructions": native.instruction_set()}
    rows = []
    with torch.no_grad():
        for about, parts in (*tables(), *narrow_tables(), sums(), bias(), decoding(), *rotations()):
            ways = {name: part.way for name, part in parts.items()}
            times = in_turns(ways, seconds=asked.seconds)
            for name, part in parts.items():
                least = 1e9 * min(times[name])
                found = {"about": about, "part": name, "ns": least, "values": part.values}
                found |= {"ns_each": least / part.values, "faults": faults(part.way)}
                rows.append(common | found)
                print(f"{about:28} {name:34} {least / 1e3:10.2f} us {found['ns_each']:8.3f} ns each"
                      f" {found['faults']:8} faults")  # fmt: skip
    if not asked.dry:
        print(append("reasons", rows))


def faults(way: Way) -> int:
    """Pages that the system hands out during a call."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    way()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def tables() -> Iterator[tuple[str, dict[str, Part]]]:
    """Rows of sines, with and without memory to write to."""
    for count, dim in ((8192, 128), (131_072, 128), (8192, 1024)):
        spec = posenc.Sinusoidal(dim)
        plan = native.Sinusoids(native.Phases(spec.arrays["step"]), dim)
        near, far = torch.empty(2**16 // dim, dim), torch.empty(count, dim)
        size = count * dim
        yield (
            f"table {count} x {dim}",
            {
                "fill": Part(lambda far=far: far.fill_(0.5), size),
                "fill of fresh memory": Part(lambda n=count, d=dim: torch.full((n, d), 0.5), size),
                "sines to the second cache": Part(
                    lambda near=near, plan=plan: plan.table(near, 10**6), near.numel()
                ),
                "compiled code": Part(lambda far=far, plan=plan: plan.table(far), size),
                "whole call": Part(lambda s=spec, n=count: posenc.table(s, n, xp=torch), size),
                "call for one row": Part(lambda s=spec: posenc.table(s, 1, xp=torch), dim),
            },
        )


def narrow_tables() -> Iterator[tuple[str, dict[str, Part]]]:
    """Rows of few channels: what one takes by itself, and what many do."""
    for dim, order in ((2, "interleaved"), (8, "interleaved"), (8, "sin_cos"), (30, "interleaved")):
        plan = sinusoids(posenc.Sinusoidal(dim, order=order))  # type: ignore[arg-type]
        far, near = torch.empty(2**18 // dim, dim), torch.empty(2**14 // dim, dim)
        filled = far.numpy()
        yield (
            f"table {len(far)} x {dim} {order}",
            {
                "fill": Part(lambda filled=filled: filled.fill(0.5), far.numel()),
                "sines to the second cache": Part(
                    lambda near=near, plan=plan: plan.table(near, 10**6, 1), near.numel()
                ),
                "compiled code": Part(lambda far=far, p=plan: p.table(far, 0, 1), far.numel()),
            },
        )


def sums() -> tuple[str, dict[str, Part]]:
    """Embeddings plus a table."""
    x = torch.randn(8, 1024, 768)
    y, z, one = torch.empty_like(x), torch.empty_like(x), x[:1, :1]
    spec = posenc.Sinusoidal(768)
    plan = native.Sinusoids(native.Phases(spec.arrays["step"]), 768)
    rows, own = torch.empty(1024, 768), x.clone()
    ours = PositionTable(spec)
    return (
        "add 8 x 1024 x 768",
        {
            "copy": Part(lambda: y.copy_(x), x.numel()),
            "copy into fresh memory": Part(x.clone, x.numel()),
            "sines alone": Part(lambda: plan.table(rows), rows.numel()),
            "x + a table at hand": Part(lambda: torch.add(x, rows, out=z), x.numel()),
            "compiled code, in place": Part(lambda: plan.add(own, own, 0, 0.5), x.numel()),
            "compiled code": Part(lambda: plan.add(x, y), x.numel()),
            "whole call": Part(lambda: ours(x), x.numel()),
            "call for one row": Part(lambda: ours(one), one.numel()),
        },
    )


def bias() -> tuple[str, dict[str, Part]]:
    """Scores of 16 heads."""
    spec, where, size = posenc.ALiBi(16), torch.arange(1024), 16 * 2**20
    held, one = torch.empty(16, 1024, 1024), where[:1]
    return (
        "ALiBi bias 16 x 1024 x 1024",
        {
            "fill": Part(lambda: held.fill_(0.5), size),
            "fill of fresh memory": Part(lambda: torch.full((16, 1024, 1024), 0.5), size),
            "whole call": Part(lambda: posenc.bias(spec, where, where), size),
            "call for one score": Part(lambda: posenc.bias(spec, one, one), 16),
        },
    )


def decoding() -> tuple[str, dict[str, Part]]:
    """One token of eight sequences."""
    q, k = torch.randn(8, 32, 1, 128), torch.randn(8, 8, 1, 128)
    where = torch.arange(8)[:, None] * 1000
    spec = posenc.RoPE(128, pairing="half")
    module = RotaryEmbedding(spec, inplace=True)
    plan = native.Rotation(native.Phases(spec.arrays["step"]))
    few = torch.randn(1, 1, 1, 128), torch.randn(1, 1, 1, 128)
    nothing = torch.nn.Identity()
    size = q.numel() + k.numel()
    return (
        "decode float32 batch 8",
        {
            "call of a module that does nothing": Part(lambda: nothing(q), size),
            "reading and writing both": Part(lambda: (q.neg_(), k.neg_()), size),
            "compiled code, one head": Part(lambda: plan.turn(few, few, where[:1], -2, 1), 2 * 128),
            "compiled code": Part(lambda: plan.turn((q, k), (q, k), where, -2, 1), size),
            "whole call": Part(lambda: module(q, k, where), size),
        },
    )


def rotations() -> Iterator[tuple[str, dict[str, Part]]]:
    """Prompts."""
    shapes = {
        "rotate {} half 8 x 12/12 x 512 x 64": ((8, 12, 512, 64), (8, 12, 512, 64)),
        "rotate {} half 1 x 8/2 x 16384 x 128": ((1, 8, 16_384, 128), (1, 2, 16_384, 128)),
    }
    for name, sizes in shapes.items():
        for dtype in (torch.float32, torch.bfloat16):
            yield name.format(str(dtype).removeprefix("torch.")), _rotation(sizes, dtype)


def _rotation(sizes: tuple[tuple[int, ...], ...], dtype: torch.dtype) -> dict[str, Part]:
    held = tuple(torch.randn(size).to(dtype) for size in sizes)
    results = tuple(torch.empty_like(x) for x in held)
    tokens, dim = sizes[0][-2:]
    plan = native.Rotation(native.Phases(posenc.RoPE(dim, pairing="half").arrays["step"]))
    angles = native.Phases(posenc.RoPE(dim, pairing="half").arrays["step"])
    cos, sin = torch.empty(tokens, dim // 2), torch.empty(tokens, dim // 2)
    size = sum(map(math.prod, sizes))

    def fresh() -> Any:
        made = tuple(torch.empty_like(x) for x in held)
        plan.turn(held, made)
        return made

    return {
        "copy": Part(lambda: [y.copy_(x) for x, y in zip(held, results, strict=True)], size),
        "copy into fresh memory": Part(lambda: [x.clone() for x in held], size),
        "sines alone": Part(lambda: angles.cos_sin(0, cos, sin), tokens * dim),
        "compiled code, in place": Part(lambda: plan.turn(held, held), size),
        "compiled code": Part(lambda: plan.turn(held, results), size),
        "compiled code, fresh memory": Part(fresh, size),
    }


if __name__ == "__main__":
    main()
