"""`posenc.locate`: from numbers back to positions, in every form they come in."""

from __future__ import annotations

import contextlib
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings, strategies as st

import posenc
from posenc._core.numeric.phase import steps
from posenc.detect.locate.arcs import arcs_of, both, density, hits, read_value

FAR = 2**31 - 1
BASES = (10_000.0, 100.0, 2.0, 1.7, 500_000.0, 1e9)


def row(spec: Any, position: Any, dtype: str = "float64", **more: Any) -> np.ndarray:
    """A row rounded once from float64."""
    exact = posenc.table(spec, [position], dtype="float64", **more)[0]
    return as_dtype(np.asarray(exact), dtype)


def as_dtype(x: np.ndarray, dtype: str) -> np.ndarray:
    if dtype == "bfloat16":
        ml_dtypes = pytest.importorskip("ml_dtypes", reason="NumPy has no bfloat16 of its own")
        return x.astype(ml_dtypes.bfloat16)
    return x.astype(dtype)


# --- arcs and digits ------------------------------------------------------------------------------


@given(
    frequency=st.floats(1e-4, 3.3),
    function=st.sampled_from(["sin", "cos"]),
    value=st.floats(-1.05, 1.05),
    width=st.floats(1e-4, 0.4),
    low=st.integers(-200, 150),
)
def test_hits_are_those_of_a_plain_loop(
    frequency: float, function: str, value: float, width: float, low: int
) -> None:
    step = int(steps([Decimal(frequency)])[0])
    arcs = arcs_of(function, Decimal(value - width), Decimal(value + width), 0)
    got = list(hits(step, arcs, low, low + 300))
    values = {p: getattr(math, function)(frequency * p) for p in range(low, low + 301)}
    sure = {p for p, v in values.items() if abs(v - value) < width - 1e-12}
    near = {p for p, v in values.items() if abs(v - value) < width + 1e-12}
    assert sure <= set(got) <= near
    assert [abs(p) for p in got] == sorted(abs(p) for p in got)
    assert len(got) == len(set(got))


def test_density_is_the_share_of_positions() -> None:
    step = int(steps([Decimal(1)])[0])
    arcs = arcs_of("sin", Decimal("0.3"), Decimal("0.31"), 0)
    count = len(list(hits(step, arcs, 0, 10**6)))
    assert abs(count / 10**6 - density(arcs)) < 1e-4
    assert density(arcs_of("cos", Decimal(-2), Decimal(2), 0)) == 1
    assert arcs_of("sin", Decimal(2), Decimal(3), 0) == ()


def test_arcs_of_a_sine_and_a_cosine_meet_in_one_quadrant() -> None:
    quadrant = both(
        arcs_of("sin", Decimal(0), Decimal(1), 0), arcs_of("cos", Decimal(0), Decimal(1), 0)
    )
    assert abs(density(quadrant) - 0.25) < 1e-9


@pytest.mark.parametrize(
    ("text", "low", "high", "cut"),
    [
        ("0.50", "0.495", "0.505", ("0.50", "0.51")),
        ("-0.5", "-0.55", "-0.45", ("-0.6", "-0.5")),
        ("0", "-0.5", "0.5", ("-1", "1")),
        ("4.88e-1", "0.4875", "0.4885", ("0.488", "0.489")),
        (0.5, "0.45", "0.55", ("0.5", "0.6")),
    ],
)
def test_digits_are_intervals(text: Any, low: str, high: str, cut: tuple[str, str]) -> None:
    found = read_value(text, "test")
    assert (found.low, found.high) == (Decimal(low), Decimal(high))
    assert found.cut == tuple(map(Decimal, cut))


def test_numbers_of_arrays_are_known_to_half_a_step() -> None:
    found = read_value(np.float32(0.75), "test")
    assert found.high - found.low == Decimal(2) ** -24
    assert found.cut is None
    assert read_value(np.float16(0.75), "test").high - Decimal("0.75") == Decimal(2) ** -12


