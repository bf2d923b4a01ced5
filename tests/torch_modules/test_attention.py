# ruff: noqa: E402 - torch and transformers may be absent, and are asked for first
"""Biases and relative encodings inside models of transformers, beside loops over all scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from transformers import (
    AttentionInterface,
    BartConfig,
    BartModel,
    BertConfig,
    BertModel,
    DynamicCache,
    Gemma2Config,
    Gemma2ForCausalLM,
    GptOssConfig,
    GptOssForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    StaticCache,
    T5Config,
    T5Model,
    WhisperConfig,
    WhisperModel,
)
from transformers.masking_utils import AttentionMaskInterface, causal_mask_function

import posenc
from posenc._core.errors import ArgumentError
from posenc.torch import AttentionBias, RelativeAttention, attention
from posenc.torch.attention import _crosses
from tests.drawing import drawn
from tests.oracles import bias as biases, relative as relatives

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore:Dynamo detected a call to a:UserWarning"),
]

HEADS, GROUPS, DIM, WINDOW, TOKENS, PROMPT = 4, 2, 8, 5, 12, 5
SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "num_attention_heads": HEADS,
    "num_key_value_heads": GROUPS,
    "head_dim": DIM,
    "intermediate_size": 16,
    "num_hidden_layers": 2,
    "vocab_size": 32,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": None,
    "eos_token_id": None,
}
FULL: dict[str, Any] = {"layer_types": ["full_attention"] * 2}
MODELS: dict[str, Any] = {
    "llama": (LlamaForCausalLM, LlamaConfig, {}),
    "qwen3": (Qwen3ForCausalLM, Qwen3Config, {}),
    "mistral": (MistralForCausalLM, MistralConfig, {"sliding_window": WINDOW}),
}
# Of one query: its bias on a key, what meets the query's content, and what is added to a value.
Score = Callable[[int, int, int, list[float], dict[str, Any]], float]


class Case(NamedTuple):
    """An encoding, and the entry that is added to a score after its scale."""

    encoding: Any
    score: Score


def _lists(module: Any) -> dict[str, Any]:
    return {name: value.tolist() for name, value in module.named_parameters()}


def _t5(m: int, n: int, h: int, q: list[float], w: dict[str, Any]) -> float:
    return float(w["weight"][biases.t5_bucket(n - m, 8, 16, False)][h])


def _kerple(m: int, n: int, h: int, q: list[float], w: dict[str, Any]) -> float:
    return biases.kerple_log(m, n, abs(w["r1"][h]), abs(w["r2"][h]))


def _shaw(m: int, n: int, h: int, q: list[float], w: dict[str, Any]) -> float:
    return relatives.shaw(q, None, m, n, h, w, -3, 3) / math.sqrt(DIM)


def _cases() -> dict[str, Case]:
    slopes = biases.power_slopes(HEADS)
    return {
        "ALiBi": Case(posenc.ALiBi(HEADS), lambda m, n, h, q, w: biases.causal(m, n, slopes[h])),
        "T5": Case(posenc.T5(HEADS, buckets=8, max_distance=16, direction="causal"), _t5),
        "KERPLE": Case(posenc.KERPLE(HEADS), _kerple),
        "FIRE": Case(
            posenc.FIRE(HEADS, width=4, threshold=4.0),
            lambda m, n, h, q, w: biases.fire(m, n, h, w, 4.0),
        ),
        "Shaw": Case(posenc.Shaw(DIM, clip=3), _shaw),
    }


CASES = _cases()


def _module(name: str) -> Any:
    """The encoding as a module with parameters in which every number tells."""
    spec = CASES[name].encoding
    kind = AttentionBias if spec.kind == "bias" else RelativeAttention
    module = kind(spec, seed=0).double()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.uniform_(0.1, 1.0, generator=generator)
    return module


def _model(name: str, *, turns: bool = True, seed: int = 0, **sizes: Any) -> Any:
    kind, config, more = MODELS[name]
    torch.manual_seed(seed)
    model = kind(config(**{**SIZES, **more, **sizes})).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():  # weights large enough for positions to matter
            if parameter.ndim > 1:
                parameter.mul_(8)
    if not turns:
        model.model.rotary_emb.inv_freq.zero_()
    return model


def _tokens(rows: int = 2) -> Any:
    return torch.randint(1, 32, (rows, TOKENS), generator=torch.Generator().manual_seed(2))


@pytest.fixture
def names() -> Iterator[list[Any]]:
    """Registrations that end with the test."""
    every: list[Any] = []
    yield every
    for registration in every:
        registration.remove()


def _logits(model: Any, names: list[Any], encoding: Any, tokens: Any, **more: Any) -> Any:
    if not names:
        names.append(attention(encoding).register("posenc-test"))
    model.set_attn_implementation("posenc-test")
    with torch.no_grad():
        return model(tokens, **more).logits


def _by_loops(case: Case, weights: dict[str, Any]) -> Callable[..., Any]:
    """Attention by plain sums, in Python's numbers: causal, in a window where the layer has one."""

    def attend(module: Any, query: Any, key: Any, value: Any, *_: Any, **more: Any) -> Any:
        window = more.get("sliding_window") or TOKENS
        scale = more["scaling"]
        group = query.shape[1] // key.shape[1]
        q, k, v = (x.tolist() for x in (query, key, value))
        out = np.zeros((query.shape[0], query.shape[2], query.shape[1], value.shape[3]))
        values = weights.get("values")
        for b, h, m in np.ndindex(query.shape[0], query.shape[1], query.shape[2]):
            keys = range(max(0, m - window + 1), m + 1)
            row = q[b][h][m]
            scores = [
                scale * relatives.dot(row, k[b][h // group][n]) + case.score(m, n, h, row, weights)
                for n in keys
            ]
            shares = np.exp(np.array(scores) - max(scores))
            shares /= shares.sum()
            for share, n in zip(shares, keys, strict=True):
                out[b, m, h] += share * np.array(v[b][h // group][n])
                if values is not None:
                    out[b, m, h] += share * np.array(values[relatives.clipped(n - m, -3, 3)])
        return torch.from_numpy(out), None

    return attend


@pytest.mark.costly
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", MODELS)
def test_loops(name: str, case: str, names: list[Any]) -> None:
    """Logits of two layers of grouped heads, with a rotation or without, in a window or not."""
    model, module, tokens = _model(name, turns=name != "llama"), _module(case), _tokens(1)
    received = _logits(model, names, module, tokens)
    AttentionInterface.register("loops", _by_loops(CASES[case], _lists(module)))
    try:
        model.set_attn_implementation("loops")
        with torch.no_grad():
            expected = model(tokens).logits
    finally:
        del AttentionInterface._global_mapping["loops"]
    plain = _model(name, turns=name != "llama")(tokens).logits
    torch.testing.assert_close(received, expected, rtol=0, atol=1e-12)
    assert (received - plain).abs().max() > 1e-3  # the encoding tells


PAIRS = [(name, case) for case in CASES for name in MODELS]


@pytest.mark.costly
@pytest.mark.parametrize(
    "pair",
    drawn(PAIRS, 1, "encodings/bias", "encodings/relative", "torch", by=lambda pair: pair[1]),
    ids="-".join,
)
def test_caches_and_padding(pair: tuple[str, str], names: list[Any]) -> None:
    """A prompt, then a token at a time; and the same behind padding."""
    name, case = pair
    model, module, tokens = _model(name), _module(case), _tokens()
    expected = _logits(model, names, module, tokens)
    for cache in (DynamicCache(config=model.config), StaticCache(model.config, max_cache_len=16)):
        parts = [tokens[:, :PROMPT], tokens[:, PROMPT : PROMPT + 3]]
        parts += tokens[:, PROMPT + 3 :].split(1, dim=1)
        steps = [_logits(model, names, module, part, past_key_values=cache) for part in parts]
        torch.testing.assert_close(torch.cat(steps, 1), expected, rtol=0, atol=1e-12)
    padded = torch.cat((torch.zeros(2, 3, dtype=torch.int64), tokens), dim=1)
    padded[0, :3] = tokens[0, 0]
    mask = torch.ones_like(padded)
    mask[1, :3] = 0
    where = (mask.cumsum(-1) - 1).masked_fill(mask == 0, 1)
    more = {"attention_mask": mask, "position_ids": where}
    received = _logits(model, names, module, padded, **more)
    torch.testing.assert_close(received[1, 3:], expected[1], rtol=0, atol=1e-12)
    cache = DynamicCache(config=model.config)
    steps = [
        _logits(
            model,
            names,
            module,
            padded[:, first:end],
            attention_mask=mask[:, :end],
            position_ids=where[:, first:end],
            past_key_values=cache,
        )
        for first, end in ((0, 7), *((n, n + 1) for n in range(7, TOKENS + 3)))
    ]
    torch.testing.assert_close(torch.cat(steps, 1)[1, 3:], expected[1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("case", ["ALiBi", "FIRE", "Shaw"])
def test_right_padding(case: str, static: bool, names: list[Any]) -> None:
    """The last query of a row may be padding, from which nothing is counted."""
    model, module, tokens = _model("llama"), _module(case), _tokens()
    expected = _logits(model, names, module, tokens)
    padded = torch.cat((tokens, torch.zeros(2, 3, dtype=torch.int64)), dim=1)
    mask = torch.ones_like(padded)
    mask[:, TOKENS:] = 0
    where = (mask.cumsum(-1) - 1).masked_fill(mask == 0, 1)
    cache = StaticCache(config=model.config, max_cache_len=TOKENS + 9) if static else None
    more = {"attention_mask": mask, "position_ids": where, "past_key_values": cache}
    received = _logits(model, names, module, padded, **more)
    torch.testing.assert_close(received[:, :TOKENS], expected, rtol=0, atol=1e-12)


def test_positions_count_from_the_first_token_where_the_model_says_none() -> None:
    """FIRE's bias depends on the position of the query itself, not on distances alone."""
    encoding = attention(_module("FIRE"))
    rng = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, HEADS, 9, DIM, generator=rng, dtype=torch.float64) for _ in range(3))
    layer = SimpleNamespace(is_causal=True, layer_idx=0)
    padding = torch.tensor([[0, 0, 0, *[1] * 6]], dtype=torch.bool)
    whole = encoding.mask(
        kv_length=9, batch_size=1, q_length=9, attention_mask=padding,
        mask_function=causal_mask_function, device=torch.device("cpu"),
    )  # fmt: skip
    alone, _ = encoding(layer, *(x[:, :, 3:] for x in (q, k, v)))
    received, _ = encoding(layer, q, k, v, whole)
    torch.testing.assert_close(received[:, 3:], alone, rtol=0, atol=1e-12)


@pytest.mark.parametrize("case", ["ALiBi", "FIRE", "Shaw"])
def test_packed(case: str, names: list[Any]) -> None:
    """Sequences in one row, told apart by their positions, are each as alone."""
    model, module, tokens = _model("llama"), _module(case), _tokens(1)
    where = torch.tensor([[*range(5), *range(TOKENS - 5)]])
    received = _logits(model, names, module, tokens, position_ids=where, use_cache=False)
    alone = [_logits(model, names, module, part) for part in (tokens[:, :5], tokens[:, 5:])]
    torch.testing.assert_close(received, torch.cat(alone, 1), rtol=0, atol=1e-12)


def test_generation(names: list[Any]) -> None:
    """Tokens of a batch with padding are those of each row, for both caches and beams."""
    model, encoding, tokens = _model("mistral"), _module("T5"), _tokens()
    _logits(model, names, encoding, tokens)
    mask = torch.ones_like(tokens)
    mask[0, :4] = 0
    options: dict[str, Any] = {"max_new_tokens": 3, "do_sample": False}
    for more in ({}, {"cache_implementation": "static"}, {"num_beams": 2}):
        more = {**options, **more, "disable_compile": True}
        both = model.generate(tokens, attention_mask=mask, **more)
        first = model.generate(tokens[:1, 4:], **more)
        assert both[0, TOKENS:].tolist() == first[0, TOKENS - 4 :].tolist()


@pytest.mark.costly
@pytest.mark.parametrize(
    ("backend", "tolerance", "encodings", "steps"),
    # Inductor sums in another order, of which the rotation and the norms have float32. Each call
    # of another shape is compiled for a second and each layer.
    [
        ("eager", 1e-12, ("FIRE",), 1),
        pytest.param("eager", 1e-12, ("FIRE", "Shaw"), 2, marks=pytest.mark.slow("torch")),
        pytest.param("inductor", 1e-6, ("FIRE", "Shaw"), 2, marks=pytest.mark.slow("torch")),
    ],
)
def test_compiled(
    backend: str, tolerance: float, encodings: tuple[str, ...], steps: int, names: list[Any]
) -> None:
    """Whole graphs: a prompt behind padding, and steps over a static cache."""
    torch._dynamo.reset()
    model, tokens = _model("mistral", num_hidden_layers=len(encodings)), _tokens()
    mask = torch.ones_like(tokens)
    mask[0, :3] = 0
    encoding = [_module(name) for name in encodings]
    expected = _logits(model, names, encoding, tokens, attention_mask=mask, use_cache=False)
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    with torch.no_grad():
        received = compiled(tokens, attention_mask=mask, use_cache=False).logits
        torch.testing.assert_close(received, expected, rtol=0, atol=tolerance)
        cache = StaticCache(model.config, max_cache_len=16)
        whole = model(tokens).logits
        model(tokens[:, :PROMPT], past_key_values=cache)
        for n in range(PROMPT, PROMPT + steps):
            step = compiled(tokens[:, n : n + 1], past_key_values=cache).logits
            torch.testing.assert_close(step, whole[:, n : n + 1], rtol=0, atol=tolerance)


@pytest.mark.costly
def test_layers_and_gradients(names: list[Any]) -> None:
    """Each layer has its own encoding or none; parameters learn; checkpointing changes nothing."""
    model, tokens = _model("llama"), _tokens()
    module = _module("T5")
    _logits(model, names, [None, module], tokens)
    model(tokens).logits.square().mean().backward()
    expected = module.weight.grad.clone()
    assert (expected != 0).any()
    module.weight.grad = None
    model.gradient_checkpointing_enable({"use_reentrant": False})
    model.train()(tokens).logits.square().mean().backward()
    torch.testing.assert_close(module.weight.grad, expected, rtol=1e-10, atol=1e-14)
    (registration,) = names
    registration.remove()
    names[:] = [attention([module]).register("posenc-test")]
    with pytest.raises(ArgumentError, match="a layer_idx from 0 to 0.*got 1"):
        model(tokens)


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        (Gemma2ForCausalLM, lambda: Gemma2Config(**SIZES, **FULL, attn_logit_softcapping=2.0)),
        (
            GptOssForCausalLM,
            lambda: GptOssConfig(**SIZES, **FULL, num_local_experts=2, num_experts_per_tok=1),
        ),
    ],
)
def test_softcap_sinks_and_weights(kind: Any, config: Any, names: list[Any]) -> None:
    """What a model does besides goes on; and weights are returned where they are asked for."""
    torch.manual_seed(0)
    model, tokens = kind(config()).eval(), _tokens()
    slopes = torch.tensor(biases.power_slopes(HEADS))[:, None, None]
    m, n = torch.arange(TOKENS)[:, None], torch.arange(TOKENS)
    # A model's own attention adds a mask of four axes, in place of those that it makes.
    mask = (-slopes * (m - n).abs()).masked_fill(n > m, -1e9)[None]
    encoding = posenc.ALiBi(HEADS)
    received = _logits(model, names, encoding, tokens, output_attentions=True)
    shares = model(tokens, output_attentions=True).attentions
    model.set_attn_implementation("eager")
    with torch.no_grad():
        expected = model(
            tokens,
            attention_mask={"full_attention": mask, "sliding_attention": mask},
            output_attentions=True,
        )
    torch.testing.assert_close(received, expected.logits, rtol=0, atol=1e-6)
    for one, other in zip(shares, expected.attentions, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


def _small(kind: str) -> Any:
    both: dict[str, Any] = {"d_model": 16, "vocab_size": 8}
    for side in ("encoder", "decoder"):
        both |= {f"{side}_{name}": 2 for name in ("layers", "attention_heads", "ffn_dim")}
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1}
    few: dict[str, Any] = {**sizes, "intermediate_size": 8, "vocab_size": 8}
    make: dict[str, Any] = {
        "bart": lambda: BartModel(BartConfig(**both)),
        "whisper": lambda: WhisperModel(WhisperConfig(**both, pad_token_id=0)),
        "t5": lambda: T5Model(T5Config(d_model=16, d_kv=8, d_ff=8, num_heads=2, vocab_size=8)),
        "bert": lambda: BertModel(BertConfig(**few, is_decoder=True, add_cross_attention=True)),
    }
    return make[kind]()


@pytest.mark.parametrize("kind", ["bart", "whisper", "t5", "bert"])
def test_attention_between_sequences(kind: str) -> None:
    """It is told from attention within a sequence by what the layer says of itself."""
    seen = {True: 0, False: 0}
    for name, module in _small(kind).named_modules():
        if not hasattr(module, "is_causal"):
            continue
        crosses = any(word in name for word in ("encoder_attn", "EncDec", "crossattention"))
        assert _crosses(module) == crosses, name
        seen[crosses] += 1
    assert min(seen.values()) > 0


@pytest.mark.costly
def test_refusals(names: list[Any]) -> None:
    model, tokens = _model("llama"), _tokens()
    with pytest.raises(ArgumentError, match=r"holds its parameters: AttentionBias\(T5"):
        attention(CASES["T5"].encoding)
    with pytest.raises(ArgumentError, match="posenc.torch.adopt"):
        attention(posenc.RoPE(8, pairing="half"))
    with pytest.raises(ArgumentError, match="positions along one axis"):
        attention(posenc.ALiBi2D(HEADS))
    with pytest.raises(ArgumentError, match="got none"):
        attention([])
    with pytest.raises(ArgumentError, match="expected 4 heads, as the layer has, got 3"):
        _logits(model, names, posenc.ALiBi(3), tokens)
    names.pop().remove()
    alibi = attention(posenc.ALiBi(HEADS))
    for taken in ("sdpa", "eager"):
        with pytest.raises(ArgumentError, match="a name that is free"):
            alibi.register(taken)
    # Registered without the mask, positions of a cache are not known.
    AttentionInterface.register("posenc-alone", alibi)
    try:
        model.set_attn_implementation("posenc-alone")
        cache = DynamicCache(config=model.config)
        model(tokens, past_key_values=cache)
        with pytest.raises(
            ArgumentError, match=r"a mask that posenc made, for 1 queries and 13 keys, got none"
        ):
            model(tokens[:, :1], past_key_values=cache)
    finally:
        del AttentionInterface._global_mapping["posenc-alone"]
    with alibi.register("posenc-test"):
        assert "posenc-test" in AttentionMaskInterface._global_mapping
        model.set_attn_implementation("posenc-test")
        whole = torch.ones(1, 1, TOKENS, TOKENS + 1, dtype=torch.bool)
        for dtype in (torch.int32, torch.int64):
            with pytest.raises(ArgumentError, match="boolean or floating"):
                model(tokens, attention_mask=torch.ones(1, 1, TOKENS, TOKENS, dtype=dtype))
        model(tokens, attention_mask=whole[..., :TOKENS].tril())
    assert "posenc-test" not in AttentionInterface._global_mapping
    assert "posenc-test" not in AttentionMaskInterface._global_mapping
