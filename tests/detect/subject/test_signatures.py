"""Published ports are asked right, or refused in words; never with a wrong number."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import pytest

import posenc
from tests.detect.subject.loops import CALLS, TWO_ROWS, Row, answer, off

MODULES = (
    "torch_turns",
    "torch_pairs",
    "torch_more",
    "torch_rows",
    "torch_biases",
    "numpy_ports",
    "jax_ports",
)
# What may be refused of all that are known. None may be wrong.
REFUSED = 5


def verdict(row: Row) -> tuple[str, str]:
    """Whether it is right, refused or wrong, and why."""
    try:
        subject = posenc.ask(row.target(), **row.options)
        if subject.kind not in row.right.kinds:
            return "wrong", f"kind {subject.kind}: {subject.how}"
    except posenc.CannotAsk as error:
        return "refused", str(error)
    for positions in (*CALLS, *([TWO_ROWS] if subject.kind == "rotary" else [])):
        try:
            told, right = answer(subject, row, positions)
        except posenc.CannotAsk as error:
            if positions is CALLS[0]:
                return "refused", str(error)
            continue
        if words := off(told, right, positions, row.precision, 4.0):
            return "wrong", f"at {positions}: {words}; {subject.how}"
    return "right", subject.how


@pytest.fixture
def lenient() -> Iterator[None]:
    """JAX as it is by default: ports mix dtypes and ranks."""
    try:
        import jax
    except ImportError:
        yield
        return
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        yield


def rows(name: str) -> list[Row]:
    return list(importlib.import_module(f"tests.detect.subject.signatures.{name}").ROWS)


@pytest.mark.costly
@pytest.mark.usefixtures("lenient")
@pytest.mark.parametrize("name", MODULES)
def test_published_signatures(name: str) -> None:
    if name != "numpy_ports":
        pytest.importorskip(name.partition("_")[0])
    verdicts: dict[str, Any] = {row.source: verdict(row) for row in rows(name)}
    wrong = {source: words for source, (said, words) in verdicts.items() if said == "wrong"}
    refused = {source: words for source, (said, words) in verdicts.items() if said == "refused"}
    assert not wrong
    assert len(refused) <= REFUSED * len(verdicts) // 100, refused
