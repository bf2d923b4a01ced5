"""Rotations that differ between heads, or are more than rotations of pairs."""

from __future__ import annotations

import json
import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import posenc
from posenc import LRPE, STRING, FoPE, GoldenGateRoPE, MixedRoPE, Pairing, PoPE, RoPE
from posenc.registry import from_json
from tests.backends import Backend, each_backend, each_row_and_backend, each_row_and_dtypes
from tests.drawing import drawn, each_compiler
from tests.encodings.test_rotary import bound, carried, exact
from tests.oracles import heads as oracle, rotary
from tests.rotary_cases import RAISED, RotaryCase
from tests.tolerances import FLOAT64, assert_close

# torch's compiler imports parts of torch that torch itself deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:`?torch.jit:DeprecationWarning")

STORED = json.loads((Path(__file__).parents[1] / "golden" / "originals_heads.json").read_text())
each_row = pytest.mark.parametrize("row", STORED["rotations"], ids=lambda row: row["name"])

BY_HEAD: dict[str, Any] = {
    "mixed": MixedRoPE(8, heads=3, pairing="half"),
    "golden-gate": GoldenGateRoPE(8, heads=3, pairing="half", lowest=0.5, highest=20.0),
    "lrpe": LRPE(8, heads=3, pairing="half"),
    "lrpe-turned": LRPE(8, heads=3, pairing="interleaved", form="turned"),
    "lrpe-learned": LRPE(8, heads=3, pairing="interleaved", learned="frequencies"),
    "fope": FoPE(8, heads=3, pairing="half", length=512),
    "pope": PoPE(8, heads=3, pairing="half", offset="uniform"),
    "string": STRING(8, heads=3, pairing="half", spread=0.3),
}
each_spec = pytest.mark.parametrize("name", BY_HEAD)
# torch compiles each for seconds, and JAX each operation for each shape: three are drawn.
SOURCES = ("encodings/rotary", "torch")
X = np.random.default_rng(0).normal(size=(2, 3, 5, 8))


def where_of(spec: Any, length: int = 5, batch: int | None = None) -> np.ndarray:
    shape = (length,) if batch is None else (batch, length)
    rng = np.random.default_rng(1)
    if len(spec.axes) == 1:
        return rng.integers(-50, 50, size=shape)
    return rng.integers(-4, 5, size=(*shape, len(spec.axes)))


def params_of(spec: Any) -> Any:
    return posenc.init(spec, seed=3) or None


# --- numbers --------------------------------------------------------------------------------------


@each_row
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_rotation_equals_the_original(row: dict[str, Any], dtype: str) -> None:
    spec: Any = from_json(json.dumps(row["spec"]))
    params = {name: np.array(value, np.float32) for name, value in row["params"].items()} or None
    own = 2 * row["largest_difference"] + (0 if dtype == "float64" else 2e-6)
    sides: tuple[tuple[Any, str, str], ...] = (
        ("query", "query", "queries"),
        ("key", "key", "keys"),
    )
    for role, given, made in sides:
        x, want = np.array(row[given], dtype), np.array(row[made])
        got = posenc.rotate(spec, x, positions=np.array(row["positions"]), role=role, params=params)
        assert_close(got, want, own + 2.0**-22 * np.maximum(1, np.abs(want)), row["name"])


def test_every_rotation_says_where_it_is_from() -> None:
    for row in STORED["rotations"]:
        assert all(row[key] for key in ("repository", "path", "symbol"))
        assert len(row["commit"]) == 40
        assert row["largest_difference"] < 5e-6


@each_row_and_dtypes(RAISED)
def test_cosines_equal_the_oracle(
    case: RotaryCase, backend: Backend, dtypes: tuple[str, ...]
) -> None:
    where = backend.asarray(case.positions)
    for dtype in dtypes:
        cosines = backend.whole(partial(posenc.cos_sin, case.spec, dtype=dtype))
        got = cosines(where, params=carried(case, backend, dtype))
        for part, want in zip(got, exact(case), strict=True):
            what = f"{case.name} on {backend.name} in {dtype}"
            assert backend.dtype_of(part) == dtype
            assert_close(backend.numpy(part), want, bound(case, dtype), what)


