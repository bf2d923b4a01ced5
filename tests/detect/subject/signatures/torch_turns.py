"""Rotations over torch: the calls are those that ports have published, the code is our own."""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from tests.detect.subject.loops import Rows, Turn

ROWS = Rows()
LLAMA = SimpleNamespace(head_dim=64, rope_theta=500_000.0, max_position_embeddings=4096)
PAIRS = ("cos_sin", "angles", "table")  # kinds in which a table of cosines may be told


def inv(dim: int, base: float = 10_000.0) -> Any:
    return 1.0 / base ** (torch.arange(0, dim, 2).float() / dim)


def grid(positions: Any, dim: int, base: float = 10_000.0) -> Any:
    """Angles, each once."""
    return positions.float()[..., None] * inv(dim, base)


def twice(positions: Any, dim: int, base: float = 10_000.0) -> Any:
    return torch.cat([grid(positions, dim, base)] * 2, dim=-1)


def turned(x: Any, cos: Any, sin: Any) -> Any:
    """Halves; cosines have the full width."""
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-b, a], dim=-1) * sin


def turned_twos(x: Any, cos: Any, sin: Any) -> Any:
    """Neighbours; cosines have half the width."""
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, b * cos + a * sin], dim=-1).flatten(-2).type_as(x)


def as_complex(x: Any) -> Any:
    return torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))


def polar(angles: Any) -> Any:
    return torch.polar(torch.ones_like(angles), angles)


def arange(x: Any, dim: int) -> Any:
    return torch.arange(x.shape[dim])


# --- modules that turn ----------------------------------------------------------------------------


