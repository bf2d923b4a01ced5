"""The verdict on biases of relative positions: tables of buckets, and biases written out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from posenc._core.errors import PosencError
from posenc.detect.files import MOST_ENTRIES, Array
from posenc.detect.identify.result import Finding
from posenc.encodings.bias.alibi import ALiBi
from posenc.encodings.bias.t5 import T5
from posenc.encodings.bias.window import WindowTable

__all__ = ["judge_bias"]

LEAST_REACH = 12  # distances that a matrix must cover before its buckets can be told
LENGTHS = tuple(
    sorted(
        {2**k for k in range(3, 16)}
        | {10 * 2**k for k in range(1, 9)}
        | {
            100,
            200,
            300,
            400,
            500,
            1000,
            2000,
            5000,
            10000,
        }
    )
)


def judge_bias(array: Array) -> Finding:
    """What an array is whose name says that it biases attention by relative position."""
    about: dict[str, Any] = {"shape": array.shape, "dtype": array.dtype}
    shape = tuple(n for n in array.shape if n != 1)
    if len(shape) == 3 and array.size <= MOST_ENTRIES:
        found = _written_out(array, shape, about)
        if found is not None:
            return found
    if len(shape) == 2:
        return _table(array, shape, about)
    return Finding(array.name, kind="bias", verdict="unclear", **about)


def _table(array: Array, shape: tuple[int, ...], about: dict[str, Any]) -> Finding:
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
        told = f"{rows} buckets for {heads} heads"
        remarks = [f"{told}; the largest distance (128 in T5) and the direction are not in numbers"]
    else:
        remarks = [f"{rows} rows for {heads} heads"]
    verdict: Any = "by_name" if spec is not None else "learned"
    return Finding(
        array.name, kind="bias", verdict=verdict, spec=spec, remarks=tuple(remarks), **about
    )


def _written_out(array: Array, shape: tuple[int, ...], about: dict[str, Any]) -> Finding | None:
    """(heads, queries, keys): each head a function of the distance, if it is one."""
    bias = np.asarray(array.read(), dtype=np.float64).reshape(shape)
    heads, queries, keys = shape
    rel = np.arange(keys)[None, :] - np.arange(queries)[:, None]
    numbers = rel + queries - 1
    by_distance = np.zeros((heads, queries + keys - 1))
    by_distance[:, numbers] = bias
    if not np.isfinite(bias).all() or (by_distance[:, numbers] != bias).any():
        return None
    distances = np.arange(1 - queries, keys)
    linear = _linear(array, by_distance, distances, about)
    return linear if linear is not None else _buckets(array, by_distance, distances, about)


def _linear(
    array: Array, by_distance: np.ndarray, distances: np.ndarray, about: dict[str, Any]
) -> Finding | None:
    from posenc.detect.identify.judge_vector import judge_vector

    past = distances < 0
    if not past.any() or (by_distance[:, distances == 0] != 0).any():
        return None
    slopes = by_distance[:, distances == -1][:, 0]
    made = slopes[:, None] * np.abs(distances)
    if (
        not slopes.any()
        or (np.abs(made - by_distance)[:, past] > 2.0**-7 * np.abs(made[:, past])).any()
    ):
        return None
    inner = Array(array.name, array.dtype, (len(slopes),), lambda begin, end: -slopes[begin:end])
    found = judge_vector(inner, called="slopes", facts={})
    if found is None or not isinstance(found.spec, ALiBi):
        return None
    later = by_distance[:, distances > 0]
    form: Any = "causal" if not later.any() else "symmetric"
    return Finding(
        array.name,
        kind="bias",
        verdict=found.verdict,
        spec=found.spec.replace(form=form),
        measures=found.measures,
        remarks=("linear biases, written out in full", *found.remarks),
        **about,
    )


def _buckets(
    array: Array, by_distance: np.ndarray, distances: np.ndarray, about: dict[str, Any]
) -> Finding | None:
    """Distances that share their bias in every head, compared with logarithmic buckets."""
    if len(distances) < LEAST_REACH:
        return None
    edges = (np.diff(by_distance, axis=1) != 0).any(axis=0)
    fits = []
    directions: tuple[Any, ...] = ("bidirectional", "causal")
    for direction in directions:
        for buckets in (8, 16, 32, 64, 128, 256):
            for length in LENGTHS:
                try:
                    spec = T5(
                        len(by_distance),
                        buckets=buckets,
                        max_distance=length,
                        direction=direction,
                    )
                except PosencError:
                    continue
                if ((np.diff(spec.bucket(distances)) != 0) == edges).all():
                    fits.append(spec)
    seen = int(edges.sum())
    if not fits or seen < 8:
        return None
    best = next((spec for spec in fits if spec.max_distance == 128), fits[0])
    remarks = [f"buckets written out in full: {seen + 1} of them within the distances given"]
    if len(fits) > 1:
        some = ", ".join(f"{s.buckets} buckets to {s.max_distance}" for s in fits[:6])
        remarks.append(f"these distances do not tell apart {some}")
    # An edge or none at every distance: a bit each, but for those that a single width explains.
    evidence = float(len(distances) - seen)
    return Finding(
        array.name,
        kind="bias",
        verdict="claimed" if evidence >= 40 and len(fits) < 4 else "unclear",
        spec=best,
        measures={"residual": 0.0, "evidence": evidence, "description": 15.0},
        remarks=tuple(remarks),
        **about,
    )