# --- values ---------------------------------------------------------------------------------------


def test_the_exercise_that_lost_a_factor() -> None:
    found = posenc.locate(posenc.Sinusoidal(5120), "0.488814", at=1088)
    assert found.position == 7
    assert found.convention == ("the exponent is i/d", "the digits are cut, not rounded")
    assert not found.settled  # 783 positions have these digits
    stated = found.as_stated
    assert stated is not None
    assert stated.positions[0] == 929_505
    assert stated.chance > 0.3 > 1e-3 > found.fits[0].chance
    assert len(stated.positions) == 783
    assert stated.listed == "all"
    assert abs(stated.expected - 784) < 1
    for words in (
        "sin(7 / 10000**(544/5120)) = 0.48881494",
        "With the formula as stated: position 929,505.",
        "gives 0.835354 at position 7, and 0.488814 nowhere before 929,505",
        "the factor 2 of 2i/d is lost",
    ):
        assert words in str(found), words
    # By the formula itself, and by no position before.
    f = Decimal(10_000) ** (Decimal(-1088) / 5120)
    assert round(math.sin(929_505 * float(f)), 6) == 0.488814
    assert f"{math.sin(7 * float(f)):.6f}" == "0.835354"
    p = np.arange(929_505)
    assert not (np.abs(np.sin(p * float(f)) - 0.488814) <= 0.5e-6).any()


def test_the_inverse_of_a_published_example() -> None:
    found = posenc.locate(posenc.Sinusoidal(16, base=100), "0.85", at=3)
    assert found.position == 1
    assert not found.convention
    assert found.fits[0].listed == "first"
    assert found.fits[0].expected > 1e7


@pytest.mark.parametrize(
    ("value", "conventions", "first", "count", "words"),
    [
        ("0.9", "siblings", 3, 804, "0.9 given: from 0.85 to 0.95)"),
        ("0.900", "siblings", 920, 6, "position 39, if the exponent is 2(i+1)/d"),
        ("0.9000", "stated", None, 0, "as stated; the nearest to 0 is 295,365.\nA larger"),
        ("0.9000", "siblings", 24, 1, "stated: no position from 0 to 9,999; the nearest to 0"),
    ],
)  # fmt: skip
def test_what_chance_gives_stands_behind_the_stated_formula(
    value: str, conventions: Any, first: int | None, count: int, words: str
) -> None:
    found = posenc.locate(
        posenc.Sinusoidal(512), value, at=20, within=(0, 9_999), conventions=conventions
    )
    assert (found.position, len(found.positions)) == (first, count)
    assert not found.settled
    assert words in str(found)
    if first is not None:
        assert found.story[0].endswith("; but chance alone may give this.")
    if found.as_stated is None and found.fits:
        assert found.story[0].startswith("No position as stated; position 24, if")


@pytest.mark.costly
@settings(max_examples=60)
@given(
    p=st.integers(0, 2**16),
    at=st.integers(0, 63),
    digits=st.integers(3, 7),
    base=st.sampled_from(BASES),
    order=st.sampled_from(["interleaved", "sin_cos", "cos_sin"]),
    start=st.integers(0, 3),
)
def test_the_truth_is_among_the_positions_of_a_value(
    p: int, at: int, digits: int, base: float, order: Any, start: int
) -> None:
    spec = posenc.Sinusoidal(
        64, base=base, order=order, arrangement=posenc.Arrangement(start=start)
    )
    text = f"{row(spec, p)[at]:.{digits}f}"
    found = posenc.locate(spec, text, at=at, within=(0, 2**16), conventions="stated")
    assert found.best is not None
    assert p in found.positions or found.best.listed == "first"


