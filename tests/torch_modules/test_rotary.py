# ruff: noqa: E402 - torch may be absent, and is asked for first
"""The rotary module: the promises of its docstring on every road through torch's machinery.

Most tests compare bits with the eager result of the verb; `test_rotary.py` ties that one to the
independent oracle. The guarantees G4 to G7, G12 and G13 are named where they are tested.
"""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch import Tensor, nn
from torch._dynamo.testing import CompileCounter
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import posenc
from posenc import Arrangement, MixedRoPE, Pairing, RoPE, XPos, positions, scaling as s
from posenc.torch import PositionTable, RotaryEmbedding
from tests.oracles import rotary as oracle
from tests.tolerances import ABSOLUTE, assert_close

# torch's compiler imports parts of torch that torch itself deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:`?torch.jit:DeprecationWarning")

HALF = (torch.float16, torch.bfloat16)
LONG = (1.0, 2.0, 4.0, 8.0)
SPECS: dict[str, Any] = {
    "plain": RoPE(8, pairing="half"),
    "rich": RoPE(
        6,
        pairing=Pairing("interleaved", part="trailing", output="half", direction="backward"),
        scaling=s.YaRN(4, original_length=64),
        arrangement=Arrangement(start=2),
    ),
    "float32": RoPE(8, pairing="half", phase="float32", scaling=s.Llama3(4, original_length=64)),
    "longrope": RoPE(
        8,
        pairing="half",
        phase="float32",
        scaling=s.LongRoPE((1, 1, 1, 1), LONG, original_length=64, factor=8),
    ).at(100),
    "xpos": XPos(8, pairing="half", centre=4),
}
each_spec = pytest.mark.parametrize("name", SPECS)
OTHERS = pytest.mark.slow("encodings/rotary", "_core", "torch", "functional")


def always(*names: str) -> pytest.MarkDecorator:
    """These specs, and the others if slow: a graph of each is compiled by the test of autograd."""
    rows = [pytest.param(name, marks=() if name in names else OTHERS) for name in SPECS]
    return pytest.mark.parametrize("name", rows)


GENERATOR = torch.Generator().manual_seed(0)
Q = torch.randn(2, 4, 5, 8, generator=GENERATOR)
K = torch.randn(2, 2, 5, 8, generator=GENERATOR)  # two heads: grouped queries
IDS = torch.tensor([[0, 1, 2, 3, 2**31 - 1], [7, 5, 90, 0, 1]])
NEAR = torch.tensor([[0, 1, 2, 3, 1000], [7, 5, 90, 0, 1]])


def cold(name: str = "plain", **options: Any) -> RotaryEmbedding:
    """A module that no one has called, whose spec has nothing cached."""
    return RotaryEmbedding(copy.deepcopy(SPECS[name]), **options)


def ids_of(name: str) -> Tensor:
    return NEAR if name == "xpos" else IDS


def reference(name: str, q: Tensor = Q, k: Tensor = K, **where: Any) -> tuple[Tensor, Tensor]:
    spec = SPECS[name]
    return (
        posenc.rotate(spec, q, role="query", **where),
        posenc.rotate(spec, k, role="key", **where),
    )


def assert_same(got: Any, want: Any) -> None:
    """Raise unless dtypes, shapes and every bit agree."""
    for a, b in zip(got, want, strict=True):
        assert a.dtype == b.dtype
        torch.testing.assert_close(a, b, rtol=0, atol=0)


