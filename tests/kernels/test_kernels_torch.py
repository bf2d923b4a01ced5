# ruff: noqa: E402 - torch may be absent, and is asked for first
"""Kernels among torch's machinery: gradients, writing in place, operators, and who is looking."""

from __future__ import annotations

import copy
import importlib
import io
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx

import posenc
from posenc import Arrangement, Pairing, RoPE, Sinusoidal, scaling as s
from posenc._core.spec.spec import to_json
from posenc.kernels.cpu import Cpu
from posenc.torch import AttentionBias, PositionTable, RotaryEmbedding

ABSENT = Cpu().absent()
pytestmark = [
    pytest.mark.skipif(ABSENT is not None, reason=f"no compiled kernels: {ABSENT}"),
    # torch's compiler imports parts of torch that torch itself deprecates.
    pytest.mark.filterwarnings("ignore:`?torch.jit:DeprecationWarning"),
]

SPEC = RoPE(
    8,
    pairing=Pairing("interleaved", part="trailing", output="half", direction="backward"),
    scaling=s.YaRN(4, original_length=64),
    arrangement=Arrangement(start=2),
)
TABLE = Sinusoidal(8, magnitude=posenc.Magnitude(embedding_scale="sqrt_dim", table_scale=0.5))
GENERATOR = torch.Generator().manual_seed(0)
Q = torch.randn(2, 4, 5, 10, generator=GENERATOR)
K = torch.randn(2, 2, 5, 10, generator=GENERATOR)
X = torch.randn(2, 5, 8, generator=GENERATOR)
IDS = torch.tensor([[0, 1, 2, 3, 2**31 - 1], [7, 5, 90, 0, 1]])
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
ROTATE = (IDS[:, None, :, None], to_json(SPEC), -2, False, False)
ADD = (IDS[:, :, None], to_json(TABLE), -2)


def operators() -> Any:
    importlib.import_module("posenc.kernels.torch.operators")
    return torch.ops.posenc


def cold(**options: Any) -> RotaryEmbedding:
    return RotaryEmbedding(copy.deepcopy(SPEC), **options)


def assert_same(got: Any, want: Any) -> None:
    for a, b in zip(got, want, strict=True):
        assert a.dtype == b.dtype
        torch.testing.assert_close(a, b, rtol=0, atol=0)


def reference(*inputs: Tensor, **how: Any) -> tuple[Tensor, ...]:
    return tuple(posenc.rotate(SPEC, x, kernel="reference", **how) for x in inputs)


@pytest.fixture
def fresh_dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


# --- the direct way -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("inplace", [False, True])
def test_one_call_after_another(dtype: torch.dtype, inplace: bool) -> None:
    """The second call of a module goes a shorter way than the first."""
    module = cold(inplace=inplace)
    for how in (
        {},
        {"offset": 7},
        {"positions": IDS},
        {"positions": IDS[0]},
        {"offset": IDS[:, 0]},
    ):
        want = reference(Q.to(dtype), K.to(dtype), **how)
        for _ in range(2):
            q, k = Q.to(dtype, copy=True), K.to(dtype, copy=True)
            got = module(q, k, **how)
            assert (got[0] is q, got[1] is k) == (inplace, inplace)
            assert_same(got, want)


def test_errors_are_the_same_on_the_short_way() -> None:
    module = cold()
    module(Q, K)
    for call, error, message in (
        (lambda: module(Q, K, torch.arange(6)), posenc.ArgumentError, r"shape \(6,\)"),
        (lambda: module(Q, K, IDS[:, :1]), posenc.ArgumentError, r"shape \(2, 1\)"),
        (lambda: module(Q, K[:, :, :4], IDS), posenc.ArgumentError, "shape"),
        (lambda: module(Q[..., :6], K), posenc.ArgumentError, "at least 8 channels"),
        (lambda: module(Q, K, IDS, offset=1), posenc.ArgumentError, "positions or offset"),
        (lambda: module(Q, K, IDS.double()), posenc.DTypeError, "positions"),
        (lambda: module(Q.long(), K), posenc.DTypeError, "floating"),
        (lambda: module(Q, K, offset=2**63), posenc.PositionError, "an offset from"),
        (lambda: module(Q, K, offset=True), posenc.DTypeError, "bool"),
    ):
        with pytest.raises(error, match=message):
            call()


