"""Biases: buckets solved from where they change, recipes of linear slopes, and kernels."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np

from posenc.detect.fit import words
from posenc.detect.fit.frequencies import few, fit_frequencies
from posenc.detect.fit.ladders import MARGIN, bits_of, real_bits, roundest_within, stated
from posenc.detect.fit.turns import attempt
from posenc.encodings.bias.alibi import ALiBi
from posenc.encodings.bias.kerple import KERPLE
from posenc.encodings.bias.t5 import T5

MOST_FITS = 6
LEAST, MOST = 3, 2**12  # heads
MASKED = -5000.0  # what is added to a score that is not to be seen is less
CAUSAL = "keys after the query are masked, as by a causal mask"


class Buckets(NamedTuple):
    """Logarithmic buckets that share and part all distances as some biases do."""

    spec: T5
    least: int  # the largest distance may be from
    most: int  # to, and the distances given would be parted alike

    @property
    def bits(self) -> float:
        """Bits to state them."""
        return bits_of(self.spec.buckets) + bits_of(self.spec.max_distance)


def buckets_of(by_distance: np.ndarray, distances: np.ndarray) -> list[Buckets]:
    """The logarithmic buckets that biases follow, solved from where they change.

    Each bucket must hold a distance, as it does where D is at least three times E.

    In one direction E distances have a bucket each, and bucket E + j begins at the least n with

        n ** S >= D ** j * E ** (S - j)

    so each edge bounds the largest distance D from both sides, once E and S are assumed.
    """
    edges = (by_distance[:, 1:] != by_distance[:, :-1]).any(axis=0)
    # The distance into the past at which a bucket begins: between -n and -n + 1 lies an edge.
    begins = np.sort(-distances[:-1][edges & (distances[:-1] < 0)])
    reach = int(-distances[0])
    fits: list[Buckets] = []
    for direction, each in (("bidirectional", 2), ("causal", 1)):
        for side in range(2, min(2048 // each, 2 * reach) + 1):
            limits = _limits(begins, side, reach)
            if limits is None:
                continue
            middle = roundest_within(*limits) if limits[0] < limits[1] else None
            chosen = {round(middle)} if middle is not None else set()
            lengths = sorted(chosen | {limits[0], limits[1]}, key=lambda n: n not in chosen)
            sizes = {"buckets": each * side, "direction": direction}
            specs = (attempt(T5, len(by_distance), max_distance=n, **sizes) for n in lengths)
            fitting = (
                Buckets(spec, *limits)
                for spec in specs
                if spec is not None and ((np.diff(spec.bucket(distances)) != 0) == edges).all()
            )
            fits += itertools.islice(fitting, 1)
    return sorted(fits, key=lambda fit: fit.bits)[:MOST_FITS]


def _limits(begins: np.ndarray, side: int, reach: int) -> tuple[int, int] | None:
    """The largest distances D, from and to, with which `side` buckets begin as they are seen."""
    exact, seen = side // 2, len(begins)
    steps = side - exact
    if exact < 1 or not exact <= seen < side or begins[exact - 1] != exact:
        return None
    last = min(seen - exact, steps - 1)  # edges above the exact ones
    n = np.append(begins[exact : exact + last], [reach + 1] * (last < steps - 1)).astype(float)
    j = np.arange(1, steps)[: len(n)]
    if not len(j):  # two buckets: any distance does
        return exact + 1, exact + 1
    level = (steps - j) * math.log(exact)
    with np.errstate(divide="ignore"):
        low = (steps * np.log(n - 1) - level) / j
        high = (steps * np.log(n) - level) / j
    if last < steps - 1:
        high[-1] = math.inf  # the next one lies beyond what is seen
    least = max(float(low.max()), math.log(exact))
    most = min(float(high.min()), 31 * math.log(2))
    if least > most + 1e-12 or most > 30 * math.log(2):
        return None
    first = math.floor(math.exp(least) * (1 - 1e-12)) + 1
    end = math.floor(math.exp(most) * (1 + 1e-12))
    return (first, end) if first <= end else None


# --- slopes ---------------------------------------------------------------------------------------


class SlopeFit(NamedTuple):
    """One explanation of the sizes of slopes."""

    spec: ALiBi
    residual: float  # largest |computed / given - 1| of those that follow it
    evidence: float  # bits that they spell out
    description: float  # bits of the recipe, and of the slopes that are others
    remarks: tuple[str, ...] = ()
    odd: bool = False  # whether some slopes are others
    whole: bool = False  # whether both recipes agree, as the number of heads is a power of two


def slopes_of(size: np.ndarray, tolerance: float) -> SlopeFit | None:
    """ALiBi's slopes, 2 ** (-max_bias (h + 1) / H), by one of two recipes."""
    recipes: tuple[Any, ...] = ("paper", "geometric")
    biased = int((size > 0).sum())
    if not LEAST <= biased <= MOST or size[biased:].any() or not size[0] < 1:
        return None
    for most, recipe in itertools.product((0, few(biased)), recipes):
        whole = biased if recipe == "geometric" else 1 << (biased.bit_length() - 1)
        each = -np.log2(size[:whole]) * whole / np.arange(1, whole + 1)
        measured = float(np.median(each) if most else each[0])
        if not measured > 0:
            continue
        max_bias, cost = stated(measured, tolerance / math.log(2) * whole / measured)
        spec = ALiBi(
            len(size),
            recipe=recipe,
            max_bias=max_bias,
            biased=None if biased == len(size) else biased,
        )
        ratio = spec.arrays["slopes"][:biased] / size[:biased]
        off = np.abs(ratio - 1)
        odd = np.flatnonzero(off > tolerance * (1 + measured / 4))
        if len(odd) <= most:
            evidence = -math.log2(2 * tolerance) * (biased - len(odd))
            bits = 3 + cost + len(odd) * (math.log2(biased) + real_bits(tolerance))
            named = tuple(words.slope(int(head), float(1 / ratio[head])) for head in odd)
            return SlopeFit(
                spec,
                float(np.delete(off, odd).max()),
                evidence,
                bits,
                named,
                bool(named),
                whole == biased,
            )
    return None


