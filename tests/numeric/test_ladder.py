"""Ladders and arrangements, against plain arithmetic and written-out vectors."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from mpmath import mp, mpf

import posenc
from posenc import Arrangement, Ladder, Sinusoidal
from posenc._core.numeric.ladder import LADDERS
from tests.oracles import table as oracle
from tests.tolerances import assert_close


@pytest.mark.parametrize(
    ("denominator", "value"),
    [
        ("d/2", 8),
        ("n", 8),
        ("n-1", 7),
        ("n-0.5", 7.5),
        ("n+2", 10),
        ("d", 16),
        ("d-1", 15),
        ("d/4", 4),
        ("2n", 16),
        ("3d/2", 24),
        ("d/2-0.5", 7.5),
        (12.25, 12.25),
        (-3, -3),
    ],
)
def test_denominators(denominator: str | float, value: float) -> None:
    ladder = Ladder(denominator=denominator)
    assert ladder.divisor(count=8, width=16) == Decimal(value)
    rungs = ladder.rungs(1000, count=8, width=16)
    with mp.workdps(60):
        for j, rung in enumerate(rungs):
            exact = mpf(1000) ** (-mpf(j) / mpf(value))
            assert abs(mpf(str(rung)) / exact - 1) < mpf(10) ** -45


def test_rungs_keep_their_digits_along_a_long_ladder() -> None:
    rungs = Ladder().rungs(1e7, count=2560, width=5120)
    with mp.workdps(60):
        exact = mpf(10) ** (-mpf(7 * 2559) / 2560)
        assert abs(mpf(str(rungs[-1])) / exact - 1) < mpf(10) ** -44


def test_first_scales_and_start_moves() -> None:
    plain = Ladder().rungs(100, count=4, width=8)
    moved = Ladder(start=1).rungs(100, count=4, width=8)
    tripled = Ladder(first=3).rungs(100, count=4, width=8)
    with mp.workdps(60):
        for j in range(3):
            assert abs(mpf(str(moved[j])) - mpf(str(plain[j + 1]))) < mpf(10) ** -45
            assert abs(mpf(str(tripled[j])) - 3 * mpf(str(plain[j]))) < mpf(10) ** -45


def test_one_rung_needs_no_ratio() -> None:
    assert Ladder(denominator="n-1").rungs(1e4, count=1, width=2) == (Decimal(1),)
    assert_close(
        posenc.table(Sinusoidal(2, ladder=Ladder(denominator="n-1")), [1]),
        np.array([[np.sin(1), np.cos(1)]]),
        1e-7,
    )
    with pytest.raises(posenc.SpecError, match="Use more pairs"):
        Ladder(denominator="n-2").rungs(1e4, count=2, width=4)


def test_the_user_s_decimal_context_changes_nothing() -> None:
    import decimal

    with decimal.localcontext() as context:
        context.prec = 5
        context.traps[decimal.Inexact] = True
        coarse = Ladder(denominator="n-1", start=0.25).rungs(123.0, count=5, width=10)
    assert coarse == Ladder(denominator="n-1", start=0.25).rungs(123.0, count=5, width=10)


MISTAKES = {
    "exponent 2i/d": lambda c, d: 2 * (c // 2) / d,
    "exponent j/(n-1)": lambda c, d: (c // 2) / (d // 2 - 1),
    "exponent i/d": lambda c, d: (c // 2) / d,
    "exponent 4i/d": lambda c, d: 4 * (c // 2) / d,
    "exponent 2i/(d-1)": lambda c, d: 2 * (c // 2) / (d - 1),
    "exponent 2(i+1)/d": lambda c, d: 2 * (c // 2 + 1) / d,
    "exponent c/d for channel c": lambda c, d: c / d,
    "exponent 2c/d for channel c": lambda c, d: 2 * c / d,
    "cosine exponent 2(i+1)/d": lambda c, d: 2 * (c // 2 + c % 2) / d,
}


@pytest.mark.parametrize("name", LADDERS)
def test_named_ladders_are_what_their_names_say(name: str) -> None:
    exponent = MISTAKES[name]
    spec = Sinusoidal(12, base=50, ladder=LADDERS[name])
    exact = []
    for p in (0, 3, 1000):
        row = []
        for channel in range(12):
            angle = p / 50 ** exponent(channel, 12)
            row.append(np.sin(angle) if channel % 2 == 0 else np.cos(angle))
        exact.append(row)
    assert_close(posenc.table(spec, [0, 3, 1000], dtype="float64"), np.array(exact), 1e-12)


A = Arrangement
THREE = ("t", "h", "w")
LAYOUTS = [
    (A(), 3, (0, 0, 0), (0, 1, 2), (3,)),
    (A(rule="axial", axes=("h", "w")), 4, (0, 0, 1, 1), (0, 1, 0, 1), (2, 2)),
    (
        A(rule="axial", axes=("h", "w"), order=("w", "h"), sizes=(3, 1)),
        4,
        (1, 1, 1, 0),
        (0, 1, 2, 0),
        (1, 3),
    ),
    (A(rule="axial_cyclic", axes=("h", "w")), 4, (0, 1, 0, 1), (0, 0, 1, 1), (2, 2)),
    (
        A(rule="sections", axes=THREE, sizes=(2, 1, 1)),
        4,
        (0, 0, 1, 2),
        (0, 1, 2, 3),
        (4, 4, 4),
    ),
    (
        A(rule="cyclic", axes=THREE, sizes=(4, 2, 2)),
        8,
        (0, 1, 2, 0, 1, 2, 0, 0),
        tuple(range(8)),
        (8, 8, 8),
    ),
    (
        A(rule="alternate", axes=THREE, order=("h", "w", "t"), sizes=(2, 2, 3)),
        7,
        (1, 2, 1, 2, 0, 0, 0),
        tuple(range(7)),
        (7, 7, 7),
    ),
    (A(rule="parity", axes=("h", "w")), 4, (0, 0, 1, 1), (0, 2, 1, 3), (4, 4)),
    (
        A(rule="explicit", axes=("h", "w"), axis=(1, 0, 0), index=(1, -1, 0)),
        3,
        (1, 0, 0),
        (1, -1, 0),
        (2, 2),
    ),
]


@pytest.mark.parametrize(("arrangement", "pairs", "axis", "index", "counts"), LAYOUTS)
def test_layouts(
    arrangement: Arrangement,
    pairs: int,
    axis: tuple[int, ...],
    index: tuple[int, ...],
    counts: tuple[int, ...],
) -> None:
    assert tuple(arrangement.layout(pairs)) == (axis, index, counts)


def test_a_pair_without_a_rung_does_not_turn() -> None:
    still = A(rule="explicit", axis=(0, 0), index=(0, -1))
    spec = Sinusoidal(4, arrangement=still, order="sin_cos")
    assert posenc.frequencies(spec).tolist() == [1.0, 0.0]
    assert posenc.wavelengths(spec)[1] == np.inf
    table = posenc.table(spec, [5, 2**31 - 1])
    assert table[:, 1].tolist() == [0, 0]
    assert table[:, 3].tolist() == [1, 1]
    classic = posenc.table(spec.replace(phase="float32"), [5])
    assert_close(classic, posenc.table(spec, [5]), 1e-6)


def test_frequencies_are_rounded_once() -> None:
    for base, dim in ((10_000.0, 64), (1e7, 128), (3.3, 10)):
        got = posenc.frequencies(Sinusoidal(dim, base=base))
        exact = [
            float(oracle.frequency(j, base=base, denominator=dim / 2)) for j in range(dim // 2)
        ]
        assert got.tolist() == exact


def test_wavelengths_of_the_text() -> None:
    lengths = posenc.wavelengths(Sinusoidal(50))
    assert_close(lengths[[3, 6]], np.array([18.97, 57.3]), 0.02)
    assert lengths[0] == 2 * np.pi
    assert np.isclose(lengths[-1], 2 * np.pi * 10_000 ** (48 / 50), rtol=1e-14)
