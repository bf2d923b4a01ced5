"""Arrays of libraries that nobody of us wrote for: what they lack, and what they are refused."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import posenc
from tests.tolerances import ABSOLUTE, ORIGINAL, assert_close

ROPE = posenc.RoPE(8, pairing="half")
TABLE = posenc.Sinusoidal(8)
ALIBI = posenc.ALiBi(4)


def test_a_library_whose_arange_knows_no_device() -> None:
    """As MLX has it: a keyword that is not needed is not given."""
    quirky: Any = ModuleType("quirky_numpy")
    quirky.__dict__.update({n: getattr(np, n) for n in dir(np) if not n.startswith("_")})
    asked = []

    def arange(stop: int, *, dtype: Any) -> np.ndarray:
        asked.append(stop)
        return np.arange(stop, dtype=dtype)

    quirky.arange = arange
    np.testing.assert_array_equal(posenc.bias(ALIBI, 5, xp=quirky), posenc.bias(ALIBI, 5))
    assert 5 in asked


@pytest.mark.parametrize("library", ["mlx.core", "ndonnx"])
def test_verbs_on_arrays_of_another_library(library: str) -> None:
    xp: Any = pytest.importorskip(library, reason=f"{library} is not installed")
    make = importlib.import_module(library).array if library == "mlx.core" else xp.asarray
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 2, 5, 8)).astype("float32")
    t5 = posenc.T5(4)
    weight = posenc.init(t5, seed=1)

    def read(array: Any) -> np.ndarray:
        return array.unwrap_numpy() if library == "ndonnx" else np.array(array)

    where = np.arange(5)
    for got, want, bound in (
        (posenc.rotate(ROPE, make(x)), posenc.rotate(ROPE, x), ORIGINAL),
        (posenc.add(TABLE, make(x)), posenc.add(TABLE, x), ORIGINAL),
        (posenc.table(TABLE, make(where)), posenc.table(TABLE, where), ABSOLUTE["float32"]),
        (posenc.bias(ALIBI, make(where)), posenc.bias(ALIBI, where), ABSOLUTE["float32"]),
        (
            posenc.bias(t5, make(where), params={n: make(v) for n, v in weight.items()}),
            posenc.bias(t5, where, params=weight),
            ABSOLUTE["float32"],
        ),
    ):
        assert_close(read(got), want, bound)


def nested(torch: Any, *shape: int) -> Any:
    rows = [torch.ones(n, *shape) for n in (3, 5)]
    return torch.nested.nested_tensor(rows, layout=torch.jagged)


@pytest.mark.parametrize(
    "verb",
    [
        lambda t, x: posenc.rotate(ROPE, x.transpose(1, 2)),
        lambda t, x: posenc.rotate(ROPE, x, seq_dim=-3),
        lambda t, x: posenc.torch.RotaryEmbedding(ROPE)(x.transpose(1, 2), x.transpose(1, 2)),
        lambda t, x: posenc.add(TABLE, nested(t, 8)),
        lambda t, x: posenc.relative(posenc.NEZHA(8), x.transpose(1, 2), x.transpose(1, 2)),
        lambda t, x: posenc.bias(ALIBI, nested(t).long()),
        lambda t, x: posenc.torch.attend(*[x.transpose(1, 2)] * 3),
        lambda t, x: posenc.rerotate(ROPE, x.transpose(1, 2), t.arange(5), t.arange(5)),
    ],
)
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_nested_tensors_are_refused_with_the_way_out(verb: Any) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    with pytest.raises(posenc.ArgumentError, match=r"a nested tensor. Pass x.values\(\) with cu_"):
        verb(torch, nested(torch, 2, 8))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_the_values_of_a_nested_tensor_turn_row_by_row() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    x = nested(torch, 2, 8)
    got = posenc.rotate(ROPE, x.values(), cu_seqlens=x.offsets(), seq_dim=-3)
    want = torch.cat([posenc.rotate(ROPE, row, seq_dim=-3) for row in x.unbind()])
    assert torch.equal(got, want)
    assert torch.equal(
        posenc.table(TABLE, nested(torch).long()).values(),
        posenc.table(TABLE, torch.ones(8).long()),
    )
