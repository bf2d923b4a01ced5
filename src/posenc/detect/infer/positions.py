"""Tables and biases: functions of positions, by their rows and by what distances get."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from posenc.detect.fit import words
from posenc.detect.fit.biases import buckets_of
from posenc.detect.fit.departures import Departures, departures
from posenc.detect.fit.rotations.pairs import FLOAT32, FLOAT64
from posenc.detect.identify.identify import identify
from posenc.detect.infer.result import Inferred
from posenc.detect.subject import CannotAsk, Subject, Survey
from posenc.detect.subject.survey import survey
from posenc.encodings.bias.alibi import ALiBi
from posenc.encodings.bias.decay import Decay
from posenc.encodings.bias.t5 import T5
from posenc.functional import bias as bias_of
from posenc.functional import frequencies, table

SHARED = 40  # distances in one bucket with another: fewer may be an accident
TABLE_ROWS = (512, 128, 64, 32)
BIAS_REACH = (256, 64, 32)


def _longest(ask: Callable[[np.ndarray], np.ndarray], counts: tuple[int, ...]) -> np.ndarray:
    """What a function gives for the first number of positions that it takes."""
    refusals: list[Exception] = []
    for count in counts:
        try:
            return ask(np.arange(count))
        except Exception as failure:  # noqa: BLE001 - whatever other people's code raises
            refusals.append(failure)
    raise CannotAsk(f"infer_spec: it refuses {counts[-1]} positions: {refusals[0]}")


def of_table(subject: Subject) -> Inferred:
    """A table by its rows, which `identify` explains."""
    rows = _longest(subject.rows, TABLE_ROWS)
    [finding] = identify(rows).findings or (None,)
    if finding is None or finding.verdict != "claimed" or finding.spec is None:
        notes = () if finding is None else finding.remarks[:2]
        note = "its rows follow no sinusoidal convention that is known here."
        return Inferred(None, probes=subject.calls, notes=(note, *notes))
    spec: Any = finding.spec
    placement = finding.placement
    first = 0 if placement is None else int(placement.starts[0])
    if placement is not None and (placement.step != 1 or len(placement.axes) > 1):
        note = f"its rows are those of {placement.words()}"
        return Inferred(None, probes=subject.calls, notes=(note,))
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

    def allowed(_: Any, values: np.ndarray, positions: np.ndarray, __: str) -> np.ndarray:
        room = scale * (8 * eps + 8 * eps * fastest * (np.abs(positions) + start))
        return np.broadcast_to(room[..., None], values.shape)

    def expected(positions: np.ndarray) -> np.ndarray:
        return np.asarray(table(spec, positions, dtype="float64"))

    return _inferred(subject, spec, {}, survey(subject, expected, allowed=allowed))


def _inferred(
    subject: Subject,
    spec: Any,
    params: dict[str, np.ndarray],
    choice: Survey,
    notes: tuple[str, ...] = (),
    departed: tuple[str, ...] = (),
) -> Inferred:
    return Inferred(
        spec,
        params=params,
        difference=choice.difference,
        tolerance=choice.tolerance,
        reach=choice.reach,
        probes=subject.calls,
        departures=departed,
        notes=(subject.how, *notes),
        call=choice.call,
    )


def of_bias(subject: Subject) -> Inferred:
    """A bias written out for all distances up to some hundred, and for far ones."""
    values = _longest(lambda p: subject.bias(p, p), BIAS_REACH)
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
    notes: tuple[str, ...] = ()
    parted = _by_distance(subject, values)
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
        return Inferred(None, probes=subject.calls, notes=(note, hint))
    if by_key and isinstance(spec, ALiBi):
        spec = spec.replace(form="key_only")
    exact, departed = spec, Departures()
    if isinstance(spec, ALiBi):
        slopes = -written[:, 1, 0]
        departed = departures(slopes, spec.arrays["slopes"], dtype="float32") or departed
    if departed.odd:
        exact = ALiBi(heads, slopes=tuple(slopes.tolist()), form=spec.form)
    masked = isinstance(spec, ALiBi) and bool((values[:, 0, 1:] == -math.inf).all())
    if masked:
        notes = (*notes, "minus infinity after the query: a causal mask was added")
    double = not (values == values.astype(np.float32)).all()

    def expected(q: np.ndarray, k: np.ndarray) -> np.ndarray:
        values = np.asarray(bias_of(exact, q, k, params=params or None, dtype="float64"))
        return np.where(k[None, :] > q[:, None], -math.inf, values) if masked else values

    def allowed(_: Any, values: np.ndarray, __: Any, ___: str) -> np.ndarray:
        size = np.where(np.isfinite(values), np.abs(values), 0.0)
        return (2.0**-40 if double else 2.0**-21) * size + (FLOAT64 if double else FLOAT32)

    # Learned values are known of the distances that were read.
    end = int(parted[1][-1]) if params and parted is not None else 2**17
    choice = survey(subject, expected, end=end, allowed=allowed)
    return _inferred(subject, spec, params, choice, notes, departed.sentences(words.slope))


def _by_distance(subject: Subject, values: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Biases by key minus query, as far as they are told; None where more than that counts."""
    count = values.shape[-1]
    if not np.isfinite(values).all() or (values[:, 1:, 1:] != values[:, :-1, :-1]).any():
        return None
    for reach in (2**14, 2**12, 2**10) if not subject._found.aligned else ():
        line, zero = np.arange(reach + 1), np.array([0])
        try:
            future, past = subject.bias(zero, line)[:, 0], subject.bias(line, zero)[:, :, 0]
        except Exception:  # noqa: BLE001, S112 - whatever other people's code raises
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
