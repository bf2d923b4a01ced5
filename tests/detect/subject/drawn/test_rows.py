"""Tables and biases that are drawn: never a wrong number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import event, given, strategies as st

import posenc
from tests.detect.subject.loops import CALLS, Row, Slopes, Waves, answer, off, slopes

TABLES = (
    "positions",
    "position_ids",
    "t",
    "timesteps, embedding_dim=64",
    "length, dim",
    "n_position, d_hid",
    "max_len, d_model",
    "x",
    "x, offset=0",
    "embeddings, position_ids=None",
)
BIASES = (
    "q_len, k_len",
    "query_length, key_length",
    "i, j",
    "seqlen_q, seqlen_k",
    "q_pos, k_pos",
    "q_positions, k_positions",
    "query_position_ids, key_position_ids",
    "relative_position",
    "distance",
    "seq_len",
)
ORDERS = ("sin_cos", "cos_sin", "interleaved")


def waved(places: Any, order: str, dim: int) -> Any:
    theta = np.multiply.outer(np.asarray(places), 10_000.0 ** (-np.arange(dim // 2) / (dim // 2)))
    sin, cos = np.sin(theta), np.cos(theta)
    if order == "interleaved":
        return np.stack([sin, cos], axis=-1).reshape(*theta.shape[:-1], -1)
    return np.concatenate([sin, cos] if order == "sin_cos" else [cos, sin], axis=-1)


def table(arguments: str, order: str, shape: str, adds: bool) -> Any:
    """A function of a table, with such arguments."""

    def call(values: dict[str, Any]) -> Any:
        tokens = next((values[name] for name in ("x", "embeddings") if name in values), None)
        places = next(iter(values.values()))
        if tokens is not None:
            if np.ndim(tokens) != 3:
                raise ValueError("expected (batch, seq, dim)")
            places = values.get("offset", 0) + np.arange(tokens.shape[1])
            if values.get("position_ids") is not None:
                places = values["position_ids"]
        elif arguments.startswith(("length", "n_position", "max_len")):
            places = np.arange(places)
        if np.ndim(places) != 1:
            raise ValueError(f"positions of shape {np.shape(places)}")
        rows = waved(
            places, order, next((v for k, v in values.items() if "d" in k and type(v) is int), 64)
        )
        if tokens is not None and adds:
            return tokens + rows
        return {"rows": rows, "batch": rows[None], "sequence": rows[:, None]}[shape]

    space: dict[str, Any] = {"call": call}
    exec(f"def encode({arguments}):\n    return call(dict(locals()))", space)
    return space["encode"]


def bias(arguments: str, heads: int, batch: bool) -> Any:
    """A function of a bias of distances, with such arguments."""

    def call(values: dict[str, Any]) -> Any:
        first, *rest = values.values()
        if arguments in ("relative_position", "distance"):
            if np.ndim(first) != 2:
                raise ValueError("a matrix is expected")
            far = np.abs(first)
        else:
            last = rest[0] if rest else first
            if "pos" in arguments:
                queries, keys = np.asarray(first), np.asarray(last)
            else:
                queries, keys = np.arange(last - first, last), np.arange(last)
            if queries.ndim != 1 or keys.ndim != 1:
                raise ValueError("one sequence is expected")
            far = np.abs(keys[None] - queries[:, None])
        out = -np.array(slopes(heads))[:, None, None] * far
        return out[None] if batch else out

    space: dict[str, Any] = {"call": call}
    exec(f"def alibi_bias({arguments}):\n    return call(dict(locals()))", space)
    return space["alibi_bias"]


def held(row: Row) -> None:
    """Right or refused, at every call."""
    try:
        subject = posenc.ask(row.target(), **row.options)
    except posenc.CannotAsk:
        event("refused")
        return
    event("understood")
    assert subject.kind in row.right.kinds, subject.how
    for positions in CALLS:
        try:
            told, right = answer(subject, row, positions)
        except posenc.CannotAsk:
            continue
        assert not off(told, right, positions, "float32", 4.0), f"at {positions}: {subject.how}"


@pytest.mark.costly
@given(
    st.sampled_from(TABLES),
    st.sampled_from(ORDERS),
    st.sampled_from(("rows", "batch", "sequence")),
    st.booleans(),
)
def test_a_drawn_table_is_asked_right_or_refused(
    arguments: str, order: str, shape: str, adds: bool
) -> None:
    held(Row(arguments, lambda: table(arguments, order, shape, adds), Waves(order)))


@pytest.mark.costly
@given(st.sampled_from(BIASES), st.sampled_from((8, 12)), st.booleans(), st.booleans())
def test_a_drawn_bias_is_asked_right_or_refused(
    arguments: str, heads: int, batch: bool, told: bool
) -> None:
    options = {"kind": "bias"} if told else {}
    held(Row(arguments, lambda: bias(arguments, heads, batch), Slopes(heads), options=options))
