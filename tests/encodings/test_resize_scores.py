"""Windows and decomposed encodings at other sizes, as code that people run interpolates them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import posenc
from posenc import Decomposed, Init, OffsetTable, WindowTable
from posenc._core.arrays.resample import METHODS
from tests.backends import Backend, each_backend
from tests.oracles import resample as oracle
from tests.tolerances import RESAMPLED, assert_close

UNIT = Init("uniform", scale=1.0)
SPECS = [
    WindowTable(3, window=(3, 4), init=UNIT),
    WindowTable(3, window=(3, 4), extra="class_token", init=UNIT),
    OffsetTable(3, size=(3, 4), init=UNIT),
    Decomposed(5, size=(3, 4), init=UNIT),
]
each_spec = pytest.mark.parametrize("spec", SPECS, ids=repr)
each_method = pytest.mark.parametrize("method", METHODS)


def size_of(spec: Any) -> tuple[int, ...]:
    size: tuple[int, ...] = spec.window if isinstance(spec, WindowTable) else spec.size
    return size


def dense(source: int, target: int, method: Any) -> np.ndarray:
    """The whole matrix of an interpolation along one axis, by the formulas."""
    return np.array([oracle.weights(i, source, target, method) for i in range(target)])


@each_spec
@each_method
@pytest.mark.parametrize("size", [(5, 7), (2, 9), (1, 2), (3, 6)], ids=str)
def test_every_axis_is_resampled(spec: Any, method: Any, size: tuple[int, int]) -> None:
    params = posenc.init(spec, seed=2)
    new, made = posenc.resize(spec, params, size, method=method)
    assert size_of(new) == size
    assert {name: a.shape for name, a in made.items()} == new.shapes
    if isinstance(spec, Decomposed):
        for name, a, b in zip(spec.axes, spec.size, size, strict=True):
            exact = dense(2 * a - 1, 2 * b - 1, method) @ params[name].astype(float)
            assert_close(made[name], exact, 2 * RESAMPLED, name)  # taps are float32
        return
    weight, got = params["weight"].astype(float), made["weight"]
    if isinstance(spec, OffsetTable):
        weight, got = weight.T, got.T
        sides = [dense(a, b, method) for a, b in zip(spec.size, size, strict=True)]
    else:
        pairs = zip(spec.window, size, strict=True)
        sides = [dense(2 * a - 1, 2 * b - 1, method) for a, b in pairs]
    grid = weight[: len(sides[0][0]) * len(sides[1][0])].reshape(*(s.shape[1] for s in sides), -1)
    exact = np.einsum("ia,jb,abh->ijh", *sides, grid).reshape(-1, grid.shape[-1])
    end = weight[grid.shape[0] * grid.shape[1] :]
    assert len(end) == (3 if getattr(spec, "extra", "none") == "class_token" else 0)
    assert_close(got, np.concatenate([exact, end]), 2 * RESAMPLED)


@each_backend
@each_spec
def test_the_same_size_is_the_same_bits(spec: Any, backend: Backend) -> None:
    params = {name: backend.asarray(value) for name, value in posenc.init(spec).items()}
    same, made = posenc.resize(spec, params, size_of(spec))
    assert same == spec
    for name, value in params.items():
        assert type(made[name]) is type(value)
        np.testing.assert_array_equal(backend.numpy(made[name]), backend.numpy(value))


@each_backend
@each_spec
def test_every_library_agrees(spec: Any, backend: Backend) -> None:
    params = posenc.init(spec)
    given = {name: backend.asarray(value) for name, value in params.items()}
    want = posenc.resize(spec, params, (5, 2), method="cubic")[1]
    got = posenc.resize(spec, given, (5, 2), method="cubic")[1]
    for name, value in want.items():
        assert backend.dtype_of(got[name]) == "float32"
        assert_close(backend.numpy(got[name]), value, 4 * 2.0**-24)


def test_refusals() -> None:
    spec = WindowTable(2, window=(3, 4))
    params = posenc.init(spec)
    with pytest.raises(posenc.ArgumentError, match="2 positive numbers"):
        posenc.resize(spec, params, 7)
    with pytest.raises(posenc.ArgumentError, match="2 positive numbers"):
        posenc.resize(spec, params, (0, 7))
    with pytest.raises(posenc.ArgumentError, match=r"shape \(35, 2\)"):
        posenc.resize(spec, {"weight": np.ones((36, 2))}, (4, 4))
    with pytest.raises(posenc.SpecError, match="computed at any position|learned table"):
        posenc.resize(posenc.ALiBi(2), {"weight": np.ones((2, 2))}, 4)


# --- the code that people run -------------------------------------------------------------------


def test_gradients_pass() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    spec = WindowTable(2, window=(2, 2), extra="class_token", init=UNIT)
    weight = torch.from_numpy(posenc.init(spec)["weight"]).double().requires_grad_()

    def verb(weight: Any) -> Any:
        return posenc.resize(spec, {"weight": weight}, (3, 2), method="cubic")[1]["weight"]

    assert torch.autograd.gradcheck(verb, (weight,))


@pytest.mark.parametrize("window", [(8, 8), (12, 10), (4, 4)])
def test_windows_as_timm_resizes_them(window: tuple[int, int]) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from tests.oracles.originals.learned import timm_layer

    code = timm_layer("pos_embed_rel")
    spec = WindowTable(3, window=(7, 7), extra="class_token", init=UNIT)
    weight = torch.from_numpy(posenc.init(spec)["weight"])
    new, made = posenc.resize(spec, {"weight": weight}, window, method="cubic")
    shape = tuple(made["weight"].shape)
    theirs = code.resize_rel_pos_bias_table_simple(weight, window, shape)
    assert_close(made["weight"].numpy(), theirs.numpy(), RESAMPLED)
    assert new == spec.replace(window=window)


@pytest.mark.parametrize("size", [(14, 14), (5, 5)])
def test_offset_tables_as_timm_resizes_them(size: tuple[int, int]) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from tests.oracles.originals.learned import timm_layer

    code = timm_layer("pos_embed_rel")
    spec = OffsetTable(3, size=(7, 7), init=UNIT)
    weight = torch.from_numpy(posenc.init(spec)["weight"])
    made = posenc.resize(spec, {"weight": weight}, size)[1]["weight"]
    theirs = code.resize_rel_pos_bias_table_levit(weight.T, (size[0] * size[1], 3)).T
    assert_close(made.numpy(), theirs.numpy(), RESAMPLED)


@pytest.mark.parametrize("window", [(6, 6), (3, 5), (10, 4)])
def test_beit(window: tuple[int, int]) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    from transformers.models.beit.modeling_beit import BeitRelativePositionBias

    from tests.originals.test_scores import grid

    config = transformers.BeitConfig(image_size=64, patch_size=16, num_attention_heads=3)
    module = BeitRelativePositionBias(config)
    module.relative_position_bias_table.data.normal_()
    with torch.no_grad():
        theirs = module(window)
    spec = WindowTable(3, window=(4, 4), extra="class_token")
    given = {"weight": module.relative_position_bias_table.detach()}
    new, params = posenc.resize(spec, given, window, method="linear")
    tokens = torch.cat([torch.tensor([[-1, -1]]), grid(*window)])
    ours = posenc.bias(new, tokens, params=params)
    assert_close(ours.numpy(), theirs.reshape(ours.shape).numpy(), 4 * RESAMPLED)


@pytest.mark.parametrize(
    ("queries", "keys", "trained"),
    [((5, 6), (5, 6), 14), ((8, 6), (4, 3), 7), ((3, 4), (6, 8), 7), ((9, 4), (3, 4), 9)],
)
def test_sam_at_other_sizes(queries: tuple[int, int], keys: tuple[int, int], trained: int) -> None:
    """Sizes that differ between queries and keys are positions of a coarser grid."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("transformers", reason="transformers is not installed")
    from transformers.models.sam import modeling_sam as sam

    row, column = torch.randn(2, 2 * trained - 1, 4)
    q = torch.randn(6, queries[0] * queries[1], 4)
    holder = SimpleNamespace()
    holder.get_rel_pos = lambda *a: sam.SamVisionAttention.get_rel_pos(holder, *a)
    theirs = sam.SamVisionAttention.get_decomposed_rel_pos(holder, q, row, column, queries, keys)
    spec = Decomposed(4, size=(trained, trained))
    size = tuple(max(a, b) for a, b in zip(queries, keys, strict=True))
    given = {"row": row, "column": column}
    new, params = posenc.resize(spec, given, size, method="linear")
    m, n = spread(queries, keys)
    content = torch.zeros(6, 1, keys[0] * keys[1], 4)
    ours = posenc.relative(new, q[:, None], content, m, n, params=params)[:, 0]
    assert_close(ours.numpy(), theirs.reshape(ours.shape).numpy(), 8 * RESAMPLED)


