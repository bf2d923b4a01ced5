"""Frequencies solved for: every rule, at the precision of three dtypes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from tools.measure.detective_identify import rounded

import posenc
from posenc import Ladder
from posenc.detect.fit.frequencies import fit_frequencies, nearest_ladder, tolerance_of
from posenc.detect.fit.ladders import MARGIN, bits_of, roundest
from posenc.scaling import (
    NTK,
    DynamicNTK,
    Linear,
    Llama3,
    MixedNTK,
    Multipliers,
    Proportional,
    YaRN,
)
from tests.drawing import drawn

EPS = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
SEARCHED = tuple(float(v) for v in np.round(np.linspace(1, 20, 16) ** 1.1, 2))

# name -> (width, fields of the spec, dtypes in which the parameters are found as they are)
ALL = ("float32", "bfloat16", "float16")
CASES: dict[str, tuple[int, dict[str, Any], tuple[str, ...]]] = {
    "plain": (128, {}, ALL),
    "another base": (128, {"base": 5e5}, ALL),
    "n - 1": (128, {"ladder": Ladder(denominator="n-1")}, ALL),
    "counted from one": (128, {"ladder": Ladder(start=1.0)}, ALL),
    "linear": (128, {"scaling": Linear(4)}, ALL),
    "linear, not whole": (128, {"scaling": Linear(3.7)}, ALL),
    "NTK": (128, {"scaling": NTK(8)}, ("float32",)),
    "mixed NTK": (128, {"scaling": MixedNTK(4)}, ("float32", "float16")),
    "YaRN": (64, {"scaling": YaRN(40, original_length=4096)}, ALL),
    "YaRN, wide": (128, {"base": 1e6, "scaling": YaRN(16, original_length=16384)}, ALL),
    "YaRN, bounds not rounded": (
        64,
        {"base": 150_000, "scaling": YaRN(32, original_length=4096, rounding="none")},
        ("float32",),
    ),
    "YaRN, by turns": (128, {"scaling": YaRN(4, original_length=4096, ramp="turns")}, ALL),
    "Llama 3": (128, {"base": 5e5, "scaling": Llama3(8, original_length=8192)}, ALL),
    "Llama 3, steeper": (
        128,
        {"base": 5e5, "scaling": Llama3(16, original_length=8192, high_freq_factor=6)},
        ("float32", "float16"),
    ),
    "proportional": (256, {"base": 1e6, "scaling": Proportional(0.25)}, ALL),
    "proportional and linear": (
        256,
        {"base": 1e6, "scaling": (Proportional(0.25), Linear(8))},
        ("float32", "float16"),
    ),
    "searched": (32, {"scaling": Multipliers(SEARCHED, use="divide")}, ("float32",)),
    "octaves": (20, {"ladder": Ladder(spacing="octave", first=math.pi)}, ("float32", "float16")),
    "even": (
        128,
        {"ladder": Ladder(spacing="linear", first=math.pi, last=112 * math.pi)},
        ("float32",),
    ),
    "rising": (
        64,
        {"base": 1e-4, "ladder": Ladder(first=math.pi / 2, denominator="n-1")},
        ALL,
    ),
}


def stored(spec: Any, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Frequencies as a file holds them, and the error to expect of each."""
    f = rounded(posenc.frequencies(spec), dtype).astype(np.float64)
    tolerance = tolerance_of(f, EPS[dtype])
    if dtype == "float16":
        tolerance = tolerance + 2.0**-25 / np.maximum(f, 2.0**-25)
    return f, tolerance


@pytest.mark.parametrize("name", CASES)
def test_rules(name: str) -> None:
    width, fields, dtypes = CASES[name]
    spec = posenc.RoPE(width, pairing="half", **fields)
    for dtype in dtypes:
        f, tolerance = stored(spec, dtype)
        best = fit_frequencies(f, tolerance)[0]
        found = (best.base, best.ladder, best.scaling)
        octave = spec.ladder.spacing == "octave" or spec.ladder.spacing == "linear"
        want = (1e4 if octave else spec.base, spec.ladder, spec.scalings)
        assert found == want, (dtype, found)
        assert best.margin >= MARGIN
        assert best.residual <= tolerance.max()


def test_dynamic_ntk_is_ntk_at_its_length() -> None:
    scaling = DynamicNTK(2, original_length=4096, length=8192)
    f, tolerance = stored(posenc.RoPE(128, pairing="half", scaling=scaling), "float32")
    best = fit_frequencies(f, tolerance)[0]
    assert (best.base, best.scaling) == (1e4, (NTK(3.0),))  # 2 * 8192 / 4096 - (2 - 1)


