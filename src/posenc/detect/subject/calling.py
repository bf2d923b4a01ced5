"""Questions of any rows of positions, in as few and as wide calls as a form allows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from posenc.detect.subject.code import CannotAsk
from posenc.detect.subject.discovery import Found, biases
from posenc.detect.subject.forms import CallCounter, Form, Inquiry
from posenc.detect.subject.forms import built as made_by
from posenc.detect.subject.forms import turned as turned_by

PLACED = ("positions", "tables")  # ways to have tokens stand anywhere
COUNTED = 2**14  # tokens of a sequence in which one token stands at its place
SQUARE = 2**10  # keys of a bias that has as many queries
TABLED = 2**17  # rows of a table that is asked by its length


def rows_made(form: Form, rows: np.ndarray, dim: int, counter: CallCounter) -> list[np.ndarray]:
    """What a function of positions makes of rows of them, each (batch or 1, seq, ...)."""
    asked = Inquiry(None, rows)
    if form.way == "length" and not form.layout:
        if asked.end > TABLED:
            raise CannotAsk(f"{form.code.name} takes a length, and {asked.end:,} is too long")
        return [part[:, rows[0]] for part in made_by(form, asked, counter)]
    if form.way == "positions" and not form.layout:
        return made_by(form, asked, counter)
    if form.way != "positions":  # it counts tokens
        if asked.end > COUNTED:
            raise CannotAsk(f"{form.code.name} counts tokens, and {asked.end:,} are too many")
        line = np.arange(asked.end)
        asked = Inquiry(None, line[None])
    x = np.ones((len(asked.rows), 1, asked.rows.shape[1], dim)) if form.layout else None
    parts = made_by(form, asked._replace(x=x), counter)
    return parts if form.way == "positions" else [part[:, rows[0]] for part in parts]


# --- rotations, in as few and as wide calls as a form allows --------------------------------------


def turn(form: Form, asked: Inquiry, counter: CallCounter) -> list[np.ndarray]:
    """Tokens of any rows at any positions."""
    x: Any = asked.x
    rows = asked.rows
    if "h" not in form.layout and "f" not in form.layout and x.shape[1] > 1:
        each = [turn(form, asked._replace(x=x[:, [h]]), counter) for h in range(x.shape[1])]
        return _joined(each, 1)
    alike = bool((rows == rows[:1]).all())
    many = form.way in PLACED and ("b" in form.place or form.place == "t")
    # Tokens of all rows in one are counted through, unless something says where rows end.
    wide = many or (alike and ("b" in form.layout or form.way == "packed"))
    if len(x) > 1 and not wide:
        each = [turn(form, asked._replace(x=x[[b]], rows=rows[[b]]), counter)
                for b in range(len(x))]  # fmt: skip
        return _joined(each, 0)
    if form.way in PLACED:
        return turned_by(form, asked, counter)
    row = rows[0]
    runs = np.flatnonzero(np.diff(row) != 1) + 1
    if form.way == "offset":
        pieces = np.split(np.arange(len(row)), runs)
        each = [turned_by(form, asked._replace(x=x[:, :, i], rows=rows[:, i]), counter)
                for i in pieces]  # fmt: skip
        return _joined(each, 2)
    if not len(runs) and row[0] == 0:
        return turned_by(form, asked, counter)
    return _in_place(form, asked, counter)


def _in_place(form: Form, asked: Inquiry, counter: CallCounter) -> list[np.ndarray]:
    """Tokens at their places in longer sequences, of code that counts tokens itself."""
    x: Any = asked.x
    row, end = asked.rows[0], asked.end
    if end > COUNTED:
        raise CannotAsk(f"{form.code.name} counts tokens itself, and {end:,} of them are too many")
    outs: list[np.ndarray] = []
    for chosen in without_repeats(row):
        tokens = np.repeat(x[:, :, chosen[:1]], end, axis=2)
        tokens[:, :, row[chosen]] = x[:, :, chosen]
        line = np.repeat(np.arange(end)[None], len(x), axis=0)
        parts = turned_by(form, asked._replace(x=tokens, rows=line), counter)
        outs = outs or [np.empty_like(x) for _ in parts]
        for out, part in zip(outs, parts, strict=True):
            out[:, :, chosen] = part[:, :, row[chosen]]
    return outs


def without_repeats(row: np.ndarray) -> Iterator[np.ndarray]:
    """Which tokens of a row to ask together, so that no position comes twice."""
    left = np.arange(len(row))
    while len(left):
        _, first = np.unique(row[left], return_index=True)
        yield left[np.sort(first)]
        left = np.delete(left, first)


def _joined(each: list[list[np.ndarray]], axis: int) -> list[np.ndarray]:
    return [np.concatenate(parts, axis=axis) for parts in zip(*each, strict=True)]


# --- biases -------------------------------------------------------------------------------------


def biased(choice: Found, q: np.ndarray, k: np.ndarray, counter: CallCounter) -> np.ndarray:
    """The bias between any positions, of code that takes lengths, too."""
    if not choice.aligned:
        return biases(choice.form, Inquiry(None, q[None], keys=k[None]), counter)
    keys, queries = int(max(q.max(), k.max())) + 1, len(q)
    rows = {"last": np.arange(keys - queries, keys), "first": np.arange(queries)}
    wanted = rows.get(choice.aligned)
    line = np.arange(keys)[None]
    if wanted is not None and np.array_equal(q, wanted):
        asked = Inquiry(None, q[None], keys=line)
        return biases(choice.form, asked, counter)[..., k]
    if keys > SQUARE:
        raise CannotAsk(f"{choice.form.code.name} takes lengths, and {keys:,} keys are too many")
    whole = biases(choice.form, Inquiry(None, line, keys=line), counter)
    return whole[:, q][..., k]