@pytest.mark.costly
def test_many_digits_far_away() -> None:
    """Steps are rounded, so arcs of narrow values must be wider than the values."""
    mpmath = pytest.importorskip("mpmath", reason="knows sines of large angles")
    mpmath.mp.prec = 160
    for p in range(FAR - 40, FAR + 1):
        angle = p * mpmath.mpf(10_000) ** (-mpmath.mpf(8) / 64)
        text = mpmath.nstr(mpmath.sin(angle), 13, strip_zeros=False)
        found = posenc.locate(
            posenc.Sinusoidal(64), text, at=8, within=(FAR - 10**6, FAR), conventions="stated"
        )
        assert p in found.positions


def test_all_positions_of_a_value_and_no_others() -> None:
    spec = posenc.Sinusoidal(64)
    found = posenc.locate(
        spec, {10: "0.123", 11: "-0.992"}, within=(-50_000, 50_000), conventions="stated"
    )
    table = posenc.table(spec, np.arange(-50_000, 50_001), dtype="float64")
    fits = (np.abs(table[:, 10] - 0.123) <= 0.0005) & (np.abs(table[:, 11] + 0.992) <= 0.0005)
    assert sorted(found.positions) == (np.flatnonzero(fits) - 50_000).tolist()
    assert len(found.positions) > 10


@pytest.mark.costly
def test_siblings_are_found_by_values() -> None:
    stated = posenc.Sinusoidal(128)
    for changed, words in (
        (stated.replace(order="sin_cos"), "the sines come first, then the cosines"),
        (stated.replace(ladder=posenc.Ladder(denominator="n-1")), "the exponent is j/(n-1)"),
        (
            stated.replace(magnitude=posenc.Magnitude(table_scale="sqrt_dim")),
            "the table is multiplied by sqrt(d)",
        ),
    ):
        x = row(changed, 321)
        found = posenc.locate(stated, {k: f"{x[k]:.6f}" for k in (20, 40, 41)})
        assert found.position == 321, words
        assert found.convention == (words,)
    x = row(stated, 321)
    found = posenc.locate(stated, {k + 1: f"{x[k]:.6f}" for k in (20, 40, 61)})
    assert (found.position, found.convention) == (321, ("dimensions are counted from 1",))


def test_one_axis_of_a_grid_by_its_values() -> None:
    spec = posenc.Sinusoidal(64, arrangement=posenc.Arrangement(rule="axial", axes=("h", "w")))
    x = row(spec, (3, 41))
    found = posenc.locate(spec, {k: f"{x[k]:.5f}" for k in (32, 40, 45)}, within=(0, 1000))
    assert found.position == (None, 41)


@pytest.mark.costly
def test_chance_is_calibrated() -> None:
    """Values that belong to no position are rarely taken for one."""
    rng = np.random.default_rng(3)
    spec = posenc.Sinusoidal(128)
    claims = 0
    for _ in range(30):
        value = math.sin(rng.uniform(0, 2 * math.pi))
        found = posenc.locate(spec, f"{value:.6f}", at=int(rng.integers(64)))
        claims += bool(found.fits) and found.fits[0].chance < 1 / 20
    assert claims <= 5  # expected once in 20 each


# --- vectors --------------------------------------------------------------------------------------


@pytest.mark.costly
@settings(max_examples=50, deadline=None)
@given(
    p=st.integers(-FAR, FAR),
    dim=st.sampled_from([64, 65, 96, 256]),
    base=st.sampled_from(BASES),
    order=st.sampled_from(["interleaved", "sin_cos", "cos_sin"]),
    denominator=st.sampled_from(["d/2", "n-1", "d", "n-0.5"]),
    dtype=st.sampled_from(["float64", "float32", "float16", "bfloat16"]),
)
@example(p=FAR, dim=64, base=10_000.0, order="interleaved", denominator="d/2", dtype="bfloat16")
@example(p=0, dim=64, base=10_000.0, order="interleaved", denominator="d/2", dtype="float32")
def test_locate_inverts_table(
    p: int, dim: int, base: float, order: Any, denominator: str, dtype: str
) -> None:
    spec = posenc.Sinusoidal(
        dim, base=base, order=order, ladder=posenc.Ladder(denominator=denominator)
    )
    found = posenc.locate(spec, row(spec, p, dtype))
    assert found.positions == (p,)
    assert not found.convention
    assert found.best is not None
    assert found.best.rival is not None
    assert found.best.rival[1] > 10 * found.residual
    assert found.settled


