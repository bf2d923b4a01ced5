"""Queries or keys held against a rotation: what ran, at which positions, and what differs."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from posenc.detect.contract.comparison.fields import changed, words
from posenc.detect.contract.comparison.why import why
from posenc.detect.fit import tolerances, turns
from posenc.detect.fit import words as sentences
from posenc.detect.fit.rotations.pairs import NotARotationError, Turns
from posenc.detect.fit.rotations.rotation import rotations_of
from posenc.detect.trace.turned import HeadTurns, TensorTurns
from posenc.encodings.rotary.base import RotarySpec

FARTHEST = 64  # positions that are looked for before the first, and beyond the last
STILL = 1e-6  # of a turn: angles that cannot be seen
UNTURNED = "not turned"
UNNAMED = ("others, that no one change explains", "no one change explains them")


class Fault(NamedTuple):
    """A finding of one tensor."""

    field: str
    expected: str
    found: str
    heads: tuple[int, ...] = ()
    pairs: tuple[int, ...] = ()
    tokens: tuple[int, ...] = ()


@dataclass(eq=False)
class Result:
    """What some heads do."""

    spec: Any = None
    places: np.ndarray | None = None
    faults: list[Fault] = field(default_factory=list)
    why: str = ""
    shift: int = 0


@dataclass(eq=False)
class Cluster:
    """Heads that are turned alike."""

    heads: tuple[int, ...]
    group: HeadTurns
    values: np.ndarray  # (sequences, tokens, pairs)
    passing: np.ndarray  # (sequences, tokens)
    result: Result = field(default_factory=Result)


class Question(NamedTuple):
    """What a tensor is held against."""

    spec: RotarySpec | None
    places: np.ndarray  # (sequences, tokens) or (sequences, tokens, axes)
    counted: np.ndarray  # (sequences, tokens): which are no padding
    others: Sequence[tuple[str, RotarySpec]] = ()
    dtype: str = "float32"
    width: int = 0
    known: bool = True


def clusters_of(turned: TensorTurns) -> list[Cluster]:
    """Heads that are turned alike, the largest cluster first."""
    room = 16 * tolerances.ROUNDING.get(turned.dtype, 2.0**-24) + 1e-6
    clusters: list[Cluster] = []
    for group in turned.groups:
        near = next((c for c in clusters if _alike(c.group, group, room)), None)
        if near is None:
            clusters.append(Cluster(group.heads, group, group.values, group.passing))
        else:
            near.heads = (*near.heads, *group.heads)
    return sorted(clusters, key=lambda c: -len(c.heads))


def _alike(one: HeadTurns, other: HeadTurns, room: float) -> bool:
    """Whether heads turn the same pairs by the same angles."""
    if (one.pairs, one.outputs, one.why) != (other.pairs, other.outputs, other.why):
        return False
    off = turns.unit_of(one.values) - turns.unit_of(other.values)
    return bool(np.abs(off).max(initial=0.0) <= room)


def compare(turned: TensorTurns, question: Question) -> tuple[Cluster, list[Fault]]:
    """The cluster of most heads, with what it does, and the faults of all."""
    clusters = clusters_of(turned)
    question = question._replace(
        dtype=turned.dtype, width=turned.width, counted=question.counted & turned.read
    )
    for cluster in clusters:
        cluster.result = _held(cluster, question)
    # Of as many heads, those that agree are the others' measure.
    clusters.sort(key=lambda c: (-len(c.heads), len(c.result.faults)))
    main, faults = clusters[0], []
    for cluster in clusters:
        heads = () if len(clusters) == 1 else tuple(sorted(cluster.heads))
        faults += [fault._replace(heads=heads) for fault in cluster.result.faults]
    unlike = [c for c in clusters if c.result.faults]
    texts = {tuple((f.field, f.found) for f in c.result.faults) for c in clusters}
    if len(unlike) == len(clusters) and len(texts) == 1:  # all heads alike in what is wrong
        faults = list(main.result.faults)
    return main, faults


def _held(cluster: Cluster, question: Question) -> Result:
    """What some heads do, held against what is expected."""
    group, spec = cluster.group, question.spec
    if group.why:
        fault = Fault("pairing", "a rotation of pairs", group.why)
        return Result(why=group.why, faults=[fault] if spec is not None else [])
    if not group.pairs:
        moving = spec is not None and _moves(spec, question)
        kind = type(spec).__name__
        return Result(faults=[Fault("kind", kind, UNTURNED)] if moving else [], why=UNTURNED)
    if spec is None:
        return _unexpected(cluster, question)
    if not spec.plain and not _one_head(spec):
        text = f"not compared: angles of {type(spec).__name__} differ by head, or are learned"
        return Result(why=text)
    values = _as_pairs(cluster, spec, question)
    if values is None:
        return _otherwise(cluster, question)
    return _angles(cluster, spec, values, question)


def _one_head(spec: RotarySpec) -> bool:
    return not spec.parameters() and not spec.quarters


def _wanted(spec: RotarySpec, places: np.ndarray) -> np.ndarray:
    """What a spec has there, (tokens, pairs)."""
    seen = turns.PairTurns(places, np.empty(0), int(places.max(initial=0)) + 1)
    return turns.expected(spec, seen)


def _moves(spec: RotarySpec, question: Question) -> bool:
    """Whether a turn would be seen at the positions that ran."""
    places = question.places[question.counted]
    if not len(places):
        return False
    wanted = turns.unit_of(_wanted(spec, places))
    return bool(np.abs(wanted - 1).max(initial=0.0) > STILL)


def pairs_of(spec: RotarySpec, width: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The channels of the pairs of a spec in a head, and where it writes them."""
    channels = spec.channels
    begin = 0 if channels.part == "leading" else width - spec.dim
    own = [(begin + a, begin + b) for a, b in channels.channels(spec.dim)]
    half = spec.dim // 2
    out = [(begin + j, begin + j + half) for j in range(half)]
    return own, out[: len(own)] if channels.output == "half" else own


