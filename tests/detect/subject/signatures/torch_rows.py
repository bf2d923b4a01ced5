"""Over torch: tables of positions and modules that add one."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from tests.detect.subject.loops import Entries, Rows, Waves
from tests.detect.subject.signatures.torch_turns import arange, grid, inv

ROWS = Rows()
ALTERNATE = Waves("interleaved")
DRAWN = torch.randn(128, 64, generator=torch.Generator().manual_seed(3))


def alternate(length: int, dim: int) -> Any:
    angles = grid(torch.arange(length), dim)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


def joined(angles: Any) -> Any:
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


def drawn(shape: tuple[int, ...]) -> Any:
    embedding = nn.Embedding(*shape)
    embedding.weight.data.copy_(DRAWN[: shape[0]])
    return embedding


# --- modules that add a table ---------------------------------------------------------------------


@ROWS.asked("pytorch/examples word_language_model PositionalEncoding (s, b, d)", ALTERNATE)
class Tutorial(nn.Module):
    def __init__(self, d_model: int, dropout: float = 0.1, max_len: int = 5000) -> None:
        super().__init__()
        self.dropout = nn.Dropout(p=dropout)
        self.register_buffer("pe", alternate(max_len, d_model).unsqueeze(0).transpose(0, 1))

    def forward(self, x: Any) -> Any:
        return self.dropout(x + self.pe[: x.size(0), :])


@ROWS.made("harvardnlp/annotated-transformer PositionalEncoding (b, s, d)", ALTERNATE)
class Annotated(nn.Module):
    def __init__(self, d_model: int = 64, dropout: float = 0.1, max_len: int = 5000) -> None:
        super().__init__()
        self.dropout = nn.Dropout(p=dropout)
        self.register_buffer("pe", alternate(max_len, d_model).unsqueeze(0))

    def forward(self, x: Any) -> Any:
        return self.dropout(x + self.pe[:, : x.size(1)].requires_grad_(False))


@ROWS.made("d2l-ai/d2l PositionalEncoding", ALTERNATE)
class Dive(nn.Module):
    def __init__(self, num_hiddens: int = 64, dropout: float = 0.0, max_len: int = 1000) -> None:
        super().__init__()
        self.dropout, self.P = nn.Dropout(dropout), alternate(max_len, num_hiddens)[None]

    def forward(self, X: Any) -> Any:
        return self.dropout(X + self.P[:, : X.shape[1], :])


@ROWS.made("jadore801120/attention-is-all-you-need-pytorch PositionalEncoding", ALTERNATE)
class Jadore(nn.Module):
    def __init__(self, d_hid: int = 64, n_position: int = 400) -> None:
        super().__init__()
        self.register_buffer("pos_table", alternate(n_position, d_hid)[None])

    def forward(self, x: Any) -> Any:
        return x + self.pos_table[:, : x.size(1)].clone().detach()


@ROWS.made("OpenNMT/OpenNMT-py PositionalEncoding (scales its input)", ALTERNATE)
class OpenNmt(nn.Module):
    def __init__(self, dropout: float = 0.1, dim: int = 64, max_len: int = 5000) -> None:
        super().__init__()
        self.dropout, self.dim = nn.Dropout(p=dropout), dim
        self.register_buffer("pe", alternate(max_len, dim)[:, None])

    def forward(self, emb: Any, step: int | None = None) -> Any:
        step = step or 0
        if self.pe.size(0) < step + emb.size(0):
            raise ValueError(f"the sequence is longer than {self.pe.size(0)}")
        return self.dropout(emb * math.sqrt(self.dim) + self.pe[step : emb.size(0) + step])


# --- modules and functions that give a table ------------------------------------------------------


ROWS.made("karpathy/nanoGPT wpe", Entries(DRAWN.numpy()))(lambda: drawn((128, 64)))


@ROWS.made("fairseq SinusoidalPositionalEmbedding", Waves(denominator=31, shift=2))
class Fairseq(nn.Module):
    def __init__(
        self, embedding_dim: int = 64, padding_idx: int = 1, init_size: int = 1024
    ) -> None:
        super().__init__()
        self.dim, self.padding_idx = embedding_dim, padding_idx
        self.weights = self.table(init_size)

    def table(self, length: int) -> Any:
        half = self.dim // 2
        freq = torch.exp(torch.arange(half).float() * -(math.log(10_000) / (half - 1)))
        return joined(torch.arange(length).float()[:, None] * freq)

    def forward(
        self,
        input: Any,  # noqa: A002
        incremental_state: Any = None,
        timestep: Any = None,
        positions: Any = None,
    ) -> Any:
        bsz, seq_len = input.shape
        if positions is None:
            mask = input.ne(self.padding_idx).int()
            positions = (torch.cumsum(mask, dim=1).type_as(mask) * mask).long() + self.padding_idx
        if self.padding_idx + 1 + seq_len > len(self.weights):
            self.weights = self.table(self.padding_idx + 1 + seq_len)
        return self.weights.index_select(0, positions.view(-1)).view(bsz, seq_len, -1).detach()


@ROWS.asked("lucidrains/x-transformers ScaledSinusoidalEmbedding", Waves(scale=64**-0.5))
class ScaledSinusoidal(nn.Module):
    def __init__(self, dim: int, theta: float = 10_000) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1) * dim**-0.5)
        self.register_buffer("inv_freq", inv(dim, theta), persistent=False)

    def forward(self, x: Any, pos: Any = None, seq_start_pos: Any = None) -> Any:
        pos = arange(x, 1) if pos is None else pos
        if seq_start_pos is not None:
            pos = pos - seq_start_pos[..., None]
        return joined(torch.einsum("i,j->ij", pos.float(), self.inv_freq)) * self.scale


@ROWS.made(
    "lucidrains/x-transformers AbsolutePositionalEmbedding", Entries(DRAWN.numpy(), scale=0.125)
)
class Absolute(nn.Module):
    def __init__(self, dim: int = 64, max_seq_len: int = 128) -> None:
        super().__init__()
        self.scale, self.max_seq_len, self.emb = dim**-0.5, max_seq_len, drawn((max_seq_len, dim))

    def forward(self, x: Any, pos: Any = None, seq_start_pos: Any = None) -> Any:
        assert x.shape[1] <= self.max_seq_len, f"the sequence is longer than {self.max_seq_len}"
        return self.emb(arange(x, 1) if pos is None else pos) * self.scale


@ROWS.asked("diffusers get_1d_sincos_pos_embed_from_grid", Waves(), "float64")
def get_1d_sincos_pos_embed_from_grid(
    embed_dim: int, pos: Any, output_type: str = "pt", flip_sin_to_cos: bool = False
) -> Any:
    if output_type != "pt":
        raise ValueError("only output_type 'pt' is supported")
    omega = 1.0 / 10_000 ** (torch.arange(embed_dim // 2, dtype=torch.float64) / (embed_dim / 2.0))
    out = torch.outer(pos.reshape(-1).double(), omega)
    return torch.cat([out.cos(), out.sin()] if flip_sin_to_cos else [out.sin(), out.cos()], dim=1)


@ROWS.asked("diffusers get_timestep_embedding", Waves(denominator=31))
def get_timestep_embedding(
    timesteps: Any, embedding_dim: int, flip_sin_to_cos: bool = False,
    downscale_freq_shift: float = 1, scale: float = 1, max_period: int = 10_000,
) -> Any:  # fmt: skip
    assert len(timesteps.shape) == 1, "Timesteps should be a 1d-array"
    half = embedding_dim // 2
    exponent = -math.log(max_period) * torch.arange(half).float() / (half - downscale_freq_shift)
    emb = scale * (timesteps[:, None].float() * torch.exp(exponent)[None])
    emb = joined(emb)
    return torch.cat([emb[:, half:], emb[:, :half]], dim=-1) if flip_sin_to_cos else emb


@ROWS.asked("diffusers Timesteps", Waves("cos_sin"))
class Timesteps(nn.Module):
    def __init__(
        self, num_channels: int, flip_sin_to_cos: bool = True, downscale_freq_shift: float = 0
    ) -> None:
        super().__init__()
        self.num, self.flip, self.shift = num_channels, flip_sin_to_cos, downscale_freq_shift

    def forward(self, timesteps: Any) -> Any:
        return get_timestep_embedding(timesteps, self.num, self.flip, self.shift)


@ROWS.asked("lucidrains/denoising-diffusion-pytorch SinusoidalPosEmb", Waves(denominator=31))
class SinusoidalPosEmb(nn.Module):
    def __init__(self, dim: int, theta: float = 10_000) -> None:
        super().__init__()
        self.dim, self.theta = dim, theta

    def forward(self, x: Any) -> Any:
        return get_timestep_embedding(x, self.dim, max_period=self.theta)


@ROWS.asked("kimiyoung/transformer-xl PositionalEmbedding (s, 1, d)", Waves())
class TransformerXl(nn.Module):
    def __init__(self, demb: int) -> None:
        super().__init__()
        self.register_buffer("inv_freq", inv(demb))

    def forward(self, pos_seq: Any, bsz: int | None = None) -> Any:
        emb = joined(torch.ger(pos_seq.float(), self.inv_freq))[:, None]
        return emb if bsz is None else emb.expand(-1, bsz, -1)


@ROWS.asked("speechbrain PositionalEncoding (gives the rows of its input)", ALTERNATE)
class SpeechBrain(nn.Module):
    def __init__(self, input_size: int, max_len: int = 2500) -> None:
        super().__init__()
        self.register_buffer("pe", alternate(max_len, input_size)[None])

    def forward(self, x: Any) -> Any:
        return self.pe[:, : x.size(1)].clone().detach()


@ROWS.asked("jadore801120 get_sinusoid_encoding_table (length, dim)", ALTERNATE)
def get_sinusoid_encoding_table(n_position: int, d_hid: int, padding_idx: int | None = None) -> Any:
    return alternate(n_position, d_hid)


@ROWS.asked("openai/whisper sinusoids (length, channels)", Waves(denominator=31))
def sinusoids(length: int, channels: int, max_timescale: int = 10_000) -> Any:
    assert channels % 2 == 0
    increment = math.log(max_timescale) / (channels // 2 - 1)
    inv_timescales = torch.exp(-increment * torch.arange(channels // 2))
    return joined(torch.arange(length)[:, None] * inv_timescales[None])


@ROWS.made("transformers M2M100SinusoidalPositionalEmbedding", Waves(denominator=31, shift=2))
class M2M100(nn.Module):
    def __init__(
        self, num_positions: int = 1024, embedding_dim: int = 64, padding_idx: int = 1
    ) -> None:
        super().__init__()
        self.padding_idx = padding_idx
        self.weights = sinusoids(num_positions + 2, embedding_dim)

    def forward(
        self, input_ids: Any = None, inputs_embeds: Any = None, past_key_values_length: int = 0
    ) -> Any:
        seq = (input_ids if inputs_embeds is None else inputs_embeds[..., 0]).shape[1]
        begin = self.padding_idx + 1 + past_key_values_length
        places = torch.arange(begin, begin + seq)
        return self.weights.index_select(0, places).view(1, seq, -1).detach()


class Offset(nn.Embedding):
    """Rows begin at the third, as BART and OPT have it."""

    def __init__(self) -> None:
        super().__init__(128, 64)
        self.weight.data.copy_(DRAWN)


@ROWS.made("transformers OPTLearnedPositionalEmbedding", Entries(DRAWN.numpy(), shift=2))
class Opt(Offset):
    def forward(
        self, attention_mask: Any, past_key_values_length: int = 0, position_ids: Any = None
    ) -> Any:
        if position_ids is None:
            position_ids = torch.cumsum(attention_mask, dim=1)
            position_ids = (position_ids * attention_mask - 1).long()[:, past_key_values_length:]
        return super().forward(position_ids + 2)


@ROWS.made("transformers BartLearnedPositionalEmbedding", Entries(DRAWN.numpy(), shift=2))
class Bart(Offset):
    def forward(
        self, input_ids: Any, past_key_values_length: int = 0, position_ids: Any = None
    ) -> Any:
        if position_ids is None:
            places = past_key_values_length + torch.arange(input_ids.shape[1])
            position_ids = places.expand(input_ids.shape[0], -1)
        return super().forward(position_ids + 2)


@ROWS.asked("EleutherAI/gpt-neox SinusoidalPositionalEmbedding", Waves())
class NeoxSinusoidal(nn.Module):
    def __init__(self, dim: int, base: int = 10_000) -> None:
        super().__init__()
        self.register_buffer("inv_freq", inv(dim, base))

    def forward(self, x: Any, seq_dim: int = 1) -> Any:
        return joined(torch.outer(arange(x, seq_dim).float(), self.inv_freq))[None]
