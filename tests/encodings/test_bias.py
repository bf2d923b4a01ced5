"""Biases: every row against its oracle on every library, the shapes, and the laws."""

from __future__ import annotations

import functools
import json
from typing import Any

import numpy as np
import pytest

import posenc
from posenc import (
    FIRE,
    KERPLE,
    T5,
    TUPE,
    ALiBi,
    ArgumentError,
    Decay,
    DTypeError,
    IRPEBias,
    LogCPB,
    PositionError,
    Sandwich,
    SpecError,
    WindowTable,
)
from tests.backends import Backend, cycled, each_backend, each_eager_backend, each_row_and_dtypes
from tests.cases_scores import BIASES, ScoreCase
from tests.oracles import bias as oracle
from tests.tolerances import PER_POSITION, TUPE_SUMS, TUPE_SUMS_32, assert_close

QUERIES, KEYS = 12, 9  # of all rows: JAX compiles for each shape
each_bias = pytest.mark.parametrize("case", BIASES, ids=lambda case: case.name)
# Two or three roundings relative to the entry, and those of sums of terms near 1.
UNIT = {"float64": 2e-15, "float32": 6e-7, "float16": 1.1e-3, "bfloat16": 8e-3}


def bound(exact: np.ndarray, dtype: str) -> np.ndarray:
    finite = np.where(np.isfinite(exact), np.abs(exact), 0)
    return UNIT[dtype] * (1 + 2 * finite)


def put(case: ScoreCase, backend: Backend, which: str) -> Any:
    return backend.asarray(getattr(case, which))


def params_of(case: ScoreCase, backend: Backend) -> Any:
    return {k: backend.asarray(v) for k, v in case.params.items()} or None


def close(got: np.ndarray, exact: np.ndarray, tolerance: Any, what: str = "") -> None:
    """As `assert_close`, with infinities where infinities belong."""
    np.testing.assert_array_equal(np.isposinf(got), np.isposinf(exact), err_msg=what)
    np.testing.assert_array_equal(np.isneginf(got), np.isneginf(exact), err_msg=what)
    finite = np.isfinite(exact)
    assert_close(np.where(finite, got, 0), np.where(finite, exact, 0), tolerance, what)


# --- rows -----------------------------------------------------------------------------------------


@each_row_and_dtypes(BIASES, 7, by=lambda row: None)
def test_bias_equals_oracle(case: ScoreCase, backend: Backend, dtypes: tuple[str, ...]) -> None:
    assert len(case.queries) <= QUERIES
    assert len(case.keys) <= KEYS
    sides = [
        backend.asarray(cycled(side, count))
        for side, count in ((case.queries, QUERIES), (case.keys, KEYS))
    ]
    params = params_of(case, backend)

    def every(params: Any, *sides: Any) -> list[Any]:
        return [posenc.bias(case.spec, *sides, params=params, dtype=dtype) for dtype in dtypes]

    for dtype, got in zip(dtypes, backend.whole(every)(params, *sides), strict=True):
        assert backend.dtype_of(got) == dtype
        exact = exact_of(case.name)
        if dtype == "float16":
            exact = np.where(np.isfinite(exact), exact.clip(-65504, 65504), exact)
        tolerance = bound(exact, dtype) * case.roundings + PER_POSITION * 2**31 * case.waves
        what = f"{case.name} on {backend.name} in {dtype}"
        close(backend.numpy(got), exact, tolerance, what)


@functools.cache
def exact_of(name: str) -> np.ndarray:
    """The biases of a case, as often as its positions are repeated."""
    case = next(case for case in BIASES if case.name == name)
    rows, columns = cycled(range(len(case.queries)), QUERIES), cycled(range(len(case.keys)), KEYS)
    return case.exact()[:, rows, :][:, :, columns]


