"""Rows of the cases for tables of times, places and trees."""

from __future__ import annotations

import numpy as np

from posenc import (
    GridCells,
    HashGrid,
    Init,
    IntegratedFourier,
    Ladder,
    Learned,
    LearnedFourier,
    Magnitude,
    Sinusoidal,
    SoftPosition,
    Sphere2Vec,
    SphericalHarmonics,
    Summed,
    Time2Vec,
    TreePositions,
)
from tests.case import Case, learned
from tests.oracles import places as oracle, table

# Places that float32 holds, as JAX has no other.
TIMES = (0.0, 1.0, -0.5, 2.75, 7.000244140625, 17.0)
BLURS = ((0.5, -0.25, 0.0, 0.125), (-3.0, 1.0, 0.5, 2.0**-9), (0.0, 100.25, 0.0, 4.0))
POINTS = ((0.0, 0.0), (0.5, -0.25), (-1000.5, 12_345.25), (0.333984375, 2.0**-33))
PLACES_ON_EARTH = (
    (0.0, 0.0),
    (8.5, 47.375),
    (-122.25, 37.75),
    (180.0, -90.0),
    (-180.0, 89.9375),
    (540.5, 12.0),
)
UNIT_SQUARE = ((0.0, 0.0), (0.5, 0.25), (1.0, 1.0), (0.333984375, 0.998046875), (0.75, 1.0))
UNIT_CUBE = ((0.0, 0.5, 1.0), (0.25, 0.333984375, 0.75), (1.0, 1.0, 1.0), (0.0625, 0.875, 0.5))
BOXES = ((0.0, 0.5, 1.0, 0.25), (-2.5, 0.75, 3.0, 1.0))
PATHS = ((-1, -1, -1), (0, -1, -1), (1, -1, -1), (0, 1, 1), (2, 0, 1), (2, 2, 2))
WIDE = Init(scale=1.0)
STEEP = {
    name: (2 * np.random.default_rng(5).normal(size=shape)).astype(np.float32).tolist()
    for name, shape in LearnedFourier(6, features=8, hidden=5).shapes.items()
}

