"""The Triton kernels against the array engine: integers first, then every bit. See `test_triton`.

They run on the GPU where there is one, else on the CPU in Triton's interpreter. The interpreter
cuts bfloat16 off where a GPU rounds, so there either is accepted, of the very float32 number that
the array engine has.
"""

from __future__ import annotations

import itertools
import os
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from torch import Tensor

import posenc
from posenc import Arrangement, Pairing, RoPE, Sinusoidal
from posenc._core.numeric.phase import cos_sin, quadrants, turns
from posenc.functional import rotate_together
from posenc.kernels.triton import phase as triton_phase, rotate as triton_rotate
from tests.cases import TABLES, Case, RotaryCase
from tests.drawing import drawn
from tests.kernels.test_kernels import layouts, refusal, why_not_rows, why_not_turned
from tests.rotary_cases import ROTARY

DEVICE = "cpu" if os.environ.get("TRITON_INTERPRET") == "1" else "cuda"
GENERATOR = torch.Generator().manual_seed(0)
RNG = np.random.default_rng(0)
gpu = pytest.mark.skipif(DEVICE == "cpu", reason="the interpreter runs on the CPU")
# torch's compiler warns of its own code when it is imported.
compiles = pytest.mark.filterwarnings("default")


def normal(*shape: Any) -> Tensor:
    """The same numbers on every device."""
    return torch.randn(*shape, generator=GENERATOR).to(DEVICE)


def same(got: Tensor, want: Tensor, exact: Tensor | None = None) -> None:
    """Raise unless the bits agree; for bfloat16, with the float32 result rounded or cut off."""
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    if got.dtype != torch.bfloat16 or exact is None or DEVICE == "cuda":
        torch.testing.assert_close(got, want, rtol=0, atol=0)
        return
    cut = (exact.view(torch.int32) & ~0xFFFF).view(torch.float32).to(torch.bfloat16)
    assert bool(((got == want) | (got == cut)).all())


def rotated(spec: Any, x: Tensor, kernel: Any, **how: Any) -> Tensor:
    return posenc.rotate(spec, x, kernel=kernel, **how)


# --- phases ---------------------------------------------------------------------------------------


@triton.jit
def integers(positions, steps, origins, quadrant, residual, cos, sin, pairs, LANES: tl.constexpr):
    lane = tl.arange(0, LANES)
    mask = lane < pairs
    row = tl.program_id(0)
    phase = triton_phase.turns(positions + row, 1, steps, origins, lane, mask, pairs, 1, True)
    q, r = triton_phase.quadrant_and_residual(phase)
    c, s = triton_phase.cos_sin(phase)
    tl.store(quadrant + row * pairs + lane, q, mask=mask)
    tl.store(residual + row * pairs + lane, r, mask=mask)
    tl.store(cos + row * pairs + lane, c, mask=mask)
    tl.store(sin + row * pairs + lane, s, mask=mask)


@pytest.mark.parametrize("base", [10_000.0, 1.5])
def test_integers(base: float) -> None:
    """Quadrants and residuals before any sine is taken; then cosines and sines, bit by bit."""
    spec = RoPE(24, pairing="half", base=base, arrangement=Arrangement(start=-7))
    positions = np.concatenate(
        [RNG.integers(-(2**62), 2**62, size=20), [0, 1, -1, 2**31 - 1, -(2**31), 2**63 - 1]]
    )
    step, origin = spec.arrays["step"], spec.arrays["origin"]
    with np.errstate(over="ignore"):
        want = quadrants(turns(positions[:, None], step, origin))
        wanted = cos_sin(positions[:, None], step, origin, dtype=np.float32, xp=np)
    shape = len(positions), spec.pairs
    got = [torch.empty(shape, dtype=torch.int64, device=DEVICE) for _ in range(2)]
    found = [torch.empty(shape, device=DEVICE) for _ in range(2)]
    where, steps, origins = (
        torch.from_numpy(a.copy()).to(DEVICE) for a in (positions, step[0], origin)
    )
    integers[(len(positions),)](where, steps, origins, *got, *found, spec.pairs, LANES=16)
    for a, b in zip((*got, *found), (*want, *wanted), strict=True):
        np.testing.assert_array_equal(a.cpu().numpy(), b)


