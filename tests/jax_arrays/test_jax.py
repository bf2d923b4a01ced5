# ruff: noqa: E402 - JAX may be absent, and is asked for first
"""The verbs under JAX's transformations, with 64-bit types off as JAX has it, and on.

A function that is compiled whole costs a tenth of one whose operations are compiled one by one, so
few tests run without `jit`, at one shape, and what is expected comes from NumPy.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="jax is not installed")

import jax.numpy as jnp

import posenc
from posenc import Arrangement, Ladder, Magnitude, Sinusoidal
from tests.oracles import table as oracle
from tests.tolerances import ABSOLUTE, assert_close

pytestmark = pytest.mark.skipif(
    jax.config.jax_enable_x64, reason="JAX_ENABLE_X64 is set; a test below sets it for itself"
)

WIDTH = 16
PLAIN = Sinusoidal(WIDTH)
RICH = Sinusoidal(
    WIDTH,
    order="sin_cos",
    ladder=Ladder(denominator="n-1"),
    arrangement=Arrangement(start=2, pad=1),
    magnitude=Magnitude(embedding_scale="sqrt_dim", table_scale=0.5),
)
SPECS = pytest.mark.parametrize("spec", [PLAIN, RICH], ids=["plain", "rich"])
FAR = np.array([0, 1, 2, 17, -5, 65_537, 2**24 + 1, 2**31 - 1, -(2**31) + 1, -(2**31)])
EXACT = np.array([oracle.vaswani(int(p), WIDTH) for p in FAR])
X = jnp.asarray(np.random.default_rng(0).normal(size=(2, 5, WIDTH)), jnp.float32)
POSITIONS = jnp.asarray([[0, 1, 2, -3, 2**31 - 1], [7, 65_537, 5, 0, -1]], jnp.int32)


def assert_same(got: Any, want: Any) -> None:
    """Raise unless dtype, shape and every bit agree."""
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(np.asarray(got), np.asarray(want))


def assert_near(got: Any, want: Any) -> None:
    """Raise unless both can be right: XLA contracts products and sums under jit; bits differ."""
    assert got.dtype == want.dtype
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    assert_close(got, want, 2 * ABSOLUTE["float32"] + 2.0**-23 * np.abs(want))


def added(spec: Sinusoidal, **how: Any) -> np.ndarray:
    """What NumPy gives."""
    how = {name: np.asarray(value) for name, value in how.items()}
    return posenc.add(spec, np.asarray(X), **how)


# --- numbers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["eager", "jit", "vmap", "jit(vmap)"])
@pytest.mark.costly
def test_far_positions_are_the_oracles(how: str) -> None:
    verb = partial(posenc.table, PLAIN)
    verb = {"eager": verb, "jit": jax.jit(verb), "vmap": jax.vmap(verb)}.get(
        how, jax.jit(jax.vmap(verb))
    )
    table = verb(jnp.asarray(FAR, jnp.int32))
    assert table.dtype == jnp.float32
    assert_close(np.asarray(table), EXACT, ABSOLUTE["float32"], how)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.costly
def test_every_dtype_is_the_float32_result_rounded_once(dtype: str) -> None:
    x = X.astype(dtype)
    verb = partial(posenc.add, PLAIN, positions=POSITIONS)
    whole = verb(x)
    assert_same(whole, verb(x.astype(jnp.float32)).astype(dtype))
    compiled = jax.jit(verb)(x)
    assert compiled.dtype == dtype
    ulp = float(jnp.finfo(dtype).eps) * np.abs(np.asarray(whole, np.float64))
    assert_close(np.asarray(compiled, np.float64), np.asarray(whole, np.float64), ulp + 3e-7)
    assert_same(
        posenc.table(PLAIN, POSITIONS, dtype=dtype), posenc.table(PLAIN, POSITIONS).astype(dtype)
    )


def test_classic_arithmetic_runs() -> None:
    spec = PLAIN.replace(phase="float32")
    table = jax.jit(partial(posenc.table, spec))(jnp.arange(64))
    exact = np.array([oracle.vaswani(p, WIDTH) for p in range(64)])
    assert_close(np.asarray(table), exact, 64 * 2.0**-24 * 4, "float32 phases")


# --- transformations ------------------------------------------------------------------------------


@SPECS
@pytest.mark.costly
def test_jit_with_the_spec_closed_over(spec: Sinusoidal) -> None:
    @jax.jit
    def model(x: Any, positions: Any) -> Any:
        return posenc.add(spec, x, positions=positions), posenc.table(spec, positions)

    whole, table = model(X, POSITIONS)
    assert_near(whole, added(spec, positions=POSITIONS))
    assert_near(table, posenc.table(spec, np.asarray(POSITIONS)))


@pytest.mark.costly
def test_jit_with_the_spec_as_a_static_argument() -> None:
    traced = []

    @partial(jax.jit, static_argnums=0)
    def model(spec: Sinusoidal, x: Any) -> Any:
        traced.append(spec)
        return posenc.add(spec, x)

    for spec in (PLAIN, Sinusoidal(WIDTH), RICH, posenc.from_json(posenc.to_json(RICH))):
        assert_near(model(spec, X), added(spec))  # type: ignore[arg-type]
    assert traced == [PLAIN, RICH]  # equal specs share one compilation


@pytest.mark.costly
def test_offsets_as_tracers() -> None:
    shifted = jax.jit(lambda x, o: posenc.add(PLAIN, x, offset=o))
    far = 2**31 - 6
    assert_near(shifted(X, far), added(PLAIN, offset=far))
    each = jnp.asarray([3, far])
    assert_near(shifted(X, each), added(PLAIN, offset=each))
    where = np.asarray(each)[:, None] + np.arange(5)
    assert_same(posenc.add(PLAIN, X, offset=each), posenc.add(PLAIN, X, positions=where))


@SPECS
@pytest.mark.costly
def test_vmap(spec: Sinusoidal) -> None:
    @jax.jit
    def model(positions: Any, each: Any) -> Any:
        return (
            jax.vmap(lambda x, p: posenc.add(spec, x, positions=p))(X, positions),
            jax.vmap(lambda x: posenc.add(spec, x, offset=9))(X),
            jax.vmap(lambda x, o: posenc.add(spec, x, offset=o))(X, each),
        )

    each = jnp.asarray([3, 70_000])
    both, shared, rows = model(POSITIONS, each)
    assert_near(both, added(spec, positions=POSITIONS))
    assert_near(shared, added(spec, offset=9))
    assert_near(rows, added(spec, offset=each))


@SPECS
@pytest.mark.parametrize("remember", ["all", "nothing"])
@pytest.mark.costly
def test_grad(spec: Sinusoidal, remember: str) -> None:
    verb = partial(posenc.add, spec)
    verb = jax.checkpoint(verb) if remember == "nothing" else verb
    slope = jax.grad(lambda x: (verb(x) ** 2).sum() / 2)
    for run in (jax.jit(slope), jax.jit(jax.vmap(slope))):
        assert_near(run(X), added(spec) * np.float32(spec.embedding_scale))


@pytest.mark.costly
def test_scan_over_tokens() -> None:
    def step(position: Any, x: Any) -> Any:
        return position + 1, posenc.add(PLAIN, x[None], offset=position)[0]

    _, rows = jax.lax.scan(step, jnp.asarray(100), X[0])
    assert_near(rows, added(PLAIN, offset=100)[0])


@pytest.mark.costly
def test_builders_of_positions_under_jit() -> None:
    mask = jnp.asarray([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    left = jax.jit(lambda m: posenc.positions.from_mask(m, pad=-1))(mask)
    np.testing.assert_array_equal(left, [[-1, -1, 0, 1, 2], [0, 1, 2, 3, 4]])
    lengths = jnp.asarray([0, 2, 2, 5])
    inside = jax.jit(lambda c: posenc.positions.packed(c, total=6))(lengths)
    np.testing.assert_array_equal(inside, [0, 1, 0, 1, 2, 0])
    with pytest.raises(posenc.ArgumentError, match="total"):
        jax.jit(posenc.positions.packed)(lengths)


# --- what does not fit 32 bits --------------------------------------------------------------------


@pytest.mark.parametrize("far", [2**31, -(2**31) - 1, 2**40, 2**63 - 1, 2**63, 2**70])
def test_positions_beyond_32_bits_are_refused(far: int) -> None:
    near = [0, 1, 2, 3]
    given: list[Any] = [[*near, far]]
    if abs(far) < 2**63:
        given.append(np.array([*near, far]))
    for positions in given:
        with pytest.raises(posenc.PositionError, match="jax_enable_x64"):
            posenc.add(PLAIN, X, positions=positions)
        with pytest.raises(posenc.PositionError, match="jax_enable_x64"):
            jax.jit(lambda x, p=positions: posenc.add(PLAIN, x, positions=p))(X)
        with pytest.raises(posenc.PositionError, match="jax_enable_x64"):
            posenc.table(PLAIN, positions, xp=jax)
    with pytest.raises(posenc.PositionError):
        posenc.add(PLAIN, X, offset=far)
    with pytest.raises(posenc.PositionError):
        posenc.add(PLAIN, X, offset=[0, far])


@pytest.mark.costly
def test_offsets_that_leave_no_room_are_refused() -> None:
    last = jax.eval_shape(partial(posenc.add, PLAIN, offset=2**31 - 5), X)
    assert last.shape == X.shape
    for offset in (
        2**31 - 4,
        [0, 2**31 - 4],
        np.array([0, 2**31 - 4]),
        jnp.asarray([2**31 - 4, 0]),
    ):
        with pytest.raises(posenc.PositionError):
            posenc.add(PLAIN, X, offset=offset)


@pytest.mark.parametrize("dtype", ["int64", "int32", "int16", "uint64", "uint32", "uint8"])
@pytest.mark.costly
def test_numpy_positions_that_fit_are_taken(dtype: str) -> None:
    positions = np.array([0, 1, 2, 100, 127], dtype=dtype)
    want = posenc.add(PLAIN, X, positions=jnp.asarray(positions.astype(np.int32)))
    assert_same(posenc.add(PLAIN, X, positions=positions), want)
    assert_near(jax.jit(lambda x: posenc.add(PLAIN, x, positions=positions))(X), want)


@pytest.mark.parametrize("dtype", ["int32", "int16", "int8", "uint16", "uint8"])
def test_tracers_of_small_integers_are_taken(dtype: str) -> None:
    positions = jnp.asarray([0, 1, 2, 100, 127], dtype)
    want = posenc.add(PLAIN, X, positions=positions.astype(jnp.int32))
    assert_near(jax.jit(lambda x, p: posenc.add(PLAIN, x, positions=p))(X, positions), want)


@pytest.mark.parametrize("dtype", ["uint32", "float32", "bfloat16", "float16", "bool"])
def test_other_tracers_are_refused(dtype: str) -> None:
    positions = jnp.asarray([0, 1, 1, 1, 1], dtype)
    with pytest.raises(posenc.DTypeError, match="positions"):
        posenc.add(PLAIN, X, positions=positions)
    with pytest.raises(posenc.DTypeError, match="positions"):
        jax.jit(lambda x, p: posenc.add(PLAIN, x, positions=p))(X, positions)


def test_float64_is_refused() -> None:
    with pytest.raises(posenc.DTypeError, match="jax_enable_x64"):
        posenc.table(PLAIN, jnp.arange(3), dtype="float64")


# --- 64 bits --------------------------------------------------------------------------------------

X64 = """
import warnings
warnings.simplefilter("error")
import jax, jax.numpy as jnp, numpy as np, posenc
from functools import partial
from tests.oracles import table as oracle
from tests.tolerances import ABSOLUTE, PER_POSITION, assert_close

