"""Verdicts on frequencies of a rotary encoding, on slopes of biases, and on biases themselves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from posenc._core.io.checkpoints import MOST_ENTRIES, Array
from posenc.detect.fit.biases import CAUSAL, MASKED, buckets_of, even_slopes, slopes_of
from posenc.detect.fit.frequencies import (
    Departures,
    FrequencyFit,
    departures,
    explained,
    nearest_ladder,
)
from posenc.detect.fit.ladders import MARGIN
from posenc.detect.fit.tolerances import dtype_of
from posenc.detect.fit.turns import attempt
from posenc.detect.identify.result import Finding, finding_of
from posenc.detect.identify.verdicts.table import EPS
from posenc.encodings.bias.alibi import ALiBi
from posenc.encodings.bias.decay import Decay
from posenc.encodings.bias.t5 import T5
from posenc.encodings.bias.window import WindowTable
from posenc.encodings.rotary.rope import RoPE
from posenc.scaling.multipliers import Multipliers

LONGEST = 2**13
LEAST = 3
PAIRING = "frequencies do not say which channels form a pair; 'half' stands here for either"


def judge_vector(array: Array, *, called: str | None, facts: Mapping[str, Any]) -> Finding | None:
    """What a vector is; None where neither its name nor its numbers make it one of positions."""
    values = np.asarray(array.read(), dtype=np.float64).reshape(-1)
    kind: Any = "slopes" if called == "slopes" else "frequencies"
    if not np.isfinite(values).all() or not values.any():
        remarks = ("it holds NaN or infinity" if values.any() else "all its entries are 0",)
        return (
            None
            if called is None
            else finding_of(array, kind=kind, verdict="unclear", remarks=remarks)
        )
    if called == "divisors":
        return _divisors(array, values, facts)
    if called is None and not _falls(values):
        return None
    dtype = dtype_of(values, array.dtype)
    slopes = None if called == "frequencies" else _slopes(array, values, dtype, called)
    rotary = None if called == "slopes" else _frequencies(array, values, dtype)
    if slopes is not None and (rotary is None or _plainer(slopes, rotary)):
        return slopes
    if rotary is not None and (called is not None or _rotary_alone(rotary)):
        return rotary
    return None if called is None else finding_of(array, kind=kind, verdict="unknown")


def _falls(values: np.ndarray) -> bool:
    """Whether numbers could be a ladder: of one sign, and sorted but for zeros at the end."""
    size, signs = np.abs(values), values[values != 0]
    # Slopes for heads that are no power of two begin with those of the power below.
    whole = 1 << (max(len(signs), 1).bit_length() - 1)
    if len(signs) > whole >= LEAST and bool((np.diff(size[:whole]) < 0).all()):
        size, signs = size[:whole], signs[:whole]
    return (
        len(signs) >= LEAST
        and bool((signs > 0).all() or (signs < 0).all())
        and bool((np.diff(size) < 0).sum() >= len(signs) - 1 or (np.diff(size) > 0).all())
    )


def _rotary_alone(finding: Finding) -> bool:
    """Whether numbers are rotary frequencies without a name that says so.

    Schedules and rates are evenly spaced or geometric too, but do not begin at 1, or do not go on
    with a ratio that a base makes.
    """
    spec: Any = finding.spec
    return (
        finding.verdict in ("claimed", "close")
        and spec.ladder.spacing == "geometric"
        and spec.ladder.first == 1
        and not any(isinstance(scaling, Multipliers) for scaling in spec.scalings)
    )


def _plainer(one: Finding, other: Finding) -> bool:
    return (
        one.verdict == "claimed"
        if (one.verdict == "claimed") != (other.verdict == "claimed")
        else one.measures["description"] <= other.measures.get("description", math.inf)
    )


# --- frequencies ----------------------------------------------------------------------------------


def _frequencies(array: Array, values: np.ndarray, dtype: str) -> Finding | None:
    if np.sign(values).sum() <= 0:
        return None
    if dtype == "float16" and (values == 0).any() and values[values > 0].min() < 2.0**-14:
        return finding_of(
            array,
            kind="frequencies",
            verdict="unclear",
            remarks=("slow frequencies have become 0 in float16",),
        )
    return _rotary(array, values, dtype)


def _rotary(array: Array, values: np.ndarray, dtype: str) -> Finding | None:
    fits = explained(values, dtype=dtype, margin=-math.inf)
    if not fits:
        return _nearest(array, values) if (values >= 0).all() else None
    best = fits[0]
    departed = departures(values, best.rungs, dtype=dtype) or Departures()
    # What everybody sees.
    departed = departed._replace(rounding="") if array.dtype == dtype else departed
    sure = best.margin >= MARGIN
    weak = () if sure else (f"fewer than {MARGIN:g} bits speak for it",)
    others = (f"or {_brief(fit)}" for fit in _others(fits))
    spec = attempt(
        RoPE, 2 * len(values), pairing="half",
        base=best.base, ladder=best.ladder, scaling=best.scaling,
    )  # fmt: skip
    claim = "close" if departed.others else "claimed"
    return finding_of(
        array,
        kind="frequencies",
        verdict=claim if sure and spec is not None else "unclear",
        spec=spec,
        measures={
            "residual": best.residual,
            "tolerance": float(best.room[best.room < 1].max(initial=0.0)),
            "evidence": round(best.evidence, 1),
            "description": round(best.description, 1),
            "ratio": best.ratio,
        },
        remarks=(*weak, *departed.sentences(), *best.remarks, *others, PAIRING),
    )


def _others(fits: tuple[FrequencyFit, ...]) -> list[FrequencyFit]:
    """Explanations of another kind that are hardly longer."""
    best = fits[0]
    kinds = [type(scaling) for scaling in best.scaling]
    return [
        fit
        for fit in fits[1:]
        if fit.description < best.description + 12 and [type(s) for s in fit.scaling] != kinds
    ][:2]


def _brief(fit: FrequencyFit) -> str:
    rules = ", ".join(f"{type(s).__name__}({getattr(s, 'factor', '')})" for s in fit.scaling)
    return f"base {fit.base:.10g}" + (f" with {rules}" if rules else "")


def _nearest(array: Array, values: np.ndarray) -> Finding:
    turning = values[values > 0]
    if len(turning) < LEAST:
        return finding_of(array, kind="frequencies", verdict="unclear")
    first, ratio, off = nearest_ladder(turning)
    base = f"base {ratio ** -len(values):.6g} and first frequency {first:.6g}"
    far = f"frequencies differ from it by up to {100 * off:.3g} %"
    return finding_of(
        array,
        kind="frequencies",
        verdict="unknown",
        measures={"relative_residual": off, "ratio": ratio},
        remarks=(
            f"the nearest plain ladder has {base}; {far}",
            "searched and learned factors look like this",
        ),
    )


def _divisors(array: Array, values: np.ndarray, facts: Mapping[str, Any]) -> Finding:
    """Factors that frequencies are divided by, beside a header that states the base."""
    bases = [
        value for key, value in facts.items()
        if key.endswith(".rope.freq_base") and isinstance(value, (int, float))
    ]  # fmt: skip
    base = float(bases[0]) if len(bases) == 1 else 1e4
    if not (values > 0).all() or not base > 0:
        return finding_of(array, kind="frequencies", verdict="unclear")
    finding = _rotary(
        array,
        np.exp(-math.log(base) * np.arange(len(values)) / len(values)) / values,
        dtype_of(values, array.dtype),
    )
    if finding is None:
        return finding_of(array, kind="frequencies", verdict="unknown")
    where = "which the header states" if bases else "which nothing in the file states"
    return finding_of(
        array,
        kind="frequencies",
        verdict=finding.verdict if bases or finding.verdict != "claimed" else "unclear",
        spec=finding.spec,
        measures=finding.measures,
        remarks=(f"divisors of frequencies with base {base:.10g}, {where}", *finding.remarks),
    )


# --- slopes ---------------------------------------------------------------------------------------


def _slopes(array: Array, values: np.ndarray, dtype: str, called: str | None) -> Finding | None:
    """ALiBi's slopes, or others that are evenly spaced, if they are called slopes."""
    size, tolerance = np.abs(values), 1.5 * EPS[dtype] + 2.0**-22
    fit = slopes_of(size, tolerance) or (
        even_slopes(size, tolerance) if called == "slopes" else None
    )
    sure = fit is not None and fit.evidence - fit.description >= MARGIN
    if fit is None or (fit.odd and not sure):
        return None
    others = {
        "stored with a minus sign": (values < 0).any(),
        "both recipes agree, as the number of heads is a power of two": fit.whole,
    }
    return finding_of(
        array,
        kind="slopes",
        verdict="close" if fit.odd else "claimed" if sure else "unclear",
        spec=fit.spec,
        measures={
            "residual": fit.residual,
            "tolerance": tolerance,
            "evidence": round(fit.evidence, 1),
            "description": round(fit.description, 1),
        },
        remarks=(*fit.remarks, *(remark for remark, holds in others.items() if holds)),
    )


