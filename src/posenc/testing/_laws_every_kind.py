"""The laws that every kind of encoding is held to."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from posenc._core.spec.answers import brief
from posenc.detect.infer import Inferred, infer_spec
from posenc.detect.subject import CannotAsk, Subject, asked
from posenc.detect.subject.calling import without_repeats
from posenc.encodings.rotary.base import RotarySpec
from posenc.testing.lab import Broken, Found, Lab, against, answer, broken_where, largest, law
from posenc.testing.places import expected_of, learned_by
from posenc.testing.subject import not_offered_where

SQUARE = 1024  # positions of a whole bias
FARTHEST, GRID = 2**20, 31  # positions; of a grid, whose cells code may all make
PLAINLY = 256  # tokens of a plain call
NUMBERED = "the spec, at {:,} places that positions number,"
ITSELF = "its own plain calls, of one row and head in order,"  # where no rule is known


@law("settings", "objects made with different bases do not share answers", "rotary", "table")
def settings(lab: Lab) -> Found:
    """One of base 10,000, then one of base 500,000, then the first again."""
    plain = answer(lab, lab.subject.build(base=10_000))
    away = largest(plain - answer(lab, lab.subject.build(base=500_000)))
    bases = {"bases": [10_000, 500_000]}
    broken_where(away < 1e-3, "the second has the answers of the first", bases, away, 1e-3)
    again = answer(lab, lab.subject.build(base=10_000))
    lab.same(again, plain, 0.0, bases=[10_000, 500_000, 10_000])
    return away, 1e-3


@law("repeat", "two calls, and two instances, give the same bits", "rotary", "table", "bias")
def repeat(lab: Lab) -> Found:
    """Unless its parameters are drawn at random, which a state dict then carries over."""
    first = answer(lab, lab.target)
    for calls in range(2, 8):
        lab.same(answer(lab, lab.target), first, 0.0, calls=calls)
    other = lab.subject.build()
    if hasattr(other, "load_state_dict"):
        other.load_state_dict(lab.target.state_dict())
    return lab.same(answer(lab, other), first, 0.0, instances=2)


@law("deepcopy", "a deep copy gives the same answers", "rotary", "table", "bias")
def deepcopied(lab: Lab) -> Found:
    """As models are copied for an average of their weights."""
    first = answer(lab, lab.target)
    return lab.same(answer(lab, copy.deepcopy(lab.target)), first, 0.0)


@law(
    "calls",
    "every kind of call gives the same numbers: those of the spec, or without one of plain calls",
    *("rotary", "table", "bias"),
)
def calls(lab: Lab) -> tuple[float, float]:
    """The survey that `posenc infer` and `posenc diff` make, too."""
    mine = lab.subject
    subject: Subject = mine.asked or asked(
        mine, axes=mine.axes, dim=mine.dim, heads=mine.heads, kind=mine.kind,
        library=mine.library, layout=None,
    )  # fmt: skip
    choice: Any = _named(mine, subject)
    ruled = choice is not None or mine.spec is not None
    places = mine.places
    if choice is None:
        end = GRID if mine.axes > 1 else FARTHEST if places is None else len(places) - 1
        choice = subject.survey(_expected(lab, subject), end=end)
    numbered = "" if places is None else NUMBERED.format(len(places))
    lab.reach = dataclasses.replace(choice.reach, against=numbered if ruled else ITSELF)
    if choice.call is not None:
        numbers = against(choice.call.received, choice.call.expected)
        at = {} if places is None else {p: places[p] for p in choice.call.positions[0][:1]}
        says = f"{choice.call}: {numbers}" + "".join(f"; {p} is at {at[p]}" for p in at)
        if mine.spec is not None and learned_by(mine.spec, subject._target) is None:
            names = ", ".join(mine.spec.shapes)
            says += f"; the code has no state dict with {names}: the spec has those of posenc.init"
        raise Broken(says, {}, choice.difference, choice.tolerance)
    if departed := getattr(choice, "departures", ()):
        says = f"{brief(choice.spec)}, but {', '.join(departed)}"
        raise Broken(says, {}, math.inf, choice.tolerance)
    not_offered_where(not choice.reach.positions, "; ".join(choice.reach.refused))
    return choice.difference, choice.tolerance


def _named(mine: Any, subject: Subject) -> Inferred | None:
    """The rule that code without a spec follows, and how far; None where none is known.

    Of a bias it is not asked: some make all positions to the farthest, squared.
    """
    if mine.spec is not None or mine.axes > 1 or subject.kind == "bias":
        return None
    try:
        inferred = infer_spec(subject, dim=subject.dim)
    except CannotAsk:
        return None
    return inferred if inferred.spec is not None and not inferred.params else None


def _expected(lab: Lab, subject: Subject) -> Any:
    mine, spec = lab.subject, lab.subject.spec
    not_offered_where(
        spec is None and mine.axes > 1, "positions of several axes are held against a spec alone"
    )
    if spec is None:
        return PLAIN.get(subject.kind, _built)(subject)
    if isinstance(spec, RotarySpec) and len(spec.axes) > 1 and mine.places is None:
        return lab.truth  # along the first axis
    return expected_of(spec, subject.kind, mine.places, learned_by(spec, subject._target))


# --- what code answers in a plain call: one row, one head, float32, positions in order ------------


def _rotated(subject: Subject) -> Callable[..., Any]:
    kept: dict[tuple[int, ...], np.ndarray] = {}  # of equal calls, before and after others

    def plain(x: np.ndarray, rows: np.ndarray) -> np.ndarray:
        key = (*x.shape, hash(x.tobytes()), hash(rows.tobytes()))
        if key not in kept:
            kept[key] = np.concatenate([_in_order(subject, x[[b]], rows[b]) for b in range(len(x))])
        return kept[key]

    return plain


def _in_order(subject: Subject, x: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Tokens of one row in calls of their own, none alone."""
    out = np.empty_like(x)
    for head in range(x.shape[1]):
        for chosen in without_repeats(row):
            ordered = chosen[np.argsort(row[chosen])]
            for part in np.array_split(ordered, -(-len(ordered) // PLAINLY)):
                line, places = _beside(row[part])
                tokens = np.ones((1, 1, len(line), x.shape[-1]))
                tokens[0, 0, places] = x[0, head, part]
                out[0, head, part] = subject.rotate(tokens, line)[0, 0, places]
    return out


def _beside(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions in order with their neighbours, so that none is asked alone, and where they are."""
    line = np.union1d(rows, np.abs(rows - 1))
    return line, np.searchsorted(line, rows)


def _built(subject: Subject) -> Callable[..., Any]:
    """Rows of a table, or cosines and sines."""

    def plain(rows: np.ndarray) -> Any:
        line, places = _beside(rows)
        return (
            subject.rows(line)[places]
            if subject.kind == "table"
            else tuple(part[places] for part in subject.cos_sin(line))
        )

    return plain


def _biased(subject: Subject) -> Callable[..., Any]:
    def plain(q: np.ndarray, k: np.ndarray) -> np.ndarray:
        line = np.union1d(q, k)
        not_offered_where(
            len(line) > SQUARE, f"{len(line):,} positions of a whole bias are too many"
        )
        whole = subject.bias(line, line)
        return whole[:, np.searchsorted(line, q)][..., np.searchsorted(line, k)]

    return plain


PLAIN: dict[str, Callable[[Subject], Callable[..., Any]]] = {"rotary": _rotated, "bias": _biased}