assert jax.config.jax_enable_x64
spec = posenc.Sinusoidal(16)
far = np.array([0, 1, 2, -5, 2**31 - 1, 2**31, -2**31 - 1, 2**40 + 1, 2**53, -2**62, 2**63 - 1])
exact = np.array([oracle.vaswani(int(p), 16) for p in far])
size = np.abs(far.astype(np.float64))[:, None]
for dtype in ("float64", "float32"):
    verb = partial(posenc.table, spec, dtype=dtype)
    ways = jax.jit(verb), jax.jit(jax.vmap(verb)), *([verb] if dtype == "float64" else [])
    for how in ways:
        table = how(jnp.asarray(far))
        assert table.dtype == dtype
        assert_close(np.asarray(table), exact, ABSOLUTE[dtype] + PER_POSITION * size, dtype)
x = jnp.zeros((1, 3, 16))
assert x.dtype == "float64"
there = np.array([oracle.vaswani(2**40 + i, 16) for i in range(3)])[None]
for offset in (2**40, jnp.asarray(2**40), [2**40], np.array([2**40])):
    y = jax.jit(partial(posenc.add, spec, offset=offset))(x)
    assert y.dtype == "float64"
    assert_close(np.asarray(y), there, ABSOLUTE["float64"] + PER_POSITION * 2**40)
unsigned = jnp.asarray([2**32 - 1], "uint32")
assert_close(
    np.asarray(jax.jit(partial(posenc.table, spec))(unsigned)),
    np.array([oracle.vaswani(2**32 - 1, 16)]), ABSOLUTE["float32"] + PER_POSITION * 2**32)
for refused in (jnp.asarray([1], "uint64"), jnp.asarray([1.0])):
    try:
        posenc.table(spec, refused)
    except posenc.DTypeError:
        continue
    raise AssertionError(f"{refused.dtype} positions were taken")
"""


@pytest.mark.costly
def test_with_64_bits() -> None:
    root = Path(__file__).resolve().parents[2]
    path = os.pathsep.join([str(root), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", X64],
        env={**os.environ, "JAX_ENABLE_X64": "1", "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.costly
def test_an_offset_of_no_tokens_is_held_to_the_same_range() -> None:
    nothing = jnp.zeros((0, WIDTH))
    last = jax.eval_shape(partial(posenc.add, PLAIN, offset=2**31 - 1), nothing)
    assert last.shape == (0, WIDTH)
    with pytest.raises(posenc.PositionError, match="an offset from"):
        posenc.add(PLAIN, nothing, offset=2**31)
