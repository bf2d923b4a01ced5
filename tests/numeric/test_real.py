"""Phases of real positions: their error, their derivatives, and what is refused."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from mpmath import mp, mpf

import posenc
from posenc import Arrangement, Fourier, FrequencyMatrix, Ladder, Sinusoidal, Timestep
from posenc._core.numeric.real import turns as real_turns
from tests.backends import Backend, each_backend
from tests.drawing import each_compiler
from tests.tolerances import ABSOLUTE, PER_POSITION, assert_close

# What torch says while it imports its own transforms and compiler.
pytestmark = pytest.mark.filterwarnings("ignore:`?torch.jit:DeprecationWarning")

FREQUENCIES = (1.0, 3.7, -0.3, 1e-7, math.pi, math.pi * 2**9, 6283.25, 123_456.75, 2.0**39 + 0.5)
PLAIN = Fourier(2 * len(FREQUENCIES), ladder=Ladder(spacing="explicit", frequencies=FREQUENCIES))
DIFFICULT = [0.0, -0.0, 0.5, -0.5, 1.5, -1.5, 2.5, np.nextafter(0.5, 0), 1e-30, -1e-9, 8191.5]


def exact(positions: Any, frequencies: Any = FREQUENCIES) -> np.ndarray:
    """sin, then cos, of position times frequency, as float64."""
    with mp.workdps(60):
        angles = [[mpf(float(x)) * mpf(f) for f in frequencies] for x in positions]
        return np.array(
            [[float(mp.sin(a)) for a in row] + [float(mp.cos(a)) for a in row] for row in angles]
        )


def swept(dtype: Any) -> np.ndarray:
    """Positions of every size, fractions of every kind."""
    rng = np.random.default_rng(0)
    sizes = 10.0 ** rng.integers(-9, 9, 300)
    return np.concatenate([rng.normal(size=300) * sizes, DIFFICULT]).astype(dtype)


@functools.cache
def table_of(backend: Backend, spec: Any, dtype: str) -> Callable[[Any], Any]:
    """A table as a function of positions, compiled where each operation would be by itself."""
    table = functools.partial(posenc.table, spec, dtype=dtype)
    if backend.name != "jax":
        return table
    import jax

    return jax.jit(table)


@each_backend
@pytest.mark.parametrize("given_dtype", ["float32", "float64"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_error_does_not_grow_with_the_frequency(
    backend: Backend, given_dtype: str, dtype: str
) -> None:
    if "float64" in {given_dtype, dtype} - {*backend.dtypes}:
        pytest.skip(f"{backend.name} has no float64 by default")
    x = swept(given_dtype)
    x = x[np.abs(x) < 2**31] if backend.name == "jax" else x
    table = table_of(backend, PLAIN, dtype)(backend.asarray(x))
    assert backend.dtype_of(table) == dtype
    resolved = 2e-19 * max(map(abs, FREQUENCIES))  # 2**-64 of a position
    bound = ABSOLUTE[dtype] + PER_POSITION * np.abs(x.astype(np.float64))[:, None] + resolved
    assert_close(backend.numpy(table), exact(x), bound, backend.name)


def test_the_bound_that_the_documentation_states() -> None:
    """6e-8 (1 + |frequency fraction|) is what a product of floats would give; ours is below it."""
    x = swept(np.float32)
    error = np.abs(posenc.table(PLAIN, x).astype(np.float64) - exact(x))
    assert error.max() < 1.5e-7
    classic = np.abs(posenc.table(PLAIN.replace(phase="float32"), x).astype(np.float64) - exact(x))
    assert classic.max() > 0.1  # the same positions in float32 arithmetic


@each_backend
def test_words_are_those_of_64_bit_integers(backend: Backend) -> None:
    """The 32-bit form gives the integers of the 64-bit form, to the last units of 2**-64 turn."""
    from array_api_compat import array_namespace

    x = swept(np.float32)
    x = x[np.abs(x) < 2**31 - 200][:, None]
    arrays = PLAIN.arrays
    import array_api_compat.numpy as xp

    want = real_turns(x, arrays["step"], arrays["whole"], xp=xp)
    there = backend.asarray(x)
    from posenc._core.arrays.array import constants
    from posenc._core.calls import numpy_rules

    there_xp = array_namespace(there)
    made = constants(PLAIN, there, xp=there_xp)
    got = numpy_rules(real_turns)(there, made["step"], made["whole"], xp=there_xp)
    if backend.name == "jax":
        high, low = (np.asarray(word).astype(np.int64) for word in got)
        got64 = (high << 32) + (low & 0xFFFFFFFF)
    else:
        got64 = backend.numpy(got)
    assert np.abs(got64 - want).max() <= 4


def test_the_form_without_overflow_gives_the_same_integers() -> None:
    import array_api_compat.numpy as xp

    from posenc._core.arrays.words import words

    x = np.concatenate([swept(np.float64), [2.0**40 + 0.25, -(2.0**52) + 1, 2.0**62]])[:, None]
    step, whole = PLAIN.arrays["step"], PLAIN.arrays["whole"]
    origin = np.full(step.shape[1], -(2**63) + 17, dtype=np.int64)
    want = real_turns(x, step, whole, origin, xp=xp)
    got = real_turns(x, words(step), words(whole), words(origin), xp=xp)
    assert np.abs(got - want).max() <= 4
    both = np.concatenate([x, x[::-1]], axis=1)
    steps, wholes = (np.concatenate([a, a[:, ::-1]]) for a in (step, whole))
    want = real_turns(both, steps, wholes, xp=xp)
    got = real_turns(both, words(steps), words(wholes), xp=xp)
    assert np.abs(got - want).max() <= 8


@given(
    st.lists(st.integers(-(2**31) + 1, 2**31 - 1), min_size=1, max_size=8),
    st.floats(1e-6, 1e6),
)
def test_whole_numbers_are_whole_in_either_dtype(where: list[int], frequency: float) -> None:
    spec = Fourier(2, ladder=Ladder(spacing="explicit", frequencies=(frequency,)))
    as_floats = posenc.table(spec, np.array(where, dtype=np.float64))
    np.testing.assert_array_equal(as_floats, posenc.table(spec, where))


@each_backend
@given(x=st.floats(-1000, 1000, width=32), k=st.integers(-1000, 1000))
def test_moving_by_whole_positions_turns_the_pairs(backend: Backend, x: float, k: int) -> None:
    spec = Fourier(16, ladder=Ladder(), order="sin_cos")
    table = table_of(backend, spec, "float32")
    moved = float(np.float32(x + k)) - k  # what float32 makes of the sum
    near, far = (
        backend.numpy(table(backend.asarray(np.array([v], dtype=np.float32)))) for v in (x, x + k)
    )
    f = posenc.frequencies(spec)
    sin, cos = near[0, :8], near[0, 8:]
    turn = k * f + (moved - x) * f
    want = np.concatenate(
        [sin * np.cos(turn) + cos * np.sin(turn), cos * np.cos(turn) - sin * np.sin(turn)]
    )
    assert_close(far[0], want, 1e-6, backend.name)


@given(st.floats(-100, 100), st.floats(-100, 100), st.integers(1, 6))
def test_a_matrix_of_one_entry_per_pair_is_a_ladder_per_axis(x: float, y: float, n: int) -> None:
    f = [0.5 * 1.7**j for j in range(n)]
    axial = Fourier(
        4 * n,
        ladder=Ladder(spacing="explicit", frequencies=tuple(f)),
        arrangement=Arrangement(rule="axial", axes=("x", "y")),
    )
    rows = (tuple(f) + (0.0,) * n, (0.0,) * n + tuple(f))
    dense = Fourier(
        4 * n,
        ladder=FrequencyMatrix(rows),
        arrangement=Arrangement(rule="mixed", axes=("x", "y")),
    )
    np.testing.assert_array_equal(posenc.table(axial, [[x, y]]), posenc.table(dense, [[x, y]]))
    np.testing.assert_array_equal(posenc.table(axial, [[3, -4]]), posenc.table(dense, [[3, -4]]))


def test_numbers_of_a_seed_are_what_they_were() -> None:
    drawn = np.array(posenc.Gaussian(sigma=2.0, seed=42).matrix(2, 3), dtype=object)
    turns = drawn.astype(np.float64) / (2 * math.pi)
    want = [[1.8322409, -1.7613592, 2.2308033], [-0.5347955, -0.6736286, -0.3301308]]
    np.testing.assert_allclose(turns, want, rtol=1e-6)


def test_normal_numbers_are_normal() -> None:
    drawn = np.array(posenc.Gaussian(sigma=3.0, seed=1).matrix(4, 5000), dtype=object)
    turns = drawn.astype(np.float64).ravel() / (2 * math.pi)
    assert abs(turns.mean()) < 0.1
    assert abs(turns.std() - 3) < 0.05
    assert (
        np.array(posenc.Gaussian(seed=2).matrix(1, 9)) != posenc.Gaussian(seed=3).matrix(1, 9)
    ).all()


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", [PLAIN, Timestep(8)], ids=["Fourier", "Timestep"])
@pytest.mark.parametrize(
    ("positions", "error", "match"),
    [
        (np.ones(3, dtype=np.float16), posenc.DTypeError, "float16"),
        (np.array([1j]), posenc.DTypeError, "complex128"),
        ([True], posenc.DTypeError, "bool"),
        (["a"], posenc.DTypeError, "str"),
        ([math.nan], posenc.PositionError, "nan"),
        ([math.inf], posenc.PositionError, "inf"),
        ([1e300], posenc.PositionError, r"1e\+300"),
        ([[1.0], [1.0, 2.0]], posenc.ArgumentError, "an array of numbers"),
        ([2**70], posenc.PositionError, "positions from"),
    ],
)
def test_positions_refused(spec: Any, positions: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        posenc.table(spec, positions)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("library", ["torch", "jax.numpy"])
def test_half_precision_positions_are_refused(library: str, dtype: str) -> None:
    xp = pytest.importorskip(library, reason=f"{library} is not installed")
    positions = xp.ones(3, dtype=getattr(xp, dtype))
    for call in (
        lambda: posenc.table(Timestep(8), positions),
        lambda: posenc.add(Timestep(8), xp.zeros((1, 3, 8)), positions=positions),
    ):
        with pytest.raises(posenc.DTypeError, match=dtype):
            call()


def test_plain_tables_still_refuse_floats() -> None:
    for phase in ("exact", "float32"):
        with pytest.raises(posenc.DTypeError, match="integer positions"):
            posenc.table(Sinusoidal(8, phase=phase), [0.5])  # type: ignore[arg-type]


@pytest.mark.usefixtures("nan_results")
@each_backend
def test_under_tracing_what_cannot_be_is_nan(backend: Backend) -> None:
    """Where values cannot be looked at, a row of NaN says what an error says elsewhere."""
    x = np.array([0.25, np.nan, np.inf, 1e30], dtype=np.float32)
    if backend.name == "jax":
        import jax

        rows = jax.jit(lambda v: posenc.table(PLAIN, v))(backend.asarray(x))
    elif backend.name == "torch":
        import torch

        rows = torch.func.vmap(lambda v: posenc.table(PLAIN, v[None])[0])(backend.asarray(x))
    else:
        pytest.skip("no tracing here")
    table = backend.numpy(rows)
    assert not np.isnan(table[0]).any()
    assert np.isnan(table[1:]).all()


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"dim": 7}, "two channels for each pair"),
        ({"dim": 8, "raw": "first"}, "1 for the coordinates"),
        ({"dim": 8, "base": -1.0}, "positive"),
        ({"dim": 8, "base": (10.0, 20.0)}, "one entry for each"),
        ({"dim": 8, "ladder": (Ladder(), Ladder())}, "one entry for each"),
        ({"dim": 8, "ladder": posenc.Gaussian()}, "rule='mixed'"),
        ({"dim": 8, "arrangement": Arrangement(rule="mixed", axes=("x",))}, "rule='mixed'"),
        ({"dim": 8, "arrangement": Arrangement(start=1)}, "start 0"),
        (
            {"dim": 8, "blocks": "band", "arrangement": Arrangement(rule="axial", axes=("x", "y"))},
            "axial_cyclic",
        ),
        (
            {
                "dim": 8,
                "ladder": FrequencyMatrix(((1.0, 2.0),)),
                "arrangement": Arrangement(rule="mixed", axes=("x",)),
            },
            "1 rows of 4 numbers",
        ),
    ],
)
def test_specs_refused(fields: dict[str, Any], match: str) -> None:
    with pytest.raises(posenc.SpecError, match=match):
        Fourier(**fields)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: FrequencyMatrix(((1.0,), (1.0, 2.0))), "one length"),
        (lambda: FrequencyMatrix(()), "one length"),
        (lambda: posenc.Gaussian(sigma=0.0), "positive"),
        (lambda: posenc.Gaussian(seed=-1), "from 0"),
        (lambda: Timestep(1), "at least 2"),
        (lambda: Timestep(8, base=0.0), "positive"),
        (lambda: Fourier(2, ladder=Ladder(spacing="octave", first=2.0**41)), "2\\*\\*40"),
    ],
)
def test_values_refused(make: Any, match: str) -> None:
    with pytest.raises(posenc.SpecError, match=match):
        make()


# --- derivatives ----------------------------------------------------------------------------------

SMOOTH = Fourier(8, ladder=Ladder(spacing="octave"))
MIXED = Fourier(
    8, ladder=posenc.Gaussian(seed=3), arrangement=Arrangement(rule="mixed", axes=("x", "y"))
)


def test_torch_gradients_to_second_order() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    x = torch.tensor([0.3, 1.7, -40.2], dtype=torch.float64, requires_grad=True)

    def rows(v: Any) -> Any:
        return posenc.table(SMOOTH, v, dtype="float64")

    assert torch.autograd.gradcheck(rows, (x,), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(rows, (x,))
    xy = torch.rand(3, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: posenc.table(MIXED, v, dtype="float64"), (xy,))


def test_torch_values_are_the_same_bits_with_and_without_a_gradient() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    x = torch.tensor(swept(np.float32))
    with_gradient = posenc.table(PLAIN, x.clone().requires_grad_())
    assert with_gradient.requires_grad
    assert torch.equal(with_gradient.detach(), posenc.table(PLAIN, x))


def test_torch_transforms() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    x = torch.tensor([0.3, 1.7, -40.2], dtype=torch.float64)

    def second(v: Any) -> Any:
        return posenc.table(SMOOTH, v, dtype="float64")[2]  # sin(4 v)

    grad = torch.func.vmap(torch.func.grad(second))(x)
    torch.testing.assert_close(grad, 4 * torch.cos(4 * x), rtol=1e-12, atol=1e-12)
    twice = torch.func.vmap(torch.func.grad(torch.func.grad(second)))(x)
    torch.testing.assert_close(twice, -16 * torch.sin(4 * x), rtol=1e-12, atol=1e-12)
    _, forward = torch.func.jvp(torch.func.vmap(second), (x,), (torch.ones_like(x),))
    torch.testing.assert_close(forward, grad)


@each_compiler("_core/numeric", "encodings/table/fourier")
@pytest.mark.costly
def test_torch_gradient_through_the_module_and_compiled(compiler: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from posenc.torch import PositionTable

    module = PositionTable(MIXED)
    x = torch.zeros(2, 3, 8)
    compiled = torch.compile(module, fullgraph=True, backend=compiler)
    grads = []
    for call in (module, compiled):
        where = torch.full((3, 2), 0.3, requires_grad=True)
        call(x, where).sum().backward()
        grads.append(where.grad)
    assert grads[0].abs().min() > 0.1
    torch.testing.assert_close(grads[0], grads[1])
    plain = torch.full((3, 2), 0.3)
    torch.testing.assert_close(compiled(x, plain), module(x, plain), rtol=0, atol=0)


@pytest.mark.costly
def test_torch_forward_mode_through_a_compiled_call() -> None:
    """A graph made without derivatives must not serve a call that has one."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from torch.autograd import forward_ad

    compiled = torch.compile(lambda v: posenc.table(SMOOTH, v), fullgraph=True, backend="aot_eager")
    x = torch.tensor([0.3])
    for _ in range(2):
        assert torch.equal(compiled(x), posenc.table(SMOOTH, x))
        with forward_ad.dual_level():
            dual = compiled(forward_ad.make_dual(x, torch.ones(1)))
            tangent = forward_ad.unpack_dual(dual).tangent
        torch.testing.assert_close(tangent[:, 2], 4 * torch.cos(4 * x))