# --- biases of relative positions -----------------------------------------------------------------


LEAST_REACH = 12  # distances that a matrix must cover before its buckets can be told
LEAST_EDGES = 8
TOLERANCE = 2.0**-21  # of the rates of retention


def judge_bias(array: Array) -> Finding:
    """What an array is whose name says that it biases attention by relative position."""
    shape = tuple(n for n in array.shape if n != 1)
    if len(shape) == 2:
        return _table(array, shape)
    finding = _written_out(array, shape) if len(shape) == 3 and array.size <= MOST_ENTRIES else None
    return finding or finding_of(array, kind="bias", verdict="unclear")


def _table(array: Array, shape: tuple[int, ...]) -> Finding:
    """A learned scalar for each bucket, or each offset in a window, and head."""
    rows, heads = shape
    spec: Any = None
    side = math.isqrt(rows)
    if rows >= 9 and side * side == rows and side % 2:
        window = (side + 1) // 2
        spec = WindowTable(heads, window=(window, window))
        remarks = [f"{rows} rows are the offsets within a window of {window} x {window}"]
    elif 4 <= rows <= 2048 and rows % 2 == 0:
        spec = T5(heads, buckets=rows)
        size = f"{rows} buckets for {heads} heads"
        remarks = [f"{size}; numbers do not hold the largest distance (128 in T5) or the direction"]
    else:
        remarks = [f"{rows} rows for {heads} heads"]
    return finding_of(
        array,
        kind="bias",
        verdict="by_name" if spec is not None else "unknown",
        spec=spec,
        remarks=tuple(remarks),
    )


