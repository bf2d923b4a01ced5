"""Pairs that are drawn, of what makes tables and what applies them: never a wrong number."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import event, given, strategies as st

import posenc
from tests.detect.subject.loops import CALLS, TWO_ROWS, Row, Turn, answer, off

MAKERS = (
    "dim, end",
    "dim, end, theta=10_000.0",
    "seq_len, head_dim",
    "max_seq_len, offset=0",
    "seq_len",
    "positions",
    "x, position_ids",
)
ONE = ("freqs_cis", "freqs", "rope_cache", "rotary_pos_emb", "emb")
TWO = (("cos", "sin"), ("cos_emb", "sin_emb"), ("freqs_cos", "freqs_sin"), ("c", "s"))
LAYOUTS = {"bhsd": (4, -2), "bshd": (4, -3), "sbhd": (4, 0), "shd": (3, 0)}


class Pair(NamedTuple):
    """How tables are made, and how they are applied."""

    maker: str
    form: str
    tables: tuple[str, ...]
    query: str
    key: str
    last: bool  # tables come after the tokens
    layout: str
    pairing: str


@st.composite
def pairs(draw: Any) -> Pair:
    form = draw(st.sampled_from(("cos, sin", "sin, cos", "complex", "angles", "stack", "columns")))
    two = form in ("cos, sin", "sin, cos")
    names = draw(st.sampled_from(TWO if two else ONE))
    tables = names if isinstance(names, tuple) else (names,)
    key = draw(st.sampled_from(("", "k", "xk")))
    maker = draw(st.sampled_from(MAKERS))
    layouts = [name for name in LAYOUTS if maker != "x, position_ids" or len(name) == 4]
    return Pair(
        maker,
        form,
        tables[::-1] if form == "sin, cos" else tables,
        draw(st.sampled_from(("q", "xq") if key else ("x", "t", "q", "tensor"))),
        key,
        draw(st.booleans()),
        draw(st.sampled_from(layouts)),
        draw(st.sampled_from(("half", "interleaved"))),
    )


def made(way: Pair) -> Any:
    """What makes tables, each pair once: (seq, pairs), or (batch, seq, pairs) of position_ids."""

    def call(values: dict[str, Any]) -> Any:
        count = next(
            (values[name] for name in ("end", "seq_len", "max_seq_len") if name in values), 0
        )
        places = values.get("positions", values.get("position_ids"))
        if places is None:
            places = values.get("offset", 0) + np.arange(count)
        elif np.ndim(places) != (2 if "position_ids" in values else 1):
            raise ValueError(f"positions of shape {np.shape(places)}")
        dim = values.get("dim", values.get("head_dim", 64))
        speeds = values.get("theta", 10_000.0) ** (-np.arange(0, dim, 2) / dim)
        angles = np.multiply.outer(np.asarray(places), speeds)
        cos, sin = np.cos(angles), np.sin(angles)
        return {
            "cos, sin": (cos, sin),
            "sin, cos": (sin, cos),
            "complex": cos + 1j * sin,
            "angles": angles,
            "stack": np.stack([cos, sin], axis=-1),
            "columns": np.concatenate([cos, sin], axis=-1),
        }[way.form]

    space: dict[str, Any] = {"call": call}
    exec(f"def make({way.maker}):\n    return call(dict(locals()))", space)
    return space["make"]


def waves(way: Pair, tables: list[Any]) -> tuple[Any, Any]:
    """Cosines and sines of the tables that are handed over."""
    if way.form == "cos, sin":
        return tables[0], tables[1]
    if way.form == "sin, cos":
        return tables[1], tables[0]
    (table,) = tables
    if way.form == "complex":
        return table.real, table.imag
    if way.form == "angles":
        return np.cos(table), np.sin(table)
    if way.form == "stack":
        return table[..., 0], table[..., 1]
    return tuple(np.split(table, 2, axis=-1))


def turned(x: Any, cos: Any, sin: Any, way: Pair) -> Any:
    rank, axis = LAYOUTS[way.layout]
    rows = way.maker == "x, position_ids"
    if np.ndim(x) != rank:
        raise ValueError(f"expected {rank} axes, got {np.shape(x)}")
    if np.ndim(cos) != 2 + rows or cos.shape[-2:] != (x.shape[axis], x.shape[-1] // 2):
        raise ValueError(f"tables of shape {np.shape(cos)} for {np.shape(x)}")
    if way.layout == "sbhd":
        cos, sin = (t.swapaxes(0, 1)[:, :, None] if rows else t[:, None, None] for t in (cos, sin))
    elif way.layout == "bhsd":
        cos, sin = (t[:, None] if rows else t for t in (cos, sin))
    else:
        cos, sin = cos[..., None, :], sin[..., None, :]
    a, b = (x[..., ::2], x[..., 1::2]) if way.pairing == "interleaved" else np.split(x, 2, -1)
    both = a * cos - b * sin, b * cos + a * sin
    if way.pairing == "interleaved":
        return np.stack(both, axis=-1).reshape(x.shape).astype(x.dtype)
    return np.concatenate(both, axis=-1).astype(x.dtype)


def applied(way: Pair) -> Any:
    """What applies tables."""
    tokens = [way.query, *([way.key] if way.key else [])]
    names = [*tokens, *way.tables] if way.last else [*way.tables, *tokens]

    def call(values: dict[str, Any]) -> Any:
        cos, sin = waves(way, [values[name] for name in way.tables])
        out = tuple(turned(values[name], cos, sin, way) for name in tokens)
        return out if way.key else out[0]

    space: dict[str, Any] = {"call": call}
    exec(f"def apply({', '.join(names)}):\n    return call(dict(locals()))", space)
    return space["apply"]


@pytest.mark.costly
@given(pairs())
def test_a_drawn_pair_is_asked_right_or_refused(way: Pair) -> None:
    row = Row(str(way), lambda: (made(way), applied(way)), Turn(way.pairing))
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