@each_backend
def test_tupe_forms_its_sums_widely(backend: Backend) -> None:
    """Products of normalised vectors cancel: 200 and -199 leave no digits to lose."""
    spec, rng = posenc.TUPE(2, dim=64, length=6), np.random.default_rng(0)
    params = {k: rng.normal(size=s).astype(np.float32) for k, s in spec.shapes.items()}
    lists = {name: value.tolist() for name, value in params.items()}
    exact = [
        [[oracle.tupe(m, n, h, lists, 2, True) for n in range(6)] for m in range(6)]
        for h in range(2)
    ]
    carried = {k: backend.asarray(v) for k, v in params.items()}
    got = backend.whole(lambda w: posenc.bias(spec, 6, params=w))(carried)
    most = TUPE_SUMS if "float64" in backend.dtypes else TUPE_SUMS_32
    assert_close(backend.numpy(got), exact, most * np.maximum(1, np.abs(exact)))


def test_a_parameter_without_axes_may_be_a_number_of_numpy() -> None:
    """Arithmetic makes `np.float64` of an array without axes, which is a Python float as well."""
    spec = posenc.FIRE(2)
    params = posenc.init(spec)
    whole = posenc.bias(spec, 6, params=params)
    for dtype in (np.float32, np.float64):
        numbers = {k: dtype(v) if spec.shapes[k] == () else v for k, v in params.items()}
        np.testing.assert_array_equal(posenc.bias(spec, 6, params=numbers), whole)
    for wrong in ({"head_bias": np.float64(0)}, {"c": np.int64(1)}, {"c": 0.1}):
        with pytest.raises(
            (posenc.ArgumentError, posenc.DTypeError), match=f"'{next(iter(wrong))}'"
        ):
            posenc.bias(spec, 6, params={**params, **wrong})


@each_bias
def test_heads_shard_as_the_whole(case: ScoreCase) -> None:
    """Guarantees G2 and G3: any part of the heads equals that part of all of them."""
    params = dict(case.params) or None
    whole = posenc.bias(case.spec, case.queries, case.keys, params=params)
    total = case.spec.heads
    for first, end in [(0, 1), (total - 1, total), (1, total), (0, total)]:
        if first >= end:
            continue
        part = posenc.bias(case.spec, case.queries, case.keys, params=params, heads=(first, end))
        # Matrix products of another shape add in another order.
        close(part, whole[first:end], 1e-6)
        if params is None:
            continue
        local = {
            name: np.take(value, range(first, end), axis=case.spec.by_head[name])
            if name in case.spec.by_head
            else value
            for name, value in params.items()
        }
        shard = posenc.bias(case.spec, case.queries, case.keys, params=local, heads=(first, end))
        np.testing.assert_array_equal(shard, part)


@each_bias
def test_decoding_equals_prefill_row_by_row(case: ScoreCase) -> None:
    params = dict(case.params) or None
    whole = posenc.bias(case.spec, case.queries, case.keys, params=params)
    for i, position in enumerate(case.queries):
        row = posenc.bias(case.spec, [position], case.keys, params=params)
        assert_shape = (case.spec.heads, 1, len(case.keys))
        assert row.shape == assert_shape
        np.testing.assert_array_equal(row[:, 0], whole[:, i])


@each_bias
@each_eager_backend
def test_batched_positions(case: ScoreCase, backend: Backend) -> None:
    params, queries = params_of(case, backend), put(case, backend, "queries")
    one = backend.numpy(posenc.bias(case.spec, queries, put(case, backend, "keys"), params=params))
    keys = np.stack([np.array(case.keys), np.array(case.keys[::-1])])
    both = posenc.bias(case.spec, queries, backend.asarray(keys), params=params)
    both = backend.numpy(both)
    assert both.shape == (2, *one.shape)
    # A perceptron is a product, which libraries sum in an order that follows the shape.
    room = 0 if case.spec.pointwise else bound(one, "float32")
    close(both[0], one, room)
    close(both[1, ..., ::-1], one, room)


SHIFTED = [c for c in BIASES if c.name not in ("fire", "alibi-key-only") and "tupe" not in c.name]