@pytest.mark.parametrize(
    "ladder",
    [
        posenc.Ladder(spacing="octave", first=2.0**-20),
        posenc.Ladder(cos_shift=0.5),
        posenc.Ladder(cos_shift=1.0),
        posenc.Ladder(start=1.0),
        posenc.Ladder(first=math.pi),
    ],
)
def test_other_ladders(ladder: posenc.Ladder) -> None:
    spec = posenc.Sinusoidal(64, ladder=ladder)
    rng = np.random.default_rng(1)
    for p in rng.integers(-FAR, FAR, 5).tolist():
        assert posenc.locate(spec, row(spec, p, "float32")).positions == (p,)


def test_a_ladder_that_repeats_itself_has_several_positions() -> None:
    """Evenly spaced frequencies tell two numbers of a position, whatever the width."""
    spec = posenc.Sinusoidal(64, ladder=posenc.Ladder(spacing="linear", first=0.5, last=3.0))
    found = posenc.locate(spec, row(spec, -115_153_665, "float32"))
    assert -115_153_665 in found.positions
    assert 1 < len(found.positions) < 20
    rows = posenc.table(spec, found.positions, dtype="float64")
    assert np.abs(rows - row(spec, -115_153_665)).max() < 1e-6


def test_arrays_of_other_libraries() -> None:
    torch = pytest.importorskip("torch", reason="one of the libraries")
    spec = posenc.Sinusoidal(64)
    x = torch.tensor(row(spec, 12_345)).to(torch.bfloat16)
    assert posenc.locate(spec, x).position == 12_345
    assert posenc.locate(spec, x.tolist()).position == 12_345
    jax = pytest.importorskip("jax", reason="one of the libraries")
    assert posenc.locate(spec, jax.numpy.asarray(row(spec, 7))).position == 7


@pytest.mark.parametrize(
    ("width", "noise", "least"), [(64, 0.2, 20), (128, 0.3, 19), (512, 0.4, 19)]
)
def test_noise(width: int, noise: float, least: int) -> None:
    rng = np.random.default_rng([width, 1])
    spec = posenc.Sinusoidal(width)
    right = 0
    for p in rng.integers(-FAR, FAR, 20).tolist():
        x = row(spec, p) + rng.normal(0, noise, width)
        found = posenc.locate(spec, x, conventions="stated")
        assert found.position in (p, None)
        right += found.position == p
    assert right >= least


def test_classic_tables_are_recognised() -> None:
    for p in (100, 2**18 + 3, 2**22 + 77):
        spec = posenc.Sinusoidal(128, phase="float32")
        x = posenc.table(spec, [p])[0]
        found = posenc.locate(posenc.Sinusoidal(128), x)
        assert found.positions == (p,)
        if p > 2**12:
            assert found.convention == ("phases are formed in float32",)


def test_the_embedding_is_taken_off() -> None:
    rng = np.random.default_rng(2)
    magnitude = posenc.Magnitude(embedding_scale="sqrt_dim")
    spec = posenc.Sinusoidal(128, magnitude=magnitude)
    e = rng.normal(size=(1, 128)).astype("float32")
    x = posenc.add(spec, e, offset=4_321)
    assert posenc.locate(spec, x[0], before=e[0]).positions == (4_321,)
    beside = posenc.Concatenated(3, table=posenc.Sinusoidal(64))
    x = posenc.add(beside, np.ones((1, 3), "float32"), offset=99)
    assert posenc.locate(beside, x[0]).position == 99


