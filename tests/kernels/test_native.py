"""The compiled kernels by themselves: their integers, numbers, memory and refusals."""

from __future__ import annotations

import functools
import importlib.util
import itertools
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

import posenc
from posenc._core.arrays.array import library
from posenc._core.numeric import phase
from tests.tolerances import ABSOLUTE, PER_POSITION, assert_close

if importlib.util.find_spec("posenc.kernels._native") is None:
    pytest.skip("the compiled kernels were not built (make build)", allow_module_level=True)

from posenc.kernels import _native as native

XP = library(np)
# What the kernels are compared with: the verbs by the array engine alone.
VERBS = ("add", "bias", "cos_sin", "rotate", "table")
reference = SimpleNamespace(
    **{verb: functools.partial(getattr(posenc, verb), kernel="reference") for verb in VERBS}
)
DTYPES = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
LARGEST = 2**31 - 1
RNG = np.random.default_rng(20)
EXTREME = np.concatenate([np.arange(-3, 40), RNG.integers(-LARGEST, LARGEST, 200), [LARGEST]])


@pytest.fixture(scope="module", params=native.instruction_sets(), autouse=True)
def _each_instruction_set(request: pytest.FixtureRequest) -> Iterator[None]:
    before = native.instruction_set()
    native.use_instruction_set(request.param)
    yield
    native.use_instruction_set(before)


