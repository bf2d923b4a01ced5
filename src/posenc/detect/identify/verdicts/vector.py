"""The verdict on a short list of numbers: frequencies of a rotary encoding, or slopes of biases."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from posenc._core.io.checkpoints import Array
from posenc.detect.fit.biases import even_slopes, slopes_of
from posenc.detect.fit.departures import Departures, departures
from posenc.detect.fit.frequencies import (
    FrequencyFit,
    explained,
    nearest_ladder,
)
from posenc.detect.fit.ladders import MARGIN
from posenc.detect.fit.tolerances import dtype_of
from posenc.detect.fit.turns import attempt
from posenc.detect.identify.result import Finding, finding_of
from posenc.detect.identify.verdicts.table import EPS
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
        unclear = finding_of(array, kind=kind, verdict="unclear", remarks=remarks)
        return None if called is None else unclear
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
    if not ((signs > 0).all() or (signs < 0).all()) or len(signs) < LEAST:
        return False
    return bool((np.diff(size) < 0).sum() >= len(signs) - 1) or bool((np.diff(size) > 0).all())


def _rotary_alone(finding: Finding) -> bool:
    """Whether numbers are rotary frequencies without a name that says so.

    Schedules and rates are evenly spaced or geometric too, but do not begin at 1, or do not go on
    with a ratio that a base makes.
    """
    spec: Any = finding.spec
    ladder = spec.ladder if finding.verdict in ("claimed", "close") else None
    if ladder is None or ladder.spacing != "geometric" or ladder.first != 1:
        return False
    return not any(isinstance(scaling, Multipliers) for scaling in spec.scalings)


def _plainer(one: Finding, other: Finding) -> bool:
    if (one.verdict == "claimed") != (other.verdict == "claimed"):
        return one.verdict == "claimed"
    return one.measures["description"] <= other.measures.get("description", math.inf)


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
    fields = {"base": best.base, "ladder": best.ladder, "scaling": best.scaling}
    spec = attempt(RoPE, 2 * len(values), pairing="half", **fields)
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
    bases = [v for k, v in facts.items() if k.endswith(".rope.freq_base")]
    base = float(bases[0]) if len(bases) == 1 else 1e4
    if not (values > 0).all() or not base > 0:
        return finding_of(array, kind="frequencies", verdict="unclear")
    plain = np.exp(-math.log(base) * np.arange(len(values)) / len(values))
    finding = _rotary(array, plain / values, dtype_of(values, array.dtype))
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
    named = called == "slopes"
    fit = slopes_of(size, tolerance) or (even_slopes(size, tolerance) if named else None)
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
