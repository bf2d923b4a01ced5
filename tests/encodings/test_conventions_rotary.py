"""Published conventions of rotary embeddings, said in our words.

Which axis and frequency turns each pair, which channels form it, and what multiplies its cosine.

Each row is a convention that was read from the source of its model and run against it. The
frequencies on the right are plain loops.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from mpmath import mpf

import posenc
from posenc import Arrangement, Ladder, MixedRoPE, Pairing, RoPE, RotaryMagnitude, scaling as s
from tests.oracles import rotary as oracle
from tests.oracles.rotary import interleaved, ladder
from tests.tolerances import assert_close


@dataclass(frozen=True)
class Convention:
    """A spec, and what it must say."""

    name: str
    spec: RoPE
    turns: list[tuple[int, mpf]]  # axis and frequency of each pair
    channels: list[tuple[int, int]] = field(default_factory=list)
    factor: float = 1.0


def one(frequencies: list[mpf]) -> list[tuple[int, mpf]]:
    return [(0, f) for f in frequencies]


def dealt(axes: Any, frequencies: list[mpf]) -> list[tuple[int, mpf]]:
    return list(zip(axes, frequencies, strict=True))


def each(*ladders: list[mpf]) -> list[tuple[int, mpf]]:
    return [(axis, f) for axis, rungs in enumerate(ladders) for f in rungs]


def axial(*names: str, **fields: Any) -> Arrangement:
    return Arrangement(rule="axial", axes=names, **fields)


THW = ("t", "h", "w")
LONG = tuple(1 + 0.5 * j for j in range(8))
SHORT = tuple(1 + 0.01 * j for j in range(8))
YARN_FACTOR = 0.1 * math.log(32) + 1
LONG_FACTOR = math.sqrt(1 + math.log(512) / math.log(4096))
E6, E4 = ladder(16, 1e6), ladder(16)

CONVENTIONS = (
    Convention("llama-half", RoPE(16, pairing="half"), one(E4), oracle.half(16)),
    Convention("gpt-neox, a quarter of 64", RoPE(16, pairing="half"), one(E4), oracle.half(16)),
    Convention(
        "cohere",
        RoPE(16, pairing="interleaved", base=5e5),
        one(ladder(16, 5e5)),
        interleaved(16),
    ),
    Convention(
        "gemma4",
        RoPE(128, pairing="half", base=1e6, scaling=s.Proportional(0.25)),
        one(oracle.proportional(128, 1e6, 16)),
        oracle.half(128),
    ),
    Convention(
        "gpt-oss",
        RoPE(
            64,
            pairing="half",
            base=150_000,
            scaling=s.YaRN(32, original_length=4096, rounding="none"),
        ),
        one(oracle.yarn(64, 150_000, 32, 4096, rounded=False)),
        factor=YARN_FACTOR,
    ),
    Convention(
        "llama3",
        RoPE(128, pairing="half", base=5e5, scaling=s.Llama3(8, original_length=8192)),
        one(oracle.llama3(128, 5e5, 8, 8192)),
    ),
    Convention(
        "linear", RoPE(16, pairing="half", scaling=s.Linear(4)), one(oracle.linear(16, 1e4, 4))
    ),
    Convention(
        "dynamic-ntk",
        RoPE(128, pairing="half", scaling=s.DynamicNTK(2, original_length=4096)).at(10_000),
        one(oracle.dynamic_ntk(128, 1e4, 2, 4096, 10_000)),
    ),
    *(
        Convention(
            f"longrope {name}",
            RoPE(
                16,
                pairing="half",
                scaling=s.LongRoPE(SHORT, LONG, original_length=4096, factor=512),
            ).at(length),
            one(oracle.divided(16, 1e4, divisors)),
            factor=LONG_FACTOR,
        )
        for name, length, divisors in (("short", 4096, SHORT), ("long", 4097, LONG))
    ),
    Convention(
        "qwen2-vl",
        RoPE(
            16,
            pairing="half",
            base=1e6,
            arrangement=Arrangement(rule="sections", axes=THW, sizes=(2, 3, 3)),
        ),
        dealt((0, 0, 1, 1, 1, 2, 2, 2), E6),
    ),
    Convention(
        "qwen3-vl",
        RoPE(
            16,
            pairing="half",
            base=1e6,
            arrangement=Arrangement(rule="cyclic", axes=THW, sizes=(2, 3, 3)),
        ),
        dealt((0, 1, 2, 0, 1, 2, 0, 1), E6),
    ),
    Convention(
        "ernie-4.5-vl",
        RoPE(
            16,
            pairing="interleaved",
            base=1e6,
            arrangement=Arrangement(
                rule="alternate", axes=THW, order=("h", "w", "t"), sizes=(3, 3, 2)
            ),
        ),
        dealt((1, 2, 1, 2, 1, 2, 0, 0), E6),
    ),
    Convention(
        "neomme",
        RoPE(
            16,
            pairing="half",
            base=1e6,
            arrangement=Arrangement(rule="alternate", axes=("row", "column")),
        ),
        dealt((0, 1) * 4, E6),
    ),
    Convention(
        "qwen2-vl vision",
        RoPE(32, pairing="half", arrangement=axial("h", "w")),
        each(E4, E4),
        oracle.half(32),
    ),
    Convention(
        "pixtral",
        RoPE(32, pairing="half", arrangement=Arrangement(rule="parity", axes=("h", "w"))),
        [(0, f) for f in ladder(32)[0::2]] + [(1, f) for f in ladder(32)[1::2]],
    ),
    Convention(
        "llama4 vision",
        RoPE(16, pairing="interleaved", arrangement=axial("x", "y", start=1)),
        each(ladder(8), ladder(8)),
    ),
    Convention(
        "gemma4 vision",
        RoPE(32, pairing=Pairing("half", blocks=(8, 8)), arrangement=axial("h", "w")),
        each(E4, E4),
        oracle.half(16) + oracle.half(16, 16),
    ),
    Convention("sam2", RoPE(32, pairing="interleaved", arrangement=axial("h", "w")), each(E4, E4)),
    Convention(
        "dinov3",
        RoPE(
            32,
            pairing="half",
            base=100,
            ladder=Ladder(first=2 * math.pi),
            arrangement=axial("h", "w"),
            phase="real",
        ),
        each(*[ladder(16, 100, 2 * math.pi)] * 2),
    ),
    Convention(
        "minimax-m3 vision, 30 of 32 channels",
        RoPE(30, pairing="half", arrangement=axial(*THW)),
        each(*[ladder(10)] * 3),
        oracle.half(30),
    ),
    Convention(
        "step3 and inkling",
        RoPE(32, pairing="interleaved", arrangement=axial("h", "w", order=("w", "h"))),
        [(1, f) for f in E4] + [(0, f) for f in E4],
    ),
    Convention(
        "flux",
        RoPE(16, pairing="interleaved", arrangement=axial("i", "y", "x", sizes=(2, 3, 3))),
        each(ladder(4), ladder(6), ladder(6)),
    ),
    Convention(
        "wan",
        RoPE(32, pairing="interleaved", arrangement=axial(*THW, sizes=(6, 5, 5))),
        each(ladder(12), ladder(10), ladder(10)),
    ),
    Convention(
        "hunyuan-video",
        RoPE(16, pairing="interleaved", base=256, arrangement=axial(*THW, sizes=(2, 3, 3))),
        each(ladder(4, 256), ladder(6, 256), ladder(6, 256)),
    ),
    Convention(
        "cosmos",
        RoPE(
            32,
            pairing="half",
            scaling=s.PerAxis((s.NTK(2), s.NTK(1.5), s.NTK(3))),
            arrangement=axial(*THW, sizes=(6, 5, 5)),
        ),
        each(oracle.ntk(12, 1e4, 2), oracle.ntk(10, 1e4, 1.5), oracle.ntk(10, 1e4, 3)),
    ),
    Convention(
        "ltx, the last 30 of 32 channels",
        RoPE(
            30,
            pairing=Pairing("interleaved", part="trailing"),
            base=1e-4,
            ladder=Ladder(first=math.pi / 2, denominator="n-1"),
            arrangement=Arrangement(rule="axial_cyclic", axes=THW),
            phase="real",
        ),
        [
            (axis, mpf(math.pi / 2) * mpf(10) ** j)  # 1e-4 ** (-j / 4)
            for j in range(5)
            for axis in range(3)
        ],
        interleaved(30),
    ),
    Convention(
        "lumina",
        RoPE(
            16,
            pairing="interleaved",
            base=30_000,
            scaling=s.Linear(2),
            arrangement=Arrangement(rule="axial_cyclic", axes=("h", "w")),
        ),
        [(axis, f / 2) for f in ladder(8, 30_000) for axis in (0, 1)],
    ),
    Convention(
        "mistral4, magnitude one and scores by length",
        RoPE(
            64,
            pairing=Pairing("interleaved", output="half"),
            scaling=s.YaRN(128, original_length=8192, mscale_all_dim=1),
            magnitude=RotaryMagnitude(
                temperature=posenc.Temperature(rule="log_floor", length=8192)
            ),
        ),
        one(oracle.yarn(64, 1e4, 128, 8192)),
    ),
)


@pytest.mark.parametrize("row", CONVENTIONS, ids=lambda row: row.name)
def test_convention(row: Convention) -> None:
    spec = row.spec
    want = np.array([float(f) for _, f in row.turns])
    assert_close(posenc.frequencies(spec), want, 1e-15 * np.abs(want) + 1e-300, row.name)
    axis = spec.arrangement.layout(spec.pairs).axis
    assert axis == tuple(a for a, _ in row.turns)
    if row.channels:
        assert list(spec.channels.channels(spec.dim)) == row.channels
    assert spec.attention_factor == pytest.approx(row.factor, rel=1e-14)
    assert posenc.from_json(posenc.to_json(spec)) == spec


def test_matrix_of_mochi() -> None:
    """A frequency for every axis and pair."""
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(1, 3, 4))
    where = rng.normal(size=(6, 3))
    spec = MixedRoPE(8, heads=1, pairing="interleaved", space=THW, init="normal")
    cos, _ = posenc.cos_sin(spec, where, dtype="float64", params={"frequencies": matrix})
    want = [
        [math.cos(sum(p * f for p, f in zip(row, column, strict=True))) for column in matrix[0].T]
        for row in where
    ]
    assert_close(cos, np.array(want), 1e-14)