PLACES = (
    # The error of an angle is that of a product of floats, and grows with it: up to 50 here.
    learned(
        "time2vec",
        Time2Vec(6),
        lambda w, t: oracle.time2vec(t, w["frequency"], w["shift"], "sin", 0),
        TIMES,
        scale=50,
    ),
    learned(
        "time2vec-trend-last",
        Time2Vec(5, trend="last", init=Init("uniform", scale=0.5)),
        lambda w, t: oracle.time2vec(t, w["frequency"], w["shift"], "sin", 4),
        TIMES,
        scale=50,
    ),
    learned(
        "time-of-graphs",
        Time2Vec(
            4,
            wave="cos",
            trend="none",
            init=Ladder(denominator="n-1"),
            base=1e9,
            shift=Init("constant", scale=0.0),
        ),
        lambda w, t: oracle.time2vec(t, w["frequency"], [0.0] * 4, "cos", None),
        TIMES,
        scale=50,
    ),
    Case(
        "integrated-fourier",
        IntegratedFourier(24, space=("x", "y")),
        lambda p: oracle.blurred(p, [2**k for k in range(6)]),
        BLURS,
        scale=4,  # the exponent is rounded as well
    ),
    Case(
        "integrated-fourier-other-ladder",
        IntegratedFourier(8, space=("x", "y"), base=100, ladder=Ladder(denominator="n", first=2)),
        lambda p: oracle.blurred(p, [2, 0.2]),
        BLURS,
        scale=4,
    ),
    Case(
        "grid-cells",
        GridCells(24, shortest=0.5, longest=10_000.0),
        lambda p: oracle.grid_cells(p, 4, 0.5, 10_000),
        POINTS,
    ),
    Case(
        "grid-cells-one-scale",
        GridCells(6, shortest=3.0, longest=3.0),
        lambda p: oracle.grid_cells(p, 1, 3, 3),
        ((0, 0), (3, 7), (-2, 40_000), (2**31 - 1, 5)),
    ),
    Case(
        "spherical-harmonics",
        SphericalHarmonics(49),
        lambda p: oracle.harmonics(p, 7),
        PLACES_ON_EARTH,
        scale=7,
    ),
    Case(
        "spherical-harmonics-radians",
        SphericalHarmonics(16, unit="radians", sign="condon_shortley"),
        lambda p: oracle.harmonics(p, 4, "radians", phase=1),
        ((0.0, 0.0), (3.25, -1.5), (-1.0, 1.5703125)),
        scale=4,
    ),
    *(
        Case(
            f"sphere2vec-{mixing}",
            Sphere2Vec(3 * share, mixing=mixing, shortest=0.5, longest=360.0),
            lambda p, mixing=mixing: oracle.sphere(p, mixing, 3, 0.5, 360),
            PLACES_ON_EARTH,
            scale=3,  # a product of two waves
        )
        for mixing, share in (("sphereC", 3), ("sphereC+", 6), ("sphereM", 5), ("sphereM+", 8))
    ),
    Case(
        "sphere2vec-radians",
        Sphere2Vec(24, mixing="sphereM+", shortest=0.5, longest=360.0, unit="radians"),
        lambda p: oracle.sphere(p, "sphereM+", 3, 0.5, 360, "radians"),
        ((0.0, 0.0), (3.25, -1.5), (-1.0, 1.5703125)),
        scale=3,
    ),
    learned(
        "soft-position",
        SoftPosition(5, init=WIDE),
        lambda w, p: oracle.linear(oracle.both_ways(p), w["weight"], w["bias"]),
        UNIT_SQUARE,
        scale=8,
    ),
    learned(
        "soft-position-plain",
        SoftPosition(4, space=("x",), features="plain", init=WIDE),
        lambda w, x: oracle.linear([x], w["weight"], w["bias"]),
        (-1.0, 0.0, 0.333984375),
    ),
    learned(
        "learned-fourier",
        LearnedFourier(6, features=8, hidden=5),
        lambda w, p: oracle.learned_fourier(p, w, 1, "gelu"),
        POINTS[:2] + UNIT_SQUARE,
        scale=4,
    ),
    Case(
        "learned-fourier-far-from-linear",
        LearnedFourier(6, features=8, hidden=5),
        lambda p: oracle.learned_fourier(p, STEEP, 1, "gelu"),
        UNIT_SQUARE,
        scale=32,
        params={name: np.array(values, np.float32) for name, values in STEEP.items()},
    ),
    Case(
        "learned-fourier-far-from-linear-tanh",
        LearnedFourier(6, features=8, hidden=5, activation="gelu_tanh"),
        lambda p: oracle.learned_fourier(p, STEEP, 1, "gelu_tanh"),
        UNIT_SQUARE,
        scale=32,
        params={name: np.array(values, np.float32) for name, values in STEEP.items()},
    ),
    learned(
        "learned-fourier-groups",
        LearnedFourier(
            6,
            features=4,
            hidden=3,
            space=("x0", "y0", "x1", "y1"),
            groups=2,
            gamma=2.0,
            activation="gelu_tanh",
        ),
        lambda w, p: oracle.learned_fourier(p, w, 2, "gelu_tanh"),
        BOXES,
        scale=4,
    ),
    learned(
        "hash-grid",
        HashGrid(6, levels=3, log2_size=7, coarsest=2, finest=9, init=WIDE),
        lambda w, p: oracle.hash_grid(p, w["table"], sides=(2, 4, 9), size=128, dense=True),
        UNIT_CUBE,
        scale=40,  # the place in a cell is known to the rounding of up to 9
    ),
    learned(
        "hash-grid-hashed",
        HashGrid(
            4,
            levels=2,
            log2_size=4,
            coarsest=3,
            finest=300_001,
            space=("x", "y"),
            small="hashed",
            init=WIDE,
        ),
        lambda w, p: oracle.hash_grid(p, w["table"], sides=(3, 300_001), size=16, dense=False),
        ((0.0, 1.0), (0.5, 0.25), (1.0, 0.75)),  # exact products with the sides, also in float32
        scale=40,
    ),
    learned(
        "tree",
        TreePositions(18, degree=3, depth=3),
        lambda w, p: oracle.tree(p, w["decay"], degree=3, depth=3, dim=18),
        PATHS,
    ),
    learned(
        "tree-with-zeros",
        TreePositions(14, degree=3, depth=3, init=Init("constant", scale=0.0)),
        lambda w, p: oracle.tree(p, w["decay"], degree=3, depth=3, dim=14),
        PATHS,
    ),
    Case(
        "universal-coordinates",
        Summed(8, tables=(Sinusoidal(8), Sinusoidal(8)), axes_of=("position", "step")),
        lambda p: table.summed(table.vaswani(p[0], 8), table.vaswani(p[1], 8)),
        ((0, 0), (3, 1), (-5, 2), (2**31 - 1, 7)),
        scale=2,
    ),
    learned(
        "summed-places-and-segments",
        Summed(
            6,
            tables=(Sinusoidal(6), Learned(6, length=3, init=WIDE)),
            axes_of=("position", "segment"),
            magnitude=Magnitude(table_scale=0.5, embedding_scale="sqrt_dim"),
        ),
        lambda w, p: [
            v / 2 for v in table.summed(table.vaswani(p[0], 6), w["table1_weight"][p[1]])
        ],
        ((0, 0), (3, 1), (12_345, 2)),
    ),
    learned(
        "summed-on-one-axis",
        Summed(
            4,
            tables=(Sinusoidal(4), Learned(4, length=5, init=WIDE)),
            axes_of=("position", "position"),
        ),
        lambda w, p: table.summed(table.vaswani(p, 4), w["table1_weight"][p]),
        (0, 1, 4, 2),
    ),
)
