"""Queries or keys held against a rotation: what ran, at which positions, and what differs."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from posenc._core.errors import PosencError
from posenc._core.grouping import grouped
from posenc.detect.contract.comparison.fields import changed, words
from posenc.detect.contract.comparison.why import why
from posenc.detect.fit import tolerances, turns, words as sentences
from posenc.detect.fit.ladders import BASES
from posenc.detect.fit.rotations.pairs import NotARotationError, Turns
from posenc.detect.fit.rotations.rotation import rotations_of
from posenc.detect.trace.result import UNTURNED
from posenc.detect.trace.turned import HeadTurns, TensorTurns
from posenc.encodings.rotary.base import RotarySpec

OF_PICTURES = (2000.0, 256.0)  # bases of FLUX.2 and Z-Image, diffusers 0.42.1
FARTHEST_CELL = 512  # CogView4 stretches any picture to 256 cells
BEYOND = 64  # positions that are looked for before the first, and after the last
MOST_PLACES = 2**14  # positions that are looked for at all
NEAR = 1e-3  # of a turn of size 1: an angle that is that of a position
STILL = 1e-6  # likewise: an angle that cannot be seen
SOME = 0.6  # of the tokens: where fewer are off, it is these that are
UNTOLD = "not compared: at these positions it turns by no more than roundings"
UNNAMED = re.compile(r"no one change explains|^[-+.e\d]+$")  # a number that has no name


class TensorFault(NamedTuple):
    """A finding of one tensor."""

    field: str
    expected: str
    seen: str
    heads: tuple[int, ...] = ()
    pairs: tuple[int, ...] = ()
    tokens: tuple[int, ...] = ()


class TurnQuestion(NamedTuple):
    """What a tensor is held against."""

    spec: Any  # a RotarySpec, or None
    places: np.ndarray  # (sequences, tokens) or (sequences, tokens, axes)
    counted: np.ndarray  # (sequences, tokens): which are no padding
    others: Sequence[tuple[str, RotarySpec]] = ()
    dtype: str = "float32"
    width: int = 0
    still: bool = True  # whether nothing is to turn, where there is no spec


@dataclass(eq=False)
class HeadReading:
    """What some heads do, and what of it is not as expected."""

    group: HeadTurns
    spec: Any = None
    places: np.ndarray | None = None
    faults: tuple[TensorFault, ...] = ()
    why: str = ""


def compare(turned: TensorTurns, question: TurnQuestion) -> tuple[HeadReading, list[TensorFault]]:
    """What most heads do, and the faults of all."""
    question = question._replace(
        dtype=turned.dtype if turned.dtype in tolerances.ROUNDING else "float32",
        width=turned.width,
        counted=question.counted & turned.read,
    )
    spec = question.spec
    if spec is not None and turned.width < spec.dim <= turned.heads * turned.width:
        return HeadReading(
            turned.groups[0],
            why=f"not compared: {spec.dim} channels turn, which are more than a head has",
        ), []
    # Of as many heads, those that agree are the others' measure.
    readings = sorted(
        (_read(group, question) for group in turned.groups),
        key=lambda one: (-len(one.group.heads), len(one.faults)),
    )
    heads = grouped(
        (fault, head) for one in readings for fault in one.faults for head in one.group.heads
    )
    return readings[0], [
        fault._replace(heads=() if len(own) == turned.heads else tuple(sorted(own)))
        for fault, own in heads.items()
    ]


def _read(group: HeadTurns, question: TurnQuestion) -> HeadReading:
    """What some heads do, held against what is expected."""
    spec = question.spec
    if group.why:
        seen = spec is not None and not group.why.startswith("not compared")
        fault = TensorFault("pairing", "a rotation of pairs", group.why)
        return HeadReading(group, faults=(fault,) * seen, why=group.why)
    if not group.pairs:
        fault = TensorFault("kind", type(spec).__name__, UNTURNED)
        moves = spec is not None and bool(_moving(spec, question).any())
        why = UNTURNED if moves or spec is None else UNTOLD
        return HeadReading(group, faults=(fault,) * moves, why=why)
    if spec is None:
        spec, note = _fitted(group, question)
        fault = TensorFault("kind", "none", "turned" if spec is None else words(spec))
        return HeadReading(
            group, spec, None if spec is None else question.places,
            (fault,) * question.still, note,
        )  # fmt: skip
    if spec.parameters() or spec.quarters:
        return HeadReading(
            group,
            why=f"not compared: angles of {type(spec).__name__} differ by head, or are learned",
        )
    values = of_pairs(group, spec, question)
    return _otherwise(group, question) if values is None else _angles(group, values, question)


def _moving(spec: RotarySpec, question: TurnQuestion) -> np.ndarray:
    """Which pairs of a spec are seen to turn at the positions that ran."""
    places = question.places[question.counted]
    if not len(places):
        return np.zeros(spec.pairs, bool)
    return np.asarray(np.abs(_of_spec(spec, places) - 1).max(axis=0) > STILL)


def _of_spec(spec: RotarySpec, places: np.ndarray) -> np.ndarray:
    """What a spec has there, of unit size, (tokens, pairs)."""
    length = int(places.max(initial=0)) + 1
    return turns.unit_of(turns.expected(spec, turns.PairTurns(places, np.empty(0), length)))


def pairs_of(spec: RotarySpec, width: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The channels of the pairs of a spec in a head, and those it writes to."""
    channels = spec.channels
    begin = 0 if channels.part == "leading" else width - spec.dim
    own = [(begin + a, begin + b) for a, b in channels.channels(spec.dim)]
    half = spec.dim // 2
    outputs = [(begin + j, begin + j + half) for j in range(len(own))]
    return own, outputs if channels.output == "half" else own