@pytest.mark.costly
def test_a_base_of_no_roundness_is_no_grown_base() -> None:
    # Some of many bases grows into any other by a factor that looks round.
    rng = np.random.default_rng(0)
    for base in np.exp(rng.uniform(math.log(2), math.log(1e9), size=60)):
        f, tolerance = stored(posenc.RoPE(128, pairing="half", base=float(base)), "float32")
        assert fit_frequencies(f, tolerance)[0].scaling == (), base


def test_one_ladder_has_several_names() -> None:
    f, tolerance = stored(posenc.RoPE(128, pairing="half"), "float32")
    best, *others = fit_frequencies(f, tolerance)
    assert best.ratio == pytest.approx(1e4 ** (-1 / 64), rel=1e-12)
    assert any(fit.ladder.denominator == "n-1" for fit in others)
    assert "denominator n-1 is the same ladder" in " ".join(best.remarks)


def test_the_range_of_lengths_behind_a_rounded_ramp() -> None:
    f, tolerance = stored(
        posenc.RoPE(64, pairing="half", scaling=YaRN(40, original_length=4096)), "float32"
    )
    [remark] = fit_frequencies(f, tolerance)[0].remarks
    low, high = (int(word) for word in remark.split() if word.isdigit())
    for length, same in ((low, True), (high, True), (low - 1, False), (high + 1, False)):
        other = posenc.RoPE(64, pairing="half", scaling=YaRN(40, original_length=length))
        alike = np.abs(posenc.frequencies(other) / f - 1).max() < 1e-5
        assert alike == same, length


@pytest.mark.costly
@settings(max_examples=30, deadline=None)
@given(
    base=st.floats(2, 1e9),
    pairs=st.integers(8, 200),
    denominator=st.sampled_from(["d/2", "n-1"]),
)
def test_any_base(base: float, pairs: int, denominator: str) -> None:
    ladder = Ladder(denominator=denominator)
    spec = posenc.RoPE(2 * pairs, pairing="half", base=base, ladder=ladder)
    f, tolerance = stored(spec, "float32")
    fits = fit_frequencies(f, tolerance)
    assert fits
    assert fits[0].margin >= MARGIN
    assert fits[0].ratio == pytest.approx(f[1] / f[0], rel=1e-6)


@pytest.mark.parametrize("seed", drawn(range(40), 10, "detect/fit"))
def test_nothing_is_claimed_of_other_numbers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(4, 100))
    plain = 1e4 ** (-np.arange(count) / count)
    for f in (
        np.sort(rng.uniform(0, 1, count))[::-1],
        np.sort(np.exp(rng.normal(size=count)))[::-1],
        plain * np.exp(rng.normal(size=count) * 1e-3),
        np.sort(plain ** rng.uniform(0.7, 1.3, count))[::-1],
        plain / (1 + np.cumsum(rng.exponential(size=count))),
        np.exp(-(np.arange(count) ** 1.1) / 7),
    ):
        for dtype in ALL:
            g = rounded(f, dtype).astype(np.float64)
            if dtype == "bfloat16" and count < 12:
                continue
            fits = fit_frequencies(g, tolerance_of(g, EPS[dtype]))
            jitter = np.abs(f - plain).max() < 0.05 and dtype != "float32"
            assert jitter or not any(fit.margin >= MARGIN for fit in fits), (seed, dtype, fits[:1])


def test_too_little_is_no_claim() -> None:
    fits = fit_frequencies(np.array([1.0, 0.123]), 1e-7)
    assert all(fit.margin < MARGIN for fit in fits)
    assert fit_frequencies(np.array([]), 1e-7) == ()
    assert fit_frequencies(np.array([1.0, -0.1, 0.01]), 1e-7) == ()
    assert fit_frequencies(np.array([1.0, np.nan]), 1e-7) == ()
    assert fit_frequencies(np.array([1.0, 0.0, 0.5]), 1e-7) == ()


def test_round_numbers_are_cheap_and_accidents_are_not_believed() -> None:
    assert bits_of(10_000) < 10
    assert bits_of(8192) < 10
    assert bits_of(math.pi / 2) < 12
    assert bits_of(9137.42) > 20
    assert roundest(9999.9999, 1e-7) == 10_000
    assert roundest(8192.01, 1e-5) == 8192
    assert roundest(1.2345, 1e-3) is None
    assert roundest(2 * math.pi * (1 + 1e-8), 1e-7) == pytest.approx(2 * math.pi, rel=1e-15)


def test_nearest_ladder() -> None:
    f = 500.0 ** (-np.arange(32) / 32)
    first, ratio, off = nearest_ladder(f)
    assert (first, ratio) == pytest.approx((1, 500 ** (-1 / 32)), rel=1e-9)
    assert off < 1e-9