@pytest.mark.costly
def test_torch_export() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from posenc.torch import PositionTable

    module, x, where = PositionTable(MIXED).eval(), torch.zeros(2, 3, 8), torch.rand(3, 2)
    exported = torch.export.export(module, (x, where)).module()
    assert torch.equal(exported(x, where), module(x, where))


@pytest.mark.costly
def test_jax_gradients_to_second_order() -> None:
    jax = pytest.importorskip("jax", reason="jax is not installed")
    x = jax.numpy.array([0.3, 1.7, -4.2])

    def second(v: Any) -> Any:
        return posenc.table(SMOOTH, v)[2]

    @jax.jit
    def slopes(v: Any) -> Any:
        return (
            jax.vmap(jax.grad(second))(v),
            jax.vmap(jax.grad(jax.grad(second)))(v),
            jax.jacfwd(lambda v: posenc.table(SMOOTH, v)[:, 2])(v),
            jax.grad(lambda v: posenc.table(MIXED, v).sum())(v[:2][None]),
        )

    once, twice, forward, moved = slopes(x)
    x = np.asarray(x)
    np.testing.assert_allclose(once, 4 * np.cos(4 * x), atol=1e-6)
    np.testing.assert_allclose(twice, -16 * np.sin(4 * x), atol=1e-5)
    np.testing.assert_allclose(np.diag(forward), 4 * np.cos(4 * x), atol=1e-6)
    assert np.abs(moved).min() > 1e-3


