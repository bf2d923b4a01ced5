# ruff: noqa: E402 - torch may be absent, and is asked for first
"""The short ways of one token: the same numbers, errors and warnings as by a request."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import posenc
from posenc import Pairing, RoPE, scaling as s
from posenc.kernels import direct
from posenc.kernels.cpu import Cpu

ABSENT = Cpu().absent()
pytestmark = pytest.mark.skipif(ABSENT is not None, reason=f"no compiled kernels: {ABSENT}")

GENERATOR = torch.Generator().manual_seed(0)
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
ROPES = {
    "half": RoPE(8, pairing="half"),
    "blocks": RoPE(16, pairing=Pairing("half", blocks=(6, 2))),
    "trailing": RoPE(8, pairing=Pairing("interleaved", part="trailing", direction="backward")),
    "stretched": RoPE(8, pairing="half", scaling=s.YaRN(4, original_length=64)),
}
OLD, NEW = torch.tensor([3, 1000, 2**40, 7]), torch.tensor([2**33, 100, -5, 1007])
NOW, PAST = torch.tensor([9]), torch.arange(10)
APART = torch.tensor([-(2**62) - 1]), torch.tensor([2**62, 0])


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each call of a short way had a result."""
    taken: list[bool] = []

    def seen(way: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            result = way(*args)
            taken.append(result is not None)
            return result

        return call

    for name in ("moved", "biased", "scored"):
        monkeypatch.setattr(direct, name, seen(getattr(direct, name)))
    return taken


def cold(spec: Any) -> Any:
    return copy.deepcopy(spec)


def assert_same(got: torch.Tensor, want: torch.Tensor) -> None:
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    assert torch.equal(got.contiguous().view(torch.uint8), want.contiguous().view(torch.uint8))


# --- keys that move -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("base", [None, 500.0], ids=["same base", "another base"])
@pytest.mark.parametrize("name", ROPES)
def test_moved_keys_have_the_bits_of_the_reference(
    name: str, base: float | None, dtype: torch.dtype, ways: list[bool], monkeypatch: Any
) -> None:
    spec = cold(ROPES[name])
    target = spec if base is None else spec.replace(base=base)
    for shape, seq_dim in (((2, 3, 4, 20), -2), ((2, 4, 3, 20), -3), ((4, 20), -2)):
        k = torch.randn(shape, generator=GENERATOR).to(dtype)
        places = [(OLD, NEW)]
        if len(shape) == 4:
            places.append((torch.stack([OLD, NEW]), torch.stack([NEW, OLD])))
        for old, new in places:
            results = [posenc.rerotate(spec, k, old, new, target, seq_dim=seq_dim) for _ in "ab"]
            with monkeypatch.context() as patched:
                patched.setattr(Cpu, "absent", lambda _: "asked for")
                want = posenc.rerotate(cold(spec), k, old, new, target, seq_dim=seq_dim)
            for got in results:
                assert_same(got, want)
            assert not np.shares_memory(got.view(torch.uint8).numpy(), k.view(torch.uint8).numpy())
    assert ways.count(False) == 1 + 5  # the first call, and those of specs without plans


def test_gradients_of_moved_keys() -> None:
    spec, k = cold(ROPES["half"]), torch.randn(4, 8, generator=GENERATOR)
    weights = torch.randn(4, 8, generator=GENERATOR)
    for _ in range(2):  # the gradient turns back
        leaf = k.clone().requires_grad_()
        (posenc.rerotate(spec, leaf, OLD, NEW) * weights).sum().backward()
        torch.testing.assert_close(leaf.grad, posenc.rerotate(spec, weights, NEW, OLD))


def test_small_moves_are_warned_of_on_the_short_way_too() -> None:
    spec = cold(RoPE(64, pairing="half"))
    k = torch.randn(1, 64, generator=GENERATOR).bfloat16()
    for move, warned in ((1000, False), (1, True), (-3, True), (-64, False), (0, False)):
        old = torch.tensor([5000])
        if warned:
            with pytest.warns(UserWarning, match=f"a move by {abs(move)} in bfloat16"):
                posenc.rerotate(spec, k, old, old + move)
        else:
            posenc.rerotate(spec, k, old, old + move)


@pytest.mark.parametrize("dtype", DTYPES)
def test_no_keys_are_moved_to_no_keys(dtype: torch.dtype) -> None:
    spec, k = cold(ROPES["half"]), torch.randn(3, 4, 8, generator=GENERATOR).to(dtype)
    posenc.rerotate(spec, k, OLD, NEW)
    assert_same(posenc.rerotate(spec, k[:, :0], OLD[:0], NEW[:0]), k[:, :0])


def test_errors_of_moved_keys_are_the_same() -> None:
    spec, k = cold(ROPES["half"]), torch.randn(2, 3, 4, 8, generator=GENERATOR)
    posenc.rerotate(spec, k, OLD, NEW)
    for call, error in (
        (lambda: posenc.rerotate(spec, k, OLD, NEW[:3]), posenc.ArgumentError),
        (lambda: posenc.rerotate(spec, k, OLD.double(), NEW), posenc.DTypeError),
        (lambda: posenc.rerotate(spec, k[..., :6], OLD, NEW), posenc.ArgumentError),
        (lambda: posenc.rerotate(spec, k.long(), OLD, NEW), posenc.DTypeError),
        (lambda: posenc.rerotate(spec, k, OLD, NEW, seq_dim=-1), posenc.ArgumentError),
    ):
        with pytest.raises(error):
            call()


# --- biases ---------------------------------------------------------------------------------------

BIASES = {
    **{form: posenc.ALiBi(6, form=form) for form in ("symmetric", "causal", "key_only")},
    "bidirectional": posenc.T5(6),
    "one direction": posenc.T5(6, direction="causal", buckets=7),
}


def params_of(spec: Any) -> dict[str, torch.Tensor] | None:
    return {name: torch.tensor(value) for name, value in posenc.init(spec).items()} or None


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", BIASES)
def test_biases_of_one_token(name: str, dtype: torch.dtype, ways: list[bool]) -> None:
    spec, params = cold(BIASES[name]), params_of(BIASES[name])
    sides = (NOW, PAST), (PAST, None), (torch.tensor([5, 2**40]), torch.tensor([2**41, 3, -1]))
    for q, k in (*sides, *sides):
        got = posenc.bias(spec, q, k, params=params, dtype=dtype)
        want = posenc.bias(spec, q, k, params=params, dtype=dtype, kernel="reference")
        assert_same(got, want)
    short = dtype is not torch.float16  # whose range the reference keeps
    assert ways == [False, *[short] * 5]


def test_what_a_bias_learns_gets_its_gradient() -> None:
    spec, params = cold(BIASES["bidirectional"]), params_of(BIASES["bidirectional"])
    posenc.bias(spec, NOW, PAST, params=params)
    weight = params["weight"].requires_grad_()  # type: ignore[index]
    posenc.bias(spec, NOW, PAST, params=params).sum().backward()
    assert weight.grad is not None
    assert float(weight.grad.sum()) == 60


def test_errors_of_biases_are_the_same() -> None:
    spec, learned = cold(BIASES["causal"]), cold(BIASES["bidirectional"])
    params: Any = params_of(learned)
    posenc.bias(spec, NOW, PAST)
    posenc.bias(learned, NOW, PAST, params=params)
    for call, error in (
        (lambda: posenc.bias(spec, *APART), posenc.PositionError),
        (lambda: posenc.bias(learned, *APART, params=params), posenc.PositionError),
        (lambda: posenc.bias(spec, NOW.double(), PAST), posenc.DTypeError),
        (lambda: posenc.bias(spec, NOW[0], PAST), posenc.ArgumentError),
        (lambda: posenc.bias(spec, NOW, PAST, params=params), posenc.ArgumentError),
        (lambda: posenc.bias(spec, NOW, PAST, params=torch.ones(3)), posenc.ArgumentError),
        (lambda: posenc.bias(spec, NOW, PAST, params=np.ones(3)), posenc.ArgumentError),
        (lambda: posenc.bias(spec, NOW, PAST, params=[]), posenc.ArgumentError),
        (lambda: posenc.bias(spec, NOW, PAST, params=0), posenc.ArgumentError),
        (lambda: posenc.bias(spec, NOW, PAST, dtype=torch.int64), posenc.DTypeError),
        (lambda: posenc.bias(learned, NOW, PAST), posenc.ArgumentError),
        (lambda: posenc.bias(learned, NOW, PAST, params={"w": PAST}), posenc.ArgumentError),
        (
            lambda: posenc.bias(
                learned, NOW, PAST, params={"weight": params["weight"].repeat(2, 1)}
            ),
            posenc.ArgumentError,
        ),
    ):
        with pytest.raises(error):
            call()
    with pytest.raises(posenc.ArgumentError, match="numpy, as the input"):
        posenc.bias(spec, NOW, PAST, xp=np)


# --- scores ---------------------------------------------------------------------------------------

SCORES = {
    f"{acts_on}, {outside}": posenc.Shaw(8, clip=(-4, 2), acts_on=acts_on, outside=outside)
    for acts_on, outside in itertools.product(("keys", "keys_queries"), ("clamp", "zero"))
}
SCORES["query-key"] = SCORES["keys, clamp"].replace(distance="query-key")
SCORES["vectors"] = posenc.NEZHA(8, clip=3)


@pytest.mark.parametrize("name", SCORES)
def test_scores_of_one_token(name: str, ways: list[bool]) -> None:
    spec, params = cold(SCORES[name]), params_of(SCORES[name])
    q, k = (torch.randn(2, 3, n, 8, generator=GENERATOR) for n in (1, 10))
    first, second = (posenc.relative(spec, q, k, NOW, PAST, params=params) for _ in "ab")
    assert ways == [False, True]
    assert_same(first, second)
    exact = posenc.relative(
        spec, *(x.double().numpy() for x in (q, k)), NOW.numpy(), PAST.numpy(),
        params={n: p.double().numpy() for n, p in (params or {}).items()},
    )  # fmt: skip
    torch.testing.assert_close(second.double(), torch.from_numpy(exact), rtol=0, atol=1e-6)


def test_scores_follow_gradients_and_autocast(ways: list[bool]) -> None:
    spec, params = cold(SCORES["keys, clamp"]), params_of(SCORES["keys, clamp"])
    q, k = (torch.randn(1, 2, n, 8, generator=GENERATOR) for n in (1, 10))
    grads = []
    for _ in range(2):
        leaf = q.clone().requires_grad_()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            scores = posenc.relative(spec, leaf, k, NOW, PAST, params=params)
        assert scores.dtype is torch.float32
        scores.sum().backward()
        grads.append((scores, leaf.grad))
    assert ways == [False, True]
    for one, other in zip(*grads, strict=True):
        assert_same(one, other)


def test_errors_of_scores_are_the_same() -> None:
    spec, params = cold(SCORES["keys, clamp"]), params_of(SCORES["keys, clamp"])
    q, k = (torch.randn(1, 2, n, 8, generator=GENERATOR) for n in (1, 2))
    two = PAST[:2]
    posenc.relative(spec, q, k, NOW, two, params=params)
    for call, error in (
        (lambda: posenc.relative(spec, q, k, *APART, params=params), posenc.PositionError),
        (lambda: posenc.relative(spec, q, k, NOW, PAST, params=params), posenc.ArgumentError),
        (lambda: posenc.relative(spec, q, k[:, :1], NOW, two, params=params), posenc.ArgumentError),
        (lambda: posenc.relative(spec, q[..., :4], k, NOW, two, params=params), ValueError),
        (lambda: posenc.relative(spec, q, k, params=params), posenc.ArgumentError),
        (lambda: posenc.relative(spec, q, k, NOW, two), posenc.ArgumentError),
        (lambda: posenc.relative(spec, q.long(), k, NOW, two, params=params), posenc.DTypeError),
    ):
        with pytest.raises(error):
            call()


def test_positions_that_a_spec_looks_at_are_read(ways: list[bool]) -> None:
    """What has a vector for each position says at every call which ones it has not."""
    spec = posenc.PositionSensitive(8, length=4)
    params = params_of(spec)
    x = torch.randn(1, 2, 2, 8, generator=GENERATOR)
    for _ in range(2):
        posenc.relative(spec, x, x, PAST[:2], PAST[2:4], params=params)
    with pytest.raises(posenc.PositionError):
        posenc.relative(spec, x, x, PAST[:2], PAST[3:5], params=params)
    assert not any(ways)


def test_positions_of_a_negative_view_are_their_values() -> None:
    spec, bias, near = cold(ROPES["half"]), cold(BIASES["causal"]), cold(SCORES["keys, clamp"])
    x, p = torch.randn(2, 3, 4, 8, generator=GENERATOR), torch.arange(3, 7)
    view, params = torch._neg_view(p), params_of(near)
    for _ in range(2):  # by a request, and by the short way
        for verb in (
            lambda at: posenc.rotate(spec, x, positions=at),
            lambda at: posenc.rerotate(spec, x, p, at),
            lambda at: posenc.rerotate(spec, x, at, p, spec.replace(base=500.0)),
            lambda at: posenc.bias(bias, p, at),
            lambda at: posenc.bias(bias, at, p),
            lambda at: posenc.relative(near, x, x, p, at, params=params),
            lambda at: posenc.relative(near, x, x, at, p, params=params),
        ):
            assert_same(verb(view), verb(-p))


@pytest.mark.filterwarnings("ignore:.*(prototype|beta) s")  # of torch, when it makes them
@pytest.mark.parametrize("stored", ["sparse", "csr", "mkldnn", "nested"])
def test_tensors_that_are_not_dense_are_refused_in_words(stored: str) -> None:
    spec, bias, x = cold(ROPES["half"]), cold(BIASES["causal"]), torch.randn(4, 8)
    other: Any = {
        "sparse": torch.Tensor.to_sparse,
        "csr": torch.Tensor.to_sparse_csr,
        "mkldnn": torch.Tensor.to_mkldnn,
        "nested": lambda x: torch.nested.nested_tensor([x, x]),
    }[stored](x)
    odd = torch.arange(4).to_sparse()
    for _ in range(2):  # by a request, and by the short way
        for call in (
            lambda: posenc.rotate(spec, other),
            lambda: posenc.rotate(spec, x, positions=odd),
            lambda: posenc.rerotate(spec, other, OLD, NEW),
            lambda: posenc.rerotate(spec, x, OLD, odd),
            lambda: posenc.bias(bias, NOW, odd),
        ):
            with pytest.raises(posenc.ArgumentError, match=r"nested|a tensor of layout torch\."):
                call()
        posenc.rotate(spec, x, positions=OLD)
        posenc.rerotate(spec, x, OLD, NEW)
        posenc.bias(bias, NOW, PAST)
