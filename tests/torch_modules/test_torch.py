# ruff: noqa: E402 - torch may be absent, and is asked for first
"""The torch module: the promises of its docstring on every road through torch's machinery.

Most tests compare bits with the eager result, and `test_rows_are_the_oracles` ties that one to the
independent oracle.
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
from posenc import Arrangement, Ladder, Magnitude, Sinusoidal
from posenc._core.arrays import array_torch
from posenc._core.arrays.words import words
from posenc._core.numeric import phase
from posenc.torch import PositionTable
from tests.oracles import table as oracle
from tests.tolerances import ABSOLUTE, PER_POSITION, assert_close

# torch's compiler imports parts of torch that torch itself deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:`?torch.jit:DeprecationWarning")

PLAIN = Sinusoidal(8)
RICH = Sinusoidal(
    8,
    order="sin_cos",
    ladder=Ladder(denominator="n-1"),
    arrangement=Arrangement(start=2, pad=1),
    magnitude=Magnitude(embedding_scale="sqrt_dim", table_scale=0.5),
)
SPECS = pytest.mark.parametrize("spec", [PLAIN, RICH], ids=["plain", "rich"])
HALVES = (torch.float16, torch.bfloat16)
X = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(0))
POSITIONS = torch.tensor([[0, 1, 2, 3, 2**31 - 1], [7, -5, 2**40, 0, -1]])


def cold(spec: Sinusoidal = PLAIN, **options: Any) -> PositionTable:
    """A module that no one has called, whose spec has nothing cached."""
    return PositionTable(copy.deepcopy(spec), **options).eval()


def reference(x: Tensor, spec: Sinusoidal = PLAIN, **where: Any) -> Tensor:
    """What an untouched module gives in eager mode."""
    return cold(spec)(x, **where)


def assert_same(got: Tensor, want: Tensor) -> None:
    """Raise unless dtype, shape and every bit agree."""
    assert got.dtype == want.dtype
    torch.testing.assert_close(got, want, rtol=0, atol=0)


@pytest.fixture
def fresh_dynamo() -> Iterator[None]:
    """No compiled code from other tests, as frames are counted."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def counted(function: Callable[..., Any]) -> tuple[Callable[..., Any], CompileCounter]:
    """The function compiled as a whole, and the count of its compiled frames."""
    counter = CompileCounter()
    return torch.compile(function, backend=counter, fullgraph=True), counter


# --- numbers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rows_are_the_oracles(dtype: torch.dtype) -> None:
    y = cold()(torch.zeros(2, 5, 8, dtype=dtype), POSITIONS)
    exact = np.array([[oracle.vaswani(int(p), 8) for p in row] for row in POSITIONS])
    name = str(dtype).rpartition(".")[2]
    bound = ABSOLUTE[name] + PER_POSITION * np.abs(POSITIONS.numpy())[..., None]
    assert_close(y.numpy(), exact, bound, name)


@SPECS
@pytest.mark.parametrize("dtype", HALVES)
def test_half_precision_is_the_float32_sum_rounded_once(
    spec: Sinusoidal, dtype: torch.dtype
) -> None:
    x = torch.randn(4, 300, 8, generator=torch.Generator().manual_seed(1)).to(dtype)
    assert_same(reference(x, spec), reference(x.float(), spec).to(dtype))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, *HALVES])
@pytest.mark.parametrize("default", [torch.float32, torch.float64])
def test_output_has_the_dtype_of_the_input(dtype: torch.dtype, default: torch.dtype) -> None:
    want = reference(X.to(dtype))
    torch.set_default_dtype(default)
    try:
        got = cold()(X.to(dtype))
    finally:
        torch.set_default_dtype(torch.float32)
    assert got.dtype == dtype
    assert_same(got, want)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_autocast_changes_nothing(dtype: torch.dtype) -> None:
    x = X.to(dtype)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = cold(RICH)(x)
    assert_same(got, reference(x, RICH))


