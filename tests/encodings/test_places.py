"""Tables of times, places and trees: laws, modules, gradients, errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import posenc
from posenc import (
    Concatenated,
    GridCells,
    HashGrid,
    Init,
    IntegratedFourier,
    Ladder,
    Learned,
    LearnedFourier,
    Magnitude,
    Sinusoidal,
    SoftPosition,
    Sphere2Vec,
    SphericalHarmonics,
    Summed,
    Time2Vec,
    TreePositions,
)
from tests.case import Case
from tests.cases_places import PLACES
from tests.drawing import drawn, each_compiler
from tests.tolerances import FLOAT64, assert_close

# torch's compiler imports parts of torch that torch itself deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:`?torch.jit:DeprecationWarning")

# One row for each encoding is enough for what every row shares.
# Of harmonics it is the second row: compilation grows with the width.
ONE_EACH = tuple(
    {type(c.spec): c for c in reversed(PLACES) if c.name != "spherical-harmonics"}.values()
)
each_encoding = pytest.mark.parametrize("case", ONE_EACH, ids=lambda case: case.name)


def some(rows: Any, *subjects: str) -> Any:
    """One of the encodings, as torch compiles each for seconds; the others are slow."""
    return pytest.mark.parametrize("case", drawn(rows, 1, *subjects), ids=lambda case: case.name)


angles = st.tuples(st.floats(-400, 400), st.floats(-90, 90))


def table64(spec: Any, positions: Any, params: Any = None) -> np.ndarray:
    return posenc.table(spec, positions, params=params, dtype="float64")


# --- laws -----------------------------------------------------------------------------------------


@given(angles, angles)
def test_harmonics_know_the_angle_between_places_alone(a: Any, b: Any) -> None:
    """The addition theorem: sums of products over m are Legendre polynomials of the angle."""
    degrees = 6
    rows = table64(SphericalHarmonics(degrees**2), [a, b])
    (p, t), (q, u) = np.deg2rad(a), np.deg2rad(b)
    between = math.sin(t) * math.sin(u) + math.cos(t) * math.cos(u) * math.cos(p - q)
    for n in range(degrees):
        product = rows[0, n * n : (n + 1) ** 2] @ rows[1, n * n : (n + 1) ** 2]
        legendre = np.polynomial.legendre.legval(between, [0] * n + [1])
        assert_close(product, (2 * n + 1) / (4 * math.pi) * legendre, 100 * FLOAT64)


@given(st.tuples(*[st.floats(-1e4, 1e4)] * 4))
def test_grid_cells_know_the_displacement_alone(places: Any) -> None:
    spec = GridCells(18, shortest=0.5, longest=50.0)
    x, y, dx, dy = places
    rows = table64(spec, np.array([[x, y], [x + dx, y + dy], [0, 0], [x + dx - x, y + dy - y]]))
    assert_close(rows[0] @ rows[1], rows[2] @ rows[3], 1e-6)  # x + dx is rounded
    assert_close((rows**2).sum(axis=-1), np.full(4, 9.0), FLOAT64)


def test_grid_cells_repeat_on_a_hexagonal_lattice() -> None:
    spec = GridCells(6, shortest=1 / (2 * math.pi), longest=1 / (2 * math.pi))
    steps = np.array([[2 / math.sqrt(3) * math.sin(a), 2 / math.sqrt(3) * math.cos(a)] for a in
                      np.arange(6) * math.pi / 3])  # fmt: skip
    rows = table64(spec, np.concatenate([[[0.0, 0.0]], steps]))
    assert_close(rows[1:], np.broadcast_to(rows[0], (6, 6)), 10 * FLOAT64)


def test_a_point_without_blur_is_fourier_band_by_band() -> None:
    mean = np.array([[0.5, -1.25], [3.0, 0.125]])
    still = np.concatenate([mean, np.zeros((2, 2))], axis=-1)
    rows = table64(IntegratedFourier(16, space=("x", "y")), still)
    cyclic = posenc.Arrangement(rule="axial_cyclic", axes=("x", "y"))
    plain = posenc.Fourier(16, ladder=Ladder(spacing="octave"), arrangement=cyclic)
    assert_close(rows, table64(plain, mean), 0)


def test_blur_is_the_mean_over_a_gaussian() -> None:
    spec = IntegratedFourier(6, space=("x",))
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    sharp = table64(spec, np.stack([0.75 + 0.5 * nodes, 0 * nodes], axis=-1))
    want = (weights[:, None] * sharp).sum(axis=0) / math.sqrt(2 * math.pi)
    assert_close(table64(spec, [[0.75, 0.25]])[0], want, 1e-13)


def test_sphere_c_at_scale_one_is_a_point_in_space() -> None:
    spec = Sphere2Vec(3, mixing="sphereC", shortest=1.0, longest=1.0)
    rows = table64(spec, [[0.0, 0.0], [60.0, 0.0], [10.0, 90.0]])
    assert_close((rows**2).sum(axis=-1), np.ones(3), FLOAT64)
    assert_close(rows @ rows[0], np.array([1.0, 0.5, 0.0]), FLOAT64)


def test_going_down_a_tree_pushes_and_going_up_pops() -> None:
    """Shiv and Quirk: a step shifts the row by one level, times the decay."""
    spec = TreePositions(24, degree=2, depth=4)
    params = posenc.init(spec, seed=1)
    p = np.tanh(params["decay"].astype(np.float64))
    parent, child = table64(spec, [[1, 0, -1, -1], [0, 1, 0, -1]], params)
    assert_close(child[6:], (parent.reshape(8, 3) * p).reshape(-1)[:-6], FLOAT64)


def test_neighbours_in_a_hash_grid_meet_at_their_border() -> None:
    spec = HashGrid(4, levels=2, log2_size=6, coarsest=3, finest=7, space=("x", "y"))
    params = posenc.init(spec.replace(init=Init(scale=1.0)))
    for border in (1 / 3, 2 / 7, 5 / 7):
        near = np.array([[border - 1e-9, 0.4], [border + 1e-9, 0.4]])
        below, above = table64(spec, near, params)
        assert_close(below, above, 1e-6)


@pytest.mark.parametrize("small", ["dense", "hashed"])
def test_corners_of_a_hash_grid_are_rows(small: Any) -> None:
    spec = HashGrid(1, levels=1, log2_size=4, coarsest=3, finest=3, space=("x", "y"), small=small)
    params = {"table": np.arange(16.0).reshape(1, 16, 1)}
    corners = np.array([[i / 3, j / 3] for j in range(4) for i in range(4)])
    got = posenc.table(spec, corners, params=params)[:, 0].round(4)
    pairs = [(i, j) for j in range(4) for i in range(4)]
    want = [i + 4 * j if small == "dense" else (i ^ j * 2654435761) % 16 for i, j in pairs]
    np.testing.assert_array_equal(got, want)


def test_the_ladder_is_where_times_begin() -> None:
    spec = Time2Vec(3, trend="none", wave="cos", init=Ladder(denominator="n-1"), base=100.0)
    assert_close(posenc.init(spec)["frequency"], np.array([1, 0.1, 0.01]), 2.0**-25)


def test_sums_read_their_axes_and_scale() -> None:
    spec = Summed(
        4,
        tables=(Sinusoidal(4), Learned(4, length=(2, 3), lookup=posenc.Lookup(
            "factorised", axes=("row", "column")))),
        axes_of=("time", "row", "time"),
        magnitude=Magnitude(table_scale=2.0, embedding_scale="sqrt_dim"),
    )  # fmt: skip
    assert spec.axes == ("time", "row")
    params = posenc.init(spec)
    assert set(params) == {"table1_row_weight", "table1_column_weight"}
    rows = posenc.table(spec, [[2, 1]], params=params)
    own = params["table1_row_weight"][1] + params["table1_column_weight"][2]
    assert_close(rows, 2 * (posenc.table(Sinusoidal(4), [2]) + own), 1e-6)
    added = posenc.add(spec, np.ones((1, 4)), positions=[[2, 1]], params=params)
    assert_close(added, 2 + rows, 1e-6)


# --- modules, compilers, gradients ---------------------------------------------------------------


@each_compiler("encodings/table", "torch")
@some(ONE_EACH[::-1], "torch")
@pytest.mark.costly
def test_compiled_module_gives_the_rows(case: Case, compiler: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from posenc.torch import PositionTable

    module = PositionTable(case.spec, seed=7).eval()
    if case.params is not None:
        with torch.no_grad():
            for name, value in case.params.items():
                getattr(module, name).copy_(torch.tensor(value))
    where = torch.tensor(case.positions)
    where = where.float() if where.is_floating_point() else where
    x = torch.zeros(1, len(case.positions), case.spec.dim)
    torch.compiler.reset()
    compiled = torch.compile(module, fullgraph=True, backend=compiler)
    with torch.no_grad():
        got = compiled(x, where).numpy()[0]
    want = module(x, where).detach().numpy()[0]
    assert_close(got, want, 4e-7 * max(1.0, case.scale), case.name)
    assert not [name for name, _ in module.named_buffers()]


@some(ONE_EACH, "torch")
@pytest.mark.costly
def test_every_length_in_one_graph(case: Case) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from posenc.torch import PositionTable

    module = PositionTable(case.spec, seed=7).eval()
    where = torch.tensor(case.positions)
    where = where.float() if where.is_floating_point() else where
    torch.compiler.reset()
    compiled = torch.compile(module, fullgraph=True, dynamic=True, backend="eager")
    with torch.no_grad():
        for length in (len(where), len(where) - 1):
            x = torch.zeros(2, length, case.spec.dim)
            want = module(x, where[:length])
            assert_close(compiled(x, where[:length]).numpy(), want.numpy(), 1e-6, case.name)


@pytest.mark.parametrize("case", drawn(ONE_EACH, 3, "_core"), ids=lambda case: case.name)
@pytest.mark.costly
def test_jit_gives_the_rows(case: Case) -> None:
    jax = pytest.importorskip("jax", reason="jax is not installed")
    params = (
        None if case.params is None else {k: jax.numpy.asarray(v) for k, v in case.params.items()}
    )
    where = np.array(case.positions)
    where = jax.numpy.asarray(where.astype(np.int32 if where.dtype.kind == "i" else np.float32))
    got = jax.jit(lambda p, w: posenc.table(case.spec, p, params=w))(where, params)
    want = posenc.table(case.spec, np.asarray(where), params=case.params)
    assert_close(np.asarray(got), want, 4e-7 * max(1.0, case.scale), case.name)


@each_encoding
def test_gradients_of_parameters_and_places(case: Case) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    spec: Any = case.spec
    if isinstance(spec, HashGrid):
        spec = spec.replace(log2_size=5)  # differences are formed for each entry of the table
    rng = np.random.default_rng(0)
    shapes = spec.shapes
    values = [torch.tensor(rng.normal(size=s), requires_grad=True) for s in shapes.values()]
    real = spec.coordinates == "real"
    if real:
        inside = rng.uniform(0.05, 0.95, size=(3, len(spec.axes)))  # between the corners of grids
        place = torch.tensor(inside if len(spec.axes) > 1 else inside[:, 0], requires_grad=True)
    else:
        place = torch.tensor(case.positions[:3])

    def rows(place: Any, *values: Any) -> Any:
        params = dict(zip(shapes, values, strict=True)) or None
        return posenc.table(spec, place, params=params, dtype="float64")

    if values or real:
        assert torch.autograd.gradcheck(rows, (place, *values), atol=1e-4)


# --- errors ---------------------------------------------------------------------------------------

BAD: dict[str, tuple[Any, str]] = {
    "time2vec-no-wave": (lambda: Time2Vec(1), "width of at least 2"),
    "time2vec-base": (lambda: Time2Vec(4, base=0.0), "positive number"),
    "time2vec-cos-shift": (lambda: Time2Vec(4, init=Ladder(cos_shift=1.0)), "one wave"),
    "integrated-width": (lambda: IntegratedFourier(8), "multiple of 6"),
    "integrated-names": (lambda: IntegratedFourier(8, space=("x", "x_variance")), "distinct"),
    "integrated-base": (lambda: IntegratedFourier(6, base=-1.0), "positive number"),
    "integrated-cos-shift": (
        lambda: IntegratedFourier(6, ladder=Ladder(cos_shift=0.5)),
        "one frequency",
    ),
    "cells-width": (lambda: GridCells(8, shortest=1.0, longest=2.0), "multiple of 6"),
    "cells-scale": (lambda: GridCells(6, shortest=0.0, longest=2.0), "positive length"),
    "cells-names": (
        lambda: GridCells(6, shortest=1.0, longest=1.0, space=("x", "x")),
        "distinct names",
    ),
    "harmonics": (lambda: SphericalHarmonics(10), "9 and 16 are next"),
    "harmonics-none": (lambda: SphericalHarmonics(0), "a square"),
    "sphere-width": (
        lambda: Sphere2Vec(6, mixing="sphereM", shortest=1.0, longest=1.0),
        "multiple of 5",
    ),
    "sphere-scale": (
        lambda: Sphere2Vec(3, mixing="sphereC", shortest=1.0, longest=-1.0),
        "positive scale",
    ),
    "soft-width": (lambda: SoftPosition(0), "at least 1"),
    "soft-names": (lambda: SoftPosition(4, space=("x", "x")), "distinct names"),
    "fourier-groups": (lambda: LearnedFourier(4, features=2, hidden=2, groups=3), "divides"),
    "fourier-names": (
        lambda: LearnedFourier(4, features=2, hidden=2, space=("x", "x")),
        "distinct names",
    ),
    "fourier-dim": (lambda: LearnedFourier(3, features=2, hidden=2, groups=2), "multiple of"),
    "fourier-features": (lambda: LearnedFourier(4, features=3, hidden=2), "even number"),
    "fourier-hidden": (lambda: LearnedFourier(4, features=2, hidden=0), "at least 1"),
    "fourier-gamma": (lambda: LearnedFourier(4, features=2, hidden=1, gamma=0.0), "positive"),
    "hash-dim": (
        lambda: HashGrid(5, levels=2, log2_size=4, coarsest=2, finest=4),
        "multiple of the 2 levels",
    ),
    "hash-size": (
        lambda: HashGrid(4, levels=2, log2_size=25, coarsest=2, finest=4),
        "from 1 to 24",
    ),
    "hash-sides": (
        lambda: HashGrid(4, levels=2, log2_size=4, coarsest=5, finest=4),
        "coarsest <= finest",
    ),
    "hash-one-level": (
        lambda: HashGrid(4, levels=1, log2_size=4, coarsest=2, finest=4),
        "one level",
    ),
    "hash-names": (
        lambda: HashGrid(4, levels=1, log2_size=4, coarsest=2, finest=2, space=("x",) * 2),
        "distinct names",
    ),
    "tree-degree": (lambda: TreePositions(4, degree=0, depth=2), "at least 1"),
    "tree-room": (lambda: TreePositions(4, degree=3, depth=2), "depth \\* degree = 6"),
    "sum-of-one": (lambda: Summed(4, tables=(Sinusoidal(4),), axes_of=("p",)), "two tables"),
    "sum-widths": (
        lambda: Summed(4, tables=(Sinusoidal(4), Sinusoidal(6)), axes_of=("p", "q")),
        "tables of width 4",
    ),
    "sum-names": (
        lambda: Summed(4, tables=(Sinusoidal(4), Sinusoidal(4)), axes_of=("p",)),
        "2 names",
    ),
    "sum-twice-in-one": (
        lambda: Summed(
            6,
            tables=(Sinusoidal(6), GridCells(6, shortest=1.0, longest=1.0)),
            axes_of=("p", "q", "q"),
        ),
        "distinct names for the axes",
    ),
    "sum-appended": (
        lambda: Summed(
            4, tables=(Sinusoidal(4), Concatenated(4, table=Sinusoidal(4))), axes_of=("p", "q")
        ),
        "tables that are added",
    ),
    "sum-scaled": (
        lambda: Summed(
            4,
            tables=(Sinusoidal(4), Sinusoidal(4, magnitude=Magnitude(embedding_scale=2.0))),
            axes_of=("p", "q"),
        ),
        "embedding_scale=1",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_impossible_specs_are_refused(name: str) -> None:
    make, message = BAD[name]
    with pytest.raises(posenc.SpecError, match=message):
        make()


OUTSIDE: dict[str, tuple[Any, Any, Any, str]] = {
    "variance": (IntegratedFourier(2, space=("x",)), [[0.0, 0.5]], [[0.0, -0.5]], "at least 0"),
    "unit-cube": (
        HashGrid(2, levels=1, log2_size=4, coarsest=2, finest=2, space=("x", "y")),
        [[0.0, 1.0]],
        [[0.5, 1.0000001]],
        "from 0 to 1",
    ),
    "steps": (TreePositions(4, degree=2, depth=2), [[1, -1]], [[2, -1]], "from 0 to 1.*got 2"),
    "steps-below": (TreePositions(4, degree=2, depth=2), [[1, -1]], [[0, -2]], "to 1.*got -2"),
}


@pytest.mark.costly
@pytest.mark.usefixtures("nan_results")
@pytest.mark.parametrize("name", OUTSIDE)
def test_positions_out_of_range_are_refused_or_nan(name: str) -> None:
    spec, right, wrong, message = OUTSIDE[name]
    params = posenc.init(spec) or None
    assert np.isfinite(posenc.table(spec, right, params=params)).all()
    with pytest.raises(posenc.PositionError, match=message):
        posenc.table(spec, wrong, params=params)
    jax = pytest.importorskip("jax", reason="jax is not installed")
    both = jax.numpy.asarray(np.array(right + wrong, np.array(wrong).dtype.kind + "4"))
    rows = np.asarray(jax.jit(lambda p: posenc.table(spec, p, params=params))(both))
    assert np.isfinite(rows[0]).all()
    assert np.isnan(rows[1]).all()
