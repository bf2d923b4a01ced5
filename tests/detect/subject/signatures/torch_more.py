"""Over torch: more that makes tables beside what applies them, and buffers as models store them."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import nn

from tests.detect.subject.loops import Rows, Turn
from tests.detect.subject.signatures.torch_pairs import (
    COS,
    COS_TWOS,
    TURN,
    TWOS,
    get_1d_rotary_pos_embed,
    precompute_freqs_cis,
)
from tests.detect.subject.signatures.torch_turns import (
    PAIRS,
    arange,
    as_complex,
    grid,
    inv,
    polar,
    turned,
    turned_twos,
    twice,
)

ROWS = Rows()


@ROWS.made("transformers CohereRotaryEmbedding, apply_rotary_pos_emb", TWOS)
def cohere() -> Any:
    class CohereRotaryEmbedding(nn.Module):
        def forward(self, x: Any, position_ids: Any) -> Any:
            emb = grid(position_ids, x.shape[-1]).repeat_interleave(2, dim=-1)
            return emb.cos().to(x.dtype), emb.sin().to(x.dtype)

    def apply(q: Any, k: Any, cos: Any, sin: Any, unsqueeze_dim: int = 1) -> Any:
        cos, sin = cos.unsqueeze(unsqueeze_dim)[..., ::2], sin.unsqueeze(unsqueeze_dim)[..., ::2]
        return turned_twos(q, cos, sin), turned_twos(k, cos, sin)

    return CohereRotaryEmbedding(), apply


@ROWS.made("transformers GlmRotaryEmbedding, apply_rotary_pos_emb", Turn("interleaved", dim=32))
def glm() -> Any:
    class GlmRotaryEmbedding(nn.Module):
        def forward(self, x: Any, position_ids: Any) -> Any:
            emb = twice(position_ids, 32)
            return emb.cos(), emb.sin()

    def apply(q: Any, k: Any, cos: Any, sin: Any, unsqueeze_dim: int = 1) -> Any:
        cos, sin = (t.unsqueeze(unsqueeze_dim)[..., : t.shape[-1] // 2] for t in (cos, sin))
        width = 2 * cos.shape[-1]
        return tuple(
            torch.cat([turned_twos(t[..., :width], cos, sin), t[..., width:]], dim=-1)
            for t in (q, k)
        )

    return GlmRotaryEmbedding(), apply


@ROWS.made("transformers Llama4TextRotaryEmbedding, apply_rotary_emb", TWOS)
def llama4() -> Any:
    class Llama4TextRotaryEmbedding(nn.Module):
        def forward(self, x: Any, position_ids: Any) -> Any:
            return polar(grid(position_ids, 64))

    def apply(xq: Any, xk: Any, freqs_cis: Any) -> Any:
        return tuple(
            torch.view_as_real(as_complex(x) * freqs_cis[:, :, None, :]).flatten(3).type_as(x)
            for x in (xq, xk)
        )

    return Llama4TextRotaryEmbedding(), apply


@ROWS.made("google/gemma_pytorch precompute_freqs_cis, apply_rotary_emb", TURN)
def gemma() -> Any:
    def apply(x: Any, freqs_cis: Any) -> Any:
        a, b = x.transpose(1, 2).float().chunk(2, dim=-1)
        out = torch.complex(a, b) * freqs_cis
        return torch.cat([out.real, out.imag], dim=-1).type_as(x).transpose(1, 2)

    return precompute_freqs_cis, apply


@ROWS.made("transformers RoFormer apply_rotary_position_embeddings", TWOS)
def roformer() -> Any:
    class Sinusoidal(nn.Module):
        def forward(self, input_ids_shape: Any, past_key_values_length: int = 0) -> Any:
            places = torch.arange(
                past_key_values_length, past_key_values_length + input_ids_shape[1]
            )
            angles = grid(places, 64)
            return torch.cat([angles.sin(), angles.cos()], dim=-1)[None, None]

    def apply(
        sinusoidal_pos: Any, query_layer: Any, key_layer: Any, value_layer: Any = None
    ) -> Any:
        sin, cos = sinusoidal_pos.chunk(2, dim=-1)
        return turned_twos(query_layer, cos, sin), turned_twos(key_layer, cos, sin)

    return Sinusoidal(), apply


@ROWS.made(
    "karpathy/nanochat _precompute_rotary_embeddings, apply_rotary_emb", Turn(sign=-1), "bfloat16"
)
def nanochat() -> Any:
    def make(seq_len: int, head_dim: int, base: int = 10_000, device: Any = None) -> Any:
        angles = grid(torch.arange(seq_len), head_dim, base)
        return tuple(t.bfloat16()[None, :, None, :] for t in (angles.cos(), angles.sin()))

    def apply(x: Any, cos: Any, sin: Any) -> Any:
        assert x.ndim == 4
        a, b = x[..., : x.shape[3] // 2], x[..., x.shape[3] // 2 :]
        return torch.cat([a * cos + b * sin, a * (-sin) + b * cos], 3).to(x.dtype)

    return make, apply


@ROWS.made("turboderp/exllama rope_ (in place, sine first)", TURN)
def exllama() -> Any:
    def make(max_seq_len: int, head_dim: int) -> Any:
        emb = twice(torch.arange(max_seq_len), head_dim)[None, None]
        return emb.sin(), emb.cos()

    def rope_(x: Any, sin: Any, cos: Any, past_len: int, num_heads: int, head_dim: int) -> None:
        rows = slice(past_len, past_len + x.shape[1])
        states = x.view(x.shape[0], x.shape[1], num_heads, head_dim)
        cos, sin = cos[0, 0, rows, None], sin[0, 0, rows, None]
        states.copy_(turned(states.clone(), cos, sin))

    return make, rope_


@ROWS.made("diffusers get_1d_rotary_pos_embed, apply_rotary_emb (real)", TWOS)
def diffusers() -> Any:
    def apply(x: Any, freqs_cis: Any, use_real: bool = True, use_real_unbind_dim: int = -1) -> Any:
        if not use_real:
            cis = freqs_cis.unsqueeze(2)
            return torch.view_as_real(as_complex(x) * cis).flatten(3).type_as(x)
        cos, sin = (t[None, None] for t in freqs_cis)
        if use_real_unbind_dim == -1:
            return turned_twos(x.float(), cos[..., ::2], sin[..., ::2]).to(x.dtype)
        return turned(x.float(), cos, sin).to(x.dtype)

    return functools.partial(get_1d_rotary_pos_embed, use_real=True), apply


@ROWS.made("black-forest-labs/flux rope, apply_rope (matrices)", TWOS, "float32")
def flux() -> Any:
    def rope(pos: Any, dim: int, theta: int) -> Any:
        assert dim % 2 == 0
        omega = 1.0 / theta ** (torch.arange(0, dim, 2, dtype=torch.float64) / dim)
        out = pos[..., None] * omega
        out = torch.stack([out.cos(), -out.sin(), out.sin(), out.cos()], dim=-1)
        return out.unflatten(-1, (2, 2)).float()

    def apply_rope(xq: Any, xk: Any, freqs_cis: Any) -> Any:
        def one(x: Any) -> Any:
            x_ = x.float().reshape(*x.shape[:-1], -1, 1, 2)
            y = freqs_cis[..., 0] * x_[..., 0] + freqs_cis[..., 1] * x_[..., 1]
            return y.reshape(*x.shape).type_as(x)

        return one(xq), one(xk)

    return functools.partial(rope, theta=10_000), apply_rope


@ROWS.made("huggingface/pytorch-image-models apply_rot_embed (sine first)", TWOS)
def timm() -> Any:
    def make(length: int, dim: int) -> Any:
        emb = grid(torch.arange(length), dim).repeat_interleave(2, dim=-1)
        return emb.sin(), emb.cos()

    def apply_rot_embed(x: Any, sin_emb: Any, cos_emb: Any) -> Any:
        rot = torch.stack([-x[..., 1::2], x[..., ::2]], -1).reshape(x.shape)
        return x * cos_emb + rot * sin_emb

    return make, apply_rot_embed


@ROWS.made("unslothai/unsloth fast_rope_embedding", TURN)
def unsloth() -> Any:
    def make(x: Any, seq_len: int) -> Any:
        emb = twice(torch.arange(seq_len), x.shape[-1])
        return emb.cos(), emb.sin()

    def fast_rope_embedding(Q: Any, K: Any, cos: Any, sin: Any) -> Any:
        cos, sin = cos[: Q.shape[-2]], sin[: Q.shape[-2]]
        return turned(Q, cos, sin), turned(K, cos, sin)

    return make, fast_rope_embedding


@ROWS.made("our own: Llama's arguments, and positions", TWOS)
def torchtitan() -> Any:
    def apply_rotary_emb(xq: Any, xk: Any, freqs_cis: Any, positions: Any = None) -> Any:
        cis = freqs_cis[: xq.shape[1]] if positions is None else freqs_cis[positions]
        cis = cis[None, :, None] if cis.dim() == 2 else cis[:, :, None]
        return tuple(
            torch.view_as_real(as_complex(x) * cis).flatten(3).type_as(x) for x in (xq, xk)
        )

    return precompute_freqs_cis, apply_rotary_emb


@ROWS.made("our own: applies with the arguments of a kernel of vLLM", TURN)
def one_table() -> Any:
    def make(max_position: int, rotary_dim: int) -> Any:
        angles = grid(torch.arange(max_position), rotary_dim)
        return torch.cat([angles.cos(), angles.sin()], dim=-1)

    def apply(positions: Any, query: Any, key: Any, cos_sin_cache: Any) -> Any:
        cos, sin = cos_sin_cache[positions].chunk(2, dim=-1)
        cos, sin = (torch.cat([t, t], -1)[:, None] for t in (cos, sin))
        return turned(query, cos, sin), turned(key, cos, sin)

    return make, apply


# --- buffers --------------------------------------------------------------------------------------


@ROWS.made("transformers, key inv_freq of a state dict", Turn(base=500_000.0, kinds=PAIRS))
def inv_freq() -> Any:
    return {"inv_freq": inv(64, 500_000.0)}


@ROWS.made("transformers 4.30, keys cos_cached and sin_cached of a state dict", COS)
def cos_cached() -> Any:
    emb = twice(torch.arange(2048), 64)
    return {"cos_cached": emb.cos()[None, None], "sin_cached": emb.sin()[None, None]}


@ROWS.made("meta-llama/llama, freqs_cis of a model", COS_TWOS)
def freqs_cis() -> Any:
    return {"freqs_cis": polar(grid(torch.arange(2048), 64))}


@ROWS.made("vllm, cos_sin_cache of a layer", COS)
def cos_sin_cache() -> Any:
    angles = grid(torch.arange(4096), 64)
    return {"cos_sin_cache": torch.cat([angles.cos(), angles.sin()], dim=-1)}


@ROWS.made("EleutherAI/gpt-j-6b in transformers, embed_positions of a layer", COS_TWOS)
def embed_positions() -> Any:
    angles = grid(torch.arange(2048), 64)
    return {"embed_positions": torch.cat([angles.sin(), angles.cos()], dim=1)}


# --- layers that hold what turns ------------------------------------------------------------------


@ROWS.made("our own: a module of a layer", TURN)
def within() -> Any:
    class Rope(nn.Module):
        def forward(self, q: Any, k: Any, position_ids: Any) -> Any:
            emb = twice(position_ids, q.shape[-1])
            emb = emb[:, None] if emb.dim() == 3 else emb
            return turned(q, emb.cos(), emb.sin()), turned(k, emb.cos(), emb.sin())

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q_proj, self.rope = nn.Linear(128, 128), Rope()

    return Layer().rope


@ROWS.made("our own: positions first, tokens flat", TWOS, heads=2)
def flat() -> Any:
    def rope_i(positions: Any, q: Any, head_size: int = 64) -> Any:
        angles = grid(positions.flatten(), head_size)[:, None]
        return turned_twos(q.view(len(q), -1, head_size), angles.cos(), angles.sin()).reshape(
            q.shape
        )

    return rope_i


@ROWS.made("our own: the arguments of Gemma's apply_rope over torch", TURN)
def gemma_positions() -> Any:
    def apply_rope(inputs: Any, positions: Any, *, base_frequency: int = 10_000) -> Any:
        fraction = 2 * torch.arange(0, inputs.shape[-1] // 2) / inputs.shape[-1]
        angles = (positions[..., None] / base_frequency**fraction)[..., None, :]
        a, b = inputs.chunk(2, dim=-1)
        sin, cos = angles.sin(), angles.cos()
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1).to(inputs.dtype)

    return apply_rope


@ROWS.made("our own: (q, k, indexes) to a dictionary", TURN)
def dictionary() -> Any:
    def apply(q: Any, k: Any, indexes: Any = 0) -> dict[str, Any]:
        emb = twice(arange(q, 1) + indexes, q.shape[-1])[:, None]
        return {"q": turned(q, emb.cos(), emb.sin()), "k": turned(k, emb.cos(), emb.sin())}

    return apply