def test_inputs_are_not_written_to() -> None:
    x, positions, offset = X.clone(), POSITIONS.clone(), torch.tensor([3, 4])
    module = PositionTable(RICH, dropout=0.5).train()
    for y in (module(x, positions), module(x, offset=offset), cold()(x)):
        assert y.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()
    for kept, was in ((x, X), (positions, POSITIONS), (offset, torch.tensor([3, 4]))):
        assert kept._version == 0
        assert_same(kept, was)


# --- positions ------------------------------------------------------------------------------------


def rows(positions: Tensor, spec: Sinusoidal = PLAIN) -> Tensor:
    return torch.as_tensor(posenc.table(spec, positions.numpy()))


def test_positions_of_every_shape() -> None:
    module, heads = cold(), torch.randn(2, 3, 5, 8)
    one = torch.tensor([4, 0, -3, 9, 2**40])
    full = torch.arange(30).reshape(2, 3, 5) * 1001
    assert_same(module(X), X + rows(torch.arange(5)))
    assert_same(module(X, one), X + rows(one))
    assert_same(module(X, POSITIONS), X + rows(POSITIONS))
    assert_same(module(heads, one), heads + rows(one))
    assert_same(module(heads, POSITIONS), heads + rows(POSITIONS)[:, None])
    assert_same(module(heads, full), heads + rows(full))
    assert_same(module(heads, full[:, :1]), heads + rows(full[:, :1]))
    assert_same(module(X[0], one), X[0] + rows(one))


def test_offsets() -> None:
    module = cold()
    assert_same(module(X, offset=7), module(X, torch.arange(7, 12)))
    assert_same(module(X, offset=torch.tensor(7)), module(X, torch.arange(7, 12)))
    each = torch.tensor([3, 2**33])
    assert_same(module(X, offset=each), module(X, each[:, None] + torch.arange(5)))
    assert_same(module(X, offset=each.to(torch.int64)), module(X, offset=[3, 2**33]))


def test_position_ids_is_another_name_for_positions() -> None:
    assert_same(cold()(X, position_ids=POSITIONS), cold()(X, POSITIONS))


SMALL = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.uint16, torch.uint32)


@pytest.mark.parametrize("dtype", SMALL)
def test_every_integer_dtype_gives_the_same_rows(dtype: torch.dtype) -> None:
    positions = torch.tensor([0, 1, 2, 100, 127])
    assert_same(cold()(X, positions.to(dtype)), cold()(X, positions))
    assert_same(cold()(X, offset=positions[3:].to(dtype)), cold()(X, offset=positions[3:]))


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, *HALVES, torch.bool, torch.uint64, torch.complex64]
)
def test_positions_that_lose_their_meaning_are_refused(dtype: torch.dtype) -> None:
    with pytest.raises(posenc.DTypeError, match="positions"):
        cold()(X, torch.arange(5).to(dtype))
    with pytest.raises(posenc.DTypeError, match="offset"):
        cold()(X, offset=torch.arange(2).to(dtype))


@pytest.mark.parametrize("shape", [(6,), (4,), (2, 6), (3, 5), (1, 1, 5), (2, 5, 1), ()])
def test_positions_that_fit_no_token_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(posenc.ArgumentError, match="positions: expected shape"):
        cold()(X, torch.zeros(shape, dtype=torch.int64))


def test_positions_given_twice_are_refused() -> None:
    with pytest.raises(posenc.ArgumentError, match="positions or position_ids"):
        cold()(X, POSITIONS, position_ids=POSITIONS)
    with pytest.raises(posenc.ArgumentError, match="positions or offset"):
        cold()(X, POSITIONS, offset=1)
    with pytest.raises(posenc.ArgumentError, match="positions or offset"):
        cold()(X, position_ids=POSITIONS, offset=1)


def test_positions_that_would_wrap_are_refused() -> None:
    with pytest.raises(posenc.PositionError):
        cold()(X, offset=2**63 - 3)
    with pytest.raises(posenc.PositionError):
        cold()(X, offset=torch.tensor([0, 2**63 - 3]))
    with pytest.raises(posenc.PositionError):
        cold()(X, [0, 1, 2, 3, 2**63])


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64])
def test_inputs_that_are_no_floats_are_refused(dtype: torch.dtype) -> None:
    with pytest.raises(posenc.DTypeError, match="floating"):
        cold()(X.to(dtype))