@pytest.mark.parametrize("offset", ["none", "uniform"])
@pytest.mark.parametrize("role", ["query", "key"])
@each_backend
def test_polar_coordinates_equal_the_oracle(backend: Backend, role: Any, offset: Any) -> None:
    spec = PoPE(8, heads=1, pairing="half", offset=offset)
    params = {} if offset == "none" else {"delta": np.linspace(-7, 1, 8, dtype=np.float32)[None]}
    x = np.random.default_rng(5).normal(size=(3, 11)).astype(np.float32)
    positions = [0, -5, 2**31 - 1]
    given = {name: backend.asarray(value) for name, value in params.items()} or None
    turn = backend.whole(
        lambda x, w: posenc.rotate(spec, x, positions=positions, role=role, params=w)
    )
    got = backend.numpy(turn(backend.asarray(x), given))
    delta = params["delta"][0].tolist() if role == "key" and params else None
    for row, values, p in zip(got, x.tolist(), positions, strict=True):
        real, imaginary = oracle.polar(values[:8], p, rotary.ladder(16), delta)
        assert_close(row, np.array(real + imaginary + values[8:]), 2e-6)


@each_backend
def test_the_basis_equals_the_oracle(backend: Backend) -> None:
    spec = STRING(6, heads=2, pairing="interleaved", spread=0.5)
    params = posenc.init(spec, seed=1)
    x = np.random.default_rng(5).normal(size=(2, 1, 6)).astype(np.float32)
    given = {name: backend.asarray(value) for name, value in params.items()}
    turn = backend.whole(lambda x, w: posenc.rotate(spec, x, positions=[[0.5, 3.0]], params=w))
    got = turn(backend.asarray(x), given)
    for h in range(2):
        p = oracle.cayley(params["generator"][h].tolist())
        moved = [float(sum(a * v for a, v in zip(r, x[h, 0].tolist(), strict=True))) for r in p]
        cos, sin = oracle.mixed((0.5, 3.0), params["frequencies"][h].tolist())
        want = rotary.turn(moved, cos, sin, rotary.interleaved(6))
        assert_close(backend.numpy(got)[h, 0], np.array(want), 4e-6)


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_directions_go_on_through_the_heads(axes: int) -> None:
    space = ("x", "y", "z")[:axes]
    spec = GoldenGateRoPE(8, heads=3, pairing="half", lowest=0.5, highest=9.0, space=space)
    place = [0.25, -0.75, 2.0][:axes]
    cos, sin = posenc.cos_sin(spec, np.array([place if axes > 1 else place[0]]), dtype="float64")
    for h in range(3):
        want = oracle.golden_gate(place, h, 4, 0.5, 9, 0)
        assert_close(cos[h, 0], np.array(want[0]), 20 * FLOAT64)
        assert_close(sin[h, 0], np.array(want[1]), 20 * FLOAT64)


def test_one_ladder_runs_through_the_heads() -> None:
    spec = LRPE(4, heads=2, pairing="half", form="turned")
    cos, _ = posenc.cos_sin(spec, [12_345], dtype="float64")
    want, _ = rotary.cos_sin(12_345, rotary.ladder(8))
    assert_close(cos.reshape(-1), np.array(want), FLOAT64)


# --- heads ----------------------------------------------------------------------------------------


@each_spec
def test_heads_stand_where_the_input_has_them(name: str) -> None:
    spec = BY_HEAD[name]
    params = params_of(spec)
    for where in (where_of(spec), where_of(spec, batch=2)):
        for role in ("query", "key"):
            got = posenc.rotate(spec, X, positions=where, role=role, params=params)
            swapped = posenc.rotate(
                spec, X.swapaxes(1, 2), positions=where, role=role, params=params, seq_dim=-3
            )
            assert_close(swapped.swapaxes(1, 2), got, FLOAT64, name)
            assert got.shape == (2, 3, 5, spec.output_dim)


