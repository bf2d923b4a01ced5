"""Tables in pixels: what is drawn is in the table, and nothing else is drawn."""

from __future__ import annotations

import dataclasses
import math
import tracemalloc
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

import posenc
from posenc._core.errors import ArgumentError, PosencError, SpecError
from posenc.plot.columns import source
from posenc.plot.raster import arranged, tile, tile_of
from posenc.plot.response import FADE, FULL, centres, gain, reduced
from posenc.plot.views import offset
from posenc.plot.views.waves import Curve, curve_of
from tests.tolerances import FLOAT64, assert_close

PERIOD = (50, 45_000, 670)  # width, positions and pixels of a well-known figure


# --- oracles: plain loops, which know nothing of the library --------------------------------------


def wave(d: int, column: int, position: Fraction, base: int = 10_000) -> float:
    """PE(position, column) of the paper, at any real position, by 40 digits."""
    with mpmath.workdps(40):
        angle = mpmath.mpf(position.numerator) / position.denominator
        angle /= mpmath.mpf(base) ** (mpmath.mpf(2 * (column // 2)) / d)
        return float(mpmath.cos(angle) if column % 2 else mpmath.sin(angle))


def share(pixels_per_wave: float) -> float:
    """The part of a wave that is shown, as the documentation has it."""
    u = min(max(math.log(pixels_per_wave / 2) / math.log(4), 0.0), 1.0)
    return u * u * (3 - 2 * u)


def middle(pixel: int, positions: int, pixels: int) -> Fraction:
    """The position at the middle of a pixel; position p is drawn from p to p + 1."""
    return Fraction((2 * pixel + 1) * positions, 2 * pixels) - Fraction(1, 2)


def curve(spec: Any, dim: int, positions: Any = None, *, pixels: int = 512, **more: Any) -> Curve:
    """One column of an encoding over positions."""
    return curve_of(source(spec, caller="waves", **more), dim, positions, pixels=pixels)


# --- the response ---------------------------------------------------------------------------------


def test_the_response_is_nothing_below_2_pixels_and_all_from_8() -> None:
    assert gain(np.array([0.01, 1.0, 1.999, 2.0])).tolist() == [0.0] * 4
    assert gain(np.array([8.0, 9.0, 1e9, np.inf])).tolist() == [1.0] * 4
    between = np.geomspace(2, 8, 101)
    assert_close(gain(between), np.array([share(x) for x in between]), FLOAT64)
    assert (np.diff(gain(between)) > 0).all()
    slope = np.diff(gain(between))
    assert slope[0] < slope[50] / 10  # smooth at both ends
    assert slope[-1] < slope[50] / 10


@pytest.mark.parametrize(("start", "stop", "pixels"), [(0, 45_000, 670), (7, 8, 1), (3, 103, 7)])
def test_pixels_have_their_middle_where_it_is(start: int, stop: int, pixels: int) -> None:
    whole, part = centres(start, stop, pixels)
    assert (np.abs(part) <= 0.5).all()
    for k in range(pixels):
        exact = start + middle(k, stop - start, pixels)
        assert abs(Fraction(int(whole[k])) + Fraction(float(part[k])) - exact) < Fraction(1, 10**12)


def test_the_middle_is_exact_far_out() -> None:
    start = 2**31 - 1000
    whole, part = centres(start, start + 999, 37)
    exact = [start + middle(k, 999, 37) for k in range(37)]
    assert [int(w) for w in whole] == [math.floor(x + Fraction(1, 2)) for x in exact]
    assert_close(
        part, np.array([float(x - int(w)) for x, w in zip(exact, whole, strict=True)]), 1e-12
    )


@pytest.mark.parametrize("pixels_per_wave", [0.7, 1.0, 1.5, 1.9, 3.0, 4.0, 6.0, 9.0, 30.0])
def test_the_filter_has_the_response_of_the_gain(pixels_per_wave: float) -> None:
    count, pixels = 6000, 100
    period = pixels_per_wave * count / pixels
    angles = 2 * np.pi * np.arange(count) / period + 0.3
    rows = np.stack([np.sin(angles), np.cos(angles)], axis=1)
    found = reduced(lambda a, b: rows[a:b], count, pixels, 2)[10:-10]
    at = 2 * np.pi * ((np.arange(pixels) + 0.5) * 60 - 0.5) / period + 0.3
    expected = share(pixels_per_wave) * np.stack([np.sin(at), np.cos(at)], axis=1)[10:-10]
    assert_close(found, expected, 0.002 if pixels_per_wave < 2 else 0.013)


def test_the_filter_keeps_constants_and_does_not_depend_on_its_chunks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((1000, 3)) + np.array([0.0, 5.0, -2.0])
    whole = reduced(lambda a, b: rows[a:b], 1000, 37, 3)
    seen: list[tuple[int, int]] = []

    def fetch(begin: int, end: int) -> np.ndarray:
        seen.append((begin, end))
        return rows[begin:end]

    monkeypatch.setattr("posenc.plot.response.CHUNK", 30)
    assert_close(reduced(fetch, 1000, 37, 3), whole, 1e-12)
    assert sorted(seen) == [(k, min(k + 10, 1000)) for k in range(0, 1000, 10)]  # each row once
    ones = np.ones((500, 1))
    assert_close(reduced(lambda a, b: ones[a:b], 500, 7, 1), np.ones((7, 1)), 1e-12)


def test_the_filter_mirrors_what_lies_beyond_the_ends() -> None:
    rows = np.random.default_rng(4).standard_normal((400, 2))
    padded = np.concatenate([rows[::-1], rows, rows[::-1]])
    mirrored = reduced(lambda a, b: padded[400 + a : 400 + b], 400, 40, 2, (400, 400))
    assert_close(reduced(lambda a, b: rows[a:b], 400, 40, 2), mirrored, 1e-12)


# --- a table with pixels enough -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "count"),
    [
        (posenc.Sinusoidal(16), 64),
        (posenc.Sinusoidal(50), 20),
        (posenc.Sinusoidal(7), 12),
        (posenc.Sinusoidal(1), 5),
        (posenc.Sinusoidal(9, odd="zero_pad"), 5),
        (posenc.Sinusoidal(8, base=100, order="cos_sin"), 9),
        (posenc.Sinusoidal(6), 1),
        (posenc.Timestep(9), 7),
        (posenc.Fourier(9, raw="first"), 6),
        (posenc.preset("fairseq", 16), 10),
        (posenc.preset("tensor2tensor", 12), 10),
    ],
)
def test_each_number_has_its_pixel(spec: posenc.Sinusoidal, count: int) -> None:
    found = tile(spec, count)
    exact = posenc.table(spec, count, dtype="float64")
    assert_close(found.values, exact, 4 * FLOAT64 * max(1, count))
    assert found.method == "exact"
    assert found.blank == 0
    assert found.boundaries == ()
    assert found.places.tolist() == list(range(count))
    assert found.columns.tolist() == list(range(exact.shape[1]))


def test_padding_is_zero_in_the_picture_too() -> None:
    spec = posenc.preset("fairseq", 16)
    place = spec.arrangement.pad - spec.arrangement.start
    found = tile(spec, (place - 1, place + 3))
    assert (found.values[1] == 0).all()
    assert (found.values[[0, 2, 3]] != 0).any(axis=1).all()


def test_positions_near_2_to_the_31_are_exact() -> None:
    start = 2**31 - 4
    found = tile(posenc.Sinusoidal(16), (start, start + 4))
    exact = [[wave(16, c, Fraction(p)) for c in range(16)] for p in range(start, start + 4)]
    assert_close(found.values, np.array(exact), 4e-16 + 2e-19 * 2**31)


def test_orders_are_the_same_columns() -> None:
    spec = posenc.Sinusoidal(10)
    stored = tile(spec, 30)
    for order in ("sin_cos", "cos_sin", "interleaved"):
        other = tile(spec, 30, order=order)
        np.testing.assert_array_equal(other.values, stored.values[:, other.columns])
        assert sorted(other.columns.tolist()) == list(range(10))
    halves = tile(spec, 30, order="sin_cos").values
    assert_close(halves, posenc.table(spec.replace(order="sin_cos"), 30, dtype="float64"), FLOAT64)
    other = posenc.Sinusoidal(10, order="sin_cos")
    assert_close(tile(other, 30, order="interleaved").values, stored.values, FLOAT64)


def test_dims_are_counted_in_the_order_drawn() -> None:
    spec = posenc.Sinusoidal(10)
    whole = tile(spec, 30, order="sin_cos")
    part = tile(spec, 30, order="sin_cos", dims=(4, 7))
    np.testing.assert_array_equal(part.values, whole.values[:, 4:7])
    assert part.columns.tolist() == [8, 1, 3]


# --- a table with fewer pixels --------------------------------------------------------------------


def test_the_well_known_figure_has_no_illusion() -> None:
    d, positions, pixels = PERIOD
    found = tile(posenc.Sinusoidal(d), positions, rows=pixels)
    assert found.blank == 18
    assert found.boundaries == (18.0,)
    assert (found.values[:, :18] == 0).all()
    assert "18 of 50 columns are blank" in " ".join(found.caption)
    assert "67.16 positions" in " ".join(found.caption)
    for column in (18, 25, 33, 49):
        period = 2 * math.pi * 10_000 ** (2 * (column // 2) / d)
        factor = share(period * pixels / positions)
        for pixel in (0, 1, 335, 669):
            exact = factor * wave(d, column, middle(pixel, positions, pixels))
            assert abs(found.values[pixel, column] - exact) < 1e-12
    full = 2 * np.pi * 10_000 ** (2 * (np.arange(d) // 2) / d) * pixels / positions >= 8
    np.testing.assert_array_equal(found.gain == 1, full)


def test_skipping_rows_is_on_purpose_and_says_so() -> None:
    d, positions, pixels = PERIOD
    found = tile(posenc.Sinusoidal(d), positions, rows=pixels, sample=True)
    rows = [k * positions // pixels for k in range(pixels)]
    assert_close(found.values, posenc.table(posenc.Sinusoidal(d), rows, dtype="float64"), 1e-13)
    contrast = found.values[:, :18].std(axis=0) / math.sqrt(0.5)
    assert (contrast > 0.9).all()  # the illusion, in full
    assert found.method == "sample"
    assert "not in the table" in " ".join(found.caption)
    assert tile(posenc.Sinusoidal(d), 100, rows=100, sample=True).method == "exact"


def test_waves_by_their_gain_and_the_same_rows_by_the_filter_are_one_picture() -> None:
    known = source(posenc.Sinusoidal(40))
    unknown = dataclasses.replace(known, waves=None)
    a = tile_of(known, 9000, rows=150)
    b = tile_of(unknown, 9000, rows=150)
    assert (a.method, b.method) == ("gain", "filter")
    assert_close(b.values[8:-8], a.values[8:-8], 0.02)


def test_a_learned_table_is_filtered_over_its_real_rows() -> None:
    spec = posenc.Learned(3, length=6000)
    turns = np.arange(6000)[:, None] / np.array([4.0, 60.0, 3000.0])
    weight = np.cos(2 * np.pi * turns).astype("float32")
    found = tile(spec, 6000, rows=100, params={"weight": weight})
    at = (np.arange(100) + 0.5) * 60 - 0.5
    assert np.abs(found.values[7:-7, :2]).max() < 0.01  # 1/15 and 1 pixel per wave
    assert_close(found.values[7:-7, 2], np.cos(2 * np.pi * at / 3000)[7:-7], 0.01)
    assert found.limit == pytest.approx(np.abs(found.values).max())


def test_rows_beside_the_range_serve_its_ends() -> None:
    spec = posenc.Learned(1, length=1000)
    weight = np.random.default_rng(1).standard_normal((1000, 1)).astype("float32")
    whole = tile(spec, 1000, rows=100, params={"weight": weight}).values
    part = tile(spec, (200, 800), rows=60, params={"weight": weight}).values
    assert_close(part, whole[20:80], 1e-9)


def test_columns_narrower_than_a_pixel_never_mix_sines_and_cosines() -> None:
    d, wide = 4096, 256
    found = tile(posenc.Sinusoidal(d), (0, 4), rows=4, columns=wide)
    assert found.order == "sin_cos"
    half = wide // 2
    assert_close(found.values[0, :half], np.zeros(half), 1e-12)  # sines of position 0
    assert_close(found.values[0, half:], np.ones(half), 1e-12)
    pairs = np.arange(d // 2)
    sines = np.sin(3.0 * 10_000.0 ** (-2 * pairs / d))
    local = sines.reshape(half, -1)
    bounds = local.min(axis=1), local.max(axis=1)
    inside = slice(8, half - 8)
    assert (found.values[3, :half][inside] >= bounds[0][inside] - 0.02).all()
    assert (found.values[3, :half][inside] <= bounds[1][inside] + 0.02).all()
    with pytest.raises(ArgumentError, match="sines and cosines apart"):
        tile(posenc.Sinusoidal(d), 4, columns=wide, order="interleaved")


def test_dimensions_of_a_learned_table_are_filtered_too() -> None:
    spec = posenc.Learned(1000, length=10)
    weight = np.tile(np.linspace(-1, 1, 1000, dtype="float32"), (10, 1))
    weight[:, 1::2] += 0.5
    weight[:, ::2] -= 0.5
    found = tile(spec, 10, columns=50, params={"weight": weight})
    at = (np.arange(50) + 0.5) * 20 - 0.5
    expected = np.tile(-1 + 2 * at / 999, (10, 1))
    assert_close(found.values[:, 8:-8], expected[:, 8:-8], 1e-3)


@pytest.mark.costly
def test_a_huge_table_is_drawn_in_little_memory() -> None:
    spec = posenc.Sinusoidal(65_536)
    tile(posenc.Sinusoidal(64), 1000, rows=10)  # what is made once
    tracemalloc.start()
    try:
        found = tile(spec, 2**24, rows=600, columns=800)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.values.shape == (600, 800)
    assert peak < 150e6  # the table itself has 8.8e12 bytes
    assert found.blank == int((posenc.wavelengths(spec) < 2 * 2**24 / 600).sum()) * 2


def test_a_rotation_shows_the_sines_and_cosines_of_its_angles() -> None:
    rope = posenc.RoPE(8, pairing="half", base=100)
    found = tile(rope, 20)
    cos, sin = posenc.cos_sin(rope, 20, dtype="float64")
    assert_close(found.values, np.concatenate([sin, cos], axis=-1), 1e-13)
    yarn = posenc.scaling.YaRN(8, original_length=64)
    scaled = tile(rope.replace(scaling=yarn), 20)
    assert scaled.limit == pytest.approx(yarn.attention_factor())


def test_grids_are_their_cells_one_after_another() -> None:
    spec = posenc.preset("mae", 16)
    found = tile(spec, 12, grid=(3, 4))
    cells = [[row, column] for row in range(3) for column in range(4)]
    assert_close(found.values, posenc.table(spec, cells, dtype="float64"), FLOAT64)
    assert "grid of 3" in " ".join(found.caption)
    assert tile(spec, grid=(14, 14)).positions == (0, 196)
    with pytest.raises(ArgumentError, match="the number of cells along each of"):
        tile(spec, 12)
    with pytest.raises(ArgumentError, match="spec of several axes"):
        tile(posenc.Sinusoidal(8), 12, grid=(3, 4))


def test_scales_follow_the_encoding() -> None:
    small = posenc.Sinusoidal(16, magnitude=posenc.Magnitude(table_scale="rsqrt_dim"))
    assert tile(small, 8).limit == 0.25
    learned = posenc.Sinusoidal(16, magnitude=posenc.Magnitude(learned="table_scale"))
    found = tile(learned, 8, params={"scale": np.float32(3.0)})
    assert found.limit == 3.0
    assert_close(found.values, 3 * tile(posenc.Sinusoidal(16), 8).values, 1e-12)


# --- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: tile(posenc.Sinusoidal(8), 0), "at least 1"),
        (lambda: tile(posenc.Sinusoidal(8), (5, 5)), "at least 1"),
        (lambda: tile(posenc.Sinusoidal(8), 2**41), "at most 2"),
        (lambda: tile(posenc.Sinusoidal(8), 8, dims=(0, 9)), "dimensions 0 to 7"),
        (lambda: tile(posenc.Sinusoidal(8), 8, rows=0), "at least 1"),
        (
            lambda: tile(posenc.Sinusoidal(4096), 4096, rows=10**5, columns=10**5),
            "at most 4,194,304",
        ),
        (lambda: tile(posenc.Sinusoidal(8), 8, order="sines"), "'sin_cos'"),
        (lambda: tile("sinusoidal", 8), "a spec such as"),
        (lambda: tile(posenc.Sinusoidal, 8), "got the class Sinusoidal"),
        (lambda: tile(posenc.Learned(8, length=4), 4), "what the spec learns"),
        (lambda: tile(posenc.ALiBi(heads=8), 8), "Pictures that show it: 'attention', 'bias'"),
        (lambda: tile(posenc.Shaw(8, clip=4), 8), "Pictures that show it: 'attention'"),
        (lambda: curve(posenc.Sinusoidal(8), 8), "dimensions 0 to 7"),
    ],
)
def test_mistakes_are_named(call, match: str) -> None:
    with pytest.raises(PosencError, match=match):
        call()


def test_a_table_that_ends_says_where() -> None:
    spec = posenc.Learned(4, length=8)
    assert tile(spec, params=posenc.init(spec)).values.shape == (8, 4)
    both = posenc.Summed(4, tables=(posenc.Sinusoidal(4), spec), axes_of=("p", "p"))
    assert tile(both, params=posenc.init(both)).positions == (0, 8)
    assert source(posenc.Sinusoidal(4)).end is None
    with pytest.raises(posenc.PositionError, match="0 to 7"):
        tile(spec, 9, params=posenc.init(spec))


def test_rows_that_cannot_be_filtered_in_time_are_refused() -> None:
    spec = posenc.Time2Vec(4096)
    with pytest.raises(ArgumentError, match="sample"):
        tile(spec, 2**20, params=posenc.init(spec))
    assert tile(spec, 2**20, rows=8, sample=True, params=posenc.init(spec)).method == "sample"


def test_length_dependent_scalings_ask_for_the_length() -> None:
    rope = posenc.RoPE(16, pairing="half", scaling=posenc.scaling.DynamicNTK(2, original_length=64))
    with pytest.raises(ArgumentError, match="the length of the sequence"):
        tile(rope, 8)
    fixed = tile(rope.at(256), 8)
    assert_close(tile(rope, 8, length=256).values, fixed.values, FLOAT64)


def test_classic_arithmetic_is_shown_with_its_error() -> None:
    spec = posenc.Sinusoidal(16, phase="float32")
    assert source(spec).waves is None
    found = tile(spec, (2**20, 2**20 + 8))
    assert_close(found.values, posenc.table(spec, np.arange(2**20, 2**20 + 8)), 1e-7)


def test_arrangement_of_zero_columns_comes_last() -> None:
    held = source(posenc.Sinusoidal(9, odd="zero_pad"))
    assert arranged(held, "sin_cos").tolist() == [0, 2, 4, 6, 1, 3, 5, 7, 8]


def test_limits_of_what_is_shown_stand_in_one_place() -> None:
    assert (FADE, FULL) == (2.0, 8.0)


# --- a column -------------------------------------------------------------------------------------


def test_a_curve_with_pixels_enough_is_the_column() -> None:
    found = curve(posenc.Sinusoidal(12), 5, 90)
    column = posenc.table(posenc.Sinusoidal(12), 90, dtype="float64")[:, 5]
    assert found.shape == "line"
    for values in (found.mean, found.low, found.high):
        assert_close(values, column, 1e-13)
    assert_close(found.middle, np.arange(90), FLOAT64)


def test_a_fast_wave_is_a_band_without_a_pattern() -> None:
    found = curve(posenc.Sinusoidal(50), 0, 45_000, pixels=670)
    assert found.shape == "band"
    assert (found.mean == 0).all()
    assert found.low.max() < -0.99
    assert found.high.min() > 0.99
    slow = curve(posenc.Sinusoidal(50), 49, 45_000, pixels=670)
    assert slow.shape == "line"
    exact = [wave(50, 49, middle(k, 45_000, 670)) for k in range(670)]
    assert_close(slow.mean, np.array(exact), 1e-12)
    assert_close(slow.low, slow.mean, 0)
    assert_close(slow.high, slow.mean, 0)


@pytest.mark.parametrize("pixels", [670, 512, 333])
@pytest.mark.parametrize("spec", [posenc.Sinusoidal(50), posenc.RoPE(32, pairing="half")])
def test_a_curve_is_the_column_of_the_picture_beside_it(spec: Any, pixels: int) -> None:
    heat = tile(spec, 45_000, rows=pixels, columns=512)
    for dim in range(spec.dim):
        found = curve(spec, dim, 45_000, pixels=pixels)
        assert_close(found.mean, heat.values[:, dim], 1e-12)
        # A band has no outline but that of the whole range, and a full wave has no band.
        full = float(share(found.wavelength * pixels / 45_000)) == 1
        assert (found.shape == "line") == full
        assert_close(found.low, found.mean if full else np.full(pixels, -1.0), 1e-2)
        assert_close(found.high, found.mean if full else np.full(pixels, 1.0), 1e-2)
        assert full or np.ptp(found.low) == np.ptp(found.high) == 0


def test_a_wave_of_unknown_frequency_has_no_false_outline_either() -> None:
    rough = posenc.Sinusoidal(50, phase="float32")  # its columns are rows, as their phases round
    heat = tile(rough, 4500, rows=67, columns=50)
    for dim in (0, 1, 20, 21, 49):
        found = curve(rough, dim, 4500, pixels=67)
        assert_close(found.mean, heat.values[:, dim], 1e-9)
        if curve(posenc.Sinusoidal(50), dim, 4500, pixels=67).wavelength * 67 / 4500 < 4:
            assert found.low.max() < -0.9
            assert found.high.min() > 0.9


def test_long_distances_show_no_wave_that_a_pixel_cannot() -> None:
    spec = posenc.Sinusoidal(2, base=1.0)  # one wave of 6.28 distances
    found = offset.data(spec, 45_000, pixels=500)
    assert found.band == "offsets"
    assert_close(found.mean, np.zeros(500), 1e-12)
    long = offset.data(posenc.Sinusoidal(64), 45_000, pixels=500)
    exact = np.zeros(500)
    for k in range(32):
        f = 10_000.0 ** (-2 * k / 64)
        exact += share(2 * math.pi / f / 90) * np.cos(f * long.offsets)
    assert_close(long.mean, exact, 1e-3)


def test_a_learned_column_is_a_band_of_its_values() -> None:
    spec = posenc.Learned(2, length=1000)
    weight = np.random.default_rng(2).standard_normal((1000, 2)).astype("float32")
    found = curve(spec, 1, 1000, pixels=10, params={"weight": weight})
    parts = weight[:, 1].astype(float).reshape(10, 100)
    assert found.shape == "band"
    assert math.isnan(found.wavelength)
    for k in range(10):  # each pixel with two to either side
        around = parts[max(k - 2, 0) : k + 3]
        assert (found.low[k], found.high[k]) == (around.min(), around.max())
    heat = tile(spec, 1000, rows=10, params={"weight": weight})
    assert_close(found.mean, heat.values[:, 1], 1e-12)


def test_a_curve_of_2_to_the_31_positions_is_bounded() -> None:
    fast = curve(posenc.Sinusoidal(64), 0, 2**31, pixels=300)
    assert fast.low.max() < -0.99
    slow = curve(posenc.Sinusoidal(64, base=1e9), 62, 2**31, pixels=300)
    assert slow.shape == "line"
    with pytest.raises(SpecError, match="'bias'"):
        curve(posenc.ALiBi(heads=2), 0)


def test_a_picture_for_a_slide_is_no_larger_than_its_cells() -> None:
    """A table has no more pixels than numbers, however many a width and an assumed height give."""
    (axes, *_) = posenc.plot.table(posenc.Sinusoidal(64), size="10in x 5in").figure.axes
    assert axes.get_window_extent().height < 1500
