"""One token of decoding beside code that is written by hand for it: `python benchmarks/decode.py`.

The hand code is eager torch, or eager JAX, of the fewest calls, and has its table at hand: cosines
and sines of the move, the slopes, the transposed vectors, the table of biases. It checks nothing.
Ways take turns in one run, in one thread; figures are medians, as ratios. `--write` adds rows to
`benchmarks/results/decode.jsonl`, with the load of the machine, as others may be at work on it.

    python benchmarks/decode.py                       all rows
    python benchmarks/decode.py --only rerotate       rows whose names contain a word
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention

import posenc
from benchmarks.rows import append, circumstances
from benchmarks.turns import Way, in_turns
from posenc.torch import attend

HEADS, DIM = 32, 128
HALF = DIM // 2
ROPE, ALIBI, T5 = posenc.RoPE(DIM, pairing="half"), posenc.ALiBi(HEADS), posenc.T5(HEADS)
SHAW = posenc.Shaw(DIM, clip=16, acts_on="keys")


class Row(NamedTuple):
    """Ours beside the code by hand; `most` is the ratio that is aimed at."""

    name: str
    ours: Way
    hand: Way
    most: float = 2.0


def turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """A rotation by hand: five calls, or six with the negation."""
    swapped = torch.cat((x[..., HALF:].neg(), x[..., :HALF]), -1)
    return torch.addcmul(x * cos, swapped, sin)


def tables(positions: torch.Tensor, dtype: torch.dtype) -> list[torch.Tensor]:
    """Cosines and sines for both halves of the channels."""
    return [torch.cat([half, half], -1).to(dtype) for half in posenc.cos_sin(ROPE, positions)]


def biases(keys: int) -> Iterator[Row]:
    """The biases of a query on so many keys."""
    now, past = torch.tensor([keys - 1]), torch.arange(keys)
    slopes = torch.tensor(ALIBI.arrays["slopes"], dtype=torch.float32)[:, None, None]
    yield Row(
        f"bias ALiBi, {keys} keys",
        lambda: posenc.bias(ALIBI, now, past),
        lambda: slopes * (past - now[:, None]),
    )
    weight = {"weight": torch.randn(32, HEADS)}
    entries = posenc.bias(T5, torch.tensor([keys - 1]), keys, params=weight)[:, 0].contiguous()
    yield Row(
        f"bias T5, {keys} keys",
        lambda: posenc.bias(T5, now, past, params=weight),
        lambda: entries[:, past - now[:, None] + (keys - 1)],
    )


def moves(dtype: torch.dtype) -> Iterator[Row]:
    """The key of a token, moved."""
    x, old, new = torch.randn(1, 8, 1, DIM).to(dtype), torch.tensor([1000]), torch.tensor([100])
    cos, sin = tables(new - old, dtype)
    yield Row(
        f"rerotate {str(dtype).removeprefix('torch.')}",
        lambda: posenc.rerotate(ROPE, x, old, new),
        lambda: turned(x, cos, sin),
    )


def scores(keys: int) -> Iterator[Row]:
    """What Shaw's vectors add to the scores of a query."""
    now, past = torch.tensor([keys - 1]), torch.arange(keys)
    q, k = torch.randn(1, HEADS, 1, DIM), torch.randn(1, HEADS, keys, DIM)
    params = {name: torch.tensor(value) for name, value in posenc.init(SHAW).items()}
    vectors = params["keys"].T.contiguous()

    def by_hand() -> torch.Tensor:
        row = (past - now).clamp_(-16, 16).add_(16)
        return (q @ vectors).gather(-1, row.expand(1, HEADS, 1, keys))

    yield Row(
        f"relative Shaw, {keys} keys",
        lambda: posenc.relative(SHAW, q, k, now, past, params=params),
        by_hand,
    )
    given: dict[str, Any] = {"q_positions": now, "k_positions": past}
    yield Row(
        f"attend Shaw, {keys} keys",
        lambda: attend(q, k, k, SHAW, params={"relative": params}, **given),
        lambda: scaled_dot_product_attention(q, k, k, attn_mask=by_hand() * DIM**-0.5),
    )
    slopes = torch.tensor(ALIBI.arrays["slopes"], dtype=torch.float32)[:, None, None]
    yield Row(
        f"attend ALiBi, {keys} keys",
        lambda: attend(q, k, k, ALIBI, **given),
        lambda: scaled_dot_product_attention(q, k, k, attn_mask=slopes * (past - now[:, None])),
    )
    cos, sin = tables(past, torch.float32)
    yield Row(
        f"attend RoPE, {keys} keys",
        lambda: attend(q, k, k, ROPE, **given),
        lambda: scaled_dot_product_attention(
            turned(q, cos[now], sin[now]), turned(k, cos[past], sin[past]), k
        ),
    )


def of_jax(length: int, dtype: str) -> Iterator[Row]:
    """A rotation of so many tokens in eager JAX."""
    import jax.numpy as jnp

    x = jnp.asarray(np.random.default_rng(0).standard_normal((1, HEADS, length, DIM)), dtype)
    where = jnp.arange(length) + 100
    cos, sin = (jnp.concatenate([half, half], -1) for half in posenc.cos_sin(ROPE, where))

    def by_hand() -> Any:
        swapped = jnp.concatenate([-x[..., HALF:], x[..., :HALF]], -1)
        return (x * cos + swapped * sin).astype(dtype).block_until_ready()

    yield Row(
        f"JAX rotate {dtype}, {length} tokens",
        lambda: posenc.rotate(ROPE, x, positions=where).block_until_ready(),
        by_hand,
        most=1.0,
    )


def rows() -> Iterator[Row]:
    """All of them."""
    for keys in (64, 512, 4096):
        yield from biases(keys)
        yield from scores(keys)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        yield from moves(dtype)
    for length in (1, 128, 2048):
        for name in ("float32", "bfloat16"):
            yield from of_jax(length, name)


def main() -> None:
    """Measure, print, and append the rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", default="", help="a word of the names of rows")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each row")
    parser.add_argument("--write", action="store_true", help="append the rows")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    common = circumstances("posenc", "torch", "jax", "numpy")
    stored: list[dict[str, Any]] = []
    with torch.no_grad():
        for row in rows():
            if options.only not in row.name:
                continue
            ways = {"ours": row.ours, "hand": row.hand}
            times = in_turns(ways, seconds=options.seconds)
            median = {way: statistics.median(each) for way, each in times.items()}
            ratio = median["ours"] / median["hand"]
            least = min(times["ours"]) / min(times["hand"])
            mark = "met   " if ratio <= row.most else "MISSED"
            micro = {way: round(1e6 * value, 2) for way, value in median.items()}
            print(
                f"{mark} {ratio:6.2f} (least {least:5.2f}), at most {row.most}  {row.name} {micro}"
            )
            stored.append(
                {**common, "row": row.name, "median_us": micro, "ratio": round(ratio, 3),
                 "ratio_of_least": round(least, 3), "most": row.most, "n": len(times["ours"]),
                 "load": round(os.getloadavg()[0], 1)}
            )  # fmt: skip
    if options.write:
        append("decode", stored)


if __name__ == "__main__":
    main()
