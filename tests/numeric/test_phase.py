"""The numeric heart: bounds against mpmath on every library, and the integers behind them."""

from __future__ import annotations

import functools
import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from tools import fit_cos_sin

import posenc
from posenc import Ladder, Sinusoidal
from posenc._core.arrays.array import library
from posenc._core.arrays.words import Halves, halves
from posenc._core.numeric import phase
from posenc._core.numeric.ladder import pi
from tests.backends import BACKENDS, Backend, each_backend
from tests.oracles import exact
from tests.tolerances import ABSOLUTE, PER_POSITION, RELATIVE, assert_close

LARGEST = 2**31 - 1
BASES = (10.0, 100.0, 1e4, 5e5, 1e7)
WIDTHS = (2, 4, 6, 64, 128, 512, 5120)
int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)


def sample_positions(seed: int) -> list[int]:
    rng = np.random.default_rng(seed)
    random = rng.integers(-LARGEST, LARGEST, size=10, endpoint=True)
    return [0, 1, 2, 17, -1, LARGEST, -LARGEST, *map(int, random)]


def sample_pairs(pairs: int, seed: int) -> list[int]:
    rng = np.random.default_rng(seed)
    return sorted({0, 1 % pairs, pairs - 1, *map(int, rng.integers(0, pairs, size=12))})


# --- the bounds -----------------------------------------------------------------------------------


# What Inductor compiles, for seconds each: `encodings/test_inductor.py` asks for the bits of eager
# code.
COMPILED = Sinusoidal(64, base=1e7, order="sin_cos")
GRID_COMPILED = ((64, 1e7), (2, 1e7), (128, 1e4))


@functools.cache
def compiled(spec: Sinusoidal) -> Callable[[Any], Any]:
    import torch

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*torch.jit.*")  # torch's own import of Inductor
        run = torch.compile(
            lambda positions: posenc.table(spec, positions), fullgraph=True, dynamic=True
        )
        run(torch.arange(3))
    return run


def way_of(name: str) -> tuple[Backend, Callable[[Sinusoidal], Callable[[Any], Any]]]:
    """A library and a way to compute a table in it."""
    backend = next(b for b in BACKENDS if name.startswith(b.name))
    backend.xp()
    plain = lambda spec: lambda positions: posenc.table(spec, positions)  # noqa: E731
    if name.startswith("torch-"):
        return backend, compiled
    if name.startswith(("jax-jit", "jax-vmap")):
        import jax

        many = jax.vmap if "vmap" in name else lambda call: call
        return backend, lambda spec: jax.jit(many(plain(spec)))
    return backend, plain


def grid_of(way: str) -> list[tuple[int, float]]:
    """Widths and bases; fewer where each function, or each shape, is compiled."""
    every = list(itertools.product(WIDTHS, BASES))
    if way.startswith("torch-"):
        return list(GRID_COMPILED)
    if way.startswith("jax") and not way.endswith("more"):
        few = zip(WIDTHS, itertools.cycle(BASES), strict=False)
        return list(few) if "-" in way else [pair for pair in every if pair[0] in (2, 128)]
    return every