def of_pairs(group: HeadTurns, spec: RotarySpec, question: TurnQuestion) -> np.ndarray | None:
    """How each pair of a spec is turned; None where other channels are paired."""
    if spec.dim > question.width:
        return None
    seen = {pair: (number, group.outputs[number]) for number, pair in enumerate(group.pairs)}
    pairs, outputs = pairs_of(spec, question.width)
    apart = any(seen[p][1] != o for p, o in zip(pairs, outputs, strict=True) if p in seen)
    absent = np.array([pair not in seen for pair in pairs])
    few = (absent & _moving(spec, question)).sum() <= sentences.FEW
    if apart or not {*seen} <= {*pairs} or not few:
        return None
    # What does not turn has the size of what does.
    size = np.median(np.abs(group.values), axis=-1, keepdims=True)
    values = np.repeat(size.astype(complex), len(pairs), axis=-1)
    values[..., ~absent] = group.values[..., [seen[p][0] for p in pairs if p in seen]]
    return values if spec.channels.direction == "forward" else values.conj()


def _fitted(group: HeadTurns, question: TurnQuestion) -> tuple[Any, str]:
    """The spec of some turns, at the positions that are expected, or why there is none."""
    places = question.places if question.places.ndim == 2 else question.places[..., 0]
    row = int(np.argmax(question.counted.sum(axis=1)))
    own = question.counted[row]
    line, first = np.unique(places[row][own], return_index=True)
    values = group.values[row][own][first]
    angle = np.angle(values)
    observed = Turns(
        group.pairs, group.outputs, question.width, line[:, None].astype(np.float64), angle,
        np.abs(values), 2.0**-22 * (1 + np.minimum(np.abs(np.sin(angle)), 1.0)),
    )  # fmt: skip
    try:
        return rotations_of(observed, ("position",), None, 1.0)[0].spec, ""
    except (NotARotationError, PosencError, ArithmeticError, ValueError, IndexError) as error:
        return None, str(error)


def _otherwise(group: HeadTurns, question: TurnQuestion) -> HeadReading:
    """Heads whose pairs are others than expected: the same angles on other channels, or a fit."""
    expected: Any = question.spec
    for candidate in turns.pairings(expected, question.width):
        values = of_pairs(group, candidate, question) if candidate != expected else None
        if values is not None and not _wrong(candidate, values, question).any():
            spec, note = candidate, ""
            break
    else:
        spec, note = _fitted(group, question)
    if spec is None:
        fault = TensorFault(
            "pairing", words(expected.channels), note or f"{2 * len(group.pairs)} channels turn"
        )
        return HeadReading(group, faults=(fault,), why=note)
    return HeadReading(
        group, spec, question.places, tuple(_differing(expected, spec, question.width))
    )


