"""Relative encodings: every row against its oracle on every library, the shapes, and the laws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import posenc
from posenc import (
    ArgumentError,
    CoPE,
    Decomposed,
    Disentangled,
    MusicTransformer,
    PositionError,
    Shaw,
    SpecError,
    TransformerXL,
)
from tests.backends import (
    Backend,
    each_backend_and_dtype,
    each_eager_backend,
    each_row_and_dtypes,
)
from tests.cases_scores import RELATIVES, RelativeCase, unit
from tests.oracles import relative as oracle
from tests.tolerances import assert_close

each_relative = pytest.mark.parametrize("case", RELATIVES, ids=lambda case: case.name)
# Sums of up to a hundred products of numbers near 1.
SUM = {"float64": 1e-13, "float32": 4e-6, "float16": 2e-3, "bfloat16": 1.6e-2}


def params_of(case: RelativeCase, backend: Backend) -> Any:
    return {k: backend.asarray(v) for k, v in case.params.items()}


@each_row_and_dtypes(RELATIVES, 3, by=lambda row: None)
def test_relative_equals_oracle(
    case: RelativeCase, backend: Backend, dtypes: tuple[str, ...]
) -> None:
    sides = backend.asarray(case.queries), backend.asarray(case.keys)
    verb = backend.whole(lambda *arrays: posenc.relative(case.spec, *arrays[:4], params=arrays[4]))
    for dtype in dtypes:
        q, k = (backend.asarray(x, dtype) for x in case.content())
        got = verb(q, k, *sides, params_of(case, backend))
        assert backend.dtype_of(got) == dtype
        exact = case.exact(backend.numpy(q), backend.numpy(k))
        what = f"{case.name} on {backend.name} in {dtype}"
        assert_close(backend.numpy(got), exact, SUM[dtype] * (1 + np.abs(exact)), what)


@each_backend_and_dtype
@pytest.mark.parametrize("outside", ["clamp", "zero"])
def test_shaw_values(backend: Backend, dtype: str, outside: str) -> None:
    spec = Shaw(6, clip=4, outside=outside)
    params = posenc.init(spec.replace(init=posenc.Init(scale=1.0)), 3)
    queries, keys = (0, 3, 17), (0, 1, 2, 16, 40)
    weights = backend.asarray(np.random.default_rng(1).random((2, 2, 3, 5)).astype("f4"), dtype)
    values = backend.whole(
        lambda weights: posenc.relative_values(spec, weights, queries, keys, params=params)
    )
    got = values(weights)
    assert backend.dtype_of(got) == dtype
    known = backend.numpy(weights)
    exact = np.zeros((2, 2, 3, 6))
    for i, m in enumerate(queries):
        for j, n in enumerate(keys):
            if outside == "zero" and abs(n - m) > 4:
                continue
            row = params["values"][max(-4, min(4, n - m)) + 4].astype(float)
            exact[:, :, i] += known[:, :, i, j, None] * row
    assert_close(backend.numpy(got), exact, SUM[dtype] * (1 + np.abs(exact)))


def irpe_vector(m: Any, n: Any, w: Any) -> Any:
    from tests.oracles.bias import irpe_buckets

    found = irpe_buckets(m, n, "cross", 1.9, 3.8, 15.2)
    return sum(w[f"values_{part}"][b].astype(float) for part, b in found.items())


CELLS = ((0, 0), (3, 4), (-7, 2)), ((0, 0), (1, 9), (3, 4), (2, 2), (20, 0))
TOKENS = (0, 3, 17), (0, 1, 2, 16, 9)
VALUES = [
    (posenc.IRPE(6, method="cross", acts_on="keys_queries_values"), CELLS, irpe_vector),
    (
        posenc.NEZHA(6, clip=8),
        TOKENS,
        lambda m, n, w: np.array(oracle.sinusoid(max(-8, min(8, n - m)) + 8, 6, 1e4, True)),
    ),
    (
        posenc.PositionSensitive(6, length=18, value_dim=10),
        TOKENS,
        lambda m, n, w: w["values"][n - m + 17].astype(float),
    ),
]


@each_backend_and_dtype
@pytest.mark.parametrize(("spec", "places", "vector"), VALUES, ids=["irpe", "nezha", "axial"])
def test_values(backend: Backend, dtype: str, spec: Any, places: Any, vector: Any) -> None:
    params = unit(spec)
    queries, keys = places
    weights = backend.asarray(np.random.default_rng(1).random((2, 2, 3, 5)).astype("f4"), dtype)
    given = {name: backend.asarray(value) for name, value in params.items()} or None
    sides = backend.asarray(queries), backend.asarray(keys)
    values = backend.whole(
        lambda weights, m, n, given: posenc.relative_values(spec, weights, m, n, params=given)
    )
    got = values(weights, *sides, given)
    assert backend.dtype_of(got) == dtype
    vectors = np.array([[vector(m, n, params) for n in keys] for m in queries])
    exact = np.einsum("bhij,ijd->bhid", backend.numpy(weights), vectors)
    assert_close(backend.numpy(got), exact, SUM[dtype] * (1 + np.abs(exact)))


@each_relative
def test_decoding_equals_prefill_row_by_row(case: RelativeCase) -> None:
    q, k = case.content()
    whole = posenc.relative(case.spec, q, k, case.queries, case.keys, params=case.params)
    for i, position in enumerate(case.queries):
        row = posenc.relative(
            case.spec, q[:, :, i : i + 1], k, [position], case.keys, params=case.params
        )
        assert row.shape == (2, case.heads, 1, len(case.keys))
        assert_close(row[:, :, 0], whole[:, :, i], 4e-6 * (1 + np.abs(whole[:, :, i])))


@each_relative
def test_heads_shard_as_the_whole(case: RelativeCase) -> None:
    if case.spec.heads is None:
        pytest.skip("all heads share the parameters")
    q, k = case.content()
    whole = posenc.relative(case.spec, q, k, case.queries, case.keys, params=case.params)
    for h in range(case.heads):
        part = slice(h, h + 1)
        got = posenc.relative(
            case.spec,
            q[:, part],
            k[:, part],
            case.queries,
            case.keys,
            params=case.params,
            heads=(h, h + 1),
        )
        assert_close(got, whole[:, part], 4e-6 * (1 + np.abs(whole[:, part])))
        local = {
            name: np.take(value, [h], axis=case.spec.by_head[name])
            if name in case.spec.by_head
            else value
            for name, value in case.params.items()
        }
        again = posenc.relative(
            case.spec,
            q[:, part],
            k[:, part],
            case.queries,
            case.keys,
            params=local,
            heads=(h, h + 1),
        )
        np.testing.assert_array_equal(again, got)


@each_relative
def test_shifts_change_nothing(case: RelativeCase) -> None:
    if "class" in case.name:
        pytest.skip("a position of its own names the class token, so a shift changes its meaning")
    q, k = case.content()
    here = posenc.relative(case.spec, q, k, case.queries, case.keys, params=case.params)
    moved = [np.array(side) + 123_456 for side in (case.queries, case.keys)]
    there = posenc.relative(case.spec, q, k, *moved, params=case.params)
    assert_close(there, here, 8e-6 * (1 + np.abs(here)), "phases are exact at any position")


@each_relative
@each_eager_backend
def test_batched_positions(case: RelativeCase, backend: Backend) -> None:
    q, k = (backend.asarray(x) for x in case.content())
    params = params_of(case, backend)
    queries = backend.asarray(np.stack([case.queries, np.array(case.queries)[::-1]]))
    got = posenc.relative(case.spec, q, k, queries, backend.asarray(case.keys), params=params)
    got = backend.numpy(got)
    for row in range(2):
        one = posenc.relative(
            case.spec, q, k, queries[row, ...], backend.asarray(case.keys), params=params
        )
        assert_close(got[row], backend.numpy(one)[row], 4e-6 * (1 + np.abs(got[row])))


def test_music_transformer_is_its_skewing() -> None:
    spec = MusicTransformer(5, count=1, length=7)
    rng = np.random.default_rng(0)
    weight, q = rng.normal(size=(1, 7, 5)), rng.normal(size=(1, 1, 7, 5))
    got = posenc.relative(spec, q, q, params={"weight": weight})[0, 0]
    skewed = np.array(oracle.skew((q[0, 0] @ weight[0].T).tolist()))
    past = np.tril(np.ones((7, 7), bool))
    assert_close(np.where(past, got, 0), np.where(past, skewed, 0), 1e-13)


def test_transformer_xl_is_its_shift() -> None:
    """The published way: products with a table of distances, moved by a reshape."""
    spec = TransformerXL(5, count=1, width=8)
    rng = np.random.default_rng(0)
    params = {k: rng.normal(size=p.shape) for k, p in spec.parameters().items()}
    q, k = rng.normal(size=(2, 1, 1, 6, 5))
    rows = np.array([oracle.sinusoid(r, 8, 1e4, False) for r in range(5, -6, -1)])
    products = (q[0, 0] + params["v"][0]) @ (rows @ params["projection"][0].T).T
    padded = np.concatenate([np.zeros((6, 1)), products], axis=1).reshape(12, 6)[1:]
    shifted = padded.reshape(6, 11)[:, :6]
    exact = shifted + params["u"][0] @ k[0, 0].T
    assert_close(posenc.relative(spec, q, k, params=params)[0, 0], exact, 1e-12)


@pytest.mark.parametrize(
    "spec",
    [Shaw(4, clip=9), TransformerXL(4, count=1, width=8), Disentangled(4, count=1, max_distance=9)],
    ids=repr,
)
def test_directions_are_told_apart(spec: Any) -> None:
    """A published speech model lost the sign of future distances; here r and -r differ."""
    rng = np.random.default_rng(2)
    params = {k: rng.normal(size=p.shape) for k, p in spec.parameters().items()}
    q, k = np.ones((1, 1, 4)), np.ones((1, 2, 4))
    past, future = posenc.relative(spec, q, k, [0], [-3, 3], params=params)[0, 0]
    assert abs(past - future) > 0.1


def test_the_direction_of_the_code_is_not_that_of_the_paper() -> None:
    rng = np.random.default_rng(2)
    code = Disentangled(4, count=1, max_distance=9)
    params = {k: rng.normal(size=p.shape) for k, p in code.parameters().items()}
    x = rng.normal(size=(1, 5, 4))
    a, b = (
        posenc.relative(s, x, x, params=params) for s in (code, code.replace(direction="paper"))
    )
    assert np.abs(a - b).max() > 0.1
    assert code.scale == 1 / 12**0.5
    assert code.replace(terms="c2p").scale == 1 / 8**0.5


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: go(Shaw(4, clip=2), q=np.ones((1, 3, 5))), ArgumentError, "heads, q, 4"),
        (
            lambda: go(Shaw(4, clip=2), q=np.ones((2, 3, 4))),
            ArgumentError,
            "one batch shape and heads",
        ),
        (
            lambda: go(Shaw(4, clip=2), q=np.ones((1, 2, 4))),
            ArgumentError,
            "last of their sequence",
        ),
        (lambda: go(Shaw(4, clip=2), [0, 1], [0, 1, 2]), ArgumentError, "3 positions, got 2"),
        (
            lambda: go(Shaw(4, clip=2), np.zeros((2, 3), int), [0, 1, 2]),
            ArgumentError,
            "batch shape",
        ),
        (lambda: go(Shaw(4, clip=2), heads=(0, 1)), ArgumentError, "share the parameters"),
        (lambda: go(TransformerXL(4, count=2, width=4)), ArgumentError, "2 heads, got 1 heads"),
        (
            lambda: go(TransformerXL(4, count=2, width=4), heads=(0, 2)),
            ArgumentError,
            "heads=\\(0, 2\\)",
        ),
        (lambda: go(MusicTransformer(4, count=1, length=2)), PositionError, "at most 1 before"),
        (lambda: go(CoPE(4, length=2), [0, 1, 2], [1, 0, 2]), PositionError, "in the order"),
        (
            lambda: go(Decomposed(4, size=(1, 2)), [[0, 0]] * 3, [[0, 0], [0, 1], [0, 2]]),
            PositionError,
            "'column' below 2",
        ),
        (
            lambda: posenc.relative(posenc.ALiBi(2), np.ones((1, 1, 2)), np.ones((1, 1, 2))),
            ArgumentError,
            "Shaw",
        ),
        (
            lambda: posenc.relative_values(CoPE(4, length=2), np.ones((1, 1, 2))),
            SpecError,
            "on values",
        ),
        (
            lambda: posenc.relative_values(Shaw(4, clip=2), np.ones((1, 2))),
            ArgumentError,
            "heads, q, k",
        ),
        (lambda: Shaw(4, clip=-1), SpecError, "at least 0"),
        (lambda: Shaw(4, clip=(1, 2)), SpecError, "around 0"),
        (lambda: TransformerXL(4, count=2, width=5), SpecError, "even"),
        (lambda: Disentangled(4, count=2, max_distance=8, buckets=7), SpecError, "even"),
        (lambda: Disentangled(4, count=2, max_distance=8, buckets=16), SpecError, "more than 9"),
        (lambda: Decomposed(4, size=()), SpecError, "1 to 3"),
        (lambda: MusicTransformer(4, count=0, length=2), SpecError, "at least 1"),
        (lambda: CoPE(4, length=0), SpecError, "at least 1"),
        (lambda: TransformerXL(4, count=2, width=4, clamp=0), SpecError, "at least 1"),
        (
            lambda: TransformerXL(4, count=2, width=4, ladder=posenc.Ladder(cos_shift=0.5)),
            SpecError,
            "cos_shift: expected 0",
        ),
        (lambda: posenc.IRPE(4, gamma=1.5), SpecError, "alpha < gamma"),
        (lambda: posenc.GatedBuckets(4, count=2, buckets=3), SpecError, "4 to 2048"),
        (lambda: posenc.GatedBuckets(4, count=0), SpecError, "at least 1"),
        (lambda: posenc.PositionSensitive(4, length=0), SpecError, "at least 1"),
        (lambda: posenc.PositionSensitive(4, length=2, value_dim=0), SpecError, "at least 1"),
        (
            lambda: go(posenc.PositionSensitive(4, length=2)),
            PositionError,
            "below the length, 2, got 2",
        ),
        (lambda: posenc.NEZHA(5), SpecError, "even width"),
        (lambda: posenc.NEZHA(4, clip=0), SpecError, "at least 1"),
        (lambda: posenc.TENER(2, count=1), SpecError, "at least 4"),
        (lambda: posenc.TENER(4, count=1, base=-1), SpecError, "positive"),
        (lambda: posenc.RelativeSegments(4, count=0), SpecError, "at least 1"),
        (lambda: posenc.ForgetGates(4, count=0), SpecError, "at least 1"),
        (
            lambda: go(posenc.ForgetGates(4, count=1), [0, 1, 2], [1, 0, 2]),
            PositionError,
            "ForgetGates: k_positions: expected keys in the order",
        ),
        (lambda: posenc.DAPE(4, count=2, max_bias=0), SpecError, "positive"),
        (lambda: go(posenc.DAPE(4, count=2)), ArgumentError, "all 2 heads"),
    ],
)
def test_refusals(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


def go(spec: Any, m: Any = None, n: Any = None, q: Any = None, **more: Any) -> Any:
    q = np.ones((1, 3, 4)) if q is None else q
    return posenc.relative(spec, q, np.ones((1, 3, 4)), m, n, params=posenc.init(spec), **more)