@each_row_and_backend("name", [*BY_HEAD], 2, "encodings/rotary", "_core/arrays", ids=str)
def test_every_library_gives_the_same(name: str, backend: Backend) -> None:
    spec = BY_HEAD[name]
    params = params_of(spec)
    turn = backend.whole(
        lambda x, where, params: posenc.rotate(spec, x, positions=where, role="key", params=params)
    )
    for where in (where_of(spec), where_of(spec, batch=2)):
        want = posenc.rotate(spec, X, positions=where, role="key", params=params)
        given = params and {key: backend.asarray(value) for key, value in params.items()}
        x = backend.asarray(X.astype(np.float32))
        got = turn(x, backend.asarray(where), given)
        assert_close(backend.numpy(got), want, 3e-5, name)


@each_spec
def test_cosines_of_a_batch_have_an_axis_of_heads(name: str) -> None:
    spec = BY_HEAD[name]
    params = params_of(spec)
    where = where_of(spec, batch=3)  # as many rows as heads: nothing may broadcast wrongly
    cos, _ = posenc.cos_sin(spec, where, params=params)
    for row in range(3):
        alone, _ = posenc.cos_sin(spec, where[row], params=params)
        assert_close(cos[row], alone.reshape(cos[row].shape), 1e-6)


@pytest.mark.parametrize("name", sorted(BY_HEAD.keys() - {"fope"}))
def test_scores_depend_on_the_displacement_alone(name: str) -> None:
    spec = BY_HEAD[name]
    params = params_of(spec)
    q, k = np.random.default_rng(2).normal(size=(2, 3, 1, 8))
    places = np.zeros((4, len(spec.axes)), np.int64) + np.array([[3], [5], [43], [45]])

    def at(x: np.ndarray, p: np.ndarray, role: Any) -> np.ndarray:
        where = p[None] if len(spec.axes) > 1 else p
        return posenc.rotate(spec, x, positions=where, role=role, params=params)[:, 0]

    near = (at(q, places[0], "query") * at(k, places[1], "key")).sum(axis=-1)
    far = (at(q, places[2], "query") * at(k, places[3], "key")).sum(axis=-1)
    assert_close(near, far, 1e-11, name)


def test_a_series_of_single_waves_is_a_rotation() -> None:
    spec = FoPE(16, heads=1, pairing="half", length=10**9, gain=0.0, still="plain")
    spec = spec.replace(length=512)
    params = posenc.init(spec)
    cos, sin = posenc.cos_sin(spec, 100, params=params, dtype="float64")
    plain, _ = posenc.cos_sin(RoPE(16, pairing="half"), 100, dtype="float64")
    assert_close(cos[:, :4], plain[:, :4], FLOAT64)
    assert_close(cos**2 + sin**2, np.ones_like(cos), FLOAT64)


def test_still_pairs_count_twice_as_published() -> None:
    q, k = np.random.default_rng(2).normal(size=(2, 1, 1, 16))
    doubled = FoPE(16, heads=1, pairing="half", length=7, gain=0.0)
    params = posenc.init(doubled)
    scores = []
    for spec in (doubled, doubled.replace(still="plain")):
        a, b = (posenc.rotate(spec, x, offset=3, params=params) for x in (q, k))
        still = [c for pair in spec.channels.channels(16)[1:] for c in pair]
        scores.append((a[..., still] * b[..., still]).sum())
    assert math.isclose(scores[0], 2 * scores[1])


@pytest.mark.parametrize("name", ["golden-gate", "lrpe-turned", "string"])
def test_there_and_back(name: str) -> None:
    spec = BY_HEAD[name]
    params, where = params_of(spec), where_of(spec)
    for seq_dim, x in ((-2, X), (-3, X.swapaxes(1, 2))):
        there = posenc.rotate(spec, x, positions=where, params=params, seq_dim=seq_dim)
        back = posenc.rotate(
            spec, there, positions=where, params=params, seq_dim=seq_dim, inverse=True
        )
        assert_close(back, x, 10 * FLOAT64)
        assert_close((there**2).sum(axis=-1), (x**2).sum(axis=-1), 20 * FLOAT64)


# --- modules, compilers, gradients ----------------------------------------------------------------


