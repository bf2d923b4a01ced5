"""One row for each rotation and each choice that changes its numbers.

A row holds a spec and an independent oracle, a function from a position to the cosine and sine of
each pair. `cases.py` adds the rows to its own; `test_rotary.py` runs them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc import (
    LRPE,
    STRING,
    Arrangement,
    FoPE,
    GoldenGateRoPE,
    ImaginaryRoPE,
    Ladder,
    MixedRoPE,
    Pairing,
    PoPE,
    RoPE,
    RotaryMagnitude,
    XPos,
    init,
    scaling as s,
)
from posenc._core.spec.spec import Spec
from tests.oracles import heads, rotary as oracle

POSITIONS = (0, 1, 2, 17, -5, 12_345, 2**31 - 1, -(2**31) + 1)
GRID = ((0, 0), (1, 0), (0, 1), (3, 7), (-2, 40_000), (2**31 - 1, 5))
VOLUME = ((0, 0, 0), (1, 2, 3), (0, 1, 0), (5, 0, 7), (2**31 - 1, -40_000, 3))


@dataclass(frozen=True)
class RotaryCase:
    """A rotation, the cosines and sines it must give, and where."""

    name: str
    spec: Spec
    oracle: Callable[[Any], tuple[list[float], list[float]]]
    positions: tuple[Any, ...] = POSITIONS
    scale: float = 1.0  # size of the largest entry, which the tolerances are multiples of
    params: Any = None


SHORT = (1.0, 1.1, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0)
LONG = (1.0, 2.0, 4.0, 8.0, 16.0, 20.0, 28.0, 32.0)


def scaled(
    name: str, scaling: Any, frequencies: list[Any], dim: int = 16, **fields: Any
) -> RotaryCase:
    """A case of one axis whose oracle is a list of frequencies."""
    magnitude = fields.pop("oracle_magnitude", 1.0)
    fields.setdefault("pairing", "half")
    spec = RoPE(dim, scaling=scaling, **fields)
    return RotaryCase(
        name,
        spec,
        lambda p: oracle.cos_sin(p, frequencies, None, magnitude),
        scale=max(1, magnitude),
    )


def axes_case(
    name: str, arrangement: Arrangement, pairs: list[tuple[int, Any]], positions: Any, **fields: Any
) -> RotaryCase:
    """A case of several axes: for each pair its axis and its frequency."""
    fields.setdefault("pairing", "half")
    sizes = fields.pop("sizes", 1.0)
    spec = RoPE(2 * len(pairs), arrangement=arrangement, **fields)
    turned_by = [axis for axis, _ in pairs]
    frequencies = [f for _, f in pairs]
    return RotaryCase(
        name,
        spec,
        lambda p: oracle.cos_sin(p, frequencies, turned_by, sizes),
        positions,
        scale=max(sizes) if isinstance(sizes, list) else 1.0,
    )


ONE = oracle.ladder(16)  # eight rungs shared by all axes
QUARTER = oracle.ladder(8)
THW = ("t", "h", "w")
MATRIX = np.random.default_rng(0).normal(size=(1, 2, 4)).astype(np.float32)


def xpos_size(p: int) -> tuple[list[float], list[float]]:
    cos, sin = oracle.cos_sin(p, ONE)
    size = oracle.xpos_factor(p, 16, centre=1000)
    return [c * z for c, z in zip(cos, size, strict=True)], [
        c * z for c, z in zip(sin, size, strict=True)
    ]


def imaginary(p: int) -> tuple[list[float], list[float]]:
    """Those of a query: a quarter turn behind its position."""
    cos, sin = oracle.cos_sin(p, ONE)
    return sin, [-c for c in cos]


def mixed(p: Any) -> tuple[list[float], list[float]]:
    angles = [
        sum(oracle.mpf(c) * oracle.mpf(float(MATRIX[0, a, j])) for a, c in enumerate(p))
        for j in range(4)
    ]
    return [float(oracle.mp.cos(a)) for a in angles], [float(oracle.mp.sin(a)) for a in angles]


FOPE = FoPE(16, heads=1, pairing="half", length=512)
FOPE_WEIGHTS = init(FOPE, seed=2)
LRPE_FREQUENCIES = np.random.default_rng(1).normal(size=(1, 1, 4)).astype(np.float32)
STRING_SPEC = STRING(8, heads=1, pairing="half", spread=0.5)
STRING_PARAMS = init(STRING_SPEC, seed=4)

ROTARY = (
    RotaryCase("rope", RoPE(16, pairing="half"), lambda p: oracle.cos_sin(p, ONE)),
    RotaryCase(
        "rope-base-500000",
        RoPE(16, pairing="interleaved", base=5e5),
        lambda p: oracle.cos_sin(p, oracle.ladder(16, 5e5)),
    ),
    RotaryCase(
        "rope-width-2", RoPE(2, pairing="half"), lambda p: oracle.cos_sin(p, oracle.ladder(2))
    ),
    scaled("rotary-linear", s.Linear(4), oracle.linear(16, 1e4, 4)),
    scaled("linear-odd-factor", s.Linear(2.7), oracle.linear(16, 1e4, 2.7)),
    scaled("ntk", s.NTK(8), oracle.ntk(16, 1e4, 8)),
    scaled(
        "dynamic-ntk",
        s.DynamicNTK(2, original_length=4096, length=10_000),
        oracle.dynamic_ntk(16, 1e4, 2, 4096, 10_000),
    ),
    scaled(
        "dynamic-ntk-short",
        s.DynamicNTK(2, original_length=4096).at(100),
        oracle.dynamic_ntk(16, 1e4, 2, 4096, 100),
    ),
    scaled(
        "yarn",
        s.YaRN(40, original_length=4096),
        oracle.yarn(64, 1e4, 40, 4096),
        dim=64,
        oracle_magnitude=oracle.yarn_magnitude(40),
    ),
    scaled(
        "yarn-not-rounded",
        s.YaRN(32, original_length=4096, rounding="none"),
        oracle.yarn(64, 150_000, 32, 4096, rounded=False),
        dim=64,
        base=150_000,
        oracle_magnitude=oracle.yarn_magnitude(32),
    ),
    scaled(
        "yarn-betas-and-mscales",
        s.YaRN(16, original_length=8192, beta_fast=24, beta_slow=2, mscale=0.7, mscale_all_dim=1.3),
        oracle.yarn(64, 1e4, 16, 8192, 24, 2),
        dim=64,
        oracle_magnitude=oracle.yarn_magnitude(16, 0.7, 1.3),
    ),
    scaled(
        "yarn-paper-ramp",
        s.YaRN(4, original_length=4096, ramp="turns"),
        oracle.yarn_paper(64, 1e4, 4, 4096),
        dim=64,
        oracle_magnitude=oracle.yarn_magnitude(4),
    ),
    scaled(
        "yarn-ramp-is-a-step",
        s.YaRN(4, original_length=2048, beta_fast=2, beta_slow=1.9, rounding="outward"),
        oracle.yarn(4, 1e4, 4, 2048, 2, 1.9),
        dim=4,
        oracle_magnitude=oracle.yarn_magnitude(4),
    ),
    scaled(
        "yarn-on-the-softmax",
        s.YaRN(40, original_length=4096),
        oracle.yarn(64, 1e4, 40, 4096),
        dim=64,
        magnitude=RotaryMagnitude(at="softmax"),
    ),
    scaled(
        "llama3",
        s.Llama3(8, original_length=8192),
        oracle.llama3(128, 5e5, 8, 8192),
        dim=128,
        base=5e5,
    ),
    scaled(
        "llama3-factors",
        s.Llama3(32, original_length=2048, low_freq_factor=2, high_freq_factor=9),
        oracle.llama3(64, 1e4, 32, 2048, 2, 9),
        dim=64,
    ),
    scaled(
        "longrope-short",
        s.LongRoPE(SHORT, LONG, original_length=4096, factor=32).at(4096),
        oracle.divided(16, 1e4, SHORT),
        oracle_magnitude=(1 + 5 / 12) ** 0.5,  # sqrt(1 + ln 32 / ln 4096)
    ),
    scaled(
        "longrope2",
        s.LongRoPE((1,) * 8, LONG, original_length=4096, factor=32, short_factor=1.0).at(4096),
        oracle.ladder(16),
    ),
    scaled(
        "longrope-long",
        s.LongRoPE(SHORT, LONG, original_length=4096, factor=32, long_factor=1.25).at(4097),
        oracle.divided(16, 1e4, LONG),
        oracle_magnitude=1.25,
    ),
    scaled("proportional", s.Proportional(0.3), oracle.proportional(64, 1e6, 9), dim=64, base=1e6),
    scaled(
        "mrrope",
        s.MrRoPE(16, original_length=8192),
        oracle.mrrope(64, 5e5, 16, 8192, progressive=True),
        dim=64,
        base=5e5,
        oracle_magnitude=oracle.yarn_magnitude(16),
    ),
    scaled(
        "mrrope-uniform",
        s.MrRoPE(4, original_length=100, radix="uniform", beta_fast=64),
        oracle.mrrope(16, 1e4, 4, 100, progressive=False, fast=64),
        oracle_magnitude=oracle.yarn_magnitude(4),
    ),
    scaled("riflex", s.RIFLEx(4, 66), oracle.riflex(16, 256, 4, 66), base=256),
    scaled(
        "dype",
        s.DyPE(4, 0.7, original_length=64),
        oracle.dype(56, 1e4, 4, 0.7, 64),
        dim=56,
        oracle_magnitude=oracle.yarn_magnitude(4),
    ),
    scaled(
        "dype-at-the-end",
        s.DyPE(4, 0.02, original_length=64),
        oracle.dype(56, 1e4, 4, 0.02, 64),
        dim=56,
        oracle_magnitude=oracle.yarn_magnitude(4),
    ),
    scaled(
        "one-axis",
        s.PerAxis((s.YaRN(40, original_length=4096),)),
        oracle.yarn(64, 1e4, 40, 4096),
        dim=64,
        oracle_magnitude=oracle.yarn_magnitude(40),
    ),
    scaled("mixed-ntk", s.MixedNTK(8, power=0.625), oracle.mixed_ntk(16, 1e4, 8, 0.625)),
    scaled("mixed-ntk-fixed", s.MixedNTK(8), oracle.mixed_ntk(16, 1e4, 8, 1)),
    scaled(
        "multipliers",
        s.Multipliers((1, 0.9, 0.8, 0.7, 0.6, 0.5, 0, -0.3)),
        oracle.times(ONE, (1, 0.9, 0.8, 0.7, 0.6, 0.5, 0, -0.3)),
    ),
    scaled("unit", s.Unit("1/16"), oracle.divided(16, 1e4, [16] * 8)),
    scaled("divisors", s.Multipliers(LONG, use="divide"), oracle.divided(16, 1e4, LONG)),
    scaled(
        "proportional-and-linear",
        (s.Proportional(0.5), s.Linear(8)),
        oracle.over(oracle.proportional(16, 1e4, 4), 8),
    ),
    scaled("ntk-and-linear", (s.NTK(3), s.Linear(2)), oracle.over(oracle.ntk(16, 1e4, 3), 2)),
    scaled(
        "factor-given",
        s.Linear(4),
        oracle.linear(16, 1e4, 4),
        magnitude=RotaryMagnitude(attention_factor=1.2),
        oracle_magnitude=1.2,
    ),
    axes_case(
        "sections",
        Arrangement(rule="sections", axes=THW, sizes=(2, 3, 3)),
        list(zip((0, 0, 1, 1, 1, 2, 2, 2), ONE, strict=True)),
        VOLUME,
    ),
    axes_case(
        "cyclic",
        Arrangement(rule="cyclic", axes=THW, sizes=(2, 3, 3)),
        list(zip((0, 1, 2, 0, 1, 2, 0, 1), ONE, strict=True)),
        VOLUME,
    ),
    axes_case(
        "cyclic-then-first",
        Arrangement(rule="cyclic", axes=THW, sizes=(4, 2, 2)),
        list(zip((0, 1, 2, 0, 1, 2, 0, 0), ONE, strict=True)),
        VOLUME,
    ),
    axes_case(
        "alternate-then-rest",
        Arrangement(rule="alternate", axes=THW, order=("h", "w", "t"), sizes=(3, 3, 2)),
        list(zip((1, 2, 1, 2, 1, 2, 0, 0), ONE, strict=True)),
        VOLUME,
        pairing="interleaved",
    ),
    axes_case(
        "alternate-two",
        Arrangement(rule="alternate", axes=("row", "column"), sizes=(4, 4)),
        list(zip((0, 1) * 4, ONE, strict=True)),
        GRID,
    ),
    axes_case(
        "parity",
        Arrangement(rule="parity", axes=("h", "w")),
        [(0, ONE[j]) for j in (0, 2, 4, 6)] + [(1, ONE[j]) for j in (1, 3, 5, 7)],
        GRID,
    ),
    axes_case(
        "bases",
        Arrangement(rule="axial", axes=THW, sizes=(2, 2, 4)),
        [
            *((0, f) for f in oracle.ladder(4, 20)),
            *((1, f) for f in oracle.ladder(4, 300)),
            *((2, f) for f in oracle.ladder(8, 5e5)),
        ],
        VOLUME,
        base=(20, 300, 5e5),
    ),
    axes_case(
        "bases-shared",
        Arrangement(rule="sections", axes=THW, sizes=(2, 3, 3)),
        [
            (a, oracle.ladder(16, (1e4, 100, 7e6)[a])[j])
            for j, a in enumerate((0, 0, 1, 1, 1, 2, 2, 2))
        ],
        VOLUME,
        base=(1e4, 100, 7e6),
    ),
    RotaryCase(
        "bases-scaled",
        RoPE(
            8,
            pairing="half",
            base=(1e4, 500),
            arrangement=Arrangement(rule="axial", axes=("h", "w")),
            scaling=s.NTK(3),
        ),
        lambda p: oracle.cos_sin(p, oracle.ntk(4, 1e4, 3) + oracle.ntk(4, 500, 3), [0, 0, 1, 1]),
        GRID,
    ),
    axes_case(
        "rotary-axial",
        Arrangement(rule="axial", axes=("h", "w")),
        [(0, f) for f in QUARTER] + [(1, f) for f in QUARTER],
        GRID,
        pairing=Pairing("half", blocks=(4, 4)),
    ),
    axes_case(
        "axial-width-first",
        Arrangement(rule="axial", axes=("h", "w"), order=("w", "h")),
        [(1, f) for f in QUARTER] + [(0, f) for f in QUARTER],
        GRID,
        pairing="interleaved",
    ),
    axes_case(
        "axial-unequal",
        Arrangement(rule="axial", axes=("i", "y", "x"), sizes=(2, 3, 3)),
        [(0, f) for f in oracle.ladder(4)]
        + [(axis, f) for axis in (1, 2) for f in oracle.ladder(6)],
        VOLUME,
        pairing="interleaved",
    ),
    axes_case(
        "axial-cyclic",
        Arrangement(rule="axial_cyclic", axes=("h", "w")),
        [(axis, f) for f in QUARTER for axis in (0, 1)],
        GRID,
        pairing="interleaved",
    ),
    axes_case(
        "ntk-of-each-axis",
        Arrangement(rule="axial", axes=THW, sizes=(2, 3, 3)),
        [(0, f) for f in oracle.ntk(4, 1e4, 2)]
        + [(1, f) for f in oracle.ntk(6, 1e4, 1.5)]
        + [(2, f) for f in oracle.ntk(6, 1e4, 3)],
        VOLUME,
        scaling=s.PerAxis((s.NTK(2.0), s.NTK(1.5), s.NTK(3.0))),
    ),
    axes_case(
        "linear-of-each-axis",
        Arrangement(rule="axial", axes=("h", "w"), sizes=(5, 3)),
        [(0, f) for f in oracle.linear(10, 1e4, 2)] + [(1, f) for f in oracle.linear(6, 1e4, 3)],
        GRID,
        scaling=s.PerAxis((s.Linear(2.0), s.Linear(3.0))),
    ),
    axes_case(
        "time-and-height",
        Arrangement(rule="axial", axes=THW, order=("w", "t", "h"), sizes=(2, 4, 8)),
        [(2, f) for f in oracle.ladder(4, 256)]
        + [(0, f) for f in oracle.riflex(8, 256, 3, 66)]
        + [(1, f) for f in oracle.yarn(16, 256, 4, 64)],
        VOLUME,
        base=256,
        scaling=s.PerAxis((s.RIFLEx(3, 66), s.YaRN(4, original_length=64), None)),
        sizes=[1.0] * 6 + [oracle.yarn_magnitude(4)] * 8,
    ),
    axes_case(
        "pairs-of-axes-in-turn",
        Arrangement(rule="axial_cyclic", axes=("h", "w")),
        [
            pair
            for two in zip(QUARTER, oracle.dype(8, 1e4, 3, 0.6, 64), strict=True)
            for pair in enumerate(two)
        ],
        GRID,
        pairing="interleaved",
        scaling=(s.PerAxis((None, s.DyPE(3, 0.6, original_length=64))),),
        sizes=[1.0, oracle.yarn_magnitude(3)] * 4,
    ),
    axes_case(
        "explicit-with-still-pairs",
        Arrangement(
            rule="explicit",
            axes=("h", "w"),
            axis=(0, 1, 0, 1, 0, 0, 1, 1),
            index=(0, 7, -1, 3, 2, 1, -1, 0),
        ),
        [
            (a, ONE[j] if j >= 0 else 0 * ONE[0])
            for a, j in zip((0, 1, 0, 1, 0, 0, 1, 1), (0, 7, -1, 3, 2, 1, -1, 0), strict=True)
        ],
        GRID,
    ),
    RotaryCase(
        "start",
        RoPE(16, pairing="half", arrangement=Arrangement(start=1)),
        lambda p: oracle.cos_sin(p + 1, ONE),
    ),
    RotaryCase(
        "first-2-pi",
        RoPE(16, pairing="half", base=100, ladder=Ladder(first=6.283185307179586)),
        lambda p: oracle.cos_sin(p, oracle.ladder(16, 100, 6.283185307179586)),
    ),
    RotaryCase(
        "given-frequencies",
        RoPE(6, pairing="half", ladder=Ladder(spacing="explicit", frequencies=(3.7, 0.0, -0.3))),
        lambda p: oracle.cos_sin(p, [oracle.mpf(f) for f in (3.7, 0.0, -0.3)]),
    ),
    RotaryCase("imaginary", ImaginaryRoPE(16, pairing="half"), imaginary),
    RotaryCase(
        "xpos",
        XPos(16, pairing="interleaved", centre=1000),
        xpos_size,
        (0, 1, 999, 1000, 1001, 3000),
        scale=13,
    ),
    RotaryCase(
        "mixed",
        MixedRoPE(8, heads=1, pairing="half"),
        mixed,
        ((0, 0), (1, 0), (0, 1), (3, 7), (-2, 14)),
        scale=30,  # the error grows with the angle, up to 29 here
        params={"frequencies": MATRIX},
    ),
    RotaryCase(
        "golden-gate",
        GoldenGateRoPE(8, heads=1, pairing="half", lowest=0.5, highest=20.0, still=0.25),
        lambda p: heads.golden_gate(p, 0, 4, 0.5, 20, 1),
        ((0, 0), (1, 0), (0, 1), (2, -1)),
        scale=50,  # directions are float64, and angles go up to 40
    ),
    RotaryCase(
        "golden-gate-real",
        GoldenGateRoPE(
            4, heads=1, pairing="interleaved", lowest=1.0, highest=8.0, space=("x", "y", "z")
        ),
        lambda p: heads.golden_gate(p, 0, 2, 1, 8, 0),
        ((0.0, 0.5, -1.0), (0.25, -0.333984375, 0.75)),
        scale=4,
    ),
    RotaryCase(
        "lrpe-turned",
        LRPE(16, heads=1, pairing="half", form="turned"),
        lambda p: oracle.cos_sin(p, ONE),
    ),
    RotaryCase(
        "fope",
        FOPE,
        lambda p: heads.series(p, FOPE_WEIGHTS, [ONE[j] for j in range(4)], 8, 1.0),
        scale=8,  # a sum of four weighted waves
        params=FOPE_WEIGHTS,
    ),
    RotaryCase(
        "fope-plain",
        FOPE.replace(still="plain"),
        lambda p: heads.series(p, FOPE_WEIGHTS, [ONE[j] for j in range(4)], 8, 0.0),
        scale=8,
        params=FOPE_WEIGHTS,
    ),
    RotaryCase(
        "lrpe-learned",
        LRPE(8, heads=1, pairing="half", form="turned", learned="frequencies"),
        lambda p: heads.mixed((p,), LRPE_FREQUENCIES[0].tolist()),
        (0, 1, 2, 17, -5),
        scale=30,  # the error grows with the angle
        params={"frequencies": LRPE_FREQUENCIES},
    ),
    RotaryCase(
        "between-integers",
        RoPE(16, pairing="half", phase="real"),
        lambda p: oracle.cos_sin(oracle.mpf(p), ONE),
        (0.0, 0.5, -1.25, 7.000244140625, 8191.75),
    ),
)

# What happens to an input is more than that pairs turn.
RAISED = (
    RotaryCase(
        "lrpe-doubled",
        LRPE(8, heads=1, pairing="half"),
        lambda p: oracle.cos_sin(p, QUARTER + [f * QUARTER[-1] / 10 for f in QUARTER]),
    ),
    RotaryCase(
        "pope",
        PoPE(8, heads=1, pairing="interleaved", offset="none"),
        lambda p: oracle.cos_sin(p, ONE),
    ),
    RotaryCase(
        "pope-with-offsets",
        PoPE(8, heads=1, pairing="half", offset="uniform"),
        lambda p: oracle.cos_sin(p, ONE),
        params=init(PoPE(8, heads=1, pairing="half", offset="uniform"), seed=3),
    ),
    RotaryCase(
        "string",
        STRING_SPEC,
        lambda p: heads.mixed(p, STRING_PARAMS["frequencies"][0].tolist()),
        ((0, 0), (1, 0), (0, 1), (3, 7), (-2, 14)),
        scale=30,  # the error grows with the angle
        params=STRING_PARAMS,
    ),
)