@triton.jit
def places(ends, out, sequences):
    token = tl.program_id(0).to(tl.int64)
    tl.store(out + token, triton_phase.position_in_sequence(token, ends, sequences))


@pytest.mark.parametrize(
    "ends", [[0, 9], [0, 3, 9], [0, 0, 4, 4, 4, 7], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], [0]]
)
def test_packed_positions(ends: list[int]) -> None:
    """By halving; tokens past the last end count on from it."""
    out = torch.empty(9, dtype=torch.int64, device=DEVICE)
    cumulative = torch.tensor(ends, device=DEVICE)
    places[(9,)](cumulative, out, len(ends))
    assert torch.equal(out, posenc.positions.packed(cumulative, 9))


# --- rotations ------------------------------------------------------------------------------------


def launch(case: RotaryCase) -> Any:
    """What a launch depends on: the numbers of phases differ, and the way through the kernel not.

    A row that is refused is cheap, and by itself.
    """
    spec: Any = case.spec
    if why_not_turned(case) or spec.channels.blocks or spec.channels.output != "same":
        return case.name
    return spec.channels, len(spec.axes), spec.attention_factor == 1, "origin" in spec.arrays


@pytest.mark.parametrize("case", drawn(ROTARY, 1, "kernels", by=launch), ids=lambda case: case.name)
def test_every_rotation(case: RotaryCase) -> None:
    positions = torch.tensor(case.positions, device=DEVICE)
    x = normal(1, 3, len(case.positions), case.spec.dim + 1)
    spec, how = case.spec, {"positions": positions, "params": case.params}
    reason = why_not_turned(case)
    if reason is not None:
        assert reason in refusal(lambda: rotated(spec, x, "triton", **how))
        return
    if spec.channels.blocks or spec.channels.output != "same":
        assert "in blocks" in refusal(lambda: rotated(spec, x, "triton", **how))
        return
    same(rotated(spec, x, "triton", **how), rotated(spec, x, "reference", **how))


# Every layout is drawn once, in one of two ways.
WAYS = [
    (torch.float32, False, 0),
    (torch.bfloat16, True, 1),
    *(
        pytest.param(*row, marks=pytest.mark.slow("kernels"))
        for row in (
            (torch.float32, False, 1),
            (torch.bfloat16, True, 0),
            *itertools.product([torch.float16], [False, True], [0, 1]),
            *((torch.float32, True, half) for half in (0, 1)),
            *((torch.bfloat16, False, half) for half in (0, 1)),
        )
    ),
]


@pytest.mark.parametrize(("dtype", "inplace", "half"), WAYS)
def test_layouts(dtype: torch.dtype, inplace: bool, half: int) -> None:
    for spec, shape, how in layouts(tokens=3)[half::2]:
        x = normal(shape).to(dtype)
        how = {
            k: torch.as_tensor(v, device=DEVICE) if k == "positions" else v for k, v in how.items()
        }
        want = rotated(spec, x, "reference", **how)
        exact = rotated(spec, x.float(), "reference", **how)
        got = rotated(spec, x, "triton", inplace=inplace, **how)
        assert (got is x) == inplace
        same(got, want, exact)


def pairs(one: tuple[Any, Any], other: tuple[Any, Any]) -> list[Any]:
    """Pairs of choices, of which two that differ in both are drawn."""
    return [
        pytest.param(a, b, marks=() if i == j else pytest.mark.slow("kernels"))
        for (i, a), (j, b) in itertools.product(enumerate(one), enumerate(other))
    ]


