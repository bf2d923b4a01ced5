"""The verdict on biases of relative positions: tables of buckets, and biases written out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from posenc._core.io.checkpoints import MOST_ENTRIES, Array
from posenc.detect.fit.biases import buckets_of
from posenc.detect.fit.ladders import MARGIN
from posenc.detect.fit.turns import attempt
from posenc.detect.identify.result import Finding, finding_of
from posenc.detect.identify.verdicts.vector import judge_vector
from posenc.encodings.bias.alibi import ALiBi
from posenc.encodings.bias.decay import Decay
from posenc.encodings.bias.t5 import T5
from posenc.encodings.bias.window import WindowTable

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
        remarks = [f"{size}; the largest distance (128 in T5) and the direction are not in numbers"]
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
    numbers = rel + queries - 1
    by_distance = np.zeros((heads, queries + keys - 1))
    by_distance[:, numbers] = bias
    # A causal mask may have been added: minus infinity after the query.
    masked = bool((bias[:, rel > 0] == -math.inf).all()) and queries > 1
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
            *(("minus infinity after the query: a causal mask was added",) if masked else ()),
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
        rounded = float(np.abs(np.expm1(-rates) - np.expm1(-computed)).max()) <= 2.0**-23
        if off <= TOLERANCE or rounded:
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
