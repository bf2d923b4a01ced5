"""The compiled kernels on tensors of torch: their memory, their threads, what they refuse."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import posenc

if importlib.util.find_spec("posenc.kernels._native") is None:
    pytest.skip("the compiled kernels were not built (make build)", allow_module_level=True)

from posenc.kernels import _native as native

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
ROPE = posenc.RoPE(64, pairing="half")
PHASES = native.Phases(ROPE.arrays["step"])
TURN = native.Rotation(PHASES).turn
rotate = functools.partial(posenc.rotate, kernel="reference")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("order", ["half", "interleaved"])
def test_queries_and_keys(order: str, dtype: torch.dtype) -> None:
    rope = posenc.RoPE(64, pairing=order)
    turn = native.Rotation(PHASES, source=order, target=order).turn
    torch.manual_seed(0)
    q, k = torch.randn(2, 8, 130, 80).to(dtype), torch.randn(2, 2, 130, 80).to(dtype)
    positions = torch.randint(0, 2**31, (2, 130))
    want = [rotate(rope, x, positions=positions) for x in (q, k)]
    results = torch.empty_like(q), torch.empty_like(k)
    turn((q, k), results, positions)
    turn((q, k), (q, k), positions)
    for got, inplace, expected in zip(results, (q, k), want, strict=True):
        assert torch.equal(got, expected)
        assert torch.equal(inplace, expected)


def test_slices_and_transposes_of_a_projection() -> None:
    torch.manual_seed(0)
    fused = torch.randn(2, 10, 3, 4, 64)
    q, k = (fused[:, :, part].transpose(1, 2) for part in (0, 1))
    want = [rotate(ROPE, x) for x in (q, k)]
    values = fused[:, :, 2].clone()
    TURN((q, k), (q, k))
    assert torch.equal(q, want[0])
    assert torch.equal(k, want[1])
    assert torch.equal(fused[:, :, 2], values)


def test_positions_of_numpy_and_torch() -> None:
    x = torch.randn(2, 3, 5, 64)
    want = rotate(ROPE, x, offset=4)
    for positions in (np.arange(4, 9), torch.arange(4, 9), torch.arange(4, 9, dtype=torch.int32)):
        got = torch.empty_like(x)
        TURN((x,), (got,), positions)
        assert torch.equal(got, want)


def test_parameters_are_tensors() -> None:
    x = torch.nn.Parameter(torch.randn(5, 64))
    got = torch.empty(5, 64)
    TURN((x,), (got,))
    assert torch.equal(got, rotate(ROPE, x.detach()))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_table_and_add(dtype: torch.dtype) -> None:
    spec = posenc.Sinusoidal(48)
    plan = native.Sinusoids(native.Phases(spec.arrays["step"]), 48)
    table = torch.empty(2000, 48, dtype=dtype)
    plan.table(table)
    exact = posenc.table(spec, 2000, kernel="reference")
    assert torch.equal(table, torch.tensor(exact).to(dtype))
    x = torch.randn(4, 2000, 48).to(dtype)
    want = posenc.add(spec, x, kernel="reference")
    plan.add(x, x)
    assert torch.equal(x, want)


def subclass() -> torch.Tensor:
    return torch.ones(5, 64).as_subclass(type("Other", (torch.Tensor,), {}))


def fake() -> torch.Tensor:
    with FakeTensorMode():
        return torch.ones(5, 64)


REFUSED: dict[str, Callable[[], torch.Tensor]] = {
    "meta": lambda: torch.ones(5, 64, device="meta"),
    "fake": fake,
    "subclass": subclass,
    "float64": lambda: torch.ones(5, 64, dtype=torch.float64),
    "complex": lambda: torch.ones(5, 64, dtype=torch.complex64),
}


@pytest.mark.parametrize("make", REFUSED.values(), ids=REFUSED)
def test_refused(make: Callable[[], torch.Tensor]) -> None:
    x = make()
    with pytest.raises(TypeError, match="expected"):
        TURN((x,), (x,))


def test_an_expanded_tensor_is_read_but_not_written() -> None:
    x = torch.randn(64).expand(5, 64)
    got = torch.empty(5, 64)
    TURN((x,), (got,))
    assert torch.equal(got, rotate(ROPE, x))
    with pytest.raises(ValueError, match="memory of its own for each element"):
        TURN((x,), (x,))


def test_a_sparse_tensor_has_no_strides() -> None:
    x = torch.eye(64).to_sparse()
    with pytest.raises(RuntimeError):
        TURN((x,), (x,))


def test_threads_are_those_of_torch() -> None:
    before = torch.get_num_threads()
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            if native.team() == "openmp":
                assert native.default_threads() == count
    finally:
        torch.set_num_threads(before)
