# ruff: noqa: E402 - torch may be absent, and is asked for first
"""Learned tables in torch: parameters of a module like any others, and their gradients."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch import Tensor, nn
from torch._dynamo.testing import CompileCounter

import posenc
from posenc import Concatenated, Init, Learned, Lookup, Magnitude, Sinusoidal
from posenc.torch import AttentionBias, PositionTable, RelativeAttention, RotaryEmbedding

# torch's compiler imports parts of torch that torch itself deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:`?torch.jit:DeprecationWarning")

SPEC = Learned(8, length=12, start=2, pad=1, init=Init(scale=1.0))
BOXES = Learned(
    8,
    length=(3, 5),
    lookup=Lookup("concatenated", axes=("row", "column"), order=("column", "row"), sizes=(6, 2)),
    magnitude=Magnitude(learned="table_scale"),
)
SCALED = Sinusoidal(8, magnitude=Magnitude(table_scale="rsqrt_dim", learned="table_scale"))
X = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(0))
POSITIONS = torch.tensor([[0, 1, 2, 3, 11], [-1, -1, 0, 1, 2]])


def assert_same(got: Tensor, want: Tensor) -> None:
    """Raise unless dtype, shape and every bit agree; NaN agrees with NaN."""
    assert got.dtype == want.dtype
    torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)


# --- the module -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "names"),
    [
        (SPEC, ["weight"]),
        (BOXES, ["row_weight", "column_weight", "scale"]),
        (SCALED, ["scale"]),
        (Concatenated(3, table=SPEC), ["weight"]),
        (Sinusoidal(8), []),
    ],
    ids=["flat", "tables", "scale", "appended", "nothing"],
)
def test_row_15_the_state_dict_holds_what_is_learned(spec: Any, names: list[str]) -> None:
    module = PositionTable(spec, seed=4)
    assert list(module.state_dict()) == names
    assert [name for name, _ in module.named_parameters()] == names
    assert not list(module.buffers())
    for name, value in posenc.init(spec, seed=4).items():
        np.testing.assert_array_equal(module.state_dict()[name].numpy(), value)


def test_row_15_a_state_dict_travels() -> None:
    trained, fresh = PositionTable(SPEC, seed=1), PositionTable(SPEC, seed=2)
    assert not torch.equal(trained(X), fresh(X))
    file = io.BytesIO()
    torch.save(trained.state_dict(), file)
    file.seek(0)
    fresh.load_state_dict(torch.load(file, weights_only=True), strict=True)
    assert_same(fresh(X), trained(X))
    with pytest.raises(RuntimeError, match="size mismatch"):
        PositionTable(SPEC.replace(length=13)).load_state_dict(trained.state_dict())


def test_row_25_the_answer_follows_the_weights() -> None:
    module = PositionTable(SPEC, seed=0).eval()
    before = module(X)
    with torch.no_grad():
        module.weight.add_(1.0)
    torch.testing.assert_close(module(X) - before, torch.ones_like(X))
    twin = PositionTable(SPEC.replace(start=0, pad=None))
    assert_same(twin(X), X + twin.weight[:5])
    assert_same(PositionTable(SPEC, seed=0)(X), before)  # others of the same spec are not touched
    longer = PositionTable(SPEC.replace(length=20))
    assert longer(torch.zeros(1, 20, 8)).shape == (1, 20, 8)
    with pytest.raises(posenc.PositionError, match="usable length is 12"):
        module(torch.zeros(1, 20, 8))


@pytest.mark.parametrize("how", ["offset", "positions", "position_ids", "length"])
def test_row_6_the_module_names_both_numbers(how: str) -> None:
    module = PositionTable(SPEC)
    where: dict[str, Any] = {"offset": {"offset": 8}, "length": {}}.get(
        how, {how: torch.tensor([0, 1, 2, 3, 12])}
    )
    x = torch.zeros(1, 13, 8) if how == "length" else X
    with pytest.raises(posenc.PositionError, match=r"usable length is 12, got position 12"):
        module(x, **where)


def test_row_6_counted_positions_are_checked_where_no_value_can_be_read() -> None:
    # As on a GPU: nothing is copied to the host, and the length is enough to know.
    module = PositionTable(SPEC).to("meta")
    assert module(torch.zeros(1, 12, 8, device="meta")).shape == (1, 12, 8)
    with pytest.raises(posenc.PositionError, match=r"usable length is 12, got position 12"):
        module(torch.zeros(1, 13, 8, device="meta"))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_weights_are_cast_and_the_output_follows_the_input(dtype: torch.dtype) -> None:
    module = PositionTable(SPEC).to(dtype)
    assert module.weight.dtype == dtype
    for wanted in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        x = X.to(wanted)
        inner = torch.float64 if wanted == torch.float64 else torch.float32
        want = (x.to(inner) + module.weight[2:7].to(inner)).to(wanted)
        assert_same(module(x), want)


@pytest.mark.parametrize("spec", [SPEC, BOXES, SCALED], ids=["flat", "tables", "scale"])
def test_meta_then_to_empty(spec: Any) -> None:
    with torch.device("meta"):
        module = PositionTable(spec, seed=3)
    assert all(parameter.is_meta for parameter in module.parameters())
    module.to_empty(device="cpu")
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.fill_(float("nan"))  # what uninitialised memory may hold
    module.reset_parameters()
    for name, value in posenc.init(spec, seed=3).items():
        np.testing.assert_array_equal(module.state_dict()[name].numpy(), value)


def test_copies_have_weights_of_their_own() -> None:
    module = PositionTable(SPEC)
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert_same(twin(X), module(X))
        with torch.no_grad():
            twin.weight.zero_()
        assert not torch.equal(twin(X), module(X))


def test_functional_call_uses_the_parameters_it_is_given() -> None:
    module = PositionTable(SPEC)
    other = {"weight": torch.zeros_like(module.weight)}
    assert_same(torch.func.functional_call(module, other, (X,)), X)


def test_appended_in_a_model() -> None:
    spec = Concatenated(8, table=Learned(4, length=12))
    model = nn.Sequential(PositionTable(spec), nn.Linear(spec.width, 3))
    assert model(X).shape == (2, 5, 3)


def test_parameters_of_another_library_are_refused() -> None:
    params = {"weight": torch.zeros(14, 8)}
    with pytest.raises(posenc.ArgumentError, match="of numpy, as the input, got torch"):
        posenc.add(SPEC, X.numpy(), params=params)


# --- the first values, and those of some heads ----------------------------------------------------

MODULES = {
    "table": (PositionTable, SPEC, {}),
    "bias": (AttentionBias, posenc.T5(heads=8), {"heads": (2, 4)}),
    "relative": (RelativeAttention, posenc.Shaw(8, clip=3), {}),
    "rotary": (RotaryEmbedding, posenc.MixedRoPE(8, heads=4, pairing="half"), {}),
}
each_module = pytest.mark.parametrize("kind", MODULES)


def values(module: nn.Module) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in module.parameters()]


@each_module
def test_first_values_follow_the_generator_of_torch(kind: str) -> None:
    make, spec, options = MODULES[kind]

    def pair() -> list[list[Tensor]]:
        torch.manual_seed(0)
        return [values(make(spec, **options)) for _ in range(2)]

    first, second = pair()
    assert any(not torch.equal(a, b) for a, b in zip(first, second, strict=True))
    for again, before in zip(pair(), (first, second), strict=True):
        for a, b in zip(again, before, strict=True):
            assert_same(a, b)
    # A number is a pure function, and asks the generator for nothing.
    torch.manual_seed(5)
    state = torch.get_rng_state()
    one, two = (values(make(spec, seed=7, **options)) for _ in range(2))
    for a, b in zip(one, two, strict=True):
        assert_same(a, b)
    assert torch.equal(torch.get_rng_state(), state)


@each_module
def test_first_values_after_the_meta_device_follow_the_generator(kind: str) -> None:
    make, spec, options = MODULES[kind]
    torch.manual_seed(3)
    state = torch.get_rng_state()
    with torch.device("meta"):
        modules = [make(spec, **options) for _ in range(2)]
    assert torch.equal(torch.get_rng_state(), state)  # nothing was drawn for values nobody sees
    with torch.device("meta"):  # the default device of new tensors is no place to draw from
        for module in modules:
            module.to_empty(device="cpu").reset_parameters()
    torch.manual_seed(3)
    for module in modules:
        for a, b in zip(module.parameters(), values(make(spec, **options)), strict=True):
            assert_same(a.detach(), b)


def test_a_spec_that_learns_nothing_asks_the_generator_for_nothing() -> None:
    state = torch.get_rng_state()
    (
        PositionTable(Sinusoidal(8)),
        AttentionBias(posenc.ALiBi(8)),
        RotaryEmbedding(posenc.RoPE(8, pairing="half")),
    )
    assert torch.equal(torch.get_rng_state(), state)


PARTS = {
    "T5": (AttentionBias, posenc.T5(heads=8)),  # heads in the last axis
    "FIRE": (AttentionBias, posenc.FIRE(heads=8)),  # some parameters without heads
    "TISA": (AttentionBias, posenc.TISA(heads=8)),
    "TransformerXL": (RelativeAttention, posenc.TransformerXL(8, count=8, width=64)),
}


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("assign", [False, True])
def test_some_heads_take_their_slice_of_a_whole_checkpoint(name: str, assign: bool) -> None:
    make, spec = PARTS[name]
    whole = nn.ModuleDict({"layer": make(spec, seed=1)}).state_dict()
    kept = {key: value.clone() for key, value in whole.items()}
    part = nn.ModuleDict({"layer": make(spec, heads=(2, 4), seed=2)})
    assert part.load_state_dict(whole, assign=assign) == ([], [])
    expected = make(spec, heads=(2, 4), seed=1).state_dict()
    for key, value in part["layer"].state_dict().items():
        assert_same(value, expected[key])
        if value.shape != kept[f"layer.{key}"].shape:
            assert value.untyped_storage().nbytes() == value.nbytes
    for key, value in whole.items():
        assert_same(value, kept[key])
    # What its own state dict holds is loaded as it is.
    again = nn.ModuleDict({"layer": make(spec, heads=(2, 4), seed=3)})
    again.load_state_dict(part.state_dict())
    for a, b in zip(again.parameters(), part.parameters(), strict=True):
        assert_same(a.detach(), b.detach())


def test_a_checkpoint_of_other_heads_is_refused() -> None:
    part = AttentionBias(posenc.T5(heads=8), heads=(2, 4), seed=2)
    before = values(part)
    words = r"expected shape \(32, 2\), that of heads 2 to 3, or \(32, 8\), that of all heads, got"
    with pytest.raises(RuntimeError, match=words) as caught:
        part.load_state_dict(AttentionBias(posenc.T5(heads=16)).state_dict())
    assert "issing" not in str(caught.value)
    with pytest.raises(RuntimeError, match="Missing key"):
        part.load_state_dict({})
    with pytest.raises(RuntimeError, match="Unexpected key"):
        part.load_state_dict({"weight": torch.zeros(32, 8), "other": torch.zeros(1)})
    part.load_state_dict({"weight": before[0]})


# --- gradients ------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", [SPEC, BOXES, SCALED], ids=["flat", "tables", "scale"])
def test_gradients(spec: Any) -> None:
    params = {
        name: torch.tensor(value, dtype=torch.float64, requires_grad=True)
        for name, value in posenc.init(spec.replace()).items()
    }
    if len(spec.axes) == 2:
        positions = torch.tensor([[0, 4], [2, 1], [2, 1], [1, 0], [0, 0]])
    else:
        positions = torch.tensor([0, 3, 3, 11, 1])
    x = X.double().requires_grad_()

    def run(x: Tensor, *values: Tensor) -> Tensor:
        given = dict(zip(params, values, strict=True))
        return posenc.add(spec, x, params=given, positions=positions)

    assert torch.autograd.gradcheck(run, (x, *params.values()))


def test_gradients_reach_the_rows_that_were_read() -> None:
    module = PositionTable(SPEC)
    module(X, positions=POSITIONS).sum().backward()
    counts = torch.zeros(14)
    for position in POSITIONS.flatten().tolist():
        counts[position + 2] += position >= 0  # padding learns nothing
    assert_same(module.weight.grad, counts[:, None].expand(14, 8).contiguous())


def test_the_pad_row_is_read_as_it_is_stored() -> None:
    module = PositionTable(SPEC)
    assert not module.weight[1].any()
    with torch.no_grad():
        module.weight[1] = 7.0
    assert_same(module(X, positions=POSITIONS)[1, 0], X[1, 0] + 7.0)


# --- compiled, exported, transformed --------------------------------------------------------------


def compiled(module: nn.Module, counter: Any = "aot_eager", **options: Any) -> Any:
    """The whole module as one graph."""
    torch._dynamo.reset()
    return torch.compile(module, fullgraph=True, backend=counter, **options)


@pytest.mark.parametrize("spec", [SPEC, BOXES, SCALED], ids=["flat", "tables", "scale"])
@pytest.mark.costly
def test_compiled_is_eager(spec: Any) -> None:
    module = PositionTable(spec)
    where = torch.tensor([[0, 4], [2, 1], [1, 1], [1, 0], [0, 0]]) if spec is BOXES else POSITIONS
    run = compiled(module)
    got, want = run(X, positions=where), module(X, positions=where)
    assert_same(got, want)
    grads = []
    for y in (got, want):
        module.zero_grad()
        y.sum().backward()
        grads.append([p.grad.clone() for p in module.parameters()])
    for got_grad, want_grad in zip(*grads, strict=True):
        torch.testing.assert_close(got_grad, want_grad)


@pytest.mark.slow("encodings/table", "functional", "torch")
def test_compiled_with_inductor() -> None:
    module = PositionTable(SPEC)
    assert_same(
        compiled(module, "inductor")(X, positions=POSITIONS), module(X, positions=POSITIONS)
    )


@pytest.mark.costly
def test_lengths_compile_at_most_two_frames() -> None:
    counter = CompileCounter()
    run = compiled(PositionTable(SPEC), counter)
    for length in (3, 4, 5, 7, 9, 12):
        run(torch.zeros(1, length, 8))
    assert counter.frame_count <= 2


@pytest.mark.parametrize(
    "backend",
    [
        "aot_eager",  # by Inductor: test_inductor.py
        pytest.param("inductor", marks=pytest.mark.slow("encodings/table", "functional", "torch")),
    ],
)
@pytest.mark.costly
def test_positions_outside_are_nan_where_they_cannot_be_looked_at(backend: str) -> None:
    run = compiled(PositionTable(SPEC), backend)
    y = run(X, positions=torch.tensor([0, -1, -2, 12, 2**40]))
    expected = torch.tensor([False, False, True, True, True])[None, :, None].expand(2, 5, 8)
    assert_same(y.isnan(), expected.contiguous())
    y = run(torch.zeros(1, 14, 8))  # longer than the table, under the tracer
    assert_same(y.isnan().any(-1), (torch.arange(14) >= 12)[None])
    y.nan_to_num().sum().backward()


@pytest.mark.parametrize("strict", [False, True])
def test_export(strict: bool) -> None:
    module = PositionTable(SPEC).eval()
    dim = torch.export.Dim("seq", min=2, max=4096)
    program = torch.export.export(module, (X,), dynamic_shapes={"x": {1: dim}}, strict=strict)
    assert list(program.state_dict) == ["weight"]
    for length in (2, 5, 12):
        x = torch.randn(2, length, 8)
        assert_same(program.module()(x), module(x))


def test_vmap_over_tables() -> None:
    stack = torch.randn(3, 14, 8)
    got = torch.func.vmap(lambda w: posenc.table(SPEC, torch.arange(4), params={"weight": w}))(
        stack
    )
    assert_same(got, stack[:, 2:6])
