"""One row for each encoding that acts on attention scores, and each choice that changes it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from posenc import (
    FIRE,
    KERPLE,
    T5,
    TUPE,
    ALiBi,
    CoPE,
    Decay,
    Decomposed,
    Disentangled,
    Init,
    LogCPB,
    MusicTransformer,
    Sandwich,
    Shaw,
    TransformerXL,
    WindowTable,
    init,
)
from posenc._core.spec import Spec
from tests.oracles import bias as oracle
from tests.oracles import relative

QUERIES = (0, 3, 17, -5, 1000, 2**30)
KEYS = (0, 1, 2, 16, 18, 40, -300, 1001, 1 - 2**30)
NEAR = (0, 1, 2, 5, 9, 40)
IMAGE = tuple((row, column) for row in range(2) for column in range(3))
CLASS = ((-1, -1), *IMAGE)


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
        "alibi-learned",
        ALiBi(3, slopes="learned"),
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
    ScoreCase("decay", Decay(4), lambda m, n, h, w: oracle.decay(m, n, 1 - 2.0 ** (-5 - h))),
    ScoreCase(
        "decay-even",
        Decay(5, recipe="even"),
        lambda m, n, h, w: oracle.decay(
            m, n, 1 - math.exp(math.log(1 / 32) + h / 4 * (math.log(1 / 512) - math.log(1 / 32)))
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

    @property
    def params(self) -> dict[str, np.ndarray]:
        """Parameters of unit size, so that no term hides another."""
        rng = np.random.default_rng(self.seed)
        shapes = {name: p.shape for name, p in self.spec.parameters().items()}
        return {k: rng.normal(size=shape).astype(np.float32) for k, shape in shapes.items()}

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
            qs, ks = q[b, h].tolist(), k[b, h].tolist()
            for i, m in enumerate(self.queries):
                for j, n in enumerate(self.keys):
                    out[b, h, i, j] = (
                        relative.cope(
                            qs[i],
                            ks,
                            m,
                            self.keys,
                            j,
                            w,
                            self.spec.length,
                            self.spec.gates == "scaled",
                        )
                        if isinstance(self.spec, CoPE)
                        else self.oracle(qs[i], ks[j], m, n, h, w)
                    )
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
        "decomposed",
        Decomposed(6, size=(2, 3)),
        lambda *a: relative.decomposed(*a, (2, 3), ("row", "column")),
        IMAGE,
        IMAGE[1:],
    ),
    RelativeCase("cope", CoPE(6, length=4), relative.cope, keys=SORTED),
    RelativeCase("cope-raw", CoPE(6, length=3, gates="raw"), relative.cope, keys=SORTED),
)
