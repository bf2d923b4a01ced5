"""Signatures that are drawn: whatever the names, order and layout, no form gives a wrong number."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import event, given, strategies as st

import posenc
from tests.detect.subject.loops import CALLS, TWO_ROWS, Row, Turn, answer, off

# The axes of x, and which of them is the sequence.
LAYOUTS = {
    "bhsd": (4, -2),
    "bshd": (4, -3),
    "sbhd": (4, 0),
    "hsd": (3, -2),
    "shd": (3, 0),
    "sd": (2, 0),
}
QUERIES = ("x", "q", "query", "xq", "hidden_states", "inputs", "tensor", "u")
KEYS = ("k", "key", "xk")
PLACES = ("positions", "position_ids", "pos", "input_pos", "position", "w")
OFFSETS = ("offset", "start_pos", "past_len", "start")


class Signature(NamedTuple):
    """A way to call a rotation."""

    query: str
    key: str
    places: str
    counts: bool  # what is handed over is the first position
    rows: bool  # positions are (batch, seq)
    order: tuple[int, ...]
    named: bool  # by keyword alone
    layout: str
    pairing: str
    returns: str


@st.composite
def signatures(draw: Any) -> Signature:
    counts = draw(st.booleans())
    layout = draw(st.sampled_from(sorted(LAYOUTS)))
    key = draw(st.sampled_from(("", "", *KEYS)))
    return Signature(
        query=draw(st.sampled_from(QUERIES if not key else QUERIES[1:4])),
        key=key,
        places=draw(st.sampled_from(OFFSETS if counts else PLACES)),
        counts=counts,
        rows=not counts and LAYOUTS[layout][0] == 4 and draw(st.booleans()),
        order=tuple(draw(st.permutations(range(3 if key else 2)))),
        named=draw(st.booleans()),
        layout=layout,
        pairing=draw(st.sampled_from(("half", "interleaved"))),
        returns=draw(st.sampled_from(("plain", "plain", "dictionary", "in place"))),
    )


def turned(x: Any, places: Any, way: Signature) -> Any:
    """The right rotation in the layout of a signature, which refuses every other."""
    rank, axis = LAYOUTS[way.layout]
    if np.ndim(x) != rank or x.shape[-1] % 2:
        raise ValueError(f"expected {rank} axes, got {np.shape(x)}")
    length = x.shape[axis]
    if way.counts:
        if np.ndim(places):
            raise TypeError("an offset is a number")
        places = int(places) + np.arange(length)
    batch = x.shape[1 if way.layout == "sbhd" else 0]
    if np.shape(places) != ((batch, length) if way.rows else (length,)):
        raise ValueError(f"positions of shape {np.shape(places)}")
    speeds = 10_000.0 ** (-np.arange(x.shape[-1] // 2) / (x.shape[-1] // 2))
    theta = np.multiply.outer(np.asarray(places), speeds)
    if way.layout in ("bshd", "shd", "sbhd"):
        theta = theta[..., None, :]
    if way.layout == "sbhd":
        theta = theta.swapaxes(0, 1) if way.rows else theta[:, None]
    elif way.layout == "bhsd" and way.rows:
        theta = theta[:, None]
    cos, sin = np.cos(theta), np.sin(theta)
    a, b = (x[..., ::2], x[..., 1::2]) if way.pairing == "interleaved" else np.split(x, 2, -1)
    both = a * cos - b * sin, b * cos + a * sin
    if way.pairing == "interleaved":
        return np.stack(both, axis=-1).reshape(x.shape).astype(x.dtype)
    return np.concatenate(both, axis=-1).astype(x.dtype)


def function(way: Signature) -> Any:
    """A function with the arguments of a signature."""
    names = [way.query, *([way.key] if way.key else []), way.places]
    arguments = ", ".join((["*"] if way.named else []) + [names[n] for n in way.order])

    def call(values: dict[str, Any]) -> Any:
        tokens = names[:-1]
        out = {name: turned(values[name], values[way.places], way) for name in tokens}
        if way.returns == "in place":
            for name in tokens:
                values[name][...] = out[name]
            return None
        if way.returns == "dictionary":
            return out
        return tuple(out.values()) if way.key else out[way.query]

    space: dict[str, Any] = {"call": call}
    exec(f"def rotate({arguments}):\n    return call(dict(locals()))", space)
    return space["rotate"]


@pytest.mark.costly
@given(signatures())
def test_a_drawn_signature_is_asked_right_or_refused(way: Signature) -> None:
    row = Row(str(way), lambda: function(way), Turn(way.pairing))
    try:
        subject = posenc.ask(row.target())
    except posenc.CannotAsk:
        event("refused")
        return
    event("understood")
    assert subject.kind == "rotary", subject.how
    for positions in (*CALLS, TWO_ROWS):
        try:
            told, right = answer(subject, row, positions)
        except posenc.CannotAsk:
            continue
        assert not off(told, right, positions, "float32", 4.0), f"at {positions}: {subject.how}"
