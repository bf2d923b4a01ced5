"""Attention with nanochat's names: (batch, seq, heads, dim), grouped heads, tables of cosines."""

import torch
from torch import nn
from torch.nn.functional import rms_norm, scaled_dot_product_attention


def tables(length, head_dim, base=10_000):
    steps = 1.0 / base ** (torch.arange(0, head_dim, 2).float() / head_dim)
    angles = torch.outer(torch.arange(length).float(), steps)
    return angles.cos()[None, :, None], angles.sin()[None, :, None]


def apply_rotary_emb(x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos + second * sin, second * cos - first * sin], dim=-1)


class CausalSelfAttention(nn.Module):
    def __init__(self, n_head, n_kv_head, n_embd):
        super().__init__()
        self.n_head, self.n_kv_head, self.head_dim = n_head, n_kv_head, n_embd // n_head
        self.c_q = nn.Linear(n_embd, n_head * self.head_dim, bias=False)
        self.c_k = nn.Linear(n_embd, n_kv_head * self.head_dim, bias=False)
        self.c_v = nn.Linear(n_embd, n_kv_head * self.head_dim, bias=False)
        self.c_proj = nn.Linear(n_embd, n_embd, bias=False)

    def forward(self, x, cos_sin):
        q = self.c_q(x).unflatten(-1, (self.n_head, self.head_dim))
        k = self.c_k(x).unflatten(-1, (self.n_kv_head, self.head_dim))
        v = self.c_v(x).unflatten(-1, (self.n_kv_head, self.head_dim))
        cos, sin = cos_sin
        q, k = apply_rotary_emb(q, cos, sin), apply_rotary_emb(k, cos, sin)
        q, k = rms_norm(q, (self.head_dim,)), rms_norm(k, (self.head_dim,))
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        y = scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.c_proj(y.transpose(1, 2).flatten(-2))
