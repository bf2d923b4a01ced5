"""Laws that hold for every table, by Hypothesis."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import posenc
from posenc import Arrangement, Ladder, Magnitude, Sinusoidal
from posenc._core.spec.spec import to_json
from posenc.registry import from_json
from tests.backends import BACKENDS, Backend, each_backend, each_eager_backend
from tests.oracles import table as oracle
from tests.tolerances import ABSOLUTE, FLOAT64, PER_POSITION, assert_close

LARGEST = 2**31 - 1
JAX = next(backend for backend in BACKENDS if backend.name == "jax")
positions = st.integers(-LARGEST, LARGEST)
orders = st.sampled_from(["interleaved", "sin_cos", "cos_sin"])
odds = st.sampled_from(["sin_extra", "zero_pad", "cut"])
ladders = st.one_of(
    st.builds(Ladder, denominator=st.sampled_from(["d/2", "n", "d", "n-0.5", 7.5])),
    st.builds(Ladder, spacing=st.just("octave"), first=st.floats(1e-3, 0.5)),
    st.builds(Ladder, spacing=st.just("linear"), first=st.floats(0.1, 1), last=st.floats(1, 3)),
)
plain_specs = st.builds(
    Sinusoidal,
    st.integers(1, 24),
    base=st.floats(2, 1e9),
    ladder=ladders,
    order=orders,
    odd=odds,
)
whole_specs = st.builds(
    Sinusoidal, st.integers(1, 12).map(lambda n: 2 * n), base=st.floats(2, 1e9), order=orders
)


def table64(spec: Sinusoidal, where: object) -> np.ndarray:
    return posenc.table(spec, where, dtype="float64")


@given(plain_specs, st.lists(positions, min_size=1, max_size=8), st.data())
def test_a_row_depends_on_its_position_only(
    spec: Sinusoidal, where: list[int], data: st.DataObject
) -> None:
    table = posenc.table(spec, where)
    pick = data.draw(st.integers(0, len(where) - 1))
    np.testing.assert_array_equal(posenc.table(spec, [where[pick]])[0], table[pick])
    order = data.draw(st.permutations(range(len(where))))
    np.testing.assert_array_equal(posenc.table(spec, np.array(where)[order]), table[order])


@given(plain_specs, st.integers(0, 40), st.data())
def test_gather_is_slice(spec: Sinusoidal, length: int, data: st.DataObject) -> None:
    table = posenc.table(spec, length)
    assert table.shape == (length, spec.dim)
    picks = data.draw(st.lists(st.integers(0, max(length - 1, 0)), max_size=5 if length else 0))
    np.testing.assert_array_equal(posenc.table(spec, picks), table[picks])


@given(plain_specs, positions, st.integers(1, 6))
def test_offset_is_a_slice_of_the_table(spec: Sinusoidal, offset: int, length: int) -> None:
    offset = min(offset, LARGEST - length)
    x = np.zeros((length, spec.dim), dtype=np.float32)
    rows = posenc.table(spec, np.arange(offset, offset + length))
    np.testing.assert_array_equal(posenc.add(spec, x, offset=offset), rows)


@pytest.mark.costly
@given(plain_specs, st.lists(positions, min_size=1, max_size=8))
def test_bounded(spec: Sinusoidal, where: list[int]) -> None:
    assert (np.abs(posenc.table(spec, where)) <= 1 + ABSOLUTE["float32"]).all()


@given(whole_specs, st.lists(positions, min_size=1, max_size=8))
def test_pairs_lie_on_the_unit_circle(spec: Sinusoidal, where: list[int]) -> None:
    squares = (table64(spec, where) ** 2).sum(axis=1)
    assert_close(squares, np.full(len(where), spec.pairs), spec.pairs * FLOAT64)
    sin_cos = posenc.table(spec.replace(order="sin_cos"), where)
    radius = np.hypot(sin_cos[:, : spec.pairs], sin_cos[:, spec.pairs :])
    assert_close(radius, np.ones_like(radius), 2 * ABSOLUTE["float32"])


@given(whole_specs, positions, st.integers(-100_000, 100_000))
def test_shift_moves_every_row(spec: Sinusoidal, position: int, k: int) -> None:
    moved = posenc.shift(spec, k) @ table64(spec, [position])[0]
    bound = FLOAT64 + 3 * PER_POSITION * (abs(position) + abs(k))
    assert_close(moved, table64(spec, [position + k])[0], bound)


@given(whole_specs, st.integers(-1000, 1000), st.integers(-1000, 1000))
def test_shifts_compose(spec: Sinusoidal, a: int, b: int) -> None:
    both = posenc.shift(spec, a) @ posenc.shift(spec, b)
    assert_close(both, posenc.shift(spec, a + b), FLOAT64)


def test_shift_of_other_layouts() -> None:
    axial = Arrangement(rule="axial", axes=("h", "w"))
    for spec, p, k in (
        (Sinusoidal(9, odd="zero_pad"), 40, 7),
        (Sinusoidal(8, arrangement=axial), (3, 5), (7, -2)),
        (Sinusoidal(10, odd="zero_pad", order="sin_cos", arrangement=axial), (3, 5), (7, -2)),
        (Sinusoidal(8, arrangement=Arrangement(start=2)), 40, 7),
        (Sinusoidal(8, magnitude=Magnitude(table_scale=3)), 40, 7),
        (Sinusoidal(8, phase="float32"), 40, 7),
    ):
        row, target = (table64(spec.replace(phase="exact"), [q])[0] for q in (p, np.add(p, k)))
        assert_close(posenc.shift(spec, k) @ row, target, FLOAT64, repr(spec))


@pytest.mark.parametrize("dim", [1, 3, 5])
def test_a_lone_sine_has_no_shift(dim: int) -> None:
    for verb, spec in (
        (posenc.shift, Sinusoidal(dim)),
        (posenc.similarity, Sinusoidal(dim)),
        (posenc.shift, Sinusoidal(4, ladder=Ladder(cos_shift=0.5))),
    ):
        with pytest.raises(posenc.SpecError, match="cosine of the same frequency"):
            verb(spec, 1)


@given(whole_specs, positions, st.integers(-1000, 1000))
def test_dot_product_depends_on_the_offset_only(spec: Sinusoidal, p: int, k: int) -> None:
    product = table64(spec, [p])[0] @ table64(spec, [p + k])[0]
    bound = spec.dim * (FLOAT64 + 4 * PER_POSITION * (abs(p) + abs(k)))
    assert_close(np.array(product), posenc.similarity(spec, k), bound)


def test_similarity_is_an_exact_sum_of_cosines() -> None:
    from mpmath import mp

    offsets = [0, 1, 50, 12_345, LARGEST, -3]
    with mp.workdps(60):
        exact = [
            float(
                sum(mp.cos(k * oracle.frequency(j, base=1e4, denominator=256)) for j in range(256))
            )
            for k in offsets
        ]
    bound = 256 * (4e-16 + PER_POSITION * np.abs(np.array(offsets, dtype=float)))
    assert_close(posenc.similarity(Sinusoidal(512), offsets), np.array(exact), bound)
    scaled = Sinusoidal(512, magnitude=Magnitude(table_scale=0.5))
    assert_close(posenc.similarity(scaled, offsets), 0.25 * np.array(exact), bound)
    assert posenc.similarity(Sinusoidal(512), [[1, 2], [3, 4]]).shape == (2, 2)


@given(
    st.builds(
        Sinusoidal,
        st.integers(1, 70),
        base=st.floats(0.01, 1e12),
        ladder=ladders,
        order=orders,
        odd=odds,
        arrangement=st.builds(
            Arrangement, start=st.integers(-(2**40), 2**40), pad=st.none() | st.integers(-5, 5)
        ),
        magnitude=st.builds(
            Magnitude, table_scale=st.floats(-1e300, 1e300) | st.sampled_from(["sqrt_dim"])
        ),
        phase=st.sampled_from(["exact", "float32"]),
    )
)
@settings(max_examples=60)
def test_json_round_trip(spec: Sinusoidal) -> None:
    again = from_json(to_json(spec))
    assert again == spec
    assert hash(again) == hash(spec)
    assert again.fingerprint == spec.fingerprint
    assert from_json(to_json(spec, indent=2)) == spec


@given(plain_specs, plain_specs)
def test_fingerprints_tell_specs_apart(a: Sinusoidal, b: Sinusoidal) -> None:
    assert (a.fingerprint == b.fingerprint) == (a == b)


@each_backend
def test_no_dependence_on_call_history(backend: Backend) -> None:
    where = backend.asarray([0, 5, 4097])
    first = backend.numpy(posenc.table(Sinusoidal(16), where))
    for other in (Sinusoidal(16, base=500_000), Sinusoidal(16, order="sin_cos"), Sinusoidal(18)):
        posenc.table(other, where)
        posenc.table(other, backend.asarray([10**6, 0, 1]))  # of one shape, for JAX
    if "float64" in backend.dtypes:
        posenc.table(Sinusoidal(16), where, dtype="float64")
    posenc.table(Sinusoidal(16), where, dtype="float16" if backend.name != "strict" else None)
    np.testing.assert_array_equal(backend.numpy(posenc.table(Sinusoidal(16), where)), first)


@each_eager_backend
@given(
    shape=st.lists(st.integers(0, 4), max_size=2), length=st.integers(0, 5), seed=st.integers(0, 9)
)
@settings(max_examples=12, deadline=None)
def test_inputs_are_untouched_and_dtypes_kept(
    backend: Backend, shape: list[int], length: int, seed: int
) -> None:
    untouched(backend, shape, length, seed)


@pytest.mark.costly
@pytest.mark.parametrize(("shape", "length"), [([], 0), ([2, 3], 4)], ids=str)
def test_inputs_of_jax_are_untouched_and_dtypes_kept(shape: list[int], length: int) -> None:
    """Two shapes, as JAX compiles each operation for each."""
    untouched(JAX, shape, length, 3)


def untouched(backend: Backend, shape: list[int], length: int, seed: int) -> None:
    spec = Sinusoidal(6)
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(*shape, length, 6)).astype(np.float32)
    for dtype in backend.dtypes:
        x = backend.asarray(values.copy(), dtype)
        where = backend.asarray(rng.integers(-1000, 1000, size=length))
        before, places = backend.numpy(x).copy(), backend.numpy(where).copy()
        y = posenc.add(spec, x, positions=where)
        assert backend.dtype_of(y) == dtype
        assert tuple(y.shape) == values.shape
        np.testing.assert_array_equal(backend.numpy(x), before)
        np.testing.assert_array_equal(backend.numpy(where), places)


def test_read_only_arrays_are_enough() -> None:
    x = np.zeros((3, 8), dtype=np.float32)
    where = np.arange(3)
    x.setflags(write=False)
    where.setflags(write=False)
    assert_close(posenc.add(Sinusoidal(8), x, positions=where), posenc.table(Sinusoidal(8), 3), 0)


@each_backend
def test_positions_broadcast_to_the_tokens(backend: Backend) -> None:
    spec, rng = Sinusoidal(8), np.random.default_rng(1)
    x = rng.normal(size=(2, 3, 5, 8)).astype(np.float32)  # batch, heads, seq, dim
    per_row = rng.integers(-(2**31), 2**31 - 1, size=(2, 5))
    rows = posenc.table(spec, per_row)
    swapped = x.transpose(0, 2, 1, 3).copy()  # batch, seq, heads, dim
    full = rng.integers(-1000, 1000, size=(2, 3, 5))
    offsets = np.array([3, 1000])

    def sums(x: Any, swapped: Any, per_row: Any, full: Any, offsets: Any) -> tuple[Any, ...]:
        return (
            posenc.add(spec, x, positions=per_row),
            posenc.add(spec, swapped, positions=per_row, seq_dim=-3),
            posenc.add(spec, x, positions=full),
            posenc.add(spec, x, offset=offsets),
        )

    given_arrays = map(backend.asarray, (x, swapped, per_row, full, offsets))
    got = [backend.numpy(y) for y in backend.whole(sums)(*given_arrays)]
    assert_close(got[0], x + rows[:, None], 5e-7)
    assert_close(got[1], swapped + rows[:, :, None], 5e-7)
    assert_close(got[2], x + posenc.table(spec, full), 5e-7)
    rows = posenc.table(spec, offsets[:, None] + np.arange(5))
    assert_close(got[3], x + rows[:, None], 5e-7)


def test_batch_dim_is_the_form_of_tutorials() -> None:
    table = posenc.table(Sinusoidal(6), 10, batch_dim=True)
    assert table.shape == (1, 10, 6)
    assert table.dtype == np.float32
    np.testing.assert_array_equal(table[0], posenc.table(Sinusoidal(6), 10))


# --- resolution -----------------------------------------------------------------------------------


def brute_force(spec: Sinusoidal, dtype: str, limit: int) -> tuple[int, int] | None:
    """Compare every row with every row before it."""
    import ml_dtypes

    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    seen: dict[bytes, int] = {}
    for q, row in enumerate(table64(spec, limit).astype(kind)):
        key = row.tobytes()
        if key in seen:
            return seen[key], q
        seen[key] = q
    return None


@pytest.mark.parametrize(
    ("spec", "dtype"),
    [
        (Sinusoidal(2), "bfloat16"),
        (Sinusoidal(3), "bfloat16"),
        (Sinusoidal(1), "bfloat16"),
        (Sinusoidal(1), "float16"),
        (Sinusoidal(3, base=10), "float16"),
        (Sinusoidal(4, base=2, order="sin_cos"), "bfloat16"),
        (Sinusoidal(4, order="cos_sin", magnitude=Magnitude(table_scale=0.3)), "bfloat16"),
        (Sinusoidal(2, ladder=Ladder(spacing="explicit", frequencies=(0.0,))), "float32"),
        (Sinusoidal(2, magnitude=Magnitude(table_scale=0.0)), "float32"),
        (Sinusoidal(5, odd="zero_pad", base=7), "bfloat16"),
        (Sinusoidal(6), "float16"),
    ],
    ids=str,
)
def test_resolution_equals_brute_force(spec: Sinusoidal, dtype: str) -> None:
    limit = 20_000
    assert posenc.resolution(spec, dtype, limit=limit) == brute_force(spec, dtype, limit)


@pytest.mark.costly
def test_resolution_goes_far() -> None:
    found = posenc.resolution(Sinusoidal(4), "bfloat16")
    assert found is not None
    rows = posenc.table(Sinusoidal(4), list(found), dtype="float64")
    import ml_dtypes

    first, second = rows.astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(first.view(np.uint16), second.view(np.uint16))
    assert posenc.resolution(Sinusoidal(64), "float32") is None


@given(st.floats(-1.5, 1.5) | st.floats(-1e-38, 1e-38))
def test_rounding_to_bfloat16(value: float) -> None:
    import ml_dtypes

    from posenc._core.numeric.resolution import rounded

    mine = rounded(np.array([value]), "bfloat16")
    below, above = (mine.astype(np.int64) + step for step in (-1, 1))
    around = np.concatenate([mine, below, above]).astype(np.uint16).view(ml_dtypes.bfloat16)
    distance = np.abs(around.astype(np.float64) - value)
    assert distance[0] == np.nanmin(distance)


def test_rounding_to_bfloat16_happens_once() -> None:
    """Beside a tie, float32 lands on it; the side that the number came from decides."""
    from posenc._core.numeric.resolution import rounded

    values = np.array([1 + 2**-8 + 2**-40, 1 + 3 * 2**-8 - 2**-40, -1 - 2**-8 - 2**-40])
    assert rounded(values, "bfloat16").tolist() == [0x3F81, 0x3F81, 0xBF81]


@pytest.mark.costly
def test_backends_agree_among_themselves() -> None:
    where = np.array([0, 3, 1_000_000, LARGEST])
    tables = [b.numpy(posenc.table(Sinusoidal(32), b.asarray(where))) for b in BACKENDS]
    for other in tables[1:]:
        assert_close(other, tables[0], 2 * ABSOLUTE["float32"])