def test_other_conventions_are_named() -> None:
    stated = posenc.Sinusoidal(128)
    other = posenc.Sinusoidal(
        128,
        order="sin_cos",
        ladder=posenc.Ladder(denominator="n-1"),
        magnitude=posenc.Magnitude(table_scale="sqrt_dim"),
    )
    found = posenc.locate(stated, row(other, 777_777, "float32"))
    assert found.position == 777_777
    assert found.convention == (
        "the exponent is j/(n-1)",
        "the sines come first, then the cosines",
        "the table is multiplied by sqrt(d)",
    )
    best = found.best
    assert best is not None
    assert isinstance(best.spec, posenc.Sinusoidal)
    assert best.spec.order == "sin_cos"
    assert best.spec.ladder == other.ladder
    assert found.as_stated is None
    assert posenc.locate(stated, row(other, 9), conventions="stated").position is None
    swapped = row(stated, 50)[np.arange(128) ^ 1]
    assert posenc.locate(stated, swapped).convention == ("sines and cosines are swapped",)


@pytest.mark.costly
def test_printed_rows_and_their_misprint() -> None:
    spec = posenc.Sinusoidal(16, base=100)
    printed = [
        *(0.91, -0.42, 0.90, 0.43, 0.59, 0.81, 0.35, 0.94),
        *(0.20, 0.98, 0.11, 0.99, 0.06, 1.00, 0.04, 1.00),
    ]
    assert posenc.locate(spec, printed).position == 2
    printed[3] = 0.41
    found = posenc.locate(spec, printed)
    assert found.position == 2
    assert "0.41 at dimension 3, where it has 0.431463" in str(found)


def test_wavelengths_that_are_multiples_of_one() -> None:
    """Four pairs, each ten times as slow: all turn alike after 2000 pi, which is no integer."""
    spec = posenc.Sinusoidal(8)
    for p in (1_234_567_890, -FAR, 6283):
        assert posenc.locate(spec, row(spec, p, "float32")).positions == (p,)


def test_short_vectors_have_many_positions() -> None:
    spec = posenc.Sinusoidal(4)
    found = posenc.locate(spec, row(spec, 5, "float32"))
    assert found.positions[0] == 5
    many = posenc.locate(spec, row(spec, 5, "bfloat16"))
    assert 5 in many.positions
    assert len(many.positions) > 1
    assert not many.settled


@pytest.mark.parametrize("kind", ["Gaussian", "uniform", "phases", "shuffled", "signs"])
def test_what_is_no_row_is_called_none(kind: str) -> None:
    rng = np.random.default_rng(8)
    spec = posenc.Sinusoidal(64)
    angles = rng.uniform(0, 2 * math.pi, 32)
    x = {
        "Gaussian": rng.normal(size=64),
        "uniform": rng.uniform(-1, 1, 64),
        "phases": np.stack([np.sin(angles), np.cos(angles)], axis=1).ravel(),
        "shuffled": rng.permutation(row(spec, int(rng.integers(1, FAR)))),
        "signs": rng.choice([-1.0, 1.0], 64),
    }[kind]
    found = posenc.locate(spec, x.astype("float32"))
    assert found.position is None, str(found)
    assert "No such position" in str(found)


@pytest.mark.slow("detect/locate", release=True)
def test_a_thousand_random_vectors_have_no_position() -> None:
    rng = np.random.default_rng(11)
    spec = posenc.Sinusoidal(64)
    for k in range(1000):
        dtype = ("float32", "float16", "bfloat16")[k % 3]
        x = as_dtype(rng.normal(size=64), dtype)
        assert posenc.locate(spec, x).position is None


# --- several axes, real coordinates, learned rows -------------------------------------------------


@pytest.mark.parametrize("name", ["mae", "detr"])
def test_grids(name: str) -> None:
    spec = posenc.preset(name, 128)
    if spec.coordinates == "real":
        pytest.skip("its coordinates are real, which is tested apart")
    for place in ((0, 0), (3, 41), (1000, 7)):
        assert posenc.locate(spec, row(spec, place, "float32")).positions == (place,)


