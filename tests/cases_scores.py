"""One row for each encoding that acts on attention scores, and each choice that changes it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from posenc import (
    DAPE,
    FIRE,
    IRPE,
    KERPLE,
    NEZHA,
    T5,
    TENER,
    TISA,
    TUPE,
    AdaptiveSpan,
    ALiBi,
    ALiBi2D,
    ClippedTable,
    ComplexOffsets,
    CoPE,
    Decay,
    Decomposed,
    Disentangled,
    DynamicBias,
    ForgetGates,
    GatedBuckets,
    Init,
    IRPEBias,
    Ladder,
    LogCPB,
    MusicTransformer,
    OffsetTable,
    PaTH,
    PositionSensitive,
    Quadratic,
    RelativeSegments,
    RotaryBias,
    Sandwich,
    Shaw,
    SpatialBuckets,
    TransformerXL,
    WindowTable,
    init,
)
from posenc._core.spec.spec import Spec
from tests.oracles import bias as oracle, relative

QUERIES = (0, 3, 17, -5, 1000, 2**30)
KEYS = (0, 1, 2, 16, 18, 40, -300, 1001, 1 - 2**30)
NEAR = (0, 1, 2, 5, 9, 40)
IMAGE = tuple((row, column) for row in range(2) for column in range(3))
CLASS = ((-1, -1), *IMAGE)
CELLS = ((0, 0), (3, 4), (-7, 2), (20, 9), (1, -40), (2, 1))
CHAINS = (  # chain, residue, token, entity, copy
    (0, 0, 0, 0, 0),
    (0, 0, 1, 0, 0),
    (0, 9, 2, 0, 0),
    (1, 0, 3, 0, 1),
    (2, 0, 4, 1, 0),
    (3, 5, 5, 0, 7),
)
BOXES = ((0, 10, 10), (1, 25, 10), (2, 700, 12), (7, 10, 900), (300, 11, 40))


def plain(params: Mapping[str, np.ndarray]) -> dict[str, Any]:
    return {name: values.tolist() for name, values in params.items()}


@dataclass(frozen=True)
class ScoreCase:
    """A spec, its entry by the paper (m, n, h, parameters) -> number, and where."""

    name: str
    spec: Any
    oracle: Callable[..., float]
    queries: tuple[Any, ...] = QUERIES
    keys: tuple[Any, ...] = KEYS
    params: Mapping[str, np.ndarray] = field(default_factory=dict)
    roundings: float = 1.0  # more of them than a few, as in sums and perceptrons
    waves: float = 0.0  # sum of the amplitudes of phases, which err with the distance

    def exact(self) -> np.ndarray:
        """(heads, queries, keys) by the oracle."""
        lists = plain(self.params)
        return np.array(
            [
                [[self.oracle(m, n, h, lists) for n in self.keys] for m in self.queries]
                for h in range(self.spec.heads)
            ]
        )


def learned(
    name: str, spec: Spec, entry: Callable[..., float], queries: Any = QUERIES, keys: Any = KEYS
) -> ScoreCase:
    return ScoreCase(name, spec, entry, queries, keys, init(spec, seed=3))


def unit(spec: Spec, seed: int = 5) -> dict[str, np.ndarray]:
    """Parameters of unit size, so that no term hides another."""
    rng = np.random.default_rng(seed)
    return {k: rng.normal(size=shape).astype(np.float32) for k, shape in spec.shapes.items()}


UNIT = Init(scale=1.0)
TWELVE = oracle.slopes(12)

BIASES: tuple[ScoreCase, ...] = (
    ScoreCase(
        "alibi", ALiBi(8), lambda m, n, h, w: oracle.symmetric(m, n, oracle.power_slopes(8)[h])
    ),
    ScoreCase("alibi-12", ALiBi(12), lambda m, n, h, w: oracle.symmetric(m, n, TWELVE[h])),
    ScoreCase(
        "alibi-geometric",
        ALiBi(12, recipe="geometric"),
        lambda m, n, h, w: oracle.symmetric(m, n, oracle.power_slopes(12)[h]),
    ),
    ScoreCase(
        "alibi-max-bias",
        ALiBi(6, max_bias=4),
        lambda m, n, h, w: oracle.symmetric(m, n, oracle.slopes(6, 4)[h]),
    ),
    ScoreCase(
        "alibi-causal", ALiBi(12, form="causal"), lambda m, n, h, w: oracle.causal(m, n, TWELVE[h])
    ),
    ScoreCase("alibi-key-only", ALiBi(12, form="key_only"), lambda m, n, h, w: TWELVE[h] * n),
    ScoreCase(
        "alibi-some-heads",
        ALiBi(5, biased=3),
        lambda m, n, h, w: oracle.symmetric(m, n, [*oracle.slopes(3), 0.0, 0.0][h]),
    ),
    ScoreCase(
        "alibi-numbers",
        ALiBi(3, recipe=(0.7, 0.0, 0.003)),
        lambda m, n, h, w: oracle.symmetric(m, n, (0.7, 0.0, 0.003)[h]),
    ),
    ScoreCase(
        "alibi-learned",
        ALiBi(3, recipe="learned"),
        lambda m, n, h, w: oracle.symmetric(m, n, math.exp(w["log_slopes"][h])),
        params={"log_slopes": np.array([0.3, -2.0, -4.0], dtype=np.float32)},
    ),
    learned(
        "t5",
        T5(3, init=UNIT),
        lambda m, n, h, w: w["weight"][oracle.t5_bucket(n - m, 32, 128, True)][h],
    ),
    learned(
        "t5-causal",
        T5(3, direction="causal", init=UNIT),
        lambda m, n, h, w: w["weight"][oracle.t5_bucket(n - m, 32, 128, False)][h],
    ),
    learned(
        "t5-odd",
        T5(2, buckets=27, max_distance=777, init=UNIT),
        lambda m, n, h, w: w["weight"][oracle.t5_bucket(n - m, 27, 777, True)][h],
    ),
    learned(
        "kerple-log",
        KERPLE(4),
        lambda m, n, h, w: oracle.kerple_log(m, n, max(w["r1"][h], 0.01), max(w["r2"][h], 0.01)),
    ),
    learned(
        "kerple-power",
        KERPLE(4, form="power"),
        lambda m, n, h, w: oracle.kerple_power(m, n, w["r1"][h], w["r2"][h]),
        NEAR,
        KEYS[:6],
    ),
    ScoreCase(
        "kerple-clamped",
        KERPLE(2, form="power"),
        lambda m, n, h, w: oracle.kerple_power(m, n, 0.01, [0.01, 2.0][h]),
        NEAR,
        KEYS[:6],
        {"r1": np.array([-1.0, 0.0], np.float32), "r2": np.array([-3.0, 7.0], np.float32)},
    ),
    learned(
        "fire",
        FIRE(3, width=5, threshold=20.0),
        lambda m, n, h, w: oracle.fire(m, n, h, w, 20.0),
    ),
    ScoreCase(
        "sandwich",
        Sandwich(3, dim=24),
        lambda m, n, h, w: oracle.sandwich(m, n, h, 3, 24, 1e4),
        waves=24,
    ),
    ScoreCase(
        "sandwich-from-one",
        Sandwich(3, dim=8, ladder=Ladder(start=1)),
        lambda m, n, h, w: oracle.sandwich(m, n, h, 3, 8, 1e4, 1),
        waves=8,
    ),
    learned(
        "window",
        WindowTable(3, window=(2, 3), init=UNIT),
        lambda m, n, h, w: w["weight"][oracle.window_cell(m, n, (2, 3))][h],
        IMAGE,
        IMAGE[1:],
    ),
    learned(
        "window-class",
        WindowTable(3, window=(2, 3), extra="class_token", init=UNIT),
        lambda m, n, h, w: w["weight"][oracle.window_with_class(m, n, (2, 3))][h],
        CLASS,
        CLASS,
    ),
    learned(
        "window-3d",
        WindowTable(2, window=(2, 2, 3), init=UNIT),
        lambda m, n, h, w: w["weight"][oracle.window_cell(m, n, (2, 2, 3))][h],
        tuple((t, *cell) for t in range(2) for cell in IMAGE),
        ((0, 0, 2), (1, 1, 0)),
    ),
    learned(
        "log-cpb",
        LogCPB(3, window=(2, 3), hidden=7, init=UNIT),
        lambda m, n, h, w: oracle.log_cpb(m, n, h, w, (2, 3)),
        IMAGE,
        IMAGE,
    ),
    learned(
        "log-cpb-larger",
        LogCPB(2, window=(3, 4), trained_window=(2, 3), hidden=7, init=UNIT),
        lambda m, n, h, w: oracle.log_cpb(m, n, h, w, (2, 3)),
        IMAGE,
        ((2, 3), (0, 0)),
    ),
    learned(
        "tupe",
        TUPE(2, dim=6, length=8, init=UNIT),
        lambda m, n, h, w: oracle.tupe(m, n, h, w, 2, True),
        (0, 1, 7, 3),
        (0, 1, 2, 7),
    ),
    learned(
        "tupe-tied",
        TUPE(2, dim=6, length=8, class_position="tied", init=UNIT),
        lambda m, n, h, w: oracle.tupe(m, n, h, w, 2, False),
        (0, 1, 7, 3),
        (0, 1, 2, 7),
    ),
    ScoreCase(
        "tisa",
        TISA(3, kernels=2),
        lambda m, n, h, w: oracle.tisa(m, n, h, w),
        (0, 3, 5),
        (0, 1, 2, 9, -6),
        unit(TISA(3, kernels=2)),
    ),
    ScoreCase(
        "offset-table",
        OffsetTable(3, size=(2, 3)),
        lambda m, n, h, w: w["weight"][h][oracle.offset_cell(m, n, (2, 3))],
        IMAGE,
        IMAGE[1:],
        unit(OffsetTable(3, size=(2, 3))),
    ),
    ScoreCase(
        "alibi-2d",
        ALiBi2D(12),
        lambda m, n, h, w: oracle.euclidean(m, n, TWELVE[h]),
        CELLS,
        CELLS[1:],
    ),
    ScoreCase(
        "alibi-2d-geometric",
        ALiBi2D(6, recipe="geometric"),
        lambda m, n, h, w: oracle.euclidean(m, n, oracle.power_slopes(6)[h]),
        CELLS,
        CELLS[1:],
    ),
    ScoreCase(
        "alibi-2d-class",
        ALiBi2D(3, extra="class_token", max_bias=4),
        lambda m, n, h, w: oracle.euclidean(m, n, oracle.slopes(3, 4)[h], token=True),
        CLASS,
        CLASS,
    ),
    learned(
        "clipped",
        ClippedTable(3, clip=(-4, 3), init=UNIT),
        lambda m, n, h, w: w["weight"][oracle.clipped_row(m, n, -4, 3, False)][h],
    ),
    learned(
        "clipped-absolute",
        ClippedTable(3, clip=4, form="absolute", init=UNIT),
        lambda m, n, h, w: w["weight"][oracle.clipped_row(m, n, -4, 4, True)][h],
    ),
    ScoreCase(
        "quadratic",
        Quadratic(5),
        lambda m, n, h, w: oracle.quadratic(m, n, h, w),
        CELLS,
        CELLS[1:],
        unit(Quadratic(5)),
    ),
    ScoreCase(
        "quadratic-free",
        Quadratic(5, form="free"),
        lambda m, n, h, w: oracle.quadratic(m, n, h, w),
        CELLS,
        CELLS[1:],
        unit(Quadratic(5, form="free")),
    ),
    learned(
        "spatial",
        SpatialBuckets(3, init=UNIT),
        lambda m, n, h, w: oracle.spatial(m, n, h, w, (32, 128), (64, 256)),
        BOXES,
        BOXES[1:],
    ),
    ScoreCase(
        "adaptive-span",
        AdaptiveSpan(3, length=20, ramp=8),
        lambda m, n, h, w: oracle.adaptive_span(m, n, h, w, 20, 8),
        (20, 30, 5),
        (0, 1, 7, 12, 15, 19, 30, 31),
        {"span": np.array([0.125, 0.5, 1.0], dtype=np.float32)},
    ),
    ScoreCase(
        "rotary-bias",
        RotaryBias(3, dim=6),
        lambda m, n, h, w: oracle.rotary_bias(m, n, h, w),
        params=unit(RotaryBias(3, dim=6)),
        roundings=3,
        waves=12,
    ),
    ScoreCase(
        "rotary-bias-wide",
        RotaryBias(1, dim=20, base=100.0),
        lambda m, n, h, w: oracle.rotary_bias(m, n, h, w, 100.0),
        NEAR,
        KEYS[:6],
        unit(RotaryBias(1, dim=20)),
        roundings=4,
    ),
    *(
        ScoreCase(
            f"dynamic-{form}",
            DynamicBias(3, window=(2, 3), width=5, form=form),
            lambda m, n, h, w, form=form: oracle.dynamic(m, n, h, w, form == "residual"),
            IMAGE,
            IMAGE,
            unit(DynamicBias(3, window=(2, 3), width=5)),
            roundings=5,
        )
        for form in ("plain", "residual")
    ),
    *(
        ScoreCase(
            f"irpe-{method}",
            IRPEBias(3, method=method),
            lambda m, n, h, w, method=method: oracle.irpe(
                m, n, h, w, False, method, 1.9, 3.8, 15.2
            ),
            CELLS,
            (*CELLS, (0, 60), (60, 0)),
            unit(IRPEBias(3, method=method)),
        )
        for method in ("product", "cross", "euclidean", "quantised")
    ),
    ScoreCase(
        "irpe-class",
        IRPEBias(2, method="cross", alpha=2.5, beta=7.0, gamma=20.0, extra="class_token"),
        lambda m, n, h, w: oracle.irpe(m, n, h, w, True, "cross", 2.5, 7.0, 20.0),
        CLASS,
        CLASS,
        unit(IRPEBias(2, method="cross", beta=7.0, extra="class_token")),
    ),
    ScoreCase(
        "complex-offsets",
        ComplexOffsets(3, residues=4, copies=1),
        lambda m, n, h, w: oracle.complex_offsets(m, n, h, w, 4, 1),
        CHAINS,
        CHAINS[1:],
        unit(ComplexOffsets(3, residues=4, copies=1)),
    ),
    ScoreCase("decay", Decay(4), lambda m, n, h, w: oracle.decay(m, n, 1 - 2.0 ** (-5 - h))),
    ScoreCase(
        "decay-even",
        Decay(4, recipe="even"),  # five heads would have the powers
        lambda m, n, h, w: oracle.decay(
            m, n, 1 - math.exp(math.log(1 / 32) + h / 3 * (math.log(1 / 512) - math.log(1 / 32)))
        ),
    ),
)


# --- relative -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RelativeCase:
    """A spec of the fourth kind and its entry (q, k, m, n, h, parameters) -> number."""

    name: str
    spec: Any
    oracle: Callable[..., float]
    queries: tuple[Any, ...] = (0, 3, 17, -5)
    keys: tuple[Any, ...] = (0, 1, 2, 16, 18, 40, -300)
    heads: int = 2
    seed: int = 3
    sees: Literal["pair", "keys", "heads"] = "pair"  # what the oracle is given of q and k

    @property
    def params(self) -> dict[str, np.ndarray]:
        """Parameters of unit size."""
        return unit(self.spec, self.seed)

    def content(self) -> tuple[np.ndarray, np.ndarray]:
        """Queries and keys (2, heads, …, dim), float32."""
        rng = np.random.default_rng(11)
        q = rng.normal(size=(2, self.heads, len(self.queries), self.spec.dim))
        k = rng.normal(size=(2, self.heads, len(self.keys), self.spec.dim))
        return q.astype(np.float32), k.astype(np.float32)

    def exact(self, q: np.ndarray, k: np.ndarray) -> np.ndarray:
        """(2, heads, queries, keys) by the oracle."""
        w = plain(self.params)
        out = np.empty((*q.shape[:-1], k.shape[-2]))
        for b, h in np.ndindex(q.shape[:2]):
            qs, ks = q[b].tolist(), k[b].tolist()
            for i, m in enumerate(self.queries):
                for j, n in enumerate(self.keys):
                    sides: tuple[Any, ...] = (qs[h][i], ks[h][j], m, n, h)
                    if self.sees == "keys":
                        sides = (qs[h][i], ks[h], m, self.keys, j, h)
                    elif self.sees == "heads":
                        sides = ([x[i] for x in qs], [x[j] for x in ks], m, n, h)
                    out[b, h, i, j] = self.oracle(*sides, w)
        return out


SORTED = (-300, 0, 1, 2, 16, 18, 40)

RELATIVES: tuple[RelativeCase, ...] = (
    RelativeCase("shaw", Shaw(6, clip=4), lambda *a: relative.shaw(*a, -4, 4)),
    RelativeCase(
        "shaw-zero",
        Shaw(6, clip=4, outside="zero"),
        lambda *a: relative.shaw(*a, -4, 4, outside="zero"),
    ),
    RelativeCase(
        "shaw-query-key",
        Shaw(6, clip=(-16, 15), acts_on="keys", distance="query-key"),
        lambda *a: relative.shaw(*a, -16, 15, sign=-1),
    ),
    RelativeCase(
        "shaw-both",
        Shaw(6, clip=16, acts_on="keys_queries"),
        lambda *a: relative.shaw(*a, -16, 16, both=True),
    ),
    RelativeCase(
        "music",
        MusicTransformer(6, count=2, length=20),
        lambda *a: relative.music(*a, 20),
        (0, 3, 17),
        (0, 1, 2, 16, 18, 40),
    ),
    RelativeCase(
        "transformer-xl",
        TransformerXL(6, count=2, width=10),
        lambda *a: relative.transformer_xl(*a, 10),
    ),
    RelativeCase(
        "conformer",
        TransformerXL(6, count=2, width=10, base=100.0, order="interleaved"),
        lambda *a: relative.transformer_xl(*a, 10, 100.0, True),
    ),
    RelativeCase(
        "disentangled",
        Disentangled(6, count=2, max_distance=8),
        lambda *a: relative.disentangled(*a, 8, lambda r: r),
    ),
    RelativeCase(
        "disentangled-paper",
        Disentangled(6, count=2, max_distance=8, direction="paper"),
        lambda *a: relative.disentangled(*a, 8, lambda r: r, paper=True),
    ),
    RelativeCase(
        "disentangled-buckets",
        Disentangled(6, count=2, max_distance=64, buckets=12),
        lambda *a: relative.disentangled(*a, 12, lambda r: relative.log_bucket(r, 12, 64)),
    ),
    RelativeCase(
        "disentangled-c2p",
        Disentangled(6, count=2, max_distance=8, terms="c2p"),
        lambda *a: relative.disentangled(*a, 8, lambda r: r),
    ),
    RelativeCase(
        "disentangled-p2c",
        Disentangled(6, count=2, max_distance=8, terms="p2c"),
        lambda *a: relative.disentangled(*a, 8, lambda r: r),
    ),
    RelativeCase(
        "decomposed",
        Decomposed(6, size=(2, 3)),
        lambda *a: relative.decomposed(*a, (2, 3), ("row", "column")),
        IMAGE,
        IMAGE[1:],
    ),
    RelativeCase(
        "cope",
        CoPE(6, length=4),
        lambda *a: relative.cope(*a, 4),
        keys=SORTED,
        sees="keys",
    ),
    RelativeCase(
        "cope-raw",
        CoPE(6, length=3, gates="raw"),
        lambda *a: relative.cope(*a, 3, scaled=False),
        keys=SORTED,
        sees="keys",
    ),
    RelativeCase(
        "transformer-xl-clamp",
        TransformerXL(6, count=2, width=10, clamp=9),
        lambda *a: relative.transformer_xl(*a, 10, clamp=9),
    ),
    RelativeCase(
        "transformer-xl-ladder",
        TransformerXL(6, count=2, width=10, ladder=Ladder(denominator="n-1")),
        lambda *a: relative.transformer_xl(*a, 10, last=4),
    ),
    *(
        RelativeCase(
            f"irpe-contextual-{method}",
            IRPE(6, method=method, acts_on=acts_on),
            lambda *a, method=method: relative.irpe(*a, False, method, 1.9, 3.8, 15.2),
            CELLS,
            (*CELLS, (0, 60)),
        )
        for method, acts_on in (
            ("product", "keys"),
            ("cross", "keys_queries"),
            ("euclidean", "keys_queries_values"),
            ("quantised", "keys_queries"),
        )
    ),
    RelativeCase(
        "irpe-contextual-class",
        IRPE(6, acts_on="keys_queries", extra="class_token"),
        lambda *a: relative.irpe(*a, True, "product", 1.9, 3.8, 15.2),
        CLASS,
        CLASS[1:],
    ),
    RelativeCase(
        "gated",
        GatedBuckets(6, count=2, buckets=12, max_distance=40),
        lambda *a: relative.gated(*a, 12, 40),
    ),
    RelativeCase(
        "position-sensitive",
        PositionSensitive(6, length=20),
        lambda *a: relative.position_sensitive(*a, 20),
        (0, 3, 17),
        (0, 1, 2, 16, 18),
    ),
    RelativeCase("nezha", NEZHA(6, clip=8), lambda *a: relative.nezha(*a, 8, 8)),
    RelativeCase(
        "nezha-paper",
        NEZHA(6, clip=30, counts_from="zero"),
        lambda *a: relative.nezha(*a, 30, 0),
    ),
    RelativeCase("tener", TENER(6, count=2), lambda *a: relative.tener(*a, False, 2)),
    RelativeCase(
        "tener-paper",
        TENER(6, count=2, ladder=Ladder(), terms="paper", scaling="root"),
        lambda *a: relative.tener(*a, True, None),
    ),
    RelativeCase(
        "segments", RelativeSegments(6, count=2), relative.segments, (0, 0, 1), (0, 1, 1, 2)
    ),
    RelativeCase(
        "segments-class",
        RelativeSegments(6, count=2, common=2),
        lambda *a: relative.segments(*a, 2),
        (0, 2, 1),
        (0, 1, 1, 2),
    ),
    RelativeCase(
        "forget",
        ForgetGates(6, count=2),
        relative.forget,
        keys=SORTED,
        sees="keys",
    ),
    RelativeCase("path", PaTH(6, count=2), relative.path, keys=SORTED, sees="keys"),
    RelativeCase(
        "dape",
        DAPE(6, count=3, width=5),
        lambda *a: relative.dape(*a, oracle.slopes(3)),
        heads=3,
        sees="heads",
    ),
    RelativeCase(
        "dape-geometric",
        DAPE(6, count=3, width=5, recipe="geometric"),
        lambda *a: relative.dape(*a, oracle.power_slopes(3)),
        heads=3,
        sees="heads",
    ),
)