def test_classic_arithmetic_has_gradients_too() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    x = torch.tensor([0.3, 1.7], requires_grad=True)
    posenc.table(SMOOTH.replace(phase="float32"), x)[:, 2].sum().backward()
    torch.testing.assert_close(x.grad, 4 * torch.cos(4 * x.detach()))


# --- other verbs ----------------------------------------------------------------------------------


def test_frequencies_of_a_matrix() -> None:
    spec = Fourier(
        4,
        ladder=FrequencyMatrix(((3.0, 0.0), (4.0, 2.0))),
        arrangement=Arrangement(rule="mixed", axes=("x", "y")),
    )
    np.testing.assert_array_equal(posenc.frequencies(spec), [[3, 0], [4, 2]])
    np.testing.assert_allclose(posenc.wavelengths(spec), [2 * math.pi / 5, math.pi])


def test_timestep_of_integers_counts_far() -> None:
    far = posenc.table(Timestep(8), [2**31 - 1])
    f = posenc.frequencies(Timestep(8))
    assert_close(far, exact([2**31 - 1], f), 2e-7)


def test_classic_arithmetic_of_a_ladder_for_each_axis() -> None:
    """Rules of different kinds beside each other; the far frequency would overflow in the other."""
    spec = Fourier(
        8,
        base=(20.0, 10_000.0),
        ladder=(Ladder(denominator="n"), Ladder(spacing="linear", first=1.0, last=900.0)),
        arrangement=Arrangement(rule="axial", axes=("x", "y")),
    )
    where = [[0.5, -0.25], [1.0, 0.125]]
    classic = posenc.table(spec.replace(phase="float32"), where)
    assert_close(classic, posenc.table(spec, where, dtype="float64"), 2e-5)


def test_features_beside_the_embeddings() -> None:
    """Appended tables take the positions that their table takes."""
    x = np.ones((2, 3, 4), dtype=np.float32)
    where = [0.5, -0.25, 3.0]
    both = posenc.add(posenc.Concatenated(4, table=SMOOTH), x, positions=where)
    assert both.shape == (2, 3, 12)
    np.testing.assert_array_equal(both[0, :, 4:], posenc.table(SMOOTH, where))
    with pytest.raises(posenc.DTypeError, match="integer positions"):
        posenc.add(posenc.Concatenated(4, table=Sinusoidal(8)), x, positions=where)


@pytest.mark.costly
@pytest.mark.usefixtures("nan_results")
def test_one_coordinate_that_is_none_spoils_its_row_under_tracing() -> None:
    jax = pytest.importorskip("jax", reason="jax is not installed")
    spec = Fourier(8, arrangement=Arrangement(rule="axial", axes=("x", "y")))
    points = jax.numpy.asarray([[float("nan"), 0.5], [0.5, float("inf")], [0.5, 0.25]])
    table = np.asarray(jax.jit(lambda p: posenc.table(spec, p))(points))
    assert np.isnan(table[:2]).all()
    assert np.isfinite(table[2]).all()