def test_three_axes_and_sections() -> None:
    arrangement = posenc.Arrangement(rule="sections", axes=("t", "h", "w"), sizes=(16, 24, 24))
    rope = posenc.RoPE(128, pairing="half", arrangement=arrangement)
    q = np.random.default_rng(0).normal(size=(1, 128))
    place = (40, 17, 1003)
    found = posenc.locate(rope, posenc.rotate(rope, q, positions=[place])[0], before=q[0])
    assert found.positions == (place,)


def test_real_coordinates() -> None:
    spec = posenc.Timestep(64)
    for t in (0.0, 37.25, 999.5):
        assert abs(posenc.locate(spec, row(spec, t, "float32")).position - t) < 1e-4
    xy = posenc.Arrangement(rule="axial", axes=("x", "y"))
    bands = posenc.Fourier(66, arrangement=xy, raw="first")
    found = posenc.locate(bands, row(bands, (0.125, -0.7), "float32")).position
    assert np.abs(np.array(found) - [0.125, -0.7]).max() < 1e-6


def test_rows_of_learned_tables() -> None:
    spec = posenc.Learned(16, length=50, start=2, pad=1)
    params = posenc.init(spec, seed=1)
    x = row(spec, 31, "float32", params=params)
    assert posenc.locate(spec, x, params=params).position == 31
    noise = np.random.default_rng(0).normal(0, 0.002, 16)
    assert posenc.locate(spec, x + noise, params=params).position == 31
    assert posenc.locate(spec, noise * 10, params=params).position is None
    grid = posenc.Learned(
        16,
        length=(4, 5),
        lookup=posenc.Lookup(rule="factorised", axes=("row", "column")),
    )
    params = posenc.init(grid, seed=1)
    x = row(grid, (3, 2), "float32", params=params)
    assert posenc.locate(grid, x, params=params).position == (3, 2)


def test_padding() -> None:
    spec = posenc.preset("fairseq", 32)
    found = posenc.locate(spec, np.zeros(32, "float32"))
    assert found.position == spec.arrangement.pad - spec.arrangement.start
    assert posenc.locate(posenc.Sinusoidal(32), np.zeros(32)).position is None


# --- turned queries -------------------------------------------------------------------------------


@pytest.mark.costly
@settings(max_examples=60, deadline=None)
@given(
    p=st.integers(-FAR, FAR),
    pairing=st.sampled_from(["half", "interleaved"]),
    dtype=st.sampled_from(["float64", "float32", "float16", "bfloat16"]),
    seed=st.integers(0, 1000),
)
def test_locate_inverts_rotate(p: int, pairing: Any, dtype: str, seed: int) -> None:
    rope = posenc.RoPE(64, pairing=pairing)
    q = as_dtype(np.random.default_rng(seed).normal(size=(1, 80)), dtype).astype(np.float64)
    y = as_dtype(posenc.rotate(rope, q, positions=[p])[0], dtype)
    found = posenc.locate(rope, y, before=as_dtype(q[0], dtype))
    assert found.positions == (p,)


def test_rotations_of_other_conventions() -> None:
    q = np.random.default_rng(0).normal(size=(1, 128)).astype("float32")
    half = posenc.RoPE(128, pairing="half")
    y = posenc.rotate(half, q, positions=[987_654_321])[0]
    found = posenc.locate(posenc.RoPE(128, pairing="interleaved"), y, before=q[0])
    assert (found.position, found.convention) == (
        987_654_321,
        ("pairs are channels j and j + d/2",),
    )
    xpos = posenc.XPos(64, pairing="half")
    y = posenc.rotate(xpos, q[:, :64], positions=[700])[0]
    assert posenc.locate(xpos, y, before=q[0, :64]).position == 700
    scaled = posenc.RoPE(64, pairing="half", scaling=posenc.scaling.YaRN(8, original_length=4096))
    y = posenc.rotate(scaled, q[:, :64], positions=[20_000])[0]
    assert posenc.locate(scaled, y, before=q[0, :64]).position == 20_000
    assert posenc.locate(half, np.roll(q[0], 1), before=q[0]).position is None