def _differing(expected: Any, spec: Any, width: int) -> list[TensorFault]:
    """The fields that differ: another width or pairing says more than the rest."""
    rows = changed(expected, spec) or [("type", expected, spec, None)]
    first = [row for row in rows if row[0] == "dim" or row[0].startswith("pairing")]
    return [
        TensorFault(name, words(a), sentences.share(b, width) if name == "dim" else words(b))
        for name, a, b, _ in first or rows[:1]
    ]


# --- angles ---------------------------------------------------------------------------------------


def _angles(group: HeadTurns, values: np.ndarray, question: TurnQuestion) -> HeadReading:
    """Heads whose pairs are those of a spec: at which positions, and how fast."""
    spec = question.spec
    values = _sized(values, spec, question.counted)
    pairs = _wrong(spec, values, question)
    wrong, off = (np.asarray(pairs.any(axis=own)) for own in (-1, (0, 1)))
    if not wrong.any():
        still = np.ones_like(values)  # what does not turn at all
        return (
            HeadReading(group, spec, question.places)
            if _wrong(spec, still, question).any()
            else HeadReading(group, why=UNTOLD)
        )
    if not _wrong(spec, values.conj(), question).any():
        return HeadReading(
            group, spec, question.places, (TensorFault("pairing.direction", "forward", "backward"),)
        )
    far = question.counted & (question.places.reshape(*wrong.shape, -1) != 0).any(axis=-1)
    some = wrong[far].mean() < SOME if far.any() else False
    tokens = tuple(np.flatnonzero(wrong.any(axis=0)).tolist()) if some else ()
    placed = located(spec, values, question, wrong)
    moved = None
    # Or else they are nearest to where they are, and still off.
    if placed is not None and (placed != question.places)[wrong].any():
        moved = HeadReading(group, spec, placed, (_moved(placed, question, wrong, tokens),))
        shift = len(np.unique((placed - question.places)[wrong])) == 1
        twice = (placed == 2 * question.places)[wrong].all()
        if some or shift or (twice and not getattr(spec, "scalings", ())):
            return moved
    rows = _why(values, question, wrong if some else question.counted)
    if not rows or any(UNNAMED.search(row.b) for row in rows):
        if moved is None and not some and (other := _other(group, values, question)) is not None:
            moved = HeadReading(
                group, other, question.places, tuple(_differing(spec, other, question.width))
            )
        if moved is not None:
            return moved
    few = off.sum() <= max(1, min(sentences.FEW, len(off) // 4))
    few = tuple(np.flatnonzero(off).tolist()) if few else ()
    faults = tuple(
        TensorFault(row.field, row.a, row.b, (), few * (row.field == "frequencies"), tokens)
        for row in rows
    ) or (TensorFault("frequencies", words(spec), "others", (), few, tokens),)
    return HeadReading(group, why="turned at other angles", faults=faults)


def _other(group: HeadTurns, values: np.ndarray, question: TurnQuestion) -> Any:
    """Another spec of the same pairs: of a base of models, or a fit."""
    spec = question.spec
    for base in (*BASES, *OF_PICTURES) if hasattr(spec, "base") else ():
        candidate = turns.attempt(spec.replace, base=base)
        if candidate is not None and not _wrong(candidate, values, question).any():
            return candidate
    return _fitted(group, question)[0] if len(spec.axes) == 1 else None


def _sized(values: np.ndarray, spec: RotarySpec, counted: np.ndarray) -> np.ndarray:
    """Values with the sizes of the spec; another factor, or one of each token, is judged apart."""
    usual = spec.at(BEYOND).attention_factor
    size = np.median(np.abs(values), axis=-1, keepdims=True)
    size[size == 0] = usual
    middle = np.median(size[counted]) if counted.any() else usual
    if np.abs(size[counted] / middle - 1).max(initial=0.0) < 1e-2:
        size = middle
    return np.asarray(values / size * usual) if np.abs(size / usual - 1).max() > 1e-2 else values


def _seen(values: np.ndarray, question: TurnQuestion, row: int) -> turns.PairTurns:
    """The turns of a sequence, without padding."""
    own = question.counted[row]
    line = question.places[row][own]
    return turns.PairTurns(
        line, values[row][own], int(line.max(initial=0)) + 1, question.dtype, sized=False
    )


def _wrong(spec: RotarySpec, values: np.ndarray, question: TurnQuestion) -> np.ndarray:
    """Which pairs of which tokens are turned otherwise, (sequences, tokens, pairs)."""
    wrong = np.zeros(values.shape, bool)
    for row in np.flatnonzero(question.counted.any(axis=1)).tolist():
        seen = _seen(turns.unit_of(values), question, row)
        off = np.abs(seen.values - turns.unit_of(turns.expected(spec, seen)))
        wrong[row, question.counted[row]] = ~(off <= turns.allowed(spec, seen, 1.0))
    return wrong


def located(
    spec: RotarySpec, values: np.ndarray, question: TurnQuestion, wrong: np.ndarray
) -> np.ndarray | None:
    """The whole positions whose angles these are, axis by axis; None where some are of none."""
    axes = question.places.reshape(*wrong.shape, -1).shape[-1]
    last = max(int(np.abs(question.places).max(initial=0)), question.places.shape[1])
    last = last if axes == 1 else max(last, FARTHEST_CELL)
    if spec.needs_length or not wrong.any() or 2 * last > MOST_PLACES:
        return None
    steps = np.eye(axes, dtype=int)[:, 0] if axes == 1 else np.eye(axes, dtype=int)
    origin = _of_spec(spec, 0 * steps[:1])
    rates = np.angle(_of_spec(spec, steps) * origin.conj())
    line = np.arange(-BEYOND, 2 * last + BEYOND + 1)
    unit = turns.unit_of(values[wrong])
    places = question.places.reshape(*wrong.shape, -1).copy()
    room = max(NEAR, 8 * tolerances.ROUNDING[question.dtype])
    for axis, own in enumerate(rates):
        turning = own != 0
        table = np.exp(1j * line[:, None] * own[turning]) * origin[0, turning]
        off = np.array([np.abs(table - row[turning]).max(axis=1, initial=0.0) for row in unit])
        if (off.min(axis=1) > room).any():
            return None
        places[wrong, axis] = line[off.argmin(axis=1)]
    return places.reshape(question.places.shape)


def _moved(
    placed: np.ndarray, question: TurnQuestion, wrong: np.ndarray, tokens: tuple[int, ...]
) -> TensorFault:
    """Tokens that have the angles of other positions."""
    old, new = question.places[wrong], placed[wrong]
    shift = np.unique(new - old)
    if not new.any():
        return TensorFault("kind", type(question.spec).__name__, UNTURNED, tokens=tokens)
    if len(shift) == 1:
        text = sentences.offset(int(shift[0]))
    elif (new == 2 * old).all():
        text = "turned twice, as position 2 p"
    else:
        pairs = list(dict.fromkeys(
            f"{a} is taken for {b}" for a, b in zip(old.tolist(), new.tolist(), strict=True)
        ))  # fmt: skip
        more = f"; and so at {len(pairs) - 4:,} others" if len(pairs) > 4 else ""
        text = "; ".join(pairs[:4]) + more
    return TensorFault("positions", "position p", text, tokens=tokens)


def _why(values: np.ndarray, question: TurnQuestion, chosen: np.ndarray) -> list[Any]:
    """The one change that explains the numbers of the sequence that has most of them."""
    seen = _seen(values, question, int(np.argmax(chosen.sum(axis=1))))
    seen = seen.rows(np.argsort(seen.first, kind="stable"))
    size = np.abs(np.abs(seen.values) / np.abs(turns.expected(question.spec, seen)) - 1).max()
    with contextlib.suppress(ArithmeticError, ValueError):
        return why(question.spec, [seen._replace(sized=bool(size < 1e-2))], question.others)
    return []