def even_slopes(size: np.ndarray, tolerance: float) -> SlopeFit | None:
    """Slopes of no recipe that are evenly spaced."""
    for fit in fit_frequencies(size, tolerance, lists=False) if size.all() else ():
        if fit.ladder.spacing == "linear" and fit.margin >= MARGIN:
            return SlopeFit(
                ALiBi(len(size), recipe=tuple(fit.rungs.tolist())),
                fit.residual,
                fit.evidence,
                fit.description,
                (f"slopes evenly spaced from {fit.rungs[0]:.10g} to {fit.rungs[-1]:.10g}",),
            )
    return None


# --- kernels --------------------------------------------------------------------------------------


def kernel_of(
    by_distance: np.ndarray, distances: np.ndarray
) -> tuple[KERPLE, dict[str, np.ndarray]] | None:
    """KERPLE's kernels, -r1 ln(1 + r2 n) or -r1 n ** r2, solved from n = 1 and the largest n."""
    past, future = by_distance[:, distances <= 0][:, ::-1], by_distance[:, distances >= 0]
    if not np.array_equal(past, future) or (np.diff(past[:, [0, 1, -1]], axis=1) >= 0).any():
        return None
    n = distances[distances >= 0].astype(np.float64)
    share = past[:, -1] / past[:, 1]
    low, high = np.full_like(share, 1e-12), np.full_like(share, 1e12)
    for _ in range(100):  # the share falls as r2 grows
        r2 = np.sqrt(low * high)
        less = np.log1p(r2 * n[-1]) > share * np.log1p(r2)
        low, high = np.where(less, r2, low), np.where(less, high, r2)
    power, near = np.log(share) / math.log(n[-1]), -past[:, 1]
    for form, first, second, kernel in (
        ("log", near / np.log1p(r2), r2, np.log1p(r2[:, None] * n)),
        ("power", near, power, n ** power[:, None]),
    ):
        least = min(0.01, float(np.min([first, second])))
        spec: Any = attempt(KERPLE, len(past), form=form, least=least)
        if spec is not None and np.allclose(first[:, None] * kernel, -past, rtol=2.0**-18, atol=0):
            return spec, {"r1": first, "r2": second}
    return None