def test_inputs_of_another_width_are_refused() -> None:
    with pytest.raises(posenc.ArgumentError, match="8"):
        cold()(torch.zeros(2, 5, 6))


def test_arguments_of_the_module_are_checked_at_once() -> None:
    with pytest.raises(posenc.ArgumentError, match="Construct it first"):
        PositionTable(Sinusoidal)  # type: ignore[arg-type]
    with pytest.raises(posenc.ArgumentError, match="Sinusoidal"):
        PositionTable(512)  # type: ignore[arg-type]
    with pytest.raises(posenc.ArgumentError, match="dropout"):
        PositionTable(PLAIN, dropout=1.5)
    with pytest.raises(posenc.ArgumentError, match="seq_dim"):
        PositionTable(PLAIN, seq_dim=-1)


# --- layouts --------------------------------------------------------------------------------------


def test_sequence_axis_before_the_heads() -> None:
    x = torch.randn(2, 5, 3, 8)
    swapped = reference(x.transpose(1, 2), positions=POSITIONS).transpose(1, 2)
    assert_same(cold(seq_dim=-3)(x, POSITIONS), swapped)
    assert_same(
        cold(seq_dim=-3)(x, offset=4), reference(x.transpose(1, 2), offset=4).transpose(1, 2)
    )


def test_memory_in_any_order() -> None:
    x = torch.randn(8, 5, 4).permute(2, 1, 0)[::2]
    positions = POSITIONS.T.contiguous().T
    assert not x.is_contiguous()
    assert not positions.is_contiguous()
    want = reference(x.contiguous(), positions=POSITIONS)
    assert_same(cold()(x, positions), want)
    assert_same(cold()(x.expand(3, 2, 5, 8)), reference(x.contiguous()).expand(3, 2, 5, 8))


@pytest.mark.parametrize("shape", [(0, 5, 8), (2, 0, 8), (0, 0, 8), (0, 8)])
def test_nothing_in_nothing_out(shape: tuple[int, ...]) -> None:
    x = torch.empty(shape)
    assert cold()(x).shape == shape
    assert cold()(x, torch.empty(shape[-2], dtype=torch.int64)).shape == shape
    assert cold()(x, offset=3).shape == shape


def test_several_axes() -> None:
    spec = Sinusoidal(8, arrangement=Arrangement(rule="axial", axes=("h", "w")))
    grid = torch.cartesian_prod(torch.arange(2), torch.arange(3))
    x = torch.randn(4, 6, 8)
    assert_same(PositionTable(spec)(x, grid), x + rows(grid, spec))


# --- training -------------------------------------------------------------------------------------


@SPECS
def test_gradient(spec: Sinusoidal) -> None:
    x = X[:1, :3].double().requires_grad_()
    assert torch.autograd.gradcheck(cold(spec), (x,))
    assert torch.autograd.gradgradcheck(cold(spec), (x,))


def test_dropout_acts_on_the_sum_and_in_training_only() -> None:
    module, whole = PositionTable(PLAIN, dropout=0.25), reference(X)
    assert_same(module.eval()(X), whole)
    torch.manual_seed(0)
    y = module.train()(X)
    dropped = y == 0
    assert 0 < int(dropped.sum()) < y.numel() / 2
    torch.testing.assert_close(y[~dropped], (whole / 0.75)[~dropped])
    assert_same(PositionTable(PLAIN).train()(X), whole)


def test_inference_mode_then_training() -> None:
    module = cold(RICH, kernel="reference")
    with torch.inference_mode():
        before = module(X)
    cached = [v for made in module.spec.device_arrays.values() for v in made.values()]
    assert cached
    assert not any(v.is_inference() for v in cached)
    linear = nn.Linear(8, 8)
    module.train()(linear(X)).square().sum().backward()
    assert linear.weight.grad is not None
    assert_same(before.clone(), reference(X, RICH))


def test_activation_checkpointing() -> None:
    from torch.utils.checkpoint import checkpoint

    x = X.clone().requires_grad_()
    checkpoint(cold(), x, use_reentrant=False).square().sum().backward()
    assert_same(x.grad, 2 * reference(X))


# --- life of a module -----------------------------------------------------------------------------


