"""Over torch: what makes cosines and sines, alone and beside what applies them; and buffers."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import nn

from tests.detect.subject.loops import Rows, Turn, Waves
from tests.detect.subject.signatures.torch_turns import (
    LLAMA,
    PAIRS,
    arange,
    as_complex,
    grid,
    inv,
    lucid_apply,
    polar,
    turned,
    turned_twos,
    twice,
)

ROWS = Rows()
TURN, COS = Turn(), Turn(kinds=PAIRS)
TWOS, COS_TWOS = Turn("interleaved"), Turn("interleaved", kinds=PAIRS)


# --- cosines and sines at positions ---------------------------------------------------------------


@ROWS.asked("transformers 4.30 LlamaRotaryEmbedding (seq_len)", COS)
class OldLlama(nn.Module):
    def __init__(
        self, dim: int, max_position_embeddings: int = 2048, base: int = 10_000, device: Any = None
    ) -> None:
        super().__init__()
        self.register_buffer("inv_freq", inv(dim, base))
        emb = twice(torch.arange(max_position_embeddings), dim, base)
        self.register_buffer("cos_cached", emb.cos()[None, None], persistent=False)
        self.register_buffer("sin_cached", emb.sin()[None, None], persistent=False)

    def forward(self, x: Any, seq_len: int | None = None) -> Any:
        cos, sin = self.cos_cached[:, :, :seq_len], self.sin_cached[:, :, :seq_len]
        return cos.to(dtype=x.dtype), sin.to(dtype=x.dtype)


class NewLlama(nn.Module):
    def __init__(self, config: Any = LLAMA, device: Any = None) -> None:
        super().__init__()
        self.register_buffer("inv_freq", inv(config.head_dim, config.rope_theta), persistent=False)

    @torch.no_grad()
    def forward(self, x: Any, position_ids: Any) -> Any:
        freqs = position_ids[:, :, None].float() * self.inv_freq[None, None]
        emb = torch.cat((freqs, freqs), dim=-1)
        return emb.cos().to(x.dtype), emb.sin().to(x.dtype)


ROWS.made("transformers LlamaRotaryEmbedding(config)", Turn(base=500_000.0, kinds=PAIRS))(NewLlama)


@ROWS.made("transformers Llama4TextRotaryEmbedding (complex)", COS_TWOS)
class Llama4(nn.Module):
    def forward(self, x: Any, position_ids: Any) -> Any:
        return polar(grid(position_ids, 64))


@ROWS.made("transformers Wav2Vec2ConformerRotaryPositionalEmbedding", COS)
class Wav2Vec2(nn.Module):
    def forward(self, hidden_states: Any) -> Any:
        emb = twice(arange(hidden_states, 1), 64)
        return torch.stack([emb.cos()[:, None, None], emb.sin()[:, None, None]])


@ROWS.asked("fairseq RotaryPositionalEmbedding", COS)
class Fairseq(nn.Module):
    def __init__(self, dim: int, base: int = 10_000, precision: Any = torch.half) -> None:
        super().__init__()
        self.register_buffer("inv_freq", inv(dim, base))

    def forward(self, x: Any, seq_len: int = 0) -> Any:
        emb = twice(torch.arange(seq_len), 2 * len(self.inv_freq)).view(seq_len, 1, 1, -1)
        return emb.cos(), emb.sin()


@ROWS.made("transformers ClvpRotaryPositionalEmbedding (angles)", COS)
class Clvp(nn.Module):
    def forward(self, hidden_states: Any) -> Any:
        return twice(arange(hidden_states, 1), 64)[None]


@ROWS.asked("diffusers get_1d_rotary_pos_embed", COS_TWOS)
def get_1d_rotary_pos_embed(
    dim: int, pos: Any, theta: float = 10_000.0, use_real: bool = False,
    linear_factor: float = 1.0, ntk_factor: float = 1.0, repeat_interleave_real: bool = True,
) -> Any:  # fmt: skip
    pos = torch.arange(pos) if isinstance(pos, int) else torch.as_tensor(pos)
    freqs = grid(pos, dim, theta * ntk_factor) / linear_factor
    if not use_real:
        return polar(freqs)
    if repeat_interleave_real:
        return tuple(f(freqs).repeat_interleave(2, dim=1) for f in (torch.cos, torch.sin))
    return tuple(f(torch.cat([freqs, freqs], dim=-1)) for f in (torch.cos, torch.sin))


@ROWS.asked("meta-llama/llama precompute_freqs_cis", COS_TWOS)
def precompute_freqs_cis(dim: int, end: int, theta: float = 10_000.0) -> Any:
    return polar(grid(torch.arange(end), dim, theta))


@ROWS.asked("transformers create_sinusoidal_positions (GPT-J)", Waves(kinds=("table", "cos_sin")))
def create_sinusoidal_positions(num_pos: int, dim: int) -> Any:
    angles = grid(torch.arange(num_pos), dim)
    return torch.cat((torch.sin(angles), torch.cos(angles)), dim=1)


# --- what makes tables, and what applies them -----------------------------------------------------


def llama_apply(q: Any, k: Any, cos: Any, sin: Any, position_ids: Any) -> Any:
    cos, sin = cos.squeeze(1).squeeze(0), sin.squeeze(1).squeeze(0)
    cos, sin = cos[position_ids].unsqueeze(1), sin[position_ids].unsqueeze(1)
    return turned(q, cos, sin), turned(k, cos, sin)


def new_apply(q: Any, k: Any, cos: Any, sin: Any, unsqueeze_dim: int = 1) -> Any:
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    return turned(q, cos, sin), turned(k, cos, sin)


def complex_apply(xq: Any, xk: Any, freqs_cis: Any) -> Any:
    if freqs_cis.shape != (xq.shape[1], xq.shape[-1] // 2):
        raise ValueError("freqs_cis must be (seq, dim / 2)")
    cis = freqs_cis.view(1, xq.shape[1], 1, -1)
    return tuple(torch.view_as_real(as_complex(x) * cis).flatten(3).type_as(x) for x in (xq, xk))


ROWS.made("transformers 4.30 LlamaRotaryEmbedding, apply_rotary_pos_emb", TURN)(
    lambda: (OldLlama, llama_apply)
)
ROWS.made("transformers LlamaRotaryEmbedding, apply_rotary_pos_emb", Turn(base=500_000.0))(
    lambda: (NewLlama(), new_apply)
)
ROWS.made("meta-llama/llama precompute_freqs_cis, apply_rotary_emb", TWOS)(
    lambda: (precompute_freqs_cis, complex_apply)
)


@ROWS.made("mistralai/mistral-inference precompute_freqs_cis, apply_rotary_emb (t, h, d)", TWOS)
def mistral() -> Any:
    def apply(xq: Any, xk: Any, freqs_cis: Any) -> Any:
        cis = freqs_cis[:, None, :]
        return tuple(
            torch.view_as_real(as_complex(x) * cis).flatten(2).type_as(x) for x in (xq, xk)
        )

    return precompute_freqs_cis, apply


@ROWS.made("pytorch-labs/gpt-fast precompute_freqs_cis, apply_rotary_emb", TWOS, "bfloat16")
def gpt_fast() -> Any:
    def make(seq_len: int, n_elem: int, base: int = 10_000, dtype: Any = torch.bfloat16) -> Any:
        angles = grid(torch.arange(seq_len), n_elem, base)
        return torch.stack([angles.cos(), angles.sin()], dim=-1).to(dtype=dtype)

    def apply(x: Any, freqs_cis: Any) -> Any:
        cis = freqs_cis.view(1, x.size(1), 1, x.size(3) // 2, 2)
        return turned_twos(x.float(), cis[..., 0], cis[..., 1]).type_as(x)

    return make, apply


@ROWS.made("Lightning-AI/litgpt build_rope_cache, apply_rope", TURN)
def litgpt() -> Any:
    def make(
        seq_len: int, n_elem: int, device: Any = None, base: int = 10_000, condense_ratio: int = 1
    ) -> Any:
        emb = twice(torch.arange(seq_len) / condense_ratio, n_elem, base)
        return emb.cos(), emb.sin()

    def apply(x: Any, cos: Any, sin: Any) -> Any:
        if cos.shape[0] != x.shape[-2]:
            raise ValueError("cos is of another length")
        return turned(x, cos, sin).to(dtype=x.dtype)

    return make, apply


@ROWS.made("Lightning-AI/lit-llama build_rope_cache, apply_rope", TWOS)
def lit_llama() -> Any:
    def make(seq_len: int, n_elem: int, dtype: Any, device: Any, base: int = 10_000) -> Any:
        angles = grid(torch.arange(seq_len), n_elem, base)
        return torch.stack([angles.cos(), angles.sin()], dim=-1)

    def apply(x: Any, rope_cache: Any) -> Any:
        cache = rope_cache[: x.size(1)].view(1, x.size(1), 1, x.size(3) // 2, 2)
        return turned_twos(x, cache[..., 0], cache[..., 1])

    return functools.partial(make, dtype=torch.float32, device="cpu"), apply


@ROWS.made("lucidrains/x-transformers RotaryEmbedding, apply_rotary_pos_emb", TWOS)
def x_transformers() -> Any:
    def forward_from_seq_len(seq_len: int) -> Any:
        angles = grid(torch.arange(seq_len), 64)
        return angles.repeat_interleave(2, dim=-1)[None], 1.0

    def apply(t: Any, freqs: Any, scale: Any = 1) -> Any:
        return lucid_apply(freqs[:, -t.shape[-2] :], t, scale=scale)

    return forward_from_seq_len, apply


@ROWS.made("lucidrains/PaLM-rlhf-pytorch RotaryEmbedding, apply_rotary_pos_emb", TURN)
def palm() -> Any:
    def make(seq_len: int) -> Any:
        return twice(torch.arange(seq_len), 64)

    return make, lambda pos, t: turned(t, pos.cos(), pos.sin())


@ROWS.made("EleutherAI/gpt-neox RotaryEmbedding, apply_rotary_pos_emb", TURN)
def neox() -> Any:
    class RotaryEmbedding(nn.Module):
        def __init__(self, dim: int, base: int = 10_000) -> None:
            super().__init__()
            self.register_buffer("inv_freq", inv(dim, base))

        def forward(self, x: Any, seq_dim: int = 1, seq_len: int | None = None) -> Any:
            seq_len = x.shape[seq_dim] if seq_len is None else seq_len
            emb = twice(torch.arange(seq_len), 2 * len(self.inv_freq))[:, None, None]
            return emb.cos(), emb.sin()

    @torch.jit.script
    def apply(
        q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, offset: int = 0
    ) -> tuple[torch.Tensor, torch.Tensor]:
        cos, sin = cos[offset : q.shape[0] + offset], sin[offset : q.shape[0] + offset]
        n = q.shape[-1] // 2
        q_ = torch.cat((-q[..., n:], q[..., :n]), dim=-1)
        k_ = torch.cat((-k[..., n:], k[..., :n]), dim=-1)
        return q * cos + q_ * sin, k * cos + k_ * sin

    return RotaryEmbedding, apply


class Megatron(nn.Module):
    """Angles as (length, 1, 1, dim)."""

    def __init__(self, kv_channels: int = 64, rotary_percent: float = 1.0) -> None:
        super().__init__()
        self.dim = int(kv_channels * rotary_percent)

    def forward(self, max_seq_len: int, offset: int = 0) -> Any:
        return twice(torch.arange(max_seq_len) + offset, self.dim)[:, None, None]


@ROWS.made("NVIDIA/Megatron-LM RotaryEmbedding, apply_rotary_pos_emb (part)", Turn(dim=32))
def megatron() -> Any:
    def apply(t: Any, freqs: Any) -> Any:
        rot, rest = t[..., : freqs.shape[-1]], t[..., freqs.shape[-1] :]
        return torch.cat([turned(rot, freqs.cos(), freqs.sin()), rest], dim=-1)

    return Megatron(64, 0.5), apply


@ROWS.made("NVIDIA/TransformerEngine RotaryPositionEmbedding, apply_rotary_pos_emb", TURN)
def transformer_engine() -> Any:
    def apply(
        t: Any, freqs: Any, tensor_format: str = "sbhd", fused: bool = False, cu_seqlens: Any = None
    ) -> Any:
        if tensor_format not in ("sbhd", "bshd") or cu_seqlens is not None:
            raise ValueError("only formats sbhd and bshd are supported")
        freqs = freqs[: t.shape[0 if tensor_format == "sbhd" else 1]]
        freqs = freqs if tensor_format == "sbhd" else freqs.transpose(0, 1)
        return turned(t, freqs.cos(), freqs.sin())

    return Megatron(64), apply


@ROWS.made("Dao-AILab/flash-attention apply_rotary_emb", TURN)
def flash() -> Any:
    def make(seqlen: int, rotary_dim: int) -> Any:
        angles = grid(torch.arange(seqlen), rotary_dim)
        return angles.cos(), angles.sin()

    def apply(
        x: Any, cos: Any, sin: Any, interleaved: bool = False, inplace: bool = False,
        seqlen_offsets: Any = 0, cu_seqlens: Any = None, max_seqlen: int | None = None,
    ) -> Any:  # fmt: skip
        if cu_seqlens is not None:
            raise NotImplementedError("variable lengths need the kernel")
        rows = slice(seqlen_offsets, seqlen_offsets + x.shape[1])
        cos, sin = cos[rows, None], sin[rows, None]
        if interleaved:
            return turned_twos(x, cos, sin)
        return turned(x, torch.cat([cos, cos], -1), torch.cat([sin, sin], -1))

    return make, apply


@ROWS.made("transformers 4.20 GPT-J fixed_pos_embedding, apply_rotary_pos_emb", TWOS)
def gptj() -> Any:
    def make(x: Any, seq_dim: int = 1, seq_len: int | None = None) -> Any:
        seq_len = x.shape[seq_dim] if seq_len is None else seq_len
        angles = grid(torch.arange(seq_len), x.shape[-1])
        return angles.sin(), angles.cos()

    def apply(x: Any, sincos: Any, offset: int = 0) -> Any:
        sin, cos = (t[None, offset : x.shape[1] + offset, None] for t in sincos)
        return turned_twos(x, cos, sin)

    return make, apply


@ROWS.made("THUDM/chatglm2-6b RotaryEmbedding, apply_rotary_pos_emb", Turn("interleaved", dim=32))
def chatglm() -> Any:
    def make(max_seq_len: int, offset: int = 0) -> Any:
        angles = grid(torch.arange(max_seq_len) + offset, 32)
        return torch.stack([angles.cos(), angles.sin()], dim=-1)[:, None, None]

    def apply(x: Any, rope_cache: Any) -> Any:
        sq, width = x.size(0), rope_cache.shape[-2] * 2
        cache = rope_cache[:sq]
        rot = turned_twos(x[..., :width], cache[..., 0], cache[..., 1])
        return torch.cat((rot, x[..., width:]), dim=-1)

    return make, apply


@ROWS.made("Qwen/Qwen-7B RotaryEmbedding, apply_rotary_pos_emb", TURN)
def qwen() -> Any:
    def make(max_seq_len: int, offset: int = 0, ntk_alpha: float = 1.0) -> Any:
        emb = twice(torch.arange(max_seq_len) + offset, 64)[None, :, None]
        return [emb.cos(), emb.sin()]

    def apply(t: Any, freqs: Any) -> Any:
        cos, sin = freqs
        return turned(t.float(), cos, sin).type_as(t)

    return make, apply


@ROWS.made("deepseek-ai/DeepSeek-V2 apply_rotary_pos_emb", Turn("interleaved", "half"))
def deepseek() -> Any:
    def apply(q: Any, k: Any, cos: Any, sin: Any, position_ids: Any, unsqueeze_dim: int = 1) -> Any:
        cos, sin = (
            cos[position_ids].unsqueeze(unsqueeze_dim),
            sin[position_ids].unsqueeze(unsqueeze_dim),
        )
        q, k = (torch.cat([x[..., ::2], x[..., 1::2]], dim=-1) for x in (q, k))
        return turned(q, cos, sin), turned(k, cos, sin)

    def make(x: Any, seq_len: int) -> Any:
        emb = twice(torch.arange(seq_len), 64)
        return emb.cos().to(x.dtype), emb.sin().to(x.dtype)

    return make, apply


@ROWS.made("deepseek-ai/DeepSeek-V3 precompute_freqs_cis, apply_rotary_emb", TWOS)
def deepseek_inference() -> Any:
    def apply(x: Any, freqs_cis: Any) -> Any:
        cis = freqs_cis.view(1, x.size(1), 1, x.size(-1) // 2)
        return torch.view_as_real(as_complex(x) * cis).flatten(3).to(x.dtype)

    return precompute_freqs_cis, apply
