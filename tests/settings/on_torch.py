"""The settings of torch, each a function of a subject that raises where a result is not right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.settings.subjects import Subject
from tests.tolerances import DERIVATIVE, SETTINGS as BOUNDS, assert_close

LENGTH = 6
LENGTHS = (5, 9, 12)
SETTINGS: dict[str, Callable[[Subject], None]] = {}


def setting(check: Callable[[Subject], None]) -> Callable[[Subject], None]:
    """Enter a setting under the name of its function."""
    SETTINGS[check.__name__] = check
    return check


def given(subject: Subject, length: int = LENGTH, dtype: Any = torch.float32) -> tuple[Any, Any]:
    """Inputs in a dtype, parameters as a model holds them, and positions."""
    half = dtype in (torch.float16, torch.bfloat16)
    floats = {
        name: torch.from_numpy(value).to(torch.float32 if half and "." in name else dtype)
        for name, value in subject.floats(length).items()
    }
    return floats, torch.from_numpy(subject.where(length))


def values(x: Tensor) -> np.ndarray:
    return x.detach().to(torch.float64).numpy()


def compare(subject: Subject, got: Tensor, floats: Any, where: Tensor) -> None:
    """A whole result beside the reference, which takes the same rounded inputs."""
    exact = subject.exact({n: values(v) for n, v in floats.items()}, where.numpy())
    assert got.dtype == floats["x"].dtype
    bound = BOUNDS[str(got.dtype).rpartition(".")[2]]
    finite, result = np.isfinite(exact), values(got)
    np.testing.assert_array_equal(result[~finite], exact[~finite])  # what is masked
    result, exact = (np.where(finite, a, 0) for a in (result, exact))
    assert_close(result, exact, bound * (1 + np.abs(exact)), subject.name)


def plain(subject: Subject, dtype: Any) -> None:
    floats, where = given(subject, dtype=dtype)
    compare(subject, subject(floats, where), floats, where)


@setting
def float32(subject: Subject) -> None:
    plain(subject, torch.float32)


@setting
def float64(subject: Subject) -> None:
    plain(subject, torch.float64)


@setting
def bfloat16(subject: Subject) -> None:
    plain(subject, torch.bfloat16)


@setting
def float16(subject: Subject) -> None:
    plain(subject, torch.float16)


@setting
def strided(subject: Subject) -> None:
    """Every second entry of a larger array."""
    floats, where = given(subject)
    for name, value in floats.items():
        wide = (
            torch.full((*value.shape[:-1], 2 * value.shape[-1]), torch.nan) if value.ndim else value
        )
        floats[name] = wide[..., ::2].copy_(value) if value.ndim else value
    compare(subject, subject(floats, where), floats, where)


@setting
def transposed(subject: Subject) -> None:
    """The last two axes lie in memory the other way round."""
    floats, where = given(subject)
    floats = {n: v.mT.contiguous().mT if v.ndim > 1 else v for n, v in floats.items()}
    compare(subject, subject(floats, where), floats, where)


@setting
def empty(subject: Subject) -> None:
    """No rows in the batch, and no tokens."""
    floats, where = given(subject)
    none = {n: v[:0] if "." not in n else v for n, v in floats.items()}
    whole = subject(floats, where)
    assert subject(none, where).shape == (0, *whole.shape[1:])
    floats, where = given(subject, 0)
    compare(subject, subject(floats, where), floats, where)


@setting
def one_token(subject: Subject) -> None:
    floats, where = given(subject, 1)
    compare(subject, subject(floats, where), floats, where)


def shapes(subject: Subject, got: Tensor) -> None:
    whole = subject(*given(subject))
    assert (got.shape, got.dtype) == (whole.shape, whole.dtype)


@setting
def meta(subject: Subject) -> None:
    floats, where = given(subject)
    got = subject({n: v.to("meta") for n, v in floats.items()}, where.to("meta"))
    assert got.is_meta
    shapes(subject, got)


@setting
def fake(subject: Subject) -> None:
    floats, where = given(subject)
    with FakeTensorMode() as mode:
        got = subject({n: mode.from_tensor(v) for n, v in floats.items()}, mode.from_tensor(where))
    shapes(subject, got)


@setting
def under_a_meta_device(subject: Subject) -> None:
    """What is made meanwhile goes to meta; what lies on the CPU stays there."""
    floats, where = given(subject)
    with torch.device("meta"):
        got = subject(floats, where)
    compare(subject, got, floats, where)


@setting
def vmap(subject: Subject) -> None:
    """Over two of everything, positions too."""
    floats, where = given(subject)
    two = {n: torch.stack([v, v + 0.03125]) for n, v in floats.items()}
    both = torch.stack([where, torch.from_numpy(subject.where(LENGTH + 1)[1:])])
    got = torch.vmap(subject)(two, both)
    for i in range(2):
        compare(subject, got[i], {n: v[i] for n, v in two.items()}, both[i])


def direction(floats: Any, seed: int = 5) -> Any:
    rng = np.random.default_rng(seed)
    return {n: torch.from_numpy(rng.normal(size=tuple(v.shape))) for n, v in floats.items()}


def moved(floats: Any, along: Any, by: float) -> Any:
    return {n: v + by * along[n] for n, v in floats.items()}


def slope(call: Callable[[Any], Any], floats: Any, along: Any, step: float = 1e-6) -> Any:
    """The derivative along a direction by differences."""
    more, less = (call(moved(floats, along, by)) for by in (step, -step))
    return {n: (more[n] - less[n]) / (2 * step) for n in more}


@setting
def jvp(subject: Subject) -> None:
    floats, where = given(subject, dtype=torch.float64)
    along = direction(floats)
    _, got = torch.func.jvp(lambda f: seen(subject(f, where)), (floats,), (along,))
    want = slope(lambda f: {"y": seen(subject(f, where))}, floats, along)["y"]
    assert_close(values(got), values(want), DERIVATIVE * (1 + abs(values(want)).max()))


def seen(x: Tensor) -> Tensor:
    """What is masked counts as 0."""
    return torch.where(x.isinf(), torch.zeros_like(x), x)


def total(subject: Subject, where: Tensor) -> Callable[[Any], Tensor]:
    """A number that bends with every entry of the result."""
    return lambda floats: seen(subject(floats, where)).sin().sum()


def gradient_of(subject: Subject, where: Tensor) -> Callable[[Any], Any]:
    loss = total(subject, where)

    def grad(floats: Any, graph: bool = False) -> Any:
        leaves = {
            n: v if v.requires_grad else v.detach().requires_grad_() for n, v in floats.items()
        }
        found = torch.autograd.grad(
            loss(leaves), list(leaves.values()), create_graph=graph, materialize_grads=True
        )
        return dict(zip(leaves, found, strict=True))

    return grad


@setting
def gradient(subject: Subject) -> None:
    """Every entry of an input counts in three directions, each input by itself."""
    floats, where = given(subject, dtype=torch.float64)
    found = gradient_of(subject, where)(floats)
    loss = total(subject, where)
    for name in floats:
        for seed in range(3):
            along = {n: v * (n == name) for n, v in direction(floats, seed).items()}
            want = float(slope(lambda f: {"y": loss(f)}, floats, along)["y"])
            got = float((found[name] * along[name]).sum())
            size = 1 + abs(want) + float((found[name] * along[name]).abs().sum())
            assert_close(np.array(got), np.array(want), DERIVATIVE * size, name)


@setting
def second_derivative(subject: Subject) -> None:
    """The whole product of the second derivatives with a direction."""
    floats, where = given(subject, dtype=torch.float64)
    grad, along = gradient_of(subject, where), direction(floats)
    leaves = {n: v.requires_grad_() for n, v in floats.items()}
    first = grad(leaves, graph=True)
    along_first = sum((first[n] * along[n]).sum() for n in first)
    found = torch.autograd.grad(along_first, list(leaves.values()), materialize_grads=True)
    got = dict(zip(leaves, found, strict=True))
    want = slope(grad, {n: v.detach() for n, v in floats.items()}, along)
    for name, value in want.items():
        size = 1 + abs(values(value)).max(initial=0)
        assert_close(values(got[name]), values(value), 10 * DERIVATIVE * size, name)


@setting
def compiled(subject: Subject) -> None:
    """One function compiled whole, at three lengths."""
    torch._dynamo.reset()
    whole = torch.compile(lambda f, w: subject(f, w), fullgraph=True, backend="eager")
    for length in LENGTHS:
        floats, where = given(subject, length)
        compare(subject, whole(floats, where), floats, where)


class _Module(torch.nn.Module):
    def __init__(self, subject: Subject) -> None:
        super().__init__()
        self.subject = subject

    def forward(self, floats: Any, where: Tensor) -> Tensor:
        return self.subject(floats, where)


@setting
def exported(subject: Subject) -> None:
    """With a length that the program leaves open."""
    torch._dynamo.reset()
    length = torch.export.Dim("length", min=2, max=60)
    floats, where = given(subject, 5)
    open_axes = {
        n: dict.fromkeys((2, 3) if subject.spec.kind == "bias" else (v.ndim - 2,), length)
        if "." not in n
        else {}
        for n, v in floats.items()
    }
    program = torch.export.export(
        _Module(subject), (floats, where), dynamic_shapes=(open_axes, {0: length})
    ).module()
    for n in LENGTHS:
        floats, where = given(subject, n)
        compare(subject, program(floats, where), floats, where)