def test_inputs_of_two_dtypes() -> None:
    assert_same(cold()(Q, K.bfloat16(), IDS), reference(Q, K.bfloat16(), positions=IDS))


def test_writing_is_announced() -> None:
    """Whoever saved a tensor for its backward learns that it has changed."""
    module = cold(inplace=True)
    for _ in range(2):
        q, k = Q.clone(), K.clone()
        module(q, k)
        assert (q._version, k._version) == (1, 1)
    with torch.inference_mode():
        q, k = Q.clone(), K.clone()
        assert_same(module(q, k), reference(Q, K))
    x = torch.tanh(nn.Linear(10, 10)(Q))
    with torch.no_grad():
        posenc.rotate(SPEC, x, inplace=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        x.sum().backward()


def test_negative_views_are_read_as_they_are() -> None:
    negative = torch.imag(torch.complex(Q, Q).conj())
    posenc.rotate(SPEC, Q)  # from here on the spec may go the short way
    assert negative.is_neg()
    assert_same((posenc.rotate(SPEC, negative),), reference(-Q))
    with pytest.raises(posenc.ArgumentError, match="negative view"):
        posenc.rotate(SPEC, negative, kernel="cpu")


# --- gradients ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize(
    "how", [{}, {"positions": IDS}, {"cu_seqlens": torch.tensor([0, 2, 5])}], ids=str
)
def test_gradients_are_those_of_the_reference(
    dtype: torch.dtype, inverse: bool, how: dict[str, Any]
) -> None:
    upstream = torch.randn(Q.shape, generator=GENERATOR).to(dtype)

    def gradient(kernel: Any, inplace: bool) -> Tensor:
        x = Q.to(dtype, copy=True).requires_grad_()
        y = posenc.rotate(SPEC, x * 1, kernel=kernel, inverse=inverse, inplace=inplace, **how)
        (found,) = torch.autograd.grad(y, x, upstream)
        return found

    want = gradient("reference", False)
    for inplace in (False, True):
        # Autograd rounds the products of the reference one by one in half precision.
        bound = 0 if dtype == torch.float32 else 2.0**-6
        torch.testing.assert_close(gradient("cpu", inplace), want, rtol=bound, atol=bound)


@pytest.mark.parametrize("inplace", [False, True])
def test_second_derivatives(inplace: bool) -> None:
    """In float32, which the kernels have, against the reference's."""
    q = Q.clone().requires_grad_()
    upstream = torch.randn(Q.shape, generator=GENERATOR, requires_grad=True)

    def second(kernel: Any) -> Any:
        y = posenc.rotate(SPEC, q * 1, kernel=kernel, inplace=inplace, positions=IDS)
        (first,) = torch.autograd.grad(y.sin().sum(), q, create_graph=True)
        return torch.autograd.grad((first * upstream).sum(), (q, upstream))

    for got, want in zip(second("cpu"), second("reference"), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-6)


def test_batched_gradients() -> None:
    q = Q.clone().requires_grad_()
    y = posenc.rotate(SPEC, q, positions=IDS, kernel="cpu")
    many = torch.randn(3, *Q.shape, generator=GENERATOR)
    (got,) = torch.autograd.grad(y, q, many, is_grads_batched=True, retain_graph=True)
    want = [torch.autograd.grad(y, q, g, retain_graph=True)[0] for g in many]
    assert_same(got, want)


def test_expanded_gradients() -> None:
    q = Q.clone().requires_grad_()
    (got,) = torch.autograd.grad(posenc.rotate(SPEC, q, kernel="cpu").sum(), q)
    (want,) = torch.autograd.grad(posenc.rotate(SPEC, q, kernel="reference").sum(), q)
    assert_same((got,), (want,))