def test_nothing_is_stored() -> None:
    module = cold()
    module(X)
    assert list(module.state_dict()) == []
    assert list(module.buffers()) == []
    assert list(module.parameters()) == []
    model = nn.Sequential(nn.Linear(8, 8), module)
    assert set(model.state_dict()) == {"0.weight", "0.bias"}


CONVERSIONS: dict[str, Callable[[PositionTable], nn.Module]] = {
    "bfloat16": lambda m: m.bfloat16(),
    "half": lambda m: m.half(),
    "float64": lambda m: m.to(torch.float64),
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
    "pickle": lambda m: pickle.loads(pickle.dumps(m)),
    "share_memory": lambda m: m.share_memory(),
    "requires_grad": lambda m: m.requires_grad_(requires_grad=False),
}


@pytest.mark.parametrize("used", ["cold", "warm"])
@pytest.mark.parametrize("how", CONVERSIONS)
def test_results_survive(how: str, used: str) -> None:
    module = cold(RICH)
    if used == "warm":
        module(X)
    again = CONVERSIONS[how](module)
    assert_same(again(X, POSITIONS), reference(X, RICH, positions=POSITIONS))
    assert again.spec == RICH


def test_meta_then_to_empty() -> None:
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(8, 8), PositionTable(copy.deepcopy(RICH)))
        assert model(X.to("meta")).device.type == "meta"
    model = model.to_empty(device="cpu")
    for stored in (*model.parameters(), *model.buffers()):
        nn.init.constant_(stored, float("nan"))  # as fresh memory may well be
    assert_same(model[1](X), reference(X, RICH))


@pytest.mark.parametrize("order", ["meta first", "cpu first"])
def test_one_module_on_two_devices(order: str) -> None:
    module = cold()
    for x in (X.to("meta"), X) if order == "meta first" else (X, X.to("meta")):
        assert module(x).device == x.device
    assert_same(module(X), reference(X))


def test_a_pickle_holds_the_spec_and_little_else() -> None:
    module = cold(Sinusoidal(4096))
    module(torch.zeros(1, 2, 4096))
    assert len(pickle.dumps(module)) < 2000
    assert copy.deepcopy(module).spec.device_arrays == {}


def test_weights_travel() -> None:
    def model() -> nn.Sequential:
        return nn.Sequential(nn.Linear(8, 8), PositionTable(copy.deepcopy(RICH)))

    one, two = model(), model()
    one(X)
    file = io.BytesIO()
    torch.save(one.state_dict(), file)
    file.seek(0)
    two.load_state_dict(torch.load(file, weights_only=True), strict=True)
    assert_same(two(X), one(X))


# --- constants on devices -------------------------------------------------------------------------