@pytest.mark.parametrize("case", SHIFTED, ids=lambda case: case.name)
def test_shifts_change_nothing(case: ScoreCase) -> None:
    if "class" in case.name:
        pytest.skip("negative coordinates name the class token, so a shift changes its meaning")
    params = dict(case.params) or None
    here = posenc.bias(case.spec, case.queries, case.keys, params=params)
    q, k = np.array(case.queries) + 12_345, np.array(case.keys) + 12_345
    np.testing.assert_array_equal(posenc.bias(case.spec, q, k, params=params), here)


def test_key_only_differs_by_a_constant_in_each_row() -> None:
    relative = posenc.bias(ALiBi(12, form="causal"), 9, dtype="float64")
    keys = posenc.bias(ALiBi(12, form="key_only"), 9, dtype="float64")
    past = np.tril(np.ones((9, 9), bool))
    difference = np.where(past, keys - relative, 0)
    first = np.where(past, difference[..., :1], 0)
    assert_close(difference, first, 1e-15)


@pytest.mark.parametrize(
    "spec",
    [ALiBi(4), ALiBi(3, form="causal"), KERPLE(3), KERPLE(3, form="power"), Decay(4)],
    ids=repr,
)
def test_farther_keys_get_less(spec: Any) -> None:
    distances = np.unique(np.geomspace(1, 2**30, 200).astype(np.int64))
    params = posenc.init(spec, 5) or None
    row = posenc.bias(spec, [0], -distances, params=params, dtype="float64")
    assert (np.diff(row[:, 0]) < 0).all()


@pytest.mark.parametrize("spec", [ALiBi(4), KERPLE(4), Sandwich(4)], ids=repr)
def test_symmetric_ones_are(spec: Any) -> None:
    params = posenc.init(spec) or None
    rel = np.array([1, 5, 900, 2**31 - 1])
    left, right = (posenc.bias(spec, [0], side, params=params) for side in (-rel, rel))
    np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize(
    "spec",
    [
        ALiBi(4, form="causal"),
        ALiBi(4, form="key_only"),
        T5(4),
        T5(4, direction="causal"),
        Decay(4),
    ],
    ids=repr,
)
def test_the_others_tell_the_directions_apart(spec: Any) -> None:
    params = posenc.init(spec) or None
    rel = np.array([1, 5, 900])
    left, right = (posenc.bias(spec, [0], side, params=params) for side in (-rel, rel))
    assert (left != right).all()


# --- distances are integers -----------------------------------------------------------------------


@each_backend
def test_distances_of_neighbours_survive_at_any_position(backend: Backend) -> None:
    far = 2**31 - 8
    q, k = np.array([far + 5]), np.array([far, far + 4, far + 5, far + 7])
    biases = backend.whole(lambda q, k: posenc.bias(ALiBi(1, max_bias=1), q, k))
    got = backend.numpy(biases(backend.asarray(q), backend.asarray(k)))
    np.testing.assert_array_equal(got[0, 0], [-2.5, -0.5, 0.0, -1.0])


@pytest.mark.usefixtures("nan_results")
def test_jax_refuses_distances_that_would_wrap() -> None:
    jnp = pytest.importorskip("jax.numpy", reason="JAX is not installed")
    import jax

    q, k = jnp.array([2**31 - 1]), jnp.array([-1, 0, 2**31 - 1])
    with pytest.raises(PositionError, match="at most 2147483647 apart, got 2147483648"):
        posenc.bias(ALiBi(1), q, k)
    traced = jax.jit(lambda q, k: posenc.bias(ALiBi(1, max_bias=1), q, k))(q, k)
    np.testing.assert_array_equal(np.isnan(np.asarray(traced))[0, 0], [True, False, False])
    exact = posenc.bias(ALiBi(1, max_bias=1), np.array([2**31 - 1]), np.array([-1]))
    assert float(exact[0, 0, 0]) == -(2.0**30)


def test_int64_refuses_distances_that_would_wrap() -> None:
    with pytest.raises(PositionError, match="apart"):
        posenc.bias(ALiBi(1), [2**63 - 1], [-2])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"])