@each_compiler(*SOURCES)
@pytest.mark.parametrize("name", drawn([*BY_HEAD][::-1], 2, *SOURCES))
@pytest.mark.costly
def test_compiled_module(name: str, compiler: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from posenc.torch import RotaryEmbedding

    spec = BY_HEAD[name]
    module = RotaryEmbedding(spec, seed=3)
    q, k = torch.tensor(X, dtype=torch.float32), torch.tensor(X[::-1].copy(), dtype=torch.float32)
    where = torch.tensor(where_of(spec, batch=2))
    torch.compiler.reset()
    with torch.no_grad():
        want = module(q, k, where)
        got = torch.compile(module, fullgraph=True, backend=compiler)(q, k, where)
    for a, b, x, role in zip(got, want, (q, k), ("query", "key"), strict=True):
        assert_close(a.numpy(), b.numpy(), 1e-5, name)
        plain = posenc.rotate(
            spec, x.numpy(), positions=where.numpy(), role=role, params=params_of(spec)
        )
        assert_close(b.numpy(), plain, 1e-5, name)
    assert set(module.state_dict()) == set(spec.shapes)


@pytest.mark.parametrize("name", drawn([*BY_HEAD], 1, *SOURCES))
@pytest.mark.costly
def test_every_length_in_one_graph(name: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from posenc.torch import RotaryEmbedding

    spec = BY_HEAD[name]
    module, x = RotaryEmbedding(spec, seed=3), torch.tensor(X)
    where = torch.tensor(where_of(spec, batch=2))
    torch.compiler.reset()
    compiled = torch.compile(module, fullgraph=True, dynamic=True, backend="eager")
    with torch.no_grad():
        for length in (3, 4, 5):
            part, at = x[:, :, :length], where[:, :length]
            for got, want in zip(compiled(part, part, at), module(part, part, at), strict=True):
                assert_close(got.numpy(), want.numpy(), 1e-12, name)


@each_spec
def test_jit(name: str) -> None:
    jax = pytest.importorskip("jax", reason="jax is not installed")
    spec = BY_HEAD[name]
    own, places = params_of(spec), where_of(spec)
    params = own and {key: jax.numpy.asarray(value) for key, value in own.items()}
    x, where = jax.numpy.asarray(X, "float32"), jax.numpy.asarray(places, "int32")
    turn = lambda x, p, w: posenc.rotate(spec, x, positions=p, role="key", params=w)  # noqa: E731
    want = turn(X, places, own)
    assert_close(np.asarray(jax.jit(turn)(x, where, params)), want, 1e-5, name)


@each_spec
def test_gradients(name: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    spec = BY_HEAD[name]
    begun = posenc.init(spec, seed=3)
    values = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in begun.values()]
    x = torch.tensor(X[:1, :, :2], requires_grad=True)
    where = torch.tensor(where_of(spec, length=2))

    def turned(x: Any, *values: Any) -> Any:
        params = dict(zip(begun, values, strict=True)) or None
        return posenc.rotate(spec, x, positions=where, role="key", params=params)

    assert torch.autograd.gradcheck(turned, (x, *values), atol=1e-5)


def test_wider_heads_keep_the_scale_of_the_scores() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from posenc.torch import attend

    spec = PoPE(8, heads=1, pairing="half", offset="none")
    q, k, v = (torch.tensor(x) for x in np.random.default_rng(6).normal(size=(3, 1, 2, 4, 8)))
    got = attend(q, k, v, spec)
    a, b = (posenc.rotate(spec, x, positions=torch.arange(4)) for x in (q, k))
    want = torch.softmax(a @ b.mT / math.sqrt(8), dim=-1) @ v
    assert_close(got.numpy(), want.numpy(), FLOAT64)


# --- errors ---------------------------------------------------------------------------------------

TINY = {"pairing": "half", "heads": 1}
BAD_SPECS: dict[str, tuple[Any, str]] = {
    "golden-width": (lambda: GoldenGateRoPE(3, lowest=1.0, highest=2.0, **TINY), "even width"),
    "golden-heads": (
        lambda: GoldenGateRoPE(4, pairing="half", heads=0, lowest=1.0, highest=2.0),
        "at least 1",
    ),
    "golden-frequency": (lambda: GoldenGateRoPE(4, lowest=0.0, highest=2.0, **TINY), "positive"),
    "golden-still": (
        lambda: GoldenGateRoPE(4, lowest=1.0, highest=2.0, still=1.5, **TINY),
        "from 0 to 1",
    ),
    "golden-space": (
        lambda: GoldenGateRoPE(4, lowest=1.0, highest=2.0, space=("x", "x"), **TINY),
        "distinct names",
    ),
    "lrpe-width": (lambda: LRPE(3, form="turned", **TINY), "even width if turned"),
    "lrpe-heads": (lambda: LRPE(4, heads=0, pairing="half"), "at least 1"),
    "lrpe-base": (lambda: LRPE(4, base=-1.0, **TINY), "positive"),
    "lrpe-blocks": (
        lambda: LRPE(4, heads=1, pairing=Pairing("half", blocks=(2, 2))),
        "one block",
    ),
    "pope-width": (lambda: PoPE(0, **TINY), "at least 1"),
    "pope-heads": (lambda: PoPE(4, heads=0, pairing="half"), "at least 1"),
    "pope-base": (lambda: PoPE(4, base=0.0, **TINY), "positive"),
    "pope-blocks": (
        lambda: PoPE(4, heads=1, pairing=Pairing("half", blocks=(2, 2))),
        "one block",
    ),
    "fope-width": (lambda: FoPE(6, length=512, **TINY), "multiple of 4"),
    "fope-heads": (lambda: FoPE(8, heads=0, pairing="half", length=512), "at least 1"),
    "fope-length": (lambda: FoPE(8, length=6, **TINY), "at least 7 positions"),
    "fope-base": (lambda: FoPE(8, length=512, base=0.0, **TINY), "positive"),
    "fope-gain": (lambda: FoPE(8, length=512, gain=-1.0, **TINY), "at least 0"),
    "string-width": (lambda: STRING(5, **TINY), "even width"),
    "string-heads": (lambda: STRING(4, heads=0, pairing="half"), "at least 1"),
    "string-base": (lambda: STRING(4, base=0.0, **TINY), "positive"),
    "string-spread": (lambda: STRING(4, spread=-0.1, **TINY), "at least 0"),
    "string-space": (lambda: STRING(4, space=(), **TINY), "distinct names"),
    "string-axial": (
        lambda: STRING(4, space=("x", "y", "z"), start="axial", **TINY),
        "divisible by 3",
    ),
}


@pytest.mark.parametrize("name", BAD_SPECS)
def test_impossible_rotations_are_refused(name: str) -> None:
    make, message = BAD_SPECS[name]
    with pytest.raises(posenc.SpecError, match=message):
        make()


@pytest.mark.parametrize("name", ["fope", "lrpe", "pope"])
def test_what_has_no_inverse_says_so(name: str) -> None:
    spec = BY_HEAD[name]
    with pytest.raises(posenc.ArgumentError, match="inverse"):
        posenc.rotate(spec, X, inverse=True, params=params_of(spec))


@each_spec
def test_verbs_for_plain_rotations_refuse_others(name: str) -> None:
    spec = BY_HEAD[name]
    with pytest.raises(posenc.SpecError, match="all heads alike"):
        posenc.rerotate(spec, X, where_of(spec), where_of(spec))
    with pytest.raises(posenc.SpecError, match="all heads alike"):
        posenc.relative_score(spec, X[0, 0, 0], X[0, 0, 1], where_of(spec))


@pytest.mark.parametrize("name", ["mixed", "lrpe", "pope", "fope", "string"])
def test_nothing_is_written_over_that_is_needed(name: str) -> None:
    spec = BY_HEAD[name]
    with pytest.raises(posenc.ArgumentError, match="inplace"):
        posenc.rotate(spec, X, positions=where_of(spec), inplace=True, params=params_of(spec))


@pytest.mark.parametrize("name", ["pope", "string", "lrpe"])
def test_cosines_alone_do_not_tell_what_happens(name: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from posenc.torch import RotaryEmbedding

    module, x = RotaryEmbedding(BY_HEAD[name]), torch.tensor(X)
    with pytest.raises(posenc.ArgumentError, match="cosines of their own"):
        module(x, x, cos_sin=(x, x))


def test_parameters_that_nobody_needs_are_refused() -> None:
    with pytest.raises(posenc.ArgumentError, match="learns nothing"):
        posenc.rotate(RoPE(8, pairing="half"), X, params={"frequencies": X})