@pytest.mark.parametrize(("order", "part"), pairs(("half", "interleaved"), ("leading", "trailing")))
def test_queries_and_keys_in_one_launch(
    order: Any, part: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of different head counts and widths, more heads than one program turns."""
    from posenc.torch import RotaryEmbedding

    spec = RoPE(12, pairing=Pairing(order, part=part, direction="backward"))
    q = normal(2, 12, 3, 17)
    k = normal(2, 1, 3, 13)
    ids = torch.tensor([[5, 2**31 - 1, -4], [0, 7, 1]], device=DEVICE)
    want = RotaryEmbedding(spec, kernel="reference")(q, k, ids)
    for inplace in (False, True):
        got = RotaryEmbedding(spec, kernel="triton", inplace=inplace)(q.clone(), k.clone(), ids)
        for a, b in zip(got, want, strict=True):
            same(a, b)
    # One program for all heads of a token, or for two of its four steps.
    for shapes in (((0, 8, 0, 4),), ((0, 4, 2, 4),)):
        monkeypatch.setattr(triton_rotate, "SHAPES", shapes)
        got = RotaryEmbedding(spec, kernel="triton")(q, k, ids)
        for a, b in zip(got, want, strict=True):
            same(a, b)
    # A launch takes two arrays; a third needs another.
    inputs = [(q, "query"), (k, "key"), (k, "key")]
    got = rotate_together(spec, inputs, positions=ids, kernel="triton")
    for a, b in zip(got, (*want, want[1]), strict=True):
        same(a, b)


def divided(x: Tensor, factors: Tensor, epsilon: float) -> Tensor:
    """By the root mean square of the channels, as models do it."""
    wide = x.float()
    size = torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon)
    return (wide * size).to(x.dtype) * factors


# A plain ladder, and sections of one whose positions have three axes, as M-RoPE has them.
SECTIONS = Arrangement(rule="sections", axes=("t", "y", "x"), sizes=(2, 3, 1))
SPECS = RoPE(12, pairing="interleaved"), RoPE(12, pairing="half", arrangement=SECTIONS)


@pytest.mark.parametrize(("spec", "dtype"), pairs(SPECS, (torch.float32, torch.float16)))
@pytest.mark.parametrize("normed", [False, True])
def test_keys_into_the_slots_of_a_paged_cache(spec: RoPE, dtype: torch.dtype, normed: bool) -> None:
    """With the norm before it; sums of squares of whole numbers are exact in any order."""
    tokens, width = 5, 16
    draw = {"generator": GENERATOR, "device": "cpu"}
    q, k, factors = (
        torch.randint(-9, 10, shape, **draw).to(DEVICE, dtype)  # type: ignore[call-overload]
        for shape in ((tokens, 6, width), (tokens, 2, width), (2, width))
    )
    positions = torch.randint(0, 2**31, (tokens, len(spec.axes)), **draw).to(DEVICE)  # type: ignore[call-overload]
    slots = torch.tensor([7, -1, 0, 12, 3], device=DEVICE)  # of 12: the second and fourth are none
    cache = torch.full((3, 4, 2, width), 7.0, dtype=dtype, device=DEVICE)
    norms = triton_rotate.Norms(*factors, 1e-6) if normed else None
    heads = (
        [divided(x, f, 1e-6) for x, f in zip((q, k), factors, strict=True)] if normed else (q, k)
    )
    places = positions if len(spec.axes) > 1 else positions[:, 0]
    want = [rotated(spec, x, "reference", positions=places, seq_dim=-3) for x in heads]
    filled = cache.flatten(0, 1).clone()
    filled[slots[[0, 2, 4]]] = want[1][[0, 2, 4]]
    before = k.clone()
    triton_rotate.turn_into(spec, q, k, cache.flatten(0, 1), slots, positions, norms)
    for got, expected in ((q, want[0]), (cache.flatten(0, 1), filled), (k, before)):
        same(got, expected)


@pytest.mark.parametrize(("inplace", "inverse"), pairs((False, True), (False, True)))
def test_backward(inplace: bool, inverse: bool) -> None:
    """The gradient, from upstream of awkward strides, and the gradient of the gradient."""
    spec = RoPE(8, pairing="interleaved", scaling=posenc.scaling.YaRN(4, original_length=64))
    x = normal(2, 3, 4, 9).requires_grad_()
    upstream = normal(4, 9, 2, 3).permute(2, 3, 0, 1).requires_grad_()

    def gradients(kernel: Any) -> Any:
        y = rotated(spec, x * 1, kernel, inverse=inverse, inplace=inplace, offset=3)
        (first,) = torch.autograd.grad(y, x, upstream, create_graph=True)
        (expanded,) = torch.autograd.grad(rotated(spec, x, kernel).sum(), x)
        return first, expanded, *torch.autograd.grad(first.sum(), upstream)

    y = rotated(spec, x, "triton", inverse=inverse)
    same(y.detach(), rotated(spec, x, "reference", inverse=inverse).detach())
    # Autograd adds the two products of the reference in another order.
    for got, want in zip(gradients("triton"), gradients("reference"), strict=True):
        torch.testing.assert_close(got, want, rtol=3e-7, atol=3e-7)


def test_operator() -> None:
    """A tracer is given the operator, and its CUDA form is this kernel."""
    import posenc.kernels.torch.operators as operators

    assert operators._kernel(torch.empty(1, device="meta")) == "triton"


def test_what_is_not_written_to_slots() -> None:
    spec, other = SPECS[0], RoPE(12, pairing=Pairing("interleaved", output="half"))
    q, k, keys = (torch.zeros(n, 2, 12, device=DEVICE) for n in (3, 3, 8))
    slots = torch.arange(3, device=DEVICE)
    dynamic = spec.replace(scaling=posenc.scaling.DynamicNTK(2, original_length=64))
    for case, said in (
        ((other, q, k, keys, slots, slots), "another order"),
        ((SPECS[1], q, k, keys, slots, slots), "(8, 2, 12)"),
        ((dynamic, q, k, keys, slots, slots), "spec.at"),
        ((spec, q.clone().requires_grad_(), k, keys, slots, slots), "gradient"),
        ((spec, q, k, keys.half(), slots, slots), "(8, 2, 12)"),
        ((spec, q, k[:2], keys, slots, slots), "(2, 2, 12)"),
        ((spec, q, k, keys[:, :1], slots, slots), "(8, 1, 12)"),
        ((spec, q[..., :8], k, keys, slots, slots), "(3, 2, 8)"),
        ((spec, q.mT.contiguous().mT, k, keys, slots, slots), "(3, 2, 12)"),
        ((spec, q, k, keys, slots[:2], slots), "(2,)"),
        ((spec, q, k, keys, slots.double(), slots), "(3,)"),
        ((spec, q, k, keys, slots, slots.double()), "(3,)"),
        ((spec, q, k, keys, slots, slots[:2]), "(2,)"),
        ((spec, q, k, keys, slots, slots, triton_rotate.Norms(q[0, 0, :3], k[0, 0], 0.1)), "(3,)"),
    ):
        with pytest.raises(posenc.ArgumentError, match="turn_into") as caught:
            triton_rotate.turn_into(*case)
        assert said in str(caught.value)
    assert not keys.any()


# --- sums -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", TABLES, ids=lambda case: case.name)
def test_every_sum(case: Case) -> None:
    """Every layout of columns is one origin and one step for each of them."""
    spec, positions = case.spec, torch.tensor(case.positions, device=DEVICE)
    params = None
    if case.params is not None:
        params = {
            name: torch.as_tensor(value, device=DEVICE) for name, value in case.params.items()
        }
    x = normal(3, len(case.positions), spec.dim)

    def total(kernel: Any, x: Tensor = x) -> Tensor:
        return posenc.add(spec, x, positions=positions, params=params, kernel=kernel)

    reason = why_not_rows(case)
    if reason is not None and "exponents of their own" not in reason:
        assert reason in refusal(lambda: total("triton"))
        return
    same(total("triton"), total("reference"))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sums_in_half_precision(dtype: torch.dtype) -> None:
    spec = Sinusoidal(
        300,
        order="cos_sin",
        arrangement=Arrangement(start=2, pad=1),
        magnitude=posenc.Magnitude(embedding_scale="sqrt_dim", table_scale=0.7),
    )
    x = normal(6, 3, 300).to(dtype)
    for how in ({}, {"offset": -1}, {"offset": torch.arange(6, device=DEVICE) * 2**28 - 1}):
        want = posenc.add(spec, x, kernel="reference", **how)
        exact = posenc.add(spec, x.float(), kernel="reference", **how)
        same(posenc.add(spec, x, kernel="triton", **how), want, exact)


def test_the_gradient_of_a_sum() -> None:
    spec = Sinusoidal(6, magnitude=posenc.Magnitude(embedding_scale=3.0))
    x = torch.zeros(2, 3, 6, device=DEVICE, requires_grad=True)
    posenc.add(spec, x, kernel="triton").sum().backward()
    torch.testing.assert_close(x.grad, torch.full_like(x, 3.0))


# --- refusals -------------------------------------------------------------------------------------


def test_what_it_leaves_alone() -> None:
    spec = RoPE(8, pairing="half")
    assert "no tensor of torch" in refusal(
        lambda: rotated(spec, np.ones((3, 8), np.float32), "triton")  # type: ignore[arg-type]
    )
    assert "float64" in refusal(
        lambda: rotated(spec, torch.ones(3, 8, device=DEVICE).double(), "triton")
    )
    assert "no such operation" in refusal(lambda: posenc.cos_sin(spec, 3, kernel="triton"))


# --- torch's machinery on a GPU -------------------------------------------------------------------


@gpu
def test_a_graph_of_cuda_captures_a_rotation_in_place() -> None:
    from posenc.torch import RotaryEmbedding

    module = RotaryEmbedding(RoPE(16, pairing="half"), kernel="triton", inplace=True)
    q, k = normal(2, 12, 5, 16), normal(2, 3, 5, 16)
    want = module(q.clone(), k.clone())  # compiles, outside of the graph
    memory = q.clone(), k.clone()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        module(*memory)
    for x, new in zip(memory, (q, k), strict=True):
        x.copy_(new)
    graph.replay()
    for a, b in zip(memory, want, strict=True):
        same(a, b)


@gpu
@compiles
@pytest.mark.parametrize("inplace", [False, True])
def test_the_compiler_keeps_the_operator(inplace: bool) -> None:
    spec, x = RoPE(16, pairing="half"), normal(2, 12, 5, 16)

    def turned(x: Tensor) -> Tensor:
        return rotated(spec, x * 2, "triton", inplace=inplace, offset=7)

    same(torch.compile(turned, fullgraph=True)(x), turned(x))


@gpu
@compiles
def test_flex_attention_with_the_entries_of_a_bias() -> None:
    """Forward and gradient, against the dense bias."""
    from torch.nn.attention.flex_attention import flex_attention

    from posenc.torch import score_mod

    spec = posenc.ALiBi(4)
    q, k, v = (normal(2, 4, 128, 32).requires_grad_() for _ in range(3))
    compiled = torch.compile(flex_attention)(q, k, v, score_mod=score_mod(spec))
    bias = posenc.bias(spec, 128, xp=torch, device=DEVICE)
    dense = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)
    torch.testing.assert_close(compiled, dense, rtol=1e-2, atol=1e-2)
    upstream = normal(2, 4, 128, 32)
    for a, b in zip(
        torch.autograd.grad(compiled, (q, k, v), upstream),
        torch.autograd.grad(dense, (q, k, v), upstream),
        strict=True,
    ):
        torch.testing.assert_close(a, b, rtol=1e-2, atol=1e-2)
