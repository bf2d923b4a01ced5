"""Plans obeyed by `attend`, against the attention layers of transformers, at 1e-6.

Each layer is read from its config; queries, keys and values are those of its projections.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import posenc

torch = pytest.importorskip("torch", reason="the modules are torch's")
transformers = pytest.importorskip("transformers", reason="has the attention layers")

from posenc.torch import attend  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

SEQUENCE = 24
CLOSE = 1e-6
COMMON = {
    "hidden_size": 64,
    "intermediate_size": 32,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 4,
    "vocab_size": 32,
    "pad_token_id": 0,
    "max_position_embeddings": 64,
}


@dataclasses.dataclass(frozen=True)
class Case:
    """A layer of a model."""

    package: str
    config: str
    attention: str
    rotary: str
    layer: int
    options: dict[str, Any]
    window: int | None = None
    mask: str = "causal"
    scale: float | None = None
    name: str = ""

    def __str__(self) -> str:
        return f"{self.package}, layer {self.layer}{self.name and ', '}{self.name}"


WARM = {"head_dim": 16, "floor_scale": 5, "attn_scale": 0.1, "attn_temperature_tuning": True}
LLAMA4 = ("llama4", "Llama4TextConfig", "Llama4TextAttention", "Llama4TextRotaryEmbedding")
COHERE2 = ("cohere2", "Cohere2Config", "Cohere2Attention", "Cohere2RotaryEmbedding")
SMOLLM3 = ("smollm3", "SmolLM3Config", "SmolLM3Attention", "SmolLM3RotaryEmbedding")
GEMMA3 = ("gemma3", "Gemma3TextConfig", "Gemma3Attention", "Gemma3RotaryEmbedding")
MODERN = ("modernbert", "ModernBertConfig", "ModernBertAttention", "ModernBertRotaryEmbedding")
MINISTRAL = ("ministral3", "Ministral3Config", "Ministral3Attention", "Ministral3RotaryEmbedding")
EXAONE = ("exaone4", "Exaone4Config", "Exaone4Attention", "Exaone4RotaryEmbedding")
TWO_BASES = {
    "head_dim": 16,
    "sliding_window": 6,
    "query_pre_attn_scalar": 20,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
    "rope_parameters": {
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0},
    },
}
MIXED = {"sliding_window": 6, "layer_types": ["sliding_attention"] * 3 + ["full_attention"]}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 1000000.0,
    "factor": 8.0,
    "original_max_position_embeddings": 8,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "llama_4_scaling_beta": 0.1,
}
CASES = [
    Case(*LLAMA4, 0, WARM),
    Case(*LLAMA4, 3, WARM),
    Case(*LLAMA4, 0, {**WARM, "use_qk_norm": False}, name="no norm"),
    Case(*LLAMA4, 3, {**WARM, "attn_temperature_tuning": False}, name="cold"),
    Case(*COHERE2, 0, MIXED, window=6),
    Case(*COHERE2, 3, MIXED),
    Case(*SMOLLM3, 0, {"no_rope_layer_interval": 4}),
    Case(*SMOLLM3, 3, {"no_rope_layer_interval": 4}),
    Case(*EXAONE, 0, MIXED, window=6),
    Case(*EXAONE, 3, MIXED),
    Case(*GEMMA3, 0, TWO_BASES, window=6, scale=20**-0.5),
    Case(*GEMMA3, 1, TWO_BASES, scale=20**-0.5),
    Case(*MODERN, 0, {"local_attention": 8}, mask="none"),
    Case(*MODERN, 1, {"local_attention": 8}, mask="none", window=5),
    Case(*MINISTRAL, 0, {"head_dim": 16, "rope_parameters": YARN}),
]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    import logging

    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


def built(case: Case) -> tuple[Any, Any, Any]:
    """(config, attention, rotary class) with seeded weights in float64."""
    torch.manual_seed(case.layer)
    package = f"transformers.models.{case.package}"
    config = getattr(importlib.import_module(package), case.config)(**{**COMMON, **case.options})
    config._attn_implementation = "eager"
    module = importlib.import_module(f"{package}.modeling_{case.package}")
    attention = getattr(module, case.attention)(config, case.layer).eval()
    for parameter in attention.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return config, attention, getattr(module, case.rotary)(config)


def theirs(case: Case, config: Any, attention: Any, rotary: Any, x: Any) -> Any:
    """The output of the layer of transformers."""
    ids = torch.arange(SEQUENCE)[None]
    kinds = getattr(config, "layer_types", None)
    nested = any(isinstance(v, dict) for v in config.rope_parameters.values())
    extra = {"layer_type": kinds[case.layer]} if nested and kinds else {}
    rel = ids[0][None] - ids[0][:, None]
    seen = torch.ones_like(rel, dtype=torch.bool) if case.mask == "none" else rel <= 0
    if case.window is not None:
        seen = seen & (rel.abs() < case.window)
    mask = torch.zeros(1, 1, SEQUENCE, SEQUENCE).masked_fill(~seen, float("-inf"))
    more = {"position_ids": ids} if case.package == "ministral3" else {}
    turned = rotary(x, ids, **extra)
    return attention(x, position_embeddings=turned, attention_mask=mask, **more)[0]


def projected(attention: Any, x: Any) -> tuple[Any, Any, Any]:
    """Queries, keys and values before anything is done about positions."""
    if hasattr(attention, "Wqkv"):
        made = attention.Wqkv(x).view(*x.shape[:-1], 3, -1, attention.head_dim)
        return tuple(part.transpose(1, 2) for part in made.unbind(dim=-3))  # type: ignore[return-value]
    q, k, v = (
        linear(x).view(*x.shape[:-1], -1, attention.head_dim).transpose(1, 2)
        for linear in (attention.q_proj, attention.k_proj, attention.v_proj)
    )
    if hasattr(attention, "q_norm"):
        q, k = attention.q_norm(q), attention.k_norm(k)
    if hasattr(attention, "qk_norm"):  # of lengths, which no rotation changes
        q, k = attention.qk_norm(q), attention.qk_norm(k)
    return q, k, v


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.costly
def test_layers_of_transformers(case: Case) -> None:
    config, attention, rotary = built(case)
    x = torch.randn(2, SEQUENCE, config.hidden_size, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        exact = theirs(case, config, attention, rotary, x)
        reading = posenc.from_hf(config)
        entry = as_entry(reading.at(case.layer), case)
        q, k, v = projected(attention, x)
        got = attend(q, k, v, entry, mask=case.mask, scale=case.scale)
        out = getattr(attention, "o_proj", None) or attention.Wo
        mine = out(got.transpose(1, 2).reshape(*x.shape[:-1], -1))
    size = exact.abs().max()
    torch.testing.assert_close(mine, exact, rtol=0, atol=float(CLOSE * size))
    if entry.temperature is not None or case.window is not None:
        bare = posenc.Entry("bare", specs=entry.specs)
        other = attend(q, k, v, bare, mask=case.mask, scale=case.scale)
        assert (other - got).abs().max() > 1e-3, "the entry does nothing"


def as_entry(found: tuple[posenc.Layer, ...], case: Case) -> posenc.Entry:
    (layer,) = found
    return posenc.Entry(
        layer.layer,
        specs=() if layer.spec is None else (layer.spec,),
        temperature=layer.logit_scale,
        window=case.window,
    )


@pytest.mark.costly
def test_a_scale_on_the_softmax_and_a_rotation_of_the_last_channels() -> None:
    from transformers.models.deepseek_v3 import DeepseekV3Config, modeling_deepseek_v3 as original

    torch.manual_seed(5)
    config = DeepseekV3Config(
        **{**COMMON, "num_key_value_heads": 4, "q_lora_rank": 24, "kv_lora_rank": 16},
        qk_rope_head_dim=8,
        qk_nope_head_dim=8,
        v_head_dim=12,
        rope_parameters={**YARN, "rope_theta": 10000.0, "llama_4_scaling_beta": None},
    )
    config.rope_parameters.pop("llama_4_scaling_beta")
    config._attn_implementation = "eager"
    attention = original.DeepseekV3Attention(config, 0).eval()
    for parameter in attention.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    x = torch.randn(1, SEQUENCE, 64)
    ids = torch.arange(SEQUENCE)[None]
    mask = torch.full((1, 1, SEQUENCE, SEQUENCE), float("-inf")).triu(1)
    with torch.no_grad():
        turned = original.DeepseekV3RotaryEmbedding(config)(x, ids)
        exact = attention(x, position_embeddings=turned, attention_mask=mask)[0]
        q = attention.q_b_proj(attention.q_a_layernorm(attention.q_a_proj(x)))
        q = q.view(1, SEQUENCE, 4, 16).transpose(1, 2)
        both, rope = attention.kv_a_proj_with_mqa(x).split([16, 8], dim=-1)
        kv = attention.kv_b_proj(attention.kv_a_layernorm(both)).view(1, SEQUENCE, 4, 20)
        k, v = kv.transpose(1, 2).split([8, 12], dim=-1)
        k = torch.cat([k, rope[:, None].expand(1, 4, SEQUENCE, 8)], dim=-1)
        reading = posenc.from_hf(config)
        got = attend(q, k, v, reading.at(0), mask="causal")
        mine = attention.o_proj(got.transpose(1, 2).reshape(1, SEQUENCE, -1))
    assert posenc.logit_scale(reading.at(0)[0].spec) > 1.2  # type: ignore[arg-type]
    torch.testing.assert_close(mine, exact, rtol=0, atol=float(CLOSE * exact.abs().max()))


@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_a_bias_with_a_scale_of_its_own(stack: str) -> None:
    from transformers import T5Config
    from transformers.models.t5.modeling_t5 import T5Attention

    torch.manual_seed(6)
    config = T5Config(d_model=32, d_kv=8, num_heads=4, num_layers=1, vocab_size=8)
    config.is_decoder = stack == "decoder"
    attention = T5Attention(config, has_relative_attention_bias=True, layer_idx=0).eval()
    x = torch.randn(2, SEQUENCE, 32)
    mask = torch.zeros(1, 1, SEQUENCE, SEQUENCE)
    if stack == "decoder":
        mask = torch.full_like(mask, float("-inf")).triu(1)
    entry = posenc.presets.plan(f"t5-{stack}", layers=1, heads=4)[0]
    weight = attention.relative_attention_bias.weight
    with torch.no_grad():
        exact = attention(x, mask=mask)[0]
        q, k, v = (
            linear(x).view(2, SEQUENCE, 4, 8).transpose(1, 2)
            for linear in (attention.q, attention.k, attention.v)
        )
        params = {"bias": {"weight": weight}}
        direction = "causal" if stack == "decoder" else "none"
        got = attend(q, k, v, entry, params=params, mask=direction)  # type: ignore[arg-type]
        mine = attention.o(got.transpose(1, 2).reshape(2, SEQUENCE, -1))
    torch.testing.assert_close(mine, exact, rtol=0, atol=float(CLOSE * exact.abs().max()))


# --- what entries say, by hand --------------------------------------------------------------------


def by_hand(q: Any, k: Any, v: Any, factor: Any) -> Any:
    scores = (q @ k.mT) * factor
    seen = torch.ones(q.shape[-2], k.shape[-2]).tril().bool()
    return scores.masked_fill(~seen, float("-inf")).softmax(-1) @ v


def qkv() -> tuple[Any, Any, Any]:
    generator = torch.Generator().manual_seed(3)
    return tuple(torch.randn(2, 3, 9, 8, generator=generator).double() for _ in range(3))  # type: ignore[return-value]


TEMPERATURE = posenc.Temperature(rule="log_floor", length=4, strength=0.3)


def test_temperature_multiplies_the_scores_of_a_query() -> None:
    q, k, v = qkv()
    entry = posenc.Entry("warm", temperature=TEMPERATURE)
    factor = torch.log1p(torch.arange(9).double() // 4)[:, None] * 0.3 + 1
    exact = by_hand(q, k, v, factor / 8**0.5)
    torch.testing.assert_close(attend(q, k, v, entry, mask="causal"), exact, rtol=0, atol=1e-6)
    later = torch.stack([torch.arange(9), torch.arange(9) + 100])
    factor = (torch.log1p(later.double() // 4) * 0.3 + 1)[:, None, :, None]
    exact = by_hand(q, k, v, factor / 8**0.5)
    got = attend(q, k, v, entry, mask="causal", q_positions=later, k_positions=later)
    torch.testing.assert_close(got, exact, rtol=0, atol=1e-6)


def test_the_scale_of_an_entry_and_that_of_the_call() -> None:
    q, k, v = qkv()
    entry = posenc.Entry("scaled", scale=0.2)
    exact = by_hand(q, k, v, 0.2)
    torch.testing.assert_close(attend(q, k, v, entry, mask="causal"), exact, rtol=0, atol=1e-12)
    exact = by_hand(q, k, v, 0.4)
    got = attend(q, k, v, entry, mask="causal", scale=0.4)
    torch.testing.assert_close(got, exact, rtol=0, atol=1e-12)


def test_a_layer_without_positions_is_served() -> None:
    q, k, v = qkv()
    exact = by_hand(q, k, v, 8**-0.5)
    for entry in (None, posenc.Entry("nope"), posenc.Layer("nope"), (posenc.Layer("nope"),)):
        torch.testing.assert_close(attend(q, k, v, entry, mask="causal"), exact, rtol=0, atol=1e-12)


def test_a_bias_is_not_warmed() -> None:
    q, k, v = qkv()
    alibi = posenc.ALiBi(3)
    entry = posenc.Entry("warm", specs=(alibi,), temperature=TEMPERATURE)
    factor = torch.log1p(torch.arange(9).double() // 4)[:, None] * 0.3 + 1
    scores = (q @ k.mT) * factor / 8**0.5 + torch.as_tensor(posenc.bias(alibi, range(9), range(9)))
    exact = scores.masked_fill(~torch.ones(9, 9).tril().bool(), float("-inf")).softmax(-1) @ v
    torch.testing.assert_close(attend(q, k, v, entry, mask="causal"), exact, rtol=0, atol=1e-6)


ROPE = posenc.RoPE(8, pairing="half", magnitude=posenc.RotaryMagnitude(temperature=TEMPERATURE))
DYNAMIC = posenc.RoPE(8, pairing="half", scaling=posenc.scaling.DynamicNTK(2, original_length=4))
REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    (
        posenc.Entry("c", convolution="grouped, kernel 3"),
        {},
        "'grouped, kernel 3'.*mixes embeddings",
    ),
    (posenc.Layer("c", convolution="grouped"), {}, "mixes embeddings"),
    (posenc.Entry("t", temperature=posenc.Init()), {}, "a Temperature, got Init"),
    (posenc.Entry("t", specs=(ROPE,), temperature=TEMPERATURE), {}, "Leave out one"),
    (posenc.Entry("main", attentions=(posenc.Entry("inner"),)), {}, "'main' with inner inside it"),
    (
        (posenc.Layer("x"), posenc.Layer("x", attention="inner")),
        {},
        "inner, the main one.*as `mask`",
    ),
    (("nope",), {}, "layers of a reading, got str"),
    ((ROPE, posenc.ALiBi(4)), {}, r"posenc.Entry\('attention', specs=\(rotary, bias\)\)"),
    (posenc.KERPLE(4), {"params": {"r1": torch.ones(4)}}, "params={'bias': {'r1': …}}"),
    ("nope", {}, "an entry of a plan"),
    (DYNAMIC, {}, "length"),
    (
        posenc.Entry("t", temperature=TEMPERATURE),
        {"q_positions": torch.arange(3), "k_positions": torch.arange(9)},
        "a position for each of 9 queries",
    ),
]


@pytest.mark.parametrize(("entry", "more", "words"), REFUSED)
def test_refusals(entry: Any, more: dict[str, Any], words: str) -> None:
    with pytest.raises(posenc.ArgumentError, match=words):
        attend(*qkv(), entry, **more)


def test_a_length_for_scalings_that_need_one() -> None:
    q, k, v = qkv()
    exact = attend(q, k, v, DYNAMIC.at(9), mask="causal")
    got = attend(q, k, v, DYNAMIC, mask="causal", length=9)
    torch.testing.assert_close(got, exact, rtol=0, atol=0)


def test_what_a_temperature_does_inside_a_rotary_encoding_and_beside_it() -> None:
    q, k, v = qkv()
    beside = posenc.Entry("t", specs=(ROPE.replace(magnitude=posenc.RotaryMagnitude()),))
    warm = dataclasses.replace(beside, temperature=TEMPERATURE)
    inside: Callable[..., Any] = attend
    torch.testing.assert_close(
        inside(q, k, v, ROPE, mask="causal"), attend(q, k, v, warm, mask="causal"), rtol=0, atol=0
    )


def test_the_scale_of_a_layer_that_was_read() -> None:
    q, k, v = qkv()
    config = {"model_type": "t5", "num_heads": 3, "relative_attention_num_buckets": 8, "d_kv": 8}
    layer = posenc.from_hf(config, on_error="report")["encoder"]
    params = {"bias": {"weight": torch.zeros(8, 3, dtype=torch.float64)}}
    got = attend(q, k, v, layer, params=params)
    torch.testing.assert_close(got, (q @ k.mT).softmax(-1) @ v)
