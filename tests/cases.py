"""One row for each encoding and each choice that changes its numbers.

A row holds a spec and an independent oracle: a plain function of one position (for tables) that
never imports posenc. `test_cases.py` runs every row on every array library and dtype; a meta-test
fails when an encoding of the registry has no row.
"""

from __future__ import annotations

import numpy as np

from posenc import (
    Arrangement,
    Concatenated,
    Fourier,
    FrequencyMatrix,
    Gaussian,
    Init,
    Ladder,
    Learned,
    Lookup,
    Magnitude,
    Sinusoidal,
    Timestep,
)
from tests.case import POSITIONS, Case, learned
from tests.cases_places import PLACES
from tests.cases_scores import BIASES, RELATIVES, RelativeCase, ScoreCase
from tests.oracles import fourier, table as oracle
from tests.rotary_cases import RAISED, ROTARY, RotaryCase

GRID = ((0, 0), (1, 0), (0, 1), (3, 7), (-2, 40_000), (2**31 - 1, 5))

# Real positions that float32 holds, as JAX has no other: near and far, and both sides of a half.
REALS = (
    0.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    0.49999997019767761,
    2.0**-66,
    -0.3330078125,
    7.000244140625,
    8191.75,
    17,
)
POINTS = ((0.0, 0.0), (0.5, -0.25), (-1.0, 1.0), (0.333984375, 2.0**-33), (-0.9990234375, 0.125))
XYZ = ((0.0, 0.5, -1.0), (0.25, -0.333984375, 0.75))
XY = Arrangement(rule="axial", axes=("x", "y"))
PI = 3.141592653589793
MATRIX = ((0.5, -3.25, 100.0), (2.75, 0.0, 0.001953125))
LINES = ((PI, 2.5 * PI), (PI, 112 * PI))


UNIT = Init(scale=1.0)
CELLS = ((0, 0), (2, 0), (0, 3), (2, 3), (1, 2))