@pytest.mark.costly
def test_forward_mode_goes_to_the_reference() -> None:
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(Q, K.repeat(1, 2, 1, 1))
        tangent = forward_ad.unpack_dual(posenc.rotate(SPEC, dual, positions=IDS)).tangent
        with pytest.raises(posenc.ArgumentError, match="forward-mode"):
            posenc.rotate(SPEC, dual, positions=IDS, kernel="cpu")
    torch.testing.assert_close((tangent,), reference(K.repeat(1, 2, 1, 1), positions=IDS))


def test_the_gradient_of_a_sum() -> None:
    for dtype in DTYPES:
        x = X.to(dtype, copy=True).requires_grad_()
        upstream = torch.randn(X.shape, generator=GENERATOR).to(dtype)
        got, want = (
            torch.autograd.grad(posenc.add(TABLE, x, kernel=kernel), x, upstream)
            for kernel in ("cpu", "reference")
        )
        assert_same(got, want)


# --- in place -------------------------------------------------------------------------------------

SOURCES: dict[str, Callable[[], Tensor]] = {
    "linear": lambda: nn.Linear(10, 10)(Q),
    "view and transpose": lambda: nn.Linear(10, 40)(X @ torch.ones(8, 10)).view(2, 5, 4, 10).mT.mT,
    "slice of a fused projection": lambda: nn.Linear(10, 30)(Q)[..., 10:20],
    "norm": lambda: nn.functional.rms_norm(nn.Linear(10, 10)(Q), (10,)),
}
REFUSED: dict[str, tuple[Callable[[], Tensor], str]] = {
    "leaf": (lambda: Q.clone().requires_grad_(), "got a leaf.*optimiser"),
    "view of a leaf": (lambda: Q.clone().requires_grad_()[:, :2], "got a leaf"),
    "expanded": (lambda: torch.randn(1, 1, 1, 10).expand(2, 4, 5, 10), "expanded view.*contiguous"),
    "expanded, with gradient": (
        lambda: nn.Linear(10, 10)(torch.randn(1, 1, 5, 10)).expand(2, 4, 5, 10),
        "expanded view",
    ),
    "chunk": (lambda: nn.Linear(10, 20)(Q).chunk(2, dim=-1)[0], "Slices can be written in place"),
    "split": (lambda: nn.Linear(10, 20)(Q).split(10, dim=-1)[1], "chunk, split and unbind"),
    "unbind": (lambda: nn.Linear(10, 10)(Q.expand(3, *Q.shape)).unbind(0)[1], "such a view"),
}