def test_any_integer_dtype_of_positions(dtype: str) -> None:
    q = np.array([3, 100], dtype=dtype)
    k = np.array([120, 0], dtype=dtype)
    np.testing.assert_array_equal(
        posenc.bias(ALiBi(2), q, k), posenc.bias(ALiBi(2), q.astype(np.int64), k.astype(np.int64))
    )


# --- T5 buckets -----------------------------------------------------------------------------------

GRID = [
    (b, d, direction)
    for b in (4, 5, 8, 32, 33, 64, 255)
    for d in (17, 128, 129, 1000)
    for direction in ("bidirectional", "causal")
]
GRID = [(b, d, s) for b, d, s in GRID if (b // 2 if s == "bidirectional" else b) // 2 < d]


def by_first_distances(buckets: int, limit: int, direction: str, farthest: int) -> np.ndarray:
    """Buckets of 0, 1, … steps into the past, found by walking from one to the next exactly."""
    from tests.oracles.bias import at_least

    side = buckets // 2 if direction == "bidirectional" else buckets
    exact, out, j = side // 2, [], 0
    steps = side - exact
    for n in range(min(farthest, limit + 2)):
        if n < exact:
            out.append(n)
            continue
        while j + 1 < steps and at_least(n, exact, limit, steps, j + 1):
            j += 1
        out.append(exact + j)
    return np.array(out + [side - 1] * (farthest - len(out)))


@pytest.mark.parametrize(("buckets", "limit", "direction"), GRID)
def test_t5_buckets_are_exact(buckets: int, limit: int, direction: str) -> None:
    spec = T5(1, buckets=buckets, max_distance=limit, direction=direction)
    n = np.arange(2048)
    exact = by_first_distances(buckets, limit, direction, 2048)
    np.testing.assert_array_equal(spec.bucket(-n), exact)
    later = exact + buckets // 2 if direction == "bidirectional" else np.zeros_like(exact)
    np.testing.assert_array_equal(spec.bucket(n[1:]), later[1:])


@pytest.mark.slow("_core/numeric/buckets.py")
@pytest.mark.parametrize(
    ("buckets", "limit", "direction"),
    [*GRID, (32, 2**20, "causal"), (128, 99_991, "bidirectional")],
)
def test_t5_buckets_to_a_million(buckets: int, limit: int, direction: str) -> None:
    spec = T5(1, buckets=buckets, max_distance=limit, direction=direction)
    n = np.arange(2**20)
    np.testing.assert_array_equal(
        spec.bucket(-n), by_first_distances(buckets, limit, direction, 2**20)
    )


def test_t5_buckets_of_the_farthest() -> None:
    far = np.array([2**31 - 2, 2**31 - 1, 2**31, 2**62])
    np.testing.assert_array_equal(T5(1).bucket(-far), 15)
    np.testing.assert_array_equal(T5(1, buckets=27).bucket(far), 25)


@each_backend
def test_t5_buckets_in_half_precision_models(backend: Backend) -> None:
    """The dtype of the model plays no part in the choice of a bucket."""
    dtype = backend.dtypes[-1]
    spec = T5(1, direction="causal")
    n = np.arange(4096)
    weight = backend.asarray(np.arange(32, dtype=np.float32)[:, None], dtype)
    biases = backend.whole(
        lambda q, k, weight: posenc.bias(spec, q, k, params={"weight": weight}, dtype=dtype)
    )
    got = biases(backend.asarray([0]), backend.asarray(-n), weight)
    np.testing.assert_array_equal(backend.numpy(got)[0, 0], spec.bucket(-n))


# --- piecewise buckets ----------------------------------------------------------------------------


@pytest.mark.parametrize("choice", [(1.9, 3.8, 15.2), (2.5, 7.0, 20.0), (1.0, 4.0, 9.0)], ids=str)
@pytest.mark.parametrize("method", ["product", "cross", "euclidean", "quantised"])
def test_irpe_buckets_of_every_offset(method: Any, choice: tuple[float, float, float]) -> None:
    """The offsets of an image of 24 x 24: scalars that are the numbers of their buckets."""
    from tests.oracles.bias import irpe_buckets

    spec = IRPEBias(1, method=method, **dict(zip(("alpha", "beta", "gamma"), choice, strict=True)))
    cells = np.stack(np.divmod(np.arange(24 * 24), 24), axis=-1)
    params = {
        name: np.arange(shape[1], dtype=np.float64)[None] * (100 if name == "rows" else 1)
        for name, shape in spec.shapes.items()
    }
    corners = [(0, 0), (23, 0), (0, 23), (23, 23)]
    got = posenc.bias(spec, corners, cells, params=params, dtype="float64")[0]
    found = [[irpe_buckets(m, n, method, *choice) for n in cells.tolist()] for m in corners]
    exact = [
        [b["weight"] if "weight" in b else 100 * b["rows"] + b["columns"] for b in row]
        for row in found
    ]
    np.testing.assert_array_equal(got, exact)


# --- what peers get wrong -------------------------------------------------------------------------


@each_backend
def test_peers_4_one_query_row_does_not_spread(backend: Backend) -> None:
    """A peer's ALiBi with one query row gives (heads, keys, keys)."""
    biases = backend.whole(lambda q, k: posenc.bias(ALiBi(8), q, k))
    got = biases(backend.asarray([6]), backend.asarray(np.arange(7)))
    assert tuple(got.shape) == (8, 1, 7)
    batched = biases(backend.asarray([[6], [9]]), backend.asarray(np.arange(7)))
    assert tuple(batched.shape) == (2, 8, 1, 7)


def test_peers_8_slopes_of_twelve_heads_follow_the_paper() -> None:
    """A peer's formula gives 0.63, 0.40, …; the authors' code 0.5, 0.25, … and then 0.71."""
    got = posenc.bias(ALiBi(12), [0], [1], dtype="float64")[:, 0, 0]
    exact = [2.0**-i for i in range(1, 9)] + [2.0 ** -(i - 0.5) for i in range(1, 5)]
    assert_close(-got, np.array(exact), 1e-15)


def test_pain_19_slopes_rectangular_and_per_position() -> None:
    """Slopes, bidirectional use, padding and memories come from the positions alone."""
    spec = ALiBi(6)
    square = posenc.bias(spec, 10)
    np.testing.assert_array_equal(posenc.bias(spec, [7, 8, 9], 10), square[:, 7:])
    mask = np.array([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    padded = posenc.bias(spec, posenc.positions.from_mask(mask))
    np.testing.assert_array_equal(padded[0, :, 2:, 2:], square[:, :3, :3])
    np.testing.assert_array_equal(padded[1], square[:, :5, :5])
    packed = posenc.positions.packed([0, 3, 8])
    np.testing.assert_array_equal(posenc.bias(spec, packed)[:, 3:, 3:], square[:, :5, :5])
    memory = posenc.bias(spec, [0, 1], [-3, -2, -1, 0, 1])
    np.testing.assert_array_equal(memory, square[:, 3:5, :5])


# --- refusals -------------------------------------------------------------------------------------


def learned_at(spec: Any, q: Any, k: Any) -> Any:
    return posenc.bias(spec, q, k, params=posenc.init(spec))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: posenc.bias(ALiBi(2), [0.5], [1]), DTypeError, "Keep integers"),
        (lambda: posenc.bias(ALiBi(2), 3, [[[1]], [[2]]], heads=(0, 3)), ArgumentError, "end <= 2"),
        (lambda: posenc.bias(ALiBi(2), 3, heads=(1, 1)), ArgumentError, "first < end"),
        (lambda: posenc.bias(ALiBi(2), 3, heads=1), ArgumentError, "of the 2 heads"),
        (lambda: posenc.bias(ALiBi(2), np.array(3)), ArgumentError, "One position is"),
        (lambda: posenc.bias(ALiBi(2), -1), ArgumentError, "at least 0"),
        (
            lambda: posenc.bias(ALiBi(2), np.zeros((2, 3), int), np.zeros((3, 3), int)),
            ArgumentError,
            "one batch shape",
        ),
        (
            lambda: posenc.bias(ALiBi(2), np.zeros((2, 3), int), np.zeros((1, 2, 3), int)),
            ArgumentError,
            "one batch shape",
        ),
        (
            lambda: posenc.bias(ALiBi(2), 3, params={"slopes": np.ones(2)}),
            ArgumentError,
            "learns nothing",
        ),
        (lambda: posenc.bias(T5(2), 3), ArgumentError, "posenc.init"),
        (
            lambda: posenc.bias(T5(2), 3, params={"weights": np.ones((32, 2))}),
            ArgumentError,
            "Did you mean",
        ),
        (
            lambda: posenc.bias(T5(2), 3, params={"weight": np.ones((2, 32))}),
            ArgumentError,
            r"shape \(32, 2\)",
        ),
        (
            lambda: posenc.bias(T5(4), 3, params={"weight": np.ones((32, 2))}, heads=(0, 1)),
            ArgumentError,
            r"or \(32, 1\)",
        ),
        (lambda: posenc.bias(posenc.Sinusoidal(4), 3), ArgumentError, "posenc.ALiBi"),
        (lambda: posenc.bias(ALiBi, 3), ArgumentError, "Construct it first"),
        (lambda: posenc.bias(WindowTable(1, window=(2, 2)), 4), ArgumentError, "coordinates"),
        (lambda: posenc.TISA(2, kernels=0), SpecError, "1 to 64"),
        (lambda: posenc.TISA(2, offset=-1), SpecError, "at least 0"),
        (lambda: posenc.OffsetTable(2, size=()), SpecError, "size: expected 1 to 3 lengths"),
        (
            lambda: learned_at(posenc.OffsetTable(2, size=(2, 2)), [[0, 0]], [[0, 2]]),
            PositionError,
            "'column' from -1 to 1",
        ),
        (lambda: posenc.ALiBi2D(2, max_bias=0), SpecError, "positive"),
        (lambda: posenc.ClippedTable(2, clip=(1, 3)), SpecError, "around 0"),
        (lambda: posenc.Quadratic(2, sharpness=0), SpecError, "positive"),
        (lambda: posenc.SpatialBuckets(2, spatial_buckets=3), SpecError, "spatial_buckets"),
        (
            lambda: posenc.SpatialBuckets(2, max_spatial_distance=9),
            SpecError,
            "max_spatial_distance: expected more than the 16",
        ),
        (lambda: posenc.AdaptiveSpan(2, length=0), SpecError, "length: expected at least 1"),
        (lambda: posenc.AdaptiveSpan(2, length=8, start=1.5), SpecError, "from 0 to 1"),
        (lambda: posenc.RotaryBias(2, dim=5), SpecError, "even width"),
        (lambda: posenc.RotaryBias(2, dim=4, base=0), SpecError, "positive"),
        (lambda: posenc.DynamicBias(2, window=(2, 0), width=3), SpecError, "1 to 3 lengths"),
        (lambda: posenc.DynamicBias(2, window=(2, 2), width=0), SpecError, "at least 1"),
        (
            lambda: learned_at(posenc.DynamicBias(2, window=(2, 2), width=3), [[0, 0]], [[2, 0]]),
            PositionError,
            "'row' from -1 to 1",
        ),
        (lambda: posenc.ComplexOffsets(2, copies=0), SpecError, "copies: expected at least 1"),
        (lambda: IRPEBias(2, alpha=4.0), SpecError, "alpha < beta"),
        (lambda: IRPEBias(2, beta=9.5, gamma=1e9), SpecError, "end before 32,767"),
        (
            lambda: posenc.bias(WindowTable(1, window=(2, 2)), [[0, 0, 0]]),
            ArgumentError,
            "trailing axis of 2",
        ),
        (
            lambda: posenc.bias(
                TUPE(1, dim=2, length=4), [4], params=posenc.init(TUPE(1, dim=2, length=4))
            ),
            PositionError,
            "got 4",
        ),
        (lambda: ALiBi(0), SpecError, "at least 1"),
        (lambda: ALiBi(4, max_bias=0), SpecError, "positive"),
        (lambda: ALiBi(4, biased=5), SpecError, "0 to 4"),
        (lambda: ALiBi(4, biased=2, recipe="learned"), SpecError, "every head"),
        (lambda: ALiBi(3, recipe=(0.5, 0.25)), SpecError, "3 slopes of at least 0"),
        (lambda: ALiBi(2, recipe=(0.5, -0.25)), SpecError, "2 slopes of at least 0"),
        (
            lambda: ALiBi(1, recipe=(0.5,), max_bias=4),
            SpecError,
            "slopes without max_bias and biased",
        ),
        (lambda: ALiBi(4, form="casual"), SpecError, "Did you mean 'causal'"),
        (lambda: T5(2, buckets=3), SpecError, "4 to 2048"),
        (lambda: T5(2, max_distance=8), SpecError, "more than the 8"),
        (lambda: T5(2).bucket([0.5]), DTypeError, "integer"),
        (lambda: KERPLE(2, least=0), SpecError, "least"),
        (lambda: FIRE(2, threshold=0), SpecError, "threshold"),
        (lambda: Sandwich(2, dim=7), SpecError, "even"),
        (lambda: WindowTable(2, window=()), SpecError, "1 to 3"),
        (lambda: WindowTable(2, window=(0, 2)), SpecError, "at least 1"),
        (lambda: LogCPB(2, window=(2, 2), trained_window=(2,)), SpecError, "2 lengths"),
        (lambda: LogCPB(2, window=(2, 2), trained_window=()), SpecError, "LogCPB: trained_window"),
        (lambda: TUPE(3, dim=8, length=4), SpecError, "divisible"),
    ],
)
def test_refusals(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


def test_json_with_slopes_beside_the_recipe_is_read() -> None:
    """As 0.1.0 wrote it."""
    for slopes, recipe in (
        ("fixed", "geometric"),
        ("learned", "learned"),
        ([0.5, 0.25], (0.5, 0.25)),
    ):
        own = "geometric" if slopes == "fixed" else "paper"
        old = {"type": "ALiBi", "heads": 2, "recipe": own, "slopes": slopes}
        spec = posenc.from_json(json.dumps(old))
        assert spec == ALiBi(2, recipe=recipe)  # type: ignore[arg-type]
        assert posenc.from_json(posenc.to_json(spec)) == spec
    with pytest.raises(SpecError, match="slopes of at least 0"):
        posenc.from_json('{"type": "ALiBi", "heads": 2, "slopes": [0.5]}')
    with pytest.raises(posenc.DataError, match="of the recipe 'paper'"):
        posenc.from_json(
            '{"type": "ALiBi", "heads": 3, "slopes": "learned", "recipe": "geometric"}'
        )


@pytest.mark.usefixtures("nan_results")
def test_offsets_outside_a_window_are_named_or_nan() -> None:
    spec = WindowTable(1, window=(2, 2))
    params = posenc.init(spec)
    with pytest.raises(PositionError, match="'column' from -1 to 1"):
        posenc.bias(spec, [[0, 0]], [[0, 2]], params=params)
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    traced = jax.jit(lambda q, k: posenc.bias(spec, q, k, params=params))
    got = np.asarray(traced(jax.numpy.array([[0, 0]]), jax.numpy.array([[0, 2], [1, 1]])))
    np.testing.assert_array_equal(np.isnan(got), [[[True, False]]])


def test_no_tokens() -> None:
    assert posenc.bias(ALiBi(3), 0, 4).shape == (3, 0, 4)
    assert posenc.bias(ALiBi(3), [2], []).shape == (3, 1, 0)
    params = posenc.init(T5(2))
    assert posenc.bias(T5(2), 0, params=params).shape == (2, 0, 0)
