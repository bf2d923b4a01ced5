"""The slopes of linear biases: which recipe gives them, all or all but few."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np

from posenc.detect.fit import words
from posenc.detect.fit.departures import few
from posenc.detect.fit.description_length import MARGIN, real_bits, stated
from posenc.detect.fit.frequencies import fit_frequencies
from posenc.encodings.bias.alibi import ALiBi

LEAST, MOST = 3, 2**12  # heads


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
        among = None if biased == len(size) else biased
        spec = ALiBi(len(size), recipe=recipe, max_bias=max_bias, biased=among)
        ratio = spec.arrays["slopes"][:biased] / size[:biased]
        off = np.abs(ratio - 1)
        odd = np.flatnonzero(off > tolerance * (1 + measured / 4))
        if len(odd) <= most:
            evidence = -math.log2(2 * tolerance) * (biased - len(odd))
            bits = 3 + cost + len(odd) * (math.log2(biased) + real_bits(tolerance))
            named = tuple(words.slope(int(head), float(1 / ratio[head])) for head in odd)
            residual = float(np.delete(off, odd).max())
            return SlopeFit(spec, residual, evidence, bits, named, bool(named), whole == biased)
    return None


def even_slopes(size: np.ndarray, tolerance: float) -> SlopeFit | None:
    """Slopes of no recipe that are evenly spaced."""
    for fit in fit_frequencies(size, tolerance, lists=False) if size.all() else ():
        if fit.ladder.spacing == "linear" and fit.margin >= MARGIN:
            spec = ALiBi(len(size), slopes=tuple(fit.rungs.tolist()))
            ends = f"slopes evenly spaced from {fit.rungs[0]:.10g} to {fit.rungs[-1]:.10g}"
            return SlopeFit(spec, fit.residual, fit.evidence, fit.description, (ends,))
    return None
