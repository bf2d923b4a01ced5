"""Published ports are asked right, or refused in words; never with a wrong number."""

from __future__ import annotations

import functools
import importlib
import random
from collections.abc import Iterator
from typing import NamedTuple

import pytest

import posenc
from tests.detect.subject.loops import CALLS, TWO_ROWS, Row, answer, off

# How many may be refused of those that are known; each number may only fall. None may be wrong.
REFUSED = {
    "torch_turns": 0,
    "torch_pairs": 0,
    "torch_more": 0,
    "torch_rows": 0,
    "torch_biases": 0,
    "numpy_ports": 2,
    "jax_ports": 0,
    "packages": 0,
}
MODULES = tuple(REFUSED)
SLOW = pytest.mark.slow("detect/subject")
MARKS = {"jax_ports": SLOW, "packages": SLOW}  # JAX compiles for each shape; imports take long
# What older ports are compiled by.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit")


class Verdict(NamedTuple):
    """Whether a row is right, refused or wrong, why, and the calls that finding its form took."""

    said: str
    words: str
    calls: int = 0


def verdict(row: Row) -> Verdict:
    try:
        subject = posenc.ask(row.target(), **row.options)
    except posenc.CannotAsk as error:
        return Verdict("refused", str(error))
    calls = subject.calls
    if subject.kind not in row.right.kinds:
        return Verdict("wrong", f"kind {subject.kind}: {subject.how}", calls)
    for positions in (*CALLS, *([TWO_ROWS] if subject.kind == "rotary" else [])):
        try:
            told, right = answer(subject, row, positions)
        except posenc.CannotAsk as error:
            if positions is CALLS[0]:
                return Verdict("refused", str(error), calls)
            continue
        except Exception as error:  # noqa: BLE001
            return Verdict("wrong", f"at {positions}: {error!r}; {subject.how}", calls)
        if words := off(told, right, positions, row.precision, 4.0):
            return Verdict("wrong", f"at {positions}: {words}; {subject.how}", calls)
    return Verdict("right", subject.how, calls)


@functools.cache
def verdicts(name: str) -> dict[str, Verdict]:
    if name == "packages":
        for package in ("transformers", "diffusers", "torchembed", "x_transformers"):
            pytest.importorskip(package)
        pytest.importorskip("positional_encodings")
    elif name != "numpy_ports":
        pytest.importorskip(name.partition("_")[0])
    module = importlib.import_module(f"tests.detect.subject.signatures.{name}")
    return {row.source: verdict(row) for row in module.ROWS}


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


@pytest.mark.costly
@pytest.mark.usefixtures("lenient")
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=MARKS.get(name, ())) for name in MODULES],
)
def test_published_signatures_are_asked_right_or_refused(name: str) -> None:
    told = verdicts(name)
    wrong = {source: verdict.words for source, verdict in told.items() if verdict.said == "wrong"}
    refused = {
        source: verdict.words for source, verdict in told.items() if verdict.said == "refused"
    }
    assert not wrong
    assert len(refused) <= REFUSED[name], refused


@pytest.mark.costly
@pytest.mark.usefixtures("lenient")
def test_some_over_jax() -> None:
    pytest.importorskip("jax")
    from tests.detect.subject.signatures.jax_ports import ROWS

    told = {row.source: verdict(row) for row in random.Random(30).sample(ROWS, 2)}
    assert not {source: verdict for source, verdict in told.items() if verdict.said != "right"}


@pytest.mark.costly
def test_a_form_is_found_after_few_calls() -> None:
    calls = sorted(
        verdict.calls
        for name in MODULES
        if name not in MARKS
        for verdict in verdicts(name).values()
        if verdict.said == "right"
    )
    assert calls[len(calls) // 2] <= 5
    assert calls[-1] <= 600