def _as_pairs(cluster: Cluster, spec: RotarySpec, question: Question) -> np.ndarray | None:
    """How each pair of a spec is turned; None where other channels are paired."""
    group = cluster.group
    if spec.dim > question.width:
        return None
    own, out = pairs_of(spec, question.width)
    seen = {pair: k for k, pair in enumerate(group.pairs)}
    place = {pair: j for j, pair in enumerate(own)}
    backward = {(b, a): j for j, (a, b) in enumerate(own) if a > b}
    if not set(seen) <= set(place) | set(backward):
        return None
    values = np.ones((*cluster.values.shape[:2], len(own)), complex) * cluster.passing[..., None]
    missing = []
    for j, pair in enumerate(own):
        k = seen.get(pair, seen.get(pair[::-1]))
        if k is None:
            missing.append(j)
        elif {*group.outputs[k]} != {*out[j]}:
            return None
        else:
            value = cluster.values[..., k]
            values[..., j] = value if pair in seen else value.conj()
    if missing:
        places = question.places[question.counted]
        still = np.abs(turns.unit_of(_wanted(spec, places)) - 1).max(axis=0, initial=0.0) <= STILL
        absent = [j for j in missing if not still[j]]
        if len(absent) > sentences.FEW:
            return None
        factor = np.median(np.abs(cluster.values))  # what does not turn has the size of the others
        values[..., missing] = factor
    return values if spec.channels.direction == "forward" else values.conj()


def _unexpected(cluster: Cluster, question: Question) -> Result:
    """Heads that turn where nothing is expected, or known."""
    spec, note = fitted(cluster, question.places, question.counted, question.width)
    text = "turned" if spec is None else words(spec)
    faults = [Fault("kind", "none", text)] if question.known else []
    return Result(spec, question.places if spec is not None else None, faults, note)


def fitted(
    cluster: Cluster, places: np.ndarray, counted: np.ndarray, width: int
) -> tuple[Any, str]:
    """The spec of some turns, at positions that are taken for granted, or why there is none."""
    group = cluster.group
    if places.ndim > 2:
        if (places != places[..., :1]).any():
            return None, "turned along several axes"
        places = places[..., 0]
    row = int(np.argmax(counted.sum(axis=1)))
    own = counted[row]
    line, first = np.unique(places[row][own], return_index=True)
    values = cluster.values[row][own][first]
    angle = np.angle(values)
    error = np.full(angle.shape, 2.0**-22) + 2.0**-22 * np.minimum(np.abs(np.sin(angle)), 1.0)
    made = Turns(
        group.pairs, group.outputs, width, line[:, None].astype(np.float64), angle,
        np.abs(values), error,
    )  # fmt: skip
    try:
        return rotations_of(made, ("position",), None, 1.0)[0].spec, ""
    except NotARotationError as why_not:
        return None, str(why_not)
    except Exception as error_:  # noqa: BLE001 - a fit of strange numbers is no answer
        return None, f"turned as no spec says ({error_})"


