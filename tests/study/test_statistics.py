"""Statistics against SciPy, against worked examples, and on effects that are planted."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, strategies as st

from posenc._core.errors import ArgumentError
from posenc_study.statistics import (
    SPREAD,
    beyond,
    equivalence,
    holm,
    interval,
    sign_flip,
    t_test,
)

SAMPLES = [
    np.random.default_rng(seed).normal(shift, 0.5, count)
    for seed, (shift, count) in enumerate([(0.0, 2), (0.3, 5), (-0.4, 8), (1.0, 13), (0.0, 20)])
]


@pytest.mark.parametrize("x", SAMPLES)
def test_t_against_scipy(x: np.ndarray) -> None:
    found = scipy.stats.ttest_1samp(x, 0.0)
    assert t_test(x) == pytest.approx(found.pvalue, rel=1e-9)
    low, high = found.confidence_interval(0.95)
    ours = interval(x)
    assert (ours.mean, ours.low, ours.high) == pytest.approx((x.mean(), low, high), rel=1e-9)
    assert ours.count == len(x)
    assert ours.half == pytest.approx((high - low) / 2)


def test_the_paired_test_is_that_of_the_differences() -> None:
    a, b = SAMPLES[2], SAMPLES[2] * 0.7 + 0.1
    assert t_test(a - b) == pytest.approx(scipy.stats.ttest_rel(a, b).pvalue, rel=1e-9)


@pytest.mark.parametrize("x", [s for s in SAMPLES if len(s) <= 13])
def test_sign_flips_against_scipy(x: np.ndarray) -> None:
    found = scipy.stats.permutation_test(
        (x,), np.mean, permutation_type="samples", alternative="two-sided", n_resamples=np.inf
    )
    assert sign_flip(x) == pytest.approx(found.pvalue, abs=1e-12)


def test_sign_flips_by_hand() -> None:
    # Of 3, 2, -1 the sums over all signs are ±6, ±4, ±2, 0, 0; four of the eight are as large as 4.
    assert sign_flip([3.0, 2.0, -1.0]) == 0.5
    assert sign_flip([1.0] * 5) == 2 / 32
    assert sign_flip([1.0] * 8) == 2 / 256
    assert sign_flip([0.0, 0.0]) == 1.0


@given(st.lists(st.floats(-2, 2), min_size=1, max_size=8))
def test_sign_flips_count_every_choice(x: list[float]) -> None:
    sums = [abs(math.fsum(s * v for s, v in zip(signs, x, strict=True)))
            for signs in itertools.product((1, -1), repeat=len(x))]  # fmt: skip
    bound = abs(math.fsum(x)) - 1e-12 * math.fsum(map(abs, x))
    assert sign_flip(x) == pytest.approx(sum(s >= bound for s in sums) / len(sums), abs=1e-9)


def test_equivalence_is_two_one_sided_tests() -> None:
    x, margin = SAMPLES[2] * 0.02, 0.02
    above = scipy.stats.ttest_1samp(x, -margin, alternative="greater").pvalue
    below = scipy.stats.ttest_1samp(x, margin, alternative="less").pvalue
    assert equivalence(x, margin) == pytest.approx(max(above, below), rel=1e-9)


def test_equivalence_by_hand() -> None:
    # Mean 0.005, standard deviation 0.01, 4 pairs: t = (0.02 - 0.005) / 0.005 = 3 with 3 degrees.
    x = np.array([-1.0, -1.0, 1.0, 1.0])
    x = 0.005 + x / x.std(ddof=1) * 0.01
    assert equivalence(x, 0.02) == pytest.approx(0.0288, abs=1e-4)  # a table of Student's t
    assert equivalence(x, 0.005) == pytest.approx(0.5)


def test_beyond_is_what_contradicts() -> None:
    x = np.array([0.09, 0.1, 0.11, 0.1])
    p = scipy.stats.ttest_1samp(x, 0.02, alternative="greater").pvalue
    assert beyond(x, 0.02) == pytest.approx(2 * p)
    assert beyond(-x, 0.02) == pytest.approx(2 * p)
    assert beyond(x / 10, 0.02) > 0.9
    assert beyond(x, 0.0) == pytest.approx(t_test(x))


def test_holm_by_hand() -> None:
    # Four claims: 4 × 0.005, 3 × 0.01, then 2 × 0.03, and 0.04 is not below the one before it.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_never_helps_and_keeps_the_order(p: list[float]) -> None:
    found = holm(p)
    assert all(min(1.0, a) <= b <= 1.0 for a, b in zip(p, found, strict=True))
    assert all(b <= min(1.0, len(p) * a) + 1e-12 or b <= max(found)
               for a, b in zip(p, found, strict=True))  # fmt: skip
    order = np.argsort(p, kind="stable")
    assert np.all(np.diff(np.array(found)[order]) >= 0)
    # Scaled Bonferroni for the smallest.
    assert found[order[0]] == pytest.approx(min(1.0, len(p) * p[order[0]]))


def test_equal_seeds_are_no_certainty() -> None:
    """Eight equal differences divide by zero; half an answer of 512 is no finding."""
    assert t_test([0.0] * 8) == 1.0
    assert t_test([SPREAD / 4] * 8) > 0.4
    assert t_test([0.5] * 8) < 1e-9
    assert equivalence([0.0] * 8, 0.02) < 1e-6


def test_a_single_seed_says_nothing() -> None:
    assert t_test([5.0]) == equivalence([0.0], 1.0) == beyond([5.0], 1.0) == sign_flip([5.0]) == 1.0
    assert math.isnan(interval([5.0]).low)


def test_what_cannot_be_tested() -> None:
    for values in ([], [1.0, math.nan], [math.inf]):
        with pytest.raises(ArgumentError, match="finite numbers"):
            t_test(values)
    with pytest.raises(ArgumentError, match="up to 22 pairs"):
        sign_flip([1.0] * 23)
    with pytest.raises(ArgumentError, match="a margin above 0"):
        equivalence([1.0, 2.0], 0.0)