@pytest.mark.parametrize("source", SOURCES)
def test_sources_that_may_be_overwritten(source: str) -> None:
    def gradients(kernel: Any, inplace: bool) -> list[Tensor]:
        torch.manual_seed(0)
        q = SOURCES[source]()
        seen = {"q": q}
        y = posenc.rotate(SPEC, q, kernel=kernel, inplace=inplace)
        assert (y is seen["q"]) == inplace
        leaves: list[Any] = []

        def walk(node: Any) -> None:
            for child, _ in node.next_functions:
                if child is not None:
                    if hasattr(child, "variable"):
                        leaves.append(child.variable)
                    walk(child)

        walk(y.grad_fn)
        distinct = list({id(leaf): leaf for leaf in leaves}.values())
        return list(torch.autograd.grad(y.square().sum(), distinct))

    for a, b in zip(gradients("cpu", True), gradients("reference", False), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("source", REFUSED)
@pytest.mark.parametrize("kernel", ["cpu", "auto", "reference"])
def test_sources_that_may_not_be_overwritten(source: str, kernel: Any) -> None:
    make, message = REFUSED[source]
    x = make()
    before = x.detach().clone()
    with pytest.raises(posenc.ArgumentError, match=message):
        posenc.rotate(SPEC, x, inplace=True, kernel=kernel)
    torch.testing.assert_close(x.detach(), before, rtol=0, atol=0)


def test_a_saved_output_fails_in_its_backward() -> None:
    q = torch.tanh(nn.Linear(10, 10)(Q))
    turned = posenc.rotate(SPEC, q, inplace=True, kernel="cpu")
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        turned.sum().backward()


def test_chunks_may_be_overwritten_where_nothing_is_learned() -> None:
    whole = torch.randn(2, 4, 5, 20)
    one, two = whole.chunk(2, dim=-1)
    (want,), kept = reference(one), two.clone()
    posenc.rotate(SPEC, one, inplace=True, kernel="cpu")
    assert_same((one, two), (want, kept))


# --- operators ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rotate", "rotate_", "add"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.costly
def test_opcheck(name: str, dtype: torch.dtype) -> None:
    """torch's own battery: schema, fake form, autograd registration, compilation."""
    operator = getattr(operators(), name)
    tests = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
    if name != "rotate_":
        tests = (*tests, "test_autograd_registration")
    x, rest = (X, ADD) if name == "add" else (Q, ROTATE)
    x = x.to(dtype, copy=True).requires_grad_(name != "rotate_")
    torch.library.opcheck(operator, (x, *rest), test_utils=tests)


def test_the_mutating_operator_guards_itself() -> None:
    q = Q.clone()
    operators().rotate_(q, *ROTATE)
    assert_same((q,), reference(Q, positions=IDS))
    assert q._version >= 1
    with pytest.raises(RuntimeError, match="without gradient"):
        operators().rotate_(Q.clone().requires_grad_() * 1, *ROTATE)


def test_operators_under_transforms() -> None:
    rotate = operators().rotate
    got = torch.vmap(lambda q: rotate(q, IDS[:1, :, None], *ROTATE[1:]))(Q)
    assert_same((got,), reference(Q, positions=IDS[0]))
    got = torch.vmap(lambda q, p: rotate(q, p, *ROTATE[1:]))(Q, IDS[:, None, :, None])
    assert_same((got,), reference(Q, positions=IDS))


@pytest.mark.parametrize("inplace", [False, True])
def test_named_kernels_under_func(inplace: bool) -> None:
    """torch.func does not know the rules of a library's operators; the verb has its own."""

    def energy(q: Tensor, kernel: Any = "cpu") -> Tensor:
        turned = posenc.rotate(SPEC, q * 1, positions=IDS[0], kernel=kernel, inplace=inplace)
        return turned.sin().sum()

    slope = torch.func.grad(energy)(Q)
    torch.testing.assert_close(slope, torch.func.grad(lambda q: energy(q, "reference"))(Q))
    each = torch.vmap(torch.func.grad(energy))(Q)
    torch.testing.assert_close(each, slope)


def test_named_kernels_under_transforms() -> None:
    """A named kernel goes by its operator, `auto` by the reference; the numbers agree."""
    for kernel in ("cpu", "auto"):
        got = torch.vmap(
            lambda q, p, kernel=kernel: posenc.rotate(SPEC, q, positions=p, kernel=kernel)
        )(Q, IDS)
        assert_same((got,), reference(Q, positions=IDS))


@pytest.mark.costly
@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize(
    ("backend", "inplace"),
    [
        ("eager", False),
        ("aot_eager", True),
        *(
            pytest.param(*row, marks=pytest.mark.slow("kernels", "torch/rotary.py"))
            for row in (("eager", True), ("aot_eager", False))
        ),
    ],
)
def test_a_named_kernel_under_the_compiler(backend: str, inplace: bool) -> None:
    """fullgraph, with gradients: the operator stands in the graph."""
    module = cold(kernel="cpu", inplace=inplace)

    def function(q: Tensor, k: Tensor) -> Any:
        return module(q * 2, k * 3, IDS)

    compiled = torch.compile(function, backend=backend, fullgraph=True)
    for grad in (False, True):
        q, k = Q.clone().requires_grad_(grad), K.clone().requires_grad_(grad)
        got = compiled(q, k)
        assert_same(got, reference(Q * 2, K * 3, positions=IDS))
        if grad:
            got[0].square().sum().backward()
            want = 4 * Q
            want[..., 2:] *= SPEC.attention_factor**2
            torch.testing.assert_close(q.grad, want * 2, rtol=1e-5, atol=1e-4)


@pytest.mark.costly
@pytest.mark.usefixtures("fresh_dynamo")
def test_a_named_kernel_exports() -> None:
    length = torch.export.Dim("length")
    program = torch.export.export(
        cold(kernel="cpu"),
        (Q, K),
        kwargs={"positions": torch.arange(5)},
        dynamic_shapes={"q": {2: length}, "k": {2: length}, "positions": {0: length}},
    )
    assert "posenc.rotate" in str(program.graph)
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    loaded = torch.export.load(file).module()
    q, k, where = torch.randn(2, 4, 90, 10), torch.randn(2, 2, 90, 10), torch.arange(90).flip(0)
    assert_same(loaded(q, k, positions=where), reference(q, k, positions=where))


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.costly
def test_a_named_sum_under_the_compiler() -> None:
    module = PositionTable(TABLE, kernel="cpu").eval()
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    assert_same((compiled(X, offset=3),), (posenc.add(TABLE, X, offset=3, kernel="reference"),))
    x = X.clone().requires_grad_()
    compiled(x).sum().backward()
    torch.testing.assert_close(x.grad, torch.full_like(X, TABLE.embedding_scale))


@pytest.mark.costly
def test_tracers_see_every_operation() -> None:
    """A kernel behind the back of make_fx or a fake tensor would be a constant, or a crash."""
    module = cold()
    module(Q, K)
    graph = make_fx(lambda q, k, p: module(q, k, p))(Q, K, IDS)
    assert_same(graph(K, Q, IDS.flip(1)), reference(K, Q, positions=IDS.flip(1)))
    named = make_fx(lambda q: posenc.rotate(SPEC, q, kernel="cpu"))(Q)
    assert "posenc.rotate" in named.code
    with FakeTensorMode():
        fake = posenc.rotate(SPEC, torch.empty(2, 4, 5, 10), kernel="cpu")
        assert fake.shape == Q.shape
        assert module(torch.empty(2, 4, 5, 10), torch.empty(2, 2, 5, 10))[0].shape == Q.shape
    assert_same(module(Q, K), reference(Q, K))


def test_devices_without_kernels() -> None:
    meta = posenc.rotate(SPEC, Q.to("meta"))
    assert meta.device.type == "meta"
    for kernel in ("cpu", "triton"):
        with pytest.raises(posenc.ArgumentError, match="meta|GPU|installed"):
            posenc.rotate(SPEC, Q.to("meta"), kernel=kernel)
    with torch.device("meta"):
        assert posenc.table(TABLE, 3, xp=torch).device.type == "meta"
        assert posenc.table(TABLE, torch.arange(3, device="cpu")).device.type == "cpu"


# --- modules --------------------------------------------------------------------------------------


def test_modules_take_kernels() -> None:
    """A name of none is refused when the module is made."""
    for make in (
        lambda kernel: RotaryEmbedding(SPEC, kernel=kernel),
        lambda kernel: PositionTable(TABLE, kernel=kernel),
        lambda kernel: AttentionBias(posenc.T5(2), seed=0, kernel=kernel),
    ):
        make("reference")
        with pytest.raises(posenc.ArgumentError, match="kernel: expected one of"):
            make("fast")


def test_learned_biases_learn() -> None:
    """The table of T5 needs a gradient in training, which the reference has."""
    bias = AttentionBias(posenc.T5(2))
    bias(5).sum().backward()
    assert bias.weight.grad is not None
    with torch.no_grad():
        fast, slow = (
            AttentionBias(posenc.T5(2), seed=0, kernel=k)(9) for k in ("cpu", "reference")
        )
    assert_same((fast,), (slow,))
    with pytest.raises(posenc.ArgumentError, match="need a gradient"):
        AttentionBias(posenc.T5(2), kernel="cpu")(5)


def test_plans_stay_behind() -> None:
    """What the compiled code keeps of a spec does not travel with copies."""
    module = cold()
    module(Q, K)
    assert module.spec.plans
    again = copy.deepcopy(module)
    assert not again.spec.plans
    assert again.spec == module.spec
    assert_same(again(Q, K), module(Q, K))