def _otherwise(cluster: Cluster, question: Question) -> Result:
    """Heads whose pairs are others than expected."""
    spec: Any = question.spec
    found, note = _paired(cluster, spec, question), ""
    if found is None:
        found, note = fitted(cluster, question.places, question.counted, question.width)
    if found is None:
        turning = 2 * len(cluster.group.pairs)
        text = note or f"{turning} channels turn"
        return Result(None, None, [Fault("pairing", words(spec.channels), text)], note)
    faults = []
    for name, mine, theirs, _ in _changed(spec, found):
        text = sentences.share(theirs, question.width) if name == "dim" else words(theirs)
        faults.append(Fault(name, words(mine), text))
    return Result(found, question.places, faults or [Fault("type", words(spec), words(found))])


def _paired(cluster: Cluster, spec: RotarySpec, question: Question) -> RotarySpec | None:
    """The same angles on other channels, where that is all."""
    places, counted = question.places, question.counted
    for candidate in turns.pairings(spec, question.width):
        values = _as_pairs(cluster, candidate, question)
        if values is not None and candidate != spec:
            values = values / _factor(candidate, values, counted)
            if not _wrong(candidate, values, places, counted, question.dtype).any():
                return candidate
    return None


def _changed(spec: Any, found: Any) -> list[Any]:
    """The fields that differ: a width with the rest as it was says more than a new ladder."""
    rows = changed(spec, found)
    first = [row for row in rows if row[0] == "dim" or row[0].startswith("pairing")]
    return first or rows[:1]


# --- angles ---------------------------------------------------------------------------------------


def _angles(cluster: Cluster, spec: RotarySpec, values: np.ndarray, question: Question) -> Result:
    """Heads whose pairs are those of a spec: at which positions, and how fast."""
    places, counted = question.places, question.counted
    factor = _factor(spec, values, counted)
    values = values / factor
    wrong = _wrong(spec, values, places, counted, question.dtype)
    if not wrong.any():
        return Result(spec, places)
    shifted = _shift(spec, values, question)
    if shifted is not None:
        return Result(spec, places + shifted, [], shift=shifted)
    moving = counted & (np.abs(places).reshape(*counted.shape, -1).max(axis=-1) > 0)
    share = wrong[moving].mean() if moving.any() else 1.0
    some = share < 0.6
    tokens = () if not some else tuple(np.flatnonzero(wrong.any(axis=0)).tolist())
    located = _located(spec, values, question, wrong)
    if some and located is not None:
        return _moved(spec, located, question, wrong, tokens)
    squared = _wrong(spec, _root(spec, values, places), places, counted, question.dtype)
    if not squared.any():
        return Result(spec, None, [Fault("positions", "position p", "turned twice, as 2 p")])
    rows = _why(spec, values, question, wrong if some else counted)
    unnamed = not rows or any(text in row.b for row in rows for text in UNNAMED)
    if unnamed and located is not None:
        return _moved(spec, located, question, wrong, tokens)
    faults = [
        Fault(row.field, row.a, row.b, (), _odd_pairs(spec, values, question, row), tokens)
        for row in rows
    ]
    found, note = fitted(cluster, places, counted, question.width) if not some else (spec, "")
    if unnamed and found is not None and not some:
        named = _changed(spec, found)
        faults = [Fault(n, words(a), words(b)) for n, a, b, _ in named] or faults
    return Result(
        found, places if found is not None else None, faults, note if found is None else ""
    )


def _factor(spec: RotarySpec, values: np.ndarray, counted: np.ndarray) -> Any:
    """What is divided by, so that sizes are those of the spec: one number for each token."""
    own = np.abs(values).copy()
    size = np.median(own, axis=-1, keepdims=True)
    wanted = spec.at(64).attention_factor if spec.needs_length else spec.attention_factor
    ratio = size / wanted
    close = np.abs(ratio - 1) < 1e-3
    return np.where(close | ~counted[..., None] | (ratio == 0), 1.0, ratio)


def _seen(values: np.ndarray, places: np.ndarray, dtype: str) -> Any:
    length = int(places.max(initial=0)) + 1
    dtype = dtype if dtype in tolerances.ROUNDING else "float32"
    return turns.PairTurns(places, values, length, dtype, sized=False)


def _wrong(
    spec: RotarySpec, values: np.ndarray, places: np.ndarray, counted: np.ndarray, dtype: str
) -> np.ndarray:
    """Which tokens are turned otherwise, (sequences, tokens)."""
    wrong = np.zeros(counted.shape, bool)
    for row, own in enumerate(counted):
        if not own.any():
            continue
        line = places[row][own]
        seen = _seen(turns.unit_of(values[row][own]), line, dtype)
        wanted = turns.unit_of(turns.expected(spec, seen))
        wrong[row, own] = turns.off_by(spec, seen, wanted)[1]
    return wrong


