r"""What a handful of seeds can say: intervals, paired tests, equivalence, many claims at once.

The unit is the seed. The test examples of one model are no replicates: they share its weights, and
counting them makes every difference significant. Cells of one seed share weights and batches, so
differences are taken within seeds.

    difference    t test of the mean difference, two-sided
                  sign flips: of all 2^n signs of the n differences, the part whose sum is as large
    equivalence   two one-sided t tests, against the margin on either side (TOST)
    many claims   Holm's step-down adjustment

n pairs give no p of sign flips below 2 / 2^n: 0.0625 for 5, 0.0078 for 8. No adjustment for twenty
claims survives that, so the t test is adjusted, and the sign flips, unadjusted, may only veto it.

Where every seed gives the same score, the t test divides by zero and believes anything. A score is
a count of right answers, known to its rounding alone, so a standard deviation is taken to be at
least `SPREAD`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from posenc._core.errors import ArgumentError, mismatch

SPREAD = 0.002  # about one answer of 512
MOST_PAIRS = 22  # 2^22 sums are 32 MiB


@dataclass(frozen=True)
class ConfidenceInterval:
    """A mean over seeds, and the range that holds the mean of all seeds with 95 % confidence.

    Parameters
    ----------
    mean : float
        Of the seeds.
    low, high : float
        Ends of the interval; both NaN for a single seed, which says nothing about others.
    count : int
        Number of seeds.
    """

    mean: float
    low: float
    high: float
    count: int

    @property
    def half(self) -> float:
        """Half of the width, the number behind ±."""
        return (self.high - self.low) / 2


def interval(values: Sequence[float], *, confidence: float = 0.95) -> ConfidenceInterval:
    r"""The mean of some seeds with its t-interval.

    mean ± t(confidence, n − 1) · s / √n
    """
    x = _checked("interval", values)
    if len(x) == 1:
        return ConfidenceInterval(float(x[0]), math.nan, math.nan, 1)
    from scipy.special import stdtrit  # type: ignore[import-untyped]

    quantile = float(stdtrit(len(x) - 1, (1 + confidence) / 2))
    half = quantile * float(x.std(ddof=1)) / math.sqrt(len(x))
    mean = float(x.mean())
    return ConfidenceInterval(mean, mean - half, mean + half, len(x))


def detectable(measured: ConfidenceInterval, *, alpha: float, power: float = 0.8) -> float:
    r"""The smallest mean difference that a paired t test would mostly have found.

    (t(1 − alpha / 2, n − 1) + t(power, n − 1)) · s / √n
    """
    if measured.count == 1:
        return math.inf
    from scipy.special import stdtrit

    freedom = measured.count - 1
    error = max(measured.half / float(stdtrit(freedom, 0.975)), SPREAD / math.sqrt(measured.count))
    return float((stdtrit(freedom, 1 - alpha / 2) + stdtrit(freedom, power)) * error)


def t_test(differences: Sequence[float]) -> float:
    """The two-sided p of the paired t test."""
    x = _checked("t_test", differences)
    return 1.0 if len(x) == 1 else 2 * min(_above(x, 0.0), _above(-x, 0.0))


def sign_flip(differences: Sequence[float]) -> float:
    """The exact two-sided p of sign flips.

    It is the part of all 2^n choices of signs whose sum is at least as far from zero as the one
    that came, as each sign could as well have been the other, were there no effect.
    """
    x = _checked("sign_flip", differences)
    if len(x) > MOST_PAIRS:
        todo = "Give fewer seeds."
        raise ArgumentError(mismatch("sign_flip", f"up to {MOST_PAIRS} pairs", len(x), todo))
    sums = np.zeros(1)
    for value in x:
        sums = np.concatenate((sums + value, sums - value))
    rounding = 1e-12 * float(np.abs(x).sum())
    return float(np.mean(np.abs(sums) >= abs(float(x.sum())) - rounding))


def equivalence(differences: Sequence[float], margin: float) -> float:
    """The p of two one-sided tests: small where the mean lies within ± margin."""
    x = _checked("equivalence", differences)
    if not margin > 0:
        raise ArgumentError(mismatch("equivalence", "a margin above 0", margin))
    return 1.0 if len(x) == 1 else max(_above(x, -margin), _above(-x, -margin))


def holm(p: Sequence[float]) -> list[float]:
    """The p of many claims, adjusted so that all of them together err with the stated chance.

    sorted p(1) ≤ … ≤ p(m);  adjusted p(k) = max over j ≤ k of min(1, (m − j + 1) p(j))
    """
    adjusted = [1.0] * len(p)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        largest = max(largest, min(1.0, (len(p) - rank) * p[index]))
        adjusted[index] = largest
    return adjusted


def rank_correlation(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Kendall's tau-b: how alike two orders are, from -1 to 1.

    (pairs in the same order - pairs in opposite orders) / sqrt(pairs not tied in x · in y)
    """
    a, b = (np.sign(np.subtract.outer(v, v)) for v in map(np.asarray, (x, y)))
    untied = float(np.sqrt(np.square(a).sum() * np.square(b).sum()))
    return float((a * b).sum()) / untied if untied else None


def beyond(differences: Sequence[float], margin: float) -> float:
    """The p of a mean outside ± margin: what contradicts an equivalence."""
    x = _checked("beyond", differences)
    return 1.0 if len(x) == 1 else min(1.0, 2 * min(_above(x, margin), _above(-x, margin)))


def _above(x: np.ndarray, bound: float) -> float:
    """The one-sided p of a mean above a bound."""
    from scipy.special import stdtr

    n = len(x)
    spread = max(float(x.std(ddof=1)), SPREAD)
    return float(stdtr(n - 1, (bound - float(x.mean())) * math.sqrt(n) / spread))


def _checked(caller: str, values: Sequence[float]) -> np.ndarray:
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 1 or not len(x) or not np.isfinite(x).all():
        raise ArgumentError(mismatch(caller, "finite numbers, one for each seed", list(values)))
    return x


def shown(score: ConfidenceInterval, *, sign: bool = False) -> str:
    """`0.998 ± 0.003`."""
    mean = f"{score.mean:+.3f}" if sign else f"{score.mean:.3f}"
    return mean if score.count == 1 else f"{mean} ± {score.half:.3f}"