def _written_out(array: Array, shape: tuple[int, ...]) -> Finding | None:
    """(heads, queries, keys): each head a function of the distance, if it is one."""
    bias = np.asarray(array.read(), dtype=np.float64).reshape(shape)
    heads, queries, keys = shape
    rel = np.arange(keys)[None, :] - np.arange(queries)[:, None]
    # A causal mask may have been added: minus infinity after the query, or a number in its place.
    masked = bool((bias[:, rel > 0] == min(bias[0, 0, -1], MASKED)).all()) and queries > 1
    bias = np.where(masked & (rel > 0), -math.inf, bias)
    numbers = rel + queries - 1
    by_distance = np.zeros((heads, queries + keys - 1))
    by_distance[:, numbers] = bias
    seen = rel <= 0 if masked else np.ones_like(rel, dtype=bool)
    if not np.isfinite(bias[:, seen]).all() or (by_distance[:, numbers] != bias).any():
        return None
    distances = np.arange(1 - queries, keys)
    return _linear(array, by_distance, distances) or _buckets(array, by_distance, distances)


def _linear(array: Array, by_distance: np.ndarray, distances: np.ndarray) -> Finding | None:
    past = distances < 0
    if not past.any() or (by_distance[:, distances == 0] != 0).any():
        return None
    slopes = by_distance[:, distances == -1][:, 0]
    rebuilt = slopes[:, None] * np.abs(distances)
    if (
        not slopes.any()
        or (np.abs(rebuilt - by_distance)[:, past] > 2.0**-7 * np.abs(rebuilt[:, past])).any()
    ):
        return None
    later = by_distance[:, distances > 0]
    masked = bool(later.size and (later == -math.inf).all())
    decay = _decay(array, -slopes) if masked else None
    if decay is not None:
        return decay
    finding = judge_vector(
        Array(array.name, array.dtype, (len(slopes),), lambda begin, end: -slopes[begin:end]),
        called="slopes",
        facts={},
    )
    if finding is None or not isinstance(finding.spec, ALiBi):
        return None
    return finding_of(
        array,
        kind="bias",
        verdict=finding.verdict,
        spec=finding.spec.replace(form="causal" if masked or not later.any() else "symmetric"),
        measures=finding.measures,
        remarks=(
            "linear biases, written out in full",
            *((CAUSAL,) if masked else ()),
            *finding.remarks,
        ),
    )


def _decay(array: Array, rates: np.ndarray) -> Finding | None:
    """The mask of retention in log space, by its rates."""
    specs = (attempt(Decay, len(rates), recipe=recipe) for recipe in ("powers", "even"))
    for spec in (spec for spec in specs if spec is not None):
        computed = spec.arrays["rates"]
        off = float(np.abs(rates / computed - 1).max())
        # 1 - gamma may have been rounded before its logarithm was taken.
        if off <= TOLERANCE or (
            float(np.abs(np.expm1(-rates) - np.expm1(-computed)).max()) <= 2.0**-23
        ):
            evidence = -math.log2(2 * TOLERANCE) * len(rates)
            return finding_of(
                array,
                kind="bias",
                verdict="claimed" if evidence >= MARGIN + 4 else "unclear",
                spec=spec,
                measures={
                    "residual": off,
                    "tolerance": TOLERANCE,
                    "evidence": round(evidence, 1),
                    "description": 4.0,
                },
                remarks=("the decay of retention, written out in full",),
            )
    return None


def _buckets(array: Array, by_distance: np.ndarray, distances: np.ndarray) -> Finding | None:
    """Distances that share their bias in every head, compared with logarithmic buckets."""
    if len(distances) < LEAST_REACH:
        return None
    fits = buckets_of(by_distance, distances)
    seen = int((np.diff(by_distance, axis=1) != 0).any(axis=0).sum())
    if not fits or seen < LEAST_EDGES:
        return None
    remarks = [f"buckets written out in full: {seen + 1} of them within the distances given"]
    if len(fits) > 1:
        some = ", ".join(f"{f.spec.buckets} buckets to {f.spec.max_distance}" for f in fits[:6])
        remarks.append(f"these distances do not tell apart {some}")
    if fits[0].least < fits[0].most:
        remarks.append(f"a largest distance from {fits[0].least} to {fits[0].most} gives the same")
    # An edge or none at every distance: a bit each, but for those that a single width explains.
    evidence = float(len(distances) - seen)
    return finding_of(
        array,
        kind="bias",
        verdict="claimed" if evidence >= 40 and len(fits) < 4 else "unclear",
        spec=fits[0].spec,
        measures={"residual": 0.0, "evidence": evidence, "description": 15.0},
        remarks=tuple(remarks),
    )