@ROWS.asked("torchtune RotaryPositionalEmbeddings", Turn("interleaved"))
class Torchtune(nn.Module):
    def __init__(self, dim: int, max_seq_len: int = 4096, base: int = 10_000) -> None:
        super().__init__()
        angles = grid(torch.arange(max_seq_len), dim, base)
        cache = torch.stack([angles.cos(), angles.sin()], dim=-1)
        self.register_buffer("cache", cache, persistent=False)

    def forward(self, x: Any, *, input_pos: Any = None) -> Any:
        cache = self.cache[: x.size(1)] if input_pos is None else self.cache[input_pos]
        cache = cache.view(-1, x.size(1), 1, x.size(3) // 2, 2)
        return turned_twos(x, cache[..., 0], cache[..., 1])


class Vllm(nn.Module):
    def __init__(
        self, head_size: int, rotary_dim: int, max_position_embeddings: int, base: float,
        is_neox_style: bool, dtype: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        self.head_size, self.rotary_dim, self.neox = head_size, rotary_dim, is_neox_style
        angles = grid(torch.arange(max_position_embeddings), rotary_dim, base)
        cache = torch.cat([angles.cos(), angles.sin()], dim=-1).to(dtype)
        self.register_buffer("cos_sin_cache", cache, persistent=False)

    def forward(self, positions: Any, query: Any, key: Any = None) -> Any:
        positions = positions.flatten()
        cos, sin = self.cos_sin_cache.index_select(0, positions).chunk(2, dim=-1)
        cos, sin = cos[:, None], sin[:, None]
        return tuple(self._turn(part, len(positions), cos, sin) for part in (query, key))

    def _turn(self, part: Any, tokens: int, cos: Any, sin: Any) -> Any:
        if part is None:
            return None
        heads = part.view(tokens, -1, self.head_size)
        rot, rest = heads[..., : self.rotary_dim], heads[..., self.rotary_dim :]
        if self.neox:
            rot = turned(rot, torch.cat([cos, cos], -1), torch.cat([sin, sin], -1))
        else:
            rot = turned_twos(rot, cos, sin)
        return torch.cat([rot, rest], dim=-1).reshape(part.shape)


@ROWS.made("vllm RotaryEmbedding.forward_native (neox)", Turn(base=1e6))
def vllm_neox() -> Any:
    return Vllm(64, 64, 4096, 1e6, True, torch.float32).forward


@ROWS.made("vllm RotaryEmbedding.forward_native (gpt-j, part)", Turn("interleaved", dim=32))
def vllm_gptj() -> Any:
    return Vllm(64, 32, 4096, 10_000.0, False, torch.float32)


@ROWS.made("sglang RotaryEmbedding.forward_native", Turn())
class Sglang(Vllm):
    def __init__(self) -> None:
        super().__init__(64, 64, 2048, 10_000.0, True, torch.float32)

    def forward(self, positions: Any, query: Any, key: Any, offsets: Any = None) -> Any:
        return super().forward(positions if offsets is None else positions + offsets, query, key)


class Lucidrains(nn.Module):
    def __init__(self, dim: int, theta: float = 10_000, seq_before_head_dim: bool = False) -> None:
        super().__init__()
        self.freqs = nn.Parameter(inv(dim, theta), requires_grad=False)
        self.default_seq_dim = -3 if seq_before_head_dim else -2

    def forward(self, t: Any, seq_len: int | None = None, offset: int = 0) -> Any:
        return (t.float()[..., None] * self.freqs).repeat_interleave(2, dim=-1)

    def rotate_queries_or_keys(
        self, t: Any, seq_dim: int | None = None, offset: int = 0, scale: Any = None
    ) -> Any:
        seq_dim = self.default_seq_dim if seq_dim is None else seq_dim
        freqs = self.forward(torch.arange(t.shape[seq_dim]) + offset)
        return lucid_apply(freqs[:, None] if seq_dim == -3 else freqs, t)


def lucid_apply(
    freqs: Any, t: Any, start_index: int = 0, scale: float = 1.0, seq_dim: int = -2
) -> Any:
    end = start_index + freqs.shape[-1]
    left, mid, right = t[..., :start_index], t[..., start_index:end], t[..., end:]
    freqs = freqs[..., ::2]
    mid = turned_twos(mid, freqs.cos() * scale, freqs.sin() * scale)
    return torch.cat([left, mid, right], dim=-1)


@ROWS.made("rotary-embedding-torch rotate_queries_or_keys", Turn("interleaved"))
def lucid() -> Any:
    return Lucidrains(64).rotate_queries_or_keys


@ROWS.made("rotary-embedding-torch rotate_queries_or_keys (seq first)", Turn("interleaved"))
def lucid_seq_first() -> Any:
    return Lucidrains(64, seq_before_head_dim=True).rotate_queries_or_keys


ROWS.asked(
    "rotary-embedding-torch RotaryEmbedding.forward", Turn("interleaved", kinds=("rotary", *PAIRS))
)(Lucidrains)


@ROWS.made("rotary-embedding-torch apply_rotary_emb", Turn("interleaved", dim=32))
def lucid_pair() -> Any:
    return Lucidrains(32), lucid_apply


@ROWS.made("flash-attn RotaryEmbedding.forward (qkv)", Turn())
class FlashQkv(nn.Module):
    def __init__(self, dim: int = 64, base: float = 10_000.0, interleaved: bool = False) -> None:
        super().__init__()
        self.dim, self.base = dim, base

    def forward(
        self, qkv: Any, kv: Any = None, seqlen_offset: Any = 0, max_seqlen: int | None = None
    ) -> Any:
        if qkv.dim() != 5 or qkv.shape[2] != 3:
            raise ValueError("qkv must be (batch, seqlen, 3, nheads, headdim)")
        angles = twice(arange(qkv, 1) + seqlen_offset, self.dim, self.base)[:, None]
        q, k, v = qkv.unbind(dim=2)
        return torch.stack(
            [turned(q, angles.cos(), angles.sin()), turned(k, angles.cos(), angles.sin()), v], dim=2
        )


@ROWS.asked("facebook/esm RotaryEmbedding", Turn())
class Esm(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.register_buffer("inv_freq", inv(dim))

    def forward(self, q: Any, k: Any) -> Any:
        t = torch.arange(k.shape[-2], dtype=self.inv_freq.dtype)
        emb = torch.outer(t, torch.cat([self.inv_freq] * 2))[None]
        cos, sin = emb.cos(), emb.sin()
        return tuple(turned(x, cos[:, : x.shape[-2]], sin[:, : x.shape[-2]]) for x in (q, k))


@ROWS.asked("xformers RotaryEmbedding", Turn())
class Xformers(nn.Module):
    def __init__(self, dim_model: int, *_: Any, **__: Any) -> None:
        super().__init__()
        self.register_buffer("inv_freq", inv(dim_model))

    def forward(self, q: Any, k: Any) -> Any:
        emb = twice(arange(k, -2), 2 * len(self.inv_freq))[None, None]
        cos, sin = emb.cos(), emb.sin()
        return tuple(
            turned(x, cos[..., : x.shape[-2], :], sin[..., : x.shape[-2], :]) for x in (q, k)
        )


@ROWS.made("allenai/OLMo RotaryEmbedding", Turn(base=500_000.0))
class Olmo(nn.Module):
    def __init__(self, config: Any = LLAMA) -> None:
        super().__init__()
        self.config = config

    def forward(self, q: Any, k: Any) -> Any:
        length, last = q.shape[-2], k.shape[-2]
        emb = twice(torch.arange(last), self.config.head_dim, self.config.rope_theta)[None, None]
        cos, sin = emb.cos(), emb.sin()
        queries = slice(last - length, last)
        q_ = turned(q.float(), cos[:, :, queries], sin[:, :, queries])
        return q_.type_as(q), turned(k.float(), cos, sin).type_as(k)


@ROWS.asked("tiiuae/falcon-7b RotaryEmbedding", Turn())
class Falcon(nn.Module):
    def __init__(self, head_dim: int, base: int = 10_000) -> None:
        super().__init__()
        self.head_dim, self.base = head_dim, base

    def forward(self, query: Any, key: Any, past_key_values_length: int = 0) -> Any:
        _, seq_len, _ = query.shape
        places = torch.arange(past_key_values_length, past_key_values_length + seq_len)
        emb = twice(places, self.head_dim, self.base)[None]
        return turned(query, emb.cos(), emb.sin()), turned(key, emb.cos(), emb.sin())


@ROWS.made(
    "KellerJordan/modded-nanogpt Rotary",
    Turn(sign=-1, speeds=tuple((1 / 1024) ** (j / 15) if j < 16 else 0.0 for j in range(32))),
)
class Modded(nn.Module):
    def __init__(self, dim: int = 64, max_seq_len: int = 2048) -> None:
        super().__init__()
        freq = (1 / 1024) ** torch.linspace(0, 1, steps=dim // 4, dtype=torch.float32)
        theta = torch.outer(
            torch.arange(max_seq_len).float(), torch.cat([freq, freq.new_zeros(dim // 4)])
        )
        self.cos, self.sin = nn.Buffer(theta.cos()), nn.Buffer(theta.sin())

    def forward(self, x_BTHD: Any) -> Any:
        assert self.cos.size(0) >= x_BTHD.size(-3)
        cos, sin = self.cos[None, : x_BTHD.size(-3), None], self.sin[None, : x_BTHD.size(-3), None]
        a, b = x_BTHD.float().chunk(2, dim=-1)
        return torch.cat([a * cos + b * sin, b * cos - a * sin], dim=3).type_as(x_BTHD)


@ROWS.made("answerdotai/ModernBERT UnpaddedRotaryEmbedding", Turn(base=160_000.0))
class Unpadded(nn.Module):
    def __init__(self, dim: int = 64, base: float = 160_000.0) -> None:
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, qkv: Any, cu_seqlens: Any, max_seqlen: int | None = None) -> Any:
        lengths = (cu_seqlens[1:] - cu_seqlens[:-1]).tolist()
        if qkv.dim() != 4 or qkv.shape[1] != 3 or sum(lengths) != len(qkv):
            raise ValueError("qkv must be (total, 3, nheads, headdim)")
        emb = twice(torch.cat([torch.arange(n) for n in lengths]), self.dim, self.base)[
            :, None, None
        ]
        return torch.cat([turned(qkv[:, :2], emb.cos(), emb.sin()), qkv[:, 2:]], dim=1)


# --- functions ------------------------------------------------------------------------------------


def apply_rope(x: Any, positions: Any, *, theta: float = 10_000.0) -> Any:
    emb = twice(positions, x.shape[-1], theta)
    emb = emb[:, None] if emb.dim() == 3 else emb
    return turned(x, emb.cos(), emb.sin())


@ROWS.made("our own: partial of a function with the keyword theta", Turn(base=500_000.0))
def partially() -> Any:
    return functools.partial(apply_rope, theta=500_000.0)


@ROWS.asked("our own: keywords only, part of the width", Turn(dim=32))
def keyword_only(*, x: Any, offset: int = 0) -> Any:
    emb = twice(arange(x, 1) + offset, 32)[:, None]
    return torch.cat([turned(x[..., :32], emb.cos(), emb.sin()), x[..., 32:]], dim=-1)


@ROWS.asked("our own: (xq, xk, start_pos) to a dictionary", Turn("interleaved"))
def decoding(xq: Any, xk: Any, start_pos: int) -> dict[str, Any]:
    cis = polar(grid(start_pos + arange(xq, 1), xq.shape[-1]))[:, None]
    return {
        "xq": torch.view_as_real(as_complex(xq) * cis).flatten(3).type_as(xq),
        "xk": torch.view_as_real(as_complex(xk) * cis).flatten(3).type_as(xk),
    }


@ROWS.asked("our own: in place, (x, past_len, num_heads, head_dim)", Turn("half"))
def rope_(x: Any, past_len: int, num_heads: int, head_dim: int) -> None:
    emb = twice(arange(x, 1) + past_len, head_dim)[:, None]
    states = x.view(x.shape[0], x.shape[1], num_heads, head_dim)
    states.copy_(turned(states.clone(), emb.cos(), emb.sin()))


@ROWS.made("our own: traced", Turn())
def scripted() -> Any:
    def rotate(q: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        n = q.shape[-1] // 2
        freq = 10000.0 ** (-torch.arange(n).float() / n)
        angle = positions.float().unsqueeze(-1) * freq
        cos, sin = angle.cos(), angle.sin()
        a, b = q[..., :n], q[..., n:]
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)

    return torch.jit.trace(rotate, (torch.ones(1, 2, 5, 64), torch.arange(5)))


@ROWS.asked("our own: attention_mask or position_ids", Turn())
def masked(hidden: Any, attention_mask: Any = None, position_ids: Any = None) -> Any:
    if position_ids is None:
        position_ids = (attention_mask.cumsum(-1) - 1).clamp(min=0)
    emb = twice(position_ids, hidden.shape[-1])
    emb = emb[:, None] if emb.dim() == 3 else emb
    return turned(hidden, emb.cos(), emb.sin())


@ROWS.asked("our own: (x, seq_len), where seq_len must be that of x", Turn("interleaved"))
def by_length(x: Any, seq_len: int) -> Any:
    if seq_len != x.shape[-2]:
        raise ValueError("seq_len is not the length of x")
    angles = grid(torch.arange(seq_len), x.shape[-1])
    return turned_twos(x, angles.cos(), angles.sin())