@pytest.fixture
def fresh_dynamo() -> Iterator[None]:
    """No compiled code from other tests, as frames are counted."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def counted(function: Callable[..., Any]) -> tuple[Callable[..., Any], CompileCounter]:
    counter = CompileCounter()
    return torch.compile(function, backend=counter, fullgraph=True), counter


# --- numbers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_queries_and_keys_turn_as_the_oracle_says(dtype: torch.dtype) -> None:
    got = cold()(Q.to(dtype), K.to(dtype), IDS)
    bound = ABSOLUTE[str(dtype).rpartition(".")[2]] * 12 + 2e-9
    for turned, x in zip(got, (Q.to(dtype), K.to(dtype)), strict=True):
        want = x.double().numpy().copy()
        for b, h, t in np.ndindex(*x.shape[:3]):
            cosines, sines = oracle.cos_sin(int(IDS[b, t]), oracle.ladder(8))
            want[b, h, t] = oracle.turn(want[b, h, t], cosines, sines, oracle.half(8))
        assert_close(turned.numpy(), want, bound)


@each_spec
@pytest.mark.parametrize("dtype", HALF)
def test_half_precision_is_the_float32_result_rounded_once(name: str, dtype: torch.dtype) -> None:
    q, k = Q.to(dtype), K.to(dtype)
    got = cold(name)(q, k, ids_of(name))
    want = cold(name)(q.float(), k.float(), ids_of(name))
    assert_same(got, [x.to(dtype) for x in want])


@each_spec
def test_the_module_is_the_verb(name: str) -> None:
    module, where = cold(name), ids_of(name)
    assert_same(module(Q, K), reference(name))
    assert_same(module(Q, K, where), reference(name, positions=where))
    assert_same(module(Q, K, position_ids=where), reference(name, positions=where))
    assert_same(module(Q, K, offset=7), reference(name, offset=7))
    each = torch.tensor([3, 900])
    assert_same(module(Q, K, offset=each), reference(name, offset=each))
    if name != "xpos":
        tables = posenc.cos_sin(SPECS[name], where)
        assert_same(module(Q, K, cos_sin=tables), reference(name, positions=where))


@each_spec
def test_layouts(name: str) -> None:
    """(batch, seq, heads, channels), and flat tokens with positions or cumulative lengths."""
    where = ids_of(name)
    want = [x.transpose(1, 2) for x in reference(name, positions=where)]
    q, k = Q.transpose(1, 2), K.transpose(1, 2)
    assert_same(cold(name, seq_dim=-3)(q, k, where), want)
    flat = cold(name, seq_dim=-3)(q.reshape(10, 4, 8), k.reshape(10, 2, 8), where.reshape(10))
    assert_same(flat, [x.reshape(10, -1, 8) for x in want])
    packed = cold(name, seq_dim=-3)(
        q.reshape(10, 4, 8), k.reshape(10, 2, 8), cu_seqlens=torch.tensor([0, 5, 10])
    )
    assert_same(packed, [x.transpose(1, 2).reshape(10, -1, 8) for x in reference(name)])


def test_values_turn_where_the_targets_name_them() -> None:
    spec = RoPE(8, pairing=Pairing("half", targets=("q", "k", "v")))
    q, k, v = RotaryEmbedding(spec)(Q, K, IDS, v=K)
    assert_same((q, k), reference("plain", positions=IDS))
    assert_same((v,), (k,))
    with pytest.raises(posenc.ArgumentError, match="v: expected values"):
        RotaryEmbedding(spec)(Q, K)
    with pytest.raises(posenc.ArgumentError, match="no values"):
        cold()(Q, K, v=K)


@each_spec
def test_inputs_are_not_written_to(name: str) -> None:
    q, k, where = Q.clone(), K.clone(), IDS.clone()
    cold(name)(q, k, ids_of(name))
    assert_same((q, k, where), (Q, K, IDS))
    assert q._version == k._version == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_autocast_changes_nothing(dtype: torch.dtype) -> None:
    q, k = Q.to(dtype), K.to(dtype)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = cold()(q, k, IDS)
    assert_same(got, reference("plain", q, k, positions=IDS))


# --- guarantees -----------------------------------------------------------------------------------


def test_g4_no_state_that_meta_can_lose() -> None:
    """Memory from `to_empty` is poisoned; there is nothing of ours in it."""
    with torch.device("meta"):
        module = cold("rich")
        assert module(Q.to("meta"), K.to("meta"))[0].device.type == "meta"
    module = module.to_empty(device="cpu")
    for stored in (*module.parameters(), *module.buffers()):
        nn.init.constant_(stored, float("nan"))
    assert_same(module(Q, K), reference("rich"))
    assert list(module.state_dict()) == list(module.buffers()) == list(module.parameters()) == []


def test_g4_learned_rotations_are_reset() -> None:
    with torch.device("meta"):
        module = RotaryEmbedding(MixedRoPE(8, heads=4, pairing="half"), seed=2)
    module = module.to_empty(device="cpu")
    nn.init.constant_(module.frequencies, float("nan"))
    module.reset_parameters()
    fresh = RotaryEmbedding(MixedRoPE(8, heads=4, pairing="half"), seed=2)
    assert torch.equal(module.frequencies, fresh.frequencies)
    assert module.frequencies.isfinite().all()


@each_spec
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_g5_a_cast_of_the_module_changes_no_phase(name: str, dtype: torch.dtype) -> None:
    where = torch.tensor(
        [[257, 4097, 32_768, 30_000, 1]] if name == "xpos" else [[257, 4097, 10**6, 2**31 - 1, 1]]
    )
    for module in (cold(name).to(dtype), nn.Sequential(nn.Linear(2, 2), cold(name)).to(dtype)[1]):
        assert_same(module(Q, K, where), reference(name, positions=where))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, *HALF, torch.bool])
def test_g6_positions_are_integers(dtype: torch.dtype) -> None:
    """A policy that casts inputs would merge neighbours: 24 positions become 2 in bfloat16."""
    for where in (IDS[:1] * 0 + 4096, torch.arange(5)):
        with pytest.raises(posenc.DTypeError, match="positions"):
            cold()(Q, K, where.to(dtype))
    with pytest.raises(posenc.DTypeError, match="offset"):
        cold()(Q, K, offset=torch.arange(2).to(dtype))
    real = RotaryEmbedding(RoPE(8, pairing="half", phase="real"))
    if dtype in (torch.float32, torch.float64):
        real(Q, K, torch.rand(5, dtype=dtype))
    else:
        with pytest.raises(posenc.DTypeError, match="positions"):
            real(Q, K, torch.arange(5).to(dtype))


def test_g7_caches_are_no_buffers() -> None:
    """What is kept hangs on the spec, by device, and is the same whatever was computed before."""
    module = cold("rich", kernel="reference")
    module(Q, K, offset=10**6)
    long = torch.randn(1, 1, 3000, 8)
    module(long, long)
    assert list(module.named_buffers()) == []
    kept = module.spec.device_arrays
    assert {k: tuple(v.shape) for k, v in kept[torch.device("cpu")].items()} == {
        "step": (1, 3),
        "origin": (3,),
    }
    assert_same(module(Q, K), reference("rich"))


@each_spec
def test_g12_decode_is_prefill(name: str) -> None:
    module = cold(name)
    q, k = torch.randn(1, 4, 40, 8), torch.randn(1, 2, 40, 8)
    whole = module(q, k)
    for a, b in ((0, 1), (17, 18), (39, 40), (4, 8), (10, 14)):
        part = module(q[:, :, a:b], k[:, :, a:b], offset=a)
        assert_same(part, [x[:, :, a:b] for x in whole])


def test_g13_packed_is_separate() -> None:
    """With an absolute probe, as scores do not see positions that were not reset."""
    ends, table = torch.tensor([0, 2, 2, 7, 10]), PositionTable(posenc.Sinusoidal(8))
    q, x = torch.randn(10, 4, 8), torch.zeros(10, 8)
    module = cold(seq_dim=-3)
    turned, _ = module(q, q, cu_seqlens=ends)
    probe = table(x, positions.packed(ends))
    for a, b in ((0, 2), (2, 7), (7, 10)):
        assert_same((turned[a:b],), module(q[a:b], q[a:b])[:1])
        assert_same((probe[a:b],), (table(x[a:b]),))
    unreset, _ = module(q, q)
    assert not torch.equal(unreset[2:], turned[2:])


# --- training -------------------------------------------------------------------------------------


@each_spec
@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.costly
def test_gradients(name: str, inplace: bool) -> None:
    module = cold(name, inplace=inplace)
    q, k = Q[:1, :2, :3].double().requires_grad_(), K[:1, :1, :3].double().requires_grad_()

    def function(q: Tensor, k: Tensor) -> Any:
        return module(2 * q, 3 * k, offset=3)

    assert torch.autograd.gradcheck(function, (q, k))
    assert torch.autograd.gradgradcheck(function, (q, k))


@pytest.mark.parametrize("name", ["plain", "float32", "longrope"])
def test_backward_is_the_rotation_by_the_opposite_angle(name: str) -> None:
    spec, q = SPECS[name], Q.clone().requires_grad_()
    upstream = torch.randn(Q.shape, generator=GENERATOR)
    posenc.rotate(spec, q, positions=IDS).backward(upstream)
    backward = spec.replace(pairing=spec.pairing.replace(direction="backward"))
    assert_same((q.grad,), (posenc.rotate(backward, upstream, positions=IDS),))


@each_spec
def test_writing_in_place_gives_the_same_gradients(name: str) -> None:
    """Through a linear map, its view and its slice, as fused projections have it."""
    linear = nn.Linear(8, 48)
    x = torch.randn(2, 5, 8)

    def gradient(inplace: bool) -> tuple[Tensor, Tensor]:
        fused = linear(x).view(2, 5, 6, 8)
        q, k = fused[:, :, :4], fused[:, :, 4:]
        q, k = cold(name, inplace=inplace, seq_dim=-3)(q, k, ids_of(name))
        loss = (q.square().sum() + k.sin().sum()) + fused[:, :, 5].sum() * (not inplace) * 0
        return (*torch.autograd.grad(loss, [linear.weight]), q.detach().clone())

    torch.testing.assert_close(gradient(True), gradient(False), rtol=1e-6, atol=1e-5)


SHARED = torch.randn(2, 4, 5, 8)
REFUSED: dict[str, tuple[Callable[[], Tensor], str]] = {
    "leaf": (lambda: Q.clone().requires_grad_(), "leaf"),
    "expanded": (lambda: torch.randn(1, 1, 1, 8).expand(2, 4, 5, 8), "expanded"),
    "overlapping": (lambda: torch.randn(60).as_strided((2, 4, 5, 8), (16, 4, 4, 1)), "overlap"),
    "its keys": (lambda: SHARED, "arrays that share memory"),
    "chunk": (lambda: nn.Linear(8, 16)(Q).chunk(2, dim=-1)[0], "chunk, split and unbind"),
}


@pytest.mark.parametrize("how", REFUSED)
def test_what_cannot_be_overwritten_is_refused(how: str) -> None:
    make, message = REFUSED[how]
    with pytest.raises(posenc.ArgumentError, match=message):
        cold(inplace=True)(make(), SHARED[:, :2] if how == "its keys" else K.clone())


def test_overwriting_what_its_maker_needs_fails_loudly() -> None:
    q = torch.tanh(nn.Linear(8, 8)(Q))
    turned, _ = cold(inplace=True)(q, K.clone())
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        turned.sum().backward()


@each_spec
def test_in_place_returns_its_input(name: str) -> None:
    want = reference(name, positions=ids_of(name))
    q, k = Q.clone(), K.clone()
    got = cold(name, inplace=True)(q, k, ids_of(name))
    assert got[0] is q
    assert got[1] is k
    assert_same(got, want)


def test_learned_frequencies_learn() -> None:
    spec = MixedRoPE(8, heads=2, pairing="half")
    module = RotaryEmbedding(spec, seed=3).double()
    assert list(module.state_dict()) == ["frequencies"]
    grid = torch.tensor([[0, 0], [1, 2], [3, 1]])
    q = torch.randn(1, 2, 3, 8, dtype=torch.float64, requires_grad=True)

    def function(q: Tensor, frequencies: Tensor) -> Tensor:
        return posenc.rotate(spec, q, positions=grid, params={"frequencies": frequencies})

    assert torch.autograd.gradcheck(function, (q, module.frequencies))
    got, _ = module(q, q, grid)
    assert_same((got,), (function(q, module.frequencies),))
    with pytest.raises(posenc.ArgumentError, match="inplace"):
        RotaryEmbedding(spec, inplace=True)(q.detach(), q.detach(), grid)


# --- life of a module -----------------------------------------------------------------------------

CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda m: pickle.loads(pickle.dumps(m)),
    "share_memory": lambda m: m.share_memory(),
}


@each_spec
@pytest.mark.parametrize("how", CONVERSIONS)
def test_results_survive(name: str, how: str) -> None:
    module = cold(name)
    module(Q, K)
    again = CONVERSIONS[how](module)
    assert again.spec == module.spec
    assert_same(again(Q, K), reference(name))


@pytest.mark.parametrize("order", ["fake first", "eager first"])
def test_fake_tensors(order: str) -> None:
    module, mode = cold("rich"), FakeTensorMode()
    if order == "eager first":
        module(Q, K)
    kept = dict(module.spec.device_arrays)
    with mode:
        got = module(torch.empty(2, 4, 5, 8), torch.empty(2, 2, 5, 8), offset=torch.tensor([1, 2]))
        assert [x.shape for x in got] == [Q.shape, K.shape]
    assert dict(module.spec.device_arrays) == kept
    assert_same(module(Q, K), reference("rich"))


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_make_fx(mode: str) -> None:
    module = cold("rich")
    graph = make_fx(lambda q, k, p: module(q, k, p), tracing_mode=mode)(Q, K, IDS)
    assert_same(graph(Q, K, IDS.flip(1)), reference("rich", positions=IDS.flip(1)))


def test_vmap_and_grad() -> None:
    spec = SPECS["rich"]
    got = torch.vmap(lambda q, p: posenc.rotate(spec, q, positions=p))(Q, IDS)
    assert_same((got,), (posenc.rotate(spec, Q, positions=IDS),))
    slope = torch.func.grad(lambda q: posenc.rotate(spec, q).square().sum() / 2)(Q)
    turned = Q.clone()
    turned[..., 2:] *= spec.attention_factor**2
    torch.testing.assert_close(slope, turned)


# --- compile and export ---------------------------------------------------------------------------


@always("rich", "float32")
@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.costly
def test_six_lengths_compile_at_most_two_frames(name: str) -> None:
    compiled, counter = counted(cold(name))
    for length in (5, 6, 7, 9, 3, 1200):
        q, k = torch.randn(2, 4, length, 8), torch.randn(2, 2, length, 8)
        assert_same(compiled(q, k), reference(name, q, k))
    assert counter.frame_count <= 2


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.costly
def test_decoding_compiles_at_most_two_frames() -> None:
    compiled, counter = counted(cold())
    for length, offset in ((5, 0), (1, 5), (1, 6), (1, 7), (1, 8)):
        q, k = Q[:, :, :length], K[:, :, :length]
        assert_same(compiled(q, k, offset=offset), reference("plain", q, k, offset=offset))
    assert counter.frame_count <= 2


@pytest.mark.parametrize(
    ("name", "inplace"),
    [
        pytest.param(
            name,
            inplace,
            marks=() if inplace == bool(place % 2) else OTHERS,
        )
        for place, name in enumerate(SPECS)
        for inplace in (False, True)
    ],
)
@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.costly
def test_autograd_under_the_compiler(name: str, inplace: bool) -> None:
    """Through AOT autograd, in place or not, with all constants of a spec in one graph."""
    module = cold(name, inplace=inplace)

    def function(q: Tensor, k: Tensor) -> Any:
        return module(q * 2, k * 3, offset=3)

    q, k = Q.clone().requires_grad_(), K.clone().requires_grad_()
    compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
    got = compiled(q, k)
    assert_same(got, reference(name, Q * 2, K * 3, offset=3))
    (got[0].sum() + got[1].square().sum()).backward()
    grads, q.grad, k.grad = (q.grad, k.grad), None, None
    want = cold(name)(q * 2, k * 3, offset=3)
    (want[0].sum() + want[1].square().sum()).backward()
    torch.testing.assert_close(grads, (q.grad, k.grad), rtol=1e-6, atol=1e-5)


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.costly
def test_two_modules_compile_into_one_graph() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = cold("rich"), cold("float32")
            self.table = PositionTable(posenc.Sinusoidal(8, arrangement=Arrangement(start=2)))

        def forward(self, q: Tensor, k: Tensor) -> Any:
            return self.two(*self.one(self.table(q), k))

    model = Model()
    got = torch.compile(model, backend="eager", fullgraph=True)(Q, K)
    assert_same(got, model(Q, K))


@pytest.mark.slow("_core", "functional", "torch")
@pytest.mark.usefixtures("fresh_dynamo")
def test_compiled_bits() -> None:
    """Inductor may contract a product and a sum to one operation: one rounding of difference."""
    import torch._inductor.config as inductor

    compiled = torch.compile(cold(), fullgraph=True, dynamic=True)
    q, k = torch.randn(1, 4, 300, 8), torch.randn(1, 2, 300, 8)
    for offset in (0, 2**31 - 400):
        with inductor.patch(compile_threads=1):  # a pool of processes starts slowly
            turned = compiled(q, k, offset=offset)
        for got, want in zip(turned, reference("plain", q, k, offset=offset), strict=True):
            torch.testing.assert_close(got, want, rtol=0, atol=5e-7)


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.costly
def test_a_length_is_fixed_outside_of_compiled_code() -> None:
    spec = RoPE(8, pairing="half", scaling=s.DynamicNTK(2, original_length=4))
    with pytest.raises(posenc.ArgumentError, match="length"):
        RotaryEmbedding(spec)(Q, K)
    eager = RotaryEmbedding(spec)(Q, K, length=9)
    fixed = RotaryEmbedding(spec.at(9))
    assert_same(fixed(Q, K), eager)
    compiled, counter = counted(fixed)
    assert_same(compiled(Q, K), eager)
    assert counter.frame_count == 1


@always("rich", "longrope")
@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize(
    "strict",
    [False, pytest.param(True, marks=pytest.mark.slow("torch", "functional"))],
    ids=["non-strict", "strict"],
)
@pytest.mark.costly
def test_export(name: str, strict: bool) -> None:
    length = torch.export.Dim("length")
    module = cold(name)
    program = torch.export.export(
        module,
        (Q, K),
        kwargs={"positions": torch.arange(5)},
        dynamic_shapes={"q": {2: length}, "k": {2: length}, "positions": {0: length}},
        strict=strict,
    )
    assert list(program.state_dict) == []
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    loaded = torch.export.load(file).module()
    q, k, where = torch.randn(2, 4, 90, 8), torch.randn(2, 2, 90, 8), torch.arange(90).flip(0)
    assert_same(loaded(q, k, positions=where), reference(name, q, k, positions=where))


# --- refusals -------------------------------------------------------------------------------------


def test_arguments_of_the_module_are_checked_at_once() -> None:
    with pytest.raises(posenc.ArgumentError, match="Construct it first"):
        RotaryEmbedding(RoPE)  # type: ignore[arg-type]
    with pytest.raises(posenc.ArgumentError, match="a rotation such as"):
        RotaryEmbedding(posenc.Sinusoidal(8))  # type: ignore[arg-type]
    with pytest.raises(posenc.ArgumentError, match="seq_dim"):
        RotaryEmbedding(SPECS["plain"], seq_dim=-1)


def test_arguments_of_a_call_are_checked() -> None:
    module, tables = cold(), posenc.cos_sin(SPECS["plain"], torch.arange(5))
    for call, message in (
        (lambda: module(Q, K, IDS, position_ids=IDS), "positions or position_ids"),
        (lambda: module(Q, K, IDS, offset=1), "positions or offset"),
        (lambda: module(Q, K, IDS, cos_sin=tables), "cosines and sines alone"),
        (
            lambda: module(Q, K, cu_seqlens=torch.tensor([0, 5]), offset=1),
            "cu_seqlens or positions",
        ),
        (lambda: module(Q, K, torch.arange(6)), r"shape \(6,\)"),
        (lambda: module(Q, K[:, :, :4], IDS), "shape"),
        (lambda: cold("xpos")(Q, K, cos_sin=tables), "cosines of their own"),
        (lambda: module(Q, K, cos_sin=[t[..., :2] for t in tables]), "an entry for each pair"),
    ):
        with pytest.raises(posenc.ArgumentError, match=message):
            call()


@pytest.mark.parametrize("kernel", ["auto", "reference"])
def test_queries_and_keys_are_equally_long(kernel: Any) -> None:
    """Grouped heads where the sequence was meant, or one query beside a cache, are no guess."""
    module = RotaryEmbedding(SPECS["plain"], kernel=kernel)
    tables = posenc.cos_sin(SPECS["plain"], torch.arange(5))
    grouped = torch.randn(2, 5, 4, 8), torch.randn(2, 5, 2, 8)
    cached = torch.randn(2, 4, 1, 8), torch.randn(2, 4, 9, 8)
    module(Q, K)  # the short way is open
    for q, k in (grouped, cached, tuple(reversed(cached))):
        for more in ({}, {"offset": 8}, {"positions": torch.arange(9)}, {"cos_sin": tables}):
            with pytest.raises(posenc.ArgumentError, match=r"seq_dim=-3.*offset=") as caught:
                module(q, k, **more)
            assert f"{q.shape[-2]} and {k.shape[-2]}" in str(caught.value)
    layout = RotaryEmbedding(SPECS["plain"], seq_dim=-3)
    for x, turned in zip(grouped, layout(*grouped), strict=True):
        torch.testing.assert_close(turned, posenc.rotate(SPECS["plain"], x, seq_dim=-3))
    with pytest.raises(posenc.ArgumentError, match=r"Axis -3 is that long: say seq_dim=-3"):
        posenc.rotate(SPECS["plain"], grouped[0], positions=torch.arange(5))


@each_spec
def test_one_tensor_alone(name: str) -> None:
    module, ids = cold(name), ids_of(name)
    alone = module(Q, positions=ids)
    torch.testing.assert_close(alone, module(Q, K, ids)[0], rtol=0, atol=0)
    with pytest.raises(posenc.ArgumentError, match="keys beside values"):
        module(Q, v=K)
    with pytest.raises(posenc.ArgumentError, match="k: expected keys, got .*Positions go by name"):
        module(Q, ids)


def test_cosines_of_a_learned_rotation_follow_its_parameters() -> None:
    """Positions from a list, parameters from torch: the result is where the parameters are."""
    spec = posenc.MixedRoPE(4, pairing="half", heads=2, init="axial")
    params = {name: torch.tensor(value) for name, value in posenc.init(spec).items()}
    cos, sin = posenc.cos_sin(spec, [[1, 2], [3, 4]], params=params)
    assert isinstance(cos, Tensor)
    want = posenc.cos_sin(spec, [[1, 2], [3, 4]], params=posenc.init(spec))
    for got, expected in zip((cos, sin), want, strict=True):
        np.testing.assert_allclose(got.numpy(), expected, rtol=0, atol=1.5e-7)
