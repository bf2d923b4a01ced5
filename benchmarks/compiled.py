"""What compiled code should hold, the array engine's form or an operator: `compiled.py`.

Each is compiled as a whole (queries and keys, 32 and 8 heads of 128 channels) and called in turns
with the others in one run; the least of all repeats, on one thread. Rows go to
`benchmarks/results/compiled.jsonl`.
"""

from __future__ import annotations

import copy
import sys
from pathlib import Path

import torch
import torch._inductor.config as inductor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import posenc
from benchmarks.rows import append, circumstances
from benchmarks.turns import Way, in_turns
from posenc.torch import RotaryEmbedding

SPEC = posenc.RoPE(128, pairing="half")
REPEATS = 60
SECONDS = 3.0


def candidates(tokens: int, dtype: torch.dtype) -> dict[str, Way]:
    """Compiled and eager ways to turn the same tensors."""
    torch._dynamo.reset()
    q, k = (torch.randn(1, heads, tokens, 128).to(dtype) for heads in (32, 8))
    where = torch.arange(tokens)[None]
    made: dict[str, Way] = {}
    for inplace in (False, True):
        place = ", in place" if inplace else ""
        # Of a traced module `auto` would choose; both forms are named here.
        for name, kernel in (("reference", "reference"), ("operator", "cpu")):
            module = RotaryEmbedding(copy.deepcopy(SPEC), kernel=kernel, inplace=inplace)
            with inductor.patch(compile_threads=1):
                compiled = torch.compile(module, fullgraph=True)
                compiled(q.clone(), k.clone(), where)
            made[f"compiled {name}{place}"] = lambda call=compiled: call(q, k, where)
        eager = RotaryEmbedding(copy.deepcopy(SPEC), kernel="cpu", inplace=inplace)
        made[f"eager kernel{place}"] = lambda call=eager: call(q, k, where)
    return made


def least(calls: dict[str, Way]) -> dict[str, float]:
    """Milliseconds of the fastest call of each."""
    times = in_turns(calls, seconds=SECONDS, least=REPEATS)
    return {name: round(1e3 * min(spent), 4) for name, spent in times.items()}


def main() -> None:
    torch.set_num_threads(1)
    common = circumstances("torch", "numpy")
    rows = []
    for tokens, dtype in ((512, torch.float32), (512, torch.bfloat16), (1, torch.float32)):
        with torch.no_grad():
            times = least(candidates(tokens, dtype))
        row = {"tokens": tokens, "dtype": str(dtype).rpartition(".")[2], "ms": times}
        rows.append(common | row)
        print(row)
    print(append("compiled", rows))


if __name__ == "__main__":
    main()
