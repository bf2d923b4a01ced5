"""The worst error of cosine and sine, posenc beside its peers: `python benchmarks/precision.py`.

Width 128, base 10000, float32 output, for positions below 2**10 to 2**31, as constructed and after
`.bfloat16()` of the module (with float32 input), which models do to whole networks at once.

The truth is found here without posenc: frequencies in 60 digits by mpmath, the fraction of a turn
by integer arithmetic in 96 bits, its sine and cosine in float64, right to 1e-15.

All positions are tried below 2**17. Above, 2**14 random ones and the last 2**10.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.rows import append, circumstances

DIM, BASE = 128, 10_000
BOUNDS = (10, 17, 20, 24, 31)  # powers of two
BLOCK = 1 << 14

Angles = tuple[np.ndarray, np.ndarray]  # cos, sin: (positions, pairs)
Implementation = Callable[[np.ndarray], Angles]


# --- the truth ------------------------------------------------------------------------------------


def fractions_of_a_turn() -> list[int]:
    """frequency / (2 pi), in 2**-96."""
    import mpmath

    with mpmath.workdps(60):
        turns = [
            mpmath.mpf(BASE) ** (-mpmath.mpf(2 * i) / DIM) / (2 * mpmath.pi)
            for i in range(DIM // 2)
        ]
        return [int(mpmath.nint(turn * 2**96)) for turn in turns]


def truth(positions: np.ndarray) -> Angles:
    """Cosine and sine in float64, for 0 <= position < 2**31."""
    words = np.array(
        [[turn >> shift & 0xFFFFFFFF for turn in fractions_of_a_turn()] for shift in (0, 32, 64)],
        dtype=np.uint64,
    )
    low32 = np.uint64(0xFFFFFFFF)
    p = positions.astype(np.uint64)[:, None]
    low = p * words[0]
    middle = p * words[1] + (low >> np.uint64(32))
    high = p * words[2] + (middle >> np.uint64(32))
    turn = (high << np.uint64(32)) | (middle & low32)  # in 2**-64, whole turns dropped
    angle = turn.view(np.int64) * (2 * math.pi * 2.0**-64)
    return np.cos(angle), np.sin(angle)


def sample(bound: int) -> np.ndarray:
    """Positions below 2**bound."""
    if bound <= 17:
        return np.arange(1 << bound)
    chosen = np.random.default_rng(bound).integers(0, 1 << bound, 1 << 14)
    return np.concatenate([chosen, np.arange((1 << bound) - (1 << 10), 1 << bound)])


# --- the implementations --------------------------------------------------------------------------


def posenc_numpy(half: bool) -> Implementation | None:
    import posenc

    spec = posenc.Sinusoidal(DIM, base=BASE, order="cos_sin")
    return None if half else lambda p: _halves(posenc.table(spec, p))


def posenc_torch(half: bool) -> Implementation:
    import torch

    import posenc
    from posenc.torch import PositionTable

    module = PositionTable(posenc.Sinusoidal(DIM, base=BASE, order="cos_sin"))
    module = module.bfloat16() if half else module
    return lambda p: _halves(module(torch.zeros(len(p), DIM), torch.from_numpy(p)))


def tutorial(half: bool) -> Implementation:
    """`sin(position * div_term)` in float32, as most code has it; a buffer, so a cast rounds it."""
    import torch

    div_term = torch.exp(torch.arange(0, DIM, 2).float() * (-math.log(BASE) / DIM))

    def table(positions: np.ndarray) -> Angles:
        angles = torch.from_numpy(positions).float()[:, None] * div_term
        both = torch.cat([angles.cos(), angles.sin()], dim=-1)
        return _halves(both.bfloat16() if half else both)

    return table


def transformers(half: bool) -> Implementation:
    import torch
    from transformers.models.llama.configuration_llama import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    config = LlamaConfig(head_dim=DIM, hidden_size=DIM, num_attention_heads=1)
    config.rope_parameters = {"rope_type": "default", "rope_theta": float(BASE)}
    module = LlamaRotaryEmbedding(config)
    module = module.bfloat16() if half else module

    def table(positions: np.ndarray) -> Angles:
        cos, sin = module(torch.zeros(1), torch.from_numpy(positions)[None])
        return _numpy(cos[0, :, : DIM // 2]), _numpy(sin[0, :, : DIM // 2])

    return table


def rotary_embedding_torch(half: bool) -> Implementation:
    import torch
    from rotary_embedding_torch import RotaryEmbedding

    module = RotaryEmbedding(DIM, theta=BASE, cache_if_possible=False)
    module = module.bfloat16() if half else module

    def table(positions: np.ndarray) -> Angles:
        angles = module(torch.from_numpy(positions).float())[:, ::2].detach()
        return _numpy(angles.cos()), _numpy(angles.sin())

    return table


def x_transformers(half: bool) -> Implementation:
    import torch
    from x_transformers.x_transformers import RotaryEmbedding

    module = RotaryEmbedding(DIM, base=BASE)
    module = module.bfloat16() if half else module

    def table(positions: np.ndarray) -> Angles:
        angles, _ = module(torch.from_numpy(positions))
        angles = angles.reshape(len(positions), DIM)[:, ::2]
        return _numpy(angles.cos()), _numpy(angles.sin())

    return table


def positional_encodings(half: bool) -> Implementation:
    """Its module counts from 0 only, so later rows repeat its arithmetic on its own constants."""
    import torch
    from positional_encodings.torch_encodings import PositionalEncoding1D, get_emb

    module = PositionalEncoding1D(DIM)
    module = module.bfloat16() if half else module

    def rows(positions: np.ndarray) -> torch.Tensor:
        counted = torch.from_numpy(positions).to(module.inv_freq.dtype)
        return get_emb(torch.einsum("i,j->ij", counted, module.inv_freq))

    own = module(torch.zeros(1, 1024, DIM))[0]
    if not torch.equal(own, rows(np.arange(1024)).to(own.dtype)):
        raise AssertionError("positional-encodings computes something else than assumed here")

    def table(positions: np.ndarray) -> Angles:
        both = rows(positions)
        return _numpy(both[:, 1::2]), _numpy(both[:, 0::2])

    return table


IMPLEMENTATIONS: dict[str, tuple[str, Callable[[bool], Implementation | None]]] = {
    "posenc, NumPy": ("posenc", posenc_numpy),
    "posenc, torch": ("posenc", posenc_torch),
    "sin(pos * div_term)": ("torch", tutorial),
    "transformers": ("transformers", transformers),
    "rotary-embedding-torch": ("rotary-embedding-torch", rotary_embedding_torch),
    "x-transformers": ("x-transformers", x_transformers),
    "positional-encodings": ("positional-encodings", positional_encodings),
}


def _halves(table: Any) -> Angles:
    values = _numpy(table)
    return values[:, : DIM // 2], values[:, DIM // 2 :]


def _numpy(values: Any) -> np.ndarray:
    return values if isinstance(values, np.ndarray) else values.detach().float().numpy()


def worst(implementation: Implementation, positions: np.ndarray) -> float:
    """The largest |error| of cosine and sine."""
    found = 0.0
    for begin in range(0, len(positions), BLOCK):
        some = positions[begin : begin + BLOCK]
        for got, want in zip(implementation(some), truth(some), strict=True):
            if got.shape != want.shape:
                raise AssertionError(f"{got.shape} instead of {want.shape}")
            found = max(found, float(np.abs(got.astype(np.float64) - want).max()))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--dry-run", action="store_true", help="print the rows, keep none")
    dry = parser.parse_args().dry_run
    common = circumstances("numpy", "torch")
    rows = []
    for name, (package, make) in IMPLEMENTATIONS.items():
        for variant in ("float32", "bfloat16"):
            implementation = make(variant == "bfloat16")
            if implementation is None:
                continue
            for bound in BOUNDS:
                positions = sample(bound)
                row = {
                    "implementation": name,
                    "package": f"{package} {version(package)}",
                    "variant": variant,
                    "below": f"2^{bound}",
                    "positions": len(positions),
                    "worst": float(f"{worst(implementation, positions):.3g}"),
                }
                print(*row.values(), sep="  ", flush=True)
                rows.append({"bench": "precision", "dim": DIM, "base": BASE, **row, **common})
    if not dry:
        print(append("precision", rows))


if __name__ == "__main__":
    main()