def numbers(shape: tuple[int, ...], dtype: str = "float32", seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(DTYPES[dtype])


def bits(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x).view({4: np.uint32, 2: np.uint16}[x.dtype.itemsize])


def assert_same(got: np.ndarray, want: np.ndarray) -> None:
    """Equal bits."""
    assert got.shape == want.shape
    differ = bits(got) != bits(want)
    assert not differ.any(), f"{int(differ.sum())} of {differ.size} entries differ"


def phases(spec: Any) -> Any:
    return native.Phases(spec.arrays["step"], spec.arrays.get("origin"))


def rotation(spec: posenc.RoPE, *, inverse: bool = False) -> Any:
    pairing = spec.channels
    target = "half" if pairing.output == "half" else pairing.order
    return native.Rotation(
        phases(spec),
        source=target if inverse else pairing.order,
        target=pairing.order if inverse else target,
        part=pairing.part,
        blocks=pairing.blocks,
        sign=-1 if inverse != (pairing.direction == "backward") else 1,
        factor=spec.attention_factor,
        divide=inverse,
    )


# --- integers -------------------------------------------------------------------------------------

GRID = posenc.Arrangement(rule="axial", axes=("row", "column", "time"))
SPECS = {
    "base 1e4": posenc.RoPE(128, pairing="half"),
    "base 1e7, odd number of pairs": posenc.RoPE(70, pairing="half", base=1e7),
    "three axes": posenc.RoPE(96, pairing="half", arrangement=GRID),
    "from one": posenc.RoPE(34, pairing="half", arrangement=posenc.Arrangement(start=1)),
    # The kernels take 64 pairs at a time.
    "more than one block": posenc.RoPE(274, pairing="half"),
    "two blocks, two axes": posenc.RoPE(
        256, pairing="half", arrangement=GRID.replace(axes=("row", "column"))
    ),
}


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_integers_are_those_of_the_array_engine(spec: posenc.RoPE) -> None:
    axes = len(spec.axes)
    positions = np.stack([np.roll(EXTREME, a) for a in range(axes)], axis=-1)
    turn = phase.turns(positions, spec.arrays["step"], spec.arrays.get("origin"))
    quadrant, residual = phase.quadrants(turn)
    got = np.empty_like(quadrant), np.empty_like(residual)
    phases(spec).integers(positions, *got)
    assert np.array_equal(got[0], quadrant)
    assert np.array_equal(got[1], residual)


def test_residuals_are_rounded_once() -> None:
    # Steps of one make the position itself the phase, so that every size of residual comes up:
    # powers of two, halfway cases of float32, and their neighbours.
    sizes = [1 << n for n in range(62)]
    halfway = [(2**24 + k) << n for n in range(1, 38) for k in range(4)]
    middles = [m + (m >> 25) for m in halfway]
    near = [s + d for s in sizes + halfway + middles for d in (-2, -1, 0, 1, 2)]
    random = RNG.integers(-(2**61), 2**61, 20_000).tolist()
    positions = np.array([p for p in near + random if abs(p) < 2**61], dtype=np.int64)
    step = np.ones((1, 1), dtype=np.int64)
    want = phase.cos_sin(positions[:, None], step, dtype=np.float32, xp=XP)
    got = np.empty((len(positions), 1), np.float32), np.empty((len(positions), 1), np.float32)
    native.Phases(step).cos_sin(positions, *got)
    assert_same(got[0], want[0])
    assert_same(got[1], want[1])


# --- cosines and sines ----------------------------------------------------------------------------


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_cos_sin(spec: posenc.RoPE) -> None:
    axes = len(spec.axes)
    positions = np.stack([np.roll(EXTREME, a) for a in range(axes)], axis=-1)
    got = [np.empty((len(EXTREME), spec.pairs), np.float32) for _ in "cs"]
    phases(spec).cos_sin(positions, *got)
    exact = reference.cos_sin(spec, positions if axes > 1 else EXTREME, dtype="float64")
    bound = ABSOLUTE["float32"] + PER_POSITION * axes * LARGEST
    for mine, expected, truth in zip(
        got, reference.cos_sin(spec, positions.squeeze()), exact, strict=True
    ):
        assert_same(mine, expected)
        assert_close(mine, truth, bound)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("divide", [False, True], ids=["times", "divided"])
def test_cos_sin_with_a_factor(dtype: str, divide: bool) -> None:
    spec = SPECS["base 1e4"]
    cos, sin = reference.cos_sin(spec, EXTREME)
    got = [np.empty((len(EXTREME), spec.pairs), DTYPES[dtype]) for _ in "cs"]
    phases(spec).cos_sin(EXTREME, *got, factor=1.3, divide=divide)
    for mine, expected in zip(got, (cos, sin), strict=True):
        scaled = expected / np.float32(1.3) if divide else expected * np.float32(1.3)
        assert_same(mine, scaled.astype(DTYPES[dtype]))


# --- rotations ------------------------------------------------------------------------------------

PAIRINGS = {
    "half": posenc.Pairing("half"),
    "interleaved": posenc.Pairing("interleaved"),
    "trailing": posenc.Pairing("half", part="trailing"),
    "blocks": posenc.Pairing("half", blocks=(6, 4, 6)),
    "odd blocks": posenc.Pairing("half", blocks=(5, 4, 7)),
    "interleaved blocks": posenc.Pairing("interleaved", blocks=(5, 11)),
    "to half": posenc.Pairing("interleaved", output="half"),
    "backward": posenc.Pairing("interleaved", direction="backward", part="trailing"),
}
LAYOUTS = {"heads first": -2, "tokens first": -3}


@pytest.mark.parametrize("seq_dim", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("pairing", PAIRINGS.values(), ids=PAIRINGS)
def test_rotate(pairing: posenc.Pairing, dtype: str, seq_dim: int) -> None:
    scaling = posenc.scaling.YaRN(4, original_length=64)  # brings a factor
    spec = posenc.RoPE(32, pairing=pairing, scaling=scaling)
    shape = (2, 3, 150, 40) if seq_dim == -2 else (2, 150, 3, 40)
    positions = RNG.integers(0, LARGEST, (2, 150))
    positions[:, 40:90] = positions[:, 40:41]  # neighbours at one place share cosines and sines
    q, k = numbers(shape, dtype), numbers(shape, dtype, 1)[..., :1, :] + 0
    if seq_dim == -2:
        k = numbers((2, 1, 150, 40), dtype, 1)
    for inverse in (False, True):
        want = [
            reference.rotate(spec, x, positions=positions, seq_dim=seq_dim, inverse=inverse)
            for x in (q, k)
        ]
        results = np.zeros_like(q), np.zeros_like(k)
        turn = rotation(spec, inverse=inverse).turn
        turn((q, k), results, positions, seq_dim)
        own = q.copy(), k.copy()
        turn(own, own, positions, seq_dim)
        for got, inplace, expected in zip(results, own, want, strict=True):
            assert_same(got, expected)
            assert_same(inplace, expected)


@pytest.fixture
def past_caches() -> Iterator[None]:
    """Results of any size go past the caches."""
    before = native.set_past_caches(0)
    yield
    native.set_past_caches(before)


def surrounded(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Memory for a result like `x` that has sevens on all sides, and that memory with them."""
    whole = np.full((*x.shape[:-1], x.shape[-1] + 3), 7, x.dtype)
    return whole[..., 1:-2], whole


@pytest.mark.parametrize("order", ["interleaved", "sin_cos", "cos_sin"])
@pytest.mark.parametrize("dim", [126, 128, 130, 256, 386])
def test_tables_of_many_pairs(dim: int, order: str) -> None:
    spec = posenc.Sinusoidal(dim, order=order)
    got = np.empty((40, dim), np.float32)
    sinusoids(spec).table(got, LARGEST - 40)
    assert_same(got, reference.table(spec, np.arange(LARGEST - 40, LARGEST)))


@pytest.mark.usefixtures("past_caches")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", ["half", "interleaved"])
@pytest.mark.parametrize("dim", [2, 6, 34, 128, 258])
def test_rotations_past_the_caches(dim: int, order: str, dtype: str) -> None:
    spec = posenc.RoPE(dim, pairing=order)
    x = numbers((2, 3, 70, dim), dtype)
    want = reference.rotate(spec, x, offset=99)
    result, around = surrounded(x)
    own = np.empty_like(x)
    for y in (result, own):
        rotation(spec).turn((x,), (y,), 99)
        assert_same(y, want)
    assert (around[..., 0] == 7).all()
    assert (around[..., -2:] == 7).all()


@pytest.mark.usefixtures("past_caches")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [2, 7, 33, 128, 258])
def test_sums_past_the_caches(dim: int, dtype: str) -> None:
    spec = posenc.Sinusoidal(dim)
    x = numbers((2, 70, dim), dtype)
    want = reference.add(spec, x, offset=99)
    result, around = surrounded(x)
    sinusoids(spec).add(x, result, 99)
    assert_same(result, want)
    assert (around[..., 0] == 7).all()
    assert (around[..., -2:] == 7).all()


# Neighbours that stand together, count up, or leap, as phases go on by sums and by products.
LEAPS = st.lists(st.sampled_from([0, 0, 1, 1, 1, 2, 2**40, -7]), min_size=1, max_size=90)


@given(steps=st.lists(LEAPS, min_size=1, max_size=2), first=st.integers(-5, 2**61))
@pytest.mark.parametrize("pairs", [1, 2, 7, 16, 31, 70])
def test_positions_go_on_by_any_steps(pairs: int, steps: list[list[int]], first: int) -> None:
    count = min(map(len, steps))
    positions = np.stack([first + np.cumsum(axis[:count]) for axis in steps], axis=-1)
    step = RNG.integers(-(2**62), 2**62, (len(steps), pairs)) * 2 + 1
    origin = step[0] if first % 2 else None
    want = phase.cos_sin(positions, step, origin, dtype=np.float32, xp=XP)
    got = [np.empty((count, pairs), np.float32) for _ in "cs"]
    native.Phases(step, origin).cos_sin(positions, *got)
    for mine, expected in zip(got, want, strict=True):
        assert_same(mine, expected)


@pytest.mark.costly
@given(
    steps=LEAPS,
    dim=st.integers(1, 31).map(lambda pairs: 2 * pairs),
    order=st.sampled_from(["interleaved", "sin_cos", "cos_sin"]),
    dtype=st.sampled_from([*DTYPES]),
    factor=st.sampled_from([1.0, 0.3]),
)
def test_tables_of_few_pairs(
    steps: list[int], dim: int, order: Any, dtype: str, factor: float
) -> None:
    spec = posenc.Sinusoidal(dim, order=order, magnitude=posenc.Magnitude(table_scale=factor))
    where = np.cumsum(steps)
    want = reference.table(spec, where, dtype=dtype)
    memory = np.full((len(steps) + 128, dim), 7, DTYPES[dtype])  # 128 numbers are made at once
    own, behind = np.split(memory, [len(steps)])
    result, around = surrounded(own)
    for y in (own, result):
        sinusoids(spec).table(y, where)
        assert_same(y, want)
    assert (behind == 7).all()
    assert (around[..., 0] == 7).all()
    assert (around[..., -2:] == 7).all()


@pytest.mark.parametrize("order", ["half", "interleaved"])
@pytest.mark.parametrize("dim", [128, 16, 4])
def test_every_float16(dim: int, order: str) -> None:
    """Each number that there is, NaN as any NaN."""
    x = np.arange(2**16, dtype=np.uint16).view(np.float16).reshape(-1, dim)
    spec, table = posenc.RoPE(dim, pairing=order), posenc.Sinusoidal(dim)
    got = np.empty_like(x), np.empty_like(x)
    rotation(spec).turn((x,), (got[0],), 3)
    sinusoids(table).add(x, got[1], 3)
    with np.errstate(invalid="ignore", over="ignore"):
        wanted = reference.rotate(spec, x, offset=3), reference.add(table, x, offset=3)
    for mine, want in zip(got, wanted, strict=True):
        assert np.array_equal(np.isnan(mine), np.isnan(want))
        assert_same(np.nan_to_num(mine, nan=0), np.nan_to_num(want, nan=0))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", ["half", "interleaved"])
def test_rotate_against_float64(order: str, dtype: str) -> None:
    spec = posenc.RoPE(64, pairing=order)
    x = numbers((3, len(EXTREME), 64), dtype)
    got = np.empty_like(x)
    rotation(spec).turn((x,), (got,), EXTREME)
    exact = reference.rotate(spec, x.astype(np.float64), positions=EXTREME)
    # A sum of two products of float32 with sines right to 1.5e-7, then one rounding.
    size = np.abs(x.astype(np.float64)).max()
    bound = 2 * size * (ABSOLUTE["float32"] + 2.0**-23)
    if dtype != "float32":
        digits = {"float16": 11, "bfloat16": 8}[dtype]
        least = {"float16": 2.0**-25, "bfloat16": 0.0}[dtype]
        bound = bound + np.maximum(np.abs(exact) * 2.0**-digits, least)
    assert_close(got.astype(np.float64), exact, bound)


def test_one_token_of_many_rows() -> None:
    spec = posenc.RoPE(128, pairing="half")
    q, k = numbers((8, 32, 1, 128)), numbers((8, 8, 1, 128), seed=1)
    positions = RNG.integers(0, 10_000, (8, 1))
    want = [reference.rotate(spec, x, positions=positions) for x in (q, k)]
    rotation(spec).turn((q, k), (q, k), positions)
    assert_same(q, want[0])
    assert_same(k, want[1])


def test_forms_of_positions_agree() -> None:
    spec = posenc.RoPE(16, pairing="half")
    x = numbers((2, 3, 5, 16))
    want = reference.rotate(spec, x, offset=7)
    count = np.arange(7, 12)
    forms = [
        7,
        count,
        count.astype(np.int32),
        count[::-1][::-1],
        np.array([7]),
        count[None],
        np.stack([count, count]),
        np.array([[7], [7]]),
        count.reshape(1, 1, 5, 1),
        np.broadcast_to(count, (2, 3, 5))[..., None],
        np.full((2, 1, 1, 1), 7),
    ]
    for form in forms:
        got = np.empty_like(x)
        rotation(spec).turn((x,), (got,), form)
        assert_same(got, want)


def test_positions_count_up_from_those_of_rows() -> None:
    spec = posenc.RoPE(16, pairing="half")
    x, first = numbers((3, 2, 5, 16)), np.array([[4], [-9], [2**40]])
    got = np.empty_like(x)
    rotation(spec).turn((x,), (got,), first)
    assert_same(got, reference.rotate(spec, x, positions=first + np.arange(5)))


def test_several_axes() -> None:
    spec = posenc.RoPE(96, pairing="interleaved", arrangement=GRID)
    x, positions = numbers((2, 4, 30, 96)), RNG.integers(-LARGEST, LARGEST, (2, 30, 3))
    got = np.empty_like(x)
    rotation(spec).turn((x,), (got,), positions)
    assert_same(got, reference.rotate(spec, x, positions=positions))


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_do_not_change_a_bit(threads: int) -> None:
    spec = posenc.RoPE(128, pairing="half")
    q, k = numbers((1, 8, 700, 128)), numbers((1, 2, 700, 128), seed=1)
    results = np.empty_like(q), np.empty_like(k)
    rotation(spec).turn((q, k), results, 3, -2, threads)
    assert_same(results[0], reference.rotate(spec, q, offset=3))
    assert_same(results[1], reference.rotate(spec, k, offset=3))


def test_a_nan_stays_where_it_is() -> None:
    spec = posenc.RoPE(64, pairing="half")
    for dtype in DTYPES:
        x = np.ones((4, 64), DTYPES[dtype])
        x[1, 3], x[2, 40] = np.nan, np.inf
        if dtype != "float32":  # a NaN with every bit set
            x.view(np.uint16)[3, 5] = 0xFFFF
        rotation(spec).turn((x,), (x,))
        bad = np.argwhere(~np.isfinite(x.astype(np.float32)))
        also = [[3, 5], [3, 37]] if dtype != "float32" else []
        assert bad.tolist() == [[1, 3], [1, 35], [2, 8], [2, 40], *also]
        assert np.isnan(x[1, 3].astype(np.float32))


# --- any memory -----------------------------------------------------------------------------------


@st.composite
def views(draw: Any, width: int) -> tuple[np.ndarray, np.ndarray]:
    """An array of rank 2 to 5 with any strides, and the base it lies in."""
    dtype = DTYPES[draw(st.sampled_from(list(DTYPES)))]
    lead = draw(st.lists(st.integers(0, 4), min_size=1, max_size=4))
    channels = width + draw(st.integers(0, 3))
    shape = (*lead, channels)
    order = draw(st.permutations(range(len(shape))))
    every = [draw(st.sampled_from([1, 1, 2, 3, -1, -2])) for _ in shape]
    sizes = [n * abs(step) for n, step in zip(shape, every, strict=True)]
    total = int(np.prod(sizes)) * np.dtype(dtype).itemsize
    odd = draw(st.integers(0, 3))  # bytes before the first element
    base = np.frombuffer(bytearray(total + odd), np.uint8)
    packed = base[odd:].view(dtype).reshape([sizes[axis] for axis in order])
    array = packed.transpose(np.argsort(order))
    array = array[tuple(slice(None, None, step) for step in every)]
    array[...] = np.random.default_rng(0).standard_normal(array.shape)
    return array, base


@pytest.mark.costly
@given(st.data())
def test_any_strides(data: st.DataObject) -> None:
    pairing = data.draw(st.sampled_from(["half", "interleaved", "to half", "trailing"]))
    spec = posenc.RoPE(8, pairing=PAIRINGS[pairing])
    x, base = data.draw(views(8))
    seq_dim = data.draw(st.integers(-x.ndim, -2))
    before = base.copy()
    want = reference.rotate(spec, x, offset=9, seq_dim=seq_dim)
    result, _ = data.draw(st.just((np.empty_like(x), None)))
    rotation(spec).turn((x,), (result,), 9, seq_dim)
    assert_same(result, want)
    assert np.array_equal(base, before)  # out of place, nothing else is written
    rotation(spec).turn((x,), (x,), 9, seq_dim)
    assert_same(x, want)
    x[...] = before_values(before, base, x)
    assert np.array_equal(base, before)  # nor beside the elements of a view


def before_values(before: np.ndarray, base: np.ndarray, x: np.ndarray) -> np.ndarray:
    """What stood in a view of `base` when its bytes were `before`."""
    start = x.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    if not x.size:
        return x
    return np.ndarray(x.shape, x.dtype, before, start, x.strides)


@pytest.mark.costly
@given(st.data())
def test_overlapping_memory_is_refused_and_no_other(data: st.DataObject) -> None:
    memory = np.arange(120, dtype=np.float32)
    rows = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=2))
    shape = (*rows, 2)

    def view() -> np.ndarray | None:
        strides = [data.draw(st.integers(-12, 12)) for _ in shape]
        low = sum(min(0, s * (n - 1)) for s, n in zip(strides, shape, strict=True))
        high = sum(max(0, s * (n - 1)) for s, n in zip(strides, shape, strict=True))
        start = data.draw(st.integers(-low, 119 - high)) if high - low < 120 else None
        if start is None:
            return None
        return np.ndarray(shape, np.float32, memory, 4 * start, [4 * s for s in strides])

    x, y = view(), view()
    assume(x is not None and y is not None)
    places = np.unique(np.asarray(y))  # entries of `memory` are their numbers
    distinct = len(places) == np.asarray(y).size
    shared = np.isin(np.asarray(x), places).any()
    same = (np.asarray(x) == np.asarray(y)).all()
    turn = native.Rotation(native.Phases(np.zeros((1, 1), np.int64))).turn
    if not distinct or (shared and not same):
        with pytest.raises(ValueError, match="expected"):
            turn((x,), (y,))
    else:
        want = np.asarray(x).copy()
        turn((x,), (y,))
        assert np.array_equal(y, want)


def test_parts_of_a_fused_projection() -> None:
    spec = posenc.RoPE(16, pairing="half")
    fused = numbers((2, 10, 3, 4, 16))  # batch, tokens, (q, k, v), heads, channels
    before = fused.copy()
    q, k = fused[:, :, 0], fused[:, :, 1]
    rotation(spec).turn((q, k), (q, k), 0, -3)
    for part in (0, 1):
        assert_same(fused[:, :, part], reference.rotate(spec, before[:, :, part], seq_dim=-3))
    assert_same(fused[:, :, 2], before[:, :, 2])


# --- refusals -------------------------------------------------------------------------------------


def read_only(x: np.ndarray) -> np.ndarray:
    x.flags.writeable = False
    return x


TURN = native.Rotation(native.Phases(np.ones((1, 4), np.int64))).turn
X = numbers((2, 5, 8))
REFUSED = {
    "read-only result": (BufferError, lambda: TURN((X,), (read_only(X.copy()),))),
    "read-only in place": (BufferError, lambda: TURN(*[(read_only(X.copy()),)] * 2)),
    "expanded result": (
        ValueError,
        lambda: TURN((X,), (np.ndarray(X.shape, "f4", X[0].copy(), 0, (0, 32, 4)),)),
    ),
    "other shape": (ValueError, lambda: TURN((X,), (X[:1].copy(),))),
    "other dtype": (TypeError, lambda: TURN((X,), (X.astype("f2"),))),
    "two dtypes": (TypeError, lambda: TURN((X, X.astype("f2")), (X.copy(), X.astype("f2")))),
    "float64": (TypeError, lambda: TURN((X.astype("f8"),), (X.astype("f8"),))),
    "integers": (TypeError, lambda: TURN((X.astype("i4"),), (X.astype("i4"),))),
    "swapped bytes": (TypeError, lambda: TURN((X.astype(">f4"),), (X.astype(">f4"),))),
    "a list": (TypeError, lambda: TURN(([1.0],), ([1.0],))),
    "too narrow": (ValueError, lambda: TURN((X[..., :6],), (X[..., :6],))),
    "one axis": (ValueError, lambda: TURN((X[0, 0],), (X[0, 0],))),
    "nothing": (ValueError, lambda: TURN((), ())),
    "a result too few": (ValueError, lambda: TURN((X, X.copy()), (X,))),
    "one result twice": (ValueError, lambda: TURN((X, X), (X, X))),
    "positions too few": (ValueError, lambda: TURN((X,), (X,), np.arange(4))),
    "positions of a batch": (ValueError, lambda: TURN((X,), (X,), np.zeros((3, 5), int))),
    "real positions": (TypeError, lambda: TURN((X,), (X,), np.zeros(5))),
    "axes": (ValueError, lambda: TURN((X,), (X,), np.zeros((2, 5, 2), int))),
    "seq_dim -1": (ValueError, lambda: TURN((X,), (X,), 0, -1)),
    "seq_dim -4": (ValueError, lambda: TURN((X,), (X,), 0, -4)),
    "a position too large": (ValueError, lambda: TURN((X,), (X,), 2**63)),
    "two lengths": (ValueError, lambda: TURN((X, X[:, :4]), (X, X[:, :4]))),
    "axes beyond eight": (ValueError, lambda: TURN(*[(X.reshape(1, 1, 1, 1, 1, 1, 2, 5, 8),)] * 2)),
    "steps of rank 1": (ValueError, lambda: native.Phases(np.ones(4, int))),
    "real steps": (TypeError, lambda: native.Phases(np.ones((1, 4), "f4"))),
    "origin": (ValueError, lambda: native.Phases(np.ones((1, 4), int), np.ones(3, int))),
    "a word": (ValueError, lambda: native.Rotation(native.Phases(np.ones((1, 4), int)), "whole")),
    "blocks": (
        ValueError,
        lambda: native.Rotation(native.Phases(np.ones((1, 4), int)), blocks=[3]),
    ),
    "sign": (ValueError, lambda: native.Rotation(native.Phases(np.ones((1, 4), int)), sign=0)),
    "width": (
        ValueError,
        lambda: native.Sinusoids(native.Phases(np.ones((1, 4), int)), 8).table(X[..., :7]),
    ),
    "one for cos and sin": (
        ValueError,
        lambda: native.Phases(np.ones((1, 8), int)).cos_sin(0, X, X),
    ),
    "ends on one side": (
        ValueError,
        lambda: native.check_near(np.arange(1), np.arange(5), np.empty((1, 1, 5), int), (1, 4)),
    ),
    "rows of fewer keys": (
        ValueError,
        lambda: native.check_near(np.arange(1), np.arange(5), np.empty((1, 1, 4), int)),
    ),
    "rows of float32": (
        TypeError,
        lambda: native.check_near(np.arange(8), np.arange(8), np.empty((1, 8, 8), "f4")),
    ),
    "rows in one place": (
        ValueError,
        lambda: native.check_near(
            np.arange(1), np.arange(5), np.ndarray((1, 1, 5), int, np.arange(1), 0, (8, 8, 0))
        ),
    ),
    "an instruction set": (ValueError, lambda: native.use_instruction_set("abacus")),
}


@pytest.mark.parametrize(("kind", "call"), REFUSED.values(), ids=REFUSED)
def test_refused(kind: type[Exception], call: Any) -> None:
    before = X.copy()
    with pytest.raises(kind, match="expected"):
        call()
    assert_same(X, before)


# --- tables ---------------------------------------------------------------------------------------

ORDERS = ("interleaved", "sin_cos", "cos_sin")
WIDTHS = {"even": 32, "odd": 33, "narrow": 1}


def sinusoids(spec: posenc.Sinusoidal) -> Any:
    return native.Sinusoids(
        phases(spec),
        spec.dim,
        order=spec.order,
        blocks=spec.arrangement.blocks(spec.pairs),
        lone_sine=spec.odd == "sin_extra",
        factor=spec.magnitude.table(spec.dim),
        pad=None if spec.arrangement.pad is None else spec.arrangement.pad - spec.arrangement.start,
    )


def table_specs() -> Iterator[posenc.Sinusoidal]:
    for order, dim in itertools.product(ORDERS, WIDTHS.values()):
        yield posenc.Sinusoidal(dim, order=order)
    for order in ORDERS:
        yield posenc.Sinusoidal(33, order=order, odd="zero_pad")
        yield posenc.Sinusoidal(33, order=order, odd="cut")
        yield posenc.Sinusoidal(32, order=order, magnitude=posenc.Magnitude(table_scale=0.3))
        padded = posenc.Arrangement(start=2, pad=1)
        yield posenc.Sinusoidal(32, order=order, arrangement=padded)
        yield posenc.Sinusoidal(
            40, order=order, arrangement=posenc.Arrangement(rule="axial", axes=("y", "x"))
        )


@pytest.mark.parametrize("spec", [*table_specs()], ids=posenc.to_json)
def test_table(spec: posenc.Sinusoidal) -> None:
    positions = EXTREME if len(spec.axes) == 1 else np.stack([EXTREME, EXTREME[::-1]], axis=-1)
    for dtype in DTYPES:
        want = reference.table(spec, positions).astype(DTYPES[dtype])
        got = np.full_like(want, 9)
        sinusoids(spec).table(got, positions)
        assert_same(got, want)
        wide = np.full((*want.shape[:-1], 2 * spec.dim), 9, want.dtype)
        sinusoids(spec).table(wide[..., ::2], positions)
        assert_same(wide[..., ::2], want)
        assert (wide[..., 1::2] == 9).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("spec", [*table_specs()], ids=posenc.to_json)
def test_add(spec: posenc.Sinusoidal, dtype: str) -> None:
    scale = 5.5
    spec = spec.replace(magnitude=posenc.Magnitude(embedding_scale=scale))
    positions: Any = RNG.integers(0, LARGEST, (3, 20, len(spec.axes)))
    positions = positions if len(spec.axes) > 1 else positions[..., 0]
    x = numbers((3, 20, spec.dim), dtype)
    want = reference.add(spec, x, positions=positions)
    got = np.empty_like(x)
    sinusoids(spec).add(x, got, positions, scale=scale)
    assert_same(got, want)
    reversed_ = x.copy()[::-1, :, ::-1][::-1, :, ::-1]
    sinusoids(spec).add(reversed_, reversed_, positions, scale=scale)
    assert_same(reversed_, want)


def test_short_rows_whose_channels_are_apart_are_not_joined() -> None:
    spec, memory = posenc.Sinusoidal(6), numbers((90,))
    x = np.lib.stride_tricks.as_strided(memory, (10, 6), (24, 8))
    got = np.empty((10, 6), np.float32)
    sinusoids(spec).add(x, got, 3)
    assert_same(got, reference.add(spec, x, offset=3))


@given(st.data())
def test_add_any_strides(data: st.DataObject) -> None:
    x, base = data.draw(views(7))
    spec = posenc.Sinusoidal(x.shape[-1])
    before = base.copy()
    seq_dim = data.draw(st.integers(-x.ndim, -2))
    want = reference.add(spec, x, offset=3, seq_dim=seq_dim)
    sinusoids(spec).add(x, x, 3, seq_dim=seq_dim)
    assert_same(x, want)
    x[...] = before_values(before, base, x)
    assert np.array_equal(base, before)


# --- biases ---------------------------------------------------------------------------------------


KEYS = {
    "neighbours": np.arange(1500) - 700,
    "beyond both ends": np.arange(5000) - 1000,
    "far away": np.arange(100) + 2**40,
    "with gaps": np.arange(0, 4500, 3),
    "backward": np.arange(300)[::-1],
    "one": np.array([3]),
    "none": np.arange(0),
}
QUERIES = np.concatenate([np.arange(20), RNG.integers(0, 5000, 30)])


@pytest.mark.parametrize("form", ["symmetric", "causal", "key_only"])
@pytest.mark.parametrize("k", KEYS.values(), ids=KEYS)
def test_alibi(k: np.ndarray, form: str) -> None:
    spec = posenc.ALiBi(heads=12, form=form)
    exact = reference.bias(spec, QUERIES, k)
    for dtype in DTYPES:
        with np.errstate(over="ignore"):
            want = exact.astype(DTYPES[dtype])
            got = np.empty_like(want)
            native.alibi(got, QUERIES, k, spec.arrays["slopes"].astype(np.float32), form)
        assert np.array_equal(got, want), dtype  # zeros of either sign


@pytest.mark.parametrize("direction", ["bidirectional", "causal"])
@pytest.mark.parametrize("buckets", [32, 320])
@pytest.mark.parametrize("k", KEYS.values(), ids=KEYS)
def test_buckets(k: np.ndarray, buckets: int, direction: str) -> None:
    spec = posenc.T5(heads=6, buckets=buckets, max_distance=800, direction=direction)
    params = posenc.init(spec, 0)
    want = reference.bias(spec, QUERIES, k, params=params)
    got = np.empty_like(want)
    native.buckets(got, QUERIES, k, spec.arrays["thresholds"], params["weight"], direction)
    assert_same(got, want)
    wide = np.zeros((*want.shape[:2], 2 * len(k)), np.float32)
    native.buckets(
        wide[..., ::2], QUERIES, k, spec.arrays["thresholds"], params["weight"], direction
    )
    assert_same(wide[..., ::2], want)
    assert not wide[..., 1::2].any()


def test_rows_of_distances() -> None:
    q, k = np.array([5, -3, 2**40]), np.arange(-20, 30)
    memory = np.full((3, 1, 100), 9)
    rows = memory.transpose(1, 0, 2)[..., ::2]
    for backward, ends in itertools.product((False, True), ((-16, 16), (-4, 0), (0, 2**62))):
        native.check_near(q, k, rows, ends, backward)
        apart = k - q[:, None]
        assert np.array_equal(rows[0], np.clip(-apart if backward else apart, *ends) - ends[0])
        assert (memory[..., 1::2] == 9).all()


def test_buckets_without_a_weight_are_refused() -> None:
    thresholds = posenc.T5(heads=2).arrays["thresholds"]
    result, weight = np.empty((2, 3, 3), np.float32), np.zeros((30, 2), np.float32)
    with pytest.raises(ValueError, match="at most 14 rising ones"):
        native.buckets(result, np.arange(3), np.arange(3), thresholds, weight)