# --- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "x", "more", "words"),
    [
        (posenc.ALiBi(8), np.ones(8), {}, "bias knows the distance"),
        (posenc.Shaw(8, clip=4), np.ones(8), {}, "distances of queries and keys"),
        (posenc.MixedRoPE(8, heads=1, pairing="half"), np.ones(8), {}, "mix the axes"),
        (posenc.Sinusoidal, np.ones(8), {}, "a spec first, as in"),
        (posenc.Sinusoidal(8), np.ones(9), {}, "width 8, got 9"),
        (posenc.Sinusoidal(8), np.ones((2, 8)), {}, "one vector"),
        (posenc.Sinusoidal(8), np.full(8, np.nan), {}, "finite"),
        (posenc.Sinusoidal(8), "0.5", {}, "at="),
        (posenc.Sinusoidal(8), "half", {"at": 1}, "a number with its digits"),
        (posenc.Sinusoidal(8), "0.5", {"at": 8}, "dimensions from 0 to 7"),
        (posenc.Sinusoidal(8), {}, {}, "at least one value"),
        (posenc.Sinusoidal(8), {1: "0.5"}, {"at": 1}, "single value"),
        (posenc.Sinusoidal(8), {1: "0.5"}, {"before": np.ones(8)}, "whole vector"),
        (posenc.Sinusoidal(8), np.ones(8), {"before": np.ones(7)}, "as wide as x"),
        (posenc.Sinusoidal(8), np.ones(8), {"within": (5, 1)}, "least and the largest"),
        (posenc.Sinusoidal(8), np.ones(8), {"within": (0, 2**60)}, "2\\*\\*40"),
        (posenc.Sinusoidal(8), np.ones(8), {"conventions": "all"}, "'siblings' or 'stated'"),
        (posenc.Sinusoidal(8), np.ones(8, int), {}, "float32"),
        (posenc.Timestep(8), "0.5", {"at": 1}, "infinitely many"),
        (posenc.Learned(8, length=4), "0.5", {"at": 1}, "a whole one"),
        (posenc.Learned(8, length=4), np.ones(8), {}, "params="),
        (posenc.RoPE(8, pairing="half"), np.ones(8), {}, "before="),
        (posenc.RoPE(8, pairing="half"), "0.5", {"at": 1}, "before="),
        (posenc.RoPE(8, pairing="half"), np.ones(8), {"before": np.zeros(8)}, "zeros"),
        (posenc.RoPE(8, pairing="half"), np.ones(6), {"before": np.ones(6)}, "at least 8"),
        (
            posenc.RoPE(
                8, pairing="half", scaling=posenc.scaling.DynamicNTK(2, original_length=64)
            ),
            np.ones(8),
            {"before": np.ones(8)},
            "spec.at",
        ),
    ],
)
def test_mistakes(spec: Any, x: Any, more: dict[str, Any], words: str) -> None:
    with pytest.raises(posenc.ArgumentError, match=words):
        posenc.locate(spec, x, **more)


def test_what_cannot_be_a_value() -> None:
    found = posenc.locate(posenc.Sinusoidal(64), "1.7", at=3, conventions="stated")
    assert found.position is None
    assert "at most 1 in size" in str(found)
    assert not found.settled
    assert found.residual == math.inf


def test_the_result_is_json() -> None:
    import json

    spec = posenc.Sinusoidal(64)
    for found in (
        posenc.locate(spec, row(spec, 5)),
        posenc.locate(spec, "0.5", at=1),
        posenc.locate(spec, np.ones(64)),
    ):
        told = json.loads(json.dumps(found.to_dict(), allow_nan=False))
        assert told["position"] == found.position
        assert posenc.from_json(json.dumps(told["stated"])) == spec


@settings(max_examples=40)
@given(st.text(max_size=12))
def test_any_text_is_a_value_or_a_clear_error(text: str) -> None:
    assume(text)
    with contextlib.suppress(posenc.ArgumentError):
        posenc.locate(posenc.Sinusoidal(16), text, at=1, conventions="stated", within=(0, 1000))