def spread(queries: tuple[int, int], keys: tuple[int, int]) -> tuple[Any, Any]:
    """Cells of both grids on the finer one: a coarse query at the first of its cells, a coarse key
    at the last, as published code counts them."""
    lines = []
    for a, b in zip(queries, keys, strict=True):
        finer = max(a, b)
        lines.append((np.arange(a) * (finer // a), np.arange(b) * (finer // b) + finer // b - 1))
    sides = zip(*lines, strict=True)
    m, n = (np.stack(np.meshgrid(*side, indexing="ij"), -1).reshape(-1, 2) for side in sides)
    return m, n


@pytest.mark.parametrize(
    ("queries", "keys"), [((8, 6), (4, 3)), ((3, 4), (6, 8)), ((7, 7), (7, 7))]
)
@pytest.mark.parametrize("token", [False, True])
def test_mvitv2(queries: tuple[int, int], keys: tuple[int, int], token: bool) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from tests.oracles.originals.learned import timm_definition

    code = timm_definition("models/mvitv2.py", "cal_rel_pos_type")
    size = tuple(max(a, b) for a, b in zip(queries, keys, strict=True))
    spec = Decomposed(4, size=size, init=UNIT)
    params = {name: torch.from_numpy(value) for name, value in posenc.init(spec).items()}
    rows, columns = queries[0] * queries[1], keys[0] * keys[1]
    first = int(token)
    q = torch.randn(2, 3, rows + first, 4)
    zeros = torch.zeros(2, 3, rows + first, columns + first)
    theirs = code(zeros, q, token, queries, keys, params["row"], params["column"])
    m, n = spread(queries, keys)
    content = torch.zeros(2, 3, columns, 4)
    ours = posenc.relative(spec, q[:, :, first:], content, m, n, params=params)
    assert_close(ours.numpy(), theirs[:, :, first:, first:].numpy(), RESAMPLED)