INTEGER_TABLES = (
    Case("vaswani", Sinusoidal(16), lambda p: oracle.vaswani(p, 16)),
    Case("vaswani-base-100", Sinusoidal(64, base=100), lambda p: oracle.vaswani(p, 64, 100)),
    Case("vaswani-odd", Sinusoidal(5), lambda p: oracle.vaswani(p, 5)),
    Case("vaswani-width-1", Sinusoidal(1), lambda p: oracle.vaswani(p, 1)),
    Case("vaswani-width-2", Sinusoidal(2), lambda p: oracle.vaswani(p, 2)),
    Case("base-below-1", Sinusoidal(8, base=0.5), lambda p: oracle.vaswani(p, 8, 0.5)),
    Case(
        "tensor2tensor",
        Sinusoidal(16, ladder=Ladder(denominator="n-1"), order="sin_cos"),
        lambda p: oracle.halves(p, 16, 1e4, 7),
    ),
    Case(
        "tensor2tensor-odd",
        Sinusoidal(17, ladder=Ladder(denominator="n-1"), order="sin_cos", odd="zero_pad"),
        lambda p: oracle.halves(p, 17, 1e4, 7),
    ),
    Case(
        "shifted-denominator",
        Sinusoidal(12, ladder=Ladder(denominator="n-0.5"), order="sin_cos"),
        lambda p: oracle.halves(p, 12, 1e4, 5.5),
    ),
    Case(
        "given-denominator",
        Sinusoidal(12, ladder=Ladder(denominator=10), order="sin_cos"),
        lambda p: oracle.halves(p, 12, 1e4, 10),
    ),
    Case(
        "cos-sin",
        Sinusoidal(12, order="cos_sin"),
        lambda p: oracle.halves(p, 12, 1e4, 6, cosine_first=True),
    ),
    Case(
        "sin-extra",
        Sinusoidal(11, order="sin_cos"),
        lambda p: oracle.sine_keeps_extra(p, 11, 1e4),
    ),
    Case(
        "cut",
        Sinusoidal(11, odd="cut"),
        lambda p: oracle.rounded_up_and_cut((p,), 11, 1e4),
    ),
    Case(
        "exponent-i-over-d",
        Sinusoidal(12, ladder=Ladder(denominator="d"), order="sin_cos"),
        lambda p: oracle.halves(p, 12, 1e4, 12),
    ),
    Case(
        "exponent-c-over-d",
        Sinusoidal(12, ladder=Ladder(cos_shift=0.5)),
        lambda p: oracle.two_exponents(p, 12, 1e4),
    ),
    Case(
        "linear",
        Sinusoidal(8, ladder=Ladder(spacing="linear", first=0.5, last=3.0)),
        lambda p: oracle.linear_ladder(p, 8, 0.5, 3.0),
    ),
    Case(
        "octave",
        Sinusoidal(8, ladder=Ladder(spacing="octave", first=0.125)),
        lambda p: oracle.given_frequencies(p, (0.125, 0.25, 0.5, 1.0)),
    ),
    Case(
        "explicit",
        Sinusoidal(6, ladder=Ladder(spacing="explicit", frequencies=(3.7, 0.0, -0.3))),
        lambda p: oracle.given_frequencies(p, (3.7, 0.0, -0.3)),
    ),
    Case(
        "start-and-pad",
        Sinusoidal(8, arrangement=Arrangement(start=2, pad=1)),
        lambda p: [0.0] * 8 if p == -1 else oracle.vaswani(p + 2, 8),
        (*POSITIONS, -1, -2),
    ),
    Case(
        "scaled",
        Sinusoidal(8, magnitude=Magnitude(table_scale="rsqrt_dim", embedding_scale="sqrt_dim")),
        lambda p: [value / 8**0.5 for value in oracle.vaswani(p, 8)],
    ),
    Case(
        "scaled-up",
        Sinusoidal(8, magnitude=Magnitude(table_scale="sqrt_dim")),
        lambda p: [value * 8**0.5 for value in oracle.vaswani(p, 8)],
        POSITIONS[:5],
        scale=4,
    ),
    Case(
        "axial",
        Sinusoidal(
            16,
            order="sin_cos",
            arrangement=Arrangement(rule="axial", axes=("h", "w"), order=("w", "h")),
        ),
        lambda p: oracle.per_axis(p, 16, 1e4, (1, 0)),
        GRID,
    ),
    Case(
        "axial-cut",
        Sinusoidal(10, odd="cut", arrangement=Arrangement(rule="axial", axes=("h", "w"))),
        lambda p: oracle.rounded_up_and_cut(p, 10, 1e4),
        GRID,
    ),
    Case(
        "axial-zero-pad",
        Sinusoidal(
            18,
            order="sin_cos",
            odd="zero_pad",
            ladder=Ladder(denominator="n-1"),
            arrangement=Arrangement(rule="axial", axes=("h", "w")),
        ),
        lambda p: [*oracle.per_axis(p, 16, 1e4, (0, 1), shift=1), 0.0, 0.0],
        GRID,
    ),
    Case(
        "learned-scale",
        Sinusoidal(8, magnitude=Magnitude(table_scale="rsqrt_dim", learned="table_scale")),
        lambda p: [0.5 * value for value in oracle.vaswani(p, 8)],
        params={"scale": np.float32(0.5)},
    ),
    learned(
        "learned",
        Learned(6, length=5, init=UNIT),
        lambda w, p: w["weight"][p],
        (0, 1, 4, 2, 2),
    ),
    learned(
        "learned-start-pad",
        Learned(6, length=5, start=2, pad=1, init=UNIT),
        lambda w, p: w["weight"][p + 2] if p >= 0 else [0.0] * 6,
        (0, -1, 4, 3),
    ),
    learned(
        "learned-scaled",
        Learned(
            4, length=5, init=UNIT, magnitude=Magnitude(embedding_scale="sqrt_dim", table_scale=3)
        ),
        lambda w, p: [3 * value for value in w["weight"][p]],
        (0, 4, 3),
    ),
    learned(
        "learned-prefix",
        Learned(6, length=(3, 4), lookup=Lookup(prefix=2), init=UNIT),
        lambda w, p: w["weight"][p],
        (0, 1, 2, 13),
    ),
    learned(
        "learned-grid",
        Learned(6, length=(3, 4), lookup=Lookup("grid", axes=("row", "column")), init=UNIT),
        lambda w, p: w["weight"][4 * p[0] + p[1]],
        CELLS,
    ),
    learned(
        "learned-factorised",
        Learned(6, length=(3, 4), lookup=Lookup("factorised", axes=("row", "column")), init=UNIT),
        lambda w, p: oracle.summed(w["row_weight"][p[0]], w["column_weight"][p[1]]),
        CELLS,
    ),
    learned(
        "learned-boxes",
        Learned(
            6,
            length=(3, 4, 3, 4),
            start=1,
            lookup=Lookup("factorised", axes=("x0", "y0", "x1", "y1"), tables=("x", "y", "x", "y")),
            init=UNIT,
        ),
        lambda w, p: oracle.summed(
            w["x_weight"][p[0] + 1],
            w["y_weight"][p[1] + 1],
            w["x_weight"][p[2] + 1],
            w["y_weight"][p[3] + 1],
        ),
        ((0, 0, 2, 3), (1, 2, 2, 3), (2, 3, 2, 3)),
    ),
    learned(
        "learned-concatenated",
        Learned(
            6,
            length=(3, 4),
            lookup=Lookup(
                "concatenated", axes=("row", "column"), order=("column", "row"), sizes=(4, 2)
            ),
            init=UNIT,
        ),
        lambda w, p: w["column_weight"][p[1]] + w["row_weight"][p[0]],
        CELLS,
    ),
    Case(
        "appended",
        Concatenated(3, table=Sinusoidal(8), magnitude=Magnitude(embedding_scale="sqrt_dim")),
        lambda p: oracle.vaswani(p, 8),
    ),
    learned(
        "appended-learned",
        Concatenated(3, table=Learned(4, length=5, init=UNIT)),
        lambda w, p: w["weight"][p],
        (0, 1, 4, 2, 2),
    ),
)

