"""The position from a query or key before and after it was turned."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from posenc._core.errors import PosencError, SpecError, refuse
from posenc.detect.locate.from_vector import CLAIM, DRIFT, at_noise, best_of, near
from posenc.detect.locate.result import Fit, ladders_of
from posenc.detect.locate.vector_problem import Attempt, MeasuredAngles, Problem, Sample, attempt
from posenc.encodings.rotary.pairing import turn
from posenc.encodings.table.column_phases import Phases, phases_of
from posenc.functional import cos_sin


def search(
    spec: Any,
    sample: Sample,
    before: np.ndarray,
    within: Mapping[int, tuple[float, float]],
    conventions: str,
) -> tuple[tuple[Fit, ...], int]:
    """The conventions under which a vector is another one turned; how many were tried."""
    first = _found(spec, sample, before, within, noisy=conventions == "stated")
    if first is not None or conventions == "stated":
        return (() if first is None else (_fit((), spec, first, within),)), 1
    tried = _siblings(spec)
    penalty = math.log2(1 + len(tried))

    def fits_of(options: list[tuple[tuple[str, ...], Any]], *, noisy: bool) -> list[Fit]:
        hits = ((*o, _found(o[1], sample, before, within, noisy=noisy)) for o in options)
        return [
            _fit(words, other, hit, within, penalty if words else 0.0)
            for words, other, hit in hits
            if hit is not None
        ]

    fits = fits_of(tried, noisy=False) or fits_of([((), spec), *tried], noisy=True)
    return best_of(fits, CLAIM), 1 + len(tried)


def _siblings(spec: Any) -> list[tuple[tuple[str, ...], Any]]:
    """Other pairings, other exponents, and both."""
    other = "interleaved" if spec.channels.order == "half" else "half"
    words = {
        "half": "pairs are channels j and j + d/2",
        "interleaved": "pairs are channels 2j and 2j + 1",
    }[other]
    exponents = ((part["words"], part["ladder"]) for part in ladders_of(spec))
    ladders: list[tuple[tuple[str, ...], Any]] = [((), spec.ladder), *exponents]
    pairings = (((), spec.channels), ((words,), spec.channels.replace(order=other)))
    pairs = []
    for (one, pairing), (two, ladder) in [*itertools.product(pairings, ladders)][1:]:
        with contextlib.suppress(SpecError):
            pairs.append((one + two, spec.replace(pairing=pairing, ladder=ladder)))
    return pairs


def _found(
    spec: Any,
    sample: Sample,
    before: np.ndarray,
    within: Mapping[int, tuple[float, float]],
    *,
    noisy: bool,
) -> Attempt | None:
    try:
        phases = phases_of(spec)
    except PosencError:
        return None
    if spec.sided:
        # Sizes decay with the position too; angles alone say it better than both together.
        sample = sample._replace(values=_resized(spec, sample.values, before))
    problem = _problem(spec, sample, before, phases)
    if noisy:
        return at_noise(problem, sample, within)
    if problem.measured.spread > 30 * sample.floor:
        return None
    for drift in (0.0, DRIFT):
        hit = attempt(problem, sample, near(within) if drift else within, sample.floor, drift=drift)
        if hit is not None and (hit.exact or (drift and hit.bits >= CLAIM)):
            return hit
    return None


def _problem(spec: Any, sample: Sample, before: np.ndarray, phases: Phases) -> Problem:
    pairing = spec.channels
    width = spec.dim
    part = slice(0, width) if pairing.part == "leading" else slice(len(before) - width, None)
    x, y = before[part], sample.values[part]
    a, b = np.array(pairing.channels(width)).T
    halves = np.arange(width).reshape(2, -1)
    c, d = halves if pairing.output == "half" and pairing.order != "half" else (a, b)
    source, target = x[a] + 1j * x[b], y[c] + 1j * y[d]
    size = np.abs(source)
    ratio = target * source.conj() / np.maximum(size**2, 1e-300)
    ratio = ratio.conj() if pairing.direction == "backward" else ratio
    alive = (size > 0) & (phases.frequencies()[0] != 0)
    typical = float(np.sqrt(np.mean(size[alive] ** 2))) if alive.any() else 1.0
    factor = np.abs(ratio[alive])
    strong = size[alive] > 0.3 * typical
    middle = float(np.median(factor[strong])) if strong.any() else 1.0
    spread = float(np.std(factor[strong]) / middle) if strong.any() and middle else math.nan

    def rebuild(places: list[tuple[Any, ...]]) -> np.ndarray:
        grid = np.array(places, dtype=np.float64 if phases.real else np.int64)
        cos, sin = cos_sin(spec, grid[:, 0] if grid.shape[1] == 1 else grid, dtype="float64")
        if spec.sided:
            size = np.hypot(cos, sin)
            cos, sin = cos / size, sin / size
        rows = np.repeat(before[None], len(places), axis=0)
        rows[:, part] = turn(np.repeat(x[None], len(places), axis=0), cos, sin, pairing, xp=np)
        return rows

    return Problem(
        phases,
        MeasuredAngles(
            phases.axis[alive],
            phases.frequencies()[0, alive],
            np.stack([np.angle(ratio[alive]), np.full(int(alive.sum()), np.nan)], axis=1),
            size[alive] / typical * (middle or 1.0),
            0.0 if spec.sided else spread,
            0.0,
        ),
        rebuild,
        1.0,
    )


def _resized(spec: Any, after: np.ndarray, before: np.ndarray) -> np.ndarray:
    """The pairs after turning, each as large as before."""
    part = slice(0, spec.dim) if spec.channels.part == "leading" else slice(-spec.dim, None)
    x, y = before[part], after[part].copy()
    for pair in np.array(spec.channels.channels(spec.dim)):
        size = math.hypot(*y[pair])
        y[pair] *= math.hypot(*x[pair]) / size if size else 0.0
    resized = after.copy()
    resized[part] = y
    return resized


def _fit(
    words: tuple[str, ...],
    spec: Any,
    hit: Attempt,
    within: Mapping[int, tuple[float, float]],
    penalty: float = 0.0,
) -> Fit:
    if not math.isclose(hit.scale, 1.0, rel_tol=1e-3):
        words = (*words, f"its size is multiplied by {hit.scale:.6g}")
    return hit.fit(words, spec, within, penalty)


def check_pair(spec: Any, before: np.ndarray, after: np.ndarray) -> None:
    """Raise unless both are vectors that a rotation of this width can turn into each other."""
    caller = f"locate({type(spec).__name__})"
    expected = f"`x` and `before` of one width, at least {spec.dim}"
    alike = before.shape == after.shape and len(before) >= spec.dim
    refuse(
        (not alike, caller, expected, f"widths {len(after)} and {len(before)}"),
        (not np.any(before), f"{caller}: before", "a vector that is not zero", "zeros"),
    )