@pytest.mark.costly
@pytest.mark.parametrize(
    "way",
    [
        *("numpy", "strict", "torch", "jax", "jax-jit", "jax-vmap"),
        *(
            pytest.param(f"{way}-more", marks=pytest.mark.slow("_core/numeric"))
            for way in ("torch-compiled", "jax", "jax-jit", "jax-vmap")
        ),
    ],
)
def test_float32_bounds(way: str) -> None:
    backend, make = way_of(way)
    for width, base in grid_of(way):
        pairs, spec = width // 2, Sinusoidal(width, base=base, order="sin_cos")
        positions, columns = sample_positions(width), sample_pairs(width // 2, width)
        cos, sin = exact.cos_sin(positions, base, pairs, columns)
        table = backend.numpy(make(spec)(backend.asarray(positions)))
        truth = np.concatenate([sin, cos], axis=1).astype(np.float64)
        got = np.concatenate([table[:, columns], table[:, pairs:][:, columns]], axis=1)
        what = f"{way}: base {base}, width {width}"
        step_error = PER_POSITION * np.abs(np.array(positions, dtype=float))[:, None]
        assert_close(got, truth, ABSOLUTE["float32"], what)
        assert_close(got, truth, RELATIVE["float32"] * np.abs(truth) + step_error, what)


@pytest.mark.costly
@pytest.mark.parametrize("way", ["numpy", "strict", "torch"])
def test_float64_bounds(way: str) -> None:
    backend, _ = way_of(way)
    for width in WIDTHS:
        for base in BASES:
            pairs, spec = width // 2, Sinusoidal(width, base=base, order="sin_cos")
            positions, columns = sample_positions(width), sample_pairs(width // 2, width)
            cos, sin = exact.cos_sin(positions, base, pairs, columns)
            table = backend.numpy(
                posenc.table(spec, backend.asarray(positions), dtype="float64")
            ).astype(np.longdouble)
            bound = ABSOLUTE["float64"] + PER_POSITION * np.abs(np.array(positions, float))[:, None]
            for got, truth in ((table[:, :pairs], sin), (table[:, pairs:], cos)):
                error = np.abs(got[:, columns] - truth).astype(np.float64)
                assert_close(error, np.zeros_like(error), bound, f"{way}: {base}, {width}")


@each_backend
def test_positions_beyond_int32_are_computed_or_refused(backend: Backend) -> None:
    positions = [2**31, 2**31 + 5, -(2**40), 2**53]
    spec = Sinusoidal(64, order="sin_cos")
    if backend.name == "jax":
        with pytest.raises(posenc.PositionError, match="2147483647.*x64"):
            posenc.table(spec, np.array(positions), xp=backend.xp())
        return
    if backend.name == "mlx":
        with pytest.raises(posenc.DTypeError, match="MLX takes sines of float64 in float32"):
            posenc.table(spec, backend.asarray(positions), dtype="float64")
        return
    table = backend.numpy(posenc.table(spec, backend.asarray(positions), dtype="float64"))
    cos, sin = exact.cos_sin(positions, 1e4, 32, range(32))
    bound = ABSOLUTE["float64"] + PER_POSITION * np.abs(np.array(positions, dtype=float))[:, None]
    assert_close(table, np.concatenate([sin, cos], axis=1), bound, backend.name)


@each_backend
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8"])
def test_every_integer_dtype_gives_the_same_rows(backend: Backend, dtype: str) -> None:
    if backend.name == "jax" and dtype == "int64":
        pytest.skip("JAX has no int64 unless x64 is enabled")
    small = np.array([0, 1, 2, 17, 120])
    spec = Sinusoidal(32)
    expected = posenc.table(spec, small)
    given_dtype = backend.xp().asarray(small.astype(dtype))
    got = backend.numpy(posenc.table(spec, given_dtype))
    assert_close(got, expected, 2e-7 if backend.name == "jax" else 0, dtype)


@pytest.mark.parametrize("spec", [Sinusoidal(64), COMPILED], ids=["default", "compiled"])
def test_numpy_and_torch_give_the_same_bits(spec: Sinusoidal) -> None:
    backend, make = way_of("torch")
    positions = np.array(sample_positions(3) * 20) + np.arange(340)
    got = make(spec)(backend.asarray(positions)).numpy()
    np.testing.assert_array_equal(got, posenc.table(spec, positions))


# --- the integers ---------------------------------------------------------------------------------


def test_pi_is_right() -> None:
    from mpmath import mp

    with mp.workdps(60):
        assert str(pi())[:48] == mp.nstr(mp.pi, 55)[:48]


@given(int64s)
def test_halves_are_the_words_of_a_step(step: int) -> None:
    words = halves(np.array([step]))
    joined = (int(words.high[0]) << 32) + (int(words.low[0]) & 0xFFFFFFFF)
    assert joined == step


def joined(words: Halves) -> np.ndarray:
    return (words.high.astype(np.int64) << 32) + (words.low.astype(np.int64) & 0xFFFFFFFF)


@given(
    st.lists(st.tuples(int32s, int32s), min_size=1, max_size=5),
    st.lists(st.tuples(int64s, int64s), min_size=1, max_size=5),
    st.integers(1, 2),
    int64s,
)
def test_both_formulations_give_the_same_integers(
    positions: list[tuple[int, int]], steps: list[tuple[int, int]], axes: int, origin: int
) -> None:
    p = np.array(positions)[:, :axes]
    step = np.array(steps).T[:axes]
    start = np.full(step.shape[1], origin)
    wide = phase.turns(p, step, start)
    exactly = [
        [
            (sum(x * s for x, s in zip(row, column, strict=True)) + origin + 2**63) % 2**64 - 2**63
            for column in step.T.tolist()
        ]
        for row in p.tolist()
    ]
    np.testing.assert_array_equal(wide, np.array(exactly))
    narrow = phase.turns(p.astype(np.int32), halves(step), halves(start))
    np.testing.assert_array_equal(joined(narrow), wide)
    quadrant, residual = phase.quadrants(wide)
    narrow_quadrant, narrow_residual = phase.quadrants(narrow)
    np.testing.assert_array_equal(narrow_quadrant, quadrant)
    np.testing.assert_array_equal(joined(narrow_residual), residual)
    assert (np.abs(residual.astype(object)) <= 2**61).all()
    rebuilt = (quadrant.astype(object) * 2**62 + residual.astype(object) - wide) % 2**64
    assert (rebuilt == 0).all()


@given(st.lists(st.integers(-(2**61), 2**61 - 1), min_size=1, max_size=20))
def test_a_residual_is_rounded_once(residuals: list[int]) -> None:
    xp = library(np)
    values = np.array(residuals)
    u = phase.from_residual(values, xp.float32, xp)
    exactly = np.array([float(np.float32(r / 2**61)) for r in residuals], dtype=np.float32)
    assert_close(u, exactly, 2.0**-24 * np.abs(exactly))
    narrow = phase.from_residual(halves(values), xp.float32, xp)
    assert_close(narrow, exactly, 2.0**-23 * np.abs(exactly))


@pytest.mark.costly
def test_slow_pairs_keep_their_relative_accuracy_at_small_positions() -> None:
    spec = Sinusoidal(128, base=1e7, order="sin_cos")
    for backend in BACKENDS:
        sin = backend.numpy(posenc.table(spec, backend.asarray([1, 2])))[:, 63]
        _, truth = exact.cos_sin([1, 2], 1e7, 64, [63])
        assert_close(sin, truth[:, 0], 1.2e-7 * np.abs(truth[:, 0]).astype(float), backend.name)


def test_the_coefficients_come_from_the_script() -> None:
    sine, cosine = fit_cos_sin.fit()
    assert_close(np.array(phase.SIN), np.array(sine), 1e-12)
    assert_close(np.array(phase.COS), np.array(cosine), 1e-12)


def test_the_polynomial_on_a_fine_grid() -> None:
    u = np.linspace(-1, 1, 1_000_001).astype(np.float32)
    cos, sin = phase._polynomials(u)
    angle = np.pi / 4 * u.astype(np.float64)
    assert_close(cos, np.cos(angle), 9e-8)
    assert_close(sin, np.sin(angle), 9e-8)
    assert_close(sin, np.sin(angle), 1.3e-7 * np.abs(np.sin(angle)))


def test_wrapping_raises_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        posenc.table(Sinusoidal(8, arrangement=posenc.Arrangement(start=2**40)), [LARGEST])
        posenc.table(Sinusoidal(8), np.array(LARGEST))


# --- the classic arithmetic -----------------------------------------------------------------------


@each_backend
@pytest.mark.parametrize("expression", ["power", "exp"])
def test_classic_arithmetic_is_close_at_small_positions(backend: Backend, expression: str) -> None:
    for ladder in (Ladder(expression=expression), Ladder(denominator="n-1", expression=expression)):
        classic = Sinusoidal(32, ladder=ladder, phase="float32")
        got = backend.numpy(posenc.table(classic, backend.asarray([0, 1, 2, 17, 64])))
        expected = posenc.table(classic.replace(phase="exact"), [0, 1, 2, 17, 64])
        assert_close(got, expected, 1e-5, backend.name)


def test_classic_arithmetic_has_the_classic_error() -> None:
    spec = Sinusoidal(128, phase="float32")
    far = np.arange(2**20 - 512, 2**20)
    difference = np.abs(posenc.table(spec, far) - posenc.table(spec.replace(phase="exact"), far))
    assert 0.01 < difference.max() < 0.2


@pytest.mark.parametrize("scale", [1 / 64, 3.0, 30.0])
def test_a_factor_on_the_table_multiplies_its_bound(scale: float) -> None:
    """As docs/exact-phases.md states it, for a table and for a sum."""
    rng = np.random.default_rng(0)
    spec = posenc.Sinusoidal(64, magnitude=posenc.Magnitude(table_scale=scale))
    index = rng.integers(0, 2**31, 2000)
    exact = posenc.table(spec, index, dtype="float64")
    assert np.abs(posenc.table(spec, index) - exact).max() <= 1.6e-7 * scale
    x = rng.standard_normal((2000, 64), dtype=np.float32)
    expected = x.astype(np.float64) + exact
    error = np.abs(posenc.add(spec, x, positions=index) - expected)
    assert (error <= 1.6e-7 * scale + 1.2e-7 * np.maximum(1, np.abs(expected))).all()
