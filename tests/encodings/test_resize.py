"""Learned tables of another length: PEERS.md, section 2, rows 6 and 18."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import posenc
from posenc import Concatenated, Init, Learned, Lookup
from posenc._core.arrays.resample import METHODS, taps
from tests.backends import Backend, each_backend
from tests.oracles import resample as oracle, table as tables
from tests.tolerances import ABSOLUTE, RESAMPLED, assert_close

UNIT = Init("uniform", scale=1.0)
LINE = Learned(3, length=10, start=2, pad=1, init=UNIT)
IMAGE = Learned(3, length=(4, 6), lookup=Lookup(prefix=2), init=UNIT)
GRID = Learned(3, length=(4, 6), lookup=Lookup("grid", axes=("row", "column")), init=UNIT)
SUMMED = Learned(
    3, length=(4, 6), start=1, lookup=Lookup("factorised", axes=("row", "column")), init=UNIT
)
each_method = pytest.mark.parametrize("method", METHODS)
SIZES = [(4, 6), (4, 9), (9, 6), (7, 13), (13, 2), (2, 2), (1, 1), (3, 40)]


# --- interpolation --------------------------------------------------------------------------------


@each_method
@pytest.mark.parametrize("lengths", [(10, 10), (10, 23), (10, 4), (10, 1), (1, 7), (2, 3)])
def test_taps_are_the_formulas(method: Any, lengths: tuple[int, int]) -> None:
    source, target = lengths
    index, weight = taps(source, target, method)
    dense = np.zeros((target, source))
    np.add.at(dense, (np.arange(target)[:, None], index), weight.astype(np.float64))
    exact = np.array([oracle.weights(i, source, target, method) for i in range(target)])
    assert_close(dense, exact, RESAMPLED, method)


@given(
    st.integers(1, 40),
    st.integers(1, 40),
    st.sampled_from(METHODS),
)
@settings(max_examples=100, deadline=None)
def test_a_constant_stays_constant(source: int, target: int, method: Any) -> None:
    index, weight = taps(source, target, method)
    np.testing.assert_allclose(weight.sum(axis=1), 1, rtol=0, atol=1e-6)
    assert index.min() >= 0
    assert index.max() < source


@each_method
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_row_18_grids_as_torch_interpolates_them(method: Any, size: tuple[int, int]) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    params = posenc.init(IMAGE, seed=2)
    spec, new = posenc.resize(IMAGE, params, size, method=method)
    kernel, _, variant = method.partition("_")
    image = torch.from_numpy(params["weight"][2:]).reshape(4, 6, 3).permute(2, 0, 1)[None]
    theirs = torch.nn.functional.interpolate(
        image,
        size=size,
        mode={"linear": "bilinear", "cubic": "bicubic"}[kernel],
        antialias=variant == "antialias",
        align_corners=variant == "corners",
    )
    want = theirs[0].permute(1, 2, 0).reshape(-1, 3).numpy()
    assert spec == IMAGE.replace(length=size)
    np.testing.assert_array_equal(new["weight"][:2], params["weight"][:2])
    assert_close(new["weight"][2:], want, RESAMPLED, method)


@pytest.mark.parametrize("length", [5, 23, 512])
def test_row_18_sequences_as_torch_interpolates_them(length: int) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    params = posenc.init(LINE, seed=2)
    _, new = posenc.resize(LINE, params, length, method="linear")
    line = torch.from_numpy(params["weight"][2:].T.copy())[None]
    want = torch.nn.functional.interpolate(line, size=length, mode="linear")[0].T.numpy()
    np.testing.assert_array_equal(new["weight"][:2], params["weight"][:2])
    assert_close(new["weight"][2:], want, RESAMPLED)


@pytest.mark.parametrize(
    ("old", "size"),
    [((14, 14), (16, 16)), ((14, 14), (37, 53)), ((24, 37), (14, 14)), ((64, 48), (13, 7))],
    ids=str,
)
@pytest.mark.parametrize("method", ["cubic_antialias", "linear_antialias", "cubic", "linear"])
def test_row_18_sizes_of_real_images(
    method: Any, old: tuple[int, int], size: tuple[int, int]
) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    spec = Learned(16, length=old, init=UNIT)
    params = posenc.init(spec)
    _, new = posenc.resize(spec, params, size, method=method)
    kernel, _, variant = method.partition("_")
    image = torch.from_numpy(params["weight"]).reshape(*old, 16).permute(2, 0, 1)[None]
    mode = {"linear": "bilinear", "cubic": "bicubic"}[kernel]
    theirs = torch.nn.functional.interpolate(
        image, size=size, mode=mode, antialias=variant == "antialias"
    )
    assert_close(new["weight"], theirs[0].permute(1, 2, 0).reshape(-1, 16).numpy(), RESAMPLED)


def tiled(spec: Any, params: Any, length: Any) -> Any:
    return posenc.resize(spec, params, length, how="tile")


@each_backend
@each_method
@pytest.mark.parametrize("spec", [LINE, IMAGE, GRID, SUMMED], ids=["line", "image", "grid", "sum"])
def test_row_18_the_same_size_is_the_same_bits(
    spec: Learned, method: Any, backend: Backend
) -> None:
    params = {name: backend.asarray(value) for name, value in posenc.init(spec).items()}
    same, new = posenc.resize(spec, params, spec.length, method=method)
    assert same == spec
    for name, value in params.items():
        np.testing.assert_array_equal(backend.numpy(new[name]), backend.numpy(value))


@each_method
@pytest.mark.parametrize("spec", [LINE, IMAGE, GRID, SUMMED], ids=["line", "image", "grid", "sum"])
def test_row_18_the_same_size_keeps_what_arithmetic_would_not(spec: Learned, method: Any) -> None:
    params = posenc.init(spec)
    for value in params.values():
        value[-1, 0], value[-2, 0], value[-1, 1] = -0.0, np.inf, np.nan
    new = posenc.resize(spec, params, spec.length, method=method)[1]
    for name, value in params.items():
        np.testing.assert_array_equal(new[name].view(np.int32), value.view(np.int32))


@each_backend
@each_method
def test_resized_on_every_library(method: Any, backend: Backend) -> None:
    params = posenc.init(IMAGE)
    given = {name: backend.asarray(value) for name, value in params.items()}
    want = posenc.resize(IMAGE, params, (5, 3), method=method)[1]["weight"]
    got = posenc.resize(IMAGE, given, (5, 3), method=method)[1]["weight"]
    assert type(got) is type(given["weight"])
    assert backend.dtype_of(got) == "float32"
    assert_close(backend.numpy(got), want, 4 * 2.0**-24)
    np.testing.assert_array_equal(backend.numpy(given["weight"]), params["weight"])


def test_axes_of_one_length_are_left_alone_by_each_other() -> None:
    # A non-square grid turned on its side: rows and columns must not be confused (row 20).
    params = {"weight": posenc.init(GRID)["weight"]}
    turned = {"weight": params["weight"].reshape(4, 6, 3).swapaxes(0, 1).reshape(24, 3).copy()}
    _, new = posenc.resize(GRID, params, (9, 5))
    _, other = posenc.resize(GRID.replace(length=(6, 4)), turned, (5, 9))
    back = other["weight"].reshape(5, 9, 3).swapaxes(0, 1).reshape(45, 3)
    assert_close(back, new["weight"], RESAMPLED)


def test_tables_of_their_own_are_resized_by_themselves() -> None:
    params = posenc.init(SUMMED)
    spec, new = posenc.resize(SUMMED, params, (4, 11), method="linear")
    assert spec.length == (4, 11)
    np.testing.assert_array_equal(new["row_weight"], params["row_weight"])
    alone = Learned(3, length=6, start=1, init=UNIT)
    _, column = posenc.resize(alone, {"weight": params["column_weight"]}, 11, method="linear")
    np.testing.assert_array_equal(new["column_weight"], column["weight"])


def test_three_axes() -> None:
    spec = Learned(2, length=(2, 3, 4), init=UNIT)
    params = posenc.init(spec)
    torch = pytest.importorskip("torch", reason="torch is not installed")
    _, new = posenc.resize(spec, params, (3, 5, 2), method="linear")
    video = torch.from_numpy(params["weight"]).reshape(2, 3, 4, 2).permute(3, 0, 1, 2)[None]
    want = torch.nn.functional.interpolate(video, size=(3, 5, 2), mode="trilinear")
    assert_close(new["weight"], want[0].permute(1, 2, 3, 0).reshape(-1, 2).numpy(), RESAMPLED)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_dtypes_are_kept_and_half_precision_is_rounded_once(dtype: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    weight = torch.from_numpy(posenc.init(IMAGE)["weight"]).to(getattr(torch, dtype))
    for change in (posenc.resize, tiled):
        spec, size = (IMAGE, (5, 9)) if change is posenc.resize else (LINE, 33)
        given = weight if spec is IMAGE else weight[:12]
        new = change(spec, {"weight": given}, size)[1]["weight"]
        assert new.dtype == given.dtype
        wide = torch.float64 if dtype == "float64" else torch.float32
        want = change(spec, {"weight": given.to(wide)}, size)[1]["weight"].to(given.dtype)
        torch.testing.assert_close(new, want, rtol=0, atol=0)


@pytest.mark.costly
def test_gradients_flow_through_resizing() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    weight = torch.from_numpy(posenc.init(IMAGE)["weight"]).double().requires_grad_()
    assert torch.autograd.gradcheck(
        lambda w: posenc.resize(IMAGE, {"weight": w}, (3, 7))[1]["weight"], (weight,)
    )


def test_what_is_beside_the_tables_is_kept() -> None:
    spec = Concatenated(
        4, table=LINE.replace(magnitude=posenc.Magnitude(learned="table_scale", table_scale=3))
    )
    params = posenc.init(spec)
    for change in (posenc.resize, tiled):
        longer, new = change(spec, params, 15)
        assert longer.table.length == 15
        assert longer.dim == 4
        assert new["scale"] == 3
        x = np.zeros((1, 15, 4), np.float32)
        assert posenc.add(longer, x, params=new).shape == (1, 15, 7)


# --- tails ----------------------------------------------------------------------------------------


@each_backend
@pytest.mark.parametrize("how", ["tile", "sinusoidal"])
def test_row_6_extending_leaves_the_rows_alone(how: Any, backend: Backend) -> None:
    params = posenc.init(LINE)
    given = {"weight": backend.asarray(params["weight"])}
    spec, new = posenc.resize(LINE, given, 37, how=how)
    assert spec == LINE.replace(length=37)
    assert new["weight"].shape == (39, 3)
    assert type(new["weight"]) is type(given["weight"])
    np.testing.assert_array_equal(backend.numpy(new["weight"])[:12], params["weight"])
    posenc.add(spec, backend.asarray(np.zeros((1, 37, 3), np.float32)), params=new)


def test_a_tile_repeats_the_positions_not_the_reserved_rows() -> None:
    params = posenc.init(LINE)
    longer, new = tiled(LINE, params, 25)
    old = posenc.table(LINE, 10, params=params)
    got = posenc.table(longer, 25, params=new)
    np.testing.assert_array_equal(got, old[np.arange(25) % 10])


def test_a_sinusoidal_tail_is_as_large_as_the_rows() -> None:
    spec = Learned(6, length=50, start=2, init=Init(scale=0.02))
    params = posenc.init(spec)
    longer, new = posenc.resize(spec, params, 200, how="sinusoidal")
    tail = posenc.table(longer, 200, params=new)[50:].astype(np.float64)
    size = np.sqrt(np.square(params["weight"][2:].astype(np.float64)).mean())
    waves = np.array([tables.vaswani(p, 6) for p in range(50, 200)])
    assert_close(
        tail, waves / np.sqrt(np.square(waves).mean()) * size, ABSOLUTE["float32"] * 2 * size
    )


def test_tables_of_their_own_are_extended_by_themselves() -> None:
    params = posenc.init(SUMMED)
    longer, new = tiled(SUMMED, params, (4, 15))
    np.testing.assert_array_equal(new["row_weight"], params["row_weight"])
    assert longer.length == (4, 15)
    assert new["column_weight"].shape == (16, 3)


@pytest.mark.parametrize("how", ["tile", "sinusoidal"])
def test_extending_by_nothing(how: Any) -> None:
    params = posenc.init(LINE)
    spec, new = posenc.resize(LINE, params, 10, how=how)
    assert spec == LINE
    np.testing.assert_array_equal(new["weight"], params["weight"])


# --- mistakes -------------------------------------------------------------------------------------

MISTAKES: dict[str, tuple[Any, type[Exception], str]] = {
    "no learned table": (
        lambda: posenc.resize(posenc.Sinusoidal(4), {}, 3),
        posenc.SpecError,
        "computed at any position",
    ),
    "another number of axes": (
        lambda: posenc.resize(IMAGE, posenc.init(IMAGE), 5),
        posenc.ArgumentError,
        "2 positive numbers",
    ),
    "no rows": (
        lambda: posenc.resize(LINE, posenc.init(LINE), 0),
        posenc.ArgumentError,
        "one positive number",
    ),
    "method": (
        lambda: posenc.resize(LINE, posenc.init(LINE), 5, method="bicubic"),  # type: ignore[arg-type]
        posenc.ArgumentError,
        "Did you mean 'cubic'",
    ),
    "parameters of another spec": (
        lambda: posenc.resize(LINE, posenc.init(IMAGE), 5),
        posenc.ArgumentError,
        r"shape \(12, 3\), got shape \(26, 3\)",
    ),
    "no parameters": (
        lambda: tiled(LINE, None, 50),  # type: ignore[arg-type]
        posenc.ArgumentError,
        "posenc.init",
    ),
    "pad among the rows": (
        lambda: posenc.resize(LINE.replace(pad=4), posenc.init(LINE), 5),
        posenc.SpecError,
        "pad row before",
    ),
    "shorter": (
        lambda: tiled(LINE, posenc.init(LINE), 9),
        posenc.ArgumentError,
        "at least 10, got 9",
    ),
    "grid": (
        lambda: tiled(IMAGE, posenc.init(IMAGE), (8, 8)),
        posenc.SpecError,
        "Leave out `how`",
    ),
    "method and how": (
        lambda: posenc.resize(LINE, posenc.init(LINE), 20, method="linear", how="tile"),
        posenc.ArgumentError,
        "method is of interpolation",
    ),
    "how": (
        lambda: posenc.resize(LINE, posenc.init(LINE), 20, how="tiles"),  # type: ignore[arg-type]
        posenc.ArgumentError,
        "Did you mean 'tile'",
    ),
}


@pytest.mark.parametrize(("call", "error", "words"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()
