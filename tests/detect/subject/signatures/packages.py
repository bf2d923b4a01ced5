"""Other people's packages themselves, called as they are; nobody built the machine with them."""

from __future__ import annotations

import importlib
from typing import Any

import torch

from tests.detect.subject.loops import Buckets, Entries, Rows, Slopes, Turn, Waves
from tests.detect.subject.signatures.torch_turns import PAIRS

ROWS = Rows()
DRAWN = torch.randn(128, 64, generator=torch.Generator().manual_seed(3))
BUCKETS = {n: torch.randn(n, 8, generator=torch.Generator().manual_seed(n)) for n in (32, 320)}
ALTERNATE, SECOND = Waves("interleaved"), Waves(denominator=31, shift=2)


def of(module: str, *names: str) -> Any:
    """Functions and classes of a module."""
    home = importlib.import_module(module)
    found = [getattr(home, name) for name in names]
    return found[0] if len(found) == 1 else found


def model(name: str, *names: str) -> Any:
    """Functions and classes of a model of transformers."""
    return of(f"transformers.models.{name}.modeling_{name}", *names)


def config(name: str, **fields: Any) -> Any:
    return of("transformers", f"{name}Config")(hidden_size=512, num_attention_heads=8, **fields)


def stored(module: Any, values: torch.Tensor = DRAWN) -> Any:
    """A module with other weights."""
    module.weight = torch.nn.Parameter(values, requires_grad=False)
    return module


# --- rotations and cosines ------------------------------------------------------------------------


@ROWS.made("transformers RecurrentGemmaRotaryEmbedding", Turn(dim=32, kinds=PAIRS))
def recurrent_gemma() -> Any:
    module = model("recurrent_gemma", "RecurrentGemmaRotaryEmbedding")
    return module(config("RecurrentGemma", head_dim=64))


@ROWS.made("transformers Wav2Vec2ConformerRotaryPositionalEmbedding", Turn(kinds=PAIRS))
def conformer() -> Any:
    module = model("wav2vec2_conformer", "Wav2Vec2ConformerRotaryPositionalEmbedding")
    return module(config("Wav2Vec2Conformer"))


@ROWS.made("transformers DeepseekV2RotaryEmbedding, apply_rotary_emb", Turn("interleaved"))
def deepseek() -> Any:
    module, apply = model("deepseek_v2", "DeepseekV2RotaryEmbedding", "apply_rotary_emb")
    return module(config("DeepseekV2", qk_rope_head_dim=64, head_dim=64)), apply


@ROWS.made("transformers create_sinusoidal_positions, apply_rotary_pos_emb of GPT-J",
           Turn("interleaved"))  # fmt: skip
def gptj() -> Any:
    return tuple(model("gptj", "create_sinusoidal_positions", "apply_rotary_pos_emb"))


@ROWS.made("torchembed RotaryEmbedding", Turn())
def torchembed() -> Any:
    return of("torchembed.positional", "RotaryEmbedding")(64)


@ROWS.made("x-transformers RotaryEmbedding, apply_rotary_pos_emb", Turn("interleaved"))
def x_transformers() -> Any:
    names = "RotaryEmbedding", "apply_rotary_pos_emb"
    module, apply = of("x_transformers.x_transformers", *names)
    return module(64), apply


# --- tables ---------------------------------------------------------------------------------------


@ROWS.made("transformers MarianSinusoidalPositionalEmbedding", Waves())
def marian() -> Any:
    module = model("marian", "MarianSinusoidalPositionalEmbedding")(128, 64)
    return stored(module, module.create_weight())


ROWS.made("transformers Speech2TextSinusoidalPositionalEmbedding", SECOND)(
    lambda: model("speech_to_text", "Speech2TextSinusoidalPositionalEmbedding")(1024, 64, 1)
)
ROWS.made("transformers XGLMSinusoidalPositionalEmbedding", SECOND)(
    lambda: model("xglm", "XGLMSinusoidalPositionalEmbedding")(1024, 64, None)
)
ROWS.made("transformers MusicgenSinusoidalPositionalEmbedding", Waves("cos_sin", denominator=31))(
    lambda: model("musicgen", "MusicgenSinusoidalPositionalEmbedding")(512, 64)
)
ROWS.made("transformers SinusoidsPositionEmbedding of Qwen2.5-Omni", Waves(denominator=31))(
    lambda: model("qwen2_5_omni", "SinusoidsPositionEmbedding")(512, 64)
)
ROWS.made("transformers positional_encoding of CTRL", Waves())(
    lambda: model("ctrl", "positional_encoding")
)
ROWS.made("transformers SpeechT5ScaledPositionalEncoding", ALTERNATE)(
    lambda: model("speecht5", "SpeechT5ScaledPositionalEncoding")(0.1, 64)
)
ROWS.made("transformers WhisperPositionalEmbedding", Entries(DRAWN.numpy()))(
    lambda: stored(model("whisper", "WhisperPositionalEmbedding")(128, 64))
)
ROWS.made("diffusers SinusoidalPositionalEmbedding", ALTERNATE)(
    lambda: of("diffusers.models.embeddings", "SinusoidalPositionalEmbedding")(64, 512)
)
ROWS.made("torchembed SinusoidalEmbedding", ALTERNATE)(
    lambda: of("torchembed.positional", "SinusoidalEmbedding")
)
ROWS.made("positional_encodings PositionalEncoding1D", ALTERNATE)(
    lambda: of("positional_encodings.torch_encodings", "PositionalEncoding1D")(64)
)


@ROWS.made("transformers SinusoidalPositionalEmbedding of FSMT", SECOND)
def fsmt() -> Any:
    module = model("fsmt", "SinusoidalPositionalEmbedding")(512, 64, 1)
    return stored(module, module.get_embedding(514, 64, 1))


@ROWS.made("torchembed LearnedPositionalEmbedding", Entries(DRAWN.numpy()))
def learned() -> Any:
    module = of("torchembed.positional", "LearnedPositionalEmbedding")(128, 64)
    stored(module.embedding)
    return module


@ROWS.made("positional_encodings Summer(PositionalEncoding1D)", ALTERNATE)
def summer() -> Any:
    names = "Summer", "PositionalEncoding1D"
    added, encoding = of("positional_encodings.torch_encodings", *names)
    return added(encoding(64))


# --- biases ---------------------------------------------------------------------------------------


ROWS.made("transformers build_mpt_alibi_tensor", Slopes(8, "keys", 1.0), options={"heads": 8})(
    lambda: model("mpt", "build_mpt_alibi_tensor")
)


@ROWS.made("transformers WavLMAttention.compute_bias", Buckets(BUCKETS[320].numpy(), largest=800))
def wavlm() -> Any:
    attention = model("wavlm", "WavLMAttention")(512, 8, has_relative_position_bias=True)
    stored(attention.rel_attn_embed, BUCKETS[320])
    return attention.compute_bias


@ROWS.made("transformers T5Attention.compute_bias(past_seen_tokens)", Buckets(BUCKETS[32].numpy()))
def t5() -> Any:
    sizes = of("transformers", "T5Config")(d_model=512, num_heads=8, d_kv=64)
    attention = model("t5", "T5Attention")(sizes, has_relative_attention_bias=True)
    stored(attention.relative_attention_bias, BUCKETS[32])
    return attention.compute_bias
