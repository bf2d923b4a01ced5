"""Biases over torch: of lengths, of masks, of positions, and a function of scores."""

from __future__ import annotations

import functools
import math
from typing import Any

import torch
from torch import nn

from tests.detect.subject.loops import Buckets, Rows, Slopes, slopes

ROWS = Rows()
BUCKETS = torch.randn(32, 8, generator=torch.Generator().manual_seed(4))


def buckets(offsets: Any, both: bool, count: int = 32, largest: int = 128) -> Any:
    begin, n = torch.zeros_like(offsets), -offsets
    if both:
        count //= 2
        begin, n = (n < 0).long() * count, n.abs()
    n = n.clamp(min=0)
    exact = count // 2
    far = torch.log(n.float().clamp(min=1) / exact) / math.log(largest / exact) * (count - exact)
    return begin + torch.where(n < exact, n, (exact + far.long()).clamp(max=count - 1))


class T5(nn.Module):
    """The bias of one layer."""

    def __init__(self) -> None:
        super().__init__()
        self.relative_attention_bias = nn.Embedding.from_pretrained(BUCKETS)

    def compute_bias(self, query_length: int, key_length: int, device: Any = None) -> Any:
        offsets = torch.arange(key_length)[None] - torch.arange(query_length)[:, None]
        values = self.relative_attention_bias(buckets(offsets, True))
        return values.permute([2, 0, 1]).unsqueeze(0)

    def compute_position_bias(self, x: Any, position_ids: Any = None, num_buckets: int = 32) -> Any:
        bsz, qlen, klen = x.size(0), x.size(1), x.size(1)
        places = torch.arange(qlen)[None] if position_ids is None else position_ids
        offsets = places[:, None, :] - places[:, :, None]
        values = self.relative_attention_bias(buckets(offsets, True, num_buckets))
        return values.permute([0, 3, 1, 2]).expand((bsz, -1, qlen, klen)).contiguous()


class Relative(nn.Module):
    """The same of the last queries, with a factor, for a causal model."""

    def __init__(self) -> None:
        super().__init__()
        self.relative_attention_bias = nn.Embedding.from_pretrained(BUCKETS)

    def forward(self, i: int, j: int) -> Any:
        offsets = torch.arange(j)[None] - torch.arange(j - i, j)[:, None]
        return self.relative_attention_bias(buckets(offsets, False)).permute([2, 0, 1]) * 8.0


BIAS = {"kind": "bias"}
T5_RIGHT = Buckets(BUCKETS.numpy())
ROWS.made("transformers T5Attention.compute_bias", T5_RIGHT)(lambda: T5().compute_bias)
ROWS.made("transformers MPNetEncoder.compute_position_bias", T5_RIGHT)(
    lambda: T5().compute_position_bias
)
ROWS.made(
    "lucidrains/x-transformers RelativePositionBias", Buckets(BUCKETS.numpy(), False, scale=8.0),
    options=BIAS,
)(Relative)  # fmt: skip


@ROWS.made("lucidrains/x-transformers AlibiPositionalBias", Slopes(8), options=BIAS)
class Alibi(nn.Module):
    def __init__(self, heads: int = 8) -> None:
        super().__init__()
        self.register_buffer("slopes", torch.tensor(slopes(heads))[:, None, None])

    def forward(self, i: int, j: int) -> Any:
        return -(torch.arange(j)[None] - torch.arange(j - i, j)[:, None]).abs() * self.slopes


@ROWS.asked("mosaicml/llm-foundry build_alibi_bias", Slopes(8, "keys", 1.0), options={"heads": 8})
def build_alibi_bias(
    n_heads: int, seq_len: int, full: bool = False, alibi_bias_max: int = 8,
    device: Any = None, dtype: Any = None,
) -> Any:  # fmt: skip
    bias = torch.arange(1 - seq_len, 1, dtype=torch.int32).view(1, 1, 1, seq_len)
    if full:
        bias = -(bias - torch.arange(1 - seq_len, 1).view(1, 1, seq_len, 1)).abs()
    return bias * torch.tensor(slopes(n_heads, alibi_bias_max)).view(1, n_heads, 1, 1)


@ROWS.made("transformers build_alibi_tensor (BLOOM)", Slopes(8, "keys", 1.0))
def bloom() -> Any:
    def build_alibi_tensor(attention_mask: Any, num_heads: int, dtype: Any) -> Any:
        batch, seq = attention_mask.shape
        places = ((attention_mask.cumsum(dim=-1) - 1) * attention_mask)[:, None, :]
        alibi = torch.tensor(slopes(num_heads))[..., None] * places
        return alibi.reshape(batch * num_heads, 1, seq).to(dtype)

    return functools.partial(build_alibi_tensor, num_heads=8, dtype=torch.float32)


@ROWS.asked(
    "baichuan-inc/Baichuan-13B _gen_alibi_mask", Slopes(8, "keys", 1.0, True), options={"heads": 8}
)
def _gen_alibi_mask(n_head: int, max_pos: int) -> Any:
    alibi = torch.tensor(slopes(n_head))[:, None, None] * torch.arange(max_pos)[None, None]
    mask = torch.triu(torch.full((max_pos, max_pos), float("-inf")), 1)
    return alibi.expand(n_head, 1, -1) + mask[None]


@ROWS.made("Dao-AILab/flash-attention attn_bias_from_alibi_slopes", Slopes(8))
def flash() -> Any:
    def attn_bias_from_alibi_slopes(
        alibi: Any, seqlen_q: int, seqlen_k: int, causal: bool = False
    ) -> Any:
        rows, columns = torch.arange(seqlen_q)[:, None], torch.arange(seqlen_k)[None]
        return -alibi[:, None, None] * (rows + seqlen_k - seqlen_q - columns).abs()

    return functools.partial(attn_bias_from_alibi_slopes, torch.tensor(slopes(8)))


@ROWS.made("attn_gym generate_alibi_bias (score_mod)", Slopes(8, "offset", 1.0), options=BIAS)
def score_mod() -> Any:
    def alibi_mod(score: Any, b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        return score + (kv_idx - q_idx) * torch.exp2(-((h + 1) * 8.0 / 8))

    return alibi_mod
