"""Plans of models as data, and randomised positions."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import posenc
from posenc import T5, ALiBi, ArgumentError, Entry, Init, Plan, Shaw, Sinusoidal, SpecError
from posenc.detect.explain.describe import plan_lines

randomised = posenc.positions.randomised
FULL = Entry("full", specs=(T5(8),), share="model")
LOCAL = Entry("local", specs=(ALiBi(8),), window=512)
NOPE = Entry("nope")
WARM = Entry("warm", temperature=Init(scale=2.0), specs=(Shaw(8, clip=2), T5(2)))
INDEXED = Entry("indexed", specs=(Shaw(8, clip=2),), attentions=(Entry("indexer", specs=(T5(2),)),))
SPEECH = Entry("input", specs=(Sinusoidal(16),), convolution="grouped, kernel 128, 16 groups")


@pytest.mark.parametrize(
    ("pattern", "layers", "exact"),
    [
        ("local local local nope", 8, "local local local nope local local local nope"),
        ("local local local local local full", 7, "local local local local local full local"),
        ("full local local", 5, "full local local full local"),
        ("nope", 0, ""),
    ],
    ids=["three turned, one without", "five local, one global", "global first", "empty"],
)
def test_schedules(pattern: str, layers: int, exact: str) -> None:
    plan = Plan.repeat((FULL, LOCAL, NOPE), pattern, layers=layers)
    assert plan.layers == tuple(exact.split())
    assert len(plan) == layers
    assert [plan[i].name for i in range(layers)] == exact.split()
    assert Plan.repeat((FULL, LOCAL, NOPE), pattern.split(), layers=layers) == plan


def test_a_layer_without_positions_is_an_entry() -> None:
    plan = Plan((LOCAL, NOPE), layers=("local", "nope"))
    assert plan[1].specs == ()
    assert plan[1].spec("bias") is None
    assert plan[0].spec("bias") == ALiBi(8)
    assert plan[-1] is NOPE


@pytest.mark.parametrize(
    "plan",
    [
        Plan((), layers=()),
        Plan((FULL, LOCAL, NOPE), layers=("nope", "full", "local"), embeddings=SPEECH),
        Plan(
            (Entry("t", temperature=Init(scale=2.0), specs=(Shaw(8, clip=2), T5(2))),),
            layers=("t",),
        ),
        Plan((INDEXED,), layers=("indexed",)),
    ],
    ids=["empty", "three", "several kinds", "attention inside"],
)
def test_json_round_trip(plan: Plan) -> None:
    again = posenc.from_json(posenc.to_json(plan))
    assert again == plan
    assert hash(again) == hash(plan)
    assert posenc.to_json(again) == posenc.to_json(plan)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Plan((LOCAL,), layers=("lcoal",)), "Did you mean 'local'"),
        (lambda: Plan((LOCAL, LOCAL), layers=()), "distinct names"),
        (lambda: Plan.repeat((LOCAL,), "", layers=3), "at least one name"),
        (lambda: Plan.repeat((LOCAL,), "local", layers=-1), "at least one name"),
        (lambda: Entry("two", specs=(ALiBi(2), T5(2))), "one encoding of each kind"),
        (lambda: Entry("w", window=0), "at least 1"),
        (lambda: Entry(""), "a name"),
        (lambda: Entry("x", attentions=(LOCAL, LOCAL)), "attentions: expected distinct names"),
        (lambda: Entry("s", share="modle"), "Did you mean 'model'"),
        (lambda: Entry("s", specs=("ALiBi",)), "specs"),
    ],
)
def test_refusals(make: Any, text: str) -> None:
    with pytest.raises(SpecError, match=text):
        make()


def test_an_attention_inside_is_told() -> None:
    told = plan_lines(Plan((INDEXED,), layers=("indexed",)))
    assert "  indexer, an attention inside it" in told
    assert "    bias: T5(2)" in told


# --- randomised positions (guarantee G10) ---------------------------------------------------------


keys = st.integers(0, 2**31)


@given(st.integers(0, 2**64 - 1), keys, keys, st.integers(0, 40), st.integers(0, 10**12))
def test_sorted_without_repetition_and_in_range(
    seed: int, step: int, sample: int, length: int, spare: int
) -> None:
    maximum = length + spare
    positions = randomised(seed, step, sample, length, maximum=maximum)
    assert positions.dtype == np.int64
    assert positions.shape == (length,)
    assert (np.diff(positions) > 0).all()
    assert not length or (positions[0] >= 0 and positions[-1] < maximum)
    again = randomised(seed, step, sample, length, maximum=maximum)
    np.testing.assert_array_equal(again, positions)


def test_each_key_has_a_draw_of_its_own() -> None:
    draws = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 1, 1), (0, 256, 0)]
    draws += [(2**63, 0, 0), (2**63 + 1, 0, 0), (2**64 - 1, 0, 0)]
    rows = {tuple(randomised(*key, 64, maximum=10_000).tolist()) for key in draws}
    assert len(rows) == len(draws)


def test_global_state_is_neither_read_nor_moved() -> None:
    state = np.random.get_state()[1].copy()  # noqa: NPY002 - the state that must stay
    first = randomised(5, 6, 7, 20, maximum=100)
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    np.random.seed(1)  # noqa: NPY002
    np.testing.assert_array_equal(randomised(5, 6, 7, 20, maximum=100), first)


@pytest.mark.costly
def test_another_process_draws_the_same() -> None:
    code = "import posenc; print(posenc.positions.randomised(5, 6, 7, 20, maximum=100).tolist())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(randomised(5, 6, 7, 20, maximum=100).tolist())


def test_every_subset_is_as_likely() -> None:
    """The 10 pairs of 5 positions: chi squared with 9 degrees of freedom, 99.99 % point 33.7."""
    counts: dict[tuple[int, ...], int] = {}
    for sample in range(4000):
        pair = tuple(randomised(11, 0, sample, 2, maximum=5).tolist())
        counts[pair] = counts.get(pair, 0) + 1
    assert len(counts) == 10
    assert sum((n - 400) ** 2 / 400 for n in counts.values()) < 33.7


@pytest.mark.parametrize(
    ("arguments", "maximum", "text"),
    [
        ((0, 0, 0, 5), 4, "at most 4"),
        ((-1, 0, 0, 5), 9, "seed"),
        ((2**64, 0, 0, 5), 9, "seed below"),
        ((0, 2**32, 0, 5), 9, "below 2"),
        ((0, 0, 1.5, 5), 9, "sample"),
        ((0, 0, 0, True), 9, "length"),
    ],
)
def test_bad_keys(arguments: Any, maximum: int, text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        randomised(*arguments, maximum=maximum)
