"""Learned and appended tables: which row a position reads, where a table ends, what it learns."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import posenc
from posenc import Concatenated, Init, Learned, Lookup, Magnitude, Sinusoidal
from posenc._core.spec.spec import Spec
from tests.backends import Backend, each_backend
from tests.oracles import table as oracle

LENGTH = 12
PLAIN = Learned(8, length=LENGTH, init=Init(scale=1.0))
OFFSET = PLAIN.replace(start=2, pad=1)
GRID = Learned(8, length=(3, 5), lookup=Lookup("grid", axes=("row", "column")))
SUMMED = Learned(8, length=(3, 5), lookup=Lookup("factorised", axes=("row", "column")))
BESIDE = Concatenated(4, table=PLAIN)
EACH = pytest.mark.parametrize(
    "spec",
    [PLAIN, OFFSET, GRID, SUMMED, BESIDE],
    ids=["plain", "offset", "grid", "factorised", "appended"],
)


def x_for(spec: Any, *lead: int) -> np.ndarray:
    """Embeddings of the right width."""
    return np.random.default_rng(0).normal(size=(*lead, spec.dim)).astype(np.float32)


def of(backend: Backend, params: dict[str, np.ndarray]) -> dict[str, Any]:
    """Parameters as arrays of one library."""
    return {name: backend.asarray(values) for name, values in params.items()}


# --- laws -----------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, LENGTH - 1), min_size=1, max_size=20))
@settings(max_examples=50, deadline=None)
def test_a_row_depends_on_its_position_alone(positions: list[int]) -> None:
    params = posenc.init(OFFSET, seed=3)
    whole = posenc.table(OFFSET, LENGTH, params=params)
    np.testing.assert_array_equal(posenc.table(OFFSET, positions, params=params), whole[positions])
    np.testing.assert_array_equal(whole, params["weight"][2:])


@given(st.integers(0, LENGTH - 1), st.data())
@settings(max_examples=50, deadline=None)
def test_a_slice_is_an_offset(first: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(0, LENGTH - first))
    params = posenc.init(PLAIN, seed=3)
    x = x_for(PLAIN, 2, LENGTH)
    whole = posenc.add(PLAIN, x, params=params)
    part = posenc.add(PLAIN, x[:, first : first + count], params=params, offset=first)
    np.testing.assert_array_equal(part, whole[:, first : first + count])


@EACH
@each_backend
def test_arguments_are_not_written_to(spec: Any, backend: Backend) -> None:
    params = of(backend, posenc.init(spec))
    before = {name: backend.numpy(value).copy() for name, value in params.items()}
    values = x_for(spec, 2, 3)
    x = backend.asarray(values.copy())
    positions = np.array([[0, 1], [2, 4], [1, 1]]) if len(spec.axes) == 2 else np.array([0, 3, 1])
    first = posenc.add(spec, x, params=params, positions=backend.asarray(positions))
    again = posenc.add(spec, x, params=params, positions=backend.asarray(positions))
    np.testing.assert_array_equal(backend.numpy(first), backend.numpy(again))
    np.testing.assert_array_equal(backend.numpy(x), values)
    for name, value in before.items():
        np.testing.assert_array_equal(backend.numpy(params[name]), value)


@each_backend
def test_parameters_of_numpy_serve_every_library(backend: Backend) -> None:
    params = posenc.init(PLAIN)
    x = backend.asarray(x_for(PLAIN, 1, 4))
    got = posenc.add(PLAIN, x, params=params)
    assert type(got) is type(x)
    want = posenc.add(PLAIN, x, params=of(backend, params))
    np.testing.assert_array_equal(backend.numpy(got), backend.numpy(want))
    own = posenc.table(PLAIN, 4, params=of(backend, params))
    assert type(own) is type(x)  # a table goes where its parameters are


@given(
    st.sampled_from([1, 4, (2, 3)]),
    st.integers(0, 3),
    st.sampled_from([Init(), Init("uniform", scale=0.5), Init("constant", scale=0)]),
    st.sampled_from([Magnitude(), Magnitude(learned="table_scale", table_scale="rsqrt_dim")]),
)
@settings(max_examples=30, deadline=None)
def test_json_round_trip(length: Any, start: int, init: Init, magnitude: Magnitude) -> None:
    spec = Learned(4, length=length, start=start, init=init, magnitude=magnitude)
    for one in (spec, Concatenated(2, table=spec)):
        again = posenc.from_json(posenc.to_json(one))
        assert again == one
        assert hash(again) == hash(one)
        assert isinstance(again, Spec)
        assert again.fingerprint == one.fingerprint
    assert copy.deepcopy(spec) == spec


# --- where a table ends (PEERS.md, section 2, rows 6 and 17) --------------------------------------


@each_backend
@pytest.mark.parametrize("position", [LENGTH, LENGTH + 1, 2**31 - 1, -2, -(2**31) + 1])
def test_row_6_an_index_past_the_table_names_both_numbers(backend: Backend, position: int) -> None:
    params = of(backend, posenc.init(OFFSET))
    with pytest.raises(posenc.PositionError) as caught:
        posenc.table(OFFSET, backend.asarray([0, position, 1]), params=params)
    assert f"got position {position}" in str(caught.value)
    assert f"usable length is {LENGTH}" in str(caught.value)


@each_backend
def test_row_6_reserved_rows_are_not_counted(backend: Backend) -> None:
    # 514 rows serve 512 positions where two are reserved.
    spec = Learned(4, length=512, start=2, pad=1)
    params = of(backend, posenc.init(spec))
    assert params["weight"].shape == (514, 4)
    x = backend.asarray(x_for(spec, 1, 512))
    posenc.add(spec, x, params=params)
    with pytest.raises(posenc.PositionError, match=r"usable length is 512, got position 512"):
        posenc.add(spec, x, params=params, offset=1)
    with pytest.raises(posenc.PositionError, match=r"usable length is 512, got position 513"):
        posenc.table(spec, [513], params=params)


@pytest.mark.parametrize("position", [(3, 0), (0, 5), (-1, 0), (0, -1)])
@pytest.mark.parametrize("spec", [GRID, SUMMED], ids=["grid", "factorised"])
def test_row_20_each_axis_ends_by_itself(spec: Learned, position: tuple[int, int]) -> None:
    axis = 0 if position[0] in (3, -1) else 1
    with pytest.raises(posenc.PositionError) as caught:
        posenc.table(spec, [position], params=posenc.init(spec))
    assert repr(spec.axes[axis]) in str(caught.value)
    assert f"usable length is {(3, 5)[axis]}, got position {position[axis]}" in str(caught.value)


def test_a_single_position_before_the_first_is_padding_alone() -> None:
    with pytest.raises(posenc.PositionError, match="got position -1"):
        posenc.table(PLAIN, [-1], params=posenc.init(PLAIN))
    row = posenc.table(OFFSET, [-1], params=posenc.init(OFFSET))
    np.testing.assert_array_equal(row, np.zeros((1, 8), np.float32))


def test_an_empty_sequence_has_no_end() -> None:
    params = posenc.init(PLAIN)
    assert posenc.add(PLAIN, x_for(PLAIN, 1, 0), params=params, offset=LENGTH).shape == (1, 0, 8)
    assert posenc.table(PLAIN, [], params=params).shape == (0, 8)


# --- parameters -----------------------------------------------------------------------------------


def test_init_is_a_function_of_spec_and_seed() -> None:
    for spec in (PLAIN, SUMMED, BESIDE):
        first, again = posenc.init(spec, seed=5), posenc.init(spec, seed=5)
        other = posenc.init(spec, seed=6)
        for name, value in first.items():
            assert value.dtype == np.float32
            np.testing.assert_array_equal(value, again[name])
            assert not np.array_equal(value, other[name])
    summed = posenc.init(SUMMED.replace(length=(4, 4)))
    assert not np.array_equal(summed["row_weight"], summed["column_weight"])


def test_init_follows_its_rule() -> None:
    large = Learned(64, length=4096)
    values = posenc.init(large)["weight"]
    assert abs(float(values.std()) - 0.02) < 1e-4
    assert abs(float(values.mean())) < 1e-4
    assert float(np.abs(values).max()) > 0.08  # not uniform
    uniform = posenc.init(large.replace(init=Init("uniform", scale=0.5)))["weight"]
    assert float(np.abs(uniform).max()) <= 0.5
    assert abs(float(uniform.std()) - 0.5 / math.sqrt(3)) < 1e-3
    zeros = posenc.init(large.replace(init=Init("constant", scale=0)))["weight"]
    assert not zeros.any()


def test_init_can_be_a_sinusoid() -> None:
    spec = Learned(8, length=5, start=2, init=Sinusoidal(8))
    rows = posenc.init(spec)["weight"]
    exact = np.array([oracle.vaswani(p, 8) for p in range(5)])
    np.testing.assert_allclose(rows[2:], exact, rtol=0, atol=1.5e-7)
    assert not rows[:2].any()
    axes = posenc.Arrangement(rule="axial", axes=("row", "column"))
    grid = Learned(8, length=(2, 3), lookup=Lookup(prefix=1), init=Sinusoidal(8, arrangement=axes))
    rows = posenc.init(grid)["weight"]
    cells = [(r, c) for r in range(2) for c in range(3)]
    halves = [oracle.vaswani(r, 4) + oracle.vaswani(c, 4) for r, c in cells]
    np.testing.assert_allclose(rows[1:], np.array(halves), rtol=0, atol=1.5e-7)
    assert not rows[0].any()


BAD_PARAMS = {
    "missing": (None, "'weight' of shape"),
    "a list": ([[0.0]], "a dict"),
    "nothing in it": ({}, "names \\['weight'\\]"),
    "another name": ({"weights": np.zeros((12, 8), "f")}, "Did you mean 'weight'"),
    "one too many": (
        {"weight": np.zeros((12, 8), "f"), "b": np.zeros(1, "f")},
        r"\['b', 'weight'\]",
    ),
    "shape": ({"weight": np.zeros((13, 8), "f")}, r"shape \(12, 8\), got shape \(13, 8\)"),
    "no array": ({"weight": [[0.0] * 8] * 12}, "an array of shape"),
}


@pytest.mark.parametrize(("params", "words"), BAD_PARAMS.values(), ids=BAD_PARAMS)
def test_parameters_that_are_not_those_of_the_spec(params: Any, words: str) -> None:
    with pytest.raises(posenc.ArgumentError, match=words):
        posenc.table(PLAIN, 3, params=params)
    with pytest.raises(posenc.ArgumentError, match=words):
        posenc.add(PLAIN, x_for(PLAIN, 1, 3), params=params)


def test_parameters_must_be_floating() -> None:
    with pytest.raises(posenc.DTypeError, match="int64"):
        posenc.table(PLAIN, 3, params={"weight": np.zeros((LENGTH, 8), np.int64)})


def test_parameters_nobody_asked_for() -> None:
    with pytest.raises(posenc.ArgumentError, match="learns nothing"):
        posenc.table(Sinusoidal(4), 3, params={"weight": np.zeros((3, 4), "f")})
    posenc.table(Sinusoidal(4), 3, params={})  # the pytree of a spec that learns nothing


def test_arguments_of_init() -> None:
    for seed in (-1, 0.5, True, "0"):
        with pytest.raises(posenc.ArgumentError, match="seed"):
            posenc.init(PLAIN, seed)  # type: ignore[arg-type]
    with pytest.raises(posenc.ArgumentError, match="a spec"):
        posenc.init("Learned")  # type: ignore[arg-type]


# --- specs that cannot exist ----------------------------------------------------------------------

AXES = {"axes": ("row", "column")}
IMPOSSIBLE: dict[str, tuple[Any, str]] = {
    "no width": (lambda: Learned(0, length=3), "width"),
    "no length": (lambda: Learned(4, length=0), "at least 1 position"),
    "length of no axis": (lambda: Learned(4, length=()), "at least 1 position"),
    "a tuple of one": (lambda: Learned(4, length=(3,)), "length: expected 3"),
    "one length, two axes": (
        lambda: Learned(4, length=3, lookup=Lookup("grid", **AXES)),
        "one number for each",
    ),
    "negative start": (lambda: Learned(4, length=3, start=-1), "start"),
    "pad past the end": (lambda: Learned(4, length=3, pad=3), "pad"),
    "start of a grid": (
        lambda: Learned(4, length=(3, 3), start=1, lookup=Lookup("grid", **AXES)),
        "start=0",
    ),
    "shared tables of two shapes": (
        lambda: Learned(4, length=(3, 5), lookup=Lookup("factorised", tables=("x", "x"), **AXES)),
        "one shape",
    ),
    "uneven shares": (
        lambda: Learned(5, length=(3, 5), lookup=Lookup("concatenated", **AXES)),
        "divisible",
    ),
    "sizes of another width": (
        lambda: Learned(5, length=(3, 5), lookup=Lookup("concatenated", sizes=(2, 2), **AXES)),
        "5 channels",
    ),
    "sinusoid of another width": (lambda: Learned(4, length=3, init=Sinusoidal(6)), "width 4"),
    "learned from learned": (lambda: Learned(4, length=3, init=Learned(4, length=3)), "without"),
    "flat of two axes": (lambda: Lookup(**AXES), "one axis"),
    "axes of one name": (lambda: Lookup("grid", axes=("a", "a")), "distinct"),
    "no identifier": (lambda: Lookup("grid", axes=("a.b",)), "identifiers"),
    "prefix of a grid": (lambda: Lookup("grid", prefix=1, **AXES), "alone"),
    "sizes of a sum": (lambda: Lookup("factorised", sizes=(2, 2), **AXES), "alone"),
    "order of others": (lambda: Lookup("concatenated", order=("a", "b"), **AXES), "names"),
    "negative spread": (lambda: Init(scale=-1), "at least 0"),
    "appended twice": (lambda: Concatenated(2, table=BESIDE), "not itself appended"),
    "two factors": (
        lambda: Concatenated(
            2, table=Sinusoidal(4, magnitude=Magnitude(embedding_scale="sqrt_dim"))
        ),
        "embedding_scale=1",
    ),
    "two learned factors": (
        lambda: Concatenated(
            2,
            table=Sinusoidal(4, magnitude=Magnitude(learned="table_scale")),
            magnitude=Magnitude(learned="table_scale"),
        ),
        "one learned factor",
    ),
}


@pytest.mark.parametrize(("make", "words"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_specs_that_cannot_exist(make: Any, words: str) -> None:
    with pytest.raises(posenc.SpecError, match=words):
        make()


# --- appended tables ------------------------------------------------------------------------------


@each_backend
def test_appending_leaves_the_embeddings_alone(backend: Backend) -> None:
    spec = Concatenated(3, table=Sinusoidal(6))
    assert spec.width == 9
    assert Sinusoidal(6).width == 6
    values = np.random.default_rng(0).normal(size=(2, 4, 3)).astype(np.float32)
    y = backend.numpy(posenc.add(spec, backend.asarray(values), offset=backend.asarray([0, 5])))
    np.testing.assert_array_equal(y[..., :3], values)
    for row, first in enumerate((0, 5)):
        np.testing.assert_array_equal(y[row, :, 3:], posenc.table(spec, 4 + first)[first:])


def test_appending_with_heads_between() -> None:
    spec = Concatenated(3, table=Sinusoidal(6))
    y = posenc.add(spec, np.zeros((2, 4, 5, 3), "f"), seq_dim=-3)
    assert y.shape == (2, 4, 5, 9)
    np.testing.assert_array_equal(y[1, :, 2, 3:], posenc.table(spec, 4))
