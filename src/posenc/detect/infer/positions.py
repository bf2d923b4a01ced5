"""Tables and biases: functions of positions, by their rows and by what distances get."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from posenc.detect.fit.buckets import buckets_of
from posenc.detect.fit.rotations.pairs import FLOAT32, FLOAT64
from posenc.detect.identify.identify import identify
from posenc.detect.infer.agreement import DENSE, REACHES, Agreement, Tally, far_positions
from posenc.detect.infer.implementation import PositionProbe, RefusedError
from posenc.detect.infer.result import Inferred
from posenc.encodings.bias.alibi import ALiBi
from posenc.encodings.bias.decay import Decay
from posenc.encodings.bias.t5 import T5
from posenc.functional import bias as bias_of
from posenc.functional import frequencies, table

SHARED = 40  # distances in one bucket with another: fewer may be an accident
TABLE_ROWS = (512, 128, 64, 32)
BIAS_REACH = (256, 64, 32)


def _longest(ask: PositionProbe, counts: tuple[int, ...]) -> np.ndarray:
    """What a function gives for the first number of positions that it takes."""
    refusals: list[RefusedError] = []
    for count in counts:
        try:
            return ask(np.arange(count))
        except RefusedError as failure:
            refusals.append(failure)
    raise refusals[0]


def _looked(
    ask: PositionProbe,
    expected: Callable[[np.ndarray], np.ndarray],
    allowed: Callable[[np.ndarray, np.ndarray], Any],
    *,
    first: np.ndarray,
    ends: tuple[int, ...],
) -> Agreement:
    """Compare a function of positions with a spec: the first call, far ones, the first again."""
    tally = Tally()

    def compare(positions: np.ndarray, out: np.ndarray) -> None:
        values = expected(positions)
        tally.length = max(tally.length, len(positions))
        with np.errstate(invalid="ignore"):
            off = np.where(values == out, 0.0, np.abs(values - out))
        tally.add(off, allowed(values, positions), positions)

    count = first.shape[-2]
    compare(np.arange(count), first)
    for end in ends:
        far = far_positions(np.random.default_rng(0), end, 1)[:, 0]
        positions = np.arange(min(end, DENSE) + 1) if ask.counts else far
        if end < count or (ask.counts and end > DENSE):
            continue
        try:
            compare(positions, ask(positions))
            break
        except RefusedError as refused:
            tally.notes.append(f"it refuses positions to {end:,}: {refused}")
    try:
        compare(np.arange(count), ask(np.arange(count)))
    except RefusedError:
        tally.notes.append("it refuses the first call when that is made again")
    return tally.result(ask.calls)


def of_table(function: Callable[..., Any], framework: str | None) -> Inferred:
    """A table by its rows, which `identify` explains."""
    ask = PositionProbe(function, 1, framework)
    rows = _longest(ask, TABLE_ROWS)
    [finding] = identify(rows).findings or (None,)
    if finding is None or finding.verdict != "claimed" or finding.spec is None:
        notes = () if finding is None else finding.remarks[:2]
        note = "its rows follow no sinusoidal convention that is known here."
        return Inferred(None, probes=ask.calls, notes=(note, *notes))
    spec: Any = finding.spec
    placement = finding.placement
    first = 0 if placement is None else int(placement.starts[0])
    if placement is not None and (placement.step != 1 or len(placement.axes) > 1):
        note = f"its rows are those of {placement.words()}"
        return Inferred(None, probes=ask.calls, notes=(note,))
    if first and hasattr(spec, "arrangement"):
        spec = spec.replace(
            arrangement=spec.arrangement.replace(start=spec.arrangement.start + first)
        )
    scale = float(np.abs(rows).max())
    eps = FLOAT32 if (rows == rows.astype(np.float32)).all() else FLOAT64
    arrangement = getattr(spec, "arrangement", None)
    start = 0 if arrangement is None else abs(arrangement.start)
    # Errors of angles grow with the largest frequency.
    fastest = max(1.0, float(np.abs(frequencies(spec)).max()))

    def allowed(values: np.ndarray, positions: np.ndarray) -> np.ndarray:
        return scale * (8 * eps + 8 * eps * fastest * (positions + start))[:, None] + 0 * values

    result = _looked(
        ask,
        lambda p: np.asarray(table(spec, p, dtype="float64")),
        allowed,
        first=rows,
        ends=REACHES,
    )
    return _inferred(spec, {}, result)


def _inferred(
    spec: Any, params: dict[str, np.ndarray], result: Agreement, notes: tuple[str, ...] = ()
) -> Inferred:
    return Inferred(
        spec,
        params=params,
        difference=result.difference,
        tolerance=result.tolerance,
        reach=result.reach,
        probes=result.reach.calls,
        notes=(*notes, *result.notes),
    )


def of_bias(function: Callable[..., Any], framework: str | None) -> Inferred:
    """A bias written out for all distances up to some hundred, and for far ones."""
    ask = PositionProbe(function, 2, framework)
    values = _longest(ask, BIAS_REACH)
    heads, count = len(values), values.shape[-1]
    with np.errstate(invalid="ignore"):
        by_key = np.abs(values - values[:, :1, :]).max() == 0
    written = values
    if by_key and values.any():  # the same for every query: a slope times the key
        k = np.arange(count)
        written = values[:, :1, 1:2] * -np.abs(k[None, :, None] - k[None, None, :])
    [finding] = identify({"relative_position_bias": written}).findings or (None,)
    spec: Any = None if finding is None else finding.spec
    params: dict[str, np.ndarray] = {}
    near = finding is not None and finding.verdict == "close"
    notes: tuple[str, ...] = finding.remarks if near and finding is not None else ()
    parted = _by_distance(ask, values)
    if not isinstance(spec, ALiBi | Decay) and parted is not None:
        shared = (parted[0][:, 1:] == parted[0][:, :-1]).all(axis=0).sum()
        fits = buckets_of(*parted) if shared >= SHARED else []
        spec = fits[0].spec if fits else None
        if fits:
            params, notes = _weights(fits[0].spec, *parted)
            if fits[0].least < fits[0].most:
                more = f"a largest distance from {fits[0].least} to {fits[0].most} gives the same"
                notes = (*notes, more)
    if spec is None or spec.heads != heads:
        note = "it is no bias with linear slopes or logarithmic buckets of distance."
        if parted is None:
            note = "it depends on more than the distance of query and key."
        hint = "If it is a rotation of its first argument, say how wide that is: dim."
        return Inferred(None, probes=ask.calls, notes=(note, hint))
    if by_key and isinstance(spec, ALiBi):
        spec = spec.replace(form="key_only")
    masked = isinstance(spec, ALiBi) and bool((values[:, 0, 1:] == -math.inf).all())
    if masked:
        notes = (*notes, "minus infinity after the query: a causal mask was added")
    double = not (values == values.astype(np.float32)).all()

    def expected(p: np.ndarray) -> np.ndarray:
        values = np.asarray(bias_of(spec, p, p, params=params or None, dtype="float64"))
        return np.where(p[None, :] > p[:, None], -math.inf, values) if masked else values

    def allowed(values: np.ndarray, _: np.ndarray) -> np.ndarray:
        size = np.where(np.isfinite(values), np.abs(values), 0.0)
        return (2.0**-40 if double else 2.0**-21) * size + (FLOAT64 if double else FLOAT32)

    ends: tuple[int, ...] = (2**17, 2**12, 2**11, 2**10, 2**9)
    if params:  # learned values are known of the distances that were read
        ends = tuple(end for end in ends if parted is not None and end <= parted[1][-1])
    result = _looked(ask, expected, allowed, first=values, ends=ends)
    return _inferred(spec, params, result, notes)


def _by_distance(ask: PositionProbe, values: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Biases by key minus query, as far as they are told; None where more than that counts."""
    count = values.shape[-1]
    if not np.isfinite(values).all() or (values[:, 1:, 1:] != values[:, :-1, :-1]).any():
        return None
    for reach in () if ask.counts else (2**14, 2**12, 2**10):
        line, zero = np.arange(reach + 1), np.array([0])
        try:
            future, past = ask(zero, line)[:, 0], ask(line, zero)[:, :, 0]
        except RefusedError:
            continue
        both = np.concatenate([past[:, :0:-1], future], axis=1)
        return both, np.arange(-reach, reach + 1)
    both = np.concatenate([values[:, :0:-1, 0], values[:, 0]], axis=1)
    return both, np.arange(1 - count, count)


def _weights(
    spec: T5, by_distance: np.ndarray, distances: np.ndarray
) -> tuple[dict[str, np.ndarray], tuple[str, ...]]:
    """The learned scalar of each bucket, read at a distance that falls into it."""
    bucket = spec.bucket(distances)
    weight = np.zeros((spec.buckets, spec.heads), dtype=np.float32)
    weight[bucket] = by_distance.T
    unseen = sorted(set(range(spec.buckets)) - set(bucket.tolist()))
    note = f"no distance up to {distances[-1]:,} falls into the buckets {unseen}: they are 0 here"
    return {"weight": weight}, (note,) if unseen else ()
