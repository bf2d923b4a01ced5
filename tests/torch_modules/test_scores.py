# ruff: noqa: E402 - torch may be absent, and is asked for first
"""The torch side of biases and relative encodings: modules, FlexAttention, reference attention."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import posenc
from posenc import (
    FIRE,
    KERPLE,
    LRPE,
    T5,
    ALiBi,
    ArgumentError,
    Entry,
    Learned,
    RoPE,
    Sandwich,
    Shaw,
    WindowTable,
    positions,
)
from posenc.torch import (
    AttentionBias,
    PositionTable,
    RelativeAttention,
    RotaryEmbedding,
    alibi_mask_mod,
    alibi_reach,
    attend,
    packed_mask_mod,
    score_mod,
    slopes,
)
from tests.cases_scores import BIASES, RELATIVES, RelativeCase, ScoreCase
from tests.drawing import drawn, files, kind

# Inductor asks for `torch.jit`, which torch itself deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:`?torch.jit:DeprecationWarning")

each_bias = pytest.mark.parametrize("case", BIASES, ids=lambda case: case.name)
each_relative = pytest.mark.parametrize("case", RELATIVES, ids=lambda case: case.name)


def whole_by(rows: Any, *subjects: str) -> list[Any]:
    """Each encoding with Dynamo, which says whether its graph is whole, and one with AOT autograd.

    Slow: both on every row, and Inductor, which writes the same loops for each encoding.
    """
    made, seen = [], set()
    for row in rows:
        for compiler in ("eager", "aot_eager", "inductor"):
            first = kind(row) not in seen
            always = first and compiler == ("eager" if seen else "aot_eager")
            marks = () if always else pytest.mark.slow(*subjects, *files(row))
            name = getattr(row, "name", repr(row))
            made.append(pytest.param(row, compiler, id=f"{name}-{compiler}", marks=marks))
        seen.add(kind(row))
    return made


def tensors(params: Any) -> Any:
    return {name: torch.from_numpy(np.asarray(value)) for name, value in params.items()}


def close(got: Any, exact: Any, tolerance: float = 3e-6) -> None:
    torch.testing.assert_close(got, exact, rtol=tolerance, atol=tolerance, equal_nan=False)


# --- modules --------------------------------------------------------------------------------------


@each_bias
def test_module_is_the_verb(case: ScoreCase) -> None:
    module = AttentionBias(case.spec, seed=3)
    assert list(module.state_dict()) == list(case.spec.parameters())
    assert not list(module.buffers())
    q, k = torch.tensor(case.queries), torch.tensor(case.keys)
    params = tensors(posenc.init(case.spec, 3)) or None
    exact = posenc.bias(case.spec, q, k, params=params)
    got = module(q, k)
    tolerance = 1e-5 if "tupe" in case.name else 0  # products of parameters in another layout
    close(got, exact, tolerance)
    total = case.spec.heads
    if total > 1:
        part = AttentionBias(case.spec, heads=(1, total), seed=3)
        close(part(q, k), exact[1:], 1e-5)


@pytest.mark.parametrize("spec", [T5(4), KERPLE(4), FIRE(4), ALiBi(4, recipe="learned")], ids=repr)
def test_meta_then_empty_then_reset(spec: Any) -> None:
    with torch.device("meta"):
        module = AttentionBias(spec, seed=5)
    module.to_empty(device="cpu")
    for parameter in module.parameters():
        parameter.data.fill_(float("nan"))
    module.reset_parameters()
    torch.testing.assert_close(module(7), AttentionBias(spec, seed=5)(7), rtol=0, atol=0)


def test_half_precision_modules_keep_their_distances() -> None:
    module = AttentionBias(ALiBi(8)).bfloat16()
    q, k = torch.tensor([100_001]), torch.tensor([100_000, 100_001])
    got = module(q, k, dtype=torch.bfloat16)
    assert got.dtype == torch.bfloat16
    assert got[0, 0].tolist() == [-0.5, 0.0]


@pytest.mark.parametrize(
    "spec",
    [
        T5(2, init=posenc.Init(scale=1.0)),
        KERPLE(2),
        KERPLE(2, form="power"),
        FIRE(2, width=3),
        ALiBi(2, recipe="learned"),
    ],
    ids=repr,
)
def test_gradients_of_learned_biases(spec: Any) -> None:
    params = {k: v.double().requires_grad_() for k, v in tensors(posenc.init(spec, 2)).items()}
    q, k = torch.tensor([0, 7]), torch.tensor([1, 2, 30])

    def verb(*values: Any) -> Any:
        named = dict(zip(params, values, strict=True))
        return posenc.bias(spec, q, k, params=named, dtype="float64")

    assert torch.autograd.gradcheck(verb, tuple(params.values()))


FINITE = [c for c in BIASES if c.params and "window" not in c.name and np.isfinite(c.exact()).all()]


@pytest.mark.parametrize("case", FINITE, ids=lambda case: case.name)
def test_gradients_of_every_learned_bias(case: ScoreCase) -> None:
    """At a few places of each row of cases, so that kinks of rectifiers and clamps are rare."""
    if case.name.startswith(("kerple-clamped", "fire", "log-cpb")):
        pytest.skip("a clamp or a rectifier has its kink at a place of this row")
    params = {k: v.double().requires_grad_() for k, v in tensors(case.params).items()}
    q, k = torch.tensor(case.queries[:2]), torch.tensor(case.keys[:3])

    def verb(*values: Any) -> Any:
        named = dict(zip(params, values, strict=True))
        return posenc.bias(case.spec, q, k, params=named, dtype="float64")

    assert torch.autograd.gradcheck(verb, tuple(params.values()))


def test_gradients_of_a_span_are_those_of_its_ramp() -> None:
    spec = posenc.AdaptiveSpan(2, length=20, ramp=8)
    span = torch.tensor([0.5, 0.6], dtype=torch.float64, requires_grad=True)
    found = posenc.bias(spec, [30], [30, 15, 0], params={"span": span}, dtype="float64")
    assert found[:, 0, 2].isneginf().all()
    found[:, 0, :2].sum().backward()
    # d ln((ramp + length z - x) / ramp) / dz at x = 15, and nothing where the mask is 1.
    exact = 20 / (8 + 20 * span.detach() - 15)
    close(span.grad, exact, 1e-12)


@each_relative
def test_gradients_of_relative_encodings(case: RelativeCase) -> None:
    q, k = (torch.from_numpy(x).double()[:1].requires_grad_() for x in case.content())
    params = {n: v.double().requires_grad_() for n, v in tensors(case.params).items()}

    def verb(q: Any, k: Any, *values: Any) -> Any:
        named = dict(zip(params, values, strict=True))
        return posenc.relative(case.spec, q, k, case.queries, case.keys, params=named)

    assert torch.autograd.gradcheck(verb, (q, k, *params.values()), fast_mode=True)


@each_relative
def test_relative_module_is_the_verb(case: RelativeCase) -> None:
    module = RelativeAttention(case.spec, seed=3)
    q, k = (torch.from_numpy(x) for x in case.content())
    m, n = torch.tensor(case.queries), torch.tensor(case.keys)
    params = tensors(posenc.init(case.spec, 3))
    exact = posenc.relative(case.spec, q, k, m, n, params=params)
    # The perceptron over heads may be summed in another order.
    close(module(q, k, m, n), exact, 1e-6 if case.name.startswith("dape") else 0)


WHOLE = (ALiBi(4), T5(4), Sandwich(4, dim=16), posenc.TISA(2), posenc.RotaryBias(2, dim=20))


@pytest.mark.parametrize(("spec", "compiler"), whole_by(WHOLE, "torch"))
@pytest.mark.costly
def test_verb_compiles_as_a_whole(spec: Any, compiler: str) -> None:
    torch._dynamo.reset()  # eight specs are the most that one function is compiled for
    module = AttentionBias(spec)
    compiled = torch.compile(module, fullgraph=True, backend=compiler)
    q, k = torch.arange(3, 8), torch.arange(9)
    close(compiled(q, k), module(q, k), 1e-6)


COMPILED = (
    "transformer-xl-clamp",
    "transformer-xl",
    "irpe-contextual-cross",
    "gated",
    "tener",
    "dape",
)


CASES = {case.name: case for case in RELATIVES}


@pytest.mark.parametrize(
    ("case", "compiler"), whole_by([CASES[name] for name in COMPILED], "torch")
)
@pytest.mark.costly
def test_relative_compiles_as_a_whole(case: RelativeCase, compiler: str) -> None:
    torch._dynamo.reset()
    module = RelativeAttention(case.spec)
    q, k = (torch.from_numpy(x) for x in case.content())
    m, n = torch.tensor(case.queries), torch.tensor(case.keys)
    compiled = torch.compile(module, fullgraph=True, backend=compiler)
    close(compiled(q, k, m, n), module(q, k, m, n))


# --- FlexAttention --------------------------------------------------------------------------------


def by_entry(mod: Any, batch: int, heads: int, rows: int, columns: int) -> Any:
    """Every entry that a score_mod adds, as FlexAttention asks for them."""
    from torch.func import vmap

    sizes = (batch, heads, rows, columns)
    grids = torch.meshgrid(*(torch.arange(n) for n in sizes), indexing="ij")
    flat = [g.reshape(-1) for g in grids]
    scores = torch.zeros(flat[0].shape)
    return vmap(mod)(scores, *flat).reshape(sizes)


@each_bias
def test_score_mod_is_the_dense_bias(case: ScoreCase) -> None:
    q, k = torch.tensor(case.queries), torch.tensor(case.keys)
    params = tensors(case.params) or None
    exact = posenc.bias(case.spec, q, k, params=params)
    mod = score_mod(case.spec, q, k, params=params)
    heads = case.spec.heads
    close(by_entry(mod, 1, heads, len(q), len(k))[0], exact)
    keys = torch.stack([k, k.flip(0)])
    batched = by_entry(score_mod(case.spec, q, keys, params=params), 2, heads, len(q), len(k))
    close(batched, posenc.bias(case.spec, q, keys, params=params))
    if heads > 1:
        part = score_mod(case.spec, q, k, params=params, heads=(1, heads), scale=0.5)
        close(by_entry(part, 1, heads - 1, len(q), len(k))[0], 0.5 * exact[1:])


FLEX = [
    ALiBi(4),
    ALiBi(4, form="causal"),
    T5(4, init=posenc.Init(scale=1.0)),
    KERPLE(4),
    FIRE(4),
    posenc.Decay(4),
    posenc.TISA(4, kernels=2),
    posenc.ClippedTable(4, clip=9, init=posenc.Init(scale=1.0)),
    posenc.AdaptiveSpan(4, length=64, start=0.5),
]


# Inductor writes one kernel for all, whose entries differ: of a table of learned numbers always.
BY_INDUCTOR = FLEX[7]


def flex_equals_dense(spec: Any, backend: str, q_positions: Any, k_positions: Any) -> None:
    from torch.nn.attention.flex_attention import flex_attention

    torch.manual_seed(0)
    rows, keys = len(q_positions), len(k_positions)
    q, k, v = (torch.randn(2, 4, n, 16) for n in (rows, keys, keys))
    params = tensors(posenc.init(spec, 1)) or None
    mod = score_mod(spec, q_positions, k_positions, params=params)
    torch._dynamo.reset()
    run = torch.compile(flex_attention, backend=backend) if backend else flex_attention
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that eager mode is slow
        got = run(q, k, v, score_mod=mod)
    more = {"params": {"bias": params}} if params else {}
    exact = attend(q, k, v, spec, q_positions=q_positions, k_positions=k_positions, **more)
    close(got, exact, 5e-6)


@pytest.mark.parametrize("spec", drawn(FLEX, 2, "encodings/bias", "torch"), ids=repr)
@pytest.mark.costly
def test_pain_16_flex_attention_equals_dense(spec: Any) -> None:
    near_and_far = torch.cat([torch.arange(16), torch.arange(16, 160, 9)])
    flex_equals_dense(spec, "", near_and_far[8:], near_and_far)


# `test_inductor` beside the encodings compiles one: its compiler takes seconds to start.
@pytest.mark.parametrize(
    ("spec", "backend"), [(ALiBi(4), "aot_eager"), *((spec, "inductor") for spec in FLEX)]
)
@pytest.mark.slow("encodings/bias", "torch")
def test_pain_16_compiled_flex_attention_equals_dense(spec: Any, backend: str) -> None:
    flex_equals_dense(spec, backend, torch.arange(32, 160), torch.arange(160))


def test_score_mod_by_the_indices_of_the_kernel() -> None:
    close(
        by_entry(score_mod(ALiBi(3)), 1, 3, 5, 7)[0], posenc.bias(ALiBi(3), range(5), 7, xp=torch)
    )


def test_score_mod_refusals() -> None:
    with pytest.raises(ArgumentError, match="those of both sides"):
        score_mod(Sandwich(2))
    with pytest.raises(ArgumentError, match="or neither"):
        score_mod(ALiBi(2), torch.arange(3))
    with pytest.raises(ArgumentError, match="those of both sides"):
        score_mod(WindowTable(2, window=(2, 2)), params=posenc.init(WindowTable(2, window=(2, 2))))


# --- ALiBi ----------------------------------------------------------------------------------------


def test_slopes_of_local_heads_come_from_the_whole_model() -> None:
    whole = slopes(ALiBi(12))
    torch.testing.assert_close(slopes(ALiBi(12), heads=(8, 12)), whole[8:], rtol=0, atol=0)
    assert whole[8].item() == pytest.approx(2**-0.5)
    learned = AttentionBias(ALiBi(12, recipe="learned"))
    close(learned.slopes(), whole, 1e-6)
    with pytest.raises(ArgumentError, match="no straight lines"):
        slopes(T5(2))


@pytest.mark.parametrize("spec", [ALiBi(4), ALiBi(3, max_bias=4.0), ALiBi(2, biased=1)], ids=repr)
def test_weights_beyond_the_reach_are_zero(spec: Any) -> None:
    """The worst case that the bound allows: own score -largest, far score +largest."""
    largest = 3.0
    for head, reach in enumerate(alibi_reach(spec, largest=largest)):
        slope = slopes(spec)[head]
        if reach is None:
            assert slope == 0
            continue
        for distance, zero in ((reach, True), (reach - 8, False)):
            far = (torch.tensor(largest).double() - slope.double() * distance).float()
            weights = torch.softmax(torch.stack([torch.tensor(-largest), far]), dim=0)
            exact = torch.exp((far + largest).double())
            assert (exact < 2.0**-150) == zero or not zero
            assert weights[1] == 0 if zero else exact > 0
    with pytest.raises(ArgumentError, match="finite"):
        alibi_reach(spec, largest=float("nan"))


@pytest.mark.parametrize("mask", ["none", "causal"])
def test_block_mask_changes_nothing(mask: Any) -> None:
    torch.manual_seed(0)
    spec = ALiBi(2, max_bias=2)
    q, k, v = (torch.randn(1, 2, 700, 8) for _ in range(3))
    largest = float(q.norm(dim=-1).max() * k.norm(dim=-1).max() * 8**-0.5)
    mod = alibi_mask_mod(spec, largest=largest, mask=mask)
    i = torch.arange(700)
    seen = torch.stack([mod(i, torch.tensor(h), i[:, None], i[None, :]) for h in range(2)])
    assert (~seen).any(dim=(-1, -2)).all(), "a mask that leaves nothing out shows nothing"
    got = attend(q, k, v, spec, mask=seen[None])
    torch.testing.assert_close(got, attend(q, k, v, spec, mask=mask), rtol=0, atol=1e-6)


@pytest.mark.parametrize("mask", ["none", "causal"])
def test_packed_mask_mod_is_the_dense_mask(mask: Any) -> None:
    ends, i = torch.tensor([0, 2, 2, 5]), torch.arange(6)
    got = packed_mask_mod(ends, 6, mask=mask)(i, i, i[:, None], i[None, :])
    direction = "causal" if mask == "causal" else "bidirectional"
    assert torch.equal(got, positions.packed_mask(ends, 6, direction=direction))
    with pytest.raises(ArgumentError, match="'none' or 'causal', got 'left'"):
        packed_mask_mod(ends, mask="left")


# --- attend ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "module",
    [
        PositionTable(Learned(6, length=7)),
        RotaryEmbedding(RoPE(6, pairing="half")),
        RotaryEmbedding(LRPE(6, heads=2, pairing="half", learned="frequencies"), seed=1),
        AttentionBias(T5(2), seed=1),
        RelativeAttention(Shaw(6, clip=3), seed=1),
    ],
    ids=lambda module: type(module.spec).__name__,
)
def test_attend_takes_modules_with_what_they_learned(module: Any) -> None:
    q, k, v = (x.float() for x in content())
    spec, learned = module.spec, module.learned()
    params = {} if learned is None else {spec.kind: learned}
    at: Any = {"q_positions": M, "k_positions": N, "mask": "causal"}
    got = attend(q, k, v, module, **at)
    assert torch.equal(got, attend(q, k, v, spec, params=params, **at))
    assert torch.equal(got, attend(q, k, v, module, length=7, **at))  # no rule reads it
    if learned and spec.kind != "table":
        got.sum().backward()
        assert all(parameter.grad is not None for parameter in module.parameters())
    with pytest.raises(ArgumentError, match="none with a module"):
        attend(q, k, v, module, params={"bias": {}}, **at)


def test_attend_refuses_modules_of_other_shapes() -> None:
    q, k, v = (x.float() for x in content())
    with pytest.raises(ArgumentError, match="a module of all heads, got heads=.0, 2."):
        attend(q, k, v, AttentionBias(ALiBi(4), heads=(0, 2)))
    with pytest.raises(ArgumentError, match="seq_dim=-2, got seq_dim=-3"):
        attend(q, k, v, RotaryEmbedding(RoPE(6, pairing="half"), seq_dim=-3))


def by_hand(q: Any, k: Any, v: Any, scores: Any, seen: Any = None) -> Any:
    if seen is not None:
        scores = scores.masked_fill(~seen, float("-inf"))
    return scores.softmax(-1) @ v


def content(rows: int = 5, keys: int = 7, dim: int = 6) -> tuple[Any, Any, Any]:
    torch.manual_seed(1)
    return tuple(torch.randn(2, 2, n, dim, dtype=torch.float64) for n in (rows, keys, keys))


M, N = torch.arange(2, 7), torch.arange(7)


@pytest.mark.parametrize("added", ["after", "before"])
def test_attend_puts_biases_after_or_before_the_scale(added: Any) -> None:
    q, k, v = content()
    spec = ALiBi(2, added=added)
    dense = posenc.bias(spec, M, N, dtype="float64")
    scores = q @ k.mT
    scores = (scores + dense) / 6**0.5 if added == "before" else scores / 6**0.5 + dense
    got = attend(q, k, v, spec, q_positions=M, k_positions=N, mask="causal")
    close(got, by_hand(q, k, v, scores, N[None] <= M[:, None]), 1e-12)


@each_relative
def test_attend_puts_relative_encodings_in_their_place(case: RelativeCase) -> None:
    q, k = (torch.from_numpy(x).double() for x in case.content())
    v = torch.randn(*k.shape[:-1], case.spec.dim, dtype=torch.float64)
    m, n = torch.tensor(case.queries), torch.tensor(case.keys)
    params = tensors(case.params)
    terms = posenc.relative(case.spec, q, k, m, n, params=params)
    scale = case.spec.scale
    scores = (q @ k.mT + terms) * scale
    if case.spec.place == "after":
        scores = q @ k.mT * scale + terms
    exact = by_hand(q, k, v, scores)
    if case.spec.on_values:
        exact = exact + posenc.relative_values(case.spec, scores.softmax(-1), m, n, params=params)
    more = {"q_positions": m, "k_positions": n, "params": {"relative": params}}
    close(attend(q, k, v, case.spec, **more), exact, 1e-12)


def test_attend_adds_a_bias_and_a_relative_encoding() -> None:
    q, k, v = content()
    entry = Entry("both", specs=(ALiBi(2), Shaw(6, clip=3, acts_on="keys")))
    params = tensors(posenc.init(entry.specs[1]))
    terms = posenc.relative(entry.specs[1], q, k, M, N, params=params)
    scores = (q @ k.mT + terms) / 6**0.5 + posenc.bias(ALiBi(2), M, N, dtype="float64")
    got = attend(q, k, v, entry, q_positions=M, k_positions=N, params={"relative": params})
    close(got, by_hand(q, k, v, scores), 1e-12)


def test_attend_without_positions_windows_and_groups() -> None:
    q, k, v = content()
    close(attend(q, k, v), by_hand(q, k, v, q @ k.mT / 6**0.5), 1e-12)
    entry = Entry("local", window=3)
    seen = (N[None] <= M[:, None]) & ((M[:, None] - N[None]) < 3)
    got = attend(q, k, v, entry, q_positions=M, k_positions=N, mask="causal")
    close(got, by_hand(q, k, v, q @ k.mT / 6**0.5, seen), 1e-12)
    one = attend(q, k[:, :1], v[:, :1], ALiBi(2), q_positions=M, k_positions=N)
    same = [x[:, :1].expand(-1, 2, -1, -1) for x in (k, v)]
    close(one, attend(q, *same, ALiBi(2), q_positions=M, k_positions=N), 1e-12)


@pytest.mark.parametrize(
    "spec", [ALiBi(2), T5(2), Shaw(6, clip=3), posenc.CoPE(6, length=4)], ids=repr
)
def test_causal_decode_equals_prefill(spec: Any) -> None:
    _, k, v = content()
    q = torch.randn(2, 2, 7, 6, dtype=torch.float64)
    learned = tensors(posenc.init(spec, 1))
    more: Any = {"params": {spec.kind: learned}} if learned else {}
    whole = attend(q, k, v, spec, mask="causal", **more)
    for i in range(7):
        part = slice(0, i + 1)
        step = attend(
            q[:, :, i : i + 1],
            k[:, :, part],
            v[:, :, part],
            spec,
            q_positions=torch.tensor([i]),
            k_positions=N[part],
            mask="causal",
            **more,
        )
        close(step[:, :, 0], whole[:, :, i], 1e-12)


def test_attend_turns_queries_and_keys() -> None:
    q, k, v = content()
    rope = posenc.RoPE(6, pairing="half")
    turned = [
        posenc.rotate(rope, x, positions=p, role=r) for x, p, r in ((q, M, "query"), (k, N, "key"))
    ]
    got = attend(q, k, v, rope, q_positions=M, k_positions=N)
    close(got, by_hand(q, k, v, turned[0] @ turned[1].mT / 6**0.5), 1e-12)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda q, k, v: attend(q, k, v, ALiBi(2)), "last of their sequence"),
        (lambda q, k, v: attend(q, k, v, mask="causal"), "last of their sequence"),
        (lambda q, k, v: attend(q, k, v, "alibi"), "an entry of a plan"),
        (lambda q, k, v: attend(q, k, v, ALiBi(2), params={"bais": {}}), "Did you mean 'bias'"),
        (lambda q, k, v: attend(q, k, v, mask="casual"), "Did you mean 'causal'"),
        (lambda q, k, v: attend(q, k, v, mask=torch.zeros(5, 7)), "boolean"),
        (lambda q, k, v: attend(q, k, v, Entry("c", convolution="x")), "a convolution"),
        (lambda q, k, v: attend(q[:, :1], k, v), "divides 1"),
        (lambda q, k, v: attend(q, k, v[:, :, 1:]), "keys and values of one number"),
    ],
)
def test_attend_refusals(call: Any, text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        call(*content())


def test_pain_16_one_bias_in_every_form_with_gradients() -> None:
    """Dense, per entry and as slopes it is one bias, and a learned one gets its gradients."""
    module = AttentionBias(T5(2))
    q, k, v = (x.float() for x in content())
    attend(
        q, k, v, module.spec, q_positions=M, k_positions=N, params={"bias": module.learned()}
    ).sum().backward()
    used = np.unique(module.spec.bucket(N[None].numpy() - M[:, None].numpy()))
    touched = module.weight.grad.abs().sum(-1).nonzero()[:, 0].numpy()
    np.testing.assert_array_equal(touched, used)