def _root(spec: RotarySpec, values: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Values that are once turned where these are twice."""
    wanted = np.stack([turns.unit_of(_wanted(spec, line)) for line in places])
    return turns.unit_of(values) * wanted.conj()


def _shift(spec: RotarySpec, values: np.ndarray, question: Question) -> int | None:
    """By how much all positions of all sequences are moved, if that is all."""
    if question.places.ndim > 2:
        return None
    for shift in sorted(range(-FARTHEST, FARTHEST + 1), key=abs):
        if not shift or not question.counted.any():
            continue
        row = int(np.argmax(question.counted.sum(axis=1)))
        first = np.flatnonzero(question.counted[row])[-1:]
        near = _wanted(spec, question.places[row][first] + shift)
        unit = turns.unit_of(values[row][first])
        if np.abs(turns.unit_of(near) - unit).max() > 0.05:
            continue
        places = question.places + shift
        if not _wrong(spec, values, places, question.counted, question.dtype).any():
            return shift
    return None


def _located(
    spec: RotarySpec, values: np.ndarray, question: Question, wrong: np.ndarray
) -> np.ndarray | None:
    """The positions whose angles these are; None where some are of none."""
    if question.places.ndim > 2 or spec.needs_length:
        return None
    places, own = question.places.copy(), wrong
    last = max(int(question.places.max(initial=0)), question.places.shape[1])
    line = np.arange(-FARTHEST, 2 * last + FARTHEST + 1)
    table = turns.unit_of(_wanted(spec, np.maximum(line, 0)))
    table = np.where((line < 0)[:, None], turns.unit_of(_wanted(spec, np.abs(line))).conj(), table)
    unit = turns.unit_of(values[own])
    best = [int(line[np.argmin(np.abs(table - row).max(axis=1))]) for row in unit]
    places[own] = best
    if _wrong(spec, values, places, own, question.dtype).any():
        return None
    return places


def _moved(
    spec: RotarySpec, located: np.ndarray, question: Question, wrong: np.ndarray,
    tokens: tuple[int, ...],
) -> Result:  # fmt: skip
    """Tokens that have the angles of other positions."""
    pairs = [(int(a), int(b)) for a, b in zip(question.places[wrong], located[wrong], strict=True)]
    if all(b == 0 for _, b in pairs):
        fault = Fault("kind", type(spec).__name__, UNTURNED, tokens=tokens)
        return Result(spec, located, [fault])
    texts = list(dict.fromkeys(f"{a} is taken for {b}" for a, b in pairs))
    more = f"; and so at {len(texts) - 4:,} others" if len(texts) > 4 else ""
    fault = Fault("positions", "position p", "; ".join(texts[:4]) + more, tokens=tokens)
    return Result(spec, located, [fault])


def _why(spec: RotarySpec, values: np.ndarray, question: Question, chosen: np.ndarray) -> list[Any]:
    """The one change that explains the numbers."""
    row = int(np.argmax(chosen.sum(axis=1)))
    own = question.counted[row]
    line = question.places[row][own]
    flat = line if line.ndim == 1 else line.max(axis=-1)
    order = np.argsort(flat, kind="stable")
    seen = _seen(values[row][own][order], line[order], question.dtype)
    size = np.abs(np.abs(seen.values) / np.abs(turns.expected(spec, seen)) - 1).max()
    with contextlib.suppress(ArithmeticError, ValueError):
        return why(spec, [seen._replace(sized=bool(size < 1e-2))], question.others)
    return []


def _odd_pairs(
    spec: RotarySpec, values: np.ndarray, question: Question, row: Any
) -> tuple[int, ...]:
    """The pairs that are off, where these are few."""
    if row.field not in ("frequencies", "positions", "pairing"):
        return ()
    off = np.zeros(values.shape[-1], bool)
    for number, own in enumerate(question.counted):
        if own.any():
            seen = _seen(turns.unit_of(values[number][own]), question.places[number][own],
                         question.dtype)  # fmt: skip
            room = turns.allowed(spec, seen, 1.0)
            wanted = turns.unit_of(turns.expected(spec, seen))
            off |= (np.abs(seen.values - wanted) > room).any(axis=0)
    few = max(1, min(sentences.FEW, len(off) // 4))
    return tuple(np.flatnonzero(off).tolist()) if 0 < off.sum() <= few else ()