@pytest.fixture
def makings(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The devices that constants were made for, one entry for each time."""
    devices: list[Any] = []
    make = array_torch._made

    def noted(spec: Any, device: Any) -> Any:
        devices.append(device)
        return make(spec, device)

    monkeypatch.setattr(array_torch, "_made", noted)
    return devices


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.costly
def test_constants_are_made_once_for_each_device(makings: list[Any]) -> None:
    module = cold(kernel="reference")
    compiled, _ = counted(module)
    for _ in range(3):
        module(X)
        module(X, POSITIONS)
        compiled(X)
        module(X.bfloat16().to("meta"))
    assert sorted(map(str, makings)) == ["cpu", "meta"]
    copy.deepcopy(module)(X)
    assert len(makings) == 3


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize("used", ["cold", "warm"])
@pytest.mark.costly
def test_a_compiled_graph_holds_no_numbers_to_copy(used: str) -> None:
    graphs = []

    def look(graph: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
        graphs.append(graph)
        return graph.forward

    module = cold()
    if used == "warm":
        module(X)
    assert_same(torch.compile(module, backend=look, fullgraph=True)(X), reference(X))
    called = {node.target for graph in graphs for node in graph.graph.nodes}
    assert called.isdisjoint({torch.tensor, torch.as_tensor, torch.asarray})
    assert [list(made) for made in module.spec.device_arrays.values()] == [["step"]]


# --- tracing --------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["fake first", "eager first"])
def test_fake_tensors(order: str) -> None:
    module, mode = cold(RICH), FakeTensorMode()
    if order == "eager first":
        module(X)
    kept = dict(module.spec.device_arrays)
    with mode:
        for x in (torch.empty(2, 5, 8), mode.from_tensor(X)):
            assert module(x, offset=torch.tensor([1, 2])).shape == (2, 5, 8)
            assert module(x, torch.arange(5)).shape == (2, 5, 8)
            assert module(x).dtype == torch.float32
    assert dict(module.spec.device_arrays) == kept
    assert_same(module(X), reference(X, RICH))
    with FakeTensorMode():
        assert module(torch.empty(3, 4, 8)).shape == (3, 4, 8)


def test_a_fake_mode_around_real_positions_leaves_nothing_behind() -> None:
    spec, positions = copy.deepcopy(PLAIN), torch.arange(3)
    with FakeTensorMode():
        made = array_torch.constants(spec, positions)
    assert type(made["step"]) is not Tensor
    assert spec.device_arrays == {}


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_make_fx(mode: str) -> None:
    module, other = cold(RICH), POSITIONS.flip(1)
    graph = make_fx(lambda x, p: module(x, p), tracing_mode=mode)(X, POSITIONS)
    assert_same(graph(X, other), reference(X, RICH, positions=other))
    graph = make_fx(lambda x, o: module(x, offset=o), tracing_mode=mode)(X, torch.tensor([3, 4]))
    x = torch.cat([X, X], dim=1) if mode == "symbolic" else X
    each = torch.tensor([2**33, 4])
    assert_same(graph(x, each), reference(x, RICH, offset=each))
    assert_same(module(X), reference(X, RICH))


@pytest.mark.costly
def test_make_fx_with_a_symbolic_offset() -> None:
    graph = make_fx(lambda x, o: cold()(x, offset=o), tracing_mode="symbolic")(X, 3)
    assert_same(graph(X, 2**33), reference(X, offset=2**33))


def test_vmap_and_grad() -> None:
    module, each = cold(RICH), torch.tensor([3, 2**33])
    assert_same(torch.vmap(module)(X), reference(X, RICH))
    assert_same(torch.vmap(module)(X, POSITIONS), reference(X, RICH, positions=POSITIONS))
    offset = torch.vmap(lambda x, o: module(x, offset=o))
    assert_same(offset(X, each), reference(X, RICH, offset=each))
    slope = torch.vmap(torch.func.grad(lambda x: module(x).square().sum() / 2))(X)
    torch.testing.assert_close(slope, reference(X, RICH) * RICH.embedding_scale)
    _, tangent = torch.func.jvp(module, (X,), (torch.ones_like(X),))
    torch.testing.assert_close(tangent, torch.full_like(X, RICH.embedding_scale))
    assert_same(module(X), reference(X, RICH))


# --- compile --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.costly
def test_six_lengths_compile_at_most_two_frames() -> None:
    compiled, counter = counted(cold())
    for length in (5, 6, 7, 9, 3, 1200):
        x = torch.randn(2, length, 8)
        assert_same(compiled(x), reference(x))
    assert counter.frame_count <= 2


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.costly
def test_marked_dynamic_compiles_one_frame() -> None:
    compiled, counter = counted(cold())
    x = X.clone()
    torch._dynamo.mark_dynamic(x, 1)
    for y in (x, torch.randn(2, 4, 8), torch.randn(2, 90, 8)):
        assert_same(compiled(y), reference(y))
    assert counter.frame_count == 1


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.costly
def test_offsets_compile_at_most_two_frames() -> None:
    compiled, counter = counted(cold())
    for offset in (0, 3, 4, 5, 9, 100, 2**33, -7):
        assert_same(compiled(X, offset=offset), reference(X, offset=offset))
    assert counter.frame_count <= 2
    for each in ([0, 1], [7, 2**33], [-3, 5]):
        offset = torch.tensor(each)
        assert_same(compiled(X, offset=offset), reference(X, offset=offset))
    assert counter.frame_count <= 3  # tensors are another kind of argument: one more


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.costly
def test_decoding_compiles_at_most_two_frames() -> None:
    compiled, counter = counted(cold())
    for length, offset in ((5, 0), (1, 5), (1, 6), (1, 7), (1, 8)):
        x = X[:, :length]
        assert_same(compiled(x, offset=offset), reference(x, offset=offset))
    assert counter.frame_count <= 2


@pytest.mark.slow("_core", "functional", "torch")  # of some tables always: test_inductor.py
@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_compiled_bits_are_the_eager_bits(dtype: torch.dtype) -> None:
    import torch._inductor.config as inductor

    # One frame for all lengths and offsets, as each costs seconds of the C++ compiler.
    compiled = torch.compile(cold(RICH), fullgraph=True, dynamic=True)
    x = torch.randn(2, 1030, 8, generator=torch.Generator().manual_seed(2))
    with inductor.patch(compile_threads=1):  # a pool of processes starts slowly
        for length, offset in ((1030, 2**31 - 515), (1029, 2**40), (130, 4), (130, -77)):
            y = x[:, :length].to(dtype).contiguous()
            assert_same(compiled(y, offset=offset), reference(y, RICH, offset=offset))


@pytest.mark.slow("_core", "functional", "kernels")
@pytest.mark.usefixtures("fresh_dynamo")
def test_gradients_of_compiled_code_are_the_eager_ones() -> None:
    import torch._inductor.config as inductor

    y = X.clone().requires_grad_()
    with inductor.patch(compile_threads=1):
        torch.compile(cold(RICH), fullgraph=True, dynamic=True)(y).square().sum().backward()
    torch.testing.assert_close(y.grad, 2 * RICH.embedding_scale * reference(X, RICH))


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize(
    "dynamic", [None, pytest.param(True, marks=pytest.mark.slow("torch", "functional"))]
)
@pytest.mark.costly
def test_several_specs_in_one_function(dynamic: bool | None) -> None:
    one, two, classic = cold(), cold(RICH), cold(Sinusoidal(8, phase="float32"))

    def model(x: Tensor) -> Tensor:
        return classic(two(one(x), offset=3))

    compiled = torch.compile(model, backend="eager", fullgraph=True, dynamic=dynamic)
    for length in (5, 4):
        x = X[:, :length].contiguous()
        assert_same(compiled(x), model(x))


class Int64(int):
    """An int64 whose overflow is an error; left shifts drop bits, as compilers cast for them."""

    @staticmethod
    def checked(operation: str) -> Callable[[int, int], Int64]:
        def result(a: int, b: int) -> Int64:
            value = getattr(int, operation)(int(a), int(b))
            assert -(2**63) <= value < 2**63, f"{operation} of {a} and {b} overflows"
            return Int64(value)

        return result

    def __lshift__(self, bits: int) -> Int64:
        return Int64((int(self) << bits) + 2**63 & 2**64 - 1) + -(2**63)


for _name in ("add", "sub", "mul", "and", "or", "xor", "rshift"):
    for _side in ("", "r"):
        setattr(Int64, f"__{_side}{_name}__", Int64.checked(f"__{_side}{_name}__"))

FAR = (0, 1, -1, 2**31, -(2**31), 2**32 - 1, -(2**32) + 1, 2**63 - 1, -(2**63), 0x7FFFFFFF80000000)


@pytest.mark.parametrize("axes", [1, 3])
@pytest.mark.costly
def test_compiled_phases_never_overflow(axes: int) -> None:
    """In C++ that Inductor writes an overflow may give any number, and has given wrong ones."""
    rng = np.random.default_rng(axes)
    some = [*FAR, *map(int, rng.integers(-(2**63), 2**63 - 1, size=22, endpoint=True))]

    def draw(*shape: int) -> np.ndarray:
        return np.vectorize(lambda i: Int64(some[i]), otypes=[object])(rng.integers(0, 32, shape))

    positions, step, origin = draw(100, axes), draw(axes, 30), draw(30)
    got = phase.turns(positions, words(step), words(origin))
    p, s, o = (x.astype(np.int64).view(np.uint64) for x in (positions, step, origin))
    wide = (p @ s + o).view(np.int64)  # unsigned integers wrap around
    np.testing.assert_array_equal(got.astype(np.int64), wide)
    quadrant, residual = phase.quadrants(got)
    want = phase.quadrants(wide)
    np.testing.assert_array_equal(quadrant.astype(np.int64), want[0])
    np.testing.assert_array_equal(residual.astype(np.int64), want[1])


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.costly
def test_verbs_compile_with_a_spec_from_outside() -> None:
    spec = copy.deepcopy(PLAIN)

    def verbs(x: Tensor, positions: Tensor) -> tuple[Tensor, ...]:
        return (
            posenc.add(spec, x, positions=positions),
            posenc.table(spec, positions, dtype=torch.float64),
            posenc.table(spec, x.shape[1], xp=torch, dtype="bfloat16", batch_dim=True),
        )

    compiled, counter = counted(verbs)
    for length in (5, 4, 3):
        x, positions = X[:, :length], POSITIONS[:, :length]
        for got, want in zip(compiled(x, positions), verbs(x, positions), strict=True):
            assert_same(got, want)
    assert counter.frame_count <= 2


@pytest.mark.costly
@pytest.mark.usefixtures("fresh_dynamo")
def test_mistakes_are_explained_under_compile_too() -> None:
    compiled, _ = counted(cold())
    with pytest.raises(Exception, match=r"expected an? .*float"):
        compiled(X.to(torch.int64))


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.costly
def test_specs_made_inside_are_constants_of_the_graph() -> None:
    """Numbers that the compiler would leave open are fixed; refusals keep their words."""

    def function(x: Tensor, base: float, step: int) -> tuple[Tensor, Sinusoidal]:
        start = Arrangement(start=step)
        spec = Sinusoidal(x.shape[-1], base=base, arrangement=start)
        assert spec.replace(base=500.0).base == 500
        return posenc.add(spec, x), spec

    compiled, counter = counted(function)
    for base, step in ((1e4, 1), (500.0, 1), (600.0, 3), (1e4, 1)):
        got, spec = compiled(X, base, step)
        want = Sinusoidal(8, base=base, arrangement=Arrangement(start=step))
        assert spec == want
        assert copy.deepcopy(spec) == pickle.loads(pickle.dumps(spec)) == want
        assert_same(got, reference(X, want))
    assert counter.frame_count == 3
    with pytest.raises(Exception, match="expected a number, got 'wide'"):
        counted(lambda x: posenc.add(Sinusoidal(8, base="wide"), x))[0](X)


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.costly
def test_specs_made_after_a_broken_graph() -> None:
    """What then runs in eager mode is offered to the compiler frame by frame, and is left alone."""

    def function(x: Tensor) -> Tensor:
        torch._dynamo.graph_break()
        return posenc.add(Sinusoidal(8, base=321.0), x)

    compiled = torch.compile(function, backend="eager")
    assert_same(compiled(X), reference(X, Sinusoidal(8, base=321.0)))


# --- export ---------------------------------------------------------------------------------------


class Decoder(nn.Module):
    """Positions from zero, and from an offset that is an input of the exported program."""

    def __init__(self) -> None:
        super().__init__()
        self.rich, self.plain = cold(RICH), cold()

    def forward(self, x: Tensor, offset: int) -> tuple[Tensor, Tensor]:
        return self.rich(x), self.plain(x, offset=offset)


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize("strict", [True, False], ids=["strict", "non-strict"])
@pytest.mark.costly
def test_export(strict: bool) -> None:
    shapes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length")}
    decoder = Decoder()
    program = torch.export.export(
        decoder, (X, 3), dynamic_shapes=(shapes, torch.export.Dim.DYNAMIC), strict=strict
    )
    assert decoder.rich.spec.device_arrays == decoder.plain.spec.device_arrays == {}
    assert list(program.state_dict) == []
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    loaded = torch.export.load(file).module()
    x = torch.randn(3, 1100, 8)
    for y, offset in ((x, 2**33), (x[:1, :7], 2)):
        whole, decoded = loaded(y, offset)
        assert_same(whole, reference(y, RICH))
        assert_same(decoded, reference(y, offset=offset))
        assert_same(decoder.rich(y), reference(y, RICH))  # eager after export