REAL_TABLES = (
    Case(
        "fourier-octaves",
        Fourier(8),
        lambda p: fourier.sines_then_cosines((p,), [[PI * 2**k for k in range(4)]]),
        REALS,
    ),
    Case(
        "fourier-cosines-then-sines",
        Fourier(8, order="cos_sin"),
        lambda p: fourier.cosines_then_sines((p,), [[PI * 2**k for k in range(4)]]),
        REALS,
    ),
    Case(
        "fourier-sines-then-cosines-of-each-axis",
        Fourier(8, ladder=Ladder(spacing="octave"), blocks="axis", arrangement=XY),
        lambda p: [v for x in p for v in fourier.sines_then_cosines((x,), [[1, 2]])],
        POINTS,
    ),
    Case(
        "fourier-linear-per-axis-raw-last",
        Fourier(
            14,
            ladder=(
                Ladder(spacing="linear", first=LINES[0][0], last=LINES[0][1]),
                Ladder(spacing="linear", first=LINES[1][0], last=LINES[1][1]),
            ),
            arrangement=XY,
            raw="last",
        ),
        lambda p: fourier.sines_then_cosines(p, fourier.lines(LINES, 3)) + list(p),
        POINTS,
    ),
    Case(
        "fourier-band-by-band-raw-first",
        Fourier(
            27,
            ladder=Ladder(spacing="octave"),
            blocks="band",
            arrangement=Arrangement(rule="axial_cyclic", axes=("x", "y", "z")),
            raw="first",
        ),
        lambda p: fourier.band_by_band(p, 4),
        XYZ,
    ),
    Case(
        "fourier-interleaved-per-axis-two-bases",
        Fourier(
            16,
            base=(20.0, 10_000.0),
            ladder=Ladder(denominator="n", first=6.25),
            order="interleaved",
            blocks="axis",
            arrangement=XY,
        ),
        lambda p: fourier.interleaved_per_axis(p, 4, (20, 10_000), 6.25),
        POINTS,
    ),
    Case(
        "fourier-matrix",
        Fourier(
            6,
            ladder=FrequencyMatrix(MATRIX, unit="turns"),
            arrangement=Arrangement(rule="mixed", axes=("x", "y")),
        ),
        lambda p: fourier.mixed(p, MATRIX),
        POINTS,
    ),
    Case(
        "fourier-matrix-in-radians",
        Fourier(
            6,
            ladder=FrequencyMatrix(MATRIX),
            arrangement=Arrangement(rule="mixed", axes=("x", "y")),
        ),
        lambda p: fourier.mixed(p, MATRIX, turns=False),
        POINTS,
    ),
    Case(
        "fourier-gaussian",
        Fourier(
            8,
            ladder=Gaussian(seed=5),
            arrangement=Arrangement(rule="mixed", axes=("x", "y")),
        ),
        lambda p: fourier.mixed(p, fourier.drawn(5, 2, 4)),
        POINTS,
    ),
    Case(
        "timestep",
        Timestep(16, ladder=Ladder(denominator="n-1")),
        lambda t: fourier.time(t, 16, base=1e4, shift=1, scale=1, cosine_first=False),
        REALS,
    ),
    Case(
        "timestep-scaled-odd-cosine-first",
        Timestep(17, base=300.0, ladder=Ladder(denominator="n", first=1000.0), order="cos_sin"),
        lambda t: fourier.time(t, 17, base=300, shift=0, scale=1000, cosine_first=True),
        REALS,
    ),
)

TABLES = (*INTEGER_TABLES, *REAL_TABLES, *PLACES)
CASES: tuple[Case | RotaryCase | ScoreCase | RelativeCase, ...] = (
    *TABLES,
    *ROTARY,
    *RAISED,
    *BIASES,
    *RELATIVES,
)
