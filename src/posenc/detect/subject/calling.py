"""Questions of any rows of positions, in as few and as wide calls as a form allows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from posenc.detect.subject.code import refuse_if
from posenc.detect.subject.discovery import Found, biases
from posenc.detect.subject.forms import CallCounter, Form, Inquiry, built, turned

PLACED = ("positions", "tables")  # ways to have tokens stand anywhere
COUNTED = 2**14  # tokens of a sequence in which one token stands at its place
SQUARE = 2**10  # keys of a bias that has as many queries
TABLED = 2**17  # rows of a table that is asked by its length


def rows_made(
    form: Form, rows: np.ndarray, counter: CallCounter, dtype: str = "float32"
) -> list[np.ndarray]:
    """What a function of positions makes of rows of them, each (batch or 1, seq, ...)."""
    if len(rows) > 1 and form.place != "bs":
        return [
            np.concatenate(parts)
            for parts in zip(
                *[rows_made(form, row[None], counter, dtype) for row in rows], strict=True
            )
        ]
    if form.way == "positions":
        return built(form, Inquiry(None, rows, dtype), counter)
    end, most = int(rows.max()) + 1, TABLED if form.way == "length" and not form.layout else COUNTED
    refuse_if(end > most, f"{form.code.name} makes rows from 0 on, and {end:,} are too many")
    line = Inquiry(None, np.arange(end)[None], dtype)
    return [part[:, rows[0]] for part in built(form, line, counter)]


def turn(form: Form, asked: Inquiry, counter: CallCounter) -> list[np.ndarray]:
    """Tokens of any rows at any positions."""
    x: Any = asked.x
    rows = asked.rows
    alike = bool((rows == rows[:1]).all())
    # Tokens of all rows in one are counted through, unless something says where rows end.
    wide = (form.way in PLACED and ("b" in form.place or form.place == "t")) or (
        alike and ("b" in form.layout or form.way == "packed")
    )
    if len(x) > 1 and not wide:
        return _joined(
            form, [asked._replace(x=x[[b]], rows=rows[[b]]) for b in range(len(x))], counter, 0
        )
    if x.shape[1] > 1 and not {"h", "f"} & {*form.layout}:
        return _joined(form, [asked._replace(x=x[:, [h]]) for h in range(x.shape[1])], counter, 1)
    runs = np.flatnonzero(np.diff(rows[0], axis=0) != 1) + 1 if form.way not in PLACED else rows[:0]
    if form.way == "offset" and len(runs):
        return _joined(
            form,
            [
                asked._replace(x=a, rows=b)
                for a, b in zip(
                    np.split(x, runs, axis=2), np.split(rows, runs, axis=1), strict=True
                )
            ],
            counter,
            2,
        )
    return (
        turned(form, asked, counter)
        if form.way in (*PLACED, "offset") or not (len(runs) or rows[0, 0])
        else _in_place(form, asked, counter)
    )


def _joined(form: Form, each: list[Inquiry], counter: CallCounter, axis: int) -> list[np.ndarray]:
    return [
        np.concatenate(part, axis=axis)
        for part in zip(*(turn(form, one, counter) for one in each), strict=True)
    ]


def _in_place(form: Form, asked: Inquiry, counter: CallCounter) -> list[np.ndarray]:
    """Tokens at their places in longer sequences, of code that counts tokens itself."""
    x: Any = asked.x
    row, end = asked.rows[0], asked.end
    refuse_if(
        end > COUNTED, f"{form.code.name} counts tokens itself, and {end:,} of them are too many"
    )
    outs: list[np.ndarray] = []
    for chosen in without_repeats(row):
        tokens = np.repeat(x[:, :, chosen[:1]], end, axis=2)
        tokens[:, :, row[chosen]] = x[:, :, chosen]
        parts = turned(
            form,
            asked._replace(x=tokens, rows=np.repeat(np.arange(end)[None], len(x), axis=0)),
            counter,
        )
        outs = outs or [np.empty_like(x) for _ in parts]
        for out, part in zip(outs, parts, strict=True):
            out[:, :, chosen] = part[:, :, row[chosen]]
    return outs


def without_repeats(row: np.ndarray) -> Iterator[np.ndarray]:
    """Which tokens of a row to ask together, so that no position comes twice."""
    turns = np.array([(row[:i] == place).sum() for i, place in enumerate(row)])
    return (np.flatnonzero(turns == n) for n in range(turns.max() + 1))


def biased(choice: Found, q: np.ndarray, k: np.ndarray, counter: CallCounter) -> np.ndarray:
    """The bias between any positions, of code that takes lengths, too."""
    if not choice.aligned:
        return biases(choice.form, Inquiry(None, q[None], keys=k[None]), counter)
    keys, queries = int(max(q.max(), k.max())) + 1, len(q)
    wanted = {"last": np.arange(keys - queries, keys), "first": np.arange(queries)}.get(
        choice.aligned
    )
    line = np.arange(keys)[None]
    if wanted is not None and np.array_equal(q, wanted):
        return biases(choice.form, Inquiry(None, q[None], keys=line), counter)[..., k]
    refuse_if(
        keys > SQUARE, f"{choice.form.code.name} takes lengths, and {keys:,} keys are too many"
    )
    return biases(choice.form, Inquiry(None, line, keys=line), counter)[:, q][..., k]
